"""Which register-blocked configs are legal, with reasons. The other variants need no rules."""

from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm.configs import LANES

MAX_REGISTER_BLOCK = 128
"""Accumulators an invocation may keep; more than this spilled on every GPU tried."""
MAX_UNROLLED = 512
"""vec4 multiply-adds written out; beyond this, compile time grew without any gain."""


def _threads(c: Parameters) -> int:
    return int(c["tile_m"] // c["thread_m"] * (c["tile_n"] // c["thread_n"]))


def _shared_evenly(units: int, invocations: int) -> bool:
    """Whether a tile's pieces go round: all invocations carry the same number, or some carry one."""
    return units <= invocations or units % invocations == 0


BLOCKED_RULES = (
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
        ("tile_k", "unroll_k", "transpose_a"),
        "unrolled steps do not divide the tile's depth",
        lambda _, c: c["tile_k"] % c["unroll_k"] == 0 and (c["transpose_a"] or c["unroll_k"] % 4 == 0),
    ),
    Rule(
        ("unroll_k", "thread_m", "thread_n"),
        "too much unrolled code",
        lambda _, c: c["unroll_k"] * c["thread_m"] * c["thread_n"] <= 4 * MAX_UNROLLED,
    ),
    Rule(
        ("tile_m", "tile_n", "tile_k", "thread_m", "thread_n", "transpose_a"),
        "a tile's loads do not go round evenly",
        lambda _, c: (
            _shared_evenly(c["tile_m"] * c["tile_k"] // (16 if c["transpose_a"] else 4), _threads(c))
            and _shared_evenly(c["tile_n"] * c["tile_k"] // 4, _threads(c))
        ),
    ),
    Rule(
        ("tile_k", "tile_n", "tile_m", "thread_m", "thread_n"),
        "a row of a tile is longer than the workgroup",
        lambda _, c: _threads(c) % (c["tile_k"] // 4) == 0,
    ),
    Rule(
        ("vector",),
        "vec4 access needs K and N to be multiples of 4",
        lambda p, c: c["vector"] == 1 or p.k % 4 == p.n % 4 == 0,
    ),
    Rule(
        ("vector",),
        "scalar access where vec4 is possible",
        lambda p, c: c["vector"] == 4 or bool(p.k % 4 or p.n % 4),
    ),
    Rule(
        ("staged",),
        "staging in the accumulator's type changes nothing here",
        lambda p, c: c["staged"] == "storage" or p.dtype != p.accumulate,
    ),
)
