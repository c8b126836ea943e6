"""GEMM on matrix units: what follows from problem and config, and which configs are legal."""

from functools import cache
from typing import Any

from autotune.expression import ceil_div
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm.configs import MatrixUnits
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.matrices import ELEMENT_BYTES, extents, matrix_of, subgroups, unit, word_bytes
from autotune.kernels.tiles import MAX_SPLIT_TILES, TILE_SIZES
from autotune.model import SubgroupMatrix

MAX_SUMS = 128
"""Sums a lane may keep; with more, registers spill."""
MAX_UNROLLED = 512
"""Products of two matrices that are written out for a tile."""


def matrix(problem: GemmProblem, c: Parameters) -> SubgroupMatrix:
    """What matrix units multiply."""
    return matrix_of(c["matrix"], problem.dtype, problem.accumulate)


def lines(problem: GemmProblem, c: Parameters, x: str) -> tuple[int, int]:
    """Rows of an operand's tile as it lies in memory, and the elements of each."""
    across, turned = (
        (c["tile_m"], problem.transpose_a) if x == "a" else (c["tile_n"], not problem.transpose_b)
    )
    return (c["tile_k"], across) if turned else (across, c["tile_k"])


def word(problem: GemmProblem, shape: str) -> int:
    """Bytes of a word, of tiles and of sums on their way to C; 0 where rows of matrices are shorter."""
    return _word(shape, problem.dtype, problem.accumulate, problem.transpose_a, problem.transpose_b)


@cache
def _word(shape: str, element: str, result: str, transpose_a: bool, transpose_b: bool) -> int:
    m, n, k = extents(shape)
    of_a = m if transpose_a else k
    of_b = k if transpose_b else n
    return min(word_bytes(element, of_a, of_b), word_bytes(result, n))


def units(problem: GemmProblem, shape: str) -> dict[str, int]:
    """Elements of A and B that one access of memory moves."""
    return {x: unit(problem.dtype, word(problem, shape), *problem.stored(x)[2:]) for x in ("a", "b")}


