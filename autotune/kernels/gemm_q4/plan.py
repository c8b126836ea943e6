"""From (problem, config) to a pass, its buffers and what it needs of a device."""

from autotune.expression import ceil_div
from autotune.kernels.base import Resources
from autotune.kernels.gemm_q4.configs import Blocked, GemmQ4Config, Gemv, Naive, multiple_of, tile_of
from autotune.kernels.gemm_q4.problem import CODES, GemmQ4Problem, buffer_bytes
from autotune.model import DTYPE_BYTES, Buffer, Expr, Pass, Plan

_SUM_BYTES = 4


def resources(problem: GemmQ4Problem, config: GemmQ4Config) -> tuple[Resources, ...]:
    """What the pass needs, without rendering it."""
    rows, cols = tile_of(config)
    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    return (
        Resources(
            workgroup_size=workgroup_size,
            workgroup_bytes=workgroup_bytes,
            workgroups=ceil_div(problem.m, rows) * ceil_div(problem.n, cols),
            binding_bytes=tuple(buffer_bytes(problem).values()),
            features=_features(problem, config),
        ),
    )


def plan(problem: GemmQ4Problem, config: GemmQ4Config, *, specialize: bool) -> Plan:
    """Render the pass. `specialize` bakes the sizes in."""
    from autotune.templating import wgsl  # keeps Jinja out of the look-up path

    sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
    dtype, group = problem.dtype, problem.group
    words: Expr = {"ceilDiv": ["k", CODES]}
    groups: Expr = {"ceilDiv": ["k", group]}
    uniform = (Buffer(name="sizes", role="uniform", element="u32", shape=(len(sizes),), binding=0),)
    buffers = (
        *(() if specialize else uniform),
        Buffer(name="a", role="input", element=dtype, shape=("m", "k"), binding=1),
        Buffer(name="weights", role="input", element="u32", shape=("n", words), binding=2),
        Buffer(name="scales", role="input", element=dtype, shape=("n", groups), binding=3),
        Buffer(name="c", role="output", element=dtype, shape=("m", "n"), binding=4),
    )
    context: dict[str, object] = {
        "baked": specialize,
        "size_values": sizes,
        "scalar_values": {},
        "dtype": dtype,
        "f16": dtype == "f16",
        "group": group,
        "words": 1,
    }
    rows, cols = tile_of(config)
    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    return Plan(
        kernel="gemm_q4",
        variant=config.variant,
        sizes=sizes,
        uniform=() if specialize else tuple(sizes),
        buffers=buffers,
        passes=(
            Pass(
                wgsl=wgsl(f"gemm_q4/{config.variant}.wgsl", context | config.parameters()),
                entry_point="main",
                workgroup_size=workgroup_size,
                workgroup_bytes=workgroup_bytes,
                workgroups={"mul": [{"ceilDiv": ["m", rows]}, {"ceilDiv": ["n", cols]}]},
                buffers=tuple(buffer.name for buffer in buffers),
            ),
        ),
        features=_features(problem, config),
        multiples={"k": max(group, multiple_of(config))},  # the larger one, since both are powers of two
    )


def _workgroup(problem: GemmQ4Problem, config: GemmQ4Config) -> tuple[tuple[int, int, int], int]:
    """Workgroup size, and bytes of workgroup memory."""
    match config:
        case Naive():
            return (config.workgroup_x, config.workgroup_y, 1), 0
        case Gemv():
            invocations = config.lanes_n * config.lanes_k
            staged = config.staged_elements * DTYPE_BYTES[problem.dtype]
            return (invocations, 1, 1), invocations * config.sums * _SUM_BYTES + staged
        case Blocked():
            tiles = (config.tile_m + config.tile_n) * config.tile_k * (2 if config.buffering == "double" else 1)
            return (config.invocations, 1, 1), tiles * _SUM_BYTES


def _features(problem: GemmQ4Problem, config: GemmQ4Config) -> tuple[str, ...]:
    f16 = ("shader-f16",) if problem.dtype == "f16" else ()
    return (*f16, "subgroups") if isinstance(config, Gemv) and config.reduce == "subgroup" else f16
