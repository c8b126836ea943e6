"""What a device can do at most, by kernels of our own: products in registers and on matrix units, and a copy.

A kernel's rate as a share of these says how much is left. All are measured in the run that they are set
beside, on the same clocks.
"""

from collections.abc import Callable

from msgspec import Struct, structs

from autotune import measure
from autotune.kernels.matrices import ELEMENT_BYTES
from autotune.model import Buffer, Measurement, Pass, Plan, SubgroupMatrix
from autotune.runtime.base import CandidateFailed
from autotune.runtime.process import WorkerRuntime

INVOCATIONS = 256
ROUNDS = 64
"""Rounds of the loop of multiply-adds; on a software adapter, fewer."""
CHAINS = 8
"""vec4s that an invocation works on: independent of each other, so that no result is waited for."""
STEPS = 8
"""Times that the chains are walked in a round, written out."""

_MULTIPLY_ADD = """{enable}
@group(0) @binding(0) var<storage, read_write> sink: array<f32>;
@compute @workgroup_size({invocations})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    let a = {vec4}({scalar}(id.x % 7u) * {scalar}(0.001));
    let b = {vec4}({scalar}(id.x % 5u + 1u) * {scalar}(0.001));  // not 0: tiny numbers are slow on CPUs
{start}
    for (var i = 0u; i < {rounds}u; i += 1u) {{
{steps}
    }}
    let sum = {total};
    if (f32({last}) == 123456.0) {{ sink[0] = 1.0; }}
}}
"""

_MATRICES = """{enable}enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity);
@group(0) @binding(0) var<storage, read_write> sink: array<vec4<u32>>;
alias Left = subgroup_matrix_left<{element}, {k}, {m}>;
alias Right = subgroup_matrix_right<{element}, {n}, {k}>;
alias Result = subgroup_matrix_result<{result}, {n}, {m}>;
@compute @workgroup_size({invocations})
fn main(@builtin(workgroup_id) id: vec3<u32>) {{
    let a = Left({scalar}(id.x % 3u + 1u) * {scalar}({small}));
    let b = Right({scalar}(id.x % 5u + 1u) * {scalar}({small}));
{start}
    for (var i = 0u; i < {rounds}u; i += 1u) {{
{steps}
    }}
{stores}
}}
"""

_COPY = """
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> target_: array<vec4<u32>>;
@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) i: u32,
) {
    let first = (workgroup.y * grid.x + workgroup.x) * 1024u + i;
    let x = source[first];
    let y = source[first + 256u];
    let z = source[first + 512u];
    let w = source[first + 768u];
    target_[first] = x;
    target_[first + 256u] = y;
    target_[first + 512u] = z;
    target_[first + 768u] = w;
}
"""
_COPIED = 4 * 256 * 16
"""Bytes that a workgroup copies."""


class Ceiling(Struct, frozen=True):
    """The most that kernels of ours got out of a device."""

    flops: dict[str, float]
    """Operations a second by what is multiplied, `f32`, `f16` or `i8`, or on matrix units `f16 to f32`; a
    multiply-add counts as two."""
    copy: float
    """Bytes a second that are read and written."""


def ceiling(opened: Callable[[], WorkerRuntime]) -> Ceiling:
    """Measure the adapter that a new worker opens."""
    runtime = opened()
    try:
        kinds = ["f32", "i8", *(["f16"] if "shader-f16" in runtime.profile.features else [])]
        flops = {kind: _multiply_adds(runtime, kind) for kind in kinds}
        for shape in runtime.profile.subgroup_matrix:
            types = f"{shape.element} to {shape.result}"
            flops[types] = max(flops.get(types, 0.0), _products(runtime, shape))
        return Ceiling(flops={kind: found for kind, found in flops.items() if found}, copy=_copy(runtime))
    finally:
        runtime.close()


def _multiply_adds(runtime: WorkerRuntime, kind: str) -> float:
    """The best of several amounts of work, in operations a second; 0 where none can be measured."""
    rounds = ROUNDS // 16 if runtime.profile.is_cpu else ROUNDS
    runtime.load({"sink": bytes(16)})
    best = 0.0
    for workgroups in (256,) if runtime.profile.is_cpu else (2048, 8192, 32_768):
        operations = workgroups * INVOCATIONS * rounds * STEPS * CHAINS * 4 * (8 if kind == "i8" else 2)
        buffer = Buffer(name="sink", role="output", element="f32", shape=(4,), binding=0)
        seconds = _seconds(runtime, _plan(_multiply_add_text(kind, rounds), (buffer,), workgroups))
        best = max(best, operations / seconds if seconds else 0.0)
    return best


