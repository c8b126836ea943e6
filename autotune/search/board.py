"""What a strategy sees of a search: the legal points, which were proposed, and what they took."""

import math
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from autotune.search.encoding import Encoding
from autotune.space import Space

Rows = NDArray[np.intp]
Array = NDArray[np.float64]


class Board:
    """The state of a search, by row: the place of a point among the space's points."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.row = {point: row for row, point in enumerate(space.points)}
        self.unseen = np.ones(len(space), dtype=bool)
        """Rows that were neither proposed nor told."""
        self.pending: dict[int, None] = {}
        """Rows proposed and not told yet, in their order."""
        self.told: list[int] = []
        self.seconds: list[float] = []
        """What each told row took; infinity where it failed."""
        self.best: int | None = None
        """Place of the fastest among those told."""

    @cached_property
    def encoding(self) -> Encoding:
        """The points as numbers, for strategies that measure distances."""
        return Encoding(self.space)

    @property
    def successes(self) -> int:
        """How many of the told points have a time."""
        return sum(map(math.isfinite, self.seconds))

    def propose(self, row: int) -> None:
        """Note that a row is about to be measured."""
        self.unseen[row] = False
        self.pending[row] = None

    def release(self, row: int) -> None:
        """Note that a proposed row is not going to be measured after all."""
        if self.pending.pop(row, 0) is None:
            self.unseen[row] = True

    def tell(self, row: int, seconds: float | None) -> None:
        """Note what a row took; None where it failed."""
        self.unseen[row] = False
        self.pending.pop(row, None)
        self.told.append(row)
        self.seconds.append(math.inf if seconds is None else seconds)
        if seconds is not None and (self.best is None or seconds < self.seconds[self.best]):
            self.best = len(self.told) - 1

    def unseen_neighbours(self, row: int) -> list[int]:
        """Rows one step away on one axis that were never proposed."""
        near = (self.row[point] for point in self.space.neighbours(self.space.points[row]))
        return [other for other in near if self.unseen[other]]


class Strategy(Protocol):
    """How the next point is chosen."""

    outlook: float | None
    """What the next few proposals together are expected to gain, as a share of the best time so far; None
    where nothing is known of it."""

    def choose(self, board: Board) -> int:
        """An unseen row; there is at least one."""

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """Hear what a row took, whoever proposed it; None where it failed."""
