"""What is asked: C = A·W, where W comes as 4-bit codes with a scale for each group of them."""

from typing import Literal, get_args

from autotune.errors import InvalidProblem
from autotune.kernels.sizes import check_bytes, check_sizes
from autotune.model import DTYPE_BYTES, Dtype, Problem, Size

Group = Literal[16, 32, 64, 128]

CODES = 8
"""Codes in a word of 32 bits."""
ZERO_POINT = 8
"""The code that stands for zero."""


class GemmQ4Problem(Problem, frozen=True, kw_only=True):
    """C = A·W for an M×K matrix A, row-major, and a K×N matrix W in 4 bits, C being M×N, row-major.

    W is given column by column, in the layout of ONNX Runtime's MatMulNBits:

    * `weights`: N × K/8 words of 32 bits. A row of them holds the K codes of one column of W, eight a
      word, the lowest nibble first: code k of column n is `weights[n][k / 8] >> 4 * (k % 8) & 15`.
      On little-endian machines that is the byte order of MatMulNBits' B, N × K/group × group/2 bytes.
    * `scales`: N × K/group, in the element type of A and C.

    W[k][n] = (code − 8) · scale of its group: the zero point is 8, as where MatMulNBits is given none.
    K is a multiple of the group. `pack` and `unpack` of this package convert codes to words and back.

    `dtype` is the element type of A, the scales and C. Sums are f32, and so are products; W may be rounded to
    f16 first where A is f16, which takes one rounding of each weight; or A is taken in
    fixed point, where an element is off by up to 2^-22 of the largest among those that share a scale, and
    their products are added exactly.
    """

    m: Size
    n: Size
    k: Size
    group: Group = 32
    dtype: Dtype = "f32"
    accumulate: Literal["f32"] = "f32"

    def __post_init__(self) -> None:
        check_problem(self)


def check_problem(problem: GemmQ4Problem) -> None:
    """Raise InvalidProblem where sizes or types are not what the kernels take, or indices overflow."""
    check_sizes(problem, ("m", "n", "k"))
    if isinstance(problem.group, bool) or problem.group not in get_args(Group):
        groups = ", ".join(map(str, get_args(Group)))
        raise InvalidProblem(f"the group must be one of {groups}, not {problem.group!r}")
    if problem.k % problem.group:
        raise InvalidProblem(f"k = {problem.k} is not a multiple of the group, {problem.group}")
    if problem.dtype not in get_args(Dtype):
        raise InvalidProblem(f"the element type must be f32 or f16, not {problem.dtype!r}")
    if problem.accumulate != "f32":
        raise InvalidProblem(f"sums are kept in f32, not {problem.accumulate!r}")
    for name, size in buffer_bytes(problem).items():
        check_bytes(name, size)


def buffer_bytes(problem: GemmQ4Problem) -> dict[str, int]:
    """Bytes of each data buffer by its name, in the order of their bindings."""
    width = DTYPE_BYTES[problem.dtype]
    return {
        "a": problem.m * problem.k * width,
        "weights": problem.n * problem.k // CODES * DTYPE_BYTES["u32"],
        "c": problem.m * problem.n * width,
        "scales": problem.n * (problem.k // problem.group) * width,
    }
