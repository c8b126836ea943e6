"""Attention against float64, on every software stack, with poisoned and guarded buffers."""

import re
from itertools import product

import numpy as np
import pytest
from attention_problems import FEATURES, ODD, UNSEEN, assert_unseen_queries_are_0, problem, problems
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import complaint, few_examples, lacks_f16, run, slow
from msgspec import structs

from autotune import limits
from autotune.expression import evaluate
from autotune.kernels.attention import (
    ATTENTION,
    AttentionProblem,
    Flash,
    FlashDecode,
    FlashDecodeSubgroup,
    Naive,
)
from autotune.kernels.tiles import NVIDIA
from autotune.limits import split_grid


def flash(**changes):
    config = Flash(
        vector=4,
        staged="storage",
        tile_q=16,
        tile_kv=16,
        thread_q=4,
        thread_kv=4,
        thread_v=4,
        tile_d=8,
        q_resident=True,
        k_from="workgroup",
        v_from="workgroup",
        v_rows=16,
        p_sliced=False,
        along_d=1,
        unroll=8,
        prefetch=False,
        pad_p=1,
        chain=0,
    )
    return structs.replace(config, **changes)


def decode(**changes):
    config = FlashDecode(
        rows=2, lanes_d=2, slots=16, unroll=1, steps=1, ahead="no", merge_threads=4, vector=4
    )
    return structs.replace(config, **changes)


def in_subgroups(**changes):
    config = FlashDecodeSubgroup(
        rows=2,
        lanes_d=2,
        unroll=2,
        subgroups=8,
        steps=1,
        ahead="no",
        subgroup_size=4,
        merge_threads=2,
        vector=4,
    )
    return structs.replace(config, **changes)


CONFIGS = {
    "naive": Naive(workgroup=32),
    "flash": flash(),
    "flash-pieces": flash(q_resident=False, v_rows=8, tile_d=4, unroll=4, pad_p=0),
    "flash-prefetch": flash(prefetch=True, v_rows=8, tile_d=4, unroll=4),
    "flash-straight": flash(k_from="storage", v_from="storage", unroll=4),
    "flash-tall": flash(tile_q=32, thread_q=8, tile_kv=32, thread_kv=8, v_rows=32, unroll=4, prefetch=True),
    "flash-slices": flash(
        tile_q=32,
        thread_q=8,
        tile_kv=32,
        thread_kv=8,
        v_rows=8,
        p_sliced=True,
        along_d=2,
        unroll=4,
        prefetch=True,
    ),
    "flash-slices-deep": flash(tile_kv=32, thread_kv=8, v_rows=8, p_sliced=True, unroll=8),
    "flash-slices-pieces": flash(
        tile_kv=64, thread_kv=8, v_rows=16, p_sliced=True, q_resident=False, tile_d=4, unroll=4, pad_p=0
    ),
    "flash-columns": flash(tile_kv=8, tile_q=64, v_rows=8),
    "decode": decode(),
    "decode-steps": decode(steps=2, slots=8, rows=4, ahead="values", lanes_d=4),
    "decode-ahead": decode(merge_threads=1, steps=2, slots=8, rows=4, ahead="tile", lanes_d=4),
    "decode-unrolled": decode(unroll=2, rows=1, slots=8, lanes_d=4),
}
EXCHANGES = {
    "lanes that fill a subgroup": in_subgroups(lanes_d=4, rows=4, steps=2, ahead="tile"),
    "more scores than lanes": in_subgroups(rows=1, unroll=8, ahead="values"),
    "fewer scores than lanes": in_subgroups(lanes_d=4, rows=1, unroll=1, subgroups=4, steps=2, ahead="tile"),
    "a score a lane": in_subgroups(unroll=1, subgroups=1, merge_threads=8),
    "rows whose scores several lanes have": in_subgroups(lanes_d=4, unroll=1, subgroups=4),
}
"""Products that stay in subgroups, for the smallest ones that there are."""
SCALAR = ("flash", "flash-pieces", "flash-straight", "decode")


CHAINS = {
    "whole": flash(tile_q=32, thread_q=8, tile_d=16, chain=8, unroll=16),
    "slices": flash(
        tile_kv=32, thread_kv=8, v_rows=8, p_sliced=True, tile_d=4, q_resident=False, unroll=4, chain=4
    ),
    "slices-whole-depth": flash(
        tile_kv=64, thread_kv=8, v_rows=16, p_sliced=True, tile_d=16, unroll=16, chain=16
    ),
}


