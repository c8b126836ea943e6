"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from typing import Literal

from autotune.expression import ceil_div
from autotune.kernels.gemm_q4.configs import Blocked, GemmQ4Config, Gemv
from autotune.kernels.gemm_q4.problem import GemmQ4Problem

ENOUGH_WORKGROUPS = 64
"""Workgroups that a GPU of any size needs at least, to be worth larger tiles."""
GEMV_ROWS = 16
"""Rows of A up to which the kernel that streams W is the better choice."""


def default(problem: GemmQ4Problem) -> GemmQ4Config:
    """Few rows: stream W. Else 64×64 tiles, or 32×32 where those would leave a GPU idle."""
    if problem.m <= GEMV_ROWS:
        return _gemv(problem)
    tiles = ceil_div(problem.m, 64) * ceil_div(problem.n, 64)
    tile, block = (64, 8) if tiles >= ENOUGH_WORKGROUPS else (32, 4)
    return Blocked(
        tile_m=tile,
        tile_n=tile,
        tile_k=16,
        thread_m=block,
        thread_n=block,
        buffering="prefetch",
        unroll_k=16,
    )


def _gemv(problem: GemmQ4Problem) -> Gemv:
    rows = 1
    while rows < min(problem.m, 8):
        rows *= 2
    words: Literal[2, 4] = 4 if problem.k % 32 == 0 else 2
    return Gemv(rows=rows, columns=2, lanes_n=4, lanes_k=32, words=words, unroll_k=1)
