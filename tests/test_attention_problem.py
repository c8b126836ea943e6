"""What an attention problem is, which configs it allows, and what the commands know of it."""

import json
import random
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, reject
from hypothesis import strategies as st
from kernel_checks import assert_finished, legal_configs_of, many_examples, on_nvidia, roomy_profile
from msgspec import structs
from wgsl_text import workgroup_memory, workgroup_size

from autotune import limits, space
from autotune.cli import cli
from autotune.errors import InvalidProblem
from autotune.expression import ceil_div
from autotune.kernels.attention import ATTENTION, AttentionProblem, Flash, FlashDecode
from autotune.kernels.attention.numeric import _WIDEST
from autotune.kernels.attention.problem import LARGEST_FACTOR, SMALLEST_FACTOR
from autotune.kernels.attention.strides import strides
from autotune.model import DTYPE_BYTES

HALF = structs.replace(limits.base_profile(), features=("shader-f16",))


def problem(**changes):
    return AttentionProblem(**{"heads": 8, "seq": 64, "head_dim": 32, **changes})


SHAPES = {
    "square": problem(),
    "causal f16": problem(dtype="f16", causal=True, heads=2, kv_heads=1, head_dim=128, seq=300),
    "few queries": problem(seq=2, kv_seq=1000, kv_heads=2, mask="bias", sinks=True, lse=True),
    "packed": problem(layout="qkv-split", seq=12, kv_heads=4, head_dim=64, v_head_dim=40),
    "odd": problem(head_dim=30, seq=9),
}


@cache
def configs(name):
    """Some configs of the shipped space for a shape."""
    variants = ("naive", "flash", "flash_decode", "flash_decode_subgroup")
    found = legal_configs_of(variants, SHAPES[name], on_nvidia(roomy_profile()))
    return [c for some in found.values() for c in random.Random(0).sample(some, min(len(some), 60))]


@given(data=st.data(), name=st.sampled_from(list(SHAPES)), baked=st.booleans())
@many_examples
def test_a_plan_needs_what_was_told_without_rendering_and_what_its_text_declares(data, name, baked):
    asked = SHAPES[name]
    config = data.draw(st.sampled_from(configs(name)))
    plan = ATTENTION.plan(asked, config, specialize=baked)
    assert limits.needs(plan) == ATTENTION.resources(asked, config)
    for step in plan.passes:
        assert_finished(step.wgsl)
        assert workgroup_size(step.wgsl) == step.workgroup_size
        declared = workgroup_memory(step.wgsl)
        assert declared <= step.workgroup_bytes <= declared + 4 * 16  # each variable is rounded up
        for buffer in plan.buffers:
            assert (f"@binding({buffer.binding}) " in step.wgsl) is (buffer.name in step.buffers)


@given(data=st.data())
@many_examples
def test_splits_of_keys_are_proved_at_another_size_with_the_very_texts(data):
    asked = SHAPES["few queries"]
    config = data.draw(
        st.sampled_from([c for c in configs("few queries") if c.variant.startswith("flash_d")])
    )

    def texts(other):
        return [step.wgsl for step in ATTENTION.plan(other, config, specialize=False).passes]

    near = ATTENTION.neighbours(asked, config)
    assert all(texts(other) == texts(asked) for other in near)
    assert {min(ceil_div(other.kv_seq, config.split), 3) for other in near} >= {1, 2, 3}


dims = st.integers(1, 256) | st.integers(1, 2000)


@given(
    heads=st.sampled_from([1, 6, 32]),
    kv_heads=st.sampled_from([0, 1]),
    batch=st.sampled_from([1, 1, 300]),
    seq=st.integers(1, 8) | st.integers(1, 5000),
    head_dim=dims,
    v_head_dim=dims,
    kv_seq=st.integers(1, 64) | st.integers(1, 5000),
    dtype=st.sampled_from(["f32", "f16"]),
)
@example(heads=24, kv_heads=2, batch=1, seq=8, head_dim=1808, v_head_dim=204, kv_seq=1304, dtype="f16")
@example(heads=21, kv_heads=3, batch=227, seq=7, head_dim=15, v_head_dim=15, kv_seq=7, dtype="f32")
@example(heads=32, kv_heads=4, batch=270, seq=6, head_dim=16, v_head_dim=475, kv_seq=35, dtype="f16")
@many_examples
def test_the_default_is_legal_for_any_problem_within_the_base_limits(**sizes):
    try:
        asked = AttentionProblem(**sizes)
    except InvalidProblem:  # larger than can be indexed
        reject()
    config, roomy = ATTENTION.default(asked, None), roomy_profile()
    assert list(space.refusals(ATTENTION, asked, config, roomy)) == []
    reasons = list(space.refusals(ATTENTION, asked, config, HALF))
    own = max(asked.elements().values()) * DTYPE_BYTES[asked.dtype]
    assert reasons == [] or own > HALF.limits["maxStorageBufferBindingSize"]
    nvidia = on_nvidia(roomy)
    assert list(space.refusals(ATTENTION, asked, ATTENTION.default(asked, nvidia), nvidia)) == []


