"""The search: which point to measure next. The only module that knows Optuna.

Optuna's own samplers draw each axis by itself, so on a space with constraints they repeat points and
propose illegal ones. The sampler here picks whole points from the enumerated legal ones instead:

1. seeds, in their order;
2. a few points far from each other, to see the whole space once;
3. the unmeasured point with the highest expected improvement, judged by a Gaussian process.

A point is never proposed twice, so asking on always ends, with every point proposed once. The search learns
from all that it is told, whoever proposed it, so an interrupted study goes on from its finished trials.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from autotune.space import Point, Space
from autotune.surrogate import Encoding, GaussianProcess, expected_improvement, squared_distances

Distributions = dict[str, BaseDistribution]
Array = NDArray[np.float64]
Rows = NDArray[np.intp]

optuna.logging.set_verbosity(optuna.logging.WARNING)

_OPENING = 8
"""Successful points before the surrogate is trusted."""
_CANDIDATES = 1000
"""Random unmeasured points the surrogate judges at each ask, besides the neighbours of the best."""
_LEADERS = 8
"""How many of the best points have their neighbours judged."""
_MEMORY = 160
"""Observations the surrogate learns from: the best and the latest, as its cost grows with their cube."""


class Search:
    """Proposes points of a space one by one, and learns from what they took."""

    def __init__(self, space: Space, *, seeds: Sequence[Point] = (), seed: int = 0) -> None:
        self.space = space
        self._indices = _distributions(space)
        self._row = {point: row for row, point in enumerate(space.points)}
        self._seeds = deque(dict.fromkeys(point for point in seeds if point in space))
        self._encoding = Encoding(space)
        self._unseen = np.ones(len(space), dtype=bool)
        self._pending: dict[Point, Trial] = {}
        self._rows: list[int] = []
        self._seconds: list[float] = []  # infinity where the point failed
        self._best: tuple[Point, float] | None = None
        self._rng = np.random.default_rng(seed)
        self._model = GaussianProcess(self._encoding.axis_of_column)
        self._next_climb = 0
        self.study = optuna.create_study(sampler=_Sampler(self), pruner=optuna.pruners.NopPruner())

    @property
    def best(self) -> tuple[Point, float] | None:
        """The fastest point told so far and its seconds; None while all have failed."""
        return self._best

    def ask(self) -> Point | None:
        """The next point, never asked or told before; None when the space is exhausted."""
        if not self._unseen.any():
            return None
        trial = self.study.ask()
        variant = str(trial.suggest_categorical("variant", tuple(self.space.axes)))
        names = self._indices[variant]
        point = variant, tuple(trial.suggest_int(name, 0, axis.high) for name, axis in names.items())
        self._unseen[self._row[point]] = False
        self._pending[point] = trial
        return point

    def tell(self, point: Point, seconds: float | None) -> None:
        """Record what a point took; None, nan, infinity or no positive time mean that it failed.

        Points that were never asked are learned from as well; points told before or outside the
        space are ignored.
        """
        row = self._row.get(point)
        trial = self._pending.pop(point, None)
        if row is None or (trial is None and not self._unseen[row]):
            return
        failed = seconds is None or not 0.0 < seconds < math.inf
        state = TrialState.FAIL if failed else TrialState.COMPLETE
        value = None if failed else seconds
        if trial is None:
            self.study.add_trial(self._finished(point, state, value))
        else:
            self.study.tell(trial, value, state)
        self._unseen[row] = False
        self._rows.append(row)
        self._seconds.append(math.inf if value is None else value)
        if value is not None and (self._best is None or value < self._best[1]):
            self._best = point, value

    def _finished(self, point: Point, state: TrialState, value: float | None) -> FrozenTrial:
        params, distributions = self.params(point), self.distributions(point[0])
        return create_trial(state=state, value=value, params=params, distributions=distributions)

    def distributions(self, variant: str) -> Distributions:
        """The parameters of a trial of this variant, as Optuna knows them."""
        return {"variant": CategoricalDistribution(tuple(self.space.axes)), **self._indices[variant]}

    def params(self, point: Point) -> dict[str, Any]:
        """The parameters of the trial that stands for a point."""
        variant, indices = point
        return {"variant": variant, **dict(zip(self._indices[variant], indices, strict=True))}

    def choose(self) -> Point:
        """The point to propose next: a seed, else a far one, else the most promising one."""
        while self._seeds:
            point = self._seeds.popleft()
            if self._unseen[self._row[point]]:
                return point
        return self.space.points[self._choose_row()]

    def _choose_row(self) -> int:
        unseen = np.flatnonzero(self._unseen)
        sample = unseen if len(unseen) <= _CANDIDATES else self._rng.choice(unseen, _CANDIDATES)
        if np.isfinite(self._seconds).sum() < _OPENING:
            return self._farthest(sample)
        return self._most_promising(sample)

    def _farthest(self, candidates: Rows) -> int:
        """The candidate whose nearest seen point is farthest away (Johnson, Moore & Ylvisaker 1990)."""
        seen = [*self._rows, *(self._row[point] for point in self._pending)][-_MEMORY:]
        if not seen:
            return int(self._rng.choice(candidates))
        gaps = squared_distances(self._encoding.rows[candidates], self._encoding.rows[seen]).min(axis=1)
        return int(candidates[gaps.argmax()])

    def _most_promising(self, sample: Rows) -> int:
        """The candidate with the highest expected improvement over the best point so far."""
        seconds = np.array(self._seconds)
        ranking = np.argsort(seconds, kind="stable")
        self._learn(seconds, ranking)
        leaders = [self.space.points[self._rows[told]] for told in ranking[:_LEADERS]]
        around = {self._row[near] for leader in leaders for near in self.space.neighbours(leader)}
        nearby = [row for row in sorted(around) if self._unseen[row]]
        candidates = np.concatenate([sample, np.array(nearby, dtype=np.intp)])
        gain = expected_improvement(*self._model.predict(self._encoding.rows[candidates]), best=-1.0)
        return int(candidates[gain.argmax()])

    def _learn(self, seconds: Array, ranking: Rows) -> None:
        """Fit the surrogate to the negative speed relative to the best: -1 is the best, 0 a failure.

        Unlike time, relative speed has no long tail, and gives failures a place at the slow end.
        """
        latest = np.arange(max(0, len(seconds) - _MEMORY // 2), len(seconds))
        kept = np.union1d(ranking[: _MEMORY // 2], latest)
        relative = -seconds[ranking[0]] / seconds[kept]
        grown = len(seconds) >= self._next_climb
        if grown:  # the hyperparameters settle, so they are learned again after every tenth more points
            self._next_climb = math.ceil(1.1 * len(seconds))
        self._model.fit(self._encoding.rows[np.array(self._rows)[kept]], relative, steps=15 if grown else 0)


class _Sampler(optuna.samplers.BaseSampler):
    """Optuna's side of the search: hands out whole points, as parameters of a trial.

    For each trial Optuna asks first which parameters there are, then for their values.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def infer_relative_search_space(self, *_: Any) -> Distributions:
        self._point = self._search.choose()
        return self._search.distributions(self._point[0])

    def sample_relative(self, *_: Any) -> dict[str, Any]:
        return self._search.params(self._point)

    def sample_independent(self, *_: Any) -> Any:
        raise NotImplementedError("the parameters of a point are chosen together")


def _distributions(space: Space) -> dict[str, dict[str, IntDistribution]]:
    """For each variant, one distribution an axis, over the indices of its values."""
    return {
        variant: {f"{variant}.{axis.name}": IntDistribution(0, len(axis.values) - 1) for axis in axes}
        for variant, axes in space.axes.items()
    }
