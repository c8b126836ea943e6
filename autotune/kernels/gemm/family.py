"""The GEMM family: its options, and what other modules of this package know, under the names of `Family`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from autotune.kernels import matrices
from autotune.kernels.base import Family, Option, Resources, Rule
from autotune.kernels.gemm import cooperative, packing
from autotune.kernels.gemm.configs import (
    Blocked,
    CooperativeMatrix,
    GemmConfig,
    Gemv,
    MatrixUnits,
    Naive,
    Packed,
    PackedMatrixUnits,
    SliceK,
    SplitK,
    Tiled,
    depth_of,
    tile_of,
    vector_of,
)
from autotune.kernels.gemm.default import default
from autotune.kernels.gemm.matrix import MATRIX_RULES, PACKED_MATRIX_RULES, steps, store_vector
from autotune.kernels.gemm.plan import plan, resources
from autotune.kernels.gemm.problem import GemmProblem, check_problem, label
from autotune.kernels.gemm.rules import BLOCKED_RULES, GEMV_RULES, PACKED_RULES, SLICE_K_RULES, SPLIT_K_RULES
from autotune.kernels.sizes import doublings, sizes_from_options
from autotune.model import DeviceProfile, Plan, Problem

if TYPE_CHECKING:
    from autotune.kernels.base import Array, Float64

_SIZES = ("m", "n", "k", "batch")
_OF_ONE_KIND = ("dtype", "accumulate", "transpose_a", "transpose_b")
"""Fields: problems that differ in one of them have nothing to say about each other."""
_MINOR = (
    "out_dtype",
    "lda",
    "ldb",
    "ldc",
    "broadcast_a",
    "broadcast_b",
    "alpha",
    "beta",
    "bias",
    "activation",
    "residual",
)
"""Fields: problems that differ in one of them are a quarter of a doubling further apart."""


class Gemm(Family):
    """The GEMM family."""

    name = "gemm"
    problem_type = GemmProblem
    config_types = {  # noqa: RUF012
        "naive": Naive,
        "tiled": Tiled,
        "blocked": Blocked,
        "split_k": SplitK,
        "slice_k": SliceK,
        "packed": Packed,
        "gemv": Gemv,
        "subgroup_matrix": MatrixUnits,
        "packed_subgroup_matrix": PackedMatrixUnits,
    }
    samples = {  # noqa: RUF012
        "f32": GemmProblem(m=64, n=64, k=64),
        "f16, f32 sums": GemmProblem(m=64, n=64, k=64, dtype="f16"),
        "f16, f16 sums": GemmProblem(m=64, n=64, k=64, dtype="f16", accumulate="f16"),
        "f32, ragged rows": GemmProblem(m=63, n=65, k=67),
        "f32, transposed": GemmProblem(m=64, n=64, k=64, transpose_a=True, transpose_b=True),
        "f32, batched with an epilogue": GemmProblem(
            m=32, n=32, k=32, batch=3, beta=0.5, bias=True, activation="gelu", residual=True
        ),
    }
    rules = {  # noqa: RUF012
        "blocked": BLOCKED_RULES,
        "split_k": SPLIT_K_RULES,
        "slice_k": SLICE_K_RULES,
        "packed": PACKED_RULES,
        "gemv": GEMV_RULES,
        "subgroup_matrix": MATRIX_RULES,
        "packed_subgroup_matrix": PACKED_MATRIX_RULES,
    }
    weightless = {  # noqa: RUF012
        "blocked": ("lanes_n", "vector", "strips", "commit_k", "unroll_k", "group_m", "order"),
        "split_k": ("lanes_n", "strips", "commit_k", "unroll_k", "group_m", "order"),
        "slice_k": ("lanes_n", "strips", "commit_k", "unroll_k", "group_m", "order"),
        "packed": ("lanes_n", "commit_k", "unroll_k", "group_m", "order"),
        "subgroup_matrix": ("group_m",),
        "packed_subgroup_matrix": ("group_m",),
    }
    options = (
        Option("size", "Those of M, N and K that are not given.", int),
        Option("m", "Rows of A and C.", int),
        Option("n", "Columns of B and C.", int),
        Option("k", "Columns of A, rows of B.", int),
        Option("dtype", "Element type in memory.", ("f32", "f16"), "f32"),
        Option("accumulate", "Type that sums are kept in.", ("f32", "f16"), "f32"),
        Option("out_dtype", "Element type of C, where it differs.", ("f32", "f16")),
        Option("batch", "Matrices in a batch.", int, 1),
        Option("transpose_a", "A is stored K×M.", bool, False),
        Option("transpose_b", "B is stored N×K.", bool, False),
        Option("lda", "Elements a row of A takes; 0: rows follow each other.", int, 0),
        Option("ldb", "The same for B.", int, 0),
        Option("ldc", "The same for C.", int, 0),
        Option("broadcast_a", "One A for the whole batch.", bool, False),
        Option("broadcast_b", "One B for the whole batch.", bool, False),
        Option("alpha", "Factor of the product.", float, 1.0),
        Option("beta", "Factor of what C holds before; 0: C is not read.", float, 0.0),
        Option("bias", "Add a vector along N.", bool, False),
        Option("activation", "Applied after the bias.", ("none", "relu", "gelu", "silu"), "none"),
        Option("residual", "Add a matrix after the activation.", bool, False),
    )

    def problem_from_options(self, values: Mapping[str, Any]) -> GemmProblem:
        others = {name: value for name, value in values.items() if name not in ("size", "m", "n", "k")}
        given: dict[str, Any] = {**sizes_from_options(values), **others}
        return GemmProblem(**given)

    def check_problem(self, problem: GemmProblem) -> None:
        check_problem(problem)

    def label(self, problem: GemmProblem) -> str:
        return label(problem)

    def device_rules(self, variant: str, problem: GemmProblem, profile: DeviceProfile) -> tuple[Rule, ...]:
        if not issubclass(self.config_types[variant], MatrixUnits):
            return ()
        return matrices.device_rules(profile, problem.dtype, problem.accumulate)

    def resources(self, problem: GemmProblem, config: GemmConfig) -> tuple[Resources, ...]:
        return resources(problem, config)

    def default(self, problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
        return default(problem, profile)

    def baseline(self, problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
        return Naive(workgroup_x=16, workgroup_y=16)

    def plan(self, problem: GemmProblem, config: GemmConfig, *, specialize: bool) -> Plan:
        return plan(problem, config, specialize=specialize)

    def cooperative(self, problem: GemmProblem, matrix: str) -> CooperativeMatrix:
        return cooperative.config(problem, matrix)

    def flops(self, problem: GemmProblem) -> float:
        return 2.0 * problem.batch * problem.m * problem.n * problem.k

    def distance(self, problem: GemmProblem, other: GemmProblem) -> float:
        if any(getattr(problem, field) != getattr(other, field) for field in _OF_ONE_KIND):
            return float("inf")
        differences: int = sum(getattr(problem, field) != getattr(other, field) for field in _MINOR)
        return doublings(problem, other, _SIZES) + 0.25 * differences

    def neighbours(self, problem: GemmProblem, config: GemmConfig) -> list[Problem]:
        rows, cols = tile_of(config)
        if isinstance(config, Gemv):  # more tiles of the streamed matrix, which must stay the larger one
            rows *= 1 + 64 // rows if config.stream == "a" else 1
            cols *= 1 + 64 // cols if config.stream == "b" else 1
        v = vector_of(config)
        rows_by = v if problem.transpose_a else 1  # what stays a multiple for vec4 accesses
        cols_by = 1 if problem.transpose_b else v
        depth = max(depth_of(config), 4)
        if isinstance(config, MatrixUnits):  # or for whole words, or whole tiles
            rows_by, cols_by, v = steps(problem, config)
        elif isinstance(config, Packed):  # or for what packs, and for stores of C
            rows_by, cols_by, v = 1, store_vector(problem), 1
        copied = packing.steps(problem, config)
        rows_by, cols_by, v = max(rows_by, copied["m"]), max(cols_by, copied["n"]), max(v, copied["k"])
        shapes = (
            (rows + rows_by, cols + cols_by, depth + v),
            (max(rows - rows_by, rows_by), max(cols - cols_by, cols_by), max(depth - v, v)),
            (2 * rows + 3 * rows_by, cols_by, 3 * depth),
            (rows_by, 2 * cols + cols_by, 3 * depth + v),
            (rows + rows_by, cols + cols_by, problem.k),  # where sums are as long as the problem's
        )
        small = {"batch": min(problem.batch, 3), "lda": 0, "ldb": 0, "ldc": 0}
        near = (structs.replace(problem, m=m, n=n, k=k, **small) for m, n, k in shapes)
        return [other for other in near if other != problem]

    def inputs(self, problem: GemmProblem, seed: int, *, integers: bool) -> "dict[str, Array]":
        from autotune.kernels.gemm import numeric  # keeps NumPy out of the look-up path

        return numeric.inputs(problem, seed, integers=integers)

    def reference(self, problem: GemmProblem, inputs: "Mapping[str, Array]") -> "dict[str, Float64]":
        from autotune.kernels.gemm import numeric

        return numeric.reference(problem, inputs)

    def exact_up_to(self, problem: GemmProblem) -> float:
        from autotune.kernels.gemm import numeric

        return numeric.exact_up_to(problem)

    def tolerance(self, problem: GemmProblem, expected: "Float64") -> "Float64":
        from autotune.kernels.gemm import numeric

        return numeric.tolerance(problem, expected)


GEMM = Gemm()
