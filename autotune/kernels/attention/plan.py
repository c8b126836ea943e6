"""From (problem, config) to passes, buffers and what they need of a device."""

from functools import lru_cache
from typing import Any

from msgspec import Struct

from autotune.expression import ceil_div, evaluate
from autotune.kernels.attention.configs import (
    AttentionConfig,
    Decode,
    Flash,
    FlashDecode,
    FlashDecodeSubgroup,
    FlashSubgroupMatrix,
    Naive,
)
from autotune.kernels.attention.decode import decode_bytes, subgroup_bytes, whole
from autotune.kernels.attention.matrix import matrix_bytes, matrix_context, units_of
from autotune.kernels.attention.problem import MASK_BYTES_A_WORD, AttentionProblem
from autotune.kernels.attention.strides import mask_strides, strides
from autotune.kernels.base import Resources
from autotune.kernels.matrices import FEATURES
from autotune.model import DTYPE_BYTES, Buffer, Expr, Pass, Plan, Role, SubgroupMatrix

DECODE_SCRATCH = ("sums", "peaks")
"""Buffers that the first pass of decoding leaves to the second."""
FIXED = ("head_dim", "v_head_dim")
"""Sizes that a text has as constants even where the others come at run time."""


class _Step(Struct, frozen=True):
    """A pass before it is rendered."""

    template: str
    workgroup_size: tuple[int, int, int]
    workgroup_bytes: int
    workgroups: Expr
    buffers: tuple[str, ...]
    context: dict[str, Any]
    subgroup_size: int = 0
    subgroup_matrix: SubgroupMatrix | None = None


def resources(problem: AttentionProblem, config: AttentionConfig) -> tuple[Resources, ...]:
    """What each pass needs, without rendering it."""
    if isinstance(config, Flash | FlashSubgroupMatrix):
        return (_flash_resources(problem, config),)
    sizes = all_sizes(problem)
    size = _bytes(_buffers(problem, config), sizes)
    return tuple(
        Resources(
            workgroup_size=step.workgroup_size,
            workgroup_bytes=step.workgroup_bytes,
            workgroups=evaluate(step.workgroups, sizes),
            binding_bytes=tuple(size[name] for name in step.buffers),
            features=_features(problem, config),
            subgroup_size=step.subgroup_size,
        )
        for step in _steps(problem, config)
    )


def _flash_resources(problem: AttentionProblem, c: Flash | FlashSubgroupMatrix) -> Resources:
    """The same, fast: a search space has tens of thousands of such configs."""
    units, lanes = None, 0
    if isinstance(c, FlashSubgroupMatrix):
        columns, size = c.parts_v, matrix_bytes(problem, c)
        units, lanes = units_of(c), c.subgroup_size
    else:
        columns, size = ceil_div(problem.v_head_dim, c.tile_v), flash_bytes(problem, c)
    return Resources(
        workgroup_size=(c.invocations, 1, 1),
        workgroup_bytes=size,
        workgroups=problem.batch * problem.heads * ceil_div(problem.seq, c.tile_q) * columns,
        binding_bytes=_data_bytes(problem),
        features=_features(problem, c),
        subgroup_size=lanes,
        subgroup_matrix=units,
    )


@lru_cache(maxsize=64)
def _data_bytes(problem: AttentionProblem) -> tuple[int, ...]:
    """Bytes of every data buffer; a kernel of one pass binds them all."""
    return tuple(_bytes(_buffers(problem, None), all_sizes(problem)).values())


def _bytes(buffers: list[Buffer], sizes: dict[str, int]) -> dict[str, int]:
    return {
        buffer.name: evaluate({"mul": list(buffer.shape)}, sizes) * DTYPE_BYTES[buffer.element]
        for buffer in buffers
    }