def scalar(config):
    return config if isinstance(config, Naive) else structs.replace(config, vector=1)


@pytest.mark.parametrize("name", CONFIGS)
def test_masks_layouts_and_lengths_are_right(runtime, name):
    """Every config meets every fourth feature, each feature two or three; half where compiling is slow."""
    features = list(FEATURES)
    first = list(CONFIGS).index(name)
    wrong = {}
    for feature in features if name == "naive" else features[first % 4 :: 8 if slow(runtime) else 4]:
        asked = problem(**FEATURES[feature])
        wrong[feature] = run(runtime, asked, CONFIGS[name], specialize=(len(feature) + first) % 2 == 0)
    assert wrong == dict.fromkeys(wrong)


def exchange(runtime, name):
    return structs.replace(EXCHANGES[name], subgroup_size=runtime.profile.subgroup_size)


def named(runtime, name):
    return exchange(runtime, name) if name in EXCHANGES else CONFIGS[name]


@pytest.mark.parametrize("name", EXCHANGES)
def test_products_that_stay_in_subgroups_are_right(runtime, name):
    size, config = runtime.profile.subgroup_size, exchange(runtime, name)
    kinds = ("causal", "bias of heads", "lengths", "groups", "shared cache", "columns", "window", "alibi")
    for kind in kinds[list(EXCHANGES).index(name) :: 3] if slow(runtime) else kinds:
        assert run(runtime, problem(**FEATURES[kind]), config) is None, kind
    long = problem(seq=1, kv_seq=300, head_dim=64)
    whole = structs.replace(config, lanes_d=size)
    assert run(runtime, long, whole) is None
    for odd in ({"head_dim": 40, "v_head_dim": 24}, {"head_dim": 12, "v_head_dim": 72}):
        assert run(runtime, problem(seq=1, kv_seq=77, **odd), config, specialize=True) is None, odd
    assert run(runtime, problem(**next(iter(ODD.values()))), scalar(config)) is None
    other = structs.replace(config, subgroup_size=64 if size != 64 else 32, subgroups=1)
    reasons = list(limits.refusals(ATTENTION.resources(long, other), runtime.profile))
    assert reasons == [
        f"written for subgroups of another size: {other.subgroup_size} lanes, the adapter has {size}"
    ]


@pytest.mark.parametrize("name", ["naive", *SCALAR])
def test_rows_that_are_no_whole_vec4s_are_right(runtime, name):
    few = slow(runtime) and name != "naive"
    kinds = list(ODD)[list(CONFIGS).index(name) % 3 :][:1] if few else list(ODD)
    wrong = {kind: run(runtime, problem(**ODD[kind]), scalar(CONFIGS[name])) for kind in kinds}
    assert wrong == dict.fromkeys(wrong)


@pytest.mark.parametrize(
    "changes",
    [
        {"head_dim": 4},
        {"head_dim": 40, "seq": 40},
        {"head_dim": 80, "v_head_dim": 96, "seq": 16},
        {"head_dim": 260, "seq": 9, "heads": 1},
        {"heads": 14, "kv_heads": 2, "seq": 1, "kv_seq": 77, "head_dim": 40},
        {"heads": 32, "kv_heads": 8, "seq": 70, "head_dim": 16, "causal": True},
        {"head_dim": 256, "seq": 1, "kv_seq": 300, "heads": 1},
    ],
    ids=lambda changes: "-".join(f"{name}{value}" for name, value in changes.items()),
)
def test_the_default_is_right(runtime, changes):
    if slow(runtime) and changes["head_dim"] >= 72:
        pytest.skip("compiling takes too long there")
    asked = problem(**changes)
    assert run(runtime, asked, ATTENTION.default(asked, runtime.profile)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": 8, "kv_heads": 2, "seq": 1, "kv_seq": 300, "head_dim": 64},
        {"heads": 3, "kv_heads": 1, "seq": 5, "kv_seq": 77, "head_dim": 20, "v_head_dim": 12, "causal": True},
        {"seq": 8, "kv_seq": 9, "head_dim": 3},
    ],
    ids=repr,
)
def test_the_default_in_subgroups_is_right(runtime, changes):
    asked = problem(**changes)
    config = ATTENTION.default(asked, structs.replace(runtime.profile, vendor_id=NVIDIA))
    assert isinstance(config, FlashDecodeSubgroup)
    assert run(runtime, asked, config) is None
    assert not isinstance(ATTENTION.default(asked, runtime.profile), FlashDecodeSubgroup)


