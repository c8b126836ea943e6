"""Attention on matrix units: against float64 where there are some, valid for Tint everywhere."""

import random
import re
from functools import cache
from itertools import product

import matrix_units
import numpy as np
import pytest
from attention_problems import FEATURES, ODD, UNSEEN, assert_unseen_queries_are_0, problem, problems
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import assert_finished, complaint, few_examples, legal_configs_of, many_examples, run
from matrix_units import H200 as LARGE
from msgspec import structs
from wgsl_text import workgroup_memory, workgroup_size

from autotune import limits, space
from autotune.kernels.attention import ATTENTION, AttentionProblem, FlashSubgroupMatrix


def matrix(**changes):
    """Small, and with loops: a software adapter takes long to compile each product of two matrices."""
    config = FlashSubgroupMatrix(
        matrix="8x8x8",
        subgroup_size=8,
        subgroups=2,
        rows=8,
        tile_kv=8,
        parts_v=1,
        row_lanes=1,
        q_from="workgroup",
        k_from="workgroup",
        v_from="workgroup",
        ahead="softmax",
        scores="f32",
        pad=2,
        unroll=False,
        slack=8,
        vector=4,
    )
    return structs.replace(config, **changes)


def asked_for(config, **changes):
    """A problem that allows the config."""
    return problem(dtype="f16", accumulate=config.scores, **changes)


def scalar(config):
    return structs.replace(config, vector=1)


CONFIGS = {
    "loops": matrix(),
    "written-out": matrix(q_from="registers", unroll=True, tile_kv=16, ahead="scores"),
    "lanes": matrix(row_lanes=2, subgroups=4, ahead="no"),
    "tall": matrix(rows=16, subgroups=1, slack=0, pad=0),
    "halves": matrix(scores="f16", q_from="registers", unroll=True),
}
STRAIGHT = {
    "both": matrix(k_from="storage", v_from="storage", ahead="no"),
    "keys": matrix(k_from="storage", row_lanes=2),
    "values": matrix(v_from="storage", ahead="scores"),
}
"""They take whole tiles of keys."""


def gpu(*shapes, lanes=32):
    """A device that grants only the base limits but has matrix units."""
    extents = [tuple(map(int, shape.split("x"))) for shape in shapes or ("16x16x16", "16x8x16", "16x8x8")]
    of_f16 = [("f16", result, *extent) for result in ("f32", "f16") for extent in extents]
    return matrix_units.device(of_f16, lanes)


# Results.


@pytest.mark.parametrize("name", CONFIGS)
def test_masks_layouts_and_lengths_are_right(matrix_runtime, name):
    """Every config meets every third feature."""
    first = list(CONFIGS).index(name)
    wrong = {}
    for feature in list(FEATURES)[first % 3 :: 3]:
        asked = asked_for(CONFIGS[name], **FEATURES[feature])
        specialize = (len(feature) + first) % 2 == 0
        wrong[feature] = run(matrix_runtime, asked, CONFIGS[name], specialize=specialize)
    assert wrong == dict.fromkeys(wrong)


@pytest.mark.parametrize("name", ["loops", "halves"])
def test_rows_that_are_no_whole_vec4s_are_right(matrix_runtime, name):
    config = scalar(CONFIGS[name])
    wrong = {kind: run(matrix_runtime, asked_for(config, **ODD[kind]), config) for kind in ODD}
    assert wrong == dict.fromkeys(wrong)


@pytest.mark.parametrize(
    "changes",
    [
        {"head_dim": 40, "seq": 40, "parts_v": 2},
        {"head_dim": 64, "v_head_dim": 24, "seq": 35},
        {"head_dim": 72, "seq": 17, "kv_seq": 9, "parts_v": 4},
        {"head_dim": 80, "v_head_dim": 96, "seq": 16, "parts_v": 4},
        {"head_dim": 128, "seq": 20, "heads": 1, "parts_v": 8},
        {"head_dim": 256, "v_head_dim": 250, "seq": 9, "heads": 1, "parts_v": 8, "vector": 1},
    ],
    ids=lambda changes: "-".join(f"{name}{value}" for name, value in changes.items()),
)
def test_any_head_dim_is_right_in_whole_or_in_parts(matrix_runtime, changes):
    parameters = {name: changes[name] for name in ("parts_v", "vector") if name in changes}
    sizes = {name: size for name, size in changes.items() if name not in parameters}
    config = matrix(**parameters)
    assert run(matrix_runtime, asked_for(config, lse=True, **sizes), config) is None


@pytest.mark.parametrize("name", STRAIGHT)
def test_matrices_straight_from_memory_are_right_where_tiles_are_whole(matrix_runtime, name):
    config = STRAIGHT[name]
    for changes in (
        {"kv_seq": 40, "capacity": 43, "batch": 2, "causal": True, "head_dim": 16},
        {"seq": 24, "layout": "qkv", "window": 9, "kv_heads": 1},
    ):
        asked = asked_for(config, **changes)
        assert ATTENTION.unfit(asked, config) is None
        assert run(matrix_runtime, asked, config) is None
    assert "straight from memory" in ATTENTION.unfit(asked, scalar(config))
    for changes in ({"kv_seq": 41}, {"kv_seq": 40, "lengths": True}, {"kv_seq": 40, "head_dim": 12}):
        assert "straight from memory" in ATTENTION.unfit(asked_for(config, **changes), config)
    assert ATTENTION.plan(asked, config, specialize=False).multiples["kv_seq"] == 8


