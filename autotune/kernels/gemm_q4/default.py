"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from autotune.expression import ceil_div
from autotune.kernels.gemm_q4.configs import Blocked, GemmQ4Config, Gemv
from autotune.kernels.gemm_q4.problem import GemmQ4Problem
from autotune.kernels.tiles import LANES

ENOUGH_WORKGROUPS = 64
"""Workgroups from which on tiles of 64×64 are worth it; with fewer, a large GPU would be mostly idle."""
GEMV_ROWS = 16
"""Rows of A up to which the kernel that streams W is the better choice."""
MANY_COLUMNS = 4096
"""Columns from which on an invocation may take four of them and leave enough workgroups."""
MANY_K = 1024
"""K from which on an invocation has several loads to make, so that two may be under way at once."""


def default(problem: GemmQ4Problem) -> GemmQ4Config:
    """Few rows: stream W. Else tiles of 64×64, or 32×32 where those would be few, or half empty."""
    if problem.m <= GEMV_ROWS:
        return _gemv(problem)
    tiles = ceil_div(problem.m, 64) * ceil_div(problem.n, 64)
    fits = min(problem.m, problem.n) >= 32
    tile, block = (64, 8) if fits and tiles >= ENOUGH_WORKGROUPS else (32, 4)
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
