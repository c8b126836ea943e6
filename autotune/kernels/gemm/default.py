"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from typing import Any, Literal

from msgspec import structs

from autotune.expression import ceil_div
from autotune.kernels.gemm.configs import (
    Blocked,
    GemmConfig,
    Gemv,
    MatrixUnits,
    Packed,
    PackedMatrixUnits,
    SliceK,
    SplitK,
    tile_depth,
)
from autotune.kernels.gemm.matrix import MATRIX_RULES, PACKED_MATRIX_RULES, product_of, units
from autotune.kernels.gemm.packing import copies_fit
from autotune.kernels.gemm.plan import resources
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.gemm.rules import vec4_possible
from autotune.kernels.gemm.streaming import FEW, along, larger, vec4_rows
from autotune.kernels.matrix_tiles import default_tiles
from autotune.kernels.tiles import NVIDIA
from autotune.limits import BASE_LIMITS
from autotune.model import DTYPE_BYTES, DeviceProfile

FULL = 128
"""Workgroups of 64 invocations; with no more than these a large GPU has idle cores, and K is split."""
WANTED = 512
"""Workgroups to aim for when K is split."""
MOST_SPLITS = 128
"""Shares of K at most: what they cost to add up grows with them."""
SLICES = 4
"""Sets of invocations of a workgroup that share K, where they do."""
SHORT_K = 1024
"""K up to which they do; splitting it costs a second pass. (512³ took an NVIDIA H200 12.8 µs so, 17.9 with K
split.)"""
GEMV_ROWS = 8
"""Rows of A up to which the kernel that streams B is the better choice."""
MATRIX_ROWS = 16
"""Rows and columns of C, and depth, up to which matrix units would mostly multiply zeros."""
MANY_TILES = 240
"""Tiles of 128×128 from which on they fill a large GPU of NVIDIA's, two workgroups a core."""
MANY_LINES = 8192
"""Rows or columns of the streamed matrix from which on a GPU is full without more invocations for each."""