def plan(problem: AttentionProblem, config: AttentionConfig, *, specialize: bool) -> Plan:
    """Render the passes. `specialize` bakes the sizes in."""
    from autotune.templating import wgsl  # keeps Jinja out of the look-up path

    fields, scalars = _fields(problem), _scalars(problem)
    count = len(fields) + len(scalars)
    uniform = Buffer(name="sizes", role="uniform", element="u32", shape=(count,), binding=0)
    shared = () if specialize else ("sizes",)
    context = _context(problem, config) | {
        "baked": specialize,
        "size_values": fields,
        "scalar_values": scalars,
    }
    return Plan(
        kernel="attention",
        variant=config.variant,
        sizes=all_sizes(problem),
        scalars=scalars,
        uniform=() if specialize else (*fields, *scalars),
        buffers=(*(() if specialize else (uniform,)), *_buffers(problem, config)),
        passes=tuple(
            Pass(
                wgsl=wgsl(f"attention/{step.template}.wgsl", context | step.context),
                entry_point="main",
                workgroup_size=step.workgroup_size,
                workgroup_bytes=step.workgroup_bytes,
                workgroups=step.workgroups,
                buffers=(*shared, *step.buffers),
                subgroup_size=step.subgroup_size,
                subgroup_matrix=step.subgroup_matrix,
            )
            for step in _steps(problem, config)
        ),
        features=_features(problem, config),
        multiples=_multiples(problem, config),
        fixed=FIXED,
    )


def all_sizes(problem: AttentionProblem) -> dict[str, int]:
    """Every size by name: those that kernels read, and those that only shapes have."""
    packed = {"row_elements": problem.row_elements} if problem.packed else {}
    own = {name: getattr(problem, name) for name in (*FIXED, "capacity")}
    return _fields(problem) | own | packed


def vector_of(config: AttentionConfig) -> int:
    """Elements that a memory access moves."""
    return 1 if isinstance(config, Naive) else config.vector


