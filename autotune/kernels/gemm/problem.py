"""What is asked: C = epilogue(alpha · op(A) · op(B) + beta · C), for one pair of matrices or a batch."""

from typing import Literal, TypeVar, get_args

from msgspec import structs

from autotune.errors import InvalidProblem
from autotune.kernels.sizes import check_bytes, check_factor, check_size, check_sizes, number
from autotune.model import DTYPE_BYTES, Dtype, Problem, Size

Activation = Literal["none", "relu", "gelu", "silu"]
_T = TypeVar("_T", int, str)

LARGEST_FACTOR = 1e30
"""Of alpha and beta: f32 holds their products with sums of usual sizes."""
SMALLEST_FACTOR = 1e-30
"""Of alpha and beta that are not 0."""


class GemmProblem(Problem, frozen=True, kw_only=True):
    """C = activation(alpha · op(A) · op(B) + beta · C + bias) + residual, row-major.

    op(A) is M×K and op(B) K×N; with `transpose_a` A is stored K×M, with `transpose_b` B is stored N×K.
    (Column-major matrices are the same problem with operands swapped: Cᵀ = Bᵀ·Aᵀ.) A row of a stored
    matrix takes `lda`, `ldb`, `ldc` elements, 0 meaning that rows follow each other. The matrices of a
    batch follow each other too; with `broadcast_a` or `broadcast_b` one matrix serves the whole batch.

    `bias` has N elements, `residual` has the layout of C; `gelu` is the tanh form. With beta = 0, C is
    never read. `dtype` is the element type in memory, `accumulate` that of sums, `out_dtype` that of C where
    it differs. An f16 output overflows only at the store, and only past 65,504; f16 sums lose whole
    numbers past 2,048.
    """

    m: Size
    n: Size
    k: Size
    batch: Size = 1
    dtype: Dtype = "f32"
    accumulate: Dtype = "f32"
    out_dtype: Dtype | None = None
    transpose_a: bool = False
    transpose_b: bool = False
    lda: int = 0
    ldb: int = 0
    ldc: int = 0
    broadcast_a: bool = False
    broadcast_b: bool = False
    alpha: float = 1.0
    beta: float = 0.0
    bias: bool = False
    activation: Activation = "none"
    residual: bool = False

    def __post_init__(self) -> None:
        """One problem has one spelling: of the element type of C, and of numbers that are whole or −0."""
        check_problem(self)
        if self.out_dtype == self.dtype:
            structs.force_setattr(self, "out_dtype", None)
        for name in ("alpha", "beta"):
            structs.force_setattr(self, name, float(getattr(self, name)) + 0.0)

    @property
    def output(self) -> Dtype:
        """Element type of C."""
        return self.out_dtype or self.dtype

    def stored(self, operand: str) -> tuple[int, int, int, int]:
        """Matrices, rows, columns and elements a row of `a`, `b` or `c` as they lie in memory."""
        rows, cols, ld, once = {
            "a": (*_turned(self.m, self.k, self.transpose_a), self.lda, self.broadcast_a),
            "b": (*_turned(self.k, self.n, self.transpose_b), self.ldb, self.broadcast_b),
            "c": (self.m, self.n, self.ldc, False),
        }[operand]
        return 1 if once else self.batch, rows, cols, ld or cols

    def size_names(self, operand: str) -> tuple[str, str, str]:
        """Names of the sizes that say how many rows and columns `a`, `b` or `c` has as it lies in memory, and
        how many elements a row takes.
        """
        rows, cols = {
            "a": _turned("m", "k", self.transpose_a),
            "b": _turned("k", "n", self.transpose_b),
            "c": ("m", "n"),
        }[operand]
        return rows, cols, f"ld{operand}" if getattr(self, f"ld{operand}") else cols

    def elements(self, operand: str) -> int:
        """Elements of memory that `a`, `b` or `c` takes."""
        matrices, rows, _, ld = self.stored(operand)
        return matrices * rows * ld


def _turned(rows: _T, cols: _T, transposed: bool) -> tuple[_T, _T]:
    return (cols, rows) if transposed else (rows, cols)


def check_problem(problem: GemmProblem) -> None:
    """Raise InvalidProblem where sizes are below 1, rows overlap, indices overflow, types do not go together,
    or alpha or beta is not 0 or a number from 1e-30 to 1e30 in size.
    """
    check_sizes(problem, ("m", "n", "k", "batch"))
    if problem.dtype not in get_args(Dtype) or problem.accumulate not in ("f32", problem.dtype):
        raise InvalidProblem(
            f"{problem.dtype} elements cannot accumulate in {problem.accumulate}; use f32, or f16 with f16"
        )
    out, activation = problem.out_dtype, problem.activation
    if out not in (None, *get_args(Dtype)) or activation not in get_args(Activation):
        raise InvalidProblem(f"unknown output type {out!r} or activation {activation!r}")
    for name in ("alpha", "beta"):
        check_factor(name, getattr(problem, name), smallest=SMALLEST_FACTOR, largest=LARGEST_FACTOR)
    for operand in ("a", "b", "c"):
        matrices, rows, cols, ld = problem.stored(operand)
        check_size(f"ld{operand}", ld, words=f"0 or at least the {cols} columns of a row", least=cols)
        dtype = problem.output if operand == "c" else problem.dtype
        size = matrices * rows * ld * DTYPE_BYTES[dtype]
        count = f"{matrices}×" if matrices > 1 else ""
        check_bytes(f"matrix {operand.upper()} ({count}{rows}×{ld} {dtype})", size)


def label(problem: GemmProblem) -> str:
    """Short name of a problem, as in `1024x1024x1024-f32` or `8x4096x4096-f16-tb-bias-gelu`."""
    parts = [f"{problem.m}x{problem.n}x{problem.k}-{problem.dtype}"]
    if problem.batch > 1:
        parts[0] = f"{problem.batch}x{parts[0]}"
    if problem.accumulate != "f32":
        parts.append(f"sum{problem.accumulate}")
    if problem.output != problem.dtype:
        parts.append(f"out{problem.out_dtype}")
    parts += [
        word
        for word, given in (
            ("ta", problem.transpose_a),
            ("tb", problem.transpose_b),
            (f"lda{problem.lda}", problem.lda),
            (f"ldb{problem.ldb}", problem.ldb),
            (f"ldc{problem.ldc}", problem.ldc),
            ("ba", problem.broadcast_a),
            ("bb", problem.broadcast_b),
            (f"alpha{number(problem.alpha)}", problem.alpha != 1),
            (f"beta{number(problem.beta)}", problem.beta != 0),
            ("bias", problem.bias),
            (problem.activation, problem.activation != "none"),
            ("residual", problem.residual),
        )
        if given
    ]
    return "-".join(parts)
