"""4-bit GEMM on matrix units: what follows from the problem, and which configs are legal."""

from typing import Any

from autotune.kernels.base import Rule
from autotune.kernels.gemm_q4.configs import MatrixUnits
from autotune.kernels.gemm_q4.problem import CODES, GemmQ4Problem
from autotune.kernels.matrix_tiles import Product, matrix_rules
from autotune.kernels.tiles import may_split

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
    *may_split(lambda _: 1),
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
