"""What families share about sizes and numbers: options, checks, texts and distances."""

from collections.abc import Iterable, Mapping
from math import log2
from typing import Any

from autotune.errors import InvalidProblem
from autotune.model import MAX_SIZE, Problem

BYTES_LIMIT = 2**32
"""Kernels index in u32, and browsers compute byte offsets in u32."""


def sizes_from_options(values: Mapping[str, Any]) -> dict[str, int]:
    """M, N and K by name, from the options `m`, `n`, `k` and `size`, which stands for those not given.

    Raises InvalidProblem, naming what is missing, where one is not given and `size` is not either.
    """
    size = values.get("size")
    sizes: dict[str, Any] = {
        name: values[name] if values.get(name) is not None else size for name in ("m", "n", "k")
    }
    missing = [f"--{name}" for name, value in sizes.items() if value is None]
    if missing:
        raise InvalidProblem(f"give --size for a square problem, or {', '.join(missing)} as well")
    return sizes


def check_sizes(problem: Problem, names: Iterable[str]) -> None:
    """Raise InvalidProblem where one of these fields is not a whole number from 1 to 2³² − 1."""
    for name in names:
        size = getattr(problem, name)
        if isinstance(size, bool) or not isinstance(size, int) or -MAX_SIZE < size < 1:
            raise InvalidProblem(f"{name} must be a whole number of at least 1, not {size!r}")
        if abs(size) > MAX_SIZE:  # not printed: it may have thousands of digits
            raise InvalidProblem(f"{name} must be at most {MAX_SIZE}, what WGSL can index")


def check_bytes(what: str, size: int) -> None:
    """Raise InvalidProblem where a buffer of `size` bytes is more than kernels can index; `what` names it."""
    if size >= BYTES_LIMIT:
        raise InvalidProblem(
            f"{what} takes {size} B; WGSL indexes up to {BYTES_LIMIT} B, so split the problem "
            "into smaller ones"
        )


def number(value: float) -> str:
    """The shortest text that reads back as this number, for labels and messages; of a whole one without a
    point. Numbers that differ have texts that do."""
    return repr(float(value)).removesuffix(".0")


def doublings(problem: Problem, other: Problem, names: Iterable[str] = ("m", "n", "k")) -> float:
    """How often sizes of one problem must be doubled or halved to be those of the other, in total."""
    return sum((abs(log2(getattr(problem, name) / getattr(other, name))) for name in names), 0.0)
