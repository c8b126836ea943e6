"""Which configs are legal, with reasons. `naive` needs no rules: limits alone decide."""

from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm_i8.configs import QUAD
from autotune.kernels.gemm_i8.problem import GemmI8Problem
from autotune.kernels.tiles import (
    LANES_FIT,
    REGISTER_BLOCK,
    TILE_SIZES,
    WHOLE_REGISTER_BLOCKS,
    WHOLE_UNROLLED_STEPS,
    even_loads,
    unrolled_code,
    vector_access,
    whole_rows,
)

MAX_UNROLLED = 8192
"""Multiply-adds written out, four of them a dot product; beyond, texts compile slowly and gain nothing."""


def _vec4_possible(p: GemmI8Problem) -> bool:
    """Whether rows of A and B are whole vec4s of words."""
    return p.k % QUAD == 0


def _pieces(_: GemmI8Problem, c: Parameters) -> tuple[int, int]:
    """Pieces in which the tiles of A and B are carried: vec4s of words."""
    return c["tile_m"] * c["tile_k"] // QUAD, c["tile_n"] * c["tile_k"] // QUAD


BLOCKED_RULES = (
    *TILE_SIZES,
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
    *WHOLE_REGISTER_BLOCKS,
    REGISTER_BLOCK,
    *LANES_FIT,
    WHOLE_UNROLLED_STEPS,
    unrolled_code(MAX_UNROLLED),
    even_loads(_pieces),
    whole_rows(QUAD),
    Rule(
        ("tile_k", "pad"),
        "padding would make an odd row even, and neighbouring rows collide",
        lambda _, c: c["pad"] == 0 or c["tile_k"] // QUAD % 2 == 0,
        needed=False,
    ),
    *vector_access(_vec4_possible, "vec4 access needs K to be a multiple of 16"),
)
