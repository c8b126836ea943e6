"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from typing import Literal

from autotune.expression import ceil_div
from autotune.kernels.gemm.configs import Blocked, GemmConfig, Gemv, SplitK
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.gemm.rules import vec4_possible

FULL = 128
"""Workgroups of 64 invocations below which a large GPU has idle cores: K is split then."""
WANTED = 512
"""Workgroups to aim for when K is split."""
GEMV_ROWS = 8
"""Rows of A up to which the kernel that streams B is the better choice."""


def default(problem: GemmProblem) -> GemmConfig:
    """Few rows: stream B. Else tiles of 64×64, narrower along a short side of C, and 32×32 where the
    larger ones would be few; and where even so they are few, K is split until there is enough to do.
    """
    vector: Literal[1, 4] = 4 if vec4_possible(problem) else 1
    if problem.m <= GEMV_ROWS and not problem.transpose_a and not problem.transpose_b:
        return _gemv(problem, vector)
    tile_m, tile_n = (32 if size <= 32 else 64 for size in (problem.m, problem.n))
    if _tiles(problem, tile_m, tile_n) < FULL // 4:
        tile_m = tile_n = 32
    common = {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": 16,
        "thread_m": tile_m // 8,
        "thread_n": tile_n // 8,
        "lanes_n": 8,
        "strips": True,
        "k_major_a": True,
        "pad_a": 0,
        "unroll_k": 16,
        "group_m": 8,
        "buffering": "double",
        "vector": vector,
        "staged": "storage",
    }
    tiles = _tiles(problem, tile_m, tile_n)
    splits = _power_of_two(min(WANTED // tiles, problem.k // 64, 128)) if tiles <= FULL else 1
    return SplitK(**common, splits=splits) if splits > 1 else Blocked(**common)  # type: ignore[arg-type]


def _tiles(problem: GemmProblem, tile_m: int, tile_n: int) -> int:
    return problem.batch * ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n)


def _power_of_two(most: int) -> int:
    """The largest power of two up to `most`; 1 at least."""
    return 1 << max(most.bit_length() - 1, 0)


def _gemv(problem: GemmProblem, vector: Literal[1, 4]) -> Gemv:
    """One or two rows: 32 invocations share K. More rows: 4 share it, and splits of K fill the GPU."""
    rows = 1 << (problem.m - 1).bit_length()
    if rows <= 2:
        return Gemv(rows=rows, lanes_n=8, threads_k=32, vector=vector, unroll_k=4, splits=1)
    workgroups = problem.batch * ceil_div(problem.n, 32) * ceil_div(problem.m, 4)
    splits = _power_of_two(min(8 * WANTED // workgroups, problem.k // 128, 32))
    return Gemv(rows=4, lanes_n=8, threads_k=8, vector=vector, unroll_k=4, splits=splits)
