"""What is asked: C = (A·Bᵀ) · scale_a · scale_b, with int8 A M×K and B N×K, and C M×N in f32."""

from autotune.errors import InvalidProblem
from autotune.kernels.sizes import check_bytes, check_sizes
from autotune.model import Problem, Size

PER_WORD = 4
"""int8 in a u32."""
K_LIMIT = 2**31 // (128 * 128)
"""From here on, K products of −128 and −128 no longer fit an i32."""


class GemmI8Problem(Problem, frozen=True, kw_only=True):
    """C[m][n] = (Σ A[m][k]·B[n][k]) · scale_a[m] · scale_b[n].

    A is M×K and B is N×K, both int8 with K contiguous and a multiple of 4, four of them a u32 (see
    `pack`). The sum is kept in i32 and is exact; the scales and C are f32.
    """

    m: Size
    n: Size
    k: Size

    def __post_init__(self) -> None:
        check_problem(self)


def check_problem(problem: GemmI8Problem) -> None:
    """Raise InvalidProblem where sizes are below 1, K does not fill words, or sums or indices overflow."""
    check_sizes(problem, ("m", "n", "k"))
    if problem.k % PER_WORD:
        raise InvalidProblem(f"k must be a multiple of 4, not {problem.k}: four int8 share a u32; pad with 0")
    if problem.k >= K_LIMIT:
        raise InvalidProblem(
            f"k = {problem.k} could overflow the i32 sum ({problem.k}·128·128 ≥ 2³¹); "
            f"split K into parts below {K_LIMIT}"
        )
    shapes = {
        "A": (problem.m, problem.k, "int8", 1),
        "B": (problem.n, problem.k, "int8", 1),
        "C": (problem.m, problem.n, "f32", 4),
    }
    for name, (rows, cols, element, width) in shapes.items():
        check_bytes(f"matrix {name} ({rows}×{cols} {element})", rows * cols * width)
