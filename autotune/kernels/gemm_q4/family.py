"""The family of GEMM with weights in 4 bits: options, neighbours, data, and the numeric reference."""

from collections.abc import Mapping
from math import lcm, sqrt
from typing import TYPE_CHECKING, Any

from msgspec import structs

from autotune.errors import InvalidProblem
from autotune.kernels import matrices
from autotune.kernels.base import Family, Option, Resources, Rule
from autotune.kernels.gemm_q4.configs import (
    Blocked,
    GemmQ4Config,
    Gemv,
    MatrixUnits,
    Naive,
    SplitK,
    depth_of,
    multiple_of,
    tile_of,
)
from autotune.kernels.gemm_q4.default import default
from autotune.kernels.gemm_q4.matrix import MATRIX_RULES, PRODUCT, multiples
from autotune.kernels.gemm_q4.packing import dequantize
from autotune.kernels.gemm_q4.plan import plan, resources
from autotune.kernels.gemm_q4.problem import CODES, GemmQ4Problem, check_problem
from autotune.kernels.gemm_q4.rules import BLOCKED_RULES, GEMV_RULES, SPLIT_K_RULES
from autotune.kernels.sizes import doublings
from autotune.model import DeviceProfile, Plan, Problem

if TYPE_CHECKING:
    from autotune.kernels.base import Array, Float64

REFERENCE_COLUMNS = 2048
"""Columns of W that the reference holds in float64 at a time: all at once could take too much memory."""