@pytest.mark.parametrize("name", SHAPES)
def test_neighbours_are_small_problems_of_the_same_kind(name):
    asked = SHAPES[name]
    for config in configs(name):
        for near in ATTENTION.neighbours(asked, config):
            assert ATTENTION.unfit(near, config) is None
            assert (near.layout, near.causal, near.mask, near.dtype, near.head_dim) == (
                asked.layout, asked.causal, asked.mask, asked.dtype, asked.head_dim,
            )  # fmt: skip


def test_a_space_holds_some_ten_thousand_points_and_prefers_the_right_variants():
    for asked, variant in (
        (problem(seq=4096, head_dim=64), Flash),
        (problem(seq=1, kv_seq=4096), FlashDecode),
    ):
        found = space.legal(ATTENTION, asked, limits.base_profile())
        assert 500 < len(found) < 50_000
        assert isinstance(ATTENTION.default(asked, None), variant)


# Problems.


def test_one_problem_has_one_spelling():
    assert problem() == problem(
        kv_heads=8, kv_seq=64, v_head_dim=32, capacity=64, scale=32**-0.5, mask_broadcast="q"
    )
    assert ATTENTION.distance(problem(), problem(kv_heads=8)) == 0


def test_for_few_queries_the_same_group_of_heads_is_nearer_than_the_same_batch():
    asked = AttentionProblem(heads=32, kv_heads=8, seq=1, kv_seq=4096, head_dim=128)
    alike = AttentionProblem(batch=8, heads=32, kv_heads=8, seq=1, kv_seq=2048, head_dim=128)
    alone = AttentionProblem(heads=32, seq=1, kv_seq=4096, head_dim=128)
    assert ATTENTION.distance(asked, alike) < ATTENTION.distance(asked, alone)
    assert ATTENTION.distance(asked, alone) == ATTENTION.distance(alone, asked)
    long = [structs.replace(p, seq=4096, kv_seq=4096, capacity=4096) for p in (asked, alike, alone)]
    assert ATTENTION.distance(*long[:2]) > ATTENTION.distance(long[0], long[2])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"heads": 6, "kv_heads": 4}, "6 heads cannot share 4 KV heads evenly"),
        ({"kv_seq": 70, "capacity": 69}, "a capacity of 69 rows does not hold 70 keys"),
        ({"layout": "qkv", "kv_seq": 65}, "qkv has as many keys as queries"),
        ({"layout": "qkv-interleaved", "v_head_dim": 16}, "qkv-interleaved needs v_head_dim = head_dim"),
        ({"layout": "sbhd"}, "layout must be one of bshd, bhsd"),
        ({"seq": 0}, "seq must be a whole number of at least 1, not 0"),
        ({"kv_heads": -1}, "kv_heads must be 0 or a whole number of at least 1, not -1"),
        ({"window": -1}, "window must be a whole number of at least 0, not -1"),
        ({"window": 1.5}, "window must be a whole number of at least 0, not 1.5"),
        ({"scale": float("nan")}, "scale must be a number of at least 0, not nan"),
        ({"softcap": 1e9}, "softcap must be at most 10000, not 1000000000.0"),
        ({"softcap": 1e-40}, "softcap must be 0, or at least 1e-20 for f32 to compute with it, not 1e-40"),
        ({"scale": 5e-324}, "scale must be 0, or at least 1e-20"),
        ({"scale": -1.0}, "scale must be a number of at least 0, not -1.0"),
        ({"window": 1 << 30}, "window must be at most 1073741823, not 1073741824"),
        ({"window": 10**400}, "window must be at most 1073741823, not a number of many digits"),
        ({"capacity": 1 << 32}, "capacity must be at most 4294967295, what WGSL can index, not 4294967296"),
        ({"dtype": "f64"}, "dtype must be one of f32, f16"),
        ({"seq": 1 << 22, "kv_seq": 1, "heads": 64}, "q takes 34359738368 B"),
        ({"mask": "bias", "seq": 1 << 16, "kv_seq": 1 << 16}, "mask takes 17179869184 B"),
    ],
)
def test_problems_that_cannot_be_are_refused_in_one_line(changes, reason):
    with pytest.raises(InvalidProblem, match=reason.replace("(", r"\(")):
        problem(**changes)


