"""The loop: ask the search, have the candidate run, hand out its outcome; in several lanes at once."""

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from autotune import space
from autotune.errors import CacheUnwritable
from autotune.kernels.base import Family
from autotune.lanes import Done, Lane, Results, raised
from autotune.model import Config, Trial
from autotune.search import Search
from autotune.space import Axes
from autotune.trial_log import TrialLog


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
    results: Results = queue.SimpleQueue()
    ended = False
    try:
        while True:
            while idle and may_go_on(busy) and (config := _next(family, search, axes)) is not None:
                if log is not None:
                    with suppress(CacheUnwritable):  # a disk that fills up costs the resume, not the search
                        log.started(config)
                lane = idle.pop(0)
                lane.submit(config, best(), results)
                busy += 1
            if not busy:
                ended = True
                return
            done = _wait(results)
            busy -= 1
            if done.trial is None:
                if not busy and not idle:
                    raise raised(done)
                continue
            idle.append(done.lane)
            if log is not None:
                with suppress(CacheUnwritable):
                    log.finished(done.trial)
            yield done.trial
    finally:
        for lane in lanes:
            lane.stop(at_once=not ended)


def _next(family: Family, search: Search, axes: Axes) -> Config | None:
    point = search.ask()
    return None if point is None else space.config_at(family, axes, point)


def _wait(results: Results) -> Done:
    while True:
        with suppress(queue.Empty):
            return results.get(timeout=1.0)  # for ever would keep Ctrl-C out on some systems
