"""The worker process, for real: on whatever adapter is here, mostly a software one."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from fake_family import device
from msgspec import structs

from autotune.candidate import Bench
from autotune.errors import NoAdapter, WorkerCrashed, WorkerError
from autotune.kernels.gemm import GEMM, GemmProblem
from autotune.limits import BASE_LIMITS
from autotune.model import Buffer, Pass, Plan, Rejection
from autotune.runtime import messages, process
from autotune.runtime.base import CandidateFailed
from autotune.runtime.native import NativeRuntime
from autotune.runtime.process import Deadlines, WorkerRuntime, choose, list_adapters

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills processes by signal")

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COUNT = 64
INPUT = np.arange(COUNT, dtype=np.float32)
CONTENTS = {"a": INPUT.tobytes(), "c": bytes(4 * COUNT)}
HANG_DEADLINE = 1.5


def plan(body, *, workgroups=1, features=()):
    """A plan that runs this body with `a` to read and `c` to write, 64 invocations a workgroup."""
    wgsl = textwrap.dedent(
        f"""
        @group(0) @binding(0) var<storage, read> a: array<f32>;
        @group(0) @binding(1) var<storage, read_write> c: array<f32>;
        @compute @workgroup_size({COUNT})
        fn main(@builtin(local_invocation_index) i: u32) {{ {body} }}
        """
    )
    buffers = (
        Buffer(name="a", role="input", element="f32", shape=(COUNT,), binding=0),
        Buffer(name="c", role="output", element="f32", shape=(COUNT,), binding=1),
    )
    step = Pass(
        wgsl=wgsl,
        entry_point="main",
        workgroup_size=(COUNT, 1, 1),
        workgroup_bytes=0,
        workgroups=workgroups,
        buffers=("a", "c"),
    )
    return Plan(
        kernel="test",
        variant="test",
        sizes={},
        uniform=(),
        buffers=buffers,
        passes=(step,),
        features=features,
    )


DOUBLE = plan("c[i] = 2.0 * a[i];")
TRIPLE = plan("c[i] = 3.0 * a[i];")
# Some software adapters end a loop after 65,535 iterations, so it takes many workgroups as well.
ENDLESS = plan(
    "var x = a[i]; loop { x = x * 1.0001 + 1.0; if (x < 0.0) { break; } } c[i] = x;", workgroups=1 << 24
)
CRASHING = plan("c[i] = " + "(" * 20_000 + "1.0" + ")" * 20_000 + ";")
WRONG_WGSL = plan("c[i] = nonsense;")


@pytest.fixture(scope="module")
def started():
    try:
        runtime = WorkerRuntime(deadlines=Deadlines(run=20.0, time=20.0))
    except NoAdapter as error:
        pytest.skip(str(error))
    yield runtime
    runtime.close()


@pytest.fixture
def runtime(started):
    """A runtime with the data loaded and nothing compiled."""
    started.deadlines = Deadlines()
    started.load(CONTENTS)
    return started


@pytest.fixture
def hanging(runtime):
    """A runtime that soon loses patience; only where a hung shader cannot freeze the screen."""
    if not runtime.profile.is_cpu:
        pytest.skip("would hang a real GPU")
    runtime.deadlines = Deadlines(run=HANG_DEADLINE, time=HANG_DEADLINE)
    return runtime


def doubled(runtime, handle, factor=2):
    return np.array_equal(np.frombuffer(runtime.run(handle)["c"], np.float32), factor * INPUT)


def failure(function, *arguments):
    with pytest.raises(CandidateFailed) as caught:
        function(*arguments)
    return caught.value


def gone(pid):
    """Whether a process has ended; one that nobody has waited for yet counts as well."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return status.exists() and status.read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


# -- one request after the other ---------------------------------------------------------------------


def test_a_plan_runs_and_outputs_start_afresh_each_time(runtime):
    double, keep = runtime.compile(DOUBLE), runtime.compile(plan("if (i == 0u) { c[i] = a[1]; }"))
    assert doubled(runtime, double)
    outputs = np.frombuffer(runtime.run(keep)["c"], np.float32)
    assert outputs[0] == 1.0
    assert not outputs[1:].any()


