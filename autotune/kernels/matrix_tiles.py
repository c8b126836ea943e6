"""Tiles for matrix units, which families of matrix products share: their layout, and which configs are legal.

A workgroup computes a tile of C, each of its subgroups a part of it as matrices that matrix units add up.
Tiles of A and B pass through one workgroup array of words, in the order that memory has, and so do sums on
their way to C. templates/lib/matrix_gemm.wgsl is the kernel.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from autotune.expression import ceil_div
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.matrices import (
    ELEMENT_BYTES,
    MatrixShape,
    SubgroupSize,
    extents,
    matrix_of,
    shapes_of,
    subgroups,
    word_bytes,
)
from autotune.kernels.tiles import TILE_SIZES
from autotune.model import Config, DeviceProfile, SubgroupMatrix

MAX_SUM_BYTES = 512
"""Of sums that a lane may keep; with more, registers spill."""
BANKS_BYTES = 128
"""Of workgroup memory that NVIDIA's and others' banks give in a cycle."""
MAX_UNROLLED = 512
"""Products of two matrices that are written out for a tile."""


class MatrixTiles(Config, frozen=True, kw_only=True):
    """Subgroups that have matrix units multiply; the templates explain each parameter."""

    matrix: MatrixShape
    subgroup_size: SubgroupSize
    tile_m: Annotated[int, Meta(ge=4, le=512)]
    tile_n: Annotated[int, Meta(ge=4, le=512)]
    tile_k: Annotated[int, Meta(ge=4, le=256)]
    subgroups_m: Annotated[int, Meta(ge=1, le=16)]
    subgroups_n: Annotated[int, Meta(ge=1, le=16)]
    a_from: Literal["workgroup", "memory"]
    b_from: Literal["workgroup", "memory"]
    pad: Literal[0, 1]
    buffering: Literal["single", "prefetch", "early", "double"]
    group_m: Annotated[int, Meta(ge=1, le=64)]


class Product(Struct, frozen=True):
    """The types of a product and how its operands lie in memory: contiguous along k, or across it."""

    element: str
    result: str
    along_a: Literal["k", "outer"]
    along_b: Literal["k", "outer"]

    def matrix(self, shape: str) -> SubgroupMatrix:
        """What matrix units multiply."""
        return matrix_of(shape, self.element, self.result)

    def lines(self, c: Parameters, x: str) -> tuple[int, int]:
        """Rows of an operand's tile as it lies in memory, and the elements of each."""
        across, along = (c["tile_m"], self.along_a) if x == "a" else (c["tile_n"], self.along_b)
        return (across, c["tile_k"]) if along == "k" else (c["tile_k"], across)

    def word(self, shape: str) -> int:
        """Bytes of a word, of tiles and of sums on their way to C; 0 where rows of matrices are shorter."""
        return _word(shape, self)

    def per_word(self, shape: str) -> int:
        """Elements of A or B in a word."""
        return self.word(shape) // ELEMENT_BYTES[self.element]

    def abreast(self, c: Parameters, x: str) -> int:
        """Lines of an operand's tile that share a row of workgroup memory, so that a padded row reaches over
        all banks: stores of neighbours then meet in none. A matrix and the part of a subgroup must not
        straddle two rows.
        """
        lines, length = self.lines(c, x)
        m, n, k = extents(c["matrix"])
        if (self.along_a if x == "a" else self.along_b) == "k":
            block, part = (m, lines // c["subgroups_m"]) if x == "a" else (n, lines // c["subgroups_n"])
        else:
            block, part = k, lines
        count = BANKS_BYTES * int(c["pad"]) // (length * ELEMENT_BYTES[self.element])
        while count > 1:
            rows = lines // count
            if lines % count == rows % block == 0 and (rows % part == 0 or part % rows == 0):
                return count
            count -= 1
        return 1

    def tile_words(self, c: Parameters) -> int:
        """Words of workgroup memory that tiles take."""
        per = self.per_word(c["matrix"])
        words = 0
        for x in ("a", "b"):
            if c[f"{x}_from"] == "workgroup":
                (lines, length), abreast = self.lines(c, x), self.abreast(c, x)
                words += lines // abreast * (length * abreast // per + int(c["pad"]))
        return words * (2 if c["buffering"] == "double" else 1)

    def store_words(self, c: Parameters, together: int) -> tuple[int, int]:
        """Words that sums take on their way to C, `together` matrices of each subgroup at a time; and words
        from a row of them to the next, an odd number, so that rows start in different banks.
        """
        m, n, _ = extents(c["matrix"])
        per = self.word(c["matrix"]) // ELEMENT_BYTES[self.result]
        pitch = ceil_div(together * n, per) | 1
        return subgroups(c) * m * pitch, pitch

    def together(self, c: Parameters) -> int:
        """Matrices of a row of sums that pass through workgroup memory at a time: as many as the tiles leave
        room for, one at least.
        """
        _, n, _ = extents(c["matrix"])
        row = c["tile_n"] // c["subgroups_n"] // n
        room = self.tile_words(c)
        whole = (count for count in range(row, 0, -1) if row % count == 0)
        return next((count for count in whole if self.store_words(c, count)[0] <= room), 1)

    def words(self, c: Parameters) -> int:
        """Words of workgroup memory."""
        return max(self.tile_words(c), self.store_words(c, self.together(c))[0])

    def workgroup(self, c: Parameters) -> tuple[tuple[int, int, int], int]:
        """Workgroup size, and bytes of workgroup memory."""
        return (subgroups(c) * c["subgroup_size"], 1, 1), self.words(c) * self.word(c["matrix"])

    def context(self, c: Parameters, units: tuple[int, int]) -> dict[str, Any]:
        """What the template asks besides the parameters; `units` are the elements of A and of B that one
        access of memory moves.
        """
        m, n, k = extents(c["matrix"])
        size, count = self.word(c["matrix"]), self.together(c)
        return {
            "m": m,
            "n": n,
            "k": k,
            "element": self.element,
            "result": self.result,
            "along_a": self.along_a,
            "along_b": self.along_b,
            "word": size,
            "word_type": f"vec{size // 4}<u32>",
            "per": self.per_word(c["matrix"]),
            "sum_bytes": ELEMENT_BYTES[self.result],
            "unit_a": units[0],
            "unit_b": units[1],
            "abreast_a": self.abreast(c, "a"),
            "abreast_b": self.abreast(c, "b"),
            "together": count,
            "store_pitch": self.store_words(c, count)[1],
            "tiles_words": self.tile_words(c),
            "array_words": self.words(c),
        }


@cache
def _word(shape: str, product: Product) -> int:
    m, n, k = extents(shape)
    of_a = m if product.along_a == "outer" else k
    of_b = n if product.along_b == "outer" else k
    return min(word_bytes(product.element, of_a, of_b), word_bytes(product.result, n))


def _fills(c: Parameters, x: str) -> bool:
    m, n, _ = extents(c["matrix"])
    return bool(c[f"tile_{x}"] % (c[f"subgroups_{x}"] * (m if x == "m" else n)) == 0)


def _even_loads(product: Product, c: Parameters) -> bool:
    """Whether all invocations carry as many words of a tile, or some carry one and the others none."""
    invocations = subgroups(c) * c["subgroup_size"]
    per = product.per_word(c["matrix"])
    staged = (product.lines(c, x) for x in ("a", "b") if c[f"{x}_from"] == "workgroup")
    counts = [rows * length // per for rows, length in staged]
    return all(count <= invocations or count % invocations == 0 for count in counts)


def _from_memory(c: Parameters) -> bool:
    return bool(c["a_from"] == c["b_from"] == "memory")


def _products(c: Parameters) -> int:
    m, n, k = extents(c["matrix"])
    return int(c["tile_m"] // m * (c["tile_n"] // n) * (c["tile_k"] // k) // subgroups(c))


def matrix_rules(product_of: Callable[[Any], Product]) -> tuple[Rule, ...]:
    """Which tiles are legal; `product_of` takes a problem, which has sizes m, n and k."""
    return (
        Rule(
            ("matrix",),
            "rows of a matrix do not fill words of 8 bytes",
            lambda p, c: product_of(p).word(c["matrix"]) > 0,
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
            lambda p, c: (
                c["tile_m"] * c["tile_n"] * ELEMENT_BYTES[product_of(p).result]
                <= MAX_SUM_BYTES * subgroups(c) * c["subgroup_size"]
            ),
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
            lambda p, c: _even_loads(product_of(p), c),
        ),
        Rule(
            ("a_from", "b_from", "pad", "buffering"),
            "without tiles in workgroup memory there is nothing to pad or buffer",
            lambda _, c: not _from_memory(c) or (c["pad"] == 0 and c["buffering"] == "single"),
            needed=False,
        ),
    )


def default_tiles(profile: DeviceProfile | None, product: Product, tile_k: int) -> Iterator[dict[str, Any]]:
    """Untuned tiles for a device, by the fields of MatrixTiles: large before small, four subgroups having a
    quarter each, no larger than workgroups may be. None where the device has no such matrix units, or only
    pretends to, as a software adapter does.
    """
    if profile is None or profile.is_cpu:
        return
    limit = profile.limits
    shapes = shapes_of(profile, product.element, product.result)
    if product.result == "f32":  # an NVIDIA H200 was a tenth faster with narrow ones then
        shapes.sort(key=lambda shape: extents(shape)[1])
    for edge in (128, 64, 32):
        for shape in shapes:
            tiles: dict[str, Any] = {
                "matrix": shape,
                "subgroup_size": profile.subgroup_size,
                "tile_m": edge,
                "tile_n": edge,
                "tile_k": tile_k,
                "subgroups_m": 2,
                "subgroups_n": 2,
                "a_from": "workgroup",
                "b_from": "workgroup",
                "pad": 1,
                "buffering": "prefetch",
                "group_m": 8,
            }
            if edge % (2 * max(extents(shape)[:2])) or not product.word(shape) or not profile.subgroup_size:
                continue
            (invocations, _, _), size = product.workgroup(tiles)
            if (
                invocations <= limit.get("maxComputeInvocationsPerWorkgroup", 0)
                and invocations <= limit.get("maxComputeWorkgroupSizeX", 0)
                and size <= limit.get("maxComputeWorkgroupStorageSize", 0)
            ):
                yield tiles
