"""WGSL kernels, generated from templates and tuned on the GPU at hand.

>>> from autotune import GemmProblem, best_config, render
>>> answer = best_config(GemmProblem(m=1024, n=1024, k=1024))
>>> plan = render(GemmProblem(m=1024, n=1024, k=1024), answer.config)
"""

from typing import TYPE_CHECKING, Any

from autotune.kernels.attention import AttentionProblem
from autotune.kernels.gemm import GemmProblem
from autotune.kernels.gemm_i8 import GemmI8Problem
from autotune.kernels.gemm_q4 import GemmQ4Problem
from autotune.lookup import best_config
from autotune.plans import render

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """`tune` loads Optuna and NumPy, which a look-up must not wait for."""
    if name == "tune":
        from autotune.tuner import tune

        return tune
    raise AttributeError(f"module 'autotune' has no attribute {name!r}")
