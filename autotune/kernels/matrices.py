"""What kernels on matrix units share: shapes, the words that tiles consist of, and rules.

A subgroup's matrix units multiply an m×k and a k×n matrix and add an m×n one. All matrices of a kernel have
one shape, which its config names as `16x16x16` (m×n×k). Tiles lie in workgroup memory as words of 16 or 8
bytes, in the order that memory has; templates/lib/matrix_stage.wgsl carries them there.
"""

from functools import cache
from math import gcd
from typing import Annotated

from msgspec import Meta

from autotune.kernels.base import Parameters, Rule
from autotune.model import MATRIX_FEATURE, DeviceProfile, SubgroupMatrix

MatrixShape = Annotated[str, Meta(pattern=r"\A[1-9][0-9]{0,2}x[1-9][0-9]{0,2}x[1-9][0-9]{0,2}\Z")]
"""m×n×k of the matrices that are multiplied at once, as `16x8x16`."""
SubgroupSize = Annotated[int, Meta(ge=4, le=128)]

FEATURES = (MATRIX_FEATURE, "subgroups")
"""What a text on matrix units needs, besides the types of its elements."""
ELEMENT_BYTES = {"i8": 1, "u8": 1, "f16": 2, "f32": 4, "i32": 4, "u32": 4}
WIDEST_WORD = 16
"""Bytes that an invocation loads or stores at once at most."""


@cache
def extents(shape: str) -> tuple[int, int, int]:
    """m, n and k of a shape's name."""
    m, n, k = map(int, shape.split("x"))
    return m, n, k


def shape_name(matrix: SubgroupMatrix) -> str:
    """The name of a shape, as configs have it."""
    return f"{matrix.m}x{matrix.n}x{matrix.k}"


def matrix_of(shape: str, element: str, result: str) -> SubgroupMatrix:
    """What a kernel has matrix units multiply, as an adapter lists it."""
    m, n, k = extents(shape)
    return SubgroupMatrix(element=element, result=result, m=m, n=n, k=k)


def shapes_of(profile: DeviceProfile | None, element: str, result: str) -> list[str]:
    """The shapes that a device multiplies in these types, the one with the most products first."""
    if profile is None or any(feature not in profile.features for feature in FEATURES):
        return []
    found = [one for one in profile.subgroup_matrix if (one.element, one.result) == (element, result)]
    return [shape_name(one) for one in sorted(found, key=lambda one: -one.m * one.n * one.k)]


def word_bytes(element: str, *rows: int) -> int:
    """Bytes of a word: as many as the rows of all matrices consist of, given the elements of each; 0 where
    they are too short."""
    return next((word for word in (WIDEST_WORD, 8) if all(_whole(r, element, word) for r in rows)), 0)


def _whole(elements: int, element: str, word: int) -> bool:
    return elements * ELEMENT_BYTES[element] % word == 0


def unit(element: str, word: int, *lengths: int) -> int:
    """Elements that one access of memory moves: a whole word where rows consist of them, else what a power of
    two allows; `lengths` are the elements of a row and those that it takes, 0 for as many."""
    return gcd(word // ELEMENT_BYTES[element], *(length for length in lengths if length))


def device_rules(
    profile: DeviceProfile, element: str, result: str, shape: str = "matrix", subgroup: str = "subgroup_size"
) -> tuple[Rule, ...]:
    """What `limits.refusals` says about every config of a shape or subgroup size, told before the others of
    its parameters are chosen; `shape` and `subgroup` name the parameters."""
    there = shapes_of(profile, element, result)
    if any(feature not in profile.features for feature in FEATURES):
        return (Rule((shape,), "needs a feature the adapter lacks", lambda *_: False),)
    return (
        Rule((shape,), "the adapter's matrix units lack this shape", lambda _, c: c[shape] in there),
        subgroup_rule(profile, subgroup),
    )


def subgroup_rule(profile: DeviceProfile, subgroup: str = "subgroup_size") -> Rule:
    """What `limits.refusals` says about the size of subgroups."""
    size = profile.subgroup_size if "subgroups" in profile.features else 0
    return Rule((subgroup,), "written for subgroups of another size", lambda _, c: c[subgroup] == size)


def subgroups(c: Parameters) -> int:
    """Subgroups of a workgroup: `subgroups_m` × `subgroups_n`, each with a part of the tile of C."""
    return int(c["subgroups_m"] * c["subgroups_n"])
