"""The GEMM family: resources, default, plan, and the numeric reference."""

from collections.abc import Mapping
from math import log2
from typing import TYPE_CHECKING, Any, cast

from autotune.errors import InvalidProblem
from autotune.kernels.base import Family, Option, Resources
from autotune.kernels.gemm.configs import (
    Blocked,
    GemmConfig,
    Gemv,
    Naive,
    SplitK,
    Tiled,
    depth_of,
    tile_of,
    vector_of,
)
from autotune.kernels.gemm.default import default
from autotune.kernels.gemm.plan import plan, resources
from autotune.kernels.gemm.problem import GemmProblem, check_problem
from autotune.kernels.gemm.rules import BLOCKED_RULES, GEMV_RULES, SPLIT_K_RULES
from autotune.model import DeviceProfile, Plan, Problem

if TYPE_CHECKING:
    from autotune.kernels.base import Array, Float64


def _problem_from_options(values: Mapping[str, Any]) -> GemmProblem:
    size = values.get("size")
    sizes = {name: values[name] if values.get(name) is not None else size for name in ("m", "n", "k")}
    missing = [f"--{name}" for name, value in sizes.items() if value is None]
    if missing:
        raise InvalidProblem(f"give --size for a square problem, or {', '.join(missing)} as well")
    return GemmProblem(
        **cast("dict[str, int]", sizes), dtype=values["dtype"], accumulate=values["accumulate"]
    )


class Gemm(Family):
    """The GEMM family."""

    name = "gemm"
    problem_type = GemmProblem
    config_types = {"naive": Naive, "tiled": Tiled, "blocked": Blocked, "split_k": SplitK, "gemv": Gemv}  # noqa: RUF012
    samples = {  # noqa: RUF012
        "f32": GemmProblem(m=64, n=64, k=64),
        "f16, f32 sums": GemmProblem(m=64, n=64, k=64, dtype="f16"),
        "f16, f16 sums": GemmProblem(m=64, n=64, k=64, dtype="f16", accumulate="f16"),
    }
    rules = {"blocked": BLOCKED_RULES, "split_k": SPLIT_K_RULES, "gemv": GEMV_RULES}  # noqa: RUF012
    options = (
        Option("size", "M, N and K of a square problem.", int),
        Option("m", "Rows of A and C.", int),
        Option("n", "Columns of B and C.", int),
        Option("k", "Columns of A, rows of B.", int),
        Option("dtype", "Element type in memory.", ("f32", "f16"), "f32"),
        Option("accumulate", "Type that sums are kept in.", ("f32", "f16"), "f32"),
    )

    def problem_from_options(self, values: Mapping[str, Any]) -> GemmProblem:
        return _problem_from_options(values)

    def check_problem(self, problem: GemmProblem) -> None:
        check_problem(problem)

    def label(self, problem: GemmProblem) -> str:
        accumulate = "" if problem.accumulate == "f32" else f"-sum{problem.accumulate}"
        return f"{problem.m}x{problem.n}x{problem.k}-{problem.dtype}{accumulate}"

    def resources(self, problem: GemmProblem, config: GemmConfig) -> tuple[Resources, ...]:
        return resources(problem, config)

    def default(self, problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
        return default(problem)

    def baseline(self, problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
        return Naive(workgroup_x=16, workgroup_y=16)

    def plan(self, problem: GemmProblem, config: GemmConfig, *, specialize: bool) -> Plan:
        return plan(problem, config, specialize=specialize)

    def flops(self, problem: GemmProblem) -> float:
        return 2.0 * problem.m * problem.n * problem.k

    def distance(self, problem: GemmProblem, other: GemmProblem) -> float:
        if (problem.dtype, problem.accumulate) != (other.dtype, other.accumulate):
            return float("inf")
        pairs = ((problem.m, other.m), (problem.n, other.n), (problem.k, other.k))
        return sum(abs(log2(here / there)) for here, there in pairs)

    def neighbours(self, problem: GemmProblem, config: GemmConfig) -> list[Problem]:
        rows, cols = tile_of(config)
        vector = vector_of(config)
        depth = max(depth_of(config), 4)
        shapes = (
            (rows + 1, cols + vector, depth + vector),
            (rows - 1, max(cols - vector, vector), max(depth - vector, vector)),
            (2 * rows + 3, vector, 3 * depth),
            (1, 2 * cols + vector, 3 * depth + vector),
            (rows + 1, cols + vector, problem.k),  # where sums are as long as the problem's
        )
        return [
            GemmProblem(m=max(m, 1), n=n, k=k, dtype=problem.dtype, accumulate=problem.accumulate)
            for m, n, k in shapes
        ]

    def inputs(self, problem: GemmProblem, seed: int, *, integers: bool) -> "dict[str, Array]":
        import numpy as np

        generator = np.random.default_rng(seed)
        kind = np.float16 if problem.dtype == "f16" else np.float32
        matrices: dict[str, Array] = {}
        for name, shape in (("a", (problem.m, problem.k)), ("b", (problem.k, problem.n))):
            if integers:
                matrices[name] = generator.integers(-2, 3, size=shape).astype(kind)
            else:
                values = (generator.random(shape, dtype=np.float32) - 0.5).astype(kind)
                values[np.abs(values) < np.finfo(kind).tiny] = 0  # a device may read these as zero anyway
                matrices[name] = values
        return matrices

    def reference(self, problem: GemmProblem, inputs: "Mapping[str, Array]") -> "dict[str, Float64]":
        import numpy as np

        return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}

    def exact_up_to(self, problem: GemmProblem) -> float:
        # Products lie in [-4, 4] and wander, so that six deviations of a partial sum are 12·√K.
        largest = {"f32": 2.0**24, "f16": 2.0**11}
        if 12 * problem.k**0.5 > largest[problem.accumulate]:
            return 0.0
        return largest[problem.dtype]

    def tolerance(self, problem: GemmProblem, expected: "Float64") -> "Float64":
        """Rounding of K-term sums plus rounding of the stored value.

        For data in [-½, ½) partial sums grow as √K/12; each of K additions rounds its partial sum by
        up to u, at random, so errors wander by about u·K/12 (probabilistic rounding analysis: Higham
        and Mary, SIAM J. Sci. Comput. 2019). Sixteen times that covers millions of elements in any
        order of summation; one missing term is off by about 1/12, thousands of times more in f32.
        Results below the smallest normal number may be stored as zero (WGSL, "Floating Point Evaluation").
        """
        import numpy as np

        unit = {"f32": 2.0**-24, "f16": 2.0**-11}
        smallest = {"f32": 2.0**-126, "f16": 2.0**-14}
        summed = 16.0 * unit[problem.accumulate] * problem.k / 12.0
        stored = 2.0 * unit[problem.dtype] * np.abs(expected) + smallest[problem.dtype]
        return np.asarray(summed + stored, dtype=np.float64)


GEMM = Gemm()
