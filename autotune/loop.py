"""The loop: ask the search, have the candidate run, hand out its outcome; in several lanes at once."""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from autotune import space
from autotune.errors import CacheUnwritable
from autotune.kernels.base import Family
from autotune.lanes import Done, Lane, Results, raised
from autotune.model import Config, Measurement, Rejection, Trial
from autotune.search import Search
from autotune.space import Axes
from autotune.trial_log import TrialLog

_PAUSE = 0.5
_PATIENCE = 120.0
"""Seconds to wait at the end for what other workers still measure."""
_DIED = Rejection(stage="crash", reason="the worker that ran it was never heard of again")


class Told(Struct, frozen=True, omit_defaults=True):
    """An outcome, as workers tell each other."""

    measurement: Measurement | None = None
    rejection: Rejection | None = None


def told(outcome: Measurement | Rejection) -> str:
    """An outcome as text for other workers."""
    if isinstance(outcome, Measurement):
        return msgspec.json.encode(Told(measurement=outcome)).decode()
    return msgspec.json.encode(Told(rejection=outcome)).decode()


def trials(
    family: Family,
    lanes: Sequence[Lane],
    search: Search,
    axes: Axes,
    log: TrialLog | None,
    may_go_on: Callable[[int], bool],
    best: Callable[[], float | None],
) -> Iterator[Trial]:
    """Candidates and their outcomes, as they come, until told to stop or the space is exhausted.

    `may_go_on` takes how many candidates are in work; those are waited for. `best` gives the fastest time so
    far in seconds, against which slow candidates are cut short. Raises WorkerError where no lane is left. The
    lanes are stopped at the end, however it comes.
    """
    idle, busy = list(lanes), 0
    returned: list[Config] = []  # by lanes that did not open
    patience = 0.0
    results: Results = queue.SimpleQueue()
    ended = False
    try:
        while True:
            while idle and may_go_on(busy):
                config = returned.pop() if returned else _next(family, search, axes, log)
                if config is None:
                    break
                lane = idle.pop(0)
                lane.submit(config, best(), results)
                busy += 1
            yield from _arrived(family, search, axes)
            if not busy:
                if search.running_elsewhere and patience < _PATIENCE:
                    time.sleep(_PAUSE)  # what others find counts, and what they lose is to be done here
                    patience += _PAUSE
                    continue
                may_go_on(0)  # which says why it ended, now that all is in
                ended = True
                return
            patience = 0.0
            done = _wait(results)
            busy -= 1
            if done.trial is None:
                if not busy and not idle:
                    raise raised(done)
                if not done.begun:
                    returned.append(done.config)
                continue
            idle.append(done.lane)
            if log is not None:
                with suppress(CacheUnwritable):
                    log.finished(done.trial)
            yield done.trial
    finally:
        for lane in lanes:
            lane.stop(at_once=not ended)


def _next(family: Family, search: Search, axes: Axes, log: TrialLog | None) -> Config | None:
    """What the search wants to know next, noted as begun."""
    point = search.ask()
    if point is None:
        return None
    config = space.config_at(family, axes, point)
    if log is not None:
        with suppress(CacheUnwritable):  # a disk that fills up costs the resume, not the search
            log.started(config)
    return config


def _arrived(family: Family, search: Search, axes: Axes) -> Iterator[Trial]:
    """What other workers found, where there are any."""
    for point, outcome in search.arrived():
        config = space.config_at(family, axes, point)
        try:
            told = msgspec.json.decode(outcome or "", type=Told)
            yield Trial(config=config, outcome=told.measurement or told.rejection or _DIED)
        except ValueError:
            yield Trial(config=config, outcome=_DIED)


def _wait(results: Results) -> Done:
    while True:
        with suppress(queue.Empty):
            return results.get(timeout=1.0)  # for ever would keep Ctrl-C out on some systems
