"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from typing import Any, Literal

from autotune.expression import ceil_div
from autotune.kernels.gemm.configs import Blocked, GemmConfig, Gemv, SplitK
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.gemm.rules import vec4_possible
from autotune.kernels.gemm.streaming import FEW, along, larger, vec4_rows
from autotune.model import DeviceProfile

FULL = 128
"""Workgroups of 64 invocations; with no more than these a large GPU has idle cores, and K is split."""
WANTED = 512
"""Workgroups to aim for when K is split."""
GEMV_ROWS = 8
"""Rows of A up to which the kernel that streams B is the better choice."""


def default(problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
    """Few rows: stream B. Else tiles of 64×64, narrower along a short side of C, and 32×32 where the
    larger ones would be few; and where even so they are few, K is split until there is enough to do.

    A software adapter has few cores to fill: there K is not split, and larger, shallower tiles of A in
    rows are read in the order that they lie in.
    """
    vector: Literal[1, 4] = 4 if vec4_possible(problem) else 1
    on_cpu = profile is not None and profile.is_cpu
    if min(problem.m, problem.n) <= GEMV_ROWS:
        return _gemv(problem, split=not on_cpu)
    tile_m, tile_n = (32 if size <= 32 else 64 for size in (problem.m, problem.n))
    if on_cpu and min(problem.m, problem.n) >= 128:
        return Blocked(**_parameters(128, 128, vector), **_IN_ROWS)  # type: ignore[arg-type]
    if _tiles(problem, tile_m, tile_n) < FULL // 4:
        tile_m = tile_n = 32
    common = _parameters(tile_m, tile_n, vector)
    tiles = _tiles(problem, tile_m, tile_n)
    splits = _power_of_two(min(WANTED // tiles, problem.k // 64, 128)) if tiles <= FULL and not on_cpu else 1
    if splits > 1:
        return SplitK(**common, **_K_MAJOR, group_m=1, splits=splits)  # type: ignore[arg-type]
    return Blocked(**common, **_K_MAJOR, group_m=8)  # type: ignore[arg-type]


_K_MAJOR = {"tile_k": 16, "unroll_k": 16, "lanes_n": 8, "k_major_a": True, "buffering": "double"}
_IN_ROWS = {"tile_k": 8, "unroll_k": 8, "lanes_n": 4, "k_major_a": False, "buffering": "double", "group_m": 8}


def _parameters(tile_m: int, tile_n: int, vector: Literal[1, 4]) -> dict[str, object]:
    """Register blocks such that 64 invocations, or 256 for tiles of 128×128, share a tile."""
    invocations_along = 16 if tile_m == 128 else 8
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "thread_m": tile_m // invocations_along,
        "thread_n": tile_n // invocations_along,
        "strips": True,
        "pad_a": 0,
        "vector": vector,
        "staged": "storage",
    }


def _tiles(problem: GemmProblem, tile_m: int, tile_n: int) -> int:
    return problem.batch * ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n)


def _power_of_two(most: int) -> int:
    """The largest power of two up to `most`; 1 at least."""
    return 1 << max(most.bit_length() - 1, 0)


def _gemv(problem: GemmProblem, *, split: bool) -> Gemv:
    """One or two rows: 32 invocations share K. More rows: 8 share it, and splits of K fill a GPU."""
    stream = larger(problem)
    few, lines = sorted((problem.m, problem.n))
    rows = 1 << (few - 1).bit_length()
    along_k = along(problem, stream) == "k"
    common: dict[str, Any] = {
        "stream": stream,
        "columns": 4,
        "vector": 4 if vec4_rows(problem, stream) else 1,
        "staging": "memory" if along(problem, FEW[stream]) == "k" else "workgroup",
        "reduce": "tree",
    }
    if along_k:
        return Gemv(**common, rows=min(rows, 8), lanes_n=2, threads_k=32, unroll_k=2, splits=1)
    if rows <= 2:
        return Gemv(**common, rows=rows, lanes_n=8, threads_k=32, unroll_k=4, splits=1)
    workgroups = problem.batch * ceil_div(lines, 32) * ceil_div(few, 4)
    splits = _power_of_two(min(8 * WANTED // workgroups, problem.k // 128, 32)) if split else 1
    return Gemv(**common, rows=4, lanes_n=8, threads_k=8, unroll_k=4, splits=splits)
