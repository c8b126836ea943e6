"""4-bit GEMM on matrix units: what follows from the problem, and which configs are legal."""

from typing import Any

from autotune.expression import ceil_div
from autotune.kernels.base import Rule
from autotune.kernels.gemm_q4.configs import MatrixUnits
from autotune.kernels.gemm_q4.problem import CODES, GemmQ4Problem
from autotune.kernels.matrix_tiles import Product, matrix_rules
from autotune.kernels.tiles import MAX_SPLIT_TILES

PRODUCT = Product(element="f16", result="f32", along_a="k", along_b="k")
"""W lies column by column, and is f16 in workgroup memory."""

MATRIX_RULES = (
    Rule(("matrix",), "matrix units take A in f16", lambda p, _: p.dtype == "f16"),
    *matrix_rules(lambda _: PRODUCT),
    Rule(
        ("matrix",),
        "eight codes become a word of 16 bytes",
        lambda _, c: PRODUCT.per_word(c["matrix"]) == CODES,
    ),
    Rule(("b_from",), "codes become numbers in workgroup memory", lambda _, c: c["b_from"] == "workgroup"),
    Rule(
        ("group_m", "splits"),
        "where K is split, tiles are too few to walk in groups",
        lambda _, c: c["splits"] == 1 or c["group_m"] == 1,
        needed=False,
    ),
    Rule(
        ("tile_m", "tile_n", "tile_k", "splits"),
        "splitting K is no use",
        lambda p, c: (
            c["splits"] == 1
            or (
                ceil_div(p.m, c["tile_m"]) * ceil_div(p.n, c["tile_n"]) <= MAX_SPLIT_TILES
                and c["splits"] * c["tile_k"] <= p.k
            )
        ),
        needed=False,
    ),
)


def whole_k(problem: GemmQ4Problem, config: MatrixUnits) -> bool:
    """Whether K is cut into whole tiles, so that no load can reach past it."""
    return problem.k % config.tile_k == 0


def multiples(problem: GemmQ4Problem, config: MatrixUnits) -> dict[str, int]:
    """Sizes that must stay multiples: of the group, and of whole tiles where no load asks."""
    k = max(problem.group, config.tile_k) if whole_k(problem, config) else problem.group
    found = {"m": config.tile_m} if config.a_from == "memory" else {}
    return found | {"k": k} | ({} if problem.n % 4 else {"n": 4})


def context(problem: GemmQ4Problem, config: MatrixUnits) -> dict[str, Any]:
    """What the template asks besides the parameters."""
    return PRODUCT.context(config.parameters(), (CODES, CODES)) | {
        "f16": True,
        "own_b": True,
        "whole_k": whole_k(problem, config),
        "lda": "sizes.k",
        "ldb": "sizes.k",
        "a_start": "0u",
        "b_start": "0u",
    }
