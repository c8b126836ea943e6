"""Several candidates in work at once: none twice, none lost, and no lane takes the others down."""

import threading
from collections import Counter

import pytest
from test_tuner import ALL, AXES, DEFAULT, DEVICE, FASTEST, PROBLEM, FakeRuntime

from autotune import loop, space
from autotune.candidate import Bench
from autotune.errors import WorkerError
from autotune.kernels.gemm import GEMM
from autotune.lanes import Aside, Here, lanes
from autotune.model import Measurement
from autotune.runtime.base import CandidateFailed
from autotune.search import Search


class Closable(FakeRuntime):
    closed = False

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.phase = "search"

    def close(self):
        self.closed = True


def bench(runtime) -> Bench:
    return Bench(GEMM, PROBLEM, runtime, seed=0)


def run(given, may_go_on=lambda _busy: True, best=lambda: None):
    search = Search(space.legal(GEMM, PROBLEM, DEVICE, AXES), sampler="random")
    for trial in loop.trials(GEMM, given, search, AXES, None, may_go_on, best):
        measured = isinstance(trial.outcome, Measurement)
        search.tell(space.point_of(AXES, trial.config), trial.outcome.seconds if measured else None)
        yield trial


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_candidate_runs_in_one_lane_once(count):
    runtimes = [Closable() for _ in range(count)]
    trials = list(run([Aside(lambda r=runtime: bench(r)) for runtime in runtimes]))
    assert len(trials) == len({trial.config for trial in trials}) == ALL
    tried = Counter(config for runtime in runtimes for config in runtime.tried)
    assert set(tried.values()) == {1}
    assert len(tried) == ALL
    assert all(runtime.closed for runtime in runtimes if runtime.tried)


def test_candidates_are_in_work_at_the_same_time():
    together = threading.Barrier(3, timeout=30)
    met = []

    def play(what, *_):
        if what == "compile" and not met:
            together.wait()
            met.append(True)

    list(run([Aside(lambda: bench(Closable(play=play))) for _ in range(3)]))
    assert met


def test_what_is_in_work_counts_for_the_budget():
    asked = []

    def may_go_on(busy):
        return len(asked) + busy < 7

    for trial in run([Aside(lambda: bench(Closable())) for _ in range(4)], may_go_on):
        asked.append(trial)
    assert len(asked) == 7


def test_a_lane_that_ends_leaves_the_rest_to_the_others():
    def dead():
        raise WorkerError("the adapter is gone")

    trials = list(run([Aside(dead), Aside(lambda: bench(Closable()))]))
    assert len(trials) == ALL - 1  # the one it was given is lost


def test_the_last_lane_that_ends_ends_the_search():
    def dead():
        raise ZeroDivisionError("odd")

    with pytest.raises(WorkerError, match="ZeroDivisionError: odd"):
        list(run([Aside(dead), Aside(dead)]))


def test_a_crash_beside_others_is_tried_once_more():
    crashes = []

    def play(what, config, _sizes):
        if what == "run" and config == FASTEST and not crashes:
            crashes.append(config)
            raise CandidateFailed("crash", "the worker died")

    outcomes = {trial.config: trial.outcome for trial in run([Aside(lambda: bench(Closable(play=play)))])}
    assert crashes == [FASTEST]
    assert isinstance(outcomes[FASTEST], Measurement)


def test_a_candidate_that_always_crashes_is_refused():
    def play(what, config, _sizes):
        if what == "run" and config == FASTEST:
            raise CandidateFailed("crash", "the worker died")

    outcomes = {trial.config: trial.outcome for trial in run([Aside(lambda: bench(Closable(play=play)))])}
    assert outcomes[FASTEST].stage == "crash"
    assert len(outcomes) == ALL


def test_an_interruption_closes_what_is_in_work():
    started = threading.Event()
    runtime = Closable()

    def play(what, *_):
        started.set()
        if what == "run":
            while not runtime.closed:
                threading.Event().wait(0.01)
            raise CandidateFailed("crash", "killed")

    runtime.play = play

    def interrupted(_busy):
        if started.wait(timeout=0):
            raise KeyboardInterrupt
        return True

    lane, fast = Aside(lambda: bench(runtime)), Aside(lambda: bench(Closable()))
    with pytest.raises(KeyboardInterrupt):
        for _ in run([lane, fast], interrupted):
            started.wait(timeout=30)
    assert runtime.closed


def test_a_lane_that_is_kept_is_not_closed_at_the_end():
    runtime = Closable()
    list(run([Aside(lambda: bench(runtime), keep=True)]))
    assert not runtime.closed


def test_a_runtime_that_is_no_worker_has_one_lane_here():
    (lane,) = lanes(bench(Closable()), jobs=4)
    assert isinstance(lane, Here)
    assert [trial.config for trial in run([lane])].count(DEFAULT) == 1
