"""Which configs are legal, with reasons. `naive` needs no rules: limits alone decide."""

from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm_q4.configs import LANES, LANES_N
from autotune.kernels.gemm_q4.problem import CODES

MAX_GEMV_M = 64
"""Rows of A beyond which tiles reuse W better."""
MAX_SUMS = 32
"""Sums an invocation may keep in the gemv kernel, beside the words under way."""
MAX_UNROLLED = 128
"""Dot products of eight codes written out for a round."""
MAX_WORDS = 64
"""Words an invocation may have under way."""
MAX_REGISTER_BLOCK = 128
"""Accumulators an invocation may keep in the blocked kernel."""
MAX_UNROLLED_BLOCK = 2048
"""Multiply-adds written out in the blocked kernel."""
SMALLEST_TILE = 32
"""Edge of a tile that is never too large."""


def _threads(c: Parameters) -> int:
    return int(c["tile_m"] // c["thread_m"] * (c["tile_n"] // c["thread_n"]))


def _shared_evenly(units: int, invocations: int) -> bool:
    """Whether a tile's pieces go round: all invocations carry the same number, or some carry one."""
    return units <= invocations or units % invocations == 0


GEMV_RULES = (
    Rule(
        ("rows",),
        "gemv is for few rows of A",
        lambda p, c: p.m <= MAX_GEMV_M and c["rows"] < 2 * p.m,
        needed=False,
    ),
    Rule(
        ("words",),
        "a load is longer than what K is a multiple of",
        lambda p, c: p.k % (CODES * c["words"]) == 0,
    ),
    Rule(
        ("rows", "columns"),
        "too many sums an invocation",
        lambda _, c: c["rows"] * c["columns"] <= MAX_SUMS,
        needed=False,
    ),
    Rule(
        ("lanes_n", "lanes_k"),
        f"workgroup not a multiple of {LANES} invocations",
        lambda _, c: c["lanes_n"] * c["lanes_k"] % LANES == 0,
        needed=False,
    ),
    Rule(
        ("lanes_k",),
        "invocations along K are not a power of two",
        lambda _, c: c["lanes_k"] & (c["lanes_k"] - 1) == 0,
    ),
    Rule(
        ("lanes_k", "words"),
        "more invocations along K than K has loads",
        lambda p, c: c["lanes_k"] <= max(LANES, p.k // (CODES * c["words"])),
        needed=False,
    ),
    Rule(
        ("lanes_k", "words", "unroll_k"),
        "more loads under way than K has",
        lambda p, c: c["unroll_k"] == 1 or c["unroll_k"] * c["lanes_k"] * c["words"] * CODES <= p.k,
        needed=False,
    ),
    Rule(
        ("columns", "words", "unroll_k"),
        "too many words under way",
        lambda _, c: c["columns"] * c["words"] * c["unroll_k"] <= MAX_WORDS,
        needed=False,
    ),
    Rule(
        ("rows", "columns", "words", "unroll_k"),
        "too much unrolled code",
        lambda _, c: c["rows"] * c["columns"] * c["words"] * c["unroll_k"] <= MAX_UNROLLED,
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
        ("tile_k",),
        "tile depth not whole words, or K not a multiple of it",
        lambda p, c: c["tile_k"] % CODES == 0 and p.k % c["tile_k"] == 0,
    ),
    Rule(
        ("tile_m", "tile_n", "thread_m", "thread_n"),
        "tile not a multiple of the register block, or that not of a vec4",
        lambda _, c: (
            c["thread_m"] % 4 == c["thread_n"] % 4 == 0
            and c["tile_m"] % c["thread_m"] == c["tile_n"] % c["thread_n"] == 0
        ),
    ),
    Rule(
        ("thread_m", "thread_n"),
        "register block too large",
        lambda _, c: c["thread_m"] * c["thread_n"] <= MAX_REGISTER_BLOCK,
        needed=False,
    ),
    Rule(
        ("tile_m", "tile_n", "thread_m", "thread_n"),
        f"invocations do not form blocks of {LANES_N} × {LANES // LANES_N}",
        lambda _, c: (
            c["tile_n"] // c["thread_n"] % LANES_N == 0
            and c["tile_m"] // c["thread_m"] % (LANES // LANES_N) == 0
        ),
    ),
    Rule(
        ("tile_k", "tile_m", "tile_n", "thread_m", "thread_n"),
        "a row of a tile is longer than the workgroup",
        lambda _, c: _threads(c) % (c["tile_k"] // 4) == 0,
    ),
    Rule(
        ("tile_m", "tile_n", "tile_k", "thread_m", "thread_n"),
        "a tile's loads do not go round evenly",
        lambda _, c: (
            _shared_evenly(c["tile_m"] * c["tile_k"] // 16, _threads(c))
            and _shared_evenly(c["tile_n"] * c["tile_k"] // 16, _threads(c))
        ),
    ),
    Rule(
        ("tile_k", "unroll_k"),
        "unrolled steps do not divide the tile's depth",
        lambda _, c: c["tile_k"] % c["unroll_k"] == 0,
    ),
    Rule(
        ("unroll_k", "thread_m", "thread_n"),
        "too much unrolled code",
        lambda _, c: c["unroll_k"] * c["thread_m"] * c["thread_n"] <= MAX_UNROLLED_BLOCK,
        needed=False,
    ),
)