def test_outputs_start_as_what_was_loaded_last(runtime):
    assert doubled(runtime, runtime.compile(DOUBLE))
    runtime.load({"a": INPUT.tobytes(), "c": (INPUT + 7).tobytes()})
    some = runtime.compile(plan("if (i == 0u) { c[i] = 0.5; }"))
    for _ in range(2):
        outputs = np.frombuffer(runtime.run(some)["c"], np.float32)
        assert outputs[0] == 0.5
        assert np.array_equal(outputs[1:], INPUT[1:] + 7)


def test_results_that_nobody_fetched_do_not_stand_in_the_way_of_the_next(runtime):
    double, triple = runtime.compile(DOUBLE), runtime.compile(TRIPLE)
    for _ in range(2):
        runtime._ask("run", messages.Run(triple), 20.0)
    assert doubled(runtime, double)
    runtime._ask("run", messages.Run(triple), 20.0)
    runtime.load(CONTENTS)
    assert doubled(runtime, runtime.compile(DOUBLE))


def test_data_are_sent_and_plans_compiled_while_another_lane_has_the_gpu(runtime):
    gate, held, over = runtime.share(), threading.Event(), threading.Event()

    def other_lane():
        with gate:
            held.set()
            over.wait(60.0)

    lane = threading.Thread(target=other_lane)
    lane.start()
    try:
        assert held.wait(10.0)
        runtime.load(CONTENTS)
        double = runtime.compile(DOUBLE)
        assert lane.is_alive()
    finally:
        over.set()
        lane.join()
    assert doubled(runtime, double)
    runtime.unshare()


def test_a_plan_is_timed(runtime):
    seconds, clock = runtime.time(runtime.compile(DOUBLE), 16, 5)
    assert clock in ("gpu", "wall")
    assert len(seconds) <= 5
    assert all(value > 0 for value in seconds)


def test_wrong_wgsl_is_rejected_with_the_message_and_the_device_stays_usable(runtime):
    double, pid = runtime.compile(DOUBLE), runtime.worker_pid
    error = failure(runtime.compile, WRONG_WGSL)
    assert error.stage == "compile"
    assert "nonsense" in error.reason
    assert doubled(runtime, double)
    assert runtime.worker_pid == pid


def test_a_dropped_plan_is_refused_and_nothing_else_happens(runtime):
    double, triple, pid = runtime.compile(DOUBLE), runtime.compile(TRIPLE), runtime.worker_pid
    runtime.drop(double)
    runtime.drop(double)
    assert failure(runtime.run, double).stage == "run"
    assert doubled(runtime, triple, 3)
    assert runtime.worker_pid == pid


# -- workers that die --------------------------------------------------------------------------------


def test_a_worker_killed_between_requests_is_a_crash_and_the_next_request_has_a_new_one(runtime):
    double, triple, pid = runtime.compile(DOUBLE), runtime.compile(TRIPLE), runtime.worker_pid
    os.kill(pid, signal.SIGKILL)
    error = failure(runtime.run, double)
    assert error.stage == "crash"
    assert "SIGKILL" in error.reason
    assert doubled(runtime, triple, 3)  # data and the other plans are there again
    assert runtime.worker_pid not in (pid, None)
    assert doubled(runtime, runtime.compile(DOUBLE))


def test_a_worker_killed_during_a_request_is_a_crash_and_the_next_request_has_a_new_one(runtime):
    if not runtime.profile.is_cpu:
        pytest.skip("would hang a real GPU")
    double, endless, pid = runtime.compile(DOUBLE), runtime.compile(ENDLESS), runtime.worker_pid
    killer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    killer.start()
    error = failure(runtime.run, endless)
    killer.join()
    assert (error.stage, "SIGKILL" in error.reason) == ("crash", True)
    assert doubled(runtime, double)


def test_loading_and_dropping_survive_a_worker_killed_before(runtime):
    double = runtime.compile(DOUBLE)
    os.kill(runtime.worker_pid, signal.SIGKILL)
    runtime.drop(double)
    runtime.load(CONTENTS)
    os.kill(runtime.worker_pid, signal.SIGKILL)
    runtime.load(CONTENTS)
    assert doubled(runtime, runtime.compile(DOUBLE))


