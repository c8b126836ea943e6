"""The proof of matrix units when a device is opened: what it asks, and that it finds wrong ones out."""

import re

import numpy as np
import pytest

from autotune.model import Buffer, Pass, Plan, SubgroupMatrix
from autotune.runtime import matrix_check

KINDS = {
    "f16": np.float16,
    "f32": np.float32,
    "i8": np.int8,
    "u8": np.uint8,
    "i32": np.int32,
    "u32": np.uint32,
}


def shape(element, result, m, n, k):
    return SubgroupMatrix(element=element, result=result, m=m, n=n, k=k)


SHAPES = [
    shape("f16", "f32", 16, 16, 16),
    shape("f16", "f16", 16, 8, 16),
    shape("f16", "f32", 16, 8, 8),
    shape("i8", "i32", 16, 16, 32),
    shape("u8", "u32", 16, 8, 32),
    shape("f32", "f32", 8, 8, 8),
    shape("i8", "i32", 8, 8, 8),
]
each_shape = pytest.mark.parametrize("one", SHAPES, ids=str)


def adapter(*, result=lambda product: product, left=lambda at, pitch: (at, pitch), columns=True):
    """Matrix units in NumPy, which read the text's loads; with something wrong about them where asked."""

    def run(text, contents, size):
        element, k, m = re.search(r"subgroup_matrix_left<(\w+), (\d+), (\d+)>", text).groups()
        kind, n, _ = re.search(r"subgroup_matrix_result<(\w+), (\d+), (\d+)>", text).groups()
        m, n, k = int(m), int(n), int(k)
        (word,) = re.search(r"array<vec(\d)<u32>>", text).groups()
        per = 4 * int(word) // np.dtype(KINDS[element]).itemsize
        data = np.frombuffer(contents, KINDS[element])

        def load(side, order, at, pitch):
            rows, cols = (m, k) if side == "Left" else (k, n)
            at, pitch = left(int(at), int(pitch)) if side == "Left" else (int(at), int(pitch))
            if order == "col_major" and columns:
                rows, cols = cols, rows
            picked = np.add.outer(np.arange(rows) * pitch * per, np.arange(cols)) + at * per
            matrix = data[picked].astype(np.int64)
            return matrix.T if order == "col_major" and columns else matrix

        loads = [load(*found) for found in re.findall(r"Load<(\w+), (\w+)>\(&\w+, (\d+)u, (\d+)u\)", text)]
        product = result(sum(a @ b for a, b in zip(loads[::2], loads[1::2], strict=True)))
        at, pitch = re.search(r"Store<row_major>\(&tiles, (\d+)u, sum, (\d+)u\)", text).groups()
        per = 4 * int(word) // np.dtype(KINDS[kind]).itemsize
        output = np.zeros(size // np.dtype(KINDS[kind]).itemsize, KINDS[kind])
        for i, row in enumerate(product):
            start = (int(at) + i * int(pitch)) * per
            output[start : start + n] = row
        return output.tobytes()

    return run


@each_shape
def test_right_matrix_units_are_kept(one):
    assert matrix_check.checked((one,), 32, adapter()) == (one,)


@each_shape
@pytest.mark.parametrize(
    "wrong",
    [
        {"result": lambda product: product + (np.arange(product.size).reshape(product.shape) == 5)},
        {"result": lambda product: np.roll(product, 1, axis=0)},
        {"left": lambda _, pitch: (0, pitch)},
        {"left": lambda at, pitch: (at, pitch - 1)},
    ],
    ids=["one element", "rows", "offset", "stride"],
)
def test_a_shape_that_gives_wrong_results_is_switched_off_and_no_other(one, wrong):
    good = shape("f16", "f16", 8, 8, 8)
    broken, fine = adapter(**wrong), adapter()

    def run(text, contents, size):
        is_good = "left<f16, 8, 8>" in text and "result<f16, 8, 8>" in text
        return (fine if is_good else broken)(text, contents, size)

    assert matrix_check.checked((good, one), 32, run) == (good,)


@pytest.mark.parametrize("one", [s for s in SHAPES if s.m == s.n == s.k], ids=str)
def test_columns_that_are_loaded_as_rows_are_found_out(one):
    assert matrix_check.checked((one,), 32, adapter(columns=False)) == ()


@each_shape
def test_a_text_that_is_refused_leaves_zeros_and_switches_the_shape_off(one):
    assert matrix_check.checked((one,), 32, lambda *given: bytes(given[-1])) == ()


def test_shapes_that_no_kernel_can_use_are_left_alone():
    odd = (shape("f16", "f32", 2, 2, 2), shape("bf16", "f32", 16, 16, 16))
    assert matrix_check.checked(odd, 32, lambda *_: pytest.fail("nothing to run")) == odd


@each_shape
def test_the_data_has_no_symmetry_and_results_are_exact(one):
    product = np.array(matrix_check.expected(one))
    assert len({tuple(row) for row in product.tolist()}) == one.m
    assert len({tuple(column) for column in product.T.tolist()}) == one.n
    assert np.array_equal(product.astype(KINDS[one.result]).astype(np.int64), product)


def texts(lanes):
    return {str(one): matrix_check.text(matrix_check.layout_of(one), lanes) for one in SHAPES}


def test_the_texts_are_valid_for_tint(tint):
    assert tint(texts(128)) == {}


def on(runtime, one, change=lambda text: text):
    """Whether a runtime's matrix units pass the check of a shape with a changed text."""
    layout = matrix_check.layout_of(one)
    size = layout.words * layout.word
    text = change(matrix_check.text(layout, runtime.profile.subgroup_size))
    buffers = (
        Buffer(name="input", role="input", element="u32", shape=(size // 4,), binding=0),
        Buffer(name="output", role="output", element="u32", shape=(size // 4,), binding=1),
    )
    step = Pass(
        wgsl=text,
        entry_point="main",
        workgroup_size=(runtime.profile.subgroup_size, 1, 1),
        workgroup_bytes=size,
        workgroups=1,
        buffers=("input", "output"),
    )
    plan = Plan(kernel="check", variant="check", sizes={}, uniform=(), buffers=buffers, passes=(step,))
    runtime.load({"input": matrix_check.contents(layout), "output": bytes(size)})
    return matrix_check.matches(layout, runtime.run(runtime.compile(plan))["output"])


def test_an_adapter_passes_as_it_is_and_fails_with_every_kind_of_mistake(matrix_runtime):
    assert {(one.element, one.result) for one in matrix_runtime.profile.subgroup_matrix} >= {
        ("f16", "f32"),
        ("i8", "i32"),
    }
    for one in matrix_runtime.profile.subgroup_matrix:
        assert on(matrix_runtime, one)
    one = matrix_runtime.profile.subgroup_matrix[0]
    for right, wrong in {
        "<Left, row_major>(&tiles": "<Left, col_major>(&tiles",
        "<Right, row_major>(&tiles": "<Right, col_major>(&tiles",
        "<Left, col_major>(&tiles": "<Left, row_major>(&tiles",
        "<Left, row_major>(&input, 3u": "<Left, row_major>(&input, 0u",
        "MultiplyAccumulate(stored, turned, sum)": "MultiplyAccumulate(stored, turned, Result())",
    }.items():
        assert not on(matrix_runtime, one, lambda text, a=right, b=wrong: _changed(text, a, b)), wrong


def _changed(text, right, wrong):
    assert right in text
    return text.replace(right, wrong)
