"""The int8 GEMM family: options, neighbours, data, and the exact reference."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from autotune.kernels import matrices
from autotune.kernels.base import Family, Option, Resources, Rule
from autotune.kernels.gemm_i8.configs import (
    Blocked,
    GemmI8Config,
    MatrixUnits,
    Naive,
    depth_of,
    tile_of,
    vector_of,
)
from autotune.kernels.gemm_i8.default import default
from autotune.kernels.gemm_i8.matrix import MATRIX_RULES, PRODUCT, steps
from autotune.kernels.gemm_i8.packing import pack, unpack
from autotune.kernels.gemm_i8.plan import plan, resources
from autotune.kernels.gemm_i8.problem import K_LIMIT, PER_WORD, GemmI8Problem, check_problem
from autotune.kernels.gemm_i8.rules import BLOCKED_RULES
from autotune.kernels.sizes import doublings, sizes_from_options
from autotune.model import DeviceProfile, Plan, Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from autotune.kernels.base import Array, Float64


class GemmI8(Family):
    """The int8 GEMM family."""

    name = "gemm_i8"
    problem_type = GemmI8Problem
    config_types = {"naive": Naive, "blocked": Blocked, "subgroup_matrix": MatrixUnits}  # noqa: RUF012
    samples = {"i8": GemmI8Problem(m=64, n=64, k=64)}  # noqa: RUF012
    rules = {"blocked": BLOCKED_RULES, "subgroup_matrix": MATRIX_RULES}  # noqa: RUF012
    options = (
        Option("size", "M, N and K of a square problem.", int),
        Option("m", "Rows of A and C.", int),
        Option("n", "Rows of B, columns of C.", int),
        Option("k", "Columns of A and B, a multiple of 4.", int),
    )

    def problem_from_options(self, values: Mapping[str, Any]) -> GemmI8Problem:
        return GemmI8Problem(**sizes_from_options(values))

    def check_problem(self, problem: GemmI8Problem) -> None:
        check_problem(problem)

    def label(self, problem: GemmI8Problem) -> str:
        return f"{problem.m}x{problem.n}x{problem.k}-i8"

    def device_rules(self, variant: str, problem: GemmI8Problem, profile: DeviceProfile) -> tuple[Rule, ...]:
        if variant != "subgroup_matrix":
            return ()
        return matrices.device_rules(profile, PRODUCT.element, PRODUCT.result)

    def resources(self, problem: GemmI8Problem, config: GemmI8Config) -> tuple[Resources, ...]:
        return resources(problem, config)

    def default(self, problem: GemmI8Problem, profile: DeviceProfile | None) -> GemmI8Config:
        return default(problem, profile)

    def baseline(self, problem: GemmI8Problem, profile: DeviceProfile | None) -> GemmI8Config:
        return Naive(workgroup_x=16, workgroup_y=16)

    def plan(self, problem: GemmI8Problem, config: GemmI8Config, *, specialize: bool) -> Plan:
        return plan(problem, config, specialize=specialize)

    def flops(self, problem: GemmI8Problem) -> float:
        return 2.0 * problem.m * problem.n * problem.k

    def distance(self, problem: GemmI8Problem, other: GemmI8Problem) -> float:
        return doublings(problem, other)

    def neighbours(self, problem: GemmI8Problem, config: GemmI8Config) -> list[Problem]:
        rows, cols = tile_of(config)
        depth = depth_of(config)
        rows_by, cols_by, step = 1, 1, PER_WORD * vector_of(config)
        if isinstance(config, MatrixUnits):
            rows_by, cols_by, step = steps(problem, config)
        shapes = (
            (rows + rows_by, cols + cols_by, depth + step),
            (rows - rows_by, cols - cols_by, depth - step),
            (2 * rows + 3 * rows_by, cols_by, 3 * depth + step),
            (rows_by, 2 * cols + 3 * cols_by, step),
            (rows + rows_by, cols + cols_by, problem.k),  # where sums are as long as the problem's
        )
        most = (K_LIMIT - 1) // step * step
        near = (
            GemmI8Problem(m=max(m, rows_by), n=max(n, cols_by), k=min(max(k, step), most))
            for m, n, k in shapes
        )
        return [other for other in near if other != problem]

    def inputs(self, problem: GemmI8Problem, seed: int, *, integers: bool) -> "dict[str, Array]":
        """All int8 values; scales as quantisation makes them, or whole powers of two with a sign."""
        import numpy as np

        generator = np.random.default_rng(seed)

        def matrix(rows: int) -> "NDArray[np.uint32]":
            return pack(generator.integers(-128, 128, size=(rows, problem.k), dtype=np.int8))

        def scales(count: int) -> "NDArray[np.float32]":
            if integers:
                return generator.choice(np.array([-2, -1, 1, 2, 4], np.float32), size=count)
            return (generator.random(count, dtype=np.float32) + np.float32(0.5)) / np.float32(127)

        return {
            "a": matrix(problem.m),
            "b": matrix(problem.n),
            "scale_a": scales(problem.m),
            "scale_b": scales(problem.n),
        }

    def reference(self, problem: GemmI8Problem, inputs: "Mapping[str, Array]") -> "dict[str, Float64]":
        """Sums stay below 2³¹, so float64 (exact to 2⁵³) adds them exactly in any order, and BLAS may."""
        import numpy as np

        a, b = (unpack(cast("NDArray[np.uint32]", inputs[name])).astype(np.float64) for name in ("a", "b"))
        scale_a, scale_b = (inputs[name].astype(np.float64) for name in ("scale_a", "scale_b"))
        return {"c": (a @ b.T) * scale_a[:, np.newaxis] * scale_b}

    def exact_up_to(self, problem: GemmI8Problem) -> float:
        return 2.0**24  # scales are powers of two, so that only the sum must fit a float's mantissa

    def tolerance(self, problem: GemmI8Problem, expected: "Float64") -> "Float64":
        """The sum is exact, so only its conversion to f32 and two multiplications may round.

        Each is off by less than one ulp, 2⁻²³ of the value, whichever way a device rounds. Results
        below the smallest normal number may be stored as zero (WGSL, "Floating Point Evaluation").
        """
        import numpy as np

        return np.asarray(4 * 2.0**-23 * np.abs(expected) + 2.0**-126, dtype=np.float64)


GEMM_I8 = GemmI8()
