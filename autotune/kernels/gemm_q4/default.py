"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from typing import Any

from autotune.expression import ceil_div
from autotune.kernels.gemm_q4.configs import Blocked, GemmQ4Config, Gemv, SplitK
from autotune.kernels.gemm_q4.problem import GemmQ4Problem
from autotune.kernels.tiles import LANES
from autotune.model import DeviceProfile

FULL = 128
"""Workgroups of 64 invocations; with no more than these a large GPU has idle cores, and K is split."""
WANTED = 512
"""Workgroups to aim for when K is split."""
MOST_SPLITS = 16
"""Shares of K at most."""
GEMV_ROWS = 16
"""Rows of A up to which the kernel that streams W is the better choice."""
MANY_COLUMNS = 4096
"""Columns from which on an invocation may take four of them and leave enough workgroups."""
MANY_K = 1024
"""K from which on an invocation has several loads to make, so that two may be under way at once."""


def default(problem: GemmQ4Problem, profile: DeviceProfile | None) -> GemmQ4Config:
    """Few rows: stream W. Else tiles of 64×64, 32×128 where there are no more than 32 rows, and 32×32 where
    larger ones would be few however K is split; which it is until a GPU has enough to do."""
    if problem.m <= GEMV_ROWS:
        return _gemv(problem)
    on_cpu = profile is not None and profile.is_cpu
    most = 1 if on_cpu else max(min(problem.k // 64, MOST_SPLITS), 1)
    tile_m, tile_n = (32 if size <= 32 else 64 for size in (problem.m, problem.n))
    strip = problem.m <= 32 and problem.n >= 512 and not on_cpu
    if strip:
        tile_n = 128
    elif _tiles(problem, tile_m, tile_n) * max(most, 4) < FULL:
        tile_m = tile_n = 32
    common: dict[str, Any] = {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": 16,
        "thread_m": 8 if strip else tile_m // 8,
        "thread_n": 8 if strip else tile_n // 8,
        "buffering": "prefetch" if strip else "double",
        "unroll_k": 16,
    }
    tiles = _tiles(problem, tile_m, tile_n)
    splits = 1 << max(min(WANTED // tiles, most).bit_length() - 1, 0) if tiles <= FULL else 1
    return SplitK(**common, splits=splits) if splits > 1 else Blocked(**common)


def _tiles(problem: GemmQ4Problem, tile_m: int, tile_n: int) -> int:
    return ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n)


def _gemv(problem: GemmQ4Problem) -> Gemv:
    """Loads of 16 codes: longer ones would spread neighbours' reads of A over more cache lines."""
    rows = 1
    while rows < min(problem.m, 8):
        rows *= 2
    return Gemv(
        rows=rows,
        columns=4 if problem.n >= MANY_COLUMNS else 2,
        lanes_n=4,
        lanes_k=LANES,
        words=2,
        unroll_k=2 if rows <= 2 and problem.k >= MANY_K else 1,
        staging="memory",
        dequant="subtract",
        reduce="tree",
    )
