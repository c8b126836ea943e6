"""How long a dispatch takes: estimate, batch until the clock's step does not matter, sample, take the
median. The caller hands in a `time` function, so everything here runs without a GPU too.
"""

import math
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


COARSEST_STEP = 65_536e-9
"""Seconds between two readings of the coarsest clock known (Chrome's)."""
MAX_BATCH = 1 << 14
"""Dispatches a sample at most: what a clock cannot see by then is not worth encoding more of."""


class Effort(Struct, frozen=True):
    """How much time a measurement may take."""

    span: float = 50 * COARSEST_STEP
    """Seconds a sample lasts at least, so that the clock's step does not matter."""
    samples: int = 5
    budget: float = 1.0
    """Seconds for all samples of a candidate; a slow one gets fewer, but never none."""
    hopeless: float = 3.0
    """A candidate this many times slower than the best is not sampled further."""


SCREEN = Effort()
FINAL = Effort(samples=15, budget=4.0, hopeless=float("inf"))
FEWEST_ROUNDS = 3
"""In which candidates are measured in turns, however long they take."""


def measure(time: Timer, best: float | None, effort: Effort = SCREEN) -> Measurement | Rejection:
    """Measure a candidate that has run before (so that no compile or first dispatch is timed).

    `best` is the fastest time so far, in seconds: far slower candidates get one sample.
    """
    hopeless = float("inf") if best is None else effort.hopeless * best
    batch = 1
    first = _reading(time, batch)
    while first is None or first.seconds * batch < effort.span:
        if first is not None and _at_least(first) > hopeless:
            return first
        larger = 8 * batch if first is None else _batch(effort, first.seconds)
        if larger > MAX_BATCH:
            break
        batch, first = larger, _reading(time, larger)
    if first is None:
        return Rejection(stage="time", reason="the clock gave no possible reading")
    affordable = int(effort.budget / (batch * first.seconds))
    samples = min(effort.samples, affordable)
    if samples <= 1 or _at_least(first) > hopeless:
        return first
    if batch == 1 and affordable > samples:
        time(batch, 1)  # brings the clocks up, as the batch before a larger one has done
    seconds, clock = time(batch, samples)
    return summary(seconds, batch, clock) or first


def _reading(time: Timer, batch: int) -> Measurement | None:
    seconds, clock = time(batch, 1)
    return summary(seconds, batch, clock)


def _at_least(reading: Measurement) -> float:
    """The shortest time that a coarse clock may have shown as this reading, in seconds."""
    return reading.seconds - COARSEST_STEP / reading.batch


def _batch(effort: Effort, seconds: float) -> int:
    """Dispatches of this time that fill a sample, with some to spare."""
    return 1 if seconds >= effort.span else math.ceil(1.1 * effort.span / seconds)


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
    batches = [min(_batch(effort, estimate), MAX_BATCH) for estimate in estimates]
    a_round = sum(batch * estimate for batch, estimate in zip(batches, estimates, strict=True))
    rounds = max(FEWEST_ROUNDS, min(effort.samples, int(budget / a_round)))
    readings: list[list[float]] = [[] for _ in timers]
    clocks: list[Clock] = ["gpu"] * len(timers)
    order = list(range(len(timers)))
    shuffle = random.Random(seed).shuffle
    for done in range(rounds):
        shuffle(order)
        for index in order:
            seconds, clock = timers[index](batches[index], 1)
            if seconds:
                clocks[index] = clock
                readings[index] += seconds
        on_round(done + 1, rounds)
    return [summary(readings[i], batches[i], clocks[i]) for i in range(len(timers))]
