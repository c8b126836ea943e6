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
MOST_SPLITS = 128
"""Shares of K at most: what they cost to add up grows with them."""
GEMV_ROWS = 8
"""Rows of A up to which the kernel that streams B is the better choice."""
MANY_LINES = 8192
"""Rows or columns of the streamed matrix from which on a GPU is full without more invocations for each."""


def default(problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
    """Few rows or columns: stream the large matrix. Else tiles of 64×64, 32×128 along a short side of C, and
    32×32 where larger ones would be few however K is split; which it is until there is enough to do.

    A software adapter has few cores to fill: there K is not split, and larger, shallower tiles of A in
    rows are read in the order that they lie in.
    """
    vector: Literal[1, 4] = 4 if vec4_possible(problem) else 1
    on_cpu = profile is not None and profile.is_cpu
    short, long = sorted((problem.m, problem.n))
    if short <= GEMV_ROWS:
        return _gemv(problem, split=not on_cpu)
    if on_cpu and short >= 128:
        return Blocked(**_block(128, 128, 8, 16, vector), **_IN_ROWS, group_m=8)  # type: ignore[arg-type]
    most = 1 if on_cpu else max(min(problem.k // 64, MOST_SPLITS), 1)
    if short <= 32 and long >= 512 and not on_cpu:
        tile_m, tile_n = (32, 128) if problem.m == short else (128, 32)
        common = _block(tile_m, tile_n, 8, 8, vector) | _STRIP | {"lanes_n": 8 if tile_n == 128 else 4}
    else:
        tile_m, tile_n = (32 if size <= 32 else 64 for size in (problem.m, problem.n))
        if _tiles(problem, tile_m, tile_n) * max(most, 4) < FULL:
            tile_m = tile_n = 32
        common = _block(tile_m, tile_n, tile_m // 8, tile_n // 8, vector) | _K_MAJOR
    tiles = _tiles(problem, tile_m, tile_n)
    splits = _power_of_two(min(WANTED // tiles, most)) if tiles <= FULL else 1
    if splits > 1:
        return SplitK(**common, group_m=1, splits=splits)  # type: ignore[arg-type]
    return Blocked(**common, group_m=8)  # type: ignore[arg-type]


_K_MAJOR = {"tile_k": 16, "unroll_k": 16, "lanes_n": 8, "k_major_a": True, "buffering": "double"}
_IN_ROWS = {"tile_k": 8, "unroll_k": 8, "lanes_n": 8, "k_major_a": False, "buffering": "double"}
_STRIP = {"tile_k": 16, "unroll_k": 16, "k_major_a": False, "buffering": "prefetch"}


def _block(
    tile_m: int, tile_n: int, thread_m: int, thread_n: int, vector: Literal[1, 4]
) -> dict[str, object]:
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "thread_m": thread_m,
        "thread_n": thread_n,
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
    """Lines along k: 32 neighbours share each, and take two or four lines at once. Lines across k: for one or
    two rows of the small matrix 32 or 64 invocations share K; for more, 4 do, and splits of K fill a GPU."""
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
    many = lines >= MANY_LINES
    if along_k:
        common["columns"] = 4 if many else 2
        unroll_k = 4 if rows <= 4 and not many else 2
        return Gemv(**common, rows=min(rows, 8), lanes_n=2, threads_k=32, unroll_k=unroll_k, splits=1)
    if rows <= 2:
        lanes_n, threads_k = (8, 32) if many else (4, 64)
        return Gemv(**common, rows=rows, lanes_n=lanes_n, threads_k=threads_k, unroll_k=4, splits=1)
    workgroups = problem.batch * ceil_div(lines, 128) * ceil_div(few, 8)
    splits = _power_of_two(min(WANTED // workgroups, problem.k // 128, 32)) if split else 1
    return Gemv(**common, rows=min(rows, 8), lanes_n=32, threads_k=4, unroll_k=2, splits=splits)
