"""Texts in naga's dialect with cooperative matrices, and the same in terms of WGSL that runs here.

What the dialect's functions mean is taken from wgpu's documentation of the extension: coopLoad takes a matrix
whose columns lie one after the other, `stride` elements apart, coopLoadT one whose rows do.
"""

import re

import pytest
from kernel_checks import complaint, with_first_pass
from msgspec import structs
from wgsl_text import constants, without_comments

from autotune.kernels.gemm import GEMM, GemmProblem

KINDS = {
    "f32 8x8": ("8x8", {"dtype": "f32"}),
    "f16 8x8": ("8x8", {"dtype": "f16"}),
    "f16 16x16": ("16x16", {"dtype": "f16"}),
    "f16 sums 8x8": ("8x8", {"dtype": "f16", "accumulate": "f16"}),
    "f16 sums 16x16": ("16x16", {"dtype": "f16", "accumulate": "f16"}),
}
TRANSPOSES = [{"transpose_a": a, "transpose_b": b} for a in (False, True) for b in (False, True)]
EXTRAS = [
    {"lda": 80, "ldb": 90, "ldc": 77},
    {"batch": 3},
    {"batch": 3, "broadcast_a": True, "transpose_b": True},
    {"batch": 2, "broadcast_b": True, "transpose_a": True},
    {"alpha": -0.5, "beta": 0.25, "out_dtype": "f32"},
    {"activation": "gelu", "bias": True, "residual": True},
    {"activation": "silu", "beta": 0.5, "residual": True, "ldc": 80},
    {"activation": "relu", "bias": True, "batch": 2},
]

ENABLE = "enable wgpu_cooperative_matrix;\n"
BUILTINS = "    @builtin(subgroup_id) subgroup: u32,\n    @builtin(num_subgroups) subgroups: u32,\n"
MATRIX = re.compile(r"coop_mat(\d+)x\1<(\w+), ([ABC])>")
LOAD = re.compile(r"coopLoad(T?)<(\w+)>\(&(\w+)\[([^\]]+)\], (\w+)\)")
STORE = re.compile(r"coopStoreT\((\w+), &(\w+)\[([^\]]+)\], (\w+)\)")
OUTSIDE = 1000
"""Stands for what lies past the end of an array: larger than any element of the tests."""

_FUNCTIONS = """
// Left and Right: where the first element is, and how far it is to the next row and the next column.
struct Result {{ {fields} }}

var<private> lane: u32;

fn left(at: u32) -> Sum {{
    return select({outside}, Sum(tile_a[at]), at < {length_a});
}}

fn right(at: u32) -> Sum {{
    return select({outside}, Sum(tile_b[at]), at < {length_b});
}}

fn load(start: u32, row: u32, col: u32) -> Result {{
    let at = start + lane % EDGE * row;
    return Result({loaded});
}}

fn multiply_add(a: vec3<u32>, b: vec3<u32>, before: Result) -> Result {{
    var z = before;
    let edge = EDGE + lane / INVOCATIONS;  // so that no compiler writes out all steps of all products
    for (var t = 0u; t < edge; t += 1u) {{
        let x = left(a.x + lane % EDGE * a.y + t * a.z);
        let at = b.x + t * b.y;
        {multiplied}
    }}
    return z;
}}

fn store(z: Result, start: u32, line: u32) {{
    if (lane >= EDGE) {{ return; }}
    let at = start + lane * line;
    {stored}
}}
"""


def problem_of(kind, m, n, k, **changes):
    return GemmProblem(m=m, n=n, k=k, **KINDS[kind][1] | changes)


def plan_of(kind, problem, *, specialize=False):
    return GEMM.plan(problem, GEMM.cooperative(problem, KINDS[kind][0]), specialize=specialize)


def complaint_of(runtime, problem, plan, wgsl, *, integers=False):
    """What is wrong with the results of the plan with another text, or None."""
    features = tuple(feature for feature in plan.features if feature == "shader-f16")
    if missing := set(features) - set(runtime.profile.features):
        pytest.skip(f"the adapter lacks {missing.pop()}")
    changed = structs.replace(with_first_pass(plan, wgsl=wgsl), features=features)
    return complaint(runtime, problem, plan, changed, integers=integers)


def emulated(wgsl, lanes):
    """The text in plain WGSL, for subgroups of so many lanes, at least EDGE.

    A lane holds a row of each matrix of sums. Matrices of A and B are read where they lie when needed.
    """
    edge = constants(wgsl)["EDGE"]
    assert lanes >= edge
    length = dict(re.findall(r"var<workgroup> (\w+): array<\w+, ([^>]+)>;", wgsl))
    columns = range(edge)
    functions = _FUNCTIONS.format(
        fields=", ".join(f"z{s}: Sum" for s in columns),
        length_a=length["tile_a"],
        length_b=length["tile_b"],
        outside=f"Sum({OUTSIDE})",
        loaded=", ".join(f"sums[at + {s}u * col]" for s in columns),
        multiplied="\n".join(f"z.z{s} += x * right(at + {s}u * b.z);" for s in columns),
        stored="\n".join(f"sums[at + {s}u] = z.z{s};" for s in columns),
    )
    text = _once(wgsl, ENABLE, "")
    text = _once(text, BUILTINS, "")
    text = MATRIX.sub("vec3<u32>", text)
    text = re.sub(r"alias Result = .*\n", "", text)
    text = LOAD.sub(_reference, text)
    text = STORE.sub(r"store(\1, \3, \4)", text).replace("coopMultiplyAdd(", "multiply_add(")
    own = (
        f"    lane = invocation % {lanes}u;\n"
        f"    let subgroup = invocation / {lanes}u;\n    let subgroups = INVOCATIONS / {lanes}u;\n"
    )
    text = _once(text, "invocation: u32,\n) {\n", "invocation: u32,\n) {\n" + own)
    assert "coop" not in without_comments(text)
    return text + functions


def _reference(load):
    """A load as what it refers to; matrices of sums are loaded at once."""
    by_rows, kind, array, start, line = load.groups()
    assert array == {"Left": "tile_a", "Right": "tile_b", "Result": "sums"}[kind]
    steps = f"{start}, {line}, 1u" if by_rows else f"{start}, 1u, {line}"
    return f"load({steps})" if kind == "Result" else f"vec3<u32>({steps})"


def in_dawn_s_dialect(wgsl):
    """The text in the dialect of Dawn, which runs on the matrix units of lavapipe."""
    edge = constants(wgsl)["EDGE"]
    enable = (
        "enable subgroups;\nenable chromium_experimental_subgroup_matrix;\n"
        "diagnostic(off, chromium.subgroup_matrix_uniformity);\n"
    )
    kinds = {"A": "left", "B": "right", "C": "result"}
    text = _once(wgsl, ENABLE, enable)
    text = MATRIX.sub(lambda found: f"subgroup_matrix_{kinds[found[3]]}<{found[2]}, {edge}, {edge}>", text)
    text = LOAD.sub(
        lambda found: (
            f"subgroupMatrixLoad<{found[2]}, {'row' if found[1] else 'col'}_major>"
            f"(&{found[3]}, {found[4]}, {found[5]})"
        ),
        text,
    )
    text = STORE.sub(r"subgroupMatrixStore<row_major>(&\2, \3, \1, \4)", text)
    return text.replace("coopMultiplyAdd(", "subgroupMatrixMultiplyAccumulate(")


def _once(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)
