"""From (problem, config) to passes, buffers and what they need of a device."""

from autotune.expression import ceil_div
from autotune.kernels.base import Resources
from autotune.kernels.gemm.configs import (
    Blocked,
    GemmConfig,
    Gemv,
    Naive,
    Tiled,
    splits_of,
    tile_of,
    vector_of,
)
from autotune.kernels.gemm.problem import GemmProblem
from autotune.model import DTYPE_BYTES, Buffer, Expr, Pass, Plan

_TEMPLATES = {"split_k": "blocked"}
"""Variants that render another variant's template."""
REDUCE_LANES = 16
REDUCE_THREADS = 16
"""Shape of the workgroups that add partial sums: elements side by side, and splits at a time."""


def resources(problem: GemmProblem, config: GemmConfig) -> tuple[Resources, ...]:
    """What each pass needs, without rendering it."""
    m, n, k = problem.m, problem.n, problem.k
    rows, cols = tile_of(config)
    splits = splits_of(config)
    width, sum_width = DTYPE_BYTES[problem.dtype], DTYPE_BYTES[problem.accumulate]
    a, b, c, sums = m * k * width, k * n * width, m * n * width, splits * m * n * sum_width
    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    main = Resources(
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups=ceil_div(m, rows) * ceil_div(n, cols) * splits,
        binding_bytes=(a, b, c if splits == 1 else sums),
        features=_features(problem),
    )
    if splits == 1:
        return (main,)
    vector = vector_of(config)
    reduce = Resources(
        workgroup_size=(REDUCE_LANES, REDUCE_THREADS, 1),
        workgroup_bytes=_reduce_bytes(problem, vector),
        workgroups=ceil_div(m * n, REDUCE_LANES * vector),
        binding_bytes=(c, sums),
        features=_features(problem),
    )
    return main, reduce


def plan(problem: GemmProblem, config: GemmConfig, *, specialize: bool) -> Plan:
    """Render the passes. `specialize` bakes the sizes in."""
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
    splits, vector = splits_of(config), vector_of(config)
    uniform = (Buffer(name="sizes", role="uniform", element="u32", shape=(len(sizes),), binding=0),)
    a = Buffer(name="a", role="input", element=problem.dtype, shape=("m", "k"), binding=1)
    b = Buffer(name="b", role="input", element=problem.dtype, shape=("k", "n"), binding=2)
    c = Buffer(name="c", role="output", element=problem.dtype, shape=("m", "n"), binding=3)
    sums = Buffer(
        name="sums", role="scratch", element=problem.accumulate, shape=(splits, "m", "n"), binding=4
    )
    shared = () if specialize else uniform
    context: dict[str, object] = {
        "baked": specialize,
        "size_names": tuple(sizes),
        "size_values": sizes,
        "dtype": problem.dtype,
        "accumulate": problem.accumulate,
        "f16": problem.dtype == "f16",
        "vector": vector,
        "splits": splits,
    }
    passes: tuple[Pass, ...]
    if splits == 1:
        passes = (_main_pass(problem, config, context, (*shared, a, b, c)),)
    else:
        passes = (
            _main_pass(problem, config, context, (*shared, a, b, sums)),
            _reduce_pass(problem, vector, context, (*shared, c, sums)),
        )
    return Plan(
        kernel="gemm",
        variant=config.variant,
        sizes=sizes,
        uniform=() if specialize else tuple(sizes),
        buffers=(*shared, a, b, c, *((sums,) if splits > 1 else ())),
        passes=passes,
        features=_features(problem),
        multiples={"n": 4, "k": 4} if vector == 4 else {},
    )


def _main_pass(
    problem: GemmProblem, config: GemmConfig, context: dict[str, object], buffers: tuple[Buffer, ...]
) -> Pass:
    from autotune.templating import wgsl  # keeps Jinja out of the look-up path

    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    rows, cols = tile_of(config)
    workgroups: list[Expr] = [{"ceilDiv": ["m", rows]}, {"ceilDiv": ["n", cols]}]
    if splits_of(config) > 1:
        workgroups.append(splits_of(config))
    template = _TEMPLATES.get(config.variant, config.variant)
    if isinstance(config, Gemv):
        context = context | {"staged": "accumulator"}  # what it loads goes straight into the sums
    return Pass(
        wgsl=wgsl(f"gemm/{template}.wgsl", context | config.parameters()),
        entry_point="main",
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups={"mul": workgroups},
        buffers=tuple(buffer.name for buffer in buffers),
    )


def _reduce_pass(
    problem: GemmProblem, vector: int, context: dict[str, object], buffers: tuple[Buffer, ...]
) -> Pass:
    from autotune.templating import wgsl

    shape = {"lanes": REDUCE_LANES, "threads_splits": REDUCE_THREADS}
    return Pass(
        wgsl=wgsl("gemm/reduce.wgsl", context | shape),
        entry_point="main",
        workgroup_size=(REDUCE_LANES, REDUCE_THREADS, 1),
        workgroup_bytes=_reduce_bytes(problem, vector),
        workgroups={"ceilDiv": [{"mul": ["m", "n"]}, REDUCE_LANES * vector]},
        buffers=tuple(buffer.name for buffer in buffers),
    )


def _reduce_bytes(problem: GemmProblem, vector: int) -> int:
    return REDUCE_LANES * REDUCE_THREADS * vector * DTYPE_BYTES[problem.accumulate]


def _workgroup(problem: GemmProblem, config: GemmConfig) -> tuple[tuple[int, int, int], int]:
    """Workgroup size, and bytes of workgroup memory."""
    if isinstance(config, Naive):
        return (config.workgroup_x, config.workgroup_y, 1), 0
    if isinstance(config, Tiled):
        return (config.tile, config.tile, 1), 2 * config.tile**2 * DTYPE_BYTES[problem.dtype]
    if isinstance(config, Gemv):
        partial = config.lanes_n * config.threads_k * 4 * DTYPE_BYTES[problem.accumulate]
        return (config.lanes_n, config.threads_k, 1), partial
    assert isinstance(config, Blocked)
    staged = problem.accumulate if config.staged == "accumulator" else problem.dtype
    return (config.invocations, 1, 1), config.workgroup_vec4s() * 4 * DTYPE_BYTES[staged]


def _features(problem: GemmProblem) -> tuple[str, ...]:
    return ("shader-f16",) if problem.dtype == "f16" else ()
