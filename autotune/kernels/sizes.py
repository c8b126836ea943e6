"""What families share about sizes and numbers: options, checks, texts and distances."""

from collections.abc import Iterable, Mapping
from math import isfinite, log2
from typing import Any

from autotune.errors import InvalidProblem
from autotune.model import MAX_SIZE, Problem

BYTES_LIMIT = 2**32
"""Kernels index in u32, and browsers compute byte offsets in u32."""
_MOST_DIGITS = 30
"""Of a whole number in a message."""


def sizes_from_options(values: Mapping[str, Any]) -> dict[str, int]:
    """M, N and K by name, from the options `m`, `n`, `k` and `size`, which stands for those not given.

    Raises InvalidProblem, naming what is missing, where one is not given and `size` is not either; and where
    `size` is no size.
    """
    size = values.get("size")
    sizes: dict[str, Any] = {
        name: values[name] if values.get(name) is not None else size for name in ("m", "n", "k")
    }
    missing = [f"--{name}" for name, value in sizes.items() if value is None]
    if missing:
        raise InvalidProblem(f"give --size for a square problem, or {', '.join(missing)} as well")
    if size is not None:
        check_size("size", size)
    return sizes


def check_sizes(problem: Problem, names: Iterable[str]) -> None:
    """Raise InvalidProblem where one of these fields is not a whole number from 1 to 2³² − 1."""
    for name in names:
        check_size(name, getattr(problem, name))


def check_size(
    name: str, size: Any, *, words: str = "a whole number of at least 1", least: int = 1, most: int = MAX_SIZE
) -> None:
    """Raise InvalidProblem where `size` is no whole number from `least` to `most`; `words` say the former."""
    if isinstance(size, bool) or not isinstance(size, int) or size < least:
        raise InvalidProblem(f"{name} must be {words}, not {_shown(size)}")
    if size > most:
        why = ", what WGSL can index" if most == MAX_SIZE else ""
        raise InvalidProblem(f"{name} must be at most {most}{why}, not {_shown(size)}")


def check_factor(name: str, value: Any, *, smallest: float, largest: float, signed: bool = True) -> None:
    """Raise InvalidProblem where a factor is no number that is 0, or from `smallest` to `largest` in size.

    So what kernels compute of it stays finite and normal in f32: otherwise a text in which numbers are baked
    in need not be WGSL.
    """
    finite = isfinite(value) if isinstance(value, float) else type(value) is int
    if not finite or (value < 0 and not signed):
        words = "a number" if signed else "a number of at least 0"
        raise InvalidProblem(f"{name} must be {words}, not {_shown(value)}")
    in_size = " in size" if signed else ""
    if abs(value) > largest:
        raise InvalidProblem(f"{name} must be at most {number(largest)}{in_size}, not {_shown(value)}")
    if 0 < abs(value) < smallest:
        raise InvalidProblem(
            f"{name} must be 0, or at least {number(smallest)}{in_size} for f32 to compute with it, "
            f"not {_shown(value)}"
        )


def _shown(value: Any) -> str:
    """A value in a message, in one line; a number of hundreds of digits is not printed whole."""
    if isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS:
        return "a number of many digits"
    return " ".join(repr(value).split())


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
    # a difference of logarithms, not that of a quotient: the same both ways to the last bit
    return sum((abs(log2(getattr(problem, name)) - log2(getattr(other, name))) for name in names), 0.0)
