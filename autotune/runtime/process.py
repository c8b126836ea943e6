"""The parent's side of a worker process: deadlines, and replacement after a crash or a hang."""

import contextlib
import importlib.util
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

from msgspec import Struct

from autotune.errors import NoAdapter, RuntimeMissing, WorkerCrashed, WorkerError, WorkerHung
from autotune.model import MATRIX_FEATURE, Clock, DeviceProfile, Plan, Stage, SubgroupMatrix
from autotune.runtime import DEFAULT_RUNTIME, compiler_of, messages
from autotune.runtime.base import CandidateFailed

_ROOT = str(Path(__file__).resolve().parents[2])
_START = (  # of the package that the parent runs; -P keeps the working directory's modules out
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "from autotune.runtime.worker import main; main()"
)
_LAST_WORDS_SECONDS = 5.0
_PIPE_BYTES = 1 << 20
"""As much as Linux gives to everyone."""


class Deadlines(Struct, frozen=True):
    """Seconds that each kind of request may take before the worker is killed."""

    start: float = 60.0
    compile: float = 20.0
    run: float = 20.0
    """One dispatch with transfer; on software adapters the first one contains the JIT compile."""
    time: float = 30.0


class Worker:
    """One worker process: ask, and get an answer within a deadline or an error."""

    def __init__(self, runtime: str = DEFAULT_RUNTIME) -> None:
        require(runtime)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, _ROOT, runtime],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to the parent alone
        )
        for stream in (self._process.stdin, self._process.stdout):
            _widen(cast("IO[bytes]", stream))
        self._replies: queue.SimpleQueue[messages.Reply | None] = queue.SimpleQueue()
        self._complaints: deque[str] = deque(maxlen=40)
        threading.Thread(target=self._read_replies, daemon=True).start()
        self._listener = threading.Thread(target=self._read_complaints, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Process id, for tests that kill it."""
        return self._process.pid

    def ask(self, request: messages.Request, deadline: float) -> messages.Reply:
        """Send a request and wait. Raises WorkerCrashed or WorkerHung; the worker is dead then."""
        try:
            self._send(request, deadline)
            reply = self._replies.get(timeout=deadline)
        except (queue.Empty, TimeoutError):
            self.kill()
            raise WorkerHung(f"no answer within {deadline:g} s; the worker was killed") from None
        except OSError:
            reply = None
        if reply is None:
            last_words = self._last_words()
            self.kill()
            raise WorkerCrashed(last_words)
        return reply

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError, ValueError):
                if stream and stream is not self._process.stdout:
                    stream.close()

    def _send(self, request: messages.Request, deadline: float) -> None:
        """Write a request. A worker that reads nothing would block us for ever once the pipe is full: it is
        killed at the deadline, which raises TimeoutError here."""
        overdue = threading.Timer(deadline, self._process.kill)
        overdue.daemon = True
        start = time.monotonic()
        overdue.start()
        try:
            messages.send(cast("IO[bytes]", self._process.stdin), request)
        except OSError:
            if time.monotonic() - start >= deadline:
                raise TimeoutError from None
            raise
        finally:
            overdue.cancel()

    def _read_replies(self) -> None:
        stream = cast("BufferedReader", self._process.stdout)
        space = messages.Space()
        with contextlib.suppress(OSError, ValueError):
            while (reply := messages.receive_reply(stream, space)) is not None:
                self._replies.put(reply)
        self._replies.put(None)

    def _read_complaints(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in cast("IO[bytes]", self._process.stderr):
                self._complaints.append(line.decode(errors="replace").rstrip())

    def _last_words(self) -> str:
        try:
            code = self._process.wait(_LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            return "the worker stopped answering"
        self._listener.join(_LAST_WORDS_SECONDS)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        said = next((line for line in self._complaints if "panicked" in line or "Error" in line), "")
        return f"the worker died ({name}){': ' + said if said else ''}"


def _widen(pipe: IO[bytes]) -> None:
    """Let a pipe hold more where the system can: contents of buffers then pass in fewer, larger pieces."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):  # a user may have only so much in pipes
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def refuted(listed: DeviceProfile, opened: DeviceProfile) -> tuple[SubgroupMatrix, ...]:
    """Shapes of matrix units that an adapter lists, but that failed the check when it was opened."""
    if MATRIX_FEATURE not in opened.features:
        return ()
    return tuple(one for one in listed.subgroup_matrix if one not in opened.subgroup_matrix)


def require(runtime: str) -> None:
    """Raise RuntimeMissing where the package of a runtime is not installed."""
    compiler_of(runtime)
    if runtime == "dawn" and importlib.util.find_spec("wgpudawn") is None:
        raise RuntimeMissing("the runtime dawn is not installed: pip install 'wgsl-autotune[dawn]'")


def list_adapters(runtime: str = DEFAULT_RUNTIME) -> tuple[DeviceProfile, ...]:
    """Profiles of every adapter, best first. Raises WorkerError when the runtime cannot start."""
    worker = Worker(runtime)
    try:
        return _adapters(worker)
    finally:
        worker.kill()


def _adapters(worker: Worker) -> tuple[DeviceProfile, ...]:
    reply = worker.ask(messages.ListAdapters(), Deadlines().start)
    if isinstance(reply, messages.Adapters):
        return reply.profiles
    raise WorkerError(f"the runtime cannot list adapters: {getattr(reply, 'reason', reply)}")


_INSTALL = {
    "wgpu": "install a Vulkan driver, or on a machine without a GPU the software one "
    "(Debian, Ubuntu: apt-get install mesa-vulkan-drivers)",
    "dawn": "install a Vulkan driver that Dawn accepts; of the software ones it takes SwiftShader and Mesa's "
    "of version 25, but refuses Mesa's of version 22, which --runtime wgpu runs on",
}


def choose(profiles: tuple[DeviceProfile, ...], selector: str | None, runtime: str = DEFAULT_RUNTIME) -> int:
    """Index of the adapter that a selector names: a number, a device id, or part of a name.

    Raises NoAdapter with what to install or which adapters there are.
    """
    if not profiles:
        backend = os.environ.get("WGPU_BACKEND_TYPE", "").strip()
        asked = f" for WGPU_BACKEND_TYPE={backend}; unset that, or" if backend else ";"
        raise NoAdapter(f"no GPU adapter found{asked} {_INSTALL[runtime]}")
    if selector is None:
        return 0
    if selector.isdecimal() and int(selector) < len(profiles):
        return int(selector)
    beyond = selector.isdecimal() and len(selector) < 3  # an index, not the 3 in "RTX 3080"
    wanted = "" if beyond else selector.lower()
    for index, profile in enumerate(profiles):
        if wanted and (wanted == profile.id or wanted in profile.name.lower() or wanted == profile.vendor):
            return index
    known = "; ".join(f"{index}: {profile.name} ({profile.id})" for index, profile in enumerate(profiles))
    raise NoAdapter(f"no adapter matches {selector!r}; there are {known}")


class Gate:
    """What the workers of one adapter share; it is held while something of one of them runs there."""

    def __init__(self) -> None:
        self.cadence: messages.Cadence | None = None
        """Of the adapter, once one of them has opened it; what the others then need not learn again."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class WorkerRuntime:
    """A runtime in a worker process that is replaced whenever it dies; see `autotune.runtime.base`."""

    def __init__(
        self,
        selector: str | None = None,
        *,
        runtime: str = DEFAULT_RUNTIME,
        deadlines: Deadlines | None = None,
        index: int | None = None,
        gate: Gate | None = None,
    ) -> None:
        """`index` is a place in the list of adapters, instead of a selector. Where several workers use one
        adapter, they hold one `gate` while something of theirs runs on it."""
        self.restarts = 0
        self._alone = gate is None
        self._gate = gate or Gate()
        self._runtime = runtime
        self._contents: Mapping[str, bytes] = {}
        self._handles = 0
        self._compiled: dict[int, Plan] = {}
        worker = Worker(runtime)
        try:
            self.listed = _adapters(worker)
            self.index = choose(self.listed, selector, runtime) if index is None else index
            with self._gate:
                self.profile = self._open(worker)
        except BaseException:
            worker.kill()
            raise
        self._worker: Worker | None = worker
        self.refuted = refuted(self.listed[self.index], self.profile)
        slow = Deadlines(compile=30.0, run=30.0, time=60.0)
        self.deadlines = deadlines or (slow if self.profile.is_cpu else Deadlines())

    def load(self, contents: Mapping[str, bytes]) -> None:
        """Replace all data buffers; compiled plans are forgotten.

        That takes no gate: what is sent here reaches the GPU with the next run, which does.
        """
        self._contents = contents
        self._compiled.clear()
        if self._worker is not None:
            try:
                self._ask("run", messages.Load(messages.views(contents)), self.deadlines.start)
                return
            except CandidateFailed:
                if self._worker is not None:
                    raise  # refused; a worker that died between two candidates is replaced
        self._restart()

    def compile(self, plan: Plan) -> int:
        """Compile a plan against the loaded buffers and return its handle."""
        self._handles += 1
        self._ask("compile", messages.Compile(self._handles, plan), self.deadlines.compile)
        self._compiled[self._handles] = plan
        return self._handles

    def run(self, handle: int) -> dict[str, memoryview]:
        """Reset the outputs, dispatch once, return what the outputs hold, good until the next run."""
        with self._gate:
            self._ask("run", messages.Run(handle), self.deadlines.run)
        reply = self._ask("run", messages.Read(), self.deadlines.run)
        assert isinstance(reply, messages.Outputs)
        return reply.contents

    def time(self, handle: int, batch: int, samples: int) -> tuple[list[float], Clock]:
        """Seconds for one dispatch, a value a sample, and the clock."""
        with self._gate:
            reply = self._ask("time", messages.Time(handle, batch, samples), self.deadlines.time)
        assert isinstance(reply, messages.Samples)
        return list(reply.seconds), cast("Clock", reply.clock)

    def drop(self, handle: int) -> None:
        """Forget a compiled plan."""
        self._compiled.pop(handle, None)
        if self._worker is not None:
            with contextlib.suppress(CandidateFailed):  # its worker died, and the plan with it
                self._ask("run", messages.Drop(handle), self.deadlines.run)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def share(self) -> Gate:
        """What workers pass that use the adapter too, until `unshare`. Call both between requests."""
        self._be_alone(False)
        return self._gate

    def unshare(self) -> None:
        """Say that no other worker uses the adapter any more."""
        self._be_alone(True)

    def _be_alone(self, alone: bool) -> None:
        self._alone = alone
        if self._worker is not None:
            with contextlib.suppress(CandidateFailed):  # a new worker is told at its start
                self._ask("run", messages.Pace(alone), self.deadlines.start)

    def alike(self, count: int) -> list[int]:
        """Places in the list of this many adapters of the same model, driver and limits, this one first.

        0 stands for all of them. Raises NoAdapter where there are fewer.
        """
        mine = self.listed[self.index]
        same = [self.index, *(i for i, p in enumerate(self.listed) if p == mine and i != self.index)]
        if count > len(same):
            others = "; ".join(sorted({p.name for p in self.listed if p != mine})) or "none"
            raise NoAdapter(
                f"{count} workers need as many adapters like {mine.name} ({mine.id}); there are {len(same)}, "
                f"and others that do not compare: {others}"
            )
        return same[:count] if count else same

    def another(self, index: int, gate: Gate) -> "WorkerRuntime":
        """A runtime like this one in a worker of its own, on the adapter at this place of the list.

        Raises WorkerError where what opens there is not the same model.
        """
        other = WorkerRuntime(runtime=self._runtime, deadlines=self.deadlines, index=index, gate=gate)
        if other.profile != self.profile:
            other.close()
            raise WorkerError(
                f"the adapter {index} opens as {other.profile.name}, not as {self.profile.name}"
            )
        return other

    @property
    def worker_pid(self) -> int | None:
        """Process id of the current worker, if one is alive."""
        return None if self._worker is None else self._worker.pid

    def _open(self, worker: Worker) -> DeviceProfile:
        reply = worker.ask(messages.Open(self.index, self._gate.cadence), Deadlines().start)
        if isinstance(reply, messages.Opened):
            self._gate.cadence = reply.cadence
            worker.ask(messages.Pace(self._alone), Deadlines().start)
            return reply.profile
        raise WorkerError(f"the adapter cannot be opened: {getattr(reply, 'reason', reply)}")

    def _same_adapter(self, profiles: tuple[DeviceProfile, ...]) -> int:
        """Where the adapter stands now: where a driver was lost, another must not take its place."""
        same = [i for i, p in enumerate(profiles) if (p.id, p.name) == (self.profile.id, self.profile.name)]
        if not same:
            raise WorkerError(f"the adapter {self.profile.name} ({self.profile.id}) is gone")
        return self.index if self.index in same else same[0]

    def _restart(self) -> None:
        """Start a new worker with the same device, data and compiled plans."""
        self.restarts += 1
        worker = Worker(self._runtime)
        self._fill(worker)
        self._worker = worker

    def _fill(self, worker: Worker) -> None:
        try:
            self.index = self._same_adapter(_adapters(worker))
            with self._gate:
                self._open(worker)
            reply = worker.ask(messages.Load(messages.views(self._contents)), self.deadlines.start)
            if isinstance(reply, messages.Failed):
                raise WorkerError(f"a new worker cannot hold the data: {reply.reason}")
            for handle, plan in self._compiled.items():
                worker.ask(messages.Compile(handle, plan), self.deadlines.compile)  # compiled before
        except BaseException:
            worker.kill()
            raise

    def _ask(self, stage: Stage, request: messages.Request, deadline: float) -> messages.Reply:
        if self._worker is None:
            self._restart()
        assert self._worker is not None
        try:
            reply = self._worker.ask(request, deadline)
        except (WorkerCrashed, WorkerHung) as error:
            self._worker = None  # the next request starts a new one, without the culprit
            self._compiled.pop(getattr(request, "handle", 0), None)
            kind: Stage = "hang" if isinstance(error, WorkerHung) else "crash"
            raise CandidateFailed(kind, f"{stage}: {error}") from error
        except BaseException:  # Ctrl-C mid-request: the late answer must not meet the next question
            self._worker.kill()
            self._worker = None
            raise
        if isinstance(reply, messages.Failed):
            raise CandidateFailed(stage, reply.reason)
        return reply
