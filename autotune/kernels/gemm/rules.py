"""Which configs are legal, with reasons. `naive` and `tiled` need no rules: limits alone decide."""

from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm.packing import INDEXABLE_COPIES, of_packed
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.gemm.streaming import FEW, along, larger, vec4_rows
from autotune.kernels.tiles import (
    LANES_FIT,
    MAX_GEMV_M,
    REGISTER_BLOCK,
    TILE_SIZES,
    WHOLE_REGISTER_BLOCKS,
    even_loads,
    few_tiles,
    good_rows,
    unrolled_code,
    vector_access,
    whole_lanes,
    whole_rows,
)

MAX_UNROLLED = 2048
"""Multiply-adds written out, four of them a vec4; beyond this, compile time grew without any gain."""
COPIES_PAY = 2048**3
"""Multiply-adds from which on turning A around first may pay, though it could be read in vec4s as it lies:
an NVIDIA H200 took 2.2 % less time for 4096³."""
MAX_GEMV_UNROLLED = 32
"""Loads of four k written out for all rows in the gemv kernel."""
MAX_GEMV_SUMS = 64
"""Sums that an invocation of the gemv kernel may keep, beside the values under way."""
MAX_GEMV_LOADS = 32
"""vec4s of the streamed matrix that an invocation may have under way: 128 registers."""


def vec4_possible(p: GemmProblem) -> bool:
    """Whether A and B can be read in vec4s: stored rows have, and start at, multiples of 4 elements."""
    return vec4_rows(p, "a") and vec4_rows(p, "b")


def _pieces(p: GemmProblem, c: Parameters) -> tuple[int, int]:
    """Pieces in which A's and B's tiles are carried: vec4s, or 4×4 blocks where a tile is turned around."""
    turned_a = c["k_major_a"] != p.transpose_a
    pieces_a = c["tile_m"] * c["tile_k"] // (16 if turned_a else 4)
    return pieces_a, c["tile_n"] * c["tile_k"] // (16 if p.transpose_b else 4)


def _swizzled(p: GemmProblem, c: Parameters) -> tuple[int, ...]:
    """Extents across k of the tiles that are turned around into rows of k, and can be swizzled."""
    tile_a = (c["tile_m"],) if c["k_major_a"] and not p.transpose_a else ()
    return (*tile_a, c["tile_n"]) if p.transpose_b else tile_a


VECTOR_RULES = vector_access(vec4_possible, "vec4 access needs rows of A and B in multiples of 4")

BLOCKED_RULES = (
    *TILE_SIZES,
    *WHOLE_REGISTER_BLOCKS,
    Rule(
        ("thread_m", "thread_n", "tile_k"),
        "register block or tile depth not a multiple of a vec4",
        lambda _, c: c["thread_m"] % 4 == c["thread_n"] % 4 == c["tile_k"] % 4 == 0,
    ),
    REGISTER_BLOCK,
    *LANES_FIT,
    Rule(
        ("tile_k", "unroll_k", "k_major_a"),
        "unrolled steps do not divide the tile's depth",
        lambda _, c: c["tile_k"] % c["unroll_k"] == 0 and (c["k_major_a"] or c["unroll_k"] % 4 == 0),
    ),
    Rule(
        ("tile_k", "unroll_k", "k_major_a", "buffering", "commit_k"),
        "reading ahead takes a k-major tile, all of its steps written out",
        lambda _, c: (
            c["buffering"] != "ahead"
            or (c["k_major_a"] and c["unroll_k"] == c["tile_k"] and c["commit_k"] < c["tile_k"])
        ),
    ),
    Rule(
        ("buffering", "commit_k"),
        "there is a step to commit before only where it is read ahead",
        lambda _, c: c["buffering"] == "ahead" or c["commit_k"] == 0,
        needed=False,
    ),
    Rule(
        ("buffering", "order"),
        "multiply-adds have an order of their own only where all steps are written out and read ahead",
        lambda _, c: c["buffering"] == "ahead" or c["order"] in ("rows", "zigzag"),
        needed=False,
    ),
    unrolled_code(MAX_UNROLLED),
    even_loads(_pieces, "k_major_a"),
    whole_rows(4),
    Rule(
        ("tile_m", "tile_n", "tile_k", "unroll_k", "k_major_a", "banks"),
        "columns are swizzled in eights, every other four rows of k",
        lambda p, c: (
            c["banks"] != "swizzle"
            or (
                c["tile_k"] % 8 == 0
                and (c["unroll_k"] % 8 == 0 or c["unroll_k"] == 4)
                and all(across % 32 == 0 for across in _swizzled(p, c))
            )
        ),
    ),
    Rule(
        ("k_major_a", "banks"),
        "no tile is turned around, so none is swizzled",
        lambda p, c: c["banks"] != "swizzle" or p.transpose_b or (c["k_major_a"] and not p.transpose_a),
        needed=False,
    ),
    *VECTOR_RULES,
    Rule(
        ("staged",),
        "staging in the accumulator's type changes nothing here",
        lambda p, c: c["staged"] == "storage" or p.dtype != p.accumulate,
        needed=False,
    ),
)

