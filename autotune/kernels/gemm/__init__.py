"""GEMM: C = A·B."""

from autotune.kernels.gemm.configs import Blocked, GemmConfig, Naive, Tiled
from autotune.kernels.gemm.family import GEMM
from autotune.kernels.gemm.problem import GemmProblem

__all__ = ["GEMM", "Blocked", "GemmConfig", "GemmProblem", "Naive", "Tiled"]
