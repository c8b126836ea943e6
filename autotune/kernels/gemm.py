"""GEMM: C = A·B, row-major, with A M×K, B K×N and C M×N."""

from collections.abc import Mapping
from math import ceil, log2
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from autotune.errors import InvalidProblem
from autotune.expression import ceil_div
from autotune.kernels.base import Family, Option, Parameters, Resources, Rule
from autotune.model import (
    DTYPE_BYTES,
    Buffer,
    Config,
    DeviceProfile,
    Dtype,
    Expr,
    Pass,
    Plan,
    Problem,
    Size,
)

if TYPE_CHECKING:
    from autotune.kernels.base import Array, Float64

LANES = 32
"""Neighbouring invocations whose layout over the tile is a parameter."""
MAX_REGISTER_BLOCK = 256
"""Accumulators an invocation may keep; more than this spills on every GPU."""
MAX_UNROLLED = 1024
"""vec4 multiply-adds written out; beyond this, compile time grows without any gain."""
BYTES_LIMIT = 2**32
"""Kernels index in u32, and browsers compute byte offsets in u32."""


class GemmProblem(Problem, frozen=True, kw_only=True):
    """C = A·B for an M×K matrix A and a K×N matrix B, both row-major.

    `dtype` is the element type in memory, `accumulate` the type that sums are kept in. An f16 output
    overflows only at the store, and only past 65,504; f16 sums lose whole numbers past 2,048.
    """

    m: Size
    n: Size
    k: Size
    dtype: Dtype = "f32"
    accumulate: Dtype = "f32"

    def __post_init__(self) -> None:
        check_problem(self)


class Naive(Config, frozen=True, kw_only=True, tag="naive"):
    """One invocation for each element, straight from memory."""

    workgroup_x: Annotated[int, Meta(ge=1, le=1024)]
    workgroup_y: Annotated[int, Meta(ge=1, le=1024)]


class Tiled(Config, frozen=True, kw_only=True, tag="tiled"):
    """Square tiles through workgroup memory, one invocation an element."""

    tile: Annotated[int, Meta(ge=2, le=32)]


