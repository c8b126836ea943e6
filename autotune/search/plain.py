"""Strategies without a model: to compare with, and to record spaces with."""

import numpy as np

from autotune.search.board import Board


class Exhaustive:
    """Every point, in the order of enumeration."""

    outlook: float | None = None

    def choose(self, board: Board) -> int:
        """The first unseen row."""
        return int(board.unseen.argmax())

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """Nothing to learn."""


class Random:
    """Legal points in random order."""

    outlook: float | None = None

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def choose(self, board: Board) -> int:
        """Any unseen row."""
        return int(self._rng.choice(np.flatnonzero(board.unseen)))

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """Nothing to learn."""


class Local:
    """Local search with restarts: the first better neighbour is the next place to stand on.

    Variable neighbourhood descent in its simplest form (Mladenović & Hansen 1997), with a restart from a
    random point where no neighbour is left untried.
    """

    outlook: float | None = None

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._here: tuple[int, float] | None = None
        self._restarted: int | None = None

    def choose(self, board: Board) -> int:
        """A neighbour of where the search stands, else a random row to start again from."""
        if self._here is not None:
            near = board.unseen_neighbours(self._here[0])
            if near:
                return int(self._rng.choice(near))
        self._here = None
        self._restarted = int(self._rng.choice(np.flatnonzero(board.unseen)))
        return self._restarted

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """Move where it is faster; what seeds took counts too, so that the descent starts from the best."""
        if seconds is not None and (self._here is None or seconds < self._here[1]):
            self._here = row, seconds
