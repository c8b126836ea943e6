"""GEMM on matrix units: what follows from problem and config, and which configs are legal."""

from autotune.kernels.base import Rule
from autotune.kernels.gemm import packing
from autotune.kernels.gemm.configs import MatrixUnits
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.matrices import unit
from autotune.kernels.matrix_tiles import Product, matrix_rules
from autotune.kernels.tiles import may_split


def product_of(problem: GemmProblem) -> Product:
    """Its types, and how its operands lie."""
    return Product(
        element=problem.dtype,
        result=problem.accumulate,
        along_a="outer" if problem.transpose_a else "k",
        along_b="k" if problem.transpose_b else "outer",
    )


def units(problem: GemmProblem, shape: str) -> tuple[int, int]:
    """Elements of A and of B that one access of memory moves."""
    word = product_of(problem).word(shape)
    of_a, of_b = (unit(problem.dtype, word, *problem.stored(x)[2:]) for x in ("a", "b"))
    return of_a, of_b


def steps(problem: GemmProblem, config: MatrixUnits) -> tuple[int, int, int]:
    """What M, N and K must stay multiples of: what an access moves along rows of A, B and C, and whole tiles
    of what comes straight from memory.
    """
    along = {"m": 1, "n": store_vector(problem), "k": 1}
    for x, count in _units_as_stored(problem, config).items():
        _, column, _ = problem.size_names(x)
        along[column] = max(along[column], count)
    for across, origin in (("m", config.a_from), ("n", config.b_from)):
        if origin == "memory":
            along |= {across: getattr(config, f"tile_{across}"), "k": config.tile_k}
    return along["m"], along["n"], along["k"]


def store_vector(problem: GemmProblem) -> int:
    """Elements of C that one store moves."""
    return 1 if problem.n % 4 or problem.ldc % 4 else 4


def multiples(problem: GemmProblem, config: MatrixUnits) -> dict[str, int]:
    """Sizes that must stay multiples, whatever tiles K is cut into."""
    found = dict(zip("mnk", steps(problem, config), strict=True))
    found |= {f"ld{x}": count for x, count in _units_as_stored(problem, config).items()}
    return {name: count for name, count in found.items() if count > 1}


def _units_as_stored(problem: GemmProblem, config: MatrixUnits) -> dict[str, int]:
    """Elements that one access moves, of the operands that are read as they are stored."""
    both = dict(zip("ab", units(packing.multiplied(problem, config), config.matrix), strict=True))
    return {x: count for x, count in both.items() if x not in packing.packs(problem, config)}


MATRIX_RULES = (*matrix_rules(product_of), *may_split(lambda p: p.batch))

PACKED_MATRIX_RULES = (
    packing.INDEXABLE_COPIES,
    Rule(
        ("a_from", "b_from"),
        "packed operands pass through workgroup memory",
        lambda _, c: c["a_from"] == c["b_from"] == "workgroup",
    ),
    Rule(
        ("matrix",),
        "operands lie as packed ones do",
        lambda p, _: bool(packing.to_pack(p)),
        needed=False,
    ),
    *packing.of_packed(MATRIX_RULES),
)
