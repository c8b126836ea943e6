"""From (problem, config) to passes, buffers and what they need of a device."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from autotune.expression import ceil_div, evaluate
from autotune.kernels import matrices
from autotune.kernels.base import Resources
from autotune.kernels.gemm import cooperative, matrix, packing
from autotune.kernels.gemm.configs import (
    Blocked,
    CooperativeMatrix,
    GemmConfig,
    Gemv,
    MatrixUnits,
    Naive,
    Tiled,
    slices_of,
    splits_of,
    tile_depth,
    tile_of,
    vector_of,
)
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.gemm.streaming import FEW, Operand, along, few_vector
from autotune.kernels.tiles import REDUCE_LANES, REDUCE_THREADS
from autotune.model import DTYPE_BYTES, NAGA_MATRICES, Buffer, Expr, Pass, Plan, Role

_TEMPLATES = {
    "split_k": "gemm/blocked",
    "slice_k": "gemm/blocked",
    "packed": "gemm/blocked",
    "packed_subgroup_matrix": "gemm/subgroup_matrix",
    "cooperative_matrix": "experimental/gemm_cooperative_matrix",
}
"""Configs whose template has another name. What is only exported lies outside the family's own templates, as
their digest tells whether what was tuned is stale."""
_BINDINGS = {"a": 1, "b": 2, "c": 3}
"""Of the matrices as stored."""
_PACKED_BINDINGS: dict[Operand, int] = {"a": 7, "b": 8}
"""After those of the data, the sums and the epilogue."""


def resources(problem: GemmProblem, config: GemmConfig) -> tuple[Resources, ...]:
    """What each pass needs: the one that packs operands, the kernel itself, and where K is split the one that
    adds the partial sums.
    """
    m, n = problem.m, problem.n
    rows, cols = tile_of(config)
    splits = splits_of(config)
    packs = packing.packs(problem, config)
    size = _sizes_in_bytes(problem, splits, packs)
    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    operands = tuple(size[_operand(x, packs)] for x in "ab")
    before = (_pack_resources(problem, config, size),) if packs else ()
    epilogue = tuple(size[name] for name in _epilogue_buffers(problem))
    main = Resources(
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups=problem.batch * ceil_div(m, rows) * ceil_div(n, cols) * splits,
        binding_bytes=(*operands, *((size["c"], *epilogue) if splits == 1 else (size["sums"],))),
        features=_features(problem, config),
        **_subgroups(problem, config),
    )
    if splits == 1:
        return *before, main
    width = _store_vector(problem, config)
    reduce = Resources(
        workgroup_size=(REDUCE_LANES, REDUCE_THREADS, 1),
        workgroup_bytes=_reduce_bytes(problem, width),
        workgroups=ceil_div(problem.batch * m * n, REDUCE_LANES * width),
        binding_bytes=(size["c"], *epilogue, size["sums"]),
        features=_features(problem, config),
    )
    return *before, main, reduce


def _pack_resources(problem: GemmProblem, config: GemmConfig, size: Mapping[str, int]) -> Resources:
    workgroup_size, workgroup_bytes = packing.workgroup(problem)
    return Resources(
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups=evaluate(packing.workgroups(problem), _sizes(problem)),
        binding_bytes=tuple(size[name] for name in _copied_buffers(problem)),
        features=_features(problem, config),
    )


def plan(problem: GemmProblem, config: GemmConfig, *, specialize: bool) -> Plan:
    """Render the passes. `specialize` bakes the sizes in."""
    sizes, scalars = _sizes(problem), _scalars(problem)
    splits = splits_of(config)
    packs = packing.packs(problem, config)
    vectors = _vectors(problem, config)
    buffers = _buffers(problem, splits, packs, fields=0 if specialize else len(sizes) + len(scalars))
    context = _context(problem, config, buffers, specialize=specialize) | {
        "f16": _f16(problem),
        "whole_k": _whole_k(problem, config),
        "vector": vector_of(config),
        **{f"vector_{x}": vector for x, vector in vectors.items() if x != "c"},
        "splits": splits,
        "slices": slices_of(config),
        "shares_first": _shares_first(problem, config),
        "reduce": config.reduce if isinstance(config, Gemv) else "tree",
    }
    shared = ["sizes"] if "sizes" in buffers else []
    epilogue = _epilogue_buffers(problem)
    operands = [_operand(x, packs) for x in "ab"]
    passes = [_pack_pass(problem, context, (*shared, *_copied_buffers(problem)))] if packs else []
    if splits == 1:
        passes.append(_main_pass(problem, config, context, (*shared, *operands, "c", *epilogue)))
    else:
        passes += [
            _main_pass(problem, config, context, (*shared, *operands, "sums")),
            _reduce_pass(problem, vectors["c"], context, (*shared, "c", *epilogue, "sums")),
        ]
    return Plan(
        kernel="gemm",
        variant=config.variant,
        sizes=sizes,
        scalars=scalars,
        uniform=() if specialize else (*sizes, *scalars),
        buffers=tuple(buffers.values()),
        passes=tuple(passes),
        features=_features(problem, config),
        multiples=_multiples(problem, config, vectors),
        dialect=NAGA_MATRICES if isinstance(config, CooperativeMatrix) else "",
    )


def _sizes(problem: GemmProblem) -> dict[str, int]:
    """Sizes that the kernel knows by name. Those that a problem does not need are not there."""
    lds = {f"ld{x}": getattr(problem, f"ld{x}") for x in "abc" if getattr(problem, f"ld{x}")}
    batch = {"batch": problem.batch} if problem.batch > 1 else {}
    return {"m": problem.m, "n": problem.n, "k": problem.k, **batch, **lds}


def _scalars(problem: GemmProblem) -> dict[str, float]:
    alpha = {"alpha": float(problem.alpha)} if problem.alpha != 1 else {}
    return alpha | ({"beta": float(problem.beta)} if problem.beta != 0 else {})


def _rows(problem: GemmProblem) -> dict[str, str]:
    """Rows of each stored operand, as WGSL."""
    return {x: f"sizes.{problem.size_names(x)[0]}" for x in "ab"}


def _pitches(problem: GemmProblem) -> dict[str, str]:
    """Elements a row of each stored matrix takes, as WGSL."""
    return {x: f"sizes.{problem.size_names(x)[2]}" for x in "abc"}


def _start(problem: GemmProblem, x: str, rows: str, ld: str) -> str:
    """Where an operand of an entry of the batch starts, as WGSL."""
    if problem.batch == 1 or getattr(problem, f"broadcast_{x}"):
        return "0u"
    return f"entry * {rows} * {ld}"


def _context(
    problem: GemmProblem, config: GemmConfig, buffers: Mapping[str, Buffer], *, specialize: bool
) -> dict[str, object]:
    """What the templates ask about the problem, as the pass that multiplies sees it."""
    packs, seen = packing.packs(problem, config), packing.multiplied(problem, config)
    written = set(packs) - set(_only_read(problem, config))
    ld = _pitches(problem) | {x: f"pitch_{x}()" for x in packs}
    rows = _rows(seen) | dict.fromkeys(packs, "packed_depth()")
    scalars = _scalars(problem)
    return {
        "baked": specialize,
        "size_values": _sizes(problem),
        "scalar_values": scalars,
        "dtype": problem.dtype,
        "accumulate": problem.accumulate,
        "output": problem.output,
        "transpose_a": seen.transpose_a,
        "transpose_b": seen.transpose_b,
        **{f"ld{x}": text for x, text in ld.items()},
        **{f"{x}_start": _start(seen, x, rows[x], ld[x]) for x in "ab"},
        **{f"extent_{x}": ld[x] if x in packs else f"sizes.{packing.ACROSS[x]}" for x in packing.ACROSS},
        "packs": packs,
        "pack_step": packing.step(problem),
        "depth_step": packing.depth_step(problem),
        **{f"binding_{x}": buffers[_operand(x, packs)].binding for x in "ab"},
        **{f"mode_{x}": "read_write" if x in written else "read" for x in "ab"},
        "batched": problem.batch > 1,
        "bias": problem.bias,
        "activation": problem.activation,
        "residual": problem.residual,
        "plain": not scalars and not problem.bias and problem.activation == "none" and not problem.residual,
        "reducing": False,
        "quads": False,
        "store_vector": 1,
    }


def _shares_first(problem: GemmProblem, config: GemmConfig) -> bool:
    """Whether neighbours in time take shares of K of one tile, and not tiles of one share; either is right.

    Tiles that lie in a single line have no use for each other's data. On an NVIDIA H200 32×4096×4096 took
    38.7 µs so, not 39.2; but 128×4096×4096, two lines of tiles, 132 µs, not 128, and 64×64×65536, a single
    tile, 30.9 µs, not 26.8.
    """
    rows, cols = tile_of(config)
    return splits_of(config) > 1 and (problem.m <= rows) != (problem.n <= cols)


def _only_read(problem: GemmProblem, config: GemmConfig) -> tuple[Operand, ...]:
    """Packed operands that are bound as read-only. On an NVIDIA H200 matrix units gain by that (4096³ took
    443 µs, not 474); register blocks were a little slower with it (4095³ took 2.96 ms, not 2.92).
    """
    return packing.packs(problem, config) if isinstance(config, MatrixUnits) else ()


def _operand(x: str, packs: tuple[Operand, ...]) -> str:
    """The buffer from which the pass that multiplies reads an operand."""
    return f"packed_{x}" if x in packs else x


def _buffers(
    problem: GemmProblem, splits: int, packs: tuple[Operand, ...], *, fields: int
) -> dict[str, Buffer]:
    """Every buffer by name; `fields` of the uniform buffer, 0 for none."""
    found: dict[str, Buffer] = {}

    def add(name: str, role: Role, element: str, shape: tuple[Expr, ...], binding: int) -> None:
        found[name] = Buffer(name=name, role=role, element=element, shape=shape, binding=binding)

    if fields:
        add("sizes", "uniform", "u32", (fields,), 0)
    for x, binding in _BINDINGS.items():
        alone = problem.batch == 1 or (x != "c" and getattr(problem, f"broadcast_{x}"))
        rows, _, ld = problem.size_names(x)
        shape = (rows, ld) if alone else ("batch", rows, ld)
        add(
            x,
            "output" if x == "c" else "input",
            problem.output if x == "c" else problem.dtype,
            shape,
            binding,
        )
    if problem.bias:
        add("bias", "input", problem.dtype, ("n",), 5)
    if problem.residual:
        add("residual", "input", problem.output, found["c"].shape, 6)
    if splits > 1:
        batch: tuple[Expr, ...] = ("batch",) if problem.batch > 1 else ()
        add("sums", "scratch", problem.accumulate, (splits, *batch, "m", "n"), 4)
    for x in packs:
        matrices_of = packing.batch_factor(problem, x)
        packed_shape: tuple[Expr, ...] = (*matrices_of, packing.depth(problem), packing.pitch(problem, x))
        add(f"packed_{x}", "scratch", problem.dtype, packed_shape, _PACKED_BINDINGS[x])
    return found


def _copied_buffers(problem: GemmProblem) -> list[str]:
    """What the pass that packs binds: each operand that it packs, and the copy."""
    return [name for x in packing.to_pack(problem) for name in (x, f"packed_{x}")]


def _epilogue_buffers(problem: GemmProblem) -> list[str]:
    return [name for name in ("bias", "residual") if getattr(problem, name)]


@lru_cache(maxsize=64)  # an enumeration asks for the same few a hundred thousand times
def _sizes_in_bytes(problem: GemmProblem, splits: int, packs: tuple[Operand, ...]) -> Mapping[str, int]:
    sizes = _sizes(problem)
    return {
        buffer.name: evaluate({"mul": list(buffer.shape)}, sizes) * DTYPE_BYTES[buffer.element]
        for buffer in _buffers(problem, splits, packs, fields=0).values()
    }


def _vectors(problem: GemmProblem, config: GemmConfig) -> dict[str, int]:
    """Elements of A, B and C that one access moves."""
    vector = vector_of(config)
    found = {"a": vector, "b": vector, "c": _store_vector(problem, config)}
    if isinstance(config, Gemv):
        found[FEW[config.stream]] = few_vector(problem, config.stream)
    return found


def _store_vector(problem: GemmProblem, config: GemmConfig) -> int:
    """Elements of C that one store moves: as many as loads, where invocations have neighbours along N."""
    if isinstance(config, MatrixUnits):
        return matrix.store_vector(problem)
    if problem.n % 4 or problem.ldc % 4 or (isinstance(config, Gemv) and not _quads(problem, config)):
        return 1
    return vector_of(config)


def _quads(problem: GemmProblem, config: GemmConfig) -> bool:
    """Whether sums reach memory as vec4s along N."""
    if isinstance(config, Gemv):
        return config.stream == "b" and along(problem, "b") == "outer"
    if isinstance(config, MatrixUnits):
        return matrix.store_vector(problem) == 4
    return isinstance(config, Blocked)


def _whole_k(problem: GemmProblem, config: GemmConfig) -> bool:
    """Whether K is cut into whole tiles, so that no load can reach past it."""
    seen = packing.multiplied(problem, config)
    return isinstance(config, Blocked | MatrixUnits) and seen.k % tile_depth(config) == 0


def _multiples(problem: GemmProblem, config: GemmConfig, vectors: dict[str, int]) -> dict[str, int]:
    """Sizes that must stay multiples, of 4 for vec4 accesses, of the tile's depth where tiles are whole."""
    packs = packing.packs(problem, config)
    direct = (x for x, vector in vectors.items() if vector == 4 and x not in packs)
    copied = (x for x in packs if packing.vector(problem, x) == 4)
    names = {name for x in direct for name in problem.size_names(x)[1:]}
    names |= {problem.size_names(x)[2] for x in copied}  # where rows start is all that copying asks
    found = dict.fromkeys(names, 4)
    if isinstance(config, MatrixUnits):
        of_operands = matrix.multiples(problem, config)
        found |= {name: max(count, found.get(name, 1)) for name, count in of_operands.items()}
    filled = packing.depth_step(problem) if packs else 1  # what packing makes K a multiple of
    if (
        isinstance(config, Blocked | MatrixUnits)
        and _whole_k(problem, config)
        and filled % tile_depth(config)
    ):
        found["k"] = max(tile_depth(config), found.get("k", 1))
    return {name: found[name] for name in _sizes(problem) if name in found}