def test_an_endless_shader_is_a_hang_and_its_worker_is_replaced(hanging):
    double, endless, pid = hanging.compile(DOUBLE), hanging.compile(ENDLESS), hanging.worker_pid
    assert failure(hanging.run, endless).stage == "hang"
    assert gone(pid)
    assert doubled(hanging, double)


def test_an_endless_shader_is_a_hang_when_it_is_timed_too(hanging):
    double, endless = hanging.compile(DOUBLE), hanging.compile(ENDLESS)
    assert failure(hanging.time, endless, 1, 1).stage == "hang"
    assert doubled(hanging, double)


def test_the_culprit_is_not_compiled_again_in_the_new_worker(hanging):
    endless, restarts = hanging.compile(ENDLESS), hanging.restarts
    failure(hanging.run, endless)
    assert failure(hanging.run, endless).stage == "run"
    assert hanging.restarts == restarts + 1


def test_a_plan_that_crashes_the_compiler_is_a_crash(runtime):
    double, pid = runtime.compile(DOUBLE), runtime.worker_pid
    assert failure(runtime.compile, CRASHING).stage == "crash"
    assert doubled(runtime, double)
    assert runtime.worker_pid != pid


def test_an_interrupt_during_a_request_is_obeyed_and_leaves_no_answer_for_the_next_one(runtime):
    if not runtime.profile.is_cpu:
        pytest.skip("would hang a real GPU")
    double, endless = runtime.compile(DOUBLE), runtime.compile(ENDLESS)
    control_c = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background jobs ignore it
    control_c.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runtime.run(endless)
    finally:
        signal.signal(signal.SIGINT, before)
    assert doubled(runtime, double)


def test_a_closed_runtime_leaves_no_process(runtime):
    other = WorkerRuntime()
    pid = other.worker_pid
    other.close()
    other.close()
    assert (gone(pid), other.worker_pid) == (True, None)
    assert not gone(runtime.worker_pid)


HOLDER = """
import sys, threading
from autotune.runtime.process import Deadlines, WorkerRuntime
sys.path.insert(0, sys.argv[1])
from test_worker import CONTENTS, DOUBLE, ENDLESS
runtime = WorkerRuntime()
runtime.load(CONTENTS)
runtime.run(runtime.compile(DOUBLE))
handle = runtime.compile(ENDLESS)
if sys.argv[2] == "busy":
    threading.Thread(target=runtime.run, args=(handle,), daemon=True).start()
    threading.Event().wait(0.5)
print(runtime.worker_pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_the_worker_goes_away_when_its_parent_is_killed(runtime, state):
    if state == "busy" and not runtime.profile.is_cpu:
        pytest.skip("would hang a real GPU")
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(ROOT / "tests"), state],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    pid = int(parent.stdout.readline())
    assert not gone(pid)
    parent.kill()
    parent.communicate(timeout=30)
    wait_until(lambda: gone(pid))


# -- what surrounds the worker -----------------------------------------------------------------------

NOISY = """
import os, sys
class Noise:
    def find_spec(self, name, *_):
        if name == "wgpu":
            print("Using the driver of the day.", flush=True)
            os.write(1, b"printf from C" * 1000)
            assert os.read(0, 100) == b""
