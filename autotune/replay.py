"""Replays of recorded spaces: how few measurements a search needs, told without a GPU.

The idea is Kernel Tuner's simulation mode (Willemsen, van Nieuwpoort & van Werkhoven, 2021): a search asks
for a config, and a file answers instead of a device.
"""

import math
import time
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from msgspec import Struct

from autotune.recorded import Recorded
from autotune.search import Search

BUDGETS = (25, 50, 100, 200, 400, 800)
"""Different measurements after which the best is told."""


class Curve(Struct, frozen=True):
    """What one search found: after each measurement, the optimum's time as a share of the best so far."""

    shares: tuple[float, ...]
    """0 until something worked; 1 is the optimum. Failed candidates count as measurements."""
    seconds_asking: float
    """What the search itself took, on average for one proposal."""

    def at(self, budget: int) -> float:
        """The share after so many measurements; a search that ends before keeps its last."""
        return self.shares[min(budget, len(self.shares)) - 1] if self.shares else 0.0


def replay(recorded: Recorded, sampler: str, *, seed: int, trials: int) -> Curve:
    """Run one search on a recorded space, without any seeds of that space."""
    search = Search(recorded.space, seed=seed, sampler=sampler)
    taken: list[float] = []
    spent = 0.0
    while len(taken) < trials:
        start = time.perf_counter()
        point = search.ask()
        spent += time.perf_counter() - start
        if point is None:
            break
        seconds = recorded.times[point]
        search.tell(point, seconds)
        taken.append(math.inf if seconds is None else seconds)
    shares = tuple(recorded.optimum / best for best in accumulate(taken, min))
    return Curve(shares, spent / max(len(taken), 1))


class Summary(Struct, frozen=True):
    """Many searches after one number of measurements."""

    budget: int
    median: float
    low: float
    """10th percentile."""


def summaries(curves: Sequence[Curve], trials: int) -> list[Summary]:
    """For each budget up to the number of trials, how the searches stand."""
    found = []
    for budget in [*(b for b in BUDGETS if b < trials), trials]:
        shares = [curve.at(budget) for curve in curves]
        found.append(Summary(budget, float(np.median(shares)), float(np.percentile(shares, 10))))
    return found