def test_queries_that_see_nothing_give_exactly_0_and_no_nan(matrix_runtime):
    asked = problem(dtype="f16", **UNSEEN)
    data, o, _ = assert_unseen_queries_are_0(matrix_runtime, asked, matrix())
    assert np.array_equal(o[0, 5], data["v"].reshape(2, 40, 2, 8)[0, 39])


def test_products_that_f16_does_not_hold_are_right(matrix_runtime):
    asked = problem(dtype="f16", scale=5e-5, head_dim=16)
    given = ATTENTION.inputs(asked, 1, integers=False)
    q, k = (given[name].astype(np.float64).reshape(20, 2, 16) for name in "qk")
    assert np.abs(np.einsum("ihd,jhd->hij", q, k)).max() > np.finfo(np.float16).max
    assert run(matrix_runtime, asked, matrix()) is None
    halves = structs.replace(asked, accumulate="f16")
    assert run(matrix_runtime, halves, CONFIGS["halves"]) is None


def test_workgroups_without_a_tile_leave_everything_alone(matrix_runtime):
    asked = problem(dtype="f16", lse=True, causal=True)
    plan = ATTENTION.plan(asked, matrix(), specialize=False)
    more = tuple(structs.replace(step, workgroups=150) for step in plan.passes)
    assert complaint(matrix_runtime, asked, plan, structs.replace(plan, passes=more)) is None


@given(data=st.data())
@few_examples(8)
def test_any_masks_lengths_layouts_and_head_counts_are_right(matrix_runtime, data):
    config = CONFIGS[data.draw(st.sampled_from(["loops", "lanes"]))]
    asked = structs.replace(data.draw(problems()), dtype="f16")
    contiguous = asked.head_dim % 4 == 0 and asked.layout != "qkv-interleaved"
    assert run(matrix_runtime, asked, config if contiguous else scalar(config)) is None


# What the checks are worth. That they find these faults needs data in which scores outgrow the slack.