sys.meta_path.insert(0, Noise())
"""


def test_what_libraries_print_in_the_worker_does_not_reach_the_protocol(runtime, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(NOISY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert runtime.profile.id in [profile.id for profile in list_adapters()]


def test_modules_in_the_working_directory_do_not_reach_the_worker(runtime, tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text("raise SystemExit('a file of the user')")
    monkeypatch.chdir(tmp_path)
    assert runtime.profile.id in [profile.id for profile in list_adapters()]


def test_a_worker_that_cannot_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "wgpu.py").write_text("raise ImportError('GLIBC_9.99 not found')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(WorkerCrashed, match=r"exit code 1.*GLIBC_9.99 not found"):
        list_adapters()


def test_without_any_adapter_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent")
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent")
    monkeypatch.setenv("WGPU_BACKEND_TYPE", "Vulkan")
    with pytest.raises(NoAdapter, match=r"\Ano GPU adapter found.*mesa-vulkan-drivers[^\n]*\Z"):
        WorkerRuntime()


def test_a_backend_that_no_adapter_has_is_named(monkeypatch):
    monkeypatch.setenv("WGPU_BACKEND_TYPE", "Metal3")
    with pytest.raises(
        NoAdapter, match=r"\Ano GPU adapter found for WGPU_BACKEND_TYPE=Metal3; unset that, or"
    ):
        WorkerRuntime()


def test_a_stopped_worker_does_not_hold_up_a_large_load(runtime):
    runtime.deadlines = structs.replace(runtime.deadlines, start=5.0)
    pid = runtime.worker_pid
    os.kill(pid, signal.SIGSTOP)
    large = {**CONTENTS, "b": bytes(8 << 20)}  # much more than a pipe holds
    start = time.monotonic()
    runtime.load(large)
    assert time.monotonic() - start < 60
    assert gone(pid)
    assert doubled(runtime, runtime.compile(DOUBLE))


def test_a_stopped_worker_does_not_hold_up_a_large_text(runtime):
    runtime.deadlines = structs.replace(runtime.deadlines, compile=3.0)
    pid = runtime.worker_pid
    os.kill(pid, signal.SIGSTOP)
    (step,) = DOUBLE.passes
    long = structs.replace(step, wgsl=step.wgsl + "// " + "x" * (1 << 20))  # much more than a pipe holds
    with pytest.raises(CandidateFailed) as failure:
        runtime.compile(structs.replace(DOUBLE, passes=(long,)))
    assert failure.value.stage == "hang"
    assert gone(pid)
    assert doubled(runtime, runtime.compile(DOUBLE))


def test_an_f16_plan_is_refused_by_our_own_check_where_the_adapter_has_no_f16(runtime, monkeypatch):
    bare = structs.replace(runtime.profile, features=())
    monkeypatch.setattr(runtime, "profile", bare)
    monkeypatch.setattr(runtime, "compile", lambda _plan: pytest.fail("reached the driver"))
    problem = GemmProblem(m=64, n=64, k=64, dtype="f16")
    bench = Bench(GEMM, problem, runtime, seed=0)
    outcome = bench.evaluate(GEMM.default(problem, bare), None)
    assert outcome == Rejection(stage="limits", reason="needs a feature the adapter lacks: shader-f16")


# -- choosing an adapter -----------------------------------------------------------------------------

ADAPTERS = (
    device(),
    device(name="AMD Radeon RX 7900 XTX", vendor="amd", vendor_id=0x1002, device_id=0x744C),
    device(name="llvmpipe (LLVM 15.0.7, 256 bits)", vendor="mesa", vendor_id=0x10005, device_id=0),
)


@pytest.mark.parametrize(
    ("selector", "index"),
    [
        (None, 0),
        ("0", 0),
        ("2", 2),
        ("1002-744c-vulkan-naga", 1),
        ("1002-744C-VULKAN-NAGA", 1),
        ("radeon", 1),
        ("RTX 3080", 0),
        ("llvmpipe", 2),
        ("amd", 1),
        ("mesa", 2),
        ("7900", 1),  # a number that is no index is part of a name
    ],
)
def test_an_adapter_is_chosen_by_index_id_name_or_vendor(selector, index):
    assert choose(ADAPTERS, selector) == index


@pytest.mark.parametrize("selector", ["intel", "3", "-1", "", "10de-2206"])
def test_an_unknown_selector_is_refused_with_the_adapters_there_are(selector):
    with pytest.raises(NoAdapter, match=r"0: NVIDIA GeForce RTX 3080 \(10de-2206-vulkan-naga\); 1: AMD"):
        choose(ADAPTERS, selector)


def replaced_among(*profiles, opened=1):
    """Where a worker that had opened an adapter looks for it among these."""
    runtime = object.__new__(WorkerRuntime)
    runtime.profile, runtime.index = structs.replace(ADAPTERS[opened], subgroup_size=32), opened
    return runtime._same_adapter(profiles)


def test_a_replaced_worker_opens_the_same_adapter_wherever_it_stands_now():
    assert replaced_among(*ADAPTERS) == 1
    assert replaced_among(*reversed(ADAPTERS)) == 1
    assert replaced_among(*ADAPTERS[1:]) == 0
    assert replaced_among(ADAPTERS[1], ADAPTERS[1], ADAPTERS[0]) == 1  # two alike keep their places


def test_a_replaced_worker_opens_no_other_adapter():
    with pytest.raises(WorkerError, match=r"Radeon RX 7900 XTX \(1002-744c-vulkan-naga\) is gone"):
        replaced_among(ADAPTERS[0], structs.replace(ADAPTERS[1], backend="opengl"), ADAPTERS[2])
    with pytest.raises(WorkerError, match="is gone"):
        replaced_among()
    other_name = structs.replace(ADAPTERS[2], name="llvmpipe (LLVM 19)")
    with pytest.raises(WorkerError, match="is gone"):
        replaced_among(other_name, opened=2)


# -- what the workers of an adapter know together ----------------------------------------------------


class FakeWorker:
    """A worker whose adapter has clocks, and that remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def ask(self, request, _deadline):
        self.asked.append(request)
        if not isinstance(request, messages.Open):
            return messages.Done()
        return messages.Opened(ADAPTERS[0], request.cadence or messages.Cadence(512, 1e-3))


