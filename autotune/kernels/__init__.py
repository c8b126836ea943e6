"""The kernel families, by name. Adding one is one line here.

Each is imported when it is first asked for: a look-up in a fresh interpreter waits for its own family only.
"""

import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module

from autotune.kernels.base import Family
from autotune.model import Problem


class Families(MutableMapping[str, Family]):
    """Families by name. Each is the constant in a package here, which has the same name in capitals."""

    def __init__(self, *names: str) -> None:
        self._families: dict[str, Family | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Family:
        family = self._families[name]
        if family is None:
            family = self._families[name] = getattr(import_module(f"{__name__}.{name}"), name.upper())
        return family

    def __setitem__(self, name: str, family: Family) -> None:
        self._families[name] = family

    def __delitem__(self, name: str) -> None:
        del self._families[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._families)

    def __len__(self) -> int:
        return len(self._families)

    def imported(self) -> Iterator[Family]:
        """The families whose packages are imported already: that of every problem there is, among others."""
        for name, family in self._families.items():
            if family is not None or f"{__name__}.{name}" in sys.modules:
                yield self[name]


KERNELS = Families(
    "gemm",
    "gemm_i8",
    "gemm_q4",
    "attention",
)


def family_of(problem: Problem) -> Family:
    """The family whose problem this is. Raises TypeError where there is none."""
    for family in KERNELS.imported():
        if isinstance(problem, family.problem_type):
            return family
    raise TypeError(f"no kernel family has problems of type {type(problem).__name__}")
