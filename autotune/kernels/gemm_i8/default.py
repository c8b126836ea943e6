"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from autotune.expression import ceil_div
from autotune.kernels.gemm_i8.configs import QUAD, Blocked
from autotune.kernels.gemm_i8.problem import GemmI8Problem

ENOUGH_WORKGROUPS = 64
"""Workgroups from which on tiles of 64×64 are worth it; with fewer, a large GPU would be mostly idle."""
FEW_ROWS = 16
"""Rows of A up to which tiles have only 16 rows: higher ones would be mostly empty."""


def default(problem: GemmI8Problem) -> Blocked:
    """Tiles of 64×64, or 32×32 where those would be few or partly empty, or 16×32 where A has few rows."""
    workgroups = ceil_div(problem.m, 64) * ceil_div(problem.n, 64)
    large = workgroups >= ENOUGH_WORKGROUPS and min(problem.m, problem.n) >= 64
    tile, block = (64, 8) if large else (32, 4)
    tile_m, tile_n, thread = (16, 32, 4) if problem.m <= FEW_ROWS else (tile, tile, block)
    return Blocked(
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=32,
        thread_m=thread,
        thread_n=thread,
        lanes_n=8,
        vector=4 if problem.k % QUAD == 0 else 1,
        pad=1,
        buffering="double",
        unroll_k=32,
    )
