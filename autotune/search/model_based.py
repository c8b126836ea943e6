"""The default strategy: far points first, then the highest expected improvement under a Gaussian process."""

import math

import numpy as np

from autotune.search.board import Array, Board, Rows
from autotune.search.surrogate import GaussianProcess, expected_improvement, squared_distances

_OPENING = 8
"""Successful points before the surrogate is trusted."""
_CANDIDATES = 1000
"""Random unmeasured points the surrogate judges at each ask, besides the neighbours of the best."""
_LEADERS = 8
"""How many of the best points have their neighbours judged."""
_MEMORY = 160
"""Observations the surrogate learns from: the best and the latest, as its cost grows with their cube."""


class ModelBased:
    """1. a few points far from each other, to see the whole space once;
    2. the unmeasured point with the highest expected improvement, judged by a Gaussian process.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._model: GaussianProcess | None = None
        self._next_climb = 0

    def choose(self, board: Board) -> int:
        """A far row, else the most promising one."""
        unseen = np.flatnonzero(board.unseen)
        sample = unseen if len(unseen) <= _CANDIDATES else self._rng.choice(unseen, _CANDIDATES)
        if board.successes < _OPENING:
            return self._farthest(board, sample)
        return self._most_promising(board, sample)

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """All is read off the board."""

    def _farthest(self, board: Board, candidates: Rows) -> int:
        """The candidate whose nearest seen point is farthest away (Johnson, Moore & Ylvisaker 1990)."""
        seen = [*board.told, *board.pending][-_MEMORY:]
        if not seen:
            return int(self._rng.choice(candidates))
        rows = board.encoding.rows
        gaps = squared_distances(rows[candidates], rows[seen]).min(axis=1)
        return int(candidates[gaps.argmax()])

    def _most_promising(self, board: Board, sample: Rows) -> int:
        """The candidate with the highest expected improvement over the best point so far."""
        seconds = np.array(board.seconds)
        ranking = np.argsort(seconds, kind="stable")
        model = self._learn(board, seconds, ranking)
        around = {near for told in ranking[:_LEADERS] for near in board.unseen_neighbours(board.told[told])}
        candidates = np.concatenate([sample, np.array(sorted(around), dtype=np.intp)])
        gain = expected_improvement(*model.predict(board.encoding.rows[candidates]), best=-1.0)
        return int(candidates[gain.argmax()])

    def _learn(self, board: Board, seconds: Array, ranking: Rows) -> GaussianProcess:
        """Fit the surrogate to the negative speed relative to the best: -1 is the best, 0 a failure.

        Unlike time, relative speed has no long tail, and gives failures a place at the slow end.
        """
        if self._model is None:
            self._model = GaussianProcess(board.encoding.axis_of_column)
        latest = np.arange(max(0, len(seconds) - _MEMORY // 2), len(seconds))
        kept = np.union1d(ranking[: _MEMORY // 2], latest)
        relative = -seconds[ranking[0]] / seconds[kept]
        grown = len(seconds) >= self._next_climb
        if grown:  # the hyperparameters settle, so they are learned again after every tenth more points
            self._next_climb = math.ceil(1.1 * len(seconds))
        rows = board.encoding.rows[np.array(board.told)[kept]]
        self._model.fit(rows, relative, steps=15 if grown else 0)
        return self._model