class GemmQ4(Family):
    """The family of GEMM with weights in 4 bits."""

    name = "gemm_q4"
    problem_type = GemmQ4Problem
    config_types = {  # noqa: RUF012
        "naive": Naive,
        "gemv": Gemv,
        "blocked": Blocked,
        "split_k": SplitK,
        "subgroup_matrix": MatrixUnits,
    }
    samples = {  # noqa: RUF012
        "f32": GemmQ4Problem(m=1, n=64, k=64),
        "f16": GemmQ4Problem(m=1, n=64, k=64, dtype="f16"),
    }
    rules = {  # noqa: RUF012
        "gemv": GEMV_RULES,
        "blocked": BLOCKED_RULES,
        "split_k": SPLIT_K_RULES,
        "subgroup_matrix": MATRIX_RULES,
    }
    options = (
        Option("m", "Rows of A and C.", int, 1),
        Option("n", "Columns of W and C.", int),
        Option("k", "Columns of A, rows of W.", int),
        Option("group", "Weights that share a scale: 16, 32, 64 or 128.", int, 32),
        Option("dtype", "Element type of A, the scales and C.", ("f32", "f16"), "f32"),
    )

    def problem_from_options(self, values: Mapping[str, Any]) -> GemmQ4Problem:
        missing = [f"--{name}" for name in ("n", "k") if values.get(name) is None]
        if missing:
            raise InvalidProblem(f"give {' and '.join(missing)}")
        return GemmQ4Problem(**{option.name: values[option.name] for option in self.options})

    def check_problem(self, problem: GemmQ4Problem) -> None:
        check_problem(problem)

    def label(self, problem: GemmQ4Problem) -> str:
        return f"{problem.m}x{problem.n}x{problem.k}-group{problem.group}-{problem.dtype}"

    def device_rules(self, variant: str, problem: GemmQ4Problem, profile: DeviceProfile) -> tuple[Rule, ...]:
        if variant != "subgroup_matrix":
            return ()
        return matrices.device_rules(profile, PRODUCT.element, PRODUCT.result)

    def resources(self, problem: GemmQ4Problem, config: GemmQ4Config) -> tuple[Resources, ...]:
        return resources(problem, config)

    def default(self, problem: GemmQ4Problem, profile: DeviceProfile | None) -> GemmQ4Config:
        return default(problem, profile)

    def baseline(self, problem: GemmQ4Problem, profile: DeviceProfile | None) -> GemmQ4Config:
        return Naive(workgroup_x=16, workgroup_y=16)

    def plan(self, problem: GemmQ4Problem, config: GemmQ4Config, *, specialize: bool) -> Plan:
        return plan(problem, config, specialize=specialize)

    def flops(self, problem: GemmQ4Problem) -> float:
        return 2.0 * problem.m * problem.n * problem.k

    def distance(self, problem: GemmQ4Problem, other: GemmQ4Problem) -> float:
        if (problem.group, problem.dtype) != (other.group, other.dtype):
            return float("inf")
        return doublings(problem, other)

    def neighbours(self, problem: GemmQ4Problem, config: GemmQ4Config) -> list[Problem]:
        rows, cols = tile_of(config)
        unit = lcm(problem.group, multiple_of(config))
        depth = lcm(depth_of(config), unit)
        rows_by = cols_by = 1
        if isinstance(config, MatrixUnits):
            stay = multiples(problem, config)
            rows_by, cols_by = stay.get("m", 1), stay.get("n", 1)
            unit = lcm(unit, config.tile_k) if config.a_from == "memory" else unit
        shapes = (
            (rows + rows_by, cols + cols_by, depth + unit),
            (rows - rows_by, cols - cols_by, max(depth - unit, unit)),
            (2 * rows + 3 * rows_by, cols_by, 3 * depth),
            (rows_by, 2 * cols + cols_by, 3 * depth + unit),
            (rows + rows_by, cols + cols_by, problem.k),  # where sums are as long as the problem's
        )
        near = (structs.replace(problem, m=max(m, rows_by), n=max(n, cols_by), k=k) for m, n, k in shapes)
        return [other for other in near if other != problem]

    def inputs(self, problem: GemmQ4Problem, seed: int, *, integers: bool) -> "dict[str, Array]":
        import numpy as np

        generator = np.random.default_rng(seed)
        kind = np.float16 if problem.dtype == "f16" else np.float32
        shape = (problem.m, problem.k)
        scales_shape = (problem.n, problem.k // problem.group)
        if integers:
            a = generator.integers(-2, 3, size=shape).astype(kind)
            scales = generator.integers(1, 3, size=scales_shape).astype(kind)
        else:
            a = (generator.random(shape, dtype=np.float32) - 0.5).astype(kind)
            a[np.abs(a) < np.finfo(kind).tiny] = 0  # a device may read these as zero anyway
            scales = ((1 + generator.random(scales_shape, dtype=np.float32)) / 16).astype(kind)
        words = generator.integers(2**32, size=(problem.n, problem.k // CODES), dtype=np.uint32)
        return {"a": a, "weights": words, "scales": scales}

    def reference(self, problem: GemmQ4Problem, inputs: "Mapping[str, Array]") -> "dict[str, Float64]":
        import numpy as np

        a = inputs["a"].astype(np.float64)
        words, scales = inputs["weights"].astype(np.uint32), inputs["scales"].astype(np.float64)
        c = np.empty((problem.m, problem.n), np.float64)
        for first in range(0, problem.n, REFERENCE_COLUMNS):
            part = slice(first, first + REFERENCE_COLUMNS)
            c[:, part] = a @ dequantize(words[part], scales[part]).T
        return {"c": c}

    def exact_up_to(self, problem: GemmQ4Problem) -> float:
        # Products lie in [-32, 32] and wander by about 10, so that six deviations of a partial sum
        # are 64·√K: below 2^24 for any K that can be indexed.
        return {"f32": 2.0**24, "f16": 2.0**11}[problem.dtype]

    def tolerance(self, problem: GemmQ4Problem, expected: "Float64") -> "Float64":
        """Rounding of K-term sums in f32, plus rounding of the stored value.

        Activations lie in [-½, ½), weights in [-1, 1), so that a product is about 1/8 and partial sums
        grow as √K/8; each of K additions rounds its partial sum by up to u, at random, so errors wander
        by about u·K/8 (probabilistic rounding analysis: Higham and Mary, SIAM J. Sci. Comput. 2019).
        Sixteen times that covers millions of elements in any order of summation; one missing term is off
        by about 1/8, hundreds of times more at K = 4096. Where products are whole numbers, an element of A is
        off by half a unit, up to u as it is below ½, and K of them by less than half of that. Where A is f16,
        W may be too once it is dequantised: each product is then off by up to 2⁻¹¹ of itself, at random, and
        eight deviations of K of them are about 2⁻¹⁰·√K/8. Results below the smallest normal number may be
        stored as zero (WGSL, "Floating Point Evaluation").
        """
        import numpy as np

        unit = {"f32": 2.0**-24, "f16": 2.0**-11}[problem.dtype]
        smallest = {"f32": 2.0**-126, "f16": 2.0**-14}[problem.dtype]
        summed = 16.0 * 2.0**-24 * problem.k / 8.0
        rounded = 2.0**-10 * sqrt(problem.k) / 8.0 if problem.dtype == "f16" else 0.0
        stored = 2.0 * unit * np.abs(expected) + smallest
        return np.asarray(summed + rounded + stored, dtype=np.float64)


GEMM_Q4 = GemmQ4()
