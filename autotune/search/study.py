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
from optuna.trial import Trial, TrialState, create_trial

from autotune.search.board import Board, Strategy
from autotune.search.distributions import Distributions, Naming
from autotune.search.samplers import DEFAULT, make
from autotune.search.shared import SharedStudy
from autotune.space import Point, Space

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
        shared: SharedStudy | None = None,
        budget: int = 1 << 62,
    ) -> None:
        """`sampler` names one of SAMPLERS; `strategy` takes its place. With a `shared` study, what other
        workers propose and measure counts as if it happened here; together they measure at most `budget`
        points."""
        self.space = space
        self.board = Board(space)
        self.strategy = strategy or make(sampler, space, seed)
        self.naming = Naming(space)
        self._seeds = deque(dict.fromkeys(point for point in seeds if point in space))
        self._pending: dict[Point, Trial | int] = {}
        self._shared, self._budget = shared, budget
        self._arrived: list[tuple[Point, str | None]] = []
        self.study = optuna.create_study(sampler=_Sampler(self), pruner=optuna.pruners.NopPruner())

    @property
    def best(self) -> tuple[Point, float] | None:
        """The fastest point told so far and its seconds; None while all have failed."""
        place = self.board.best
        if place is None:
            return None
        return self.space.points[self.board.told[place]], self.board.seconds[place]

    @property
    def outlook(self) -> float | None:
        """What the next few proposals together are expected to gain; see `board.Strategy`."""
        return self.strategy.outlook

    @property
    def running_elsewhere(self) -> int:
        """Points that other workers measure now."""
        return len(self.board.pending) - len(self._pending)

    def ask(self) -> Point | None:
        """The next point, never asked or told before; None when the space or a shared budget is exhausted."""
        if self._shared is not None:
            return self._claimed(self._shared)
        if not self.board.unseen.any():
            return None
        trial = self.study.ask()
        variant = str(trial.suggest_categorical("variant", tuple(self.space.axes)))
        for name, high in self.naming.highest(variant).items():
            trial.suggest_int(name, 0, high)
        point = self.naming.point(trial.params)
        self.board.propose(self.board.row[point])
        self._pending[point] = trial
        return point

    def tell(self, point: Point, seconds: float | None, outcome: str = "") -> None:
        """Record what a point took; None, nan, infinity or no positive time mean that it failed.

        Points that were never asked are learned from as well; points told before or outside the
        space are ignored. `outcome` is for other workers of a shared study.
        """
        row = self.board.row.get(point)
        trial = self._pending.pop(point, None)
        if row is None or (trial is None and not self.board.unseen[row]):
            return
        value = seconds if seconds is not None and 0.0 < seconds < math.inf else None
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        if isinstance(trial, Trial):
            self.study.tell(trial, value, state)
        elif isinstance(trial, int):
            assert self._shared is not None
            self._shared.settle(trial, value, outcome)
        else:
            params, distributions = self.naming.params(point), self.naming.distributions(point[0])
            self.study.add_trial(
                create_trial(state=state, value=value, params=params, distributions=distributions)
            )
        self._learn(row, value)

    def arrived(self) -> list[tuple[Point, str | None]]:
        """Points that other workers measured since the last call, and their outcomes as they told them; None
        where one died over it."""
        if self._shared is not None:
            self._sync(self._shared)
        found, self._arrived = self._arrived, []
        return found

    def choose(self) -> Point:
        """The point to propose next: a seed, else the strategy's choice."""
        while self._seeds:
            point = self._seeds.popleft()
            if self.board.unseen[self.board.row[point]]:
                return point
        return self.space.points[self.strategy.choose(self.board)]

    def _learn(self, row: int, seconds: float | None) -> None:
        self.board.tell(row, seconds)
        self.strategy.told(self.board, row, seconds)

    def _claimed(self, shared: SharedStudy) -> Point | None:
        """A point that is ours alone to measure."""
        self._sync(shared)
        while self.board.unseen.any() and self.board.successes + len(self.board.pending) < self._budget:
            point = self.choose()
            number = shared.claim(
                self.naming.params(point), self.naming.distributions(point[0]), self._budget
            )
            if number is not None:
                self.board.propose(self.board.row[point])
                self._pending[point] = number
                return point
            self._sync(shared)
        return None

    def _sync(self, shared: SharedStudy) -> None:
        ended, running = shared.news()
        board = self.board
        for trial in ended:
            point = self.naming.point(trial.params)
            row = board.row.get(point)
            if row is not None and point not in self._pending and (board.unseen[row] or row in board.pending):
                self._learn(row, trial.seconds)
                self._arrived.append((point, trial.outcome))
        elsewhere = {board.row.get(self.naming.point(params)) for params in running}
        here = {board.row[point] for point in self._pending}
        for row in [row for row in board.pending if row not in here and row not in elsewhere]:
            board.release(row)  # its worker withdrew
        for row in elsewhere:
            if row is not None and board.unseen[row]:
                board.propose(row)


class _Sampler(optuna.samplers.BaseSampler):
    """Optuna's side of the search: hands out whole points, as parameters of a trial.

    For each trial Optuna asks first which parameters there are, then for their values.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def infer_relative_search_space(self, *_: Any) -> Distributions:
        self._point = self._search.choose()
        return self._search.naming.distributions(self._point[0])

    def sample_relative(self, *_: Any) -> dict[str, Any]:
        return self._search.naming.params(self._point)

    def sample_independent(self, *_: Any) -> Any:
        raise NotImplementedError("the parameters of a point are chosen together")
