"""How long a dispatch takes: estimate, batch until the clock's step does not matter, sample, take the
median. The caller hands in a `time` function, so everything here runs without a GPU too.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from autotune.model import Clock, Measurement, Rejection

Clocked = tuple[list[float], Clock]
"""Seconds for one dispatch, a value a sample, and the clock that told them."""
Timer = Callable[[int, int], Clocked]
"""Takes dispatches a sample and samples; readings that cannot be true are left out."""


class Effort(Struct, frozen=True):
    """How much time a measurement may take."""

    span: float = 50 * 65_536e-9
    """Seconds a sample lasts at least: fifty steps of the coarsest clock known (Chrome's)."""
    samples: int = 5
    budget: float = 1.0
    """Seconds for all samples of a candidate; a slow one gets fewer, but never none."""
    hopeless: float = 3.0
    """A candidate this many times slower than the best is not sampled further."""


SCREEN = Effort()
FINAL = Effort(samples=15, budget=4.0, hopeless=float("inf"))


def measure(time: Timer, best: float | None, effort: Effort = SCREEN) -> Measurement | Rejection:
    """Measure a candidate that has run before (so that no compile or first dispatch is timed).

    `best` is the fastest time so far, in seconds: far slower candidates get one sample.
    """
    first = _estimate(time)
    if isinstance(first, Rejection):
        return first
    if best is not None and first.seconds > effort.hopeless * best:
        return first
    batch = max(1, round(effort.span / first.seconds))
    affordable = int(effort.budget / (batch * first.seconds))
    samples = max(1, min(effort.samples, affordable))
    if batch == 1 and samples == 1:
        return first
    if affordable > effort.samples:
        time(batch, 1)  # brings the clocks up; the first batch of a burst is told apart from the rest
    seconds, clock = time(batch, samples)
    return summary(seconds, batch, clock) or _no_clock()


def _estimate(time: Timer) -> Measurement | Rejection:
    """A first reading: one dispatch, more where the clock cannot see it."""
    batch = 1
    while batch <= 4096:
        seconds, clock = time(batch, 1)
        reading = summary(seconds, batch, clock)
        if reading is not None:
            return reading
        batch *= 8
    return _no_clock()


def _no_clock() -> Rejection:
    return Rejection(stage="time", reason="the clock gave no possible reading")


def summary(seconds: Sequence[float], batch: int, clock: Clock) -> Measurement | None:
    """Median and quartiles of the readings; None when there are none above zero."""
    readings = sorted(value for value in seconds if 0 < value < float("inf"))
    if not readings:
        return None
    low, _, high = (
        statistics.quantiles(readings, n=4, method="inclusive") if len(readings) > 1 else readings * 3
    )
    return Measurement(
        seconds=statistics.median(readings),
        low=low,
        high=high,
        samples=len(readings),
        batch=batch,
        clock=clock,
    )


def interleave(
    timers: Sequence[Timer],
    estimates: Sequence[float],
    *,
    seed: int,
    effort: Effort = FINAL,
    budget: float = 8.0,
    on_round: Callable[[int, int], Any] = lambda _done, _all: None,
) -> list[Measurement | None]:
    """Measure several candidates in rounds, in a new order each time, so that whatever drifts
    (clocks, heat, other load) meets them alike. One result a timer; None where it never read.

    `estimates` are seconds for one dispatch of each; `budget` bounds the whole in seconds.
    """
    batches = [max(1, round(effort.span / estimate)) for estimate in estimates]
    a_round = sum(batch * estimate for batch, estimate in zip(batches, estimates, strict=True))
    rounds = max(3, min(effort.samples, int(budget / a_round)))
    readings: list[list[float]] = [[] for _ in timers]
    clocks: list[Clock] = ["gpu"] * len(timers)
    order = list(range(len(timers)))
    shuffle = random.Random(seed).shuffle
    for done in range(rounds):
        shuffle(order)
        for index in order:
            seconds, clocks[index] = timers[index](batches[index], 1)
            readings[index] += seconds
        on_round(done + 1, rounds)
    return [summary(readings[i], batches[i], clocks[i]) for i in range(len(timers))]
