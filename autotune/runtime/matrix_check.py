"""A proof, when a device is opened, that its matrix units do what a shape of theirs promises.

Drivers have loaded matrices transposed, or from the start of a workgroup's memory whatever the offset. So a
subgroup multiplies data without any symmetry, loaded in every way that kernels load: rows and columns, from
workgroup memory and from a buffer, at an offset, with rows that are longer than the matrix. Whole numbers are
small enough for exact results. A shape that gets one wrong is not used on the device.
"""

import struct
from collections.abc import Callable

from msgspec import Struct

from autotune.kernels.matrices import ELEMENT_BYTES, word_bytes
from autotune.model import SubgroupMatrix

_FORMATS = {"f16": "e", "f32": "f", "i8": "b", "u8": "B", "i32": "i", "u32": "I"}
_GAP = 3
"""Words before each matrix: an offset that is no multiple of anything."""

Matrix = list[list[int]]
Run = Callable[[str, bytes, int], bytes]
"""Runs one workgroup of a text: takes what binding 0 holds and how many bytes binding 1 has; gives these."""


class _Place(Struct, frozen=True):
    """Where a matrix lies, in words: its first, and those from a row to the next."""

    start: int
    pitch: int
    rows: int

    @property
    def end(self) -> int:
        return self.start + self.rows * self.pitch


class Layout(Struct, frozen=True):
    """Where the operands of a check lie, each by rows and by columns, and later the result; in words."""

    shape: SubgroupMatrix
    word: int

    def _row(self, elements: int, kind: str) -> int:
        return elements * ELEMENT_BYTES[kind] // self.word + 1  # longer than the matrix by a word

    def places(self) -> list[_Place]:
        """Of the left matrix by rows, the right one by rows, and another pair of them by columns."""
        one = self.shape
        found: list[_Place] = []
        at = 0
        for rows, length in ((one.m, one.k), (one.k, one.n), (one.k, one.m), (one.n, one.k)):
            place = _Place(start=at + _GAP, pitch=self._row(length, one.element), rows=rows)
            found.append(place)
            at = place.end
        return found

    def result(self) -> _Place:
        """Of the result, which takes the place of the operands."""
        return _Place(start=_GAP, pitch=self._row(self.shape.n, self.shape.result), rows=self.shape.m)

    @property
    def words(self) -> int:
        """Of everything."""
        return max(self.places()[-1].end, self.result().end)


def layout_of(shape: SubgroupMatrix) -> Layout | None:
    """The layout for a shape; None where rows of its matrices fill no words, so that no kernel uses it."""
    known = {shape.element, shape.result} <= set(_FORMATS)
    if not known:
        return None
    word = min(word_bytes(shape.element, shape.m, shape.n, shape.k), word_bytes(shape.result, shape.n))
    return Layout(shape=shape, word=word) if word else None


def operands(shape: SubgroupMatrix) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Two pairs of matrices, m×k and k×n, of whole numbers from 0 to 4, or from -2 to 2."""
    least = 0 if shape.element == "u8" else -2

    def matrix(rows: int, cols: int, seed: int) -> Matrix:
        """Scattered values (multiplicative hashing: Knuth, TAOCP volume 3, 6.4)."""
        squares = ((seed + i) ** 2 for i in range(rows * cols))
        flat = [(square * 2_654_435_761 % 2**32 >> 16) % 5 + least for square in squares]
        return [flat[i * cols : (i + 1) * cols] for i in range(rows)]

    m, n, k = shape.m, shape.n, shape.k
    return matrix(m, k, 0), matrix(k, n, 1000), matrix(m, k, 2000), matrix(k, n, 3000)


def contents(layout: Layout) -> bytes:
    """What the kernel reads."""
    kind = layout.shape.element
    size = ELEMENT_BYTES[kind]
    per = layout.word // size
    values = [1] * (layout.words * per)  # whatever is loaded from a wrong place counts
    left, right, other_left, other_right = operands(layout.shape)
    stored = (left, right, _turned(other_left), _turned(other_right))
    for place, matrix in zip(layout.places(), stored, strict=True):
        for i, row in enumerate(matrix):
            at = (place.start + i * place.pitch) * per
            values[at : at + len(row)] = row
    return struct.pack(f"<{len(values)}{_FORMATS[kind]}", *values)


def _turned(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def expected(shape: SubgroupMatrix) -> Matrix:
    """The first pair's product, the second's, and that of the first left matrix with the second right one."""
    left, right, other_left, other_right = operands(shape)
    pairs = ((left, right), (other_left, other_right), (left, other_right))
    return [
        [sum(a[i][k] * b[k][j] for a, b in pairs for k in range(shape.k)) for j in range(shape.n)]
        for i in range(shape.m)
    ]


def text(layout: Layout, subgroup_size: int) -> str:
    """The kernel: one subgroup."""
    one = layout.shape
    left, right, other_left, other_right = layout.places()
    result = layout.result()
    word = f"vec{layout.word // 4}<u32>"
    f16 = "enable f16;\n" if "f16" in (one.element, one.result) else ""
    return f"""{f16}enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity);

