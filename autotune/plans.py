"""From a problem to a plan: the public way to WGSL text."""

from autotune import space
from autotune.errors import InvalidConfig
from autotune.kernels import family_of
from autotune.model import Config, DeviceProfile, Plan, Problem


def render(
    problem: Problem,
    config: Config | None = None,
    *,
    device: DeviceProfile | None = None,
    specialize: bool = False,
) -> Plan:
    """The WGSL, bindings and grid of a problem for a config, by default the best known one.

    With `device`, the config is checked against its limits, else only against the problem.
    `specialize` bakes the sizes into the text instead of reading them from a uniform buffer.

    Raises InvalidConfig with the reason where the config is none or does not fit the problem or the device.
    """
    from autotune.lookup import best_config

    if not isinstance(device, DeviceProfile | None):
        raise TypeError(f"device must be a DeviceProfile or None, not {type(device).__name__}")
    family = family_of(problem)
    family.check_problem(problem)
    if config is None:
        config = best_config(problem, device=device).config
    if type(config) not in family.config_types.values():
        raise InvalidConfig(f"{type(config).__name__} is not a config of {family.name}")
    config = space.config_from(family, config.variant, config.parameters())  # a constructor checks nothing
    if device is None:
        reason = next(iter(family.refusals(problem, config)), None)
    else:
        reason = next(space.refusals(family, problem, config, device), None)
    if reason is not None:
        raise InvalidConfig(f"{config.variant} cannot run {family.label(problem)}: {reason}")
    return family.plan(problem, config, specialize=specialize)
