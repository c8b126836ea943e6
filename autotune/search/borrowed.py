"""Optuna's own samplers, led back to the legal points.

TPE and CMA-ES draw axes without knowing which points are legal or were tried. Each runs in a study of its
own; what it draws is replaced by the nearest legal point that is still untried.
"""

import warnings
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial

from autotune.errors import AutotuneError
from autotune.search.board import Board, Strategy
from autotune.search.surrogate import squared_distances
from autotune.space import Point, Space


def tpe(space: Space, seed: int) -> Strategy:
    """Tree-structured Parzen estimators (Bergstra et al. 2011), all axes of a variant together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both options are called experimental
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True)
    return _Tpe(space, sampler)


def cmaes(space: Space, seed: int) -> Strategy:
    """CMA-ES (Hansen 2016) on the places of values as numbers. Raises AutotuneError without `cmaes`."""
    try:
        import cmaes  # noqa: F401  Optuna imports it only when the first point is drawn
    except ImportError as error:
        raise AutotuneError("the sampler cmaes needs one more package: pip install cmaes") from error
    return _Cmaes(space, optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False))


class _Tpe:
    """Each variant has its axes, as integers; what is learned is the point that was really measured."""

    outlook: float | None = None

    def __init__(self, space: Space, sampler: optuna.samplers.BaseSampler) -> None:
        self._space = space
        self._study = optuna.create_study(sampler=sampler)
        self._of: dict[str, dict[str, BaseDistribution]] = {
            variant: {f"{variant}.{axis.name}": IntDistribution(0, len(axis.values) - 1) for axis in axes}
            for variant, axes in space.axes.items()
        }
        self._variants = CategoricalDistribution(tuple(space.axes))

    def choose(self, board: Board) -> int:
        """The untried row nearest to what the sampler draws."""
        trial = self._study.ask()
        variant = str(trial.suggest_categorical("variant", self._variants.choices))
        names = self._of[variant].items()
        indices = tuple(trial.suggest_int(name, 0, int(getattr(of, "high", 0))) for name, of in names)
        self._study.tell(trial, state=TrialState.FAIL)
        return nearest(board, (variant, indices))

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """Learn what a point took; failures tell the sampler nothing."""
        if seconds is None:
            return
        variant, indices = self._space.points[row]
        of = self._of[variant]
        params: dict[str, Any] = {"variant": variant, **dict(zip(of, indices, strict=True))}
        trial = create_trial(value=seconds, params=params, distributions={"variant": self._variants, **of})
        self._study.add_trial(trial)


class _Cmaes:
    """One real number an axis, whatever the variants that have it, and one for the variant.

    The strategy learns the time of the point that stood in for what it drew; a failure is as slow as the
    slowest success.
    """

    outlook: float | None = None

    def __init__(self, space: Space, sampler: optuna.samplers.BaseSampler) -> None:
        self._study = optuna.create_study(sampler=sampler)
        names = dict.fromkeys(axis.name for axes in space.axes.values() for axis in axes)
        self._distributions: dict[str, BaseDistribution] = {
            name: FloatDistribution(0.0, 1.0) for name in ("variant", *names)
        }
        self._drawn: dict[int, Trial] = {}
        self._slowest = 1.0

    def choose(self, board: Board) -> int:
        """The untried row nearest to what the sampler draws."""
        trial = self._study.ask(self._distributions)
        variants = list(board.space.axes)
        variant = variants[min(int(trial.params["variant"] * len(variants)), len(variants) - 1)]
        axes = board.space.axes[variant]
        indices = tuple(
            min(int(trial.params[axis.name] * len(axis.values)), len(axis.values) - 1) for axis in axes
        )
        row = nearest(board, (variant, indices))
        self._drawn[row] = trial
        return row

    def told(self, board: Board, row: int, seconds: float | None) -> None:
        """Learn what the point that stood in took."""
        if seconds is not None:
            self._slowest = max(self._slowest, seconds) if board.successes > 1 else seconds
        trial = self._drawn.pop(row, None)
        if trial is not None:
            self._study.tell(trial, self._slowest if seconds is None else seconds)


def nearest(board: Board, point: Point) -> int:
    """The untried row nearest to a point, which need not be legal; any of the variant's where it has none."""
    row = board.row.get(point)
    if row is not None and board.unseen[row]:
        return row
    unseen = np.flatnonzero(board.unseen)
    here = board.encoding.of_point(point)[None, :]
    return int(unseen[squared_distances(board.encoding.of(unseen), here)[:, 0].argmin()])
