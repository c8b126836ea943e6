"""The strategies by name."""

from collections.abc import Callable

from autotune.errors import AutotuneError
from autotune.search.board import Strategy
from autotune.search.model_based import ModelBased
from autotune.search.plain import Exhaustive, Local, Random
from autotune.space import Space

DEFAULT = "default"


def _tpe(space: Space, seed: int) -> Strategy:
    from autotune.search.borrowed import tpe

    return tpe(space, seed)


def _cmaes(space: Space, seed: int) -> Strategy:
    from autotune.search.borrowed import cmaes

    return cmaes(space, seed)


SAMPLERS: dict[str, Callable[[Space, int], Strategy]] = {
    DEFAULT: lambda _space, seed: ModelBased(seed),
    "random": lambda _space, seed: Random(seed),
    "exhaustive": lambda _space, _seed: Exhaustive(),
    "local": lambda _space, seed: Local(seed),
    "tpe": _tpe,
    "cmaes": _cmaes,
}
"""Each takes the space and a seed."""


def make(name: str, space: Space, seed: int) -> Strategy:
    """The strategy of this name. Raises AutotuneError where there is none, or something is not installed."""
    if name not in SAMPLERS:
        raise AutotuneError(f"there is no sampler {name!r}; there are {', '.join(SAMPLERS)}")
    return SAMPLERS[name](space, seed)
