"""Sizes as data: evaluate an `Expr` (see `autotune.model`) with named sizes."""

from collections.abc import Mapping
from math import prod

from autotune.model import Expr


def ceil_div(a: int, b: int) -> int:
    """The smallest integer ≥ a / b."""
    return -(-a // b)


def evaluate(expression: Expr, sizes: Mapping[str, int]) -> int:
    """The value of an expression. Raises ValueError for an unknown size or operation."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        if expression not in sizes:
            raise ValueError(f"unknown size {expression!r}")
        return sizes[expression]
    ((operation, operands),) = expression.items()
    values = [evaluate(operand, sizes) for operand in operands]
    if operation == "ceilDiv" and len(values) == 2:
        return ceil_div(values[0], values[1])
    if operation == "mul":
        return prod(values)
    if operation == "add":
        return sum(values)
    raise ValueError(f"unknown operation {operation!r} with {len(values)} operands")
