"""Which configs are legal, with reasons. `naive` needs no rules: limits alone decide."""

from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm_q4.configs import LANES_N
from autotune.kernels.gemm_q4.problem import CODES, GemmQ4Problem
from autotune.kernels.tiles import (
    FEW_ROWS,
    LANES,
    REGISTER_BLOCK,
    TILE_SIZES,
    WHOLE_UNROLLED_STEPS,
    even_loads,
    few_tiles,
    unrolled_code,
    whole_lanes,
    whole_rows,
)

MAX_SUMS = 32
"""Sums an invocation may keep in the gemv kernel, beside the words under way."""
MAX_UNROLLED_GEMV = 128
"""Dot products of eight codes that the gemv kernel has written out for a round."""
MAX_WORDS = 64
"""Words that an invocation of the gemv kernel may have under way."""
MAX_UNROLLED = 2048
"""Multiply-adds that the blocked kernel has written out."""


def _pieces(_: GemmQ4Problem, c: Parameters) -> tuple[int, int]:
    """Pieces in which the tiles of A and W are carried: 4×4 blocks."""
    return c["tile_m"] * c["tile_k"] // 16, c["tile_n"] * c["tile_k"] // 16


GEMV_RULES = (
    FEW_ROWS,
    Rule(
        ("staging", "rounds"),
        "rounds are laid out together, but nothing is laid out",
        lambda _, c: c["staging"] == "workgroup" or c["rounds"] == 1,
    ),
    Rule(
        ("staging", "products"),
        "whole numbers are made of A only on its way to workgroup memory",
        lambda _, c: c["staging"] == "workgroup" or c["products"] == "float",
    ),
    Rule(
        ("words", "products"),
        "whole numbers are made of A 16 at a time",
        lambda _, c: c["words"] > 1 or c["products"] == "float",
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
    whole_lanes(("lanes_n", "lanes_k"), lambda c: c["lanes_n"] * c["lanes_k"], needed=False),
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
        ("lanes_k", "words", "unroll_k", "rounds"),
        "more of A laid out than there is",
        lambda p, c: (
            c["rounds"] == 1 or c["rounds"] * c["unroll_k"] * c["lanes_k"] * c["words"] * CODES <= p.k
        ),
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
        lambda _, c: c["rows"] * c["columns"] * c["words"] * c["unroll_k"] <= MAX_UNROLLED_GEMV,
        needed=False,
    ),
)

BLOCKED_RULES = (
    *TILE_SIZES,
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
    REGISTER_BLOCK,
    Rule(
        ("tile_m", "tile_n", "thread_m", "thread_n"),
        f"invocations do not form blocks of {LANES_N} × {LANES // LANES_N}",
        lambda _, c: (
            c["tile_n"] // c["thread_n"] % LANES_N == 0
            and c["tile_m"] // c["thread_m"] % (LANES // LANES_N) == 0
        ),
    ),
    whole_rows(4),
    even_loads(_pieces),
    WHOLE_UNROLLED_STEPS,
    unrolled_code(MAX_UNROLLED),
)

SPLIT_K_RULES = (
    *BLOCKED_RULES,
    *few_tiles(lambda _: 1),
)
