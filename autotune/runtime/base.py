"""The verbs that every runtime has, whether it is a worker process, Dawn or a browser tab."""

from collections.abc import Mapping
from typing import Protocol

from autotune.errors import AutotuneError
from autotune.model import Clock, DeviceProfile, Plan, Stage

Contents = Mapping[str, bytes] | Mapping[str, memoryview]
"""What buffers hold, by name."""


class CandidateFailed(AutotuneError):
    """A candidate was refused, crashed the worker or hung it. `stage` says where."""

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


class Runtime(Protocol):
    """Runs plans on one device. Every method but `close` may raise CandidateFailed."""

    profile: DeviceProfile

    def load(self, contents: Mapping[str, bytes]) -> None:
        """Replace all data buffers; compiled plans are forgotten."""

    def compile(self, plan: Plan) -> int:
        """Compile a plan against the loaded buffers and return its handle."""

    def run(self, handle: int) -> Contents:
        """Reset the outputs, dispatch once, return what the outputs hold, good until the next run."""

    def time(self, handle: int, batch: int, samples: int) -> tuple[list[float], Clock]:
        """Seconds for one dispatch, a value a sample (impossible readings left out), and the clock."""

    def drop(self, handle: int) -> None:
        """Forget a compiled plan."""

    def close(self) -> None:
        """End the runtime."""
