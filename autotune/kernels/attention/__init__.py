"""Attention: O = softmax(scale · Q·Kᵀ + …)·V, for every usual layout and mask."""

from autotune.kernels.attention.configs import (
    AttentionConfig,
    Flash,
    FlashDecode,
    FlashDecodeSubgroup,
    FlashSubgroupMatrix,
    Naive,
)
from autotune.kernels.attention.family import ATTENTION
from autotune.kernels.attention.problem import AttentionProblem

__all__ = [
    "ATTENTION",
    "AttentionConfig",
    "AttentionProblem",
    "Flash",
    "FlashDecode",
    "FlashDecodeSubgroup",
    "FlashSubgroupMatrix",
    "Naive",
]
