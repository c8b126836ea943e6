"""From (problem, config) to passes, their buffers and what they need of a device."""

from typing import Any

from autotune.expression import ceil_div
from autotune.kernels import matrices
from autotune.kernels.base import Resources
from autotune.kernels.gemm_q4 import matrix
from autotune.kernels.gemm_q4.configs import (
    Blocked,
    GemmQ4Config,
    Gemv,
    MatrixUnits,
    Naive,
    multiple_of,
    splits_of,
    tile_of,
)
from autotune.kernels.gemm_q4.problem import CODES, GemmQ4Problem, buffer_bytes
from autotune.kernels.tiles import REDUCE_LANES, REDUCE_THREADS
from autotune.model import Buffer, Expr, Pass, Plan

_SUM_BYTES = 4
_TEMPLATES = {"split_k": "blocked"}
"""Variants that render another variant's template."""


def resources(problem: GemmQ4Problem, config: GemmQ4Config) -> tuple[Resources, ...]:
    """What each pass needs, without rendering it."""
    rows, cols = tile_of(config)
    splits = splits_of(config)
    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    size = buffer_bytes(problem)
    sums = splits * problem.m * problem.n * _SUM_BYTES
    main = Resources(
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups=ceil_div(problem.m, rows) * ceil_div(problem.n, cols) * splits,
        binding_bytes=(size["a"], size["weights"], size["c"] if splits == 1 else sums, size["scales"]),
        features=_features(problem, config),
        **_subgroups(config),
    )
    if splits == 1:
        return (main,)
    width = _store_vector(problem, config)
    reduce = Resources(
        workgroup_size=(REDUCE_LANES, REDUCE_THREADS, 1),
        workgroup_bytes=REDUCE_LANES * REDUCE_THREADS * width * _SUM_BYTES,
        workgroups=ceil_div(problem.m * problem.n, REDUCE_LANES * width),
        binding_bytes=(size["c"], sums),
        features=_features(problem, config),
    )
    return main, reduce


def plan(problem: GemmQ4Problem, config: GemmQ4Config, *, specialize: bool) -> Plan:
    """Render the passes. `specialize` bakes the sizes in."""
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
    splits = splits_of(config)
    uniform = () if specialize else tuple(sizes)
    buffers = _buffers(problem, splits, fields=len(uniform))
    context = _context(problem, config, specialize=specialize)
    shared = ("sizes",) if uniform else ()
    if splits == 1:
        passes = [_main_pass(problem, config, context, (*shared, "a", "weights", "c", "scales"))]
    else:
        passes = [
            _main_pass(problem, config, context, (*shared, "a", "weights", "sums", "scales")),
            _reduce_pass(context, _store_vector(problem, config), (*shared, "c", "sums")),
        ]
    step = max(problem.group, multiple_of(config))  # the larger one, since both are powers of two
    multiples = {"k": step} | ({"n": 4} if _store_vector(problem, config) == 4 else {})
    if isinstance(config, MatrixUnits):
        multiples = matrix.multiples(problem, config)
    return Plan(
        kernel="gemm_q4",
        variant=config.variant,
        sizes=sizes,
        uniform=uniform,
        buffers=buffers,
        passes=tuple(passes),
        features=_features(problem, config),
        multiples=multiples,
    )


def _buffers(problem: GemmQ4Problem, splits: int, *, fields: int) -> tuple[Buffer, ...]:
    """All buffers; `fields` of the uniform one, 0 for none."""
    dtype = problem.dtype
    words: Expr = {"ceilDiv": ["k", CODES]}
    groups: Expr = {"ceilDiv": ["k", problem.group]}
    uniform = (Buffer(name="sizes", role="uniform", element="u32", shape=(fields,), binding=0),)
    scratch = (Buffer(name="sums", role="scratch", element="f32", shape=(splits, "m", "n"), binding=4),)
    return (
        *(uniform if fields else ()),
        Buffer(name="a", role="input", element=dtype, shape=("m", "k"), binding=1),
        Buffer(name="weights", role="input", element="u32", shape=("n", words), binding=2),
        Buffer(name="c", role="output", element=dtype, shape=("m", "n"), binding=3),
        *(scratch if splits > 1 else ()),
        Buffer(name="scales", role="input", element=dtype, shape=("n", groups), binding=5),
    )


