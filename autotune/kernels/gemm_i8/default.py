"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from autotune.expression import ceil_div
from autotune.kernels.gemm_i8.configs import QUAD, Blocked
from autotune.kernels.gemm_i8.problem import GemmI8Problem

ENOUGH_WORKGROUPS = 64
"""Workgroups that a GPU of any size needs at least, to be worth larger tiles."""
FEW_ROWS = 16
"""Rows of A up to which a lower tile wastes less."""


def default(problem: GemmI8Problem) -> Blocked:
    """64×64 tiles, or 32×32 where those would leave a GPU or themselves idle; 16 rows where A has no more."""
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