def flash_bytes(problem: AttentionProblem, c: Flash) -> int:
    """Workgroup memory of the flash kernel."""
    staged = 4 if c.staged == "f32" else DTYPE_BYTES[problem.dtype]
    pad = 1 if c.along_d > 1 else 0
    product = 2 if c.chain else 4
    return (
        c.q_depth(problem.head_dim) * (c.tile_q // 4 + pad) * 4 * product
        + (c.tile_d * (c.tile_kv // 4 + pad) * 4 * staged if c.k_from == "workgroup" else 0)
        + (c.v_rows * c.tile_v * staged if c.v_from == "workgroup" else 0)
        + c.p_rows * (c.tile_q // 4 + c.pad_p) * 4 * product
        + (0 if c.p_sliced and not c.chain else c.threads_kv * (c.tile_q // 4 + 1) * 16)
    )


def _fields(p: AttentionProblem) -> dict[str, int]:
    """The u32 fields of the uniform buffer."""
    names = ("batch", "heads", "kv_heads", "group", "seq", "kv_seq")
    window = {"window": p.window} if p.window else {}
    return {name: getattr(p, name) for name in names} | window | strides(p) | mask_strides(p)


def _scalars(p: AttentionProblem) -> dict[str, float]:
    return {"scale": p.factor} | ({"softcap": float(p.softcap)} if p.softcap else {})


def _context(p: AttentionProblem, config: AttentionConfig) -> dict[str, Any]:
    """What the templates ask about the problem and the config."""
    return {
        "dtype": p.dtype,
        "f16": p.dtype == "f16",
        "packed": p.packed,
        "interleaved": p.layout == "qkv-interleaved",
        "head_dim": p.head_dim,
        "v_head_dim": p.v_head_dim,
        "causal": p.causal,
        "window": bool(p.window),
        "softcap": bool(p.softcap),
        "mask": p.mask,
        "alibi": p.alibi,
        "lengths": p.lengths,
        "sinks": p.sinks,
        "lse": p.lse,
        "vector": vector_of(config),
        "wide": False,
        "tiles": False,
    } | config.parameters()


def _buffers(p: AttentionProblem, config: AttentionConfig | None) -> list[Buffer]:
    """Every data buffer, and the scratch of the config."""
    found: list[Buffer] = []

    def add(name: str, role: Role, element: str, shape: tuple[Expr, ...], binding: int) -> None:
        found.append(Buffer(name=name, role=role, element=element, shape=shape, binding=binding))

    def rows(heads: str, length: str, row: str) -> tuple[Expr, ...]:
        return ("batch", heads, length, row) if p.layout == "bhsd" else ("batch", length, heads, row)

    if p.packed:
        add("qkv", "input", p.dtype, ("batch", "seq", "row_elements"), 1)
    else:
        add("q", "input", p.dtype, rows("heads", "seq", "head_dim"), 1)
        add("k", "input", p.dtype, rows("kv_heads", "capacity", "head_dim"), 2)
        add("v", "input", p.dtype, rows("kv_heads", "capacity", "v_head_dim"), 3)
    add("o", "output", p.dtype, rows("heads", "seq", "v_head_dim"), 4)
    if p.mask != "none":
        names = ("batch", "heads", "seq", "kv_seq")
        one = p.mask_broadcast if p.mask_broadcast != "none" else ""
        shape: tuple[Expr, ...] = tuple(
            1 if letter in one else name for letter, name in zip("bhq-", names, strict=True)
        )
        words: tuple[Expr, ...] = ({"ceilDiv": [{"mul": list(shape)}, MASK_BYTES_A_WORD]},)
        add("mask", "input", "u32" if p.mask == "bool" else p.dtype, words if p.mask == "bool" else shape, 5)
    if p.lengths:
        add("lengths", "input", "u32", ("batch",), 6)
    if p.alibi or p.sinks:
        add("head_terms", "input", "f32", (p.alibi + p.sinks, "heads"), 7)
    if p.lse:
        add("lse", "output", "f32", ("batch", "heads", "seq"), 8)
    match config:
        case Naive():
            add("scores", "scratch", "f32", ("batch", "heads", "seq", "kv_seq"), 9)
        case FlashDecode() | FlashDecodeSubgroup():
            splits: tuple[Expr, ...] = ({"ceilDiv": ["kv_seq", config.split]}, "batch", "heads", "seq")
            add("sums", "scratch", "f32", (*splits, {"ceilDiv": ["v_head_dim", 4]}, 4), 9)
            add("peaks", "scratch", "f32", (*splits, 2), 10)
    return found


def _steps(p: AttentionProblem, config: AttentionConfig) -> list[_Step]:
    match config:
        case Naive():
            return _naive_steps(p, config)
        case Flash():
            return [_flash_step(p, config)]
        case FlashDecode():
            return [_decode_step(p, config), _merge_step(p, config)]
        case FlashDecodeSubgroup():
            return [_subgroup_step(p, config), _merge_step(p, config)]
        case FlashSubgroupMatrix():
            return [_matrix_step(p, config)]


def _uses(p: AttentionProblem, *parts: str) -> list[str]:
    """The buffers that a pass binds where it does these parts of the work, in the order of bindings."""
    wanted = {
        "scores": ["q", "k", "mask", "lengths", *(["head_terms"] if p.alibi else [])],
        "values": ["v", "lengths"],
        "sums": ["lse", *(["head_terms", "sinks"] if p.sinks else [])],
        "out": ["o"],
    }
    names = {name for part in parts for name in wanted[part]}
    there = {"q", "k", "v", "o", "sinks", *p.elements()}
    return [
        name for name in (*"qkvo", "mask", "lengths", "head_terms", "lse", "sinks") if name in names & there
    ]


def _step(
    p: AttentionProblem, template: str, uses: list[str], scratch: tuple[str, ...], **fields: Any
) -> _Step:
    if p.packed:
        bound = ["qkv"] if {"q", "v"} & set(uses) else []
        bound += [name for name in uses if name not in "qkv"]
    else:
        bound = list(uses)
    names = (*(name for name in bound if name != "sinks"), *scratch)
    context = {"uses": uses, **fields.pop("context", {})}
    return _Step(template=template, buffers=names, context=context, **fields)


def _naive_steps(p: AttentionProblem, c: Naive) -> list[_Step]:
    own = {"workgroup_size": (c.workgroup, 1, 1), "workgroup_bytes": 0}
    guards = {"guard_d": p.head_dim % 4 != 0, "guard_v": p.v_head_dim % 4 != 0}
    lines: list[Expr] = ["batch", "heads", "seq"]
    scores: Expr = {"mul": [*lines, {"ceilDiv": ["kv_seq", c.workgroup]}]}
    values: Expr = {"mul": [*lines, {"ceilDiv": ["v_head_dim", 4]}]}
    scratch = ("scores",)
    return [
        _step(p, "naive_scores", _uses(p, "scores"), scratch, workgroups=scores, context=guards, **own),
        _step(
            p,
            "naive_softmax",
            _uses(p, "sums"),
            scratch,
            workgroups={"ceilDiv": [{"mul": lines}, c.workgroup]},
            context=guards,
            **own,
        ),
        _step(
            p,
            "naive_values",
            _uses(p, "values", "out"),
            scratch,
            workgroups={"ceilDiv": [values, c.workgroup]},
            context=guards,
            **own,
        ),
    ]


def _flash_step(p: AttentionProblem, c: Flash) -> _Step:
    depth = ceil_div(p.head_dim, c.tile_d) * c.tile_d
    return _step(
        p,
        "flash",
        _uses(p, "scores", "values", "sums", "out"),
        (),
        workgroup_size=(c.invocations, 1, 1),
        workgroup_bytes=flash_bytes(p, c),
        workgroups={
            "mul": ["batch", "heads", {"ceilDiv": ["seq", c.tile_q]}, {"ceilDiv": ["v_head_dim", c.tile_v]}]
        },
        context={
            "guard_d": depth > p.head_dim,
            "guard_v": p.v_head_dim % c.tile_v != 0,
            "wide": True,
            "tiles": True,
        },
    )


def _matrix_step(p: AttentionProblem, c: FlashSubgroupMatrix) -> _Step:
    return _step(
        p,
        "flash_subgroup_matrix",
        _uses(p, "scores", "values", "sums", "out"),
        (),
        workgroup_size=(c.invocations, 1, 1),
        workgroup_bytes=matrix_bytes(p, c),
        workgroups={"mul": ["batch", "heads", c.parts_v, {"ceilDiv": ["seq", c.tile_q]}]},
        context=matrix_context(p, c),
        subgroup_size=c.subgroup_size,
        subgroup_matrix=units_of(c),
    )


def _decode_step(p: AttentionProblem, c: FlashDecode) -> _Step:
    return _split_step(
        p,
        c,
        workgroup_bytes=decode_bytes(p, c),
        context={"guard_d": p.head_dim % (4 * c.lanes_d) != 0, "guard_v": p.v_head_dim % 4 != 0},
    )


def _subgroup_step(p: AttentionProblem, c: FlashDecodeSubgroup) -> _Step:
    return _split_step(
        p,
        c,
        workgroup_bytes=subgroup_bytes(p, c),
        context={
            "guard_d": p.head_dim % (4 * c.lanes_d) != 0,
            "guard_v": p.v_head_dim % (4 * c.lanes_d) != 0,
        },
        subgroup_size=c.subgroup_size,
    )


def _split_step(p: AttentionProblem, c: Decode, **fields: Any) -> _Step:
    """The first pass of decoding: a workgroup for each split of the keys and block of rows."""
    return _step(
        p,
        c.variant,
        _uses(p, "scores", "values"),
        DECODE_SCRATCH,
        workgroup_size=(c.invocations, 1, 1),
        workgroups={
            "mul": [
                "batch",
                "kv_heads",
                {"ceilDiv": [{"mul": ["seq", "group"]}, c.rows]},
                {"ceilDiv": ["kv_seq", c.split]},
            ]
        },
        **fields,
    )


def _merge_step(p: AttentionProblem, c: Decode) -> _Step:
    quads = ceil_div(p.v_head_dim, 4)
    return _step(
        p,
        "flash_merge",
        _uses(p, "sums", "out"),
        DECODE_SCRATCH,
        workgroup_size=(quads, c.merge_threads, 1),
        workgroup_bytes=quads * c.merge_threads * 16 + whole(c.merge_threads * 8),
        workgroups={"mul": ["batch", "heads", "seq"]},
        context={"guard_d": False, "guard_v": False, "split": c.split},
    )


def _features(problem: AttentionProblem, config: AttentionConfig) -> tuple[str, ...]:
    f16 = ("shader-f16",) if problem.dtype == "f16" else ()
    if isinstance(config, FlashSubgroupMatrix):
        return (*f16, *FEATURES)
    return (*f16, "subgroups") if isinstance(config, FlashDecodeSubgroup) else f16


def _multiples(problem: AttentionProblem, config: AttentionConfig) -> dict[str, int]:
    """Sizes that must stay multiples: strides of what an access moves, and whole tiles of keys where no load
    may ask."""
    found = dict.fromkeys(strides(problem), 4) if vector_of(config) == 4 else {}
    if isinstance(config, FlashSubgroupMatrix) and config.whole_keys > 1:
        found["kv_seq"] = config.whole_keys
    return found
