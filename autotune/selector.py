"""From a word for a device to the profile that a look-up asks for, without opening any device.

A word is a profile id (`10de-2204-vulkan-naga`), a vendor (`nvidia`) or a vendor and architecture
(`nvidia/ampere`). What such a device allows is taken from the devices known to the caches.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from msgspec import structs

from autotune import cache, layout
from autotune.errors import AutotuneError
from autotune.kernels import KERNELS
from autotune.kernels.base import Family
from autotune.limits import base_profile
from autotune.model import ID, DeviceProfile
from autotune.runtime import DEFAULT_RUNTIME, RUNTIMES, compiler_of, runtime_of


def last_or_base(root: Path, runtime: str | None = None) -> tuple[DeviceProfile, tuple[str, ...]]:
    """The device last opened on this machine through a runtime, else one that grants only the base limits;
    and notes."""
    last = cache.last_device(root, runtime=runtime or DEFAULT_RUNTIME)
    if last is not None:
        return last, ()
    through = f" through {runtime}" if runtime else ""
    return _unknown(runtime), (
        f"no device was opened on this machine{through} yet; only WebGPU's base limits are assumed",
    )


def _unknown(runtime: str | None) -> DeviceProfile:
    """A device of which nothing is known, but perhaps the runtime."""
    base = base_profile()
    return base if runtime is None else structs.replace(base, compiler=compiler_of(runtime))


def select(
    word: str, family: Family, roots: Sequence[Path], runtime: str | None = None
) -> tuple[DeviceProfile, tuple[str, ...]]:
    """The profile that a word stands for (as seen through a runtime, where one is named), and notes about it.

    A vendor or an architecture stands for what all known devices of it allow; a config that one of
    them could not run must not answer. Where none is known, only the base limits are assumed. Raises
    AutotuneError where an id is of another runtime.
    """
    word = word.strip().casefold()
    match = ID.fullmatch(word)
    if runtime is not None and match is not None and match[4] != compiler_of(runtime):
        raise AutotuneError(f"the device {word} is not one that {runtime} sees: its compiler is {match[4]}")
    others = (KERNELS[name] for name in KERNELS if name != family.name)
    of_family = [*_opened(roots, runtime), *_tuned([family], roots, runtime)]
    elsewhere = _tuned(others, roots, runtime)
    if match is not None:
        for profile in chain(of_family, elsewhere):
            if profile.id.casefold() == word:
                return profile, ()
    unknown = (f"no known device matches {word!r}; only WebGPU's base limits are assumed",)
    if match is not None:
        vendor_id, device_id, backend, compiler = match.groups()
        ids = {"vendor_id": int(vendor_id, 16), "device_id": int(device_id, 16)}
        return structs.replace(base_profile(), **ids, backend=backend, compiler=compiler), unknown
    vendor, _, architecture = word.partition("/")

    def matches(profile: DeviceProfile) -> bool:
        return profile.vendor.casefold() == vendor and architecture in ("", profile.architecture.casefold())

    matching = list(filter(matches, of_family)) or list(filter(matches, elsewhere))
    profile = structs.replace(_common(matching, _unknown(runtime)), vendor=vendor, architecture=architecture)
    return profile, () if matching else unknown


def _opened(roots: Sequence[Path], runtime: str | None) -> Iterator[DeviceProfile]:
    """The devices last opened, through each runtime or through one."""
    for root in roots:
        for through in RUNTIMES if runtime is None else (runtime,):
            profile = cache.last_device(root, runtime=through)
            if profile is not None:
                yield profile


def _tuned(families: Iterable[Family], roots: Sequence[Path], runtime: str | None) -> Iterator[DeviceProfile]:
    """Every device that the caches have results of these kernels for, as seen through a runtime or any."""
    for family in families:
        for folder in (folder for root in roots for folder in layout.device_dirs(root, family.name)):
            entries = (cache.read(path, family, []) for path in layout.entries_in(folder))
            first = next((entry for entry in entries if entry is not None), None)
            if first is not None and runtime in (None, runtime_of(first.device)):
                yield first.device


def _common(profiles: Sequence[DeviceProfile], base: DeviceProfile) -> DeviceProfile:
    """A profile without identity that grants what every one of these grants."""
    if not profiles:
        return base
    shared = {}
    for field in ("vendor_id", "backend", "adapter_type", "compiler"):
        values = {getattr(profile, field) for profile in profiles}
        shared[field] = values.pop() if len(values) == 1 else getattr(base, field)
    names = set.intersection(*(set(profile.limits) for profile in profiles))
    features = set.intersection(*(set(profile.features) for profile in profiles))
    limits = {name: min(profile.limits[name] for profile in profiles) for name in sorted(names)}
    lanes = {profile.subgroup_size for profile in profiles}
    shapes = [one for one in profiles[0].subgroup_matrix if all(one in p.subgroup_matrix for p in profiles)]
    return structs.replace(
        base,
        **shared,
        features=tuple(sorted(features)),
        limits=limits,
        subgroup_size=lanes.pop() if len(lanes) == 1 else 0,
        subgroup_matrix=tuple(shapes),
    )
