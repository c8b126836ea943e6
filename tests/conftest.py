"""The software GPU stacks that kernel tests run on.

Each stack is a WGSL compiler on a software Vulkan driver, or Tint on no driver at all, which only
validates. All are needed, because each finds faults that the others let pass.
`AUTOTUNE_TEST_STACKS="naga-lavapipe"` (comma-separated) restricts the list on machines that cannot
have them all, and the summary says so.

Matrix units have one stack, `tint-lavapipe`: Dawn on a lavapipe of Mesa 26 or later, which the stable
distributions do not have yet. It is used where AUTOTUNE_TEST_STACKS names it only.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from autotune.errors import AutotuneError
from autotune.runtime.process import Deadlines, WorkerRuntime

pytest.register_assert_rewrite("kernel_checks")  # its assertions show their values, as those of tests do

CHOICE = "AUTOTUNE_TEST_STACKS"
DRIVER_CHOICE = "VK_ICD_FILENAMES"
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")


class Stack(Struct, frozen=True):
    """One way to run WGSL without a GPU."""

    runtime: str
    adapter: str
    install: str
    driver: Path | None = None


STACKS = {
    "naga-lavapipe": Stack("wgpu", "llvmpipe", "apt-get install mesa-vulkan-drivers"),
    "naga-swiftshader": Stack("wgpu", "SwiftShader", "apt-get install chromium", SWIFTSHADER),
    "tint-swiftshader": Stack(
        "dawn", "SwiftShader", "apt-get install chromium, and pip install wgpudawn", SWIFTSHADER
    ),
    "tint-lavapipe": Stack("dawn", "llvmpipe", "mesa-vulkan-drivers 26 or later, and pip install wgpudawn"),
}
MATRICES = "tint-lavapipe"
"""The stack whose adapter has matrix units."""
VALIDATING = "tint-validating"
ALL = (*STACKS, VALIDATING)
USUAL = tuple(name for name in ALL if name != MATRICES)


def chosen() -> list[str]:
    """The stacks that tests may use."""
    names = [name.strip() for name in os.environ.get(CHOICE, "").split(",") if name.strip()]
    return names or list(USUAL)


def pytest_configure() -> None:
    """Refuse a restriction to stacks that do not exist: it would test nothing."""
    unknown = [name for name in chosen() if name not in ALL]
    if unknown:
        raise pytest.UsageError(f"{CHOICE} names {', '.join(unknown)}; there are {', '.join(ALL)}")


@contextmanager
def _driver_of(stack: Stack) -> Iterator[None]:
    """The environment in which a worker finds the stack's driver."""
    with pytest.MonkeyPatch.context() as patch:
        if stack.driver is not None:
            patch.setenv(DRIVER_CHOICE, str(stack.driver))
        yield


PATIENT = Deadlines(compile=120.0, run=120.0, time=120.0)
"""lavapipe compiles some kernels on matrix units for half a minute, and longer on a busy machine."""


class StackRuntime(WorkerRuntime):
    """A worker on a stack, also after it had to be replaced."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        with _driver_of(stack):
            super().__init__(stack.adapter, runtime=stack.runtime, deadlines=PATIENT)

    def _restart(self) -> None:
        with _driver_of(self._stack):
            super()._restart()


@pytest.fixture(scope="session", params=[name for name in STACKS if name in chosen()])
def runtime(request: pytest.FixtureRequest) -> Iterator[WorkerRuntime]:
    """A worker on each software stack in turn; a missing stack fails and says what to install."""
    stack = STACKS[request.param]
    opened, reason = None, ""
    try:
        opened = StackRuntime(stack)
    except AutotuneError as error:
        reason = str(error).partition("\n")[0]
    if opened is None:
        pytest.fail(f"{request.param} is missing ({stack.install}): {reason}", pytrace=False)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def matrix_runtime() -> Iterator[WorkerRuntime]:
    """A worker on the stack that has matrix units; where that was not asked for, its tests say so."""
    if MATRICES not in chosen():
        pytest.skip(f"needs matrix units: run with {CHOICE}={MATRICES} ({STACKS[MATRICES].install})")
    opened = StackRuntime(STACKS[MATRICES])
    if not opened.profile.subgroup_matrix:
        pytest.fail(
            f"{opened.profile.driver} has no matrix units ({STACKS[MATRICES].install})", pytrace=False
        )
    yield opened
    opened.close()


@pytest.hookimpl(tryfirst=True)  # before -m is asked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs matrix units bears their mark."""
    for item in items:
        if "matrix_runtime" in getattr(item, "fixturenames", ()):
            item.add_marker("matrix_units")


_VALIDATE = """
import json, sys, wgpudawn
from wgpudawn.backends.dawn.extras import set_instance_extras

set_instance_extras(enable_toggles=["allow_unsafe_apis"])
adapter = wgpudawn.gpu.request_adapter_sync()
features = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"]
device = adapter.request_device_sync(required_features=features)
complaints = {}
for name, text in json.load(sys.stdin).items():
    try:
        module = device.create_shader_module(code=text)
        device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    except wgpudawn.GPUError as error:
        complaints[name] = str(error)
print(json.dumps(complaints))
"""


@pytest.fixture(scope="session", params=[VALIDATING] if VALIDATING in chosen() else [])
def tint() -> Callable[[dict[str, str]], dict[str, str]]:
    """Takes WGSL texts by name; gives Tint's complaint about each that is wrong or breaks the base limits.

    Dawn's null adapter has subgroups of 128 lanes at most, of which workgroups with matrices are a multiple.
    """

    def complaints(texts: dict[str, str]) -> dict[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", _VALIDATE],
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "WGPU_BACKEND_TYPE": "Null"},
        )
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2]
            pytest.fail(f"{VALIDATING} is missing (pip install wgpudawn): {last}", pytrace=False)
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return found

    return complaints


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which stacks were left out on purpose."""
    left_out = [name for name in ALL if name not in chosen()]
    if left_out:
        terminalreporter.write_line(f"{CHOICE} left out {', '.join(left_out)}: kernels are untested there")
