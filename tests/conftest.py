"""The software GPU stacks that kernel tests run on.

Each stack is a WGSL compiler on a software Vulkan driver; all three are needed, because each finds
faults that the others let pass. `AUTOTUNE_TEST_STACKS="naga-lavapipe"` (comma-separated) restricts
the list on machines that cannot have them all, and the summary says so.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from autotune.errors import AutotuneError
from autotune.runtime.process import WorkerRuntime

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
}


def _chosen() -> list[str]:
    names = [name.strip() for name in os.environ.get(CHOICE, "").split(",") if name.strip()]
    unknown = [name for name in names if name not in STACKS]
    if unknown:
        raise pytest.UsageError(f"{CHOICE} names {', '.join(unknown)}; there are {', '.join(STACKS)}")
    return names or list(STACKS)


@contextmanager
def _driver_of(stack: Stack) -> Iterator[None]:
    """The environment in which a worker finds the stack's driver."""
    with pytest.MonkeyPatch.context() as patch:
        if stack.driver is not None:
            patch.setenv(DRIVER_CHOICE, str(stack.driver))
        yield


class StackRuntime(WorkerRuntime):
    """A worker on a stack, also after it had to be replaced."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        with _driver_of(stack):
            super().__init__(stack.adapter, runtime=stack.runtime)

    def _restart(self) -> None:
        with _driver_of(self._stack):
            super()._restart()


@pytest.fixture(scope="session", params=_chosen())
def runtime(request: pytest.FixtureRequest) -> Iterator[WorkerRuntime]:
    """A worker on each software stack in turn; a missing stack fails and says what to install."""
    stack = STACKS[request.param]
    try:
        opened = StackRuntime(stack)
    except AutotuneError as error:
        reason = str(error).partition("\n")[0]
        pytest.fail(f"{request.param} is missing ({stack.install}): {reason}", pytrace=False)
    yield opened
    opened.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which stacks were left out on purpose."""
    left_out = [name for name in STACKS if name not in _chosen()]
    if left_out:
        terminalreporter.write_line(f"{CHOICE} left out {', '.join(left_out)}: kernels are untested there")
