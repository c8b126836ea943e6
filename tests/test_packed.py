"""Packed operands: every layout that is packed, against float64 on every software stack."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import complaint, few_examples, lacks_f16, many_examples, run, slow
from matrix_units import SMALL
from msgspec import structs
from test_gemm import blocked

from autotune import limits, space
from autotune.kernels.gemm import GEMM, GemmProblem, packing
from autotune.kernels.gemm.configs import Blocked, Packed, PackedMatrixUnits

AXES = {"packed": space.load_axes(GEMM)["packed"]}


def packed(**changes):
    return Packed(**blocked(vector=4, **changes).parameters())


CONFIGS = {
    "double": packed(buffering="double", unroll_k=8),
    "prefetch": packed(buffering="prefetch", tile_m=64, thread_m=8, lanes_n=4, group_m=8),
    "ahead": packed(buffering="ahead", commit_k=1, unroll_k=8, order="zigzag"),
}
MATRIX = PackedMatrixUnits(**SMALL | {"tile_m": 32, "tile_n": 16, "splits": 1})
each_config = pytest.mark.parametrize("name", CONFIGS)
SHAPES = [(33, 35, 37), (1, 1, 1), (3, 66, 7), (65, 2, 130), (130, 67, 5), (32, 32, 64)]


@each_config
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_ragged_shapes_of_all_transposes_are_right(runtime, name, transpose_a, transpose_b):
    shapes = random.Random(f"{name}{transpose_a}{transpose_b}").sample(SHAPES, 3) if slow(runtime) else SHAPES
    wrong = {}
    for index, (m, n, k) in enumerate(shapes):
        problem = GemmProblem(m=m, n=n, k=k, transpose_a=transpose_a, transpose_b=transpose_b)
        kinds = [index % 2 == 0] if slow(runtime) else [False, True]  # whole numbers, or fractions
        complaints = [run(runtime, problem, CONFIGS[name], integers=kind) for kind in kinds]
        wrong[m, n, k] = next(filter(None, complaints), None)
    assert {shape: complaint for shape, complaint in wrong.items() if complaint} == {}


@pytest.mark.parametrize(
    "how",
    [
        {"lda": 40, "ldb": 43, "ldc": 45},
        {"lda": 41, "ldb": 44, "transpose_a": True},
        {"batch": 3},
        {"batch": 2, "broadcast_a": True, "transpose_b": True},
        {"batch": 3, "broadcast_b": True, "lda": 39},
        {"beta": 0.5, "alpha": -2.0, "bias": True, "activation": "gelu", "residual": True},
    ],
    ids=repr,
)
@pytest.mark.parametrize("specialize", [False, True])
def test_gaps_batches_and_epilogues_are_right(runtime, how, specialize):
    problem = GemmProblem(m=33, n=35, k=37, **how)
    assert packing.packs(problem, CONFIGS["ahead"])
    assert run(runtime, problem, CONFIGS["ahead"], specialize=specialize) is None


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("accumulate", ["f32", "f16"])
def test_f16_is_right_or_refused_by_name(runtime, transpose_b, accumulate):
    for m, n, k in [(33, 35, 37), (36, 68, 20)]:
        problem = GemmProblem(m=m, n=n, k=k, dtype="f16", accumulate=accumulate, transpose_b=transpose_b)
        if not lacks_f16(runtime, problem, CONFIGS["double"]):
            assert run(runtime, problem, CONFIGS["double"]) is None


@few_examples(8)
@given(data=st.data())
def test_random_problems_and_configs_are_right(runtime, data):
    sizes = {name: data.draw(st.integers(1, 140), name) for name in "mnk"}
    turned = {name: data.draw(st.booleans(), name) for name in ("transpose_a", "transpose_b")}
    problem = GemmProblem(**sizes, **turned)
    points = sorted(space.legal(GEMM, problem, runtime.profile, AXES).points)
    if points:
        config = space.config_at(GEMM, AXES, data.draw(st.sampled_from(points)))
        if config.unroll_k * config.thread_m * config.thread_n <= 256:  # quickly compiled
            assert run(runtime, problem, config) is None


def test_only_what_does_not_lie_as_packed_operands_do_is_packed():
    def packs(**fields):
        return packing.packs(GemmProblem(**({"m": 64, "n": 64, "k": 64} | fields)), CONFIGS["double"])

    assert packs(transpose_a=True) == ()
    assert packs() == ("a",)
    assert packs(transpose_b=True) == ("a", "b")
    assert packs(transpose_a=True, n=66) == ("b",)
    assert packs(transpose_a=True, ldb=70) == ("b",)
    assert packs(transpose_a=True, dtype="f16", n=68) == ("b",)
    assert packs(transpose_a=True, n=68) == ()
    assert packing.packs(GemmProblem(m=63, n=63, k=63), blocked()) == ()


@pytest.mark.parametrize(
    ("how", "operands", "workgroups"),
    [
        ({}, "ab", 3 * (2 + 1)),
        ({"batch": 3}, "ab", 3 * (2 + 1) * 3),
        ({"batch": 3, "broadcast_a": True}, "ab", 3 * (2 + 1 * 3)),
        ({"batch": 3, "broadcast_b": True}, "ab", 3 * (2 * 3 + 1)),
        ({"n": 36}, "a", 3 * 2),
        ({"transpose_a": True, "m": 68}, "b", 3 * 1),
    ],
    ids=repr,
)
def test_one_pass_packs_whatever_there_is_to_pack(runtime, how, operands, workgroups):
    problem = GemmProblem(**{"m": 67, "n": 35, "k": 70} | how)
    packing_pass, _ = GEMM.plan(problem, CONFIGS["double"], specialize=True).passes
    assert packing_pass.buffers == tuple(name for x in operands for name in (x, f"packed_{x}"))
    before, _ = GEMM.resources(problem, CONFIGS["double"])
    assert before.workgroups == workgroups
    assert run(runtime, problem, CONFIGS["double"], integers=True) is None


@pytest.mark.parametrize("how", [{"batch": 2}, {"n": 36}], ids=repr)
def test_workgroups_without_a_tile_leave_everything_alone(runtime, how):
    problem = GemmProblem(**{"m": 33, "n": 35, "k": 37} | how)
    plan = GEMM.plan(problem, CONFIGS["double"], specialize=False)
    more = tuple(structs.replace(step, workgroups=150) for step in plan.passes)
    assert complaint(runtime, problem, plan, structs.replace(plan, passes=more)) is None


def test_operands_that_are_turned_around_share_workgroup_memory():
    def turned(**how):
        before, _ = GEMM.resources(GemmProblem(m=33, n=35, k=37, **how), CONFIGS["double"])
        return before.workgroup_bytes

    assert turned(transpose_a=True) == 0
    assert turned() == turned(transpose_b=True) == turned(transpose_a=True, transpose_b=True) == 8704


def test_packing_is_searched_where_rows_are_no_whole_vec4s():
    base = limits.base_profile()
    assert len(space.legal(GEMM, GemmProblem(m=63, n=65, k=67), base, AXES)) > 0
    whole = space.legal(GEMM, GemmProblem(m=64, n=64, k=64), base, AXES)
    assert len(whole) == 0
    assert "rows of A and B are whole vec4s as they lie, and copies would not pay" in whole.refused
    assert len(space.legal(GEMM, GemmProblem(m=2048, n=2048, k=2048), base, AXES)) > 0


def test_copies_count_against_the_limits_of_a_binding():
    problem = GemmProblem(m=3, n=5, k=2**20, batch=6)
    profile = limits.base_profile()
    tight = structs.replace(
        profile, limits=profile.limits | {"maxStorageBufferBindingSize": 4 * 2**20 * 6 * 5}
    )
    assert list(limits.refusals(GEMM.resources(problem, blocked()), tight)) == []
    (reason,) = set(limits.refusals(GEMM.resources(problem, CONFIGS["double"]), tight))
    assert f"exceeds the largest storage binding: {4 * 2**20 * 6 * 8} B" in reason


def test_sizes_need_not_be_multiples_but_for_what_is_stored_in_vec4s():
    def multiples(**sizes):
        return GEMM.plan(GemmProblem(**sizes), CONFIGS["double"], specialize=False).multiples

    assert multiples(m=33, n=35, k=37) == {}
    assert multiples(m=33, n=36, k=37) == {"n": 4}
    assert multiples(m=33, n=35, k=64) == {"k": 4}
    assert multiples(m=33, n=36, k=64) == {"n": 4, "k": CONFIGS["double"].tile_k}  # B is read as it lies
    assert multiples(m=33, n=35, k=36) == {"k": 4}
    assert multiples(m=33, n=35, k=37, lda=40) == {"lda": 4}
    assert multiples(m=33, n=36, k=37, dtype="f16", transpose_a=True) == {"n": 4}


@pytest.mark.parametrize("config", [CONFIGS["double"], MATRIX], ids=["register blocks", "matrix units"])
def test_tiles_are_whole_along_k_where_both_operands_are_copies(config):
    def multiplying(**sizes):
        return GEMM.plan(GemmProblem(**sizes, dtype="f16"), config, specialize=False).passes[-1].wgsl

    assert multiplying(m=33, n=35, k=37) == multiplying(m=33, n=35, k=1) == multiplying(m=33, n=35, k=64)
    assert "<= sizes.k" not in multiplying(m=33, n=35, k=37)
    assert "<= sizes.k" in multiplying(m=33, n=40, k=37)


@many_examples
@given(data=st.data())
def test_the_winner_is_proved_at_another_size_with_the_very_texts(data):
    sizes = {name: data.draw(st.sampled_from([31, 33, 36, 40, 64, 66, 100]), name) for name in "mnk"}
    turned = {name: data.draw(st.booleans(), name) for name in ("transpose_a", "transpose_b")}
    problem = GemmProblem(**sizes, **turned)
    config = data.draw(st.sampled_from(list(CONFIGS.values())))

    def texts(other):
        return [step.wgsl for step in GEMM.plan(other, config, specialize=False).passes]

    assert texts(problem) in [texts(other) for other in GEMM.neighbours(problem, config)]


@pytest.mark.parametrize("largest", [{"m": 2**30 - 1}, {"n": 2**28 + 1, "dtype": "f16", "out_dtype": "f32"}])
def test_a_problem_whose_copies_could_not_be_indexed_is_refused_without_an_error(largest):
    problem = GemmProblem(**{"m": 1, "n": 1, "k": 1} | largest)
    assert len(space.legal(GEMM, problem, limits.base_profile(), AXES)) == 0
    assert GEMM.unfit(problem, CONFIGS["double"]) == "copies of A or B would be larger than kernels can index"


def test_the_default_packs_only_what_a_binding_holds():
    nvidia = structs.replace(limits.base_profile(), vendor_id=0x10DE)
    for sizes, kind in (((4095, 4095, 4095), Packed), ((4087, 4087, 8209), Blocked)):
        problem = GemmProblem(**dict(zip("mnk", sizes, strict=True)))
        chosen = GEMM.default(problem, nvidia)
        assert type(chosen) is kind
        assert list(space.refusals(GEMM, problem, chosen, nvidia)) == []


def test_a_pass_declares_as_read_what_the_plan_says_it_only_reads():
    problem = GemmProblem(m=33, n=35, k=37, dtype="f16")
    for config, read in ((CONFIGS["double"], False), (MATRIX, True)):
        plan = GEMM.plan(problem, config, specialize=False)
        packing_pass, main = plan.passes
        assert main.only_read == (("packed_a", "packed_b") if read else ())
        assert packing_pass.only_read == ()
        for binding in (7, 8):
            mode = "read" if read else "read_write"
            assert f"@binding({binding}) var<storage, {mode}>" in main.wgsl
        for name in "ab":
            assert f"var<storage, read_write> packed_{name}:" in packing_pass.wgsl


@pytest.mark.parametrize("x", ["a", "b"])
def test_matrix_units_take_packed_operands_through_workgroup_memory_alone(x):
    straight = structs.replace(MATRIX, **{f"{x}_from": "memory"})
    assert "packed operands pass through workgroup memory" in GEMM.unfit(
        GemmProblem(m=64, n=64, k=64, dtype="f16"), straight
    )
