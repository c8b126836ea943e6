"""The arithmetic of GEMM on cooperative matrices: its text in plain WGSL, where lanes hold rows of matrices.

This proves where the text stages what, its edges, parts and rounds, and the epilogue. It proves nothing about
matrix units, what lanes must do together, or what naga makes of the text; see test_cooperative_matrix.py.
"""

import pytest
from kernel_checks import slow, with_first_pass
from naga_dialect import EXTRAS, KINDS, TRANSPOSES, complaint_of, emulated, plan_of, problem_of

from autotune.kernels.gemm import GEMM

GRID = "workgroup.y * grid.x + workgroup.x"
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def quick(runtime):
    """A runtime that does not take seconds for a text; these texts have many loops and barriers."""
    if slow(runtime):
        pytest.skip("lavapipe proves the arithmetic, SwiftShader takes 7 s for each text")
    return runtime


def assert_right(runtime, kind, problems, lanes=32, *, specialize=False):
    wrong = {}
    for index, problem in enumerate(problems):
        plan = plan_of(kind, problem, specialize=specialize)
        text = emulated(plan.passes[0].wgsl, lanes)
        found = complaint_of(runtime, problem, plan, text, integers=index % 2 == 0)
        if found is not None:
            wrong[GEMM.label(problem)] = found
    assert wrong == {}


@each_kind
def test_ragged_shapes_are_right(runtime, kind):
    sizes = [(65, 63, 33)] if slow(runtime) else [(65, 63, 33), (1, 1, 1), (130, 17, 70)]
    assert_right(runtime, kind, [problem_of(kind, *size) for size in sizes])


@pytest.mark.parametrize("lanes", [8, 16, 64, 128])
def test_subgroups_of_any_size_are_right(quick, lanes):
    assert_right(quick, "f32 8x8", [problem_of("f32 8x8", 66, 71, 37)], lanes)


@pytest.mark.parametrize("kind", ["f32 8x8", "f16 16x16"])
def test_all_four_transposes_are_right(quick, kind):
    assert_right(quick, kind, [problem_of(kind, 66, 71, 37, **turned) for turned in TRANSPOSES])


@pytest.mark.parametrize("changes", EXTRAS, ids=repr)
def test_layouts_batches_and_epilogues_are_right(quick, changes):
    assert_right(quick, "f16 16x16", [problem_of("f16 16x16", 67, 70, 39, **changes)], 64)


def test_sizes_baked_into_the_text_are_right(quick):
    assert_right(quick, "f32 8x8", [problem_of("f32 8x8", 67, 70, 39, beta=0.5)], specialize=True)


def test_many_tiles_are_right_and_workgroups_without_one_leave_all_alone(quick):
    problem = problem_of("f32 8x8", 64 * 9 + 3, 70, 5)  # more rows of tiles than are walked together
    plan = plan_of("f32 8x8", problem)
    text = plan.passes[0].wgsl
    assert GRID in text  # as in lib/grid.wgsl
    more = with_first_pass(plan, workgroups=23)
    assert complaint_of(quick, problem, more, emulated(text, 32)) is None


MUTANTS = {
    "columns for rows": ("coopLoadT<Left>", "coopLoad<Left>", {}),
    "rows for columns": ("coopLoad<Right>", "coopLoadT<Right>", {"transpose_b": True}),
    "no zeros past K": (" && k < sizes.k", "", {}),
    "another step of K": ("LINE_A + k]", "LINE_A]", {}),
    "the wrong part": ("part % PARTS_N * PART_N;\n\n", "part / PARTS_N * PART_N;\n\n", {}),
    "sums left out": ("c_1_0 = coopMultiplyAdd", "_ = coopMultiplyAdd", {}),
    "parts that nobody computes": ("first += subgroups", "first += PARTS", {}),
    "stored a row too far": ("tile_row + 8u", "tile_row + 9u", {}),
    "unguarded columns": (" && in_col < sizes.n", "", {}),
    "one matrix of the batch for all": ("entry * sizes.k * sizes.n", "0u", {"batch": 2}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_text_is_found_out(quick, name):
    right, wrong, changes = MUTANTS[name]
    problem = problem_of("f32 8x8", 67, 70, 39, **changes)
    plan = plan_of("f32 8x8", problem)
    text = plan.passes[0].wgsl
    assert right in text
    assert complaint_of(quick, problem, plan, emulated(text.replace(right, wrong), 64)) is not None
