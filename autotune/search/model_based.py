"""The default strategy: a few points far apart, then the highest expected improvement under a surrogate.

1. Some points that are far from each other but not the extremes: each is the farthest of a few random ones
   from those before it (maximin: Johnson, Moore & Ylvisaker 1990). Corners of tuning spaces are mostly slow.
2. The unmeasured point with the highest expected improvement, judged by a Gaussian process of relative speed,
   times the chance that it runs at all, judged by another of successes and failures (constrained expected
   improvement: Gardner et al. 2014). So a failure says nothing about how fast its neighbours are.

Points that are being measured count as if they took what the surrogate expects (kriging believer:
Ginsbourger, Le Riche & Carraro 2010), so that several can be in work at once.
"""

import math

import numpy as np

from autotune.search.board import Array, Board, Rows
from autotune.search.surrogate import SUCCESS, GaussianProcess, expected_improvement, squared_distances

_OPENING = 10
"""Points before the surrogate is trusted."""
_FEWEST = 3
"""Successes among them."""
_SPREAD = 20
"""Random points of which the farthest opens."""
_CANDIDATES = 2500
"""Random unmeasured points the surrogate judges at each ask, besides the neighbours of the best."""
_LEADERS = 8
"""How many of the best points have their neighbours judged."""
_CLOSEST = 2
"""How many of them have their neighbours' neighbours judged: a better basin is often two steps away, as a
wider tile wants more threads."""
_STEPS = 15
"""Of hyperparameter search, whenever it is due."""
_POWER = 0.5
"""Of the relative speed that is modelled: between speed (1) and the logarithm of time (towards 0)."""
_NEXT = 10
"""Proposals whose gains make the outlook."""
_MEMORY = 160
"""Observations the surrogate learns from: the best and the latest, as its cost grows with their cube."""
_LEAST_CHANCE = 0.02


class ModelBased:
    """See above."""

    def __init__(self, seed: int) -> None:
        self.outlook: float | None = None
        self._rng = np.random.default_rng(seed)
        self._model: GaussianProcess | None = None
        self._success: GaussianProcess | None = None
        self._next_climb = 0
        self._climbs = True

    def choose(self, board: Board) -> int:
        """A far row, else the most promising one."""
        unseen = np.flatnonzero(board.unseen)
        if len(board.told) + len(board.pending) < _OPENING or board.successes < _FEWEST:
            return self._farthest(board, self._sample(unseen, _SPREAD))
        return self._most_promising(board, self._sample(unseen, _CANDIDATES))

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """All is read off the board."""

    def _sample(self, rows: Rows, count: int) -> Rows:
        return rows if len(rows) <= count else self._rng.choice(rows, count, replace=False)

    def _farthest(self, board: Board, candidates: Rows) -> int:
        """The candidate whose nearest seen point is farthest away."""
        seen = [*board.told, *board.pending][-_MEMORY:]
        if not seen:
            return int(self._rng.choice(candidates))
        gaps = squared_distances(board.encoding.of(candidates), board.encoding.of(seen)).min(axis=1)
        return int(candidates[gaps.argmax()])

    def _most_promising(self, board: Board, sample: Rows) -> int:
        """The candidate with the highest expected improvement over the best point so far."""
        seconds = np.array(board.seconds)
        ranking = np.argsort(seconds, kind="stable")
        model = self._learn(board, seconds, ranking)
        candidates = np.union1d(sample, self._around(board, ranking))
        x = board.encoding.of(candidates)
        gain = expected_improvement(*model.predict(x), best=-1.0) * self._chance(board, x)
        self.outlook = float(np.sort(gain)[-_NEXT:].sum()) / _POWER
        return int(candidates[gain.argmax()])

    @staticmethod
    def _around(board: Board, ranking: Rows) -> Rows:
        """Unseen rows near the best ones."""
        leaders = [board.told[told] for told in ranking[:_LEADERS]]
        near = {row for leader in leaders for row in board.unseen_neighbours(leader)}
        for leader in leaders[:_CLOSEST]:
            for point in board.space.neighbours(board.space.points[leader]):
                near.update(board.unseen_neighbours(board.row[point]))
        return np.array(sorted(near), dtype=np.intp)

    def _learn(self, board: Board, seconds: Array, ranking: Rows) -> GaussianProcess:
        """Fit the surrogate to the negative speed relative to the best: -1 is the best.

        Unlike time, relative speed has no long tail.
        """
        model = self._model = self._model or GaussianProcess(board.encoding)
        latest = np.arange(max(0, len(seconds) - _MEMORY // 2), len(seconds))
        kept = np.union1d(ranking[: _MEMORY // 2], latest)
        kept = kept[np.isfinite(seconds[kept])]
        relative = -((seconds[ranking[0]] / seconds[kept]) ** _POWER)
        self._climbs = len(seconds) >= self._next_climb
        if self._climbs:  # hyperparameters settle, so they are learned again after every tenth more points
            self._next_climb = math.ceil(1.1 * len(seconds))
        rows = np.array(board.told)[kept]
        model.fit(board.encoding.of(rows), relative, steps=_STEPS if self._climbs else 0)
        if board.pending:
            pending = list(board.pending)
            expected, _ = model.predict(board.encoding.of(pending))
            model.fit(board.encoding.of([*rows, *pending]), np.append(relative, expected), steps=0)
        return model

    def _chance(self, board: Board, x: Array) -> Array | float:
        """How likely each point is to run at all: regression on successes (1) and failures (0)."""
        told = board.told[-_MEMORY:]
        ran = np.isfinite(board.seconds[-_MEMORY:]).astype(float)
        if ran.all():
            return 1.0
        self._success = self._success or GaussianProcess(board.encoding, SUCCESS)
        self._success.fit(board.encoding.of(told), ran, steps=_STEPS if self._climbs else 0)
        chance: Array = np.clip(self._success.predict(x)[0], _LEAST_CHANCE, 1.0)
        return chance
