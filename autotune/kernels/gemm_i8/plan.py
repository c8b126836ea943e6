"""From (problem, config) to the pass, its buffers and what it needs of a device."""

from typing import Any

from autotune.expression import ceil_div
from autotune.kernels import matrices
from autotune.kernels.base import Resources
from autotune.kernels.gemm_i8 import matrix
from autotune.kernels.gemm_i8.configs import QUAD, GemmI8Config, MatrixUnits, Naive, tile_of, vector_of
from autotune.kernels.gemm_i8.problem import PER_WORD, GemmI8Problem
from autotune.model import Buffer, Expr, Pass, Plan

_WORDS: Expr = {"ceilDiv": ["k", PER_WORD]}
_DATA = (
    Buffer(name="a", role="input", element="u32", shape=("m", _WORDS), binding=1),
    Buffer(name="b", role="input", element="u32", shape=("n", _WORDS), binding=2),
    Buffer(name="scale_a", role="input", element="f32", shape=("m",), binding=3),
    Buffer(name="scale_b", role="input", element="f32", shape=("n",), binding=4),
    Buffer(name="c", role="output", element="f32", shape=("m", "n"), binding=5),
)


def resources(problem: GemmI8Problem, config: GemmI8Config) -> tuple[Resources, ...]:
    """What the pass needs, without rendering it."""
    m, n, k = problem.m, problem.n, problem.k
    rows, cols = tile_of(config)
    workgroup_size, workgroup_bytes = _workgroup(config)
    needs = Resources(
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups=ceil_div(m, rows) * ceil_div(n, cols),
        binding_bytes=(m * k, n * k, 4 * m, 4 * n, 4 * m * n),
        features=_features(config),
        **_subgroups(config),
    )
    return (needs,)


def plan(problem: GemmI8Problem, config: GemmI8Config, *, specialize: bool) -> Plan:
    """Render the pass. `specialize` bakes the sizes in."""
    from autotune.templating import wgsl  # keeps Jinja out of the look-up path

    sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
    uniform = Buffer(name="sizes", role="uniform", element="u32", shape=(len(sizes),), binding=0)
    buffers = _DATA if specialize else (uniform, *_DATA)
    rows, cols = tile_of(config)
    workgroup_size, workgroup_bytes = _workgroup(config)
    context: dict[str, object] = {
        "baked": specialize,
        "size_values": sizes,
        "scalar_values": {},
        "vector": vector_of(config),
    }
    multiples = {"k": QUAD if vector_of(config) == 4 else PER_WORD}
    if isinstance(config, MatrixUnits):
        context |= matrix.context(problem, config)
        multiples = matrix.multiples(problem, config)
    step = Pass(
        wgsl=wgsl(f"gemm_i8/{config.variant}.wgsl", context | config.parameters()),
        entry_point="main",
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups={"mul": [{"ceilDiv": ["m", rows]}, {"ceilDiv": ["n", cols]}]},
        buffers=tuple(buffer.name for buffer in buffers),
        **_subgroups(config),
    )
    return Plan(
        kernel="gemm_i8",
        variant=config.variant,
        sizes=sizes,
        uniform=() if specialize else tuple(sizes),
        buffers=buffers,
        passes=(step,),
        features=_features(config),
        multiples=multiples,
    )


def _features(config: GemmI8Config) -> tuple[str, ...]:
    return matrices.FEATURES if isinstance(config, MatrixUnits) else ()


def _subgroups(config: GemmI8Config) -> dict[str, Any]:
    """What the pass asks of subgroups, by the fields of a pass."""
    if not isinstance(config, MatrixUnits):
        return {}
    shape = matrix.PRODUCT.matrix(config.matrix)
    return {"subgroup_size": config.subgroup_size, "subgroup_matrix": shape}


def _workgroup(config: GemmI8Config) -> tuple[tuple[int, int, int], int]:
    """Workgroup size, and bytes of workgroup memory."""
    if isinstance(config, Naive):
        return (config.workgroup_x, config.workgroup_y, 1), 0
    if isinstance(config, MatrixUnits):
        return matrix.PRODUCT.workgroup(config.parameters())
    return (config.invocations, 1, 1), config.workgroup_bytes
