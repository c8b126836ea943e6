"""Several candidates in work at once: none twice, none lost, and no lane takes the others down."""

import queue
import threading
from collections import Counter

import pytest
from fake_family import device
from test_tuner import ALL, AXES, DEFAULT, DEVICE, FASTEST, PROBLEM, FakeRuntime

from autotune import lanes, loop, space
from autotune.candidate import Bench
from autotune.errors import WorkerError
from autotune.kernels.gemm import GEMM
from autotune.lanes import Aside, Here, automatic_jobs, lanes_for, usable_cores
from autotune.model import Measurement
from autotune.runtime.base import CandidateFailed
from autotune.runtime.process import Gate, WorkerRuntime
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
    def play(*_):
        raise WorkerError("the adapter is gone")

    trials = list(run([Aside(lambda: bench(Closable(play=play))), Aside(lambda: bench(Closable()))]))
    assert len(trials) == ALL - 1  # the one that may have ended it is lost


def test_what_a_lane_was_to_begin_with_goes_to_another_where_it_does_not_open():
    def dead():
        raise WorkerError("no memory left on the device")

    trials = list(run([Aside(dead), Aside(dead), Aside(lambda: bench(Closable()))]))
    assert len(trials) == len({trial.config for trial in trials}) == ALL


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
    (lane,) = lanes_for(bench(Closable()), jobs=4).lanes
    assert isinstance(lane, Here)
    assert [trial.config for trial in run([lane])].count(DEFAULT) == 1


# -- how many ----------------------------------------------------------------------------------------

GPU, SOFTWARE = device(), device(adapter_type="cpu")
MIB = 1 << 20


def listed(*profiles) -> Bench:
    """A bench on the first of these adapters, in a worker that never starts."""
    runtime = object.__new__(WorkerRuntime)
    runtime.listed, runtime.index, runtime.profile, runtime._worker = profiles, 0, profiles[0], None
    runtime._gate = Gate()
    made = bench(Closable())
    made.runtime = runtime
    return made


def counted(given: Bench, **options) -> tuple[int, int]:
    """How many lanes there are, and on how many adapters."""
    made = lanes_for(given, **options)
    for lane in made.lanes:
        lane.stop(at_once=False)
    return len(made.lanes), made.adapters


@pytest.mark.parametrize(
    ("cores", "jobs"), [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (6, 3), (8, 4), (16, 4), (128, 4)]
)
def test_a_gpu_has_a_few_lanes_as_cores_allow(cores, jobs):
    assert automatic_jobs(GPU, data_bytes=MIB, cores=cores) == jobs


@pytest.mark.parametrize("cores", [1, 128])
def test_a_software_adapter_has_one_lane_as_it_computes_on_the_cores(cores):
    assert automatic_jobs(SOFTWARE, data_bytes=MIB, cores=cores) == 1


@pytest.mark.parametrize(("mib", "jobs"), [(0, 4), (512, 4), (513, 3), (1024, 2), (1025, 1), (9000, 1)])
def test_lanes_hold_only_so_much_data_together(mib, jobs):
    assert automatic_jobs(GPU, data_bytes=mib * MIB, cores=128) == jobs


def test_this_process_has_cores():
    assert usable_cores() >= 1


def test_where_nobody_says_adapters_share_the_cores(monkeypatch):
    monkeypatch.setattr(lanes, "usable_cores", lambda: 12)
    assert counted(listed(GPU)) == (4, 1)
    assert counted(listed(GPU, GPU)) == (4, 1)
    assert counted(listed(GPU, GPU), workers=0) == (6, 2)
    assert counted(listed(*[GPU] * 8), workers=0) == (8, 8)
    assert counted(listed(SOFTWARE)) == (1, 1)


def test_where_nobody_says_the_data_of_the_problem_counts(monkeypatch):
    monkeypatch.setattr(lanes, "usable_cores", lambda: 128)
    given = listed(GPU)
    monkeypatch.setattr(lanes, "_ROOM", 3 * given.data_bytes)
    assert counted(given) == (3, 1)


@pytest.mark.parametrize("profile", [GPU, SOFTWARE])
@pytest.mark.parametrize("jobs", [1, 3, 9])
def test_a_number_that_is_asked_for_is_taken(monkeypatch, profile, jobs):
    monkeypatch.setattr(lanes, "usable_cores", lambda: 4)
    assert counted(listed(profile), jobs=jobs) == (jobs, 1)
    assert counted(listed(profile, profile), jobs=jobs, workers=2) == (2 * jobs, 2)


def test_a_lane_that_is_stopped_while_it_opens_evaluates_nothing():
    opening, may_open = threading.Event(), threading.Event()
    runtime, results = Closable(), queue.SimpleQueue()

    def opened():
        opening.set()
        may_open.wait(timeout=30)
        return bench(runtime)

    lane = Aside(opened)
    lane.submit(DEFAULT, None, results)
    opening.wait(timeout=30)
    threading.Timer(0.05, may_open.set).start()
    lane.stop(at_once=True)
    assert (runtime.tried, runtime.closed, results.empty()) == ([], True, True)


def test_a_worker_whose_data_does_not_load_is_not_left_behind():
    class Full(Closable):
        def load(self, _contents):
            raise WorkerError("no memory left on the device")

    runtime = Full()
    with pytest.raises(WorkerError, match="no memory"):
        lanes._beside(bench(Closable()), runtime)
    assert runtime.closed


def test_what_ends_a_lane_is_told_unless_it_was_ended_at_once():
    def broken(*_):
        raise WorkerError("gone")

    failed = Aside(lambda: bench(Closable(play=broken)))
    failed.submit(DEFAULT, None, queue.SimpleQueue())
    failed.stop(at_once=False)
    assert str(failed.error) == "gone"

    inside, results = threading.Event(), queue.SimpleQueue()
    runtime = Closable()

    def killed(*_):
        inside.set()
        while not runtime.closed:
            threading.Event().wait(0.01)
        raise WorkerError("closed")

    runtime.play = killed
    ended = Aside(lambda: bench(runtime))
    ended.submit(DEFAULT, None, results)
    inside.wait(timeout=30)
    ended.stop(at_once=True)
    assert (ended.error, results.get_nowait().trial) == (None, None)