@pytest.mark.parametrize("seq", [16, 4, 1])
def test_new_tokens_behind_a_filled_cache_see_all_that_came_before(runtime, seq):
    asked = problem(batch=3, seq=seq, kv_seq=50, capacity=64, causal=True, lengths=True, layout="bhsd")
    configs = [CONFIGS["naive"], exchange(runtime, "more scores than lanes")]
    configs += [] if slow(runtime) else [CONFIGS["flash"], CONFIGS["decode"]]
    assert [run(runtime, asked, config) for config in configs] == [None] * len(configs)


@pytest.mark.parametrize("name", ["naive", "flash", "decode", "decode-ahead", *EXCHANGES])
def test_queries_that_see_nothing_give_exactly_0_and_no_nan(runtime, name):
    asked = problem(**UNSEEN)
    data, o, lse = assert_unseen_queries_are_0(runtime, asked, named(runtime, name))
    assert np.allclose(o[0, 5], data["v"].reshape(2, 40, 2, 8)[0, 39], atol=1e-5)
    expected = ATTENTION.reference(asked, data)
    assert np.abs(lse[0, :, 5] - expected["lse"][0, :, 5]).max() < 1e-4


@pytest.mark.parametrize("name", ["naive", "flash-pieces", "flash-tall", "decode-steps"])
def test_f16_is_right_or_refused_by_name(runtime, name):
    for changes in ({"causal": True, "mask": "bias"}, {"seq": 3, "kv_seq": 33, "layout": "bhsd"}):
        asked = problem(dtype="f16", **changes)
        if not lacks_f16(runtime, asked, CONFIGS[name]):
            assert run(runtime, asked, CONFIGS[name]) is None


@pytest.mark.parametrize("name", EXCHANGES)
def test_f16_in_subgroups_is_right_or_refused_by_name(runtime, name):
    asked, config = problem(seq=3, kv_seq=70, heads=4, kv_heads=2, dtype="f16"), exchange(runtime, name)
    if not lacks_f16(runtime, asked, config):
        assert run(runtime, asked, config) is None


@pytest.mark.parametrize("name", CHAINS)
def test_products_summed_in_f16_are_right_or_refused_by_name(runtime, name):
    for changes in ({}, {"causal": True, "lse": True}):
        asked = problem(seq=70, head_dim=16, dtype="f16", accumulate="f16", **changes)
        if not lacks_f16(runtime, asked, CHAINS[name]):
            assert run(runtime, asked, CHAINS[name]) is None


def test_products_that_f16_does_not_hold_are_right(runtime):
    asked = problem(dtype="f16", scale=5e-5, head_dim=64)
    given = ATTENTION.inputs(asked, 1, integers=False)
    q, k = (given[name].astype(np.float64).reshape(20, 2, 64) for name in "qk")
    assert np.abs(np.einsum("ihd,jhd->hij", q, k)).max() > np.finfo(np.float16).max
    for name in ("naive", "flash", "decode"):
        if not lacks_f16(runtime, asked, CONFIGS[name]):
            assert run(runtime, asked, CONFIGS[name]) is None


# Grids.


def test_workgroups_without_a_tile_leave_everything_alone(runtime):
    asked = problem(lse=True)
    for name in ("naive", "flash", "decode", "more scores than lanes"):
        config = named(runtime, name)
        plan = ATTENTION.plan(asked, config, specialize=False)
        more = tuple(structs.replace(step, workgroups=150) for step in plan.passes)
        assert complaint(runtime, asked, plan, structs.replace(plan, passes=more)) is None


def test_grids_beyond_a_dimension_are_split(runtime):
    asked = problem(batch=64, heads=32, seq=33, kv_seq=3, head_dim=4)
    for config in (Naive(workgroup=32), flash(tile_d=4, unroll=4)):
        plan = ATTENTION.plan(asked, config, specialize=False)
        grid = split_grid(evaluate(plan.passes[0].workgroups, plan.sizes), 4096)
        if slow(runtime) and isinstance(config, Flash):
            continue  # barriers are slow there
        assert grid[1] > 1
        if isinstance(config, Naive):
            assert evaluate(plan.passes[0].workgroups, plan.sizes) > 65_535
        assert run(runtime, asked, config) is None


# By chance.


