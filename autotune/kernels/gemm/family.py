"""The GEMM family: resources, default, plan, and the numeric reference."""

from collections.abc import Mapping
from math import log2
from typing import TYPE_CHECKING, Any, Literal, cast

from autotune.errors import InvalidProblem
from autotune.expression import ceil_div
from autotune.kernels.base import Family, Option, Resources
from autotune.kernels.gemm.configs import Blocked, GemmConfig, Naive, Tiled, tile_of, vector_of
from autotune.kernels.gemm.problem import GemmProblem, check_problem
from autotune.kernels.gemm.rules import BLOCKED_RULES
from autotune.model import DTYPE_BYTES, Buffer, DeviceProfile, Expr, Pass, Plan, Problem

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


def _workgroup(problem: GemmProblem, config: GemmConfig) -> tuple[tuple[int, int, int], int]:
    """Workgroup size, and bytes of workgroup memory."""
    if isinstance(config, Naive):
        return (config.workgroup_x, config.workgroup_y, 1), 0
    if isinstance(config, Tiled):
        return (config.tile, config.tile, 1), 2 * config.tile**2 * DTYPE_BYTES[problem.dtype]
    staged = problem.accumulate if config.staged == "accumulator" else problem.dtype
    return (config.invocations, 1, 1), config.workgroup_vec4s() * 4 * DTYPE_BYTES[staged]


def _features(problem: GemmProblem) -> tuple[str, ...]:
    return ("shader-f16",) if problem.dtype == "f16" else ()


def _default(problem: GemmProblem) -> GemmConfig:
    """A good config without tuning: 64×64 tiles, smaller ones where those would leave a GPU idle.

    Every choice fits 256 invocations and 16 KiB of workgroup memory.
    """
    vector: Literal[1, 4] = 4 if problem.k % 4 == 0 and problem.n % 4 == 0 else 1
    tile, block = (64, 8) if ceil_div(problem.m, 64) * ceil_div(problem.n, 64) >= 64 else (32, 4)
    return Blocked(
        tile_m=tile,
        tile_n=tile,
        tile_k=16,
        thread_m=block,
        thread_n=block,
        lanes_n=8,
        vector=vector,
        strips=True,
        transpose_a=True,
        pad_a=0,
        buffering="double",
        unroll_k=16,
        group_m=8,
        staged="storage",
    )


class Gemm(Family):
    """The GEMM family."""

    name = "gemm"
    problem_type = GemmProblem
    config_types = {"naive": Naive, "tiled": Tiled, "blocked": Blocked}  # noqa: RUF012
    samples = {  # noqa: RUF012
        "f32": GemmProblem(m=64, n=64, k=64),
        "f16, f32 sums": GemmProblem(m=64, n=64, k=64, dtype="f16"),
        "f16, f16 sums": GemmProblem(m=64, n=64, k=64, dtype="f16", accumulate="f16"),
    }
    rules = {"blocked": BLOCKED_RULES}  # noqa: RUF012
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

    def resources(self, problem: GemmProblem, config: GemmConfig) -> Resources:
        workgroup_size, workgroup_bytes = _workgroup(problem, config)
        rows, cols = tile_of(config)
        width = DTYPE_BYTES[problem.dtype]
        m, n, k = problem.m, problem.n, problem.k
        return Resources(
            workgroup_size=workgroup_size,
            workgroup_bytes=workgroup_bytes,
            workgroups=ceil_div(m, rows) * ceil_div(n, cols),
            binding_bytes=(m * k * width, k * n * width, m * n * width),
            features=_features(problem),
        )

    def default(self, problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
        return _default(problem)

    def baseline(self, problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
        return Naive(workgroup_x=16, workgroup_y=16)

    def plan(self, problem: GemmProblem, config: GemmConfig, *, specialize: bool) -> Plan:
        from autotune.templating import wgsl  # keeps Jinja out of the look-up path

        sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
        vector = vector_of(config)
        context = {
            "baked": specialize,
            "size_names": tuple(sizes),
            "size_values": sizes,
            "dtype": problem.dtype,
            "accumulate": problem.accumulate,
            "f16": problem.dtype == "f16",
            "vector": vector,
        }
        workgroup_size, workgroup_bytes = _workgroup(problem, config)
        rows, cols = tile_of(config)
        workgroups: Expr = {"mul": [{"ceilDiv": ["m", rows]}, {"ceilDiv": ["n", cols]}]}
        buffers: tuple[Buffer, ...] = (
            Buffer(name="sizes", role="uniform", element="u32", shape=(len(sizes),), binding=0),
            Buffer(name="a", role="input", element=problem.dtype, shape=("m", "k"), binding=1),
            Buffer(name="b", role="input", element=problem.dtype, shape=("k", "n"), binding=2),
            Buffer(name="c", role="output", element=problem.dtype, shape=("m", "n"), binding=3),
        )
        if specialize:
            buffers = buffers[1:]
        return Plan(
            kernel=self.name,
            variant=config.variant,
            sizes=sizes,
            uniform=() if specialize else tuple(sizes),
            buffers=buffers,
            passes=(
                Pass(
                    wgsl=wgsl(f"gemm/{config.variant}.wgsl", context | config.parameters()),
                    entry_point="main",
                    workgroup_size=workgroup_size,
                    workgroup_bytes=workgroup_bytes,
                    workgroups=workgroups,
                    buffers=tuple(buffer.name for buffer in buffers),
                ),
            ),
            features=_features(problem),
            multiples={"n": 4, "k": 4} if vector == 4 else {},
        )

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
        depth = config.tile_k if isinstance(config, Blocked) else max(rows, vector)
        shapes = (
            (rows + 1, cols + vector, depth + vector),
            (rows - 1, max(cols - vector, vector), max(depth - vector, vector)),
            (2 * rows + 3, vector, 3 * depth),
            (1, 2 * cols + vector, 3 * depth + vector),
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
