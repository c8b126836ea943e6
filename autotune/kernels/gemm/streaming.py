"""What the gemv kernel asks about a problem: which of A and B is large and streamed, and how both lie."""

from typing import Literal

from autotune.kernels.gemm.problem import GemmProblem

Operand = Literal["a", "b"]
Along = Literal["k", "outer"]

FEW: dict[str, Operand] = {"a": "b", "b": "a"}
"""The operand of few rows or columns, by the one that is streamed."""


def larger(problem: GemmProblem) -> Operand:
    """The operand that is worth streaming: A where C has fewer columns than rows, else B."""
    return "a" if problem.n < problem.m else "b"


def along(problem: GemmProblem, operand: str) -> Along:
    """The axis that is contiguous in memory: k, or the operand's other one."""
    return "k" if (problem.transpose_b if operand == "b" else not problem.transpose_a) else "outer"


def vec4_rows(problem: GemmProblem, operand: str) -> bool:
    """Whether an operand can be read in vec4s: its rows have, and start at, multiples of 4 elements."""
    return not any(size % 4 for size in problem.stored(operand)[2:])


def few_vector(problem: GemmProblem, stream: str) -> Literal[1, 4]:
    """Elements of the small operand that one access moves: 4 where four neighbours along k lie together."""
    few = FEW[stream]
    return 4 if along(problem, few) == "k" and vec4_rows(problem, few) else 1
