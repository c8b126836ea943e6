"""The look-up for library authors: `best_config` answers in microseconds once it has answered.

Nothing here needs a GPU, numpy or a template, and nothing here imports what does.
"""

import os
from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, structs

from autotune import cache, layout, paths, selector
from autotune.files import Stamp, settled, stamp
from autotune.kernels import family_of
from autotune.kernels.base import Family
from autotune.levels import Answer, Level, find
from autotune.model import DeviceProfile, Problem
from autotune.runtime import DEFAULT_RUNTIME, compiler_of

__all__ = ["Answer", "Level", "best_config", "cached", "find"]

_MEMO_SIZE = 4096


class _Held(Struct, frozen=True):
    """An answer given before, and what it stands on."""

    answer: Answer
    watched: tuple[str, ...]
    stamps: tuple[Stamp, ...]


_memo: dict[Hashable, _Held] = {}


def best_config(
    problem: Problem,
    *,
    device: DeviceProfile | str | None = None,
    cache_dir: str | Path | None = None,
    runtime: str | None = None,
) -> Answer:
    """The best config known for a problem, with its provenance. Always answers, without any GPU work.

    `device` is a profile, a profile id, a vendor (`nvidia`), or vendor and architecture
    (`nvidia/hopper`); by default the device last opened on this machine, else any device that
    grants WebGPU's base limits. `runtime` says which runtime sees it, `wgpu` or `dawn`; by default `wgpu` the
    one last opened, and either one that is named. Answers are held in memory until a cache file
    behind them changes.

    Raises TypeError where no kernel family has this type of problem, InvalidProblem where the problem makes
    no sense, and AutotuneError where `cache_dir` or AUTOTUNE_CACHE_DIR cannot be a cache, there is no such
    runtime, or the device is of another one.
    """
    if not isinstance(problem, Problem):
        family_of(problem)  # raises, where an unhashable one would fail below
    if not isinstance(device, DeviceProfile | str | None):
        raise TypeError(f"device must be a DeviceProfile, a text or None, not {type(device).__name__}")
    user_root = _user_root(cache_dir)
    # a profile holds a dict, so it has no hash of its own
    asked = _fingerprint(device) if isinstance(device, DeviceProfile) else device
    key = (type(problem), problem, asked, str(user_root), runtime)
    held = _memo.get(key)
    if held is not None and held.stamps == tuple(map(stamp, held.watched)):
        return held.answer

    family = family_of(problem)
    family.check_problem(problem)
    roots = (user_root, paths.shipped_cache_dir())
    # stamps are taken before anything is read: a change in between only costs another look-up
    watched = [
        *(str(user_root / name) for name in layout.DEVICE_FILES.values()),
        *(str(root / family.name) for root in roots),
    ]
    stamps = list(map(stamp, watched))
    profile, notes = _profile(family, device, roots, runtime)
    places = [layout.entry_path(root, family, problem, profile) for root in roots]
    more = [str(place) for path in places for place in (path.parent, path)]
    stamps += map(stamp, more)
    answer = find(family, problem, profile, user_root=roots[0], shipped_root=roots[1])
    if answer.path is not None and answer.path not in places:
        more.append(str(answer.path))
        stamps.append(stamp(str(answer.path)))
    answer = structs.replace(answer, notes=notes + answer.notes)
    if settled(*stamps):
        if len(_memo) >= _MEMO_SIZE:
            _memo.clear()
        _memo[key] = _Held(answer, (*watched, *more), tuple(stamps))
    return answer


def asked_device(
    problem: Problem,
    *,
    device: DeviceProfile | str | None = None,
    cache_dir: str | Path | None = None,
    runtime: str | None = None,
) -> DeviceProfile:
    """The profile for which `best_config` answers."""
    roots = (_user_root(cache_dir), paths.shipped_cache_dir())
    return _profile(family_of(problem), device, roots, runtime)[0]


def _profile(
    family: Family, device: DeviceProfile | str | None, roots: tuple[Path, Path], runtime: str | None
) -> tuple[DeviceProfile, tuple[str, ...]]:
    if runtime is not None:
        compiler_of(runtime)  # raises, where there is no such runtime
    if device is None:
        return selector.last_or_base(roots[0], runtime)
    return selector.select(device, family, roots, runtime) if isinstance(device, str) else (device, ())


def cached(
    problem: Problem,
    *,
    adapter: str | None = None,
    cache_dir: str | Path | None = None,
    runtime: str = DEFAULT_RUNTIME,
) -> tuple[Answer, DeviceProfile] | None:
    """The finished, fresh answer for exactly this problem on the device that `tune` would open.

    Opens nothing: the device is the one that the same selection opened last through this runtime here. None
    where that is not known, or where there is no such answer.
    """
    root = _user_root(cache_dir)
    profile = cache.last_device(root, cache.selection(adapter, runtime), runtime)
    if profile is None:
        return None
    answer = cached_on(profile, problem, cache_dir=cache_dir)
    return None if answer is None else (answer, profile)


def cached_on(
    profile: DeviceProfile, problem: Problem, *, cache_dir: str | Path | None = None
) -> Answer | None:
    """The finished, fresh answer for exactly this problem on a device, or None."""
    answer = find(family_of(problem), problem, profile, user_root=_user_root(cache_dir))
    return answer if answer.fresh else None


def _user_root(cache_dir: str | Path | None) -> Path:
    if cache_dir or os.environ.get(paths.VARIABLE):
        return paths.user_cache_to_read(cache_dir)
    return _platform_root(*map(os.environ.get, ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA")))


@lru_cache(maxsize=16)
def _platform_root(*_environment: str | None) -> Path:
    """The platform's cache folder; asking for it costs more than the rest of a warm look-up."""
    return paths.user_cache_to_read()


def _fingerprint(profile: DeviceProfile) -> Hashable:
    """All of a profile that an answer depends on, with a hash."""
    return tuple(
        tuple(value.items()) if isinstance(value, dict) else value for value in structs.astuple(profile)
    )