def _context(problem: GemmQ4Problem, config: GemmQ4Config, *, specialize: bool) -> dict[str, object]:
    """What the templates ask about the problem; C is stored as `gemm` stores it, without an epilogue."""
    width = _store_vector(problem, config)
    return {
        "baked": specialize,
        "size_values": {"m": problem.m, "n": problem.n, "k": problem.k},
        "scalar_values": {},
        "dtype": problem.dtype,
        "accumulate": "f32",
        "output": problem.dtype,
        "f16": problem.dtype == "f16",
        "group": problem.group,
        "words": 1,
        "splits": splits_of(config),
        "shares_first": False,
        "reducing": False,
        "reduce": "tree",
        "batched": False,
        "plain": True,
        "bias": False,
        "residual": False,
        "activation": "none",
        "ldc": "sizes.n",
        "quads": isinstance(config, Blocked) or (isinstance(config, MatrixUnits) and width == 4),
        "store_vector": width,
    }


def _main_pass(
    problem: GemmQ4Problem, config: GemmQ4Config, context: dict[str, object], buffers: tuple[str, ...]
) -> Pass:
    from autotune.templating import wgsl  # keeps Jinja out of the look-up path

    rows, cols = tile_of(config)
    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    workgroups: list[Expr] = [{"ceilDiv": ["m", rows]}, {"ceilDiv": ["n", cols]}]
    if splits_of(config) > 1:
        workgroups.append(splits_of(config))
    if isinstance(config, MatrixUnits):
        context = context | matrix.context(problem, config)
    template = _TEMPLATES.get(config.variant, config.variant)
    return Pass(
        wgsl=wgsl(f"gemm_q4/{template}.wgsl", context | config.parameters()),
        entry_point="main",
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups={"mul": workgroups},
        buffers=buffers,
        **_subgroups(config),
    )


def _reduce_pass(context: dict[str, object], width: int, buffers: tuple[str, ...]) -> Pass:
    """The pass of `gemm` that adds partial sums."""
    from autotune.templating import wgsl

    own = {"lanes": REDUCE_LANES, "threads_splits": REDUCE_THREADS, "reducing": True, "quads": False}
    return Pass(
        wgsl=wgsl("gemm/reduce.wgsl", context | own),
        entry_point="main",
        workgroup_size=(REDUCE_LANES, REDUCE_THREADS, 1),
        workgroup_bytes=REDUCE_LANES * REDUCE_THREADS * width * _SUM_BYTES,
        workgroups={"ceilDiv": [{"mul": ["m", "n"]}, REDUCE_LANES * width]},
        buffers=buffers,
    )


def _store_vector(problem: GemmQ4Problem, config: GemmQ4Config) -> int:
    """Elements of C that one store moves."""
    return 4 if isinstance(config, Blocked | MatrixUnits) and problem.n % 4 == 0 else 1


def _workgroup(problem: GemmQ4Problem, config: GemmQ4Config) -> tuple[tuple[int, int, int], int]:
    """Workgroup size, and bytes of workgroup memory."""
    match config:
        case Naive():
            return (config.workgroup_x, config.workgroup_y, 1), 0
        case Gemv():
            return (config.lanes_n * config.lanes_k, 1, 1), config.workgroup_bytes(problem.group)
        case Blocked():
            tiles = (
                (config.tile_m + config.tile_n) * config.tile_k * (2 if config.buffering == "double" else 1)
            )
            return (config.invocations, 1, 1), tiles * _SUM_BYTES
        case MatrixUnits():
            return matrix.PRODUCT.workgroup(config.parameters())


def _subgroups(config: GemmQ4Config) -> dict[str, Any]:
    """What the main pass asks of subgroups, by the fields of a pass."""
    if not isinstance(config, MatrixUnits):
        return {}
    shape = matrix.PRODUCT.matrix(config.matrix)
    return {"subgroup_size": config.subgroup_size, "subgroup_matrix": shape}


def _features(problem: GemmQ4Problem, config: GemmQ4Config) -> tuple[str, ...]:
    f16 = ("shader-f16",) if problem.dtype == "f16" else ()
    if isinstance(config, MatrixUnits):
        return (*matrices.FEATURES, *f16)
    return (*f16, "subgroups") if isinstance(config, Gemv) and config.reduce == "subgroup" else f16
