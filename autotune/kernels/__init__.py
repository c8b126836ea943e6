"""The kernel families, by name. Adding one is one line here."""

from autotune.kernels.attention import ATTENTION
from autotune.kernels.base import Family
from autotune.kernels.gemm import GEMM
from autotune.kernels.gemm_i8 import GEMM_I8
from autotune.kernels.gemm_q4 import GEMM_Q4
from autotune.model import Problem

KERNELS: dict[str, Family] = {family.name: family for family in (GEMM, GEMM_I8, GEMM_Q4, ATTENTION)}


def family_of(problem: Problem) -> Family:
    """The family whose problem this is. Raises TypeError where there is none."""
    for family in KERNELS.values():
        if isinstance(problem, family.problem_type):
            return family
    raise TypeError(f"no kernel family has problems of type {type(problem).__name__}")
