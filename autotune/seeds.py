"""Where a search starts: the portable default, the naive kernel, and what won for similar problems."""

from pathlib import Path

from autotune import cache, paths, space
from autotune.kernels.base import Family
from autotune.model import DeviceProfile, Problem
from autotune.space import Axes, Point

MAX_SEEDS = 8
"""Winners from the caches to start with, besides the default and the naive kernel."""


def seeds(family: Family, problem: Problem, profile: DeviceProfile, axes: Axes, root: Path) -> list[Point]:
    """Points of the portable default and of the naive kernel, so that neither can beat the winner, then of
    winners from the caches: this device's first, then near problems before far ones."""
    known = [found for place in (root, paths.shipped_cache_dir()) for _, found in cache.list_entries(place)]
    ranked = sorted(
        (
            (found.device.id != profile.id, found.device.vendor_id != profile.vendor_id, distance, index)
            for index, found in enumerate(known)
            if found.kernel == family.name
            and (distance := family.distance(problem, found.problem)) < float("inf")
        ),
    )
    first = (family.default(problem, profile), family.baseline(problem, profile))
    configs = [*first, *(known[index].config for *_, index in ranked)]
    points = dict.fromkeys(filter(None, (space.point_of(axes, config) for config in configs)))
    return list(points)[: MAX_SEEDS + len(first)]
