"""Which configs are legal, with reasons. `naive` and `tiled` need no rules: limits alone decide."""

from autotune.expression import ceil_div
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm.configs import LANES
from autotune.kernels.gemm.problem import GemmProblem

MAX_REGISTER_BLOCK = 128
"""Accumulators an invocation may keep; more than this spilled on every GPU tried."""
MAX_SPLIT_TILES = 512
"""Tiles of C beyond which any GPU is full without splitting K."""
SMALLEST_TILE = 32
"""Edge of a tile that is never too large."""
MAX_GEMV_M = 64
"""Rows of A beyond which tiles reuse B better."""
MAX_UNROLLED = 512
"""vec4 multiply-adds written out; beyond this, compile time grew without any gain."""


def _threads(c: Parameters) -> int:
    return int(c["tile_m"] // c["thread_m"] * (c["tile_n"] // c["thread_n"]))


def _shared_evenly(units: int, invocations: int) -> bool:
    """Whether a tile's pieces go round: all invocations carry the same number, or some carry one."""
    return units <= invocations or units % invocations == 0


def vec4_possible(p: GemmProblem) -> bool:
    """Whether A and B can be read in vec4s: whatever is contiguous in them comes in fours."""
    return not any(size % 4 for operand in ("a", "b") for size in p.stored(operand)[2:])


def _pieces(p: GemmProblem, c: Parameters) -> tuple[int, int]:
    """Pieces in which A's and B's tiles are carried: vec4s, or 4×4 blocks where a tile is turned around."""
    turned_a = c["k_major_a"] != p.transpose_a
    pieces_a = c["tile_m"] * c["tile_k"] // (16 if turned_a else 4)
    return pieces_a, c["tile_n"] * c["tile_k"] // (16 if p.transpose_b else 4)


VECTOR_RULES = (
    Rule(
        ("vector",),
        "vec4 access needs rows of A and B in multiples of 4",
        lambda p, c: c["vector"] == 1 or vec4_possible(p),
    ),
    Rule(
        ("vector",),
        "scalar access where vec4 is possible",
        lambda p, c: c["vector"] == 4 or not vec4_possible(p),
        needed=False,
    ),
)

BLOCKED_RULES = (
    Rule(
        ("tile_m",),
        "tile larger than twice the matrix",
        lambda p, c: c["tile_m"] <= max(SMALLEST_TILE, 2 * p.m),
        needed=False,
    ),
    Rule(
        ("tile_n",),
        "tile larger than twice the matrix",
        lambda p, c: c["tile_n"] <= max(SMALLEST_TILE, 2 * p.n),
        needed=False,
    ),
    Rule(
        ("tile_m", "thread_m"),
        "tile not a multiple of the register block",
        lambda _, c: c["tile_m"] % c["thread_m"] == 0,
    ),
    Rule(
        ("tile_n", "thread_n"),
        "tile not a multiple of the register block",
        lambda _, c: c["tile_n"] % c["thread_n"] == 0,
    ),
    Rule(
        ("thread_m", "thread_n", "tile_k"),
        "register block or tile depth not a multiple of a vec4",
        lambda _, c: c["thread_m"] % 4 == c["thread_n"] % 4 == c["tile_k"] % 4 == 0,
    ),
    Rule(
        ("thread_m", "thread_n"),
        "register block too large",
        lambda _, c: c["thread_m"] * c["thread_n"] <= MAX_REGISTER_BLOCK,
        needed=False,
    ),
    Rule(
        ("tile_m", "tile_n", "thread_m", "thread_n"),
        f"workgroup not a multiple of {LANES} invocations",
        lambda _, c: _threads(c) % LANES == 0,
    ),
    Rule(
        ("tile_n", "thread_n", "lanes_n"),
        "lanes do not fit the tile along N",
        lambda _, c: LANES % c["lanes_n"] == 0 and c["tile_n"] // c["thread_n"] % c["lanes_n"] == 0,
    ),
    Rule(
        ("tile_m", "thread_m", "lanes_n"),
        "lanes do not fit the tile along M",
        lambda _, c: c["tile_m"] // c["thread_m"] % max(LANES // c["lanes_n"], 1) == 0,
    ),
    Rule(
        ("tile_k", "unroll_k", "k_major_a"),
        "unrolled steps do not divide the tile's depth",
        lambda _, c: c["tile_k"] % c["unroll_k"] == 0 and (c["k_major_a"] or c["unroll_k"] % 4 == 0),
    ),
    Rule(
        ("unroll_k", "thread_m", "thread_n"),
        "too much unrolled code",
        lambda _, c: c["unroll_k"] * c["thread_m"] * c["thread_n"] <= 4 * MAX_UNROLLED,
        needed=False,
    ),
    Rule(
        ("tile_m", "tile_n", "tile_k", "thread_m", "thread_n", "k_major_a"),
        "a tile's loads do not go round evenly",
        lambda p, c: all(_shared_evenly(pieces, _threads(c)) for pieces in _pieces(p, c)),
    ),
    Rule(
        ("tile_k", "tile_n", "tile_m", "thread_m", "thread_n"),
        "a row of a tile is longer than the workgroup",
        lambda _, c: _threads(c) % (c["tile_k"] // 4) == 0,
    ),
    *VECTOR_RULES,
    Rule(
        ("staged",),
        "staging in the accumulator's type changes nothing here",
        lambda p, c: c["staged"] == "storage" or p.dtype != p.accumulate,
        needed=False,
    ),
)

SPLIT_K_RULES = (
    *BLOCKED_RULES,
    Rule(
        ("tile_m", "tile_n"),
        "splitting K is no use: the tiles of C fill any GPU",
        lambda p, c: p.batch * ceil_div(p.m, c["tile_m"]) * ceil_div(p.n, c["tile_n"]) <= MAX_SPLIT_TILES,
        needed=False,
    ),
    Rule(
        ("tile_k", "splits"),
        "more splits than K has tiles",
        lambda p, c: c["splits"] * c["tile_k"] <= p.k,
        needed=False,
    ),
)

GEMV_RULES = (
    Rule(("rows",), "gemv reads A and B as they are", lambda p, _: not p.transpose_a and not p.transpose_b),
    *VECTOR_RULES,
    Rule(
        ("rows",),
        "gemv is for few rows of A",
        lambda p, c: p.m <= MAX_GEMV_M and c["rows"] < 2 * p.m,
        needed=False,
    ),
    Rule(
        ("lanes_n", "threads_k"),
        f"workgroup not a multiple of {LANES} invocations",
        lambda _, c: c["lanes_n"] * c["threads_k"] % LANES == 0,
    ),
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
        ("rows", "unroll_k"),
        "too much unrolled code",
        lambda _, c: c["rows"] * c["unroll_k"] <= 32,
        needed=False,
    ),
)