def default(problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
    """Few rows or columns: stream the large matrix. Else tiles of 64×64, 32×128 along a short side of C, and
    32×32 where larger ones would be few however K is split; which it is until there is enough to do.
    Where K is split, more invocations share a tile; where nothing comes in fours, they share smaller ones.
    A short K is shared within workgroups instead, where C is neither short nor large.

    On NVIDIA's GPUs, large matrices take the largest register blocks, and are packed first where rows are no
    whole vec4s. Where a device has matrix units for the types, all but small or narrow problems are theirs.

    A software adapter has few cores to fill, so there K is not split.
    """
    on_matrices = _on_matrix_units(problem, profile)
    if on_matrices is not None:
        return on_matrices
    vector: Literal[1, 4] = 4 if vec4_possible(problem) else 1
    on_cpu = profile is not None and profile.is_cpu
    short = min(problem.m, problem.n)
    if short <= GEMV_ROWS:
        return _gemv(problem, profile)
    on_nvidia = profile is not None and profile.vendor_id == NVIDIA
    many = short >= 128 and _tiles(problem, 128, 128) >= MANY_TILES
    if on_nvidia and many and (vector == 4 or copies_fit(problem, profile)):
        turned = vector == 4 and (problem.transpose_b or not problem.transpose_a)
        return (Blocked if vector == 4 else Packed)(**_large(problem, turned=turned))
    return _on_cpu(problem, vector) if on_cpu else _on_gpu(problem, vector, profile)


def _on_gpu(problem: GemmProblem, vector: Literal[1, 4], profile: DeviceProfile | None) -> GemmConfig:
    """Tiles of middle size, and K shared or split until there is enough to do."""
    sliced = _sliced(problem, vector, profile)
    if sliced is not None:
        return sliced
    short, long = sorted((problem.m, problem.n))
    most = max(min(problem.k // 32, MOST_SPLITS), 1)
    if short <= 32 and long >= 512:
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
        if tile_m == tile_n == 64:
            common = _block(64, 64, 8, 4, vector) | _STRIP | {"lanes_n": 8}
        return SplitK(**common, group_m=1, splits=splits)  # type: ignore[arg-type]
    if vector == 1 and tile_m == tile_n == 64:
        common = _block(64, 32, 16, 4, vector) | _STRIP | {"lanes_n": 8}
    return Blocked(**common, group_m=8)  # type: ignore[arg-type]


def _sliced(problem: GemmProblem, vector: Literal[1, 4], profile: DeviceProfile | None) -> SliceK | None:
    """Tiles of 32×32, whose steps of k several sets of invocations share; half as deep where they do not fit.
    None where these would not fill half a GPU or tiles of 64×64 do, where K or a side of C is too short, or
    K long.
    """
    common = _block(32, 32, 8, 4, vector) | _STRIP | {"lanes_n": 8, "group_m": 1}
    config = SliceK(**common, slices=SLICES, splits=1)  # type: ignore[arg-type]
    if min(problem.m, problem.n) <= 32 or not tile_depth(config) <= problem.k <= SHORT_K:
        return None
    if not _tiles(problem, 64, 64) <= FULL // 2 <= _tiles(problem, 32, 32):
        return None
    limits = BASE_LIMITS if profile is None else profile.limits
    (needs,) = resources(problem, config)
    if needs.workgroup_bytes <= limits["maxComputeWorkgroupStorageSize"]:
        return config
    return structs.replace(config, tile_k=8, unroll_k=8)


def _large(problem: GemmProblem, *, turned: bool) -> dict[str, Any]:
    """The largest register blocks, everything asked for ahead; `turned` where a tile is turned around."""
    more = {"banks": "swizzle" if turned else "plain", "group_m": 8}
    if problem.dtype != problem.accumulate:  # turned into f32 once, and not at each use
        more["staged"] = "accumulator"
    return _block(128, 128, 16, 8, 4) | _AHEAD | more


def _on_cpu(problem: GemmProblem, vector: Literal[1, 4]) -> Blocked:
    """Large, shallow tiles, or smaller ones along a short side of C; A in rows, read as they lie."""
    if min(problem.m, problem.n) >= 128:
        common = _block(128, 128, 8, 16, vector) | _IN_ROWS
    elif problem.m < problem.n and problem.n >= 256:
        common = _block(32, 128, 16, 8, vector) | _SINGLE | {"lanes_n": 16}
    else:
        tile_n, edge = (64, 8) if problem.n > 32 else (32, 4)
        common = _block(32, tile_n, edge, edge, vector) | _SINGLE | {"lanes_n": 8}
    return Blocked(**common, group_m=8)  # type: ignore[arg-type]


def _on_matrix_units(problem: GemmProblem, profile: DeviceProfile | None) -> MatrixUnits | None:
    """Tiles of 128×128 where they fill half a GPU, else smaller ones, K split until these do; where there are
    many, what does not lie in whole words is packed first. None where the problem is small, or the device
    lacks such units.
    """
    if min(problem.m, problem.n, problem.k) <= MATRIX_ROWS:
        return None
    packs = _tiles(problem, 64, 64) > FULL and copies_fit(problem, profile)
    for fields in default_tiles(profile, product_of(problem), tile_k=32):
        tiles = _tiles(problem, fields["tile_m"], fields["tile_n"])
        if fields["tile_m"] == 128 and tiles < MANY_TILES // 2:
            continue
        splits = 1 if tiles > FULL else _power_of_two(min(WANTED // tiles, problem.k // 256, 16))
        chosen = fields | {"splits": splits, "group_m": 8 if splits == 1 else 1}
        shape = fields["matrix"]
        in_words = min(units(problem, shape)) == product_of(problem).per_word(shape)
        kind, rules = MatrixUnits, MATRIX_RULES
        if packs and not in_words:
            kind, rules = PackedMatrixUnits, PACKED_MATRIX_RULES
        if all(rule.holds(problem, chosen) for rule in rules):
            return kind(**chosen)
    return None


_AHEAD = {
    "tile_k": 8,
    "unroll_k": 8,
    "lanes_n": 8,
    "k_major_a": True,
    "buffering": "ahead",
    "commit_k": 1,
}
_K_MAJOR = {"tile_k": 16, "unroll_k": 16, "lanes_n": 8, "k_major_a": True, "buffering": "double"}
_IN_ROWS = {"tile_k": 8, "unroll_k": 8, "lanes_n": 8, "k_major_a": False, "buffering": "double"}
_STRIP = {"tile_k": 16, "unroll_k": 16, "k_major_a": False, "buffering": "prefetch"}
_SINGLE = _STRIP | {"buffering": "single"}


def _block(
    tile_m: int, tile_n: int, thread_m: int, thread_n: int, vector: Literal[1, 4]
) -> dict[str, object]:
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "thread_m": thread_m,
        "thread_n": thread_n,
        "strips": True,
        "banks": "plain",
        "commit_k": 0,
        "order": "rows",
        "vector": vector,
        "staged": "storage",
    }


def _tiles(problem: GemmProblem, tile_m: int, tile_n: int) -> int:
    return problem.batch * ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n)


def _power_of_two(most: int) -> int:
    """The largest power of two up to `most`; 1 at least."""
    return 1 << max(most.bit_length() - 1, 0)


def _gemv(problem: GemmProblem, profile: DeviceProfile | None) -> Gemv:
    """Lines along k: a workgroup shares out one or a few of them. Lines across k: for one or two rows of the
    small matrix invocations share K, next to each other as many as 64 bytes of a row take; for more, 4 share
    it, and splits of K fill a GPU. f16 has twice the elements under way, so as many bytes."""
    stream = larger(problem)
    few, lines = sorted((problem.m, problem.n))
    rows = 1 << (few - 1).bit_length()
    on_cpu = profile is not None and profile.is_cpu
    many = lines >= MANY_LINES
    half = problem.dtype == "f16"
    chosen: dict[str, Any] = {
        "stream": stream,
        "rows": min(rows, 8),
        "columns": 4,
        "vector": 4 if vec4_rows(problem, stream) else 1,
        "splits": 1,
        "staging": "memory" if along(problem, FEW[stream]) == "k" else "workgroup",
        "reduce": "tree",
    }
    if along(problem, stream) == "k":
        if on_cpu:
            unroll_k = 4 if rows <= 4 and not many else 2
            chosen |= {"columns": 4 if many else 2, "lanes_n": 2, "threads_k": 32, "unroll_k": unroll_k}
        elif rows > 2 and many:
            return Gemv(**chosen | {"lanes_n": 8, "threads_k": 32, "unroll_k": 1, "staging": "workgroup"})
        elif rows > 2:
            chosen |= {"rows": 4, "lanes_n": 4 if half else 2, "unroll_k": 4 if half else 2}
            chosen |= {"threads_k": 128 // chosen["lanes_n"]}
        else:
            wide = {"columns": 2, "lanes_n": 1} if half else {"columns": 1, "lanes_n": 2}
            # two staged rows of four groups would be 16 KiB by themselves
            unroll_k = 2 if rows == 2 and chosen["staging"] == "workgroup" else 4
            chosen |= {**wide, "threads_k": 128, "unroll_k": unroll_k}
        exchanged = problem.accumulate == "f32" and profile is not None and "subgroups" in profile.features
        if exchanged and not on_cpu:
            chosen["reduce"] = "subgroup"
    elif rows <= 2 and on_cpu:  # barriers of many invocations take most of the time there
        chosen |= {"lanes_n": 4, "threads_k": 8, "unroll_k": 4}
    elif rows <= 2:
        lanes_n = 8 if many or half else 4
        chosen |= {"lanes_n": lanes_n, "threads_k": 256 // lanes_n, "unroll_k": 4}
    else:
        chosen |= {"lanes_n": 32, "threads_k": 4, "unroll_k": 2}
        if not on_cpu:
            workgroups = problem.batch * ceil_div(lines, 128) * ceil_div(few, 8)
            wanted = max(WANTED // workgroups, problem.k // 256)
            sums = problem.batch * problem.m * problem.n * DTYPE_BYTES[problem.accumulate]
            most = min(problem.k // 128, 32, BASE_LIMITS["maxStorageBufferBindingSize"] // sums)
            chosen |= {"splits": _power_of_two(min(wanted, most)), "staging": "workgroup"}
    return Gemv(**chosen)
