"""A search as an Optuna study: every strategy is a sampler that hands out whole points.

Optuna's own samplers draw each axis by itself, so on a space with constraints they repeat points and
propose illegal ones. A sampler here picks whole points from the enumerated legal ones instead: first the
seeds, in their order, then what its strategy chooses. A point is never proposed twice, so asking on always
ends, with every point proposed once. The search learns from all that it is told, whoever proposed it, so an
interrupted study goes on from its finished trials.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from autotune.search.board import Board, Strategy
from autotune.search.samplers import DEFAULT, make
from autotune.space import Point, Space

Distributions = dict[str, BaseDistribution]

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Search:
    """Proposes points of a space one by one, and learns from what they took."""

    def __init__(
        self,
        space: Space,
        *,
        seeds: Sequence[Point] = (),
        seed: int = 0,
        sampler: str = DEFAULT,
        strategy: Strategy | None = None,
    ) -> None:
        """`sampler` names one of SAMPLERS; `strategy` takes its place."""
        self.space = space
        self.board = Board(space)
        self.strategy = strategy or make(sampler, space, seed)
        self._indices = _distributions(space)
        self._seeds = deque(dict.fromkeys(point for point in seeds if point in space))
        self._pending: dict[Point, Trial] = {}
        self.study = optuna.create_study(sampler=_Sampler(self), pruner=optuna.pruners.NopPruner())

    @property
    def best(self) -> tuple[Point, float] | None:
        """The fastest point told so far and its seconds; None while all have failed."""
        place = self.board.best
        if place is None:
            return None
        return self.space.points[self.board.told[place]], self.board.seconds[place]

    def ask(self) -> Point | None:
        """The next point, never asked or told before; None when the space is exhausted."""
        if not self.board.unseen.any():
            return None
        trial = self.study.ask()
        variant = str(trial.suggest_categorical("variant", tuple(self.space.axes)))
        names = self._indices[variant]
        point = variant, tuple(trial.suggest_int(name, 0, axis.high) for name, axis in names.items())
        self.board.propose(self.board.row[point])
        self._pending[point] = trial
        return point

    def tell(self, point: Point, seconds: float | None) -> None:
        """Record what a point took; None, nan, infinity or no positive time mean that it failed.

        Points that were never asked are learned from as well; points told before or outside the
        space are ignored.
        """
        row = self.board.row.get(point)
        trial = self._pending.pop(point, None)
        if row is None or (trial is None and not self.board.unseen[row]):
            return
        failed = seconds is None or not 0.0 < seconds < math.inf
        state = TrialState.FAIL if failed else TrialState.COMPLETE
        value = None if failed else seconds
        if trial is None:
            self.study.add_trial(self._finished(point, state, value))
        else:
            self.study.tell(trial, value, state)
        self.board.tell(row, value)
        self.strategy.told(self.board, row, value)

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
        """The point to propose next: a seed, else the strategy's choice."""
        while self._seeds:
            point = self._seeds.popleft()
            if self.board.unseen[self.board.row[point]]:
                return point
        return self.space.points[self.strategy.choose(self.board)]


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