@given(data=st.data())
@few_examples(10)
def test_any_masks_lengths_layouts_and_head_counts_are_right(runtime, data):
    asked = data.draw(problems())
    assert run(runtime, asked, Naive(workgroup=64)) is None
    names = [name for name in CONFIGS if name not in ("naive", "flash-tall")]
    names += EXCHANGES
    config = named(runtime, data.draw(st.sampled_from(names)))
    contiguous = asked.head_dim % 4 == 0 and asked.layout != "qkv-interleaved"
    if not slow(runtime):
        assert run(runtime, asked, config if contiguous else scalar(config)) is None


# What the checks are worth.

MUTANTS = {
    "sums of O are not rescaled": ("flash", r"o_(\d+)_(\d) \*= shrink_\2;", ""),
    "sums of rows are not rescaled": ("flash", r"l_(\d) \*= shrink_\1;", ""),
    "rows take only their own maximum": ("flash", r"most_(\d) = max\(most_\1, row_parts.*", ""),
    "splits are not weighted": ("decode", r"row_sum \+= (sum_\d+) \* weight_\d+;", r"row_sum += \1;"),
    "subgroups are not weighted": (
        "rows whose scores several lanes have",
        r"row_sum \+= (sum_\d+) \* weight_\d+;(?=[^@]*let at = )",
        r"row_sum += \1;",
    ),
    "the next step's keys are this one's": ("decode-ahead", r"kv0 \+ TILE_KV \+ slot", "kv0 + slot"),
    "slots are not weighted": ("decode", r"total \+= slot_sums(.*) \* weight;", r"total += slot_sums\1;"),
    "a key is forgotten": ("flash", r"key >= keys\)", "key + 1u >= keys)"),
    "lanes keep their sums": ("more scores than lanes", r"o_(\d+_\d) \+= subgroupShuffleXor.*", ""),
    "rows take only their own lanes' maximum": ("a score a lane", r"most = max\(most, subgroup.*", ""),
    "another row's exponentials": (
        "lanes that fill a subgroup",
        r"(p_of_1 = .*), group_lane \+ \d+u",
        r"\1, group_lane",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_online_softmax_does_not_pass(runtime, name):
    if slow(runtime):
        pytest.skip("what one adapter finds is enough")
    config, pattern, put = MUTANTS[name]
    asked = problem(seq=17, kv_seq=90)
    plan = ATTENTION.plan(asked, named(runtime, config), specialize=False)
    texts = [re.sub(pattern, put, step.wgsl) for step in plan.passes]
    assert texts != [step.wgsl for step in plan.passes]
    passes = tuple(structs.replace(step, wgsl=text) for step, text in zip(plan.passes, texts, strict=True))
    changed = structs.replace(plan, passes=passes)
    assert complaint(runtime, asked, plan, plan) is None
    assert "elements are wrong" in complaint(runtime, asked, plan, changed)


# Texts.


def test_every_kind_of_text_is_valid_for_tint_within_the_base_limits(tint):
    texts = {}
    kinds = {**FEATURES, **ODD}
    for (name, config), (index, kind) in product((CONFIGS | EXCHANGES).items(), enumerate(kinds)):
        if kind in ODD and name not in ("naive", *SCALAR):
            continue
        dtype = "f16" if index % 2 else "f32"
        asked = problem(**kinds[kind], dtype=dtype)
        chosen = scalar(config) if kind in ODD else config
        plan = ATTENTION.plan(asked, chosen, specialize=index % 3 == 0)
        texts |= {f"{name} {kind} {i}": step.wgsl for i, step in enumerate(plan.passes)}
    asked = problem(dtype="f16", accumulate="f16", head_dim=16)
    for name, config in CHAINS.items():
        texts[f"{name} chain"] = ATTENTION.plan(asked, config, specialize=False).passes[0].wgsl
    for dtype, head_dim, seq in product(("f32", "f16"), (3, 64, 128, 256, 512), (1, 64, 4096)):
        asked = AttentionProblem(heads=8, kv_heads=2, seq=seq, kv_seq=4096, head_dim=head_dim, dtype=dtype)
        plan = ATTENTION.plan(asked, ATTENTION.default(asked, None), specialize=False)
        assert list(limits.refusals(limits.needs(plan), limits.base_profile())) == (
            ["needs a feature the adapter lacks: shader-f16"] if dtype == "f16" else []
        )
        texts |= {f"{ATTENTION.label(asked)} {i}": step.wgsl for i, step in enumerate(plan.passes)}
    assert tint(texts) == {}