@group(0) @binding(0) var<storage, read> input: array<{word}>;
@group(0) @binding(1) var<storage, read_write> output: array<{word}>;

alias Left = subgroup_matrix_left<{one.element}, {one.k}, {one.m}>;
alias Right = subgroup_matrix_right<{one.element}, {one.n}, {one.k}>;
alias Result = subgroup_matrix_result<{one.result}, {one.n}, {one.m}>;

const WORDS = {layout.words}u;
var<workgroup> tiles: array<{word}, WORDS>;

@compute @workgroup_size({subgroup_size})
fn main(@builtin(local_invocation_index) lane: u32) {{
    for (var i = lane; i < WORDS; i += {subgroup_size}u) {{ tiles[i] = input[i]; }}
    workgroupBarrier();
    var sum = Result();
    let left = subgroupMatrixLoad<Left, row_major>(&tiles, {left.start}u, {left.pitch}u);
    let right = subgroupMatrixLoad<Right, row_major>(&tiles, {right.start}u, {right.pitch}u);
    sum = subgroupMatrixMultiplyAccumulate(left, right, sum);
    let by_columns = subgroupMatrixLoad<Left, col_major>(&tiles, {other_left.start}u, {other_left.pitch}u);
    let also = subgroupMatrixLoad<Right, col_major>(&tiles, {other_right.start}u, {other_right.pitch}u);
    sum = subgroupMatrixMultiplyAccumulate(by_columns, also, sum);
    let stored = subgroupMatrixLoad<Left, row_major>(&input, {left.start}u, {left.pitch}u);
    let turned = subgroupMatrixLoad<Right, col_major>(&input, {other_right.start}u, {other_right.pitch}u);
    sum = subgroupMatrixMultiplyAccumulate(stored, turned, sum);
    workgroupBarrier();
    subgroupMatrixStore<row_major>(&tiles, {result.start}u, sum, {result.pitch}u);
    workgroupBarrier();
    for (var i = lane; i < WORDS; i += {subgroup_size}u) {{ output[i] = tiles[i]; }}
}}
"""


def matches(layout: Layout, output: bytes) -> bool:
    """Whether this is what the kernel must leave."""
    kind = layout.shape.result
    size = ELEMENT_BYTES[kind]
    per = layout.word // size
    place = layout.result()
    for i, row in enumerate(expected(layout.shape)):
        at = (place.start + i * place.pitch) * per * size
        if struct.unpack_from(f"<{len(row)}{_FORMATS[kind]}", output, at) != tuple(row):
            return False
    return True


def checked(shapes: tuple[SubgroupMatrix, ...], subgroup_size: int, run: Run) -> tuple[SubgroupMatrix, ...]:
    """The shapes that are right; those that no kernel can use are kept, and do no harm."""
    return tuple(shape for shape in shapes if _right(shape, subgroup_size, run))


def _right(shape: SubgroupMatrix, subgroup_size: int, run: Run) -> bool:
    layout = layout_of(shape)
    if layout is None:
        return True
    size = layout.words * layout.word
    return matches(layout, run(text(layout, subgroup_size), contents(layout), size))
