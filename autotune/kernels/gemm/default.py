"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from typing import Literal

from autotune.expression import ceil_div
from autotune.kernels.gemm.configs import Blocked, GemmConfig, Gemv, SplitK
from autotune.kernels.gemm.problem import GemmProblem

ENOUGH_WORKGROUPS = 64
"""Workgroups that a GPU of any size needs at least, to be worth larger tiles."""
GEMV_ROWS = 8
"""Rows of A up to which the kernel that streams B is the better choice."""


def default(problem: GemmProblem) -> GemmConfig:
    """Few rows: stream B. Else 64×64 tiles, or 32×32 where those would leave a GPU idle; and where even
    they would, K is split until there is enough to do.
    """
    vector: Literal[1, 4] = 4 if problem.k % 4 == 0 and problem.n % 4 == 0 else 1
    if problem.m <= GEMV_ROWS:
        return _gemv(problem, vector)
    tile, block = (64, 8) if _tiles(problem, 64) >= ENOUGH_WORKGROUPS else (32, 4)
    common = {
        "tile_m": tile,
        "tile_n": tile,
        "tile_k": 16,
        "thread_m": block,
        "thread_n": block,
        "lanes_n": 8,
        "strips": True,
        "transpose_a": True,
        "pad_a": 0,
        "unroll_k": 16,
        "group_m": 8,
        "buffering": "double",
        "vector": vector,
        "staged": "storage",
    }
    splits = _splits(ENOUGH_WORKGROUPS * 2 // _tiles(problem, tile), problem.k // 256)
    return SplitK(**common, splits=splits) if splits > 1 else Blocked(**common)  # type: ignore[arg-type]


def _tiles(problem: GemmProblem, tile: int) -> int:
    return ceil_div(problem.m, tile) * ceil_div(problem.n, tile)


def _splits(wanted: int, most: int) -> int:
    """The largest power of two that both allow."""
    splits = 1
    while 2 * splits <= min(wanted, most, 64):
        splits *= 2
    return splits


def _gemv(problem: GemmProblem, vector: Literal[1, 4]) -> Gemv:
    rows = 1
    while rows < problem.m:
        rows *= 2
    lanes_n, threads_k, unroll_k = 16, 16, 2
    workgroups = ceil_div(problem.n, 4 * lanes_n)
    splits = _splits(4 * ENOUGH_WORKGROUPS // workgroups, problem.k // (4 * unroll_k * threads_k))
    return Gemv(
        rows=rows,
        lanes_n=lanes_n,
        threads_k=threads_k,
        vector=vector,
        unroll_k=unroll_k if rows <= 4 else 1,
        splits=splits,
    )
