"""What is asked: C = A·B, row-major, with A M×K, B K×N and C M×N."""

from typing import get_args

from autotune.errors import InvalidProblem
from autotune.model import DTYPE_BYTES, Dtype, Problem, Size

BYTES_LIMIT = 2**32
"""Kernels index in u32, and browsers compute byte offsets in u32."""


class GemmProblem(Problem, frozen=True, kw_only=True):
    """C = A·B for an M×K matrix A and a K×N matrix B, both row-major.

    `dtype` is the element type in memory, `accumulate` the type that sums are kept in. An f16 output
    overflows only at the store, and only past 65,504; f16 sums lose whole numbers past 2,048.
    """

    m: Size
    n: Size
    k: Size
    dtype: Dtype = "f32"
    accumulate: Dtype = "f32"

    def __post_init__(self) -> None:
        check_problem(self)


def check_problem(problem: GemmProblem) -> None:
    """Raise InvalidProblem where sizes are below 1, indices overflow, or types do not go together."""
    for name in ("m", "n", "k"):
        size = getattr(problem, name)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidProblem(f"{name} must be a whole number of at least 1, not {size!r}")
    if problem.dtype not in get_args(Dtype) or problem.accumulate not in ("f32", problem.dtype):
        raise InvalidProblem(
            f"{problem.dtype} elements cannot accumulate in {problem.accumulate}; use f32, or f16 with f16"
        )
    width = DTYPE_BYTES[problem.dtype]
    shapes = {"A": (problem.m, problem.k), "B": (problem.k, problem.n), "C": (problem.m, problem.n)}
    for name, (rows, cols) in shapes.items():
        if rows * cols * width >= BYTES_LIMIT:
            raise InvalidProblem(
                f"matrix {name} ({rows}×{cols} {problem.dtype}) takes {rows * cols * width} B; WGSL indexes "
                f"up to {BYTES_LIMIT} B, so split the problem into smaller ones"
            )