MUTANTS = {
    "sums of O are not rescaled": (r"(strip_s\[.*\]) \*= shrink_0;", r"\1 *= 1.0;"),
    "rescaled sums stay in memory": (r"o_0_0 = subgroupMatrixLoad<Sums.*", ""),
    "sums of rows are not rescaled": (r"l_0 \* shrink_0", "l_0"),
    "no row asks for it": (r"if \(grows && m_0 > NO_KEYS\) .*", ""),
    "the bound is not kept": (r"m_0 = m_now;", ""),
    "a key is forgotten": (r"key >= keys\)", "key + 1u >= keys)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_online_softmax_does_not_pass(matrix_runtime, name):
    pattern, put = MUTANTS[name]
    asked = problem(dtype="f16", seq=17, kv_seq=90)
    plan = ATTENTION.plan(asked, matrix(), specialize=False)
    text = re.sub(pattern, put, plan.passes[0].wgsl)
    assert text != plan.passes[0].wgsl
    changed = structs.replace(plan, passes=(structs.replace(plan.passes[0], wgsl=text),))
    assert "elements are wrong" in complaint(matrix_runtime, asked, plan, changed)


# Legality.

SHAPES = {
    "square": problem(dtype="f16", heads=8, seq=64, head_dim=32),
    "causal": problem(dtype="f16", heads=2, kv_heads=1, seq=300, head_dim=128, causal=True, sinks=True),
    "short sums": problem(dtype="f16", seq=128, head_dim=64, accumulate="f16", mask="bias", lse=True),
    "packed": problem(dtype="f16", layout="qkv-split", heads=4, kv_heads=2, seq=128, head_dim=64),
    "odd": problem(dtype="f16", head_dim=30, seq=90),
}


@cache
def configs(name):
    found = legal_configs_of(["flash_subgroup_matrix"], SHAPES[name], LARGE)["flash_subgroup_matrix"]
    return random.Random(0).sample(found, min(len(found), 60))


@given(data=st.data(), name=st.sampled_from(list(SHAPES)), baked=st.booleans())
@many_examples
def test_a_plan_needs_what_was_told_without_rendering_and_what_its_text_declares(data, name, baked):
    asked = SHAPES[name]
    config = data.draw(st.sampled_from(configs(name)))
    plan = ATTENTION.plan(asked, config, specialize=baked)
    assert limits.needs(plan) == ATTENTION.resources(asked, config)
    (step,) = plan.passes
    assert_finished(step.wgsl)
    assert workgroup_size(step.wgsl) == step.workgroup_size
    assert workgroup_memory(step.wgsl) <= step.workgroup_bytes <= workgroup_memory(step.wgsl) + 5 * 16
    assert str(step.subgroup_matrix) in map(str, LARGE.subgroup_matrix)
    for buffer in plan.buffers:
        assert (f"@binding({buffer.binding}) " in step.wgsl) is (buffer.name in step.buffers)


@pytest.mark.parametrize("name", SHAPES)
def test_every_config_can_be_proved_at_some_neighbour(name):
    for config in configs(name):
        near = ATTENTION.neighbours(SHAPES[name], config)
        assert all(ATTENTION.unfit(asked, config) is None for asked in near)
        assert any(asked.kv_seq > config.tile_kv for asked in near)


@given(
    heads=st.sampled_from([1, 6, 32]),
    seq=st.integers(1, 5000),
    kv_seq=st.integers(1, 5000),
    head_dim=st.integers(1, 256),
    v_head_dim=st.integers(1, 256),
    accumulate=st.sampled_from(["f32", "f16"]),
    device=st.sampled_from([LARGE, gpu(), gpu("8x8x8"), gpu("16x16x16", lanes=64)]),
)
@many_examples
def test_the_default_of_a_gpu_with_matrix_units_is_legal_and_uses_them(device, **sizes):
    asked = AttentionProblem(dtype="f16", **sizes)
    config = ATTENTION.default(asked, device)
    assert list(space.refusals(ATTENTION, asked, config, device)) == []
    roomy = device is LARGE and min(asked.seq, asked.kv_seq) > 16
    assert isinstance(config, FlashSubgroupMatrix) or not roomy
    other = ATTENTION.default(structs.replace(asked, dtype="f32", accumulate="f32"), device)
    assert not isinstance(other, FlashSubgroupMatrix)


@pytest.mark.parametrize(
    ("heads", "seq", "head_dim", "chosen"),
    [(16, 4096, 64, (8, 16)), (32, 4096, 128, (8, 32)), (16, 1024, 64, (4, 16)), (4, 512, 128, (4, 32))],
)
def test_untuned_workgroups_are_large_where_there_are_many_queries(heads, seq, head_dim, chosen):
    config = ATTENTION.default(AttentionProblem(dtype="f16", heads=heads, seq=seq, head_dim=head_dim), LARGE)
    assert (config.subgroups, config.tile_kv) == chosen


def test_a_device_without_the_shape_the_lanes_or_f16_sums_is_told_so():
    asked = problem(dtype="f16", accumulate="f16", seq=64, head_dim=16)
    halves = structs.replace(CONFIGS["halves"], matrix="16x16x16", subgroup_size=32, rows=32, tile_kv=32)
    assert list(space.refusals(ATTENTION, asked, halves, LARGE)) == []
    for device, reason in (
        (gpu("8x8x8"), "lack this shape"),
        (gpu(lanes=64), "subgroups of another size"),
        (structs.replace(LARGE, features=("shader-f16",)), "needs a feature the adapter lacks"),
    ):
        assert any(reason in why for why in space.refusals(ATTENTION, asked, halves, device))
    lacking = structs.replace(
        LARGE, subgroup_matrix=tuple(one for one in LARGE.subgroup_matrix if one.result == "f32")
    )
    assert ATTENTION.default(asked, lacking).scores == "f32"
    assert all(
        c.scores == "f32"
        for c in legal_configs_of(["flash_subgroup_matrix"], asked, lacking)["flash_subgroup_matrix"]
    )


# Texts.


def test_every_kind_of_text_is_valid_for_tint_within_the_base_limits(tint):
    """As a GPU would get them. The null adapter's subgroups may have 128 lanes: workgroups are a multiple."""
    texts = {}
    large = {
        "matrix": "16x16x16",
        "subgroup_size": 32,
        "subgroups": 4,
        "rows": 16,
        "tile_kv": 16,
        "row_lanes": 2,
    }
    taller = {"subgroup_size": 64, "subgroups": 2, "rows": 32}
    for (name, config), (index, kind) in product(
        {**CONFIGS, **STRAIGHT}.items(), enumerate({**FEATURES, **ODD})
    ):
        chosen = structs.replace(config, **large | (taller if name == "tall" else {}))
        chosen = scalar(chosen) if kind in ODD else chosen
        asked = asked_for(chosen, **{**FEATURES, **ODD}[kind])
        if name in STRAIGHT:
            asked = structs.replace(asked, head_dim=16, v_head_dim=32, kv_seq=48, capacity=50, layout="bhsd")
        if ATTENTION.unfit(asked, chosen) is None:
            plan = ATTENTION.plan(asked, chosen, specialize=index % 3 == 0)
            texts[f"{name} {kind}"] = plan.passes[0].wgsl
    assert len(texts) > 100
    for head_dim, seq in product((3, 40, 64, 72, 80), (64, 4096)):
        asked = AttentionProblem(heads=8, kv_heads=2, seq=seq, head_dim=head_dim, dtype="f16")
        config = ATTENTION.default(asked, gpu())
        if isinstance(config, FlashSubgroupMatrix) and config.invocations % 128 == 0:
            texts[ATTENTION.label(asked)] = ATTENTION.plan(asked, config, specialize=False).passes[0].wgsl
    assert tint(texts) == {}
