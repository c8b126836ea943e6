"""GEMM on cooperative matrices, in the WGSL dialect of naga (wgpu's compiler). An experiment.

None of our runtimes takes the dialect, so nothing is searched or timed: tiles are fixed, and what stands in
for a device is in tests/test_cooperative_matrix.py. The matrices are square, of 8×8 (as on Apple's GPUs) or
16×16 (as on NVIDIA's and AMD's); naga takes f16 with sums in f16 or f32, and f32.
"""

from autotune.errors import AutotuneError
from autotune.kernels.gemm.configs import CooperativeMatrix
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.matrices import ELEMENT_BYTES
from autotune.model import SubgroupMatrix

FEATURES = ("wgpu-cooperative-matrix", "subgroups")
"""What wgpu calls EXPERIMENTAL_COOPERATIVE_MATRIX and SUBGROUP, in the words of its `Features`."""


def config(problem: GemmProblem, matrix: str) -> CooperativeMatrix:
    """Fixed tiles for matrices of a size, `8x8` or `16x16`: 64×64 of C, a quarter for each of four subgroups
    of 32 lanes, as deep as 16 KiB of workgroup memory allow.

    Raises AutotuneError where there is no such text: f32 is multiplied as 8×8.
    """
    if problem.dtype == "f32" and matrix != "8x8":
        raise AutotuneError(f"cooperative matrices of f32 are 8x8; {matrix} takes f16")
    return CooperativeMatrix(
        edge=8 if matrix == "8x8" else 16,
        tile_m=64,
        tile_n=64,
        tile_k=16 if problem.dtype == "f32" else 32,
        parts_m=2,
        parts_n=2,
        invocations=128,
        group_m=8,
    )


def workgroup(problem: GemmProblem, config: CooperativeMatrix) -> tuple[tuple[int, int, int], int]:
    """Workgroup size, and bytes of workgroup memory: both tiles, and a row of matrices of each part."""
    tiles = (config.tile_m + config.tile_n) * config.tile_k * ELEMENT_BYTES[problem.dtype]
    sums = config.parts_m * config.edge * config.tile_n * ELEMENT_BYTES[problem.accumulate]
    return (config.invocations, 1, 1), tiles + sums


def matrix_of(problem: GemmProblem, config: CooperativeMatrix) -> SubgroupMatrix:
    """What the text has matrix units multiply."""
    edge = config.edge
    return SubgroupMatrix(element=problem.dtype, result=problem.accumulate, m=edge, n=edge, k=edge)
