"""Runtimes: something that can run a plan. The parent speaks to them; only a worker opens a GPU."""

from autotune.errors import AutotuneError
from autotune.model import Compiler, DeviceProfile

RUNTIMES: dict[str, Compiler] = {"wgpu": "naga", "dawn": "tint"}
"""The names of the runtimes, each with its WGSL compiler: wgpu-native, and Dawn, which is Chrome's."""
DEFAULT_RUNTIME = "wgpu"


def compiler_of(runtime: str) -> Compiler:
    """The WGSL compiler of a runtime. Raises AutotuneError where there is no such runtime."""
    if runtime not in RUNTIMES:
        raise AutotuneError(f"no runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
    return RUNTIMES[runtime]


def runtime_of(profile: DeviceProfile) -> str:
    """The name of the runtime through which a device was seen."""
    return next(name for name, compiler in RUNTIMES.items() if compiler == profile.compiler)
