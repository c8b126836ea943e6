"""GEMM with weights in 4 bits: C = A·W, with W as codes and group scales."""

from autotune.kernels.gemm_q4.configs import Blocked, GemmQ4Config, Gemv, MatrixUnits, Naive, SplitK
from autotune.kernels.gemm_q4.family import GEMM_Q4
from autotune.kernels.gemm_q4.packing import dequantize, pack, unpack
from autotune.kernels.gemm_q4.problem import GemmQ4Problem

__all__ = [
    "GEMM_Q4",
    "Blocked",
    "GemmQ4Config",
    "GemmQ4Problem",
    "Gemv",
    "MatrixUnits",
    "Naive",
    "SplitK",
    "dequantize",
    "pack",
    "unpack",
]