def _pack_pass(problem: GemmProblem, context: dict[str, object], buffers: tuple[str, ...]) -> Pass:
    from autotune.templating import wgsl

    workgroup_size, workgroup_bytes = packing.workgroup(problem)
    own = {
        "f16": problem.dtype == "f16",
        "operands": [_stored_operand(problem, x, context) for x in packing.to_pack(problem)],
        "turns": packing.turns(problem),
        "tile": packing.TILE,
        "tile_k": packing.tile_k(problem),
    }
    return Pass(
        wgsl=wgsl("gemm/pack.wgsl", context | own),
        entry_point="main",
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups=packing.workgroups(problem),
        buffers=buffers,
    )


def _stored_operand(problem: GemmProblem, x: Operand, context: Mapping[str, object]) -> dict[str, object]:
    """What the template that packs asks about an operand."""
    ld = _pitches(problem)[x]
    return {
        "x": x,
        "along": along(problem, x),
        "across": packing.ACROSS[x],
        "ld": ld,
        "start": _start(problem, x, _rows(problem)[x], ld),
        "batched": problem.stored(x)[0] > 1,
        "vector": packing.vector(problem, x),
        "from_binding": _BINDINGS[x],
        "to_binding": context[f"binding_{x}"],
    }


def _main_pass(
    problem: GemmProblem, config: GemmConfig, context: dict[str, object], buffers: tuple[str, ...]
) -> Pass:
    from autotune.templating import wgsl  # keeps Jinja out of the look-up path

    workgroup_size, workgroup_bytes = _workgroup(problem, config)
    rows, cols = tile_of(config)
    workgroups: list[Expr] = [{"ceilDiv": ["m", rows]}, {"ceilDiv": ["n", cols]}]
    if splits_of(config) > 1:
        workgroups.append(splits_of(config))
    if problem.batch > 1:
        workgroups.append("batch")
    if isinstance(config, Blocked | Gemv | MatrixUnits):
        context = context | {
            "quads": _quads(problem, config),
            "store_vector": _store_vector(problem, config),
        }
    if isinstance(config, Gemv):
        context = context | {
            "staged": "accumulator",  # what it loads goes straight into the sums
            "wide_along": along(problem, config.stream),
            "few_along": along(problem, FEW[config.stream]),
            "few_vector": few_vector(problem, config.stream),
        }
    if isinstance(config, MatrixUnits):
        seen = packing.multiplied(problem, config)
        units = matrix.units(seen, config.matrix)
        context = context | matrix.product_of(seen).context(config.parameters(), units)
    template = _TEMPLATES.get(config.variant, f"gemm/{config.variant}")
    return Pass(
        wgsl=wgsl(f"{template}.wgsl", context | config.parameters()),
        entry_point="main",
        workgroup_size=workgroup_size,
        workgroup_bytes=workgroup_bytes,
        workgroups={"mul": workgroups},
        buffers=buffers,
        only_read=tuple(f"packed_{x}" for x in _only_read(problem, config)),
        **_subgroups(problem, config),
    )


