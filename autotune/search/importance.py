"""Which parameters matter: how much of the variation of speed each explains alone.

First-order sensitivity indices (Sobol' 1993; over tuning parameters: Hutter, Hoos & Leyton-Brown, "An
Efficient Approach for Assessing Hyperparameter Importance", 2014), read off the surrogate at legal points:
the variance of the mean over each value of a parameter, as a share of the whole variance. What their sum
leaves open is due to parameters together.
"""

import numpy as np

from autotune.search.board import Board
from autotune.search.surrogate import GaussianProcess

_FEWEST = 12
"""Measured points of a variant below which nothing is said."""
_MOST = 160
"""Points that the surrogate learns from."""
_SAMPLE = 2000


def importance(board: Board) -> dict[str, float]:
    """For each parameter of the fastest variant its share, 0 to 1, largest first; empty where too few points
    of it were measured."""
    if board.best is None:
        return {}
    variant = board.space.points[board.told[board.best]][0]
    known = [
        (row, seconds)
        for row, seconds in zip(board.told, board.seconds, strict=True)
        if np.isfinite(seconds) and board.space.points[row][0] == variant
    ][-_MOST:]
    if len(known) < _FEWEST:
        return {}
    rows = np.array([row for row, _ in known])
    logs = np.log([seconds for _, seconds in known])
    model = GaussianProcess(board.encoding)
    model.fit(board.encoding.of(rows), logs, steps=30)
    alike = np.array([row for row, (name, _) in enumerate(board.space.points) if name == variant])
    if len(alike) > _SAMPLE:
        alike = np.random.default_rng(0).choice(alike, _SAMPLE, replace=False)
    mean, _ = model.predict(board.encoding.of(alike))
    places = np.array([board.space.points[row][1] for row in alike])
    whole = float(mean.var())
    shares: dict[str, float] = {}
    for position, axis in enumerate(board.space.axes[variant]):
        counts = np.bincount(places[:, position], minlength=len(axis.values))
        sums = np.bincount(places[:, position], weights=mean, minlength=len(axis.values))
        there = counts > 0
        if there.sum() > 1 and whole > 0:
            gaps = sums[there] / counts[there] - mean.mean()
            shares[axis.name] = float((counts[there] * gaps**2).sum() / counts.sum() / whole)
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))
