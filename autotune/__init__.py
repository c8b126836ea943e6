"""WGSL kernels, generated from templates and tuned on the GPU at hand.

>>> from autotune import GemmProblem, best_config, render
>>> answer = best_config(GemmProblem(m=1024, n=1024, k=1024))
>>> plan = render(GemmProblem(m=1024, n=1024, k=1024), answer.config)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.kernels.attention import AttentionProblem
    from autotune.kernels.gemm import GemmProblem
    from autotune.kernels.gemm_i8 import GemmI8Problem
    from autotune.kernels.gemm_q4 import GemmQ4Problem
    from autotune.lookup import best_config
    from autotune.plans import render
    from autotune.tuner import tune

__all__ = [
    "AttentionProblem",
    "GemmI8Problem",
    "GemmProblem",
    "GemmQ4Problem",
    "best_config",
    "render",
    "tune",
]

_MODULES = {
    "AttentionProblem": "autotune.kernels.attention",
    "GemmI8Problem": "autotune.kernels.gemm_i8",
    "GemmProblem": "autotune.kernels.gemm",
    "GemmQ4Problem": "autotune.kernels.gemm_q4",
    "best_config": "autotune.lookup",
    "render": "autotune.plans",
    "tune": "autotune.tuner",
}


def __getattr__(name: str) -> Any:
    """Each name is loaded when first asked for: a look-up waits neither for other families nor for Optuna."""
    if name not in _MODULES:
        raise AttributeError(f"module 'autotune' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
