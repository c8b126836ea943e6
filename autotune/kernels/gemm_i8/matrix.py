"""int8 GEMM on matrix units: what follows from the problem, and which configs are legal."""

from typing import Any

from autotune.kernels.gemm_i8.configs import MatrixUnits
from autotune.kernels.gemm_i8.problem import GemmI8Problem
from autotune.kernels.matrices import unit
from autotune.kernels.matrix_tiles import Product, matrix_rules

PRODUCT = Product(element="i8", result="i32", along_a="k", along_b="k")
"""K is contiguous in both matrices."""

MATRIX_RULES = matrix_rules(lambda _: PRODUCT)


def units(problem: GemmI8Problem, config: MatrixUnits) -> int:
    """int8 of A or B that one access of memory moves."""
    return unit(PRODUCT.element, PRODUCT.word(config.matrix), problem.k)


def store_vector(problem: GemmI8Problem) -> int:
    """Elements of C that one store moves."""
    return 1 if problem.n % 4 else 4


def steps(problem: GemmI8Problem, config: MatrixUnits) -> tuple[int, int, int]:
    """What M, N and K must stay multiples of: what an access moves, and whole tiles of what comes straight
    from memory.
    """
    m, n = (
        getattr(config, f"tile_{across}") if origin == "memory" else 1
        for across, origin in (("m", config.a_from), ("n", config.b_from))
    )
    direct = "memory" in (config.a_from, config.b_from)
    return m, max(n, store_vector(problem)), config.tile_k if direct else units(problem, config)


def multiples(problem: GemmI8Problem, config: MatrixUnits) -> dict[str, int]:
    """Sizes that must stay multiples, where K is cut into whole tiles of these too."""
    m, n, k = steps(problem, config)
    found = {"m": m, "n": n, "k": config.tile_k if problem.k % config.tile_k == 0 else k}
    return {name: count for name, count in found.items() if count > 1}


def context(problem: GemmI8Problem, config: MatrixUnits) -> dict[str, Any]:
    """What the template asks besides the parameters."""
    each = units(problem, config)
    return PRODUCT.context(config.parameters(), (each, each)) | {
        "f16": False,
        "splits": 1,
        "whole_k": problem.k % config.tile_k == 0,
        "lda": "sizes.k",
        "ldb": "sizes.k",
        "store_vector": store_vector(problem),
    }