@pytest.mark.parametrize("seq", [0, -1])
@pytest.mark.parametrize("decode", [False, True])
def test_the_option_that_was_given_is_the_one_that_is_blamed(decode, seq):
    given = {option.name: option.default for option in ATTENTION.options}
    given |= {"heads": 1, "head_dim": 8, "seq": seq, "decode": decode}
    with pytest.raises(InvalidProblem, match=rf"\Aseq must be a whole number of at least 1, not {seq}"):
        ATTENTION.problem_from_options(given)


@pytest.mark.parametrize("scale", [0.0, SMALLEST_FACTOR, LARGEST_FACTOR])
@pytest.mark.parametrize("softcap", [SMALLEST_FACTOR, LARGEST_FACTOR])
def test_what_is_computed_of_the_smallest_and_largest_factors_is_normal_in_f32(scale, softcap):
    asked = problem(scale=scale, softcap=softcap)
    wide = _WIDEST * asked.factor / softcap
    for value in (asked.factor * 1.44, softcap * 1.44, asked.factor / softcap, wide, wide * _WIDEST):
        assert 2.0**-126 < value < 2.0**127


@pytest.mark.parametrize("scale", [0.0, SMALLEST_FACTOR, LARGEST_FACTOR])
@pytest.mark.parametrize("softcap", [SMALLEST_FACTOR, LARGEST_FACTOR])
def test_texts_with_the_smallest_and_largest_factors_baked_in_compile(tint, scale, softcap):
    asked = problem(scale=scale, softcap=softcap)
    configs = {"default": ATTENTION.default(asked, None), "naive": ATTENTION.baseline(asked, None)}
    plans = {name: ATTENTION.plan(asked, config, specialize=True) for name, config in configs.items()}
    texts = {f"{name} {i}": step.wgsl for name, plan in plans.items() for i, step in enumerate(plan.passes)}
    assert tint(texts) == {}


def test_scores_that_cannot_be_indexed_rule_the_naive_kernel_out_alone():
    asked = problem(seq=1 << 14, heads=16)
    assert ATTENTION.unfit(asked, ATTENTION.baseline(asked, None)) is not None
    assert ATTENTION.unfit(asked, ATTENTION.default(asked, None)) is None


def test_operations_are_counted_as_the_field_does():
    assert ATTENTION.flops(problem()) == 4 * 8 * 64 * 64 * 32
    assert ATTENTION.flops(problem(causal=True)) == 2 * 8 * 64 * 64 * 32
    assert ATTENTION.flops(problem(causal=True, seq=1)) < ATTENTION.flops(problem(seq=2))
    assert ATTENTION.flops(problem(window=8, causal=True)) == 4 * 8 * 64 * 8 * 32


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "qkv", "qkv-split", "qkv-interleaved"])
def test_every_element_has_a_place_of_its_own(layout):
    asked = problem(batch=2, heads=6, kv_heads=3, seq=5, head_dim=4, layout=layout)
    s = strides(asked)
    places = []
    for x, heads in (("q", 6), ("k", 3), ("v", 3)):
        b, h, row, i = np.ogrid[:2, :heads, :5, :4]
        head = h // 2 * s["q_group"] + h % 2 * s["q_head"] if x == "q" else h * s[f"{x}_head"]
        at = b * s[f"{x}_batch"] + head + row * s[f"{x}_row"] + i * s.get("element", 1)
        places.append((at + s.get(f"{x}_start", 0)).ravel())
    together = [np.concatenate(places)] if asked.packed else places
    for found in together:
        assert np.array_equal(np.sort(found), np.arange(found.size))


# Commands.


def test_the_command_line_knows_the_family(tmp_path):
    words = [
        "--batch",
        "2",
        "--heads",
        "8",
        "--kv-heads",
        "2",
        "--seq",
        "4096",
        "--head-dim",
        "64",
        "--decode",
    ]
    cache = ["--cache-dir", str(tmp_path / "cache")]
    done = CliRunner().invoke(cli, ["best", "attention", *words, *cache, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["config"]["variant"] == "flash_decode"
    words = [
        "--heads",
        "4",
        "--seq",
        "64",
        "--head-dim",
        "64",
        "--causal",
        "--layout",
        "qkv",
        "--window",
        "9",
    ]
    out = ["--portable", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, ["export", "attention", *words, *cache, *out])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["sizesFixed"] == ["head_dim", "v_head_dim"]
    assert manifest["sizes"]["q_row"] == 3 * 4 * 64
    assert manifest["requiredLimits"] == {}
    for words, reason in (
        (["--heads", "4"], "give --seq and --head-dim"),
        (["--heads", "4", "--head-dim", "8", "--decode"], "give --seq"),
        (["--heads", "4", "--head-dim", "8", "--decode", "--seq", "5", "--kv-seq", "6"], "one query"),
    ):
        done = CliRunner().invoke(cli, ["best", "attention", *words, *cache])
        assert isinstance(done.exception, InvalidProblem)
        assert reason in str(done.exception)