def test_how_fast_an_adapter_can_be_is_learned_once(monkeypatch):
    workers = []

    def started(_runtime):
        workers.append(FakeWorker())
        return workers[-1]

    monkeypatch.setattr(process, "Worker", started)
    monkeypatch.setattr(process, "_adapters", lambda _worker: ADAPTERS[:1] * 2)
    first = WorkerRuntime()
    gates = first.share(), process.Gate()
    first.another(0, gates[0])
    first.another(1, gates[1])  # of the same model, but not the same GPU
    first.another(1, gates[1])
    first._worker = None
    first.load({})
    opened = [[r.cadence for r in worker.asked if isinstance(r, messages.Open)] for worker in workers]
    known = messages.Cadence(512, 1e-3)
    assert opened == [[None], [known], [None], [known], [known]]


# -- features that are listed but not granted --------------------------------------------------------


class FakeAdapter:
    """An adapter that lists every feature and refuses devices with some of them."""

    features = ("shader-f16", "timestamp-query", "subgroup", "push-constants")
    limits = {name.replace("max", "max-").lower(): value for name, value in BASE_LIMITS.items()}  # noqa: RUF012
    info = {  # noqa: RUF012
        "vendor": "",
        "architecture": "",
        "device": "Fake",
        "description": "",
        "vendor_id": 0x8086,
        "device_id": 1,
        "backend_type": "Vulkan",
        "adapter_type": "CPU",  # no clocks to bring up
    }

    def __init__(self, *refused):
        self.refused = set(refused)
        self.asked = []

    def request_device_sync(self, *, required_features, required_limits):
        assert required_limits == self.limits
        self.asked.append(set(required_features))
        if self.refused & {*required_features, "everything"}:
            raise RuntimeError("device request refused")
        return MagicMock()


def opened(adapter):
    api = MagicMock()
    api.gpu.enumerate_adapters_sync.return_value = [adapter]
    native = NativeRuntime(api, compiler="tint", runtime="fake")
    native.adapters()
    return native.open(0, None)


def test_only_known_features_are_asked_for():
    adapter = FakeAdapter()
    assert opened(adapter).features == ("shader-f16", "subgroups", "timestamp-query")
    assert adapter.asked == [{"shader-f16", "timestamp-query", "subgroup"}]


@pytest.mark.parametrize("refused", ["shader-f16", "timestamp-query", "subgroup"])
def test_a_refused_feature_is_given_up_and_the_others_are_kept(refused):
    granted = set(opened(FakeAdapter(refused)).features)
    assert granted == {"shader-f16", "timestamp-query", "subgroups"} - {
        refused.replace("subgroup", "subgroups")
    }


def test_a_device_that_grants_no_feature_is_opened_without():
    assert opened(FakeAdapter("shader-f16", "timestamp-query", "subgroup")).features == ()


def test_a_device_that_is_refused_altogether_is_an_error():
    with pytest.raises(RuntimeError, match="refused"):
        opened(FakeAdapter("everything"))
