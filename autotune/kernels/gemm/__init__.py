"""GEMM: C = A·B."""

from autotune.kernels.gemm.configs import Blocked, GemmConfig, Gemv, MatrixUnits, Naive, SliceK, SplitK, Tiled
from autotune.kernels.gemm.family import GEMM
from autotune.kernels.gemm.problem import GemmProblem

__all__ = [
    "GEMM",
    "Blocked",
    "GemmConfig",
    "GemmProblem",
    "Gemv",
    "MatrixUnits",
    "Naive",
    "SliceK",
    "SplitK",
    "Tiled",
]