PACKED_RULES = (
    INDEXABLE_COPIES,
    Rule(
        ("vector",),
        "rows of A and B are whole vec4s as they lie, and copies would not pay",
        lambda p, _: not vec4_possible(p) or (along(p, "a") == "k" and p.m * p.n * p.k >= COPIES_PAY),
        needed=False,
    ),
    *of_packed(BLOCKED_RULES),
)

SPLIT_K_RULES = (*BLOCKED_RULES, *few_tiles(lambda p: p.batch))

SLICE_K_RULES = (
    *BLOCKED_RULES,
    few_tiles(lambda p: p.batch)[0],
    Rule(
        ("tile_k", "slices", "splits"),
        "more slices and splits than K has tiles",
        lambda p, c: c["splits"] * c["slices"] * c["tile_k"] <= p.k,
        needed=False,
    ),
)
"""Those of one slice hold: with more, a tile is as many times as deep, and as many invocations carry it."""


def _few(p: GemmProblem, stream: str) -> int:
    """Rows or columns of the matrix that is not streamed."""
    return p.n if stream == "a" else p.m


GEMV_RULES = (
    Rule(
        ("stream",),
        "the smaller matrix would be streamed",
        lambda p, c: c["stream"] == larger(p),
        needed=False,
    ),
    Rule(
        ("stream", "rows"),
        "gemv is for few rows or columns",
        lambda p, c: (few := _few(p, c["stream"])) <= MAX_GEMV_M and good_rows(c["rows"], few),
        needed=False,
    ),
    Rule(
        ("stream", "columns"),
        "what lies side by side is taken four at a time",
        lambda p, c: c["columns"] == 4 or along(p, c["stream"]) == "k",
    ),
    Rule(
        ("stream", "vector"),
        "vec4 access needs rows of the streamed matrix in multiples of 4",
        lambda p, c: c["vector"] == 1 or vec4_rows(p, c["stream"]),
    ),
    Rule(
        ("stream", "vector"),
        "scalar access where vec4 is possible",
        lambda p, c: c["vector"] == 4 or not vec4_rows(p, c["stream"]),
        needed=False,
    ),
    Rule(
        ("stream", "staging"),
        "four k of the small matrix do not lie together, and are read again for each line of the large one",
        lambda p, c: c["staging"] == "workgroup" or along(p, FEW[c["stream"]]) == "k",
        needed=False,
    ),
    whole_lanes(("lanes_n", "threads_k"), lambda c: c["lanes_n"] * c["threads_k"], needed=True),
    Rule(
        ("threads_k",),
        "invocations along K are not a power of two",
        lambda _, c: c["threads_k"] & (c["threads_k"] - 1) == 0,
    ),
    Rule(
        ("threads_k", "unroll_k", "splits"),
        "more splits than K has rounds",
        lambda p, c: c["splits"] == 1 or c["splits"] * c["threads_k"] * 4 * c["unroll_k"] <= p.k,
        needed=False,
    ),
    Rule(
        ("rows", "columns"),
        "too many sums an invocation",
        lambda _, c: c["rows"] * c["columns"] <= MAX_GEMV_SUMS,
        needed=False,
    ),
    Rule(
        ("columns", "unroll_k"),
        "too many loads under way",
        lambda _, c: c["columns"] * c["unroll_k"] <= MAX_GEMV_LOADS,
        needed=False,
    ),
    Rule(
        ("rows", "unroll_k"),
        "too much unrolled code",
        lambda _, c: c["rows"] * c["unroll_k"] <= MAX_GEMV_UNROLLED,
        needed=False,
    ),
    Rule(
        ("reduce",),
        "exchange within subgroups is for sums in f32",
        lambda p, c: c["reduce"] == "tree" or p.accumulate == "f32",
    ),
    Rule(
        ("lanes_n", "reduce"),
        "exchange within subgroups needs a power of two of lanes",
        lambda _, c: c["reduce"] == "tree" or c["lanes_n"] & (c["lanes_n"] - 1) == 0,
    ),
)