def _multiply_add_text(kind: str, rounds: int) -> str:
    scalar = {"i8": "i32"}.get(kind, kind)
    chain = "c{0} = fma(c{0}, a, b);"
    if kind == "i8":
        dots = ", ".join(f"dot4I8Packed(u32(c{{0}}.{x}), u32(a.{x}))" for x in "xyzw")
        chain = f"c{{0}} += vec4<i32>({dots});"
    start = "\n".join(f"    var c{i} = {{vec4}}({{scalar}}({i + 1}));" for i in range(CHAINS))
    text = _MULTIPLY_ADD.replace("{start}", start)
    if kind == "i8":
        text = text.replace("{scalar}(0.001)", "3")
    return text.format(
        enable={"f16": "enable f16;", "i8": "requires packed_4x8_integer_dot_product;"}.get(kind, ""),
        invocations=INVOCATIONS,
        scalar=scalar,
        vec4=f"vec4<{scalar}>",
        rounds=rounds,
        steps="\n".join("        " + chain.format(i) for _ in range(STEPS) for i in range(CHAINS)),
        total=" + ".join(f"c{i}" for i in range(CHAINS)),
        last="sum.x + sum.y + sum.z + sum.w",
    )


def _products(runtime: WorkerRuntime, shape: SubgroupMatrix) -> float:
    """The same on matrix units that multiply this shape."""
    rounds = ROUNDS // 16 if runtime.profile.is_cpu else ROUNDS
    lanes = runtime.profile.subgroup_size
    subgroups = INVOCATIONS // lanes if lanes else 0
    if not subgroups or shape.n * ELEMENT_BYTES[shape.result] % 16:
        return 0.0
    size = CHAINS * shape.m * shape.n * ELEMENT_BYTES[shape.result] // 4
    runtime.load({"sink": bytes(size * 4)})
    buffer = Buffer(name="sink", role="output", element="u32", shape=(size,), binding=0)
    workgroups = 16 if runtime.profile.is_cpu else 2048
    text = _matrices_text(shape, rounds, subgroups * lanes)
    seconds = _seconds(runtime, _plan(text, (buffer,), workgroups, invocations=subgroups * lanes))
    products = workgroups * subgroups * rounds * STEPS * CHAINS
    return 2 * products * shape.m * shape.n * shape.k / seconds if seconds else 0.0


def _matrices_text(shape: SubgroupMatrix, rounds: int, invocations: int) -> str:
    chain = "c{0} = subgroupMatrixMultiplyAccumulate(a, b, c{0});"
    kind = {"i8": "i32", "u8": "u32"}.get(shape.element, shape.element)
    pitch = shape.n * ELEMENT_BYTES[shape.result] // 16
    stores = (
        f"    subgroupMatrixStore<row_major>(&sink, {i * shape.m * pitch}u, c{i}, {pitch}u);"
        for i in range(CHAINS)
    )
    return _MATRICES.format(
        enable="enable f16;\n" if "f16" in (shape.element, shape.result) else "",
        scalar=kind,
        small=0.001 if kind.startswith("f") else 1,
        **structs.asdict(shape),
        invocations=invocations,
        rounds=rounds,
        start="\n".join(f"    var c{i} = Result({shape.result}({i + 1}));" for i in range(CHAINS)),
        steps="\n".join("        " + chain.format(i) for _ in range(STEPS) for i in range(CHAINS)),
        stores="\n".join(stores),
    )


def _copy(runtime: WorkerRuntime) -> float:
    """Bytes a second of a copy that no cache holds."""
    limit = min(
        runtime.profile.limits["maxStorageBufferBindingSize"], runtime.profile.limits["maxBufferSize"]
    )
    size = min(limit, 1 << (24 if runtime.profile.is_cpu else 28)) // _COPIED * _COPIED
    runtime.load({"source": bytes(size), "target": bytes(size)})
    buffers = (
        Buffer(name="source", role="input", element="u32", shape=(size // 4,), binding=0),
        Buffer(name="target", role="output", element="u32", shape=(size // 4,), binding=1),
    )
    seconds = _seconds(runtime, _plan(_COPY, buffers, size // _COPIED))
    return 2 * size / seconds if seconds else 0.0


def _plan(wgsl: str, buffers: tuple[Buffer, ...], workgroups: int, *, invocations: int = INVOCATIONS) -> Plan:
    step = Pass(
        wgsl=wgsl,
        entry_point="main",
        workgroup_size=(invocations, 1, 1),
        workgroup_bytes=0,
        workgroups=workgroups,
        buffers=tuple(buffer.name for buffer in buffers),
    )
    return Plan(kernel="ceiling", variant="", sizes={}, uniform=(), buffers=buffers, passes=(step,))


def _seconds(runtime: WorkerRuntime, plan: Plan) -> float:
    """The fastest quartile of a kernel's times; 0 where it cannot run."""
    try:
        handle = runtime.compile(plan)
        runtime.time(handle, 1, 1)
        found = measure.measure(
            lambda batch, samples: runtime.time(handle, batch, samples), None, measure.FINAL
        )
        runtime.drop(handle)
    except CandidateFailed:
        return 0.0
    return found.low if isinstance(found, Measurement) else 0.0
