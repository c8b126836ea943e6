"""Which configs are legal, with reasons. `naive` needs no rules: limits alone decide."""

from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm_i8.configs import LANES, QUAD

MAX_REGISTER_BLOCK = 128
"""Sums an invocation may keep; with the words it reads, more would spill."""
SMALLEST_TILE = 32
"""Edge of a tile that is never too large."""
MAX_UNROLLED = 2048
"""Dot products of a word written out; beyond this, texts compile slowly and gain nothing."""


def _threads(c: Parameters) -> int:
    return int(c["tile_m"] // c["thread_m"] * (c["tile_n"] // c["thread_n"]))


def _shared_evenly(units: int, invocations: int) -> bool:
    """Whether a tile's vec4s go round: all invocations carry the same number, or some carry one."""
    return units <= invocations or units % invocations == 0


BLOCKED_RULES = (
    Rule(
        ("tile_m",),
        "tile larger than twice the matrix",
        lambda p, c: c["tile_m"] <= max(SMALLEST_TILE, 2 * p.m),
    ),
    Rule(
        ("tile_n",),
        "tile larger than twice the matrix",
        lambda p, c: c["tile_n"] <= max(SMALLEST_TILE, 2 * p.n),
    ),
    Rule(
        ("tile_k", "unroll_k"),
        "depth of the tile or unrolled steps not a multiple of a vec4 of words",
        lambda _, c: c["tile_k"] % QUAD == c["unroll_k"] % QUAD == 0,
    ),
    Rule(
        ("thread_n",),
        "register block not a multiple of a vec4 of sums",
        lambda _, c: c["thread_n"] % 4 == 0,
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
        ("tile_k", "unroll_k"),
        "unrolled steps do not divide the tile's depth",
        lambda _, c: c["tile_k"] % c["unroll_k"] == 0,
    ),
    Rule(
        ("unroll_k", "thread_m", "thread_n"),
        "too much unrolled code",
        lambda _, c: c["unroll_k"] // 4 * c["thread_m"] * c["thread_n"] <= MAX_UNROLLED,
    ),
    Rule(
        ("tile_m", "tile_n", "tile_k", "thread_m", "thread_n"),
        "a tile's loads do not go round evenly",
        lambda _, c: (
            _shared_evenly(c["tile_m"] * c["tile_k"] // QUAD, _threads(c))
            and _shared_evenly(c["tile_n"] * c["tile_k"] // QUAD, _threads(c))
        ),
    ),
    Rule(
        ("tile_k", "tile_n", "tile_m", "thread_m", "thread_n"),
        "a row of a tile is longer than the workgroup",
        lambda _, c: _threads(c) % (c["tile_k"] // QUAD) == 0,
    ),
    Rule(
        ("tile_k", "pad"),
        "padding would make an odd row even, and neighbouring rows collide",
        lambda _, c: c["pad"] == 0 or c["tile_k"] // QUAD % 2 == 0,
    ),
    Rule(
        ("vector",),
        "vec4 access needs K to be a multiple of 16",
        lambda p, c: c["vector"] == 1 or p.k % QUAD == 0,
    ),
    Rule(
        ("vector",),
        "scalar access where vec4 is possible",
        lambda p, c: c["vector"] == 4 or p.k % QUAD != 0,
    ),
)