def _reduce_pass(
    problem: GemmProblem, width: int, context: dict[str, object], buffers: tuple[str, ...]
) -> Pass:
    from autotune.templating import wgsl

    own = {"lanes": REDUCE_LANES, "threads_splits": REDUCE_THREADS, "reducing": True, "store_vector": width}
    batch: list[Expr] = ["batch"] if problem.batch > 1 else []
    return Pass(
        wgsl=wgsl("gemm/reduce.wgsl", context | own),
        entry_point="main",
        workgroup_size=(REDUCE_LANES, REDUCE_THREADS, 1),
        workgroup_bytes=_reduce_bytes(problem, width),
        workgroups={"ceilDiv": [{"mul": [*batch, "m", "n"]}, REDUCE_LANES * width]},
        buffers=buffers,
    )


def _reduce_bytes(problem: GemmProblem, width: int) -> int:
    return REDUCE_LANES * REDUCE_THREADS * width * DTYPE_BYTES[problem.accumulate]


def _workgroup(problem: GemmProblem, config: GemmConfig) -> tuple[tuple[int, int, int], int]:
    """Workgroup size, and bytes of workgroup memory."""
    if isinstance(config, Naive):
        return (config.workgroup_x, config.workgroup_y, 1), 0
    if isinstance(config, Tiled):
        return (config.tile, config.tile, 1), 2 * config.tile**2 * DTYPE_BYTES[problem.dtype]
    if isinstance(config, Gemv):
        invocations = config.lanes_n * config.threads_k
        tile = config.rows * config.unroll_k * config.threads_k * 4 if config.staging == "workgroup" else 0
        return (invocations, 1, 1), (invocations * config.sums + tile) * DTYPE_BYTES[problem.accumulate]
    if isinstance(config, MatrixUnits):
        return matrix.product_of(packing.multiplied(problem, config)).workgroup(config.parameters())
    if isinstance(config, CooperativeMatrix):
        return cooperative.workgroup(problem, config)
    assert isinstance(config, Blocked)
    staged = problem.accumulate if config.staged == "accumulator" else problem.dtype
    tiles = config.tile_vec4s() * 4 * DTYPE_BYTES[staged]
    return (config.invocations, 1, 1), tiles + config.sum_vec4s() * 4 * DTYPE_BYTES[problem.accumulate]


def _f16(problem: GemmProblem) -> bool:
    return "f16" in (problem.dtype, problem.output)


def _subgroups(problem: GemmProblem, config: GemmConfig) -> dict[str, Any]:
    """What the main pass asks of subgroups, by the fields of a pass."""
    if isinstance(config, CooperativeMatrix):
        return {"subgroup_matrix": cooperative.matrix_of(problem, config)}
    if not isinstance(config, MatrixUnits):
        return {}
    return {
        "subgroup_size": config.subgroup_size,
        "subgroup_matrix": matrix.product_of(problem).matrix(config.matrix),
    }


def _features(problem: GemmProblem, config: GemmConfig) -> tuple[str, ...]:
    f16 = ("shader-f16",) if _f16(problem) else ()
    if isinstance(config, MatrixUnits):
        return (*matrices.FEATURES, *f16)
    if isinstance(config, CooperativeMatrix):
        return (*cooperative.FEATURES, *f16)
    return (*f16, "subgroups") if isinstance(config, Gemv) and config.reduce == "subgroup" else f16