class Blocked(Config, frozen=True, kw_only=True, tag="blocked"):
    """Register blocks of vec4s over tiles in workgroup memory; the template explains each parameter."""

    tile_m: Annotated[int, Meta(ge=4, le=512)]
    tile_n: Annotated[int, Meta(ge=4, le=512)]
    tile_k: Annotated[int, Meta(ge=4, le=64)]
    thread_m: Annotated[int, Meta(ge=4, le=32)]
    thread_n: Annotated[int, Meta(ge=4, le=32)]
    lanes_n: Annotated[int, Meta(ge=1, le=LANES)]
    vector: Literal[1, 4]
    strips: bool
    transpose_a: bool
    pad_a: Literal[0, 1]
    buffering: Literal["single", "prefetch", "double"]
    unroll_k: Annotated[int, Meta(ge=1, le=64)]
    group_m: Annotated[int, Meta(ge=1, le=64)]
    staged: Literal["storage", "accumulator"]

    @property
    def threads_m(self) -> int:
        """Invocations along M."""
        return self.tile_m // self.thread_m

    @property
    def threads_n(self) -> int:
        """Invocations along N."""
        return self.tile_n // self.thread_n

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.threads_m * self.threads_n

    def workgroup_vec4s(self) -> int:
        """vec4s of workgroup memory that the tiles take."""
        if self.transpose_a:
            tile_a = self.tile_k * (self.tile_m // 4 + self.pad_a)
        else:
            tile_a = self.tile_m * (self.tile_k // 4 + self.pad_a)
        tile_b = self.tile_k * self.tile_n // 4
        return (tile_a + tile_b) * (2 if self.buffering == "double" else 1)


GemmConfig = Naive | Tiled | Blocked


def check_problem(problem: GemmProblem) -> None:
    """Raise InvalidProblem where sizes are below 1, indices overflow, or types do not go together."""
    for name in ("m", "n", "k"):
        size = getattr(problem, name)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidProblem(f"{name} must be a whole number of at least 1, not {size!r}")
    if problem.dtype not in DTYPE_BYTES or problem.accumulate not in ("f32", problem.dtype):
        raise InvalidProblem(
            f"{problem.dtype} elements cannot accumulate in {problem.accumulate}; use f32, or f16 with f16"
        )
    width = DTYPE_BYTES[problem.dtype]
    shapes = {"A": (problem.m, problem.k), "B": (problem.k, problem.n), "C": (problem.m, problem.n)}
    for name, (rows, cols) in shapes.items():
        if rows * cols * width >= BYTES_LIMIT:
            raise InvalidProblem(
                f"matrix {name} ({rows}×{cols} {problem.dtype}) takes {rows * cols * width} B; WGSL indexes "
                f"up to {BYTES_LIMIT} B, so split the problem into smaller ones"
            )


def _problem_from_options(values: Mapping[str, Any]) -> GemmProblem:
    size = values.get("size")
    sizes = {name: values[name] if values.get(name) is not None else size for name in ("m", "n", "k")}
    missing = [f"--{name}" for name, value in sizes.items() if value is None]
    if missing:
        raise InvalidProblem(f"give --size for a square problem, or {', '.join(missing)} as well")
    return GemmProblem(**sizes, dtype=values["dtype"], accumulate=values["accumulate"])


def _threads(c: Parameters) -> int:
    return int(c["tile_m"] // c["thread_m"] * (c["tile_n"] // c["thread_n"]))


def _shared_evenly(units: int, invocations: int) -> bool:
    """Whether a tile's pieces go round: all invocations carry the same number, or some carry one."""
    return units <= invocations or units % invocations == 0


BLOCKED_RULES = (
    Rule(("tile_m", "thread_m"), "tile not a multiple of the register block", lambda _, c: c["tile_m"] % c["thread_m"] == 0),
    Rule(("tile_n", "thread_n"), "tile not a multiple of the register block", lambda _, c: c["tile_n"] % c["thread_n"] == 0),
    Rule(("thread_m", "thread_n", "tile_k"), "register block or tile depth not a multiple of a vec4",
         lambda _, c: c["thread_m"] % 4 == c["thread_n"] % 4 == c["tile_k"] % 4 == 0),
    Rule(("thread_m", "thread_n"), "register block too large", lambda _, c: c["thread_m"] * c["thread_n"] <= MAX_REGISTER_BLOCK),
    Rule(("tile_m", "tile_n", "thread_m", "thread_n"), f"workgroup not a multiple of {LANES} invocations",
         lambda _, c: _threads(c) % LANES == 0),
    Rule(("tile_n", "thread_n", "lanes_n"), "lanes do not fit the tile along N",
         lambda _, c: LANES % c["lanes_n"] == 0 and c["tile_n"] // c["thread_n"] % c["lanes_n"] == 0),
    Rule(("tile_m", "thread_m", "lanes_n"), "lanes do not fit the tile along M",
         lambda _, c: c["tile_m"] // c["thread_m"] % max(LANES // c["lanes_n"], 1) == 0),
    Rule(("tile_k", "unroll_k", "transpose_a"), "unrolled steps do not divide the tile's depth",
         lambda _, c: c["tile_k"] % c["unroll_k"] == 0 and (c["transpose_a"] or c["unroll_k"] % 4 == 0)),
    Rule(("unroll_k", "thread_m", "thread_n"), "too much unrolled code",
         lambda _, c: c["unroll_k"] * c["thread_m"] * c["thread_n"] <= 4 * MAX_UNROLLED),
    Rule(("tile_m", "tile_n", "tile_k", "thread_m", "thread_n", "transpose_a"), "a tile's loads do not go round evenly",
         lambda _, c: _shared_evenly(c["tile_m"] * c["tile_k"] // (16 if c["transpose_a"] else 4), _threads(c))
         and _shared_evenly(c["tile_n"] * c["tile_k"] // 4, _threads(c))),
    Rule(("tile_k", "tile_n", "tile_m", "thread_m", "thread_n"), "a row of a tile is longer than the workgroup",
         lambda _, c: _threads(c) % (c["tile_k"] // 4) == 0),
    Rule(("vector",), "vec4 access needs K and N to be multiples of 4",
         lambda p, c: c["vector"] == 1 or p.k % 4 == p.n % 4 == 0),
    Rule(("vector",), "scalar access where vec4 is possible", lambda p, c: c["vector"] == 4 or bool(p.k % 4 or p.n % 4)),
    Rule(("staged",), "staging in the accumulator's type changes nothing here",
         lambda p, c: c["staged"] == "storage" or p.dtype != p.accumulate),
)


def _tile(config: GemmConfig) -> tuple[int, int]:
    """Rows and columns of C that a workgroup computes."""
    if isinstance(config, Naive):
        return config.workgroup_y, config.workgroup_x
    if isinstance(config, Tiled):
        return config.tile, config.tile
    return config.tile_m, config.tile_n


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


def _default(problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
    """A good config without tuning: the largest tile that still gives the device enough workgroups.

    Every choice fits 256 invocations and 16 KiB of workgroup memory.
    """
    vector: Literal[1, 4] = 4 if problem.k % 4 == 0 and problem.n % 4 == 0 else 1
    enough = 16 if profile is not None and profile.is_cpu else 96
    for tile_m, tile_n, thread_m, thread_n in ((128, 128, 8, 8), (64, 64, 8, 4), (32, 32, 4, 4)):
        if ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n) >= enough:
            break
    return Blocked(
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=8,
        thread_m=thread_m,
        thread_n=thread_n,
        lanes_n=8,
        vector=vector,
        strips=True,
        transpose_a=True,
        pad_a=0,
        buffering="prefetch",
        unroll_k=8,
        group_m=8,
        staged="storage",
    )


class Gemm(Family):
    """The GEMM family."""

    name = "gemm"
    problem_type = GemmProblem
    config_types = {"naive": Naive, "tiled": Tiled, "blocked": Blocked}  # noqa: RUF012
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
        rows, cols = _tile(config)
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
        return _default(problem, profile)

    def baseline(self, problem: GemmProblem, profile: DeviceProfile | None) -> GemmConfig:
        return Naive(workgroup_x=16, workgroup_y=16)

    def plan(self, problem: GemmProblem, config: GemmConfig, *, specialize: bool) -> Plan:
        from autotune import render  # keeps Jinja out of the look-up path

        sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
        vector = config.vector if isinstance(config, Blocked) else 1
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
        rows, cols = _tile(config)
        workgroups: Expr = {"mul": [{"ceilDiv": ["m", rows]}, {"ceilDiv": ["n", cols]}]}
        buffers = (
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
                    wgsl=render.wgsl(f"gemm/{config.variant}.wgsl", context | config.parameters()),
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
        rows, cols = _tile(config)
        vector = config.vector if isinstance(config, Blocked) else 1
        depth = {Naive: 4, Tiled: rows}.get(type(config)) or getattr(config, "tile_k", 8)
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
                matrices[name] = (generator.random(shape, dtype=np.float32) - 0.5).astype(kind)
        return matrices

    def reference(self, problem: GemmProblem, inputs: "Mapping[str, Array]") -> "dict[str, Float64]":
        import numpy as np

        return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}

    def tolerance(self, problem: GemmProblem, expected: "Float64") -> "Float64":
        """Rounding of K-term sums, by the probabilistic bound γ̃ = λ√K·u (Higham and Mary, "A new
        approach to probabilistic rounding error analysis", 2019) times the norms of the factors, plus
        the rounding of the stored value.
        """
        import numpy as np

        unit = {"f32": 2.0**-24, "f16": 2.0**-11}
        size = ceil(problem.k) / 12  # |row of A|·|column of B| for uniform data in [-½, ½)
        summed = 4.0 * np.sqrt(problem.k) * unit[problem.accumulate] * size
        return np.asarray(summed + 2.0 * unit[problem.dtype] * np.abs(expected), dtype=np.float64)


GEMM = Gemm()
