"""The search: which point to measure next. The only module that knows Optuna.

Optuna's own samplers draw each axis by itself, so on a space with constraints they repeat points and
propose illegal ones. The sampler here picks whole points from the enumerated legal ones instead:

1. seeds, in their order;
2. a few points far from each other, to see the whole space once;
3. the unmeasured point with the highest expected improvement under a Gaussian process on log time.

A point is never proposed twice, so asking on always ends, with every point proposed once.
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

from autotune.space import Axis, Point, Space, Value
from autotune.surrogate import Array, GaussianProcess, expected_improvement

Distributions = dict[str, BaseDistribution]

optuna.logging.set_verbosity(optuna.logging.WARNING)

_SPREAD_POINTS = 8
"""Points told before the surrogate is trusted."""
_CANDIDATES = 1000
"""Random unmeasured points the surrogate judges at each ask, besides the neighbours of the best."""
_LEADERS = 8
"""How many of the best points have their neighbours judged."""
_MEMORY = 160
"""Observations the surrogate learns from: the best and the latest, since its cost grows as their square."""
_SLOW = 1.0
"""Log time over the best at which all points count as equally slow, failed ones included: where slow
points differ says little about where the fastest ones are, and would cost the surrogate its precision."""


class Search:
    """Proposes points of a space one by one, and learns from what they took."""

    def __init__(self, space: Space, *, seeds: Sequence[Point] = (), seed: int = 0) -> None:
        self.space = space
        self._indices = _distributions(space)
        self._row = {point: row for row, point in enumerate(space.points)}
        self._seeds = deque(dict.fromkeys(point for point in seeds if point in space))
        self._x = _features(space)
        self._unseen = np.ones(len(space), dtype=bool)
        self._pending: dict[Point, Trial] = {}
        self._rows: list[int] = []
        self._log_seconds: list[float] = []  # inf where the point failed
        self._best: tuple[Point, float] | None = None
        self._rng = np.random.default_rng(seed)
        self._model = GaussianProcess(self._x.shape[1])
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
        self._log_seconds.append(math.log(value) if value is not None else math.inf)
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
        if np.isfinite(self._log_seconds).sum() < _SPREAD_POINTS:
            return self._farthest(sample)
        return self._most_promising(sample)

    def _farthest(self, candidates: NDArray[np.intp]) -> int:
        """The candidate whose nearest seen point is farthest away (Johnson, Moore & Ylvisaker 1990)."""
        seen = [*self._rows, *(self._row[point] for point in self._pending)][-_MEMORY:]
        if not seen:
            return int(self._rng.choice(candidates))
        gaps = np.square(self._x[candidates, None] - self._x[None, seen]).sum(axis=2).min(axis=1)
        return int(candidates[gaps.argmax()])

    def _most_promising(self, sample: NDArray[np.intp]) -> int:
        cost = np.array(self._log_seconds)
        ranking = np.argsort(cost, kind="stable")
        leaders = [self.space.points[self._rows[i]] for i in ranking[:_LEADERS]]
        around = {self._row[near] for leader in leaders for near in self.space.neighbours(leader)}
        nearby = [row for row in sorted(around) if self._unseen[row]]
        candidates = np.concatenate([sample, np.array(nearby, dtype=np.intp)])

        latest = np.arange(max(0, len(cost) - _MEMORY // 2), len(cost))
        kept = np.union1d(ranking[: _MEMORY // 2], latest)
        best = float(cost.min())
        y = np.minimum(cost[kept], best + _SLOW)
        climb = len(cost) >= self._next_climb
        if climb:  # length scales settle: re-learn them after every tenth more points
            self._next_climb = math.ceil(1.1 * len(cost))
        self._model.fit(self._x[np.array(self._rows)[kept]], y, steps=15 if climb else 0)
        gain = expected_improvement(*self._model.predict(self._x[candidates]), best)
        return int(candidates[gain.argmax()])


class _Sampler(optuna.samplers.BaseSampler):
    """Optuna's side of the search: hands out whole points, as parameters of a trial."""

    def __init__(self, search: Search) -> None:
        self._search = search

    # Optuna asks in this order: first which parameters there are, then their values.

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


def _features(space: Space) -> Array:
    """One row a point. An axis that several variants share is one column, so they learn from each other."""
    columns = _columns(space)
    x = np.zeros((len(space), len(columns)))
    rows: dict[str, list[int]] = {variant: [] for variant in space.axes}
    for row, (variant, _) in enumerate(space.points):
        rows[variant].append(row)
    for variant, of_variant in rows.items():
        indices = np.array([space.points[row][1] for row in of_variant], dtype=np.intp)
        axes = {axis.name: position for position, axis in enumerate(space.axes[variant])}
        for column, (name, code) in enumerate(columns):
            if name == "":
                x[of_variant, column] = code[variant]
            elif name in axes and of_variant:
                position = axes[name]
                levels = np.array([code[value] for value in space.axes[variant][position].values])
                x[of_variant, column] = levels[indices[:, position]]
            else:
                x[of_variant, column] = 0.5
    return x


def _columns(space: Space) -> list[tuple[str, dict[Value, float]]]:
    """Name of the axis ('' for the variant) and the number that stands for each value."""
    union: dict[str, list[Axis]] = {}
    for axes in space.axes.values():
        for axis in axes:
            union.setdefault(axis.name, []).append(axis)
    columns = _one_hot("", list(space.axes))
    for name, same in union.items():
        values = list(dict.fromkeys(value for axis in same for value in axis.values))
        if all(axis.ordered for axis in same):
            values.sort()
            step = 1.0 / max(len(values) - 1, 1)
            columns.append((name, {value: step * rank for rank, value in enumerate(values)}))
        else:
            columns += _one_hot(name, values)
    return columns


def _one_hot(name: str, values: Sequence[Value]) -> list[tuple[str, dict[Value, float]]]:
    """One column a value; two values need only one column, and a single one none."""
    chosen = values if len(values) > 2 else values[1:]
    return [(name, {value: float(value == one) for value in values}) for one in chosen]


__all__ = ["Search"]
