"""Lanes: several candidates in work at once, so that the next ones compile while one is measured.

A lane is a runtime in a process of its own: a candidate that takes the compiler or the driver down takes its
lane down and no other. The lanes of one adapter share a gate, which lets the kernels of one lane
onto the GPU at a time, so that no time is of two kernels at once. Compiling, moving results to this process
and comparing them need no gate.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from autotune.candidate import Bench
from autotune.errors import WorkerError
from autotune.model import Config, DeviceProfile, Rejection, Trial
from autotune.runtime.process import Gate, WorkerRuntime

MOST_JOBS = 4
"""Lanes on one adapter where nobody says how many: each takes a process, a device and memory."""
_CORES_EACH = 2
"""Of a lane: one for its worker, which compiles, and one for its thread here, which compares."""
_ROOM = 2 << 30
"""Bytes of data that the lanes of one adapter may hold together, where nobody says how many. Outputs lie on
the device twice, so there it may be up to twice as much."""


class Done(Struct, frozen=True):
    """What a lane has to say about a candidate: its outcome, or the error that ended the lane."""

    lane: "Lane"
    config: Config
    trial: Trial | None
    error: BaseException | None = None
    begun: bool = True
    """Whether the lane got as far as the candidate: where it did not even open, another one may take it."""


Results = queue.SimpleQueue[Done]


class Lane(Protocol):
    """Takes one candidate at a time and puts what became of it into a queue of results."""

    error: BaseException | None
    """What ended the lane, where something did."""

    def submit(self, config: Config, best: float | None, results: Results) -> None:
        """Begin with a candidate; `best` is the fastest time so far, in seconds."""

    def stop(self, *, at_once: bool) -> None:
        """End the lane: after its candidate, or at once, without an outcome for it."""


class Here:
    """A lane in this thread: a candidate is done when `submit` returns."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.error: BaseException | None = None

    def submit(self, config: Config, best: float | None, results: Results) -> None:
        """Evaluate the candidate; errors that are not its own are raised."""
        results.put(Done(self, config, evaluate(self._bench, config, best)))

    def stop(self, *, at_once: bool) -> None:
        """Nothing goes on behind the caller's back."""


class Aside:
    """A lane in a thread of its own, which opens its bench itself.

    Its runtime is closed at the end; with `keep`, as others go on to use it, only where the end must come at
    once.
    """

    def __init__(self, opened: Callable[[], Bench], *, keep: bool = False) -> None:
        self._opened, self._keep = opened, keep
        self._inbox: queue.SimpleQueue[tuple[Config, float | None, Results] | None] = queue.SimpleQueue()
        self._bench: Bench | None = None
        self._stopping = self._at_once = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, config: Config, best: float | None, results: Results) -> None:
        """Hand the candidate to the thread."""
        self._inbox.put((config, best, results))

    def stop(self, *, at_once: bool) -> None:
        """End the thread; at once means that the candidate's worker is killed."""
        self._stopping, self._at_once = True, at_once
        self._inbox.put(None)
        if at_once and self._bench is not None:
            self._bench.runtime.close()
        self._thread.join(timeout=120.0)
        if self._bench is not None and not self._keep:
            self._bench.runtime.close()

    def _work(self) -> None:
        while (item := self._inbox.get()) is not None:
            config, best, results = item
            begun = False
            try:
                self._bench = self._bench or self._opened()
                if self._at_once:
                    return
                begun = True
                trial = evaluate(self._bench, config, best)
                if _crashed(trial) and not self._stopping:
                    trial = evaluate(self._bench, config, best)  # a neighbour may have taken the driver down
            except BaseException as error:
                self.error = None if self._at_once else error  # which then came from outside
                results.put(Done(self, config, None, error, begun=begun))
                return
            results.put(Done(self, config, trial))


class Lanes(Struct, frozen=True):
    """The lanes of a search, and how many adapters they are on."""

    lanes: tuple[Lane, ...]
    adapters: int


def lanes_for(bench: Bench, *, jobs: int | None = None, workers: int = 1) -> Lanes:
    """Lanes for a bench: `jobs` on each of `workers` adapters like its own; None for `automatic_jobs`.

    Raises NoAdapter where there are not so many such adapters.
    """
    runtime = bench.runtime
    if not isinstance(runtime, WorkerRuntime):
        return Lanes((Here(bench),), 1)
    indices = runtime.alike(workers)
    if jobs is None:
        cores = usable_cores() // len(indices)
        jobs = automatic_jobs(runtime.profile, data_bytes=bench.data_bytes, cores=cores)
    if jobs * len(indices) == 1:
        return Lanes((Here(bench),), 1)
    gates = {index: Gate() for index in indices} | {runtime.index: runtime.share()}

    def opener(index: int) -> Callable[[], Bench]:
        return lambda: _beside(bench, runtime.another(index, gates[index]))

    first: Lane = Aside(lambda: bench, keep=True)
    rest = [index for _ in range(jobs) for index in indices]  # adapters in turns
    return Lanes((first, *(Aside(opener(index)) for index in rest[1:])), len(indices))


def _beside(bench: Bench, runtime: WorkerRuntime) -> Bench:
    try:
        return bench.beside(runtime)
    except BaseException:
        runtime.close()  # which nobody else knows of
        raise


def automatic_jobs(profile: DeviceProfile, *, data_bytes: int, cores: int) -> int:
    """How many candidates to have in work on one adapter: a few, as far as cores and memory go round.

    A software adapter computes on the cores that would compile, so there it is one at a time. `cores` are
    those for this adapter's lanes, `data_bytes` what the data buffers of the problem hold.
    """
    if profile.is_cpu:
        return 1
    return max(1, min(MOST_JOBS, cores // _CORES_EACH, _ROOM // max(data_bytes, 1)))


def usable_cores() -> int:
    """Cores that this process may run on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def evaluate(bench: Bench, config: Config, best: float | None) -> Trial:
    """The outcome of a candidate, and how long it took to have it."""
    start = time.monotonic()
    outcome = bench.evaluate(config, best)
    return Trial(config=config, outcome=outcome, seconds_spent=time.monotonic() - start)


def _crashed(trial: Trial) -> bool:
    return isinstance(trial.outcome, Rejection) and trial.outcome.stage == "crash"


def raised(done: Done) -> BaseException:
    """The error that ended a lane, as what ends the search where no lane is left."""
    error = done.error
    assert error is not None
    return error if isinstance(error, WorkerError) else WorkerError(f"{type(error).__name__}: {error}")