def tile_words(problem: GemmProblem, c: Parameters) -> int:
    """Words of workgroup memory that tiles take."""
    per = word(problem, c["matrix"]) // ELEMENT_BYTES[problem.dtype]
    staged = (lines(problem, c, x) for x in ("a", "b") if c[f"{x}_from"] == "workgroup")
    places = 2 if c["buffering"] in ("double", "ahead") else 1
    return places * sum(rows * (length // per + int(c["pad"])) for rows, length in staged)


def store_words(problem: GemmProblem, c: Parameters, together: int) -> tuple[int, int]:
    """Words that sums take on their way to C, `together` matrices of each subgroup at a time; and words from
    a row of them to the next, an odd number, so that rows start in different banks.
    """
    m, n, _ = extents(c["matrix"])
    per = word(problem, c["matrix"]) // ELEMENT_BYTES[problem.accumulate]
    pitch = ceil_div(together * n, per) | 1
    return subgroups(c) * m * pitch, pitch


def together(problem: GemmProblem, c: Parameters) -> int:
    """Matrices of a row of sums that pass through workgroup memory at a time: as many as the tiles leave room
    for, one at least."""
    _, n, _ = extents(c["matrix"])
    row = c["tile_n"] // c["subgroups_n"] // n
    room = tile_words(problem, c)
    fitting = (
        count for count in range(row, 0, -1) if row % count == 0 and store_words(problem, c, count)[0] <= room
    )
    return next(fitting, 1)


def words(problem: GemmProblem, c: Parameters) -> int:
    """Words of workgroup memory."""
    return max(tile_words(problem, c), store_words(problem, c, together(problem, c))[0])


def context(problem: GemmProblem, config: MatrixUnits) -> dict[str, Any]:
    """What the template asks besides the parameters."""
    c = config.parameters()
    m, n, k = extents(config.matrix)
    size = word(problem, config.matrix)
    count = together(problem, c)
    unit_of = units(problem, config.matrix)
    return {
        "m": m,
        "n": n,
        "k": k,
        "word": size,
        "word_type": f"vec{size // 4}<u32>",
        "per": size // ELEMENT_BYTES[problem.dtype],
        "sum_bytes": ELEMENT_BYTES[problem.accumulate],
        "unit_a": unit_of["a"],
        "unit_b": unit_of["b"],
        "together": count,
        "store_pitch": store_words(problem, c, count)[1],
        "tiles_words": tile_words(problem, c),
        "words": words(problem, c),
    }


def steps(problem: GemmProblem, config: MatrixUnits) -> tuple[int, int, int]:
    """What M, N and K must stay multiples of: what an access moves along rows of A, B and C, and whole tiles
    of what comes straight from memory.
    """
    unit_of = units(problem, config.matrix)
    along = {"m": 1, "n": store_vector(problem), "k": 1}
    for x, column in (("a", "m" if problem.transpose_a else "k"), ("b", "k" if problem.transpose_b else "n")):
        along[column] = max(along[column], unit_of[x])
    for across, origin in (("m", config.a_from), ("n", config.b_from)):
        if origin == "memory":
            along |= {across: getattr(config, f"tile_{across}"), "k": config.tile_k}
    return along["m"], along["n"], along["k"]


def store_vector(problem: GemmProblem) -> int:
    """Elements of C that one store moves."""
    return 1 if problem.n % 4 or problem.ldc % 4 else 4


def multiples(problem: GemmProblem, config: MatrixUnits) -> dict[str, int]:
    """Sizes that must stay multiples, where K is cut into whole tiles of these too."""
    m, n, k = steps(problem, config)
    found = {"m": m, "n": n, "k": config.tile_k if problem.k % config.tile_k == 0 else k}
    found |= {f"ld{x}": count for x, count in units(problem, config.matrix).items()}
    return {name: count for name, count in found.items() if count > 1}


def _fills(c: Parameters, x: str) -> bool:
    m, n, _ = extents(c["matrix"])
    return bool(c[f"tile_{x}"] % (c[f"subgroups_{x}"] * (m if x == "m" else n)) == 0)


def _even_loads(problem: GemmProblem, c: Parameters) -> bool:
    """Whether all invocations carry as many words of a tile, or some carry one and the others none."""
    invocations = subgroups(c) * c["subgroup_size"]
    per = word(problem, c["matrix"]) // ELEMENT_BYTES[problem.dtype]
    counts = (
        rows * length // per
        for x in ("a", "b")
        if c[f"{x}_from"] == "workgroup"
        for rows, length in [lines(problem, c, x)]
    )
    return all(count <= invocations or count % invocations == 0 for count in counts)


def _from_memory(c: Parameters) -> bool:
    return bool(c["a_from"] == c["b_from"] == "memory")


def _products(c: Parameters) -> int:
    m, n, k = extents(c["matrix"])
    return int(c["tile_m"] // m * (c["tile_n"] // n) * (c["tile_k"] // k) // subgroups(c))


MATRIX_RULES = (
    Rule(
        ("matrix",),
        "rows of a matrix do not fill words of 8 bytes",
        lambda p, c: word(p, c["matrix"]) > 0,
    ),
    *TILE_SIZES,
    Rule(
        ("matrix", "tile_k"),
        "tile not a multiple of the matrices",
        lambda _, c: c["tile_k"] % extents(c["matrix"])[2] == 0,
    ),
    Rule(
        ("matrix", "tile_m", "subgroups_m"),
        "tile not a multiple of the matrices",
        lambda _, c: _fills(c, "m"),
    ),
    Rule(
        ("matrix", "tile_n", "subgroups_n"),
        "tile not a multiple of the matrices",
        lambda _, c: _fills(c, "n"),
    ),
    Rule(
        ("tile_m", "tile_n", "subgroup_size", "subgroups_m", "subgroups_n"),
        "too many sums a lane",
        lambda _, c: c["tile_m"] * c["tile_n"] <= MAX_SUMS * subgroups(c) * c["subgroup_size"],
        needed=False,
    ),
    Rule(
        ("matrix", "tile_m", "tile_n", "tile_k", "subgroups_m", "subgroups_n"),
        "too much unrolled code",
        lambda _, c: _products(c) <= MAX_UNROLLED,
        needed=False,
    ),
    Rule(
        ("tile_m", "tile_k", "a_from"),
        "matrices straight from memory take whole tiles",
        lambda p, c: c["a_from"] == "workgroup" or (p.m % c["tile_m"] == p.k % c["tile_k"] == 0),
    ),
    Rule(
        ("tile_n", "tile_k", "b_from"),
        "matrices straight from memory take whole tiles",
        lambda p, c: c["b_from"] == "workgroup" or (p.n % c["tile_n"] == p.k % c["tile_k"] == 0),
    ),
    Rule(
        (
            "matrix",
            "subgroup_size",
            "tile_m",
            "tile_n",
            "tile_k",
            "subgroups_m",
            "subgroups_n",
            "a_from",
            "b_from",
        ),
        "a tile's loads do not go round evenly",
        _even_loads,
    ),
    Rule(
        ("a_from", "b_from", "pad", "buffering"),
        "without tiles in workgroup memory there is nothing to pad or buffer",
        lambda _, c: not _from_memory(c) or (c["pad"] == 0 and c["buffering"] == "single"),
        needed=False,
    ),
    Rule(
        ("matrix", "tile_k", "buffering", "commit_k"),
        "there is a step to commit before only where it is read ahead",
        lambda _, c: (
            c["commit_k"] < (c["tile_k"] // extents(c["matrix"])[2] if c["buffering"] == "ahead" else 1)
        ),
    ),
    Rule(
        ("group_m", "splits"),
        "where K is split, tiles are too few to walk in groups",
        lambda _, c: c["splits"] == 1 or c["group_m"] == 1,
        needed=False,
    ),
    Rule(
        ("tile_m", "tile_n", "splits"),
        "splitting K is no use: the tiles of C fill any GPU",
        lambda p, c: (
            c["splits"] == 1
            or p.batch * ceil_div(p.m, c["tile_m"]) * ceil_div(p.n, c["tile_n"]) <= MAX_SPLIT_TILES
        ),
        needed=False,
    ),
    Rule(
        ("tile_k", "splits"),
        "more splits than K has tiles",
        lambda p, c: c["splits"] == 1 or c["splits"] * c["tile_k"] <= p.k,
        needed=False,
    ),
)
