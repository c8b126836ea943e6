"""GEMM of int8 matrices: C = (A·Bᵀ) · scale_a · scale_b, summed exactly."""

from autotune.kernels.gemm_i8.configs import Blocked, GemmI8Config, MatrixUnits, Naive
from autotune.kernels.gemm_i8.family import GEMM_I8
from autotune.kernels.gemm_i8.packing import pack, unpack
from autotune.kernels.gemm_i8.problem import GemmI8Problem

__all__ = ["GEMM_I8", "Blocked", "GemmI8Config", "GemmI8Problem", "MatrixUnits", "Naive", "pack", "unpack"]
