"""GEMM with weights in 4 bits against float64, on every software stack, with poisoned and guarded buffers."""

import random
import re
from functools import cache
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from kernel_checks import (
    assert_finished,
    complaint,
    few_examples,
    lacks_f16,
    legal_configs_of,
    many_examples,
    roomy_profile,
    run,
    slow,
    with_first_pass,
)
from msgspec import structs
from wgsl_text import workgroup_memory, workgroup_size

import autotune
from autotune import limits, space
from autotune.cli import cli
from autotune.errors import InvalidConfig, InvalidProblem
from autotune.kernels.gemm_q4 import (
    GEMM_Q4,
    Blocked,
    GemmQ4Problem,
    Gemv,
    Naive,
    SplitK,
    dequantize,
    pack,
    unpack,
)
from autotune.kernels.gemm_q4.configs import depth_of, multiple_of, tile_of
from autotune.kernels.tiles import MAX_GEMV_M


def gemv(**changes):
    config = Gemv(
        rows=1,
        columns=1,
        lanes_n=4,
        lanes_k=8,
        words=1,
        unroll_k=1,
        staging="memory",
        dequant="subtract",
        reduce="tree",
    )
    return structs.replace(config, **changes)


def blocked(**changes):
    config = Blocked(tile_m=32, tile_n=32, tile_k=16, thread_m=4, thread_n=4, buffering="single", unroll_k=16)
    return structs.replace(config, **changes)


def split_k(*, splits, **changes):
    return SplitK(**blocked(**changes).parameters(), splits=splits)


CONFIGS = {
    "naive": Naive(workgroup_x=8, workgroup_y=4),
    "gemv": gemv(),
    "gemv-pairs": gemv(rows=2, columns=2, words=2, unroll_k=2),
    "gemv-quads": gemv(columns=4, lanes_n=2, lanes_k=16, words=4, unroll_k=2),
    "gemv-rows": gemv(rows=4, lanes_k=16, lanes_n=2, words=4),
    "gemv-eight-columns": gemv(columns=8, lanes_n=1, lanes_k=32, unroll_k=2),
    "gemv-converted-words": gemv(columns=2, dequant="convert"),
    "gemv-converted": gemv(columns=2, words=4, dequant="convert"),
    "gemv-pairs-converted": gemv(rows=2, columns=2, words=2, dequant="convert", reduce="subgroup"),
    "gemv-staged": gemv(columns=4, lanes_n=2, lanes_k=16, words=4, unroll_k=2, staging="workgroup"),
    "gemv-staged-rows": gemv(
        rows=2, columns=4, lanes_n=4, lanes_k=16, words=2, staging="workgroup", dequant="convert"
    ),
    "gemv-subgroups": gemv(columns=2, lanes_n=1, lanes_k=64, words=1, staging="workgroup", reduce="subgroup"),
    "gemv-few-lanes": gemv(columns=1, lanes_n=16, lanes_k=2, words=1, reduce="subgroup"),
    "blocked-single": blocked(),
    "blocked-prefetch": blocked(buffering="prefetch", tile_k=8, unroll_k=4),
    "blocked-double": blocked(buffering="double", unroll_k=8),
    "split": split_k(splits=3),
    "split-double": split_k(splits=4, buffering="double", tile_n=64, unroll_k=8),
    "blocked-tall": blocked(tile_m=64, thread_m=8, tile_k=32, buffering="prefetch", unroll_k=4),
    "blocked-wide": blocked(tile_m=16, tile_n=64, tile_k=32, unroll_k=8),
}
GROUPS = (16, 32, 64, 128)
each_config = pytest.mark.parametrize("name", CONFIGS)


def shapes(config):
    """Sizes around the tile and tiny ones, as (m, n, steps of k past whole rounds)."""
    rows, cols = tile_of(config)
    return [
        (rows + 1, cols + 1, 1),
        (7, 2 * cols + 5, 0),
        (max(rows - 1, 1), max(cols - 1, 1), -1),
        (1, 3, 1),
        (2 * rows + 3, 1, 0),
        (rows, cols, 0),
    ]


@each_config
def test_ragged_shapes_are_right(runtime, name):
    config = CONFIGS[name]
    group = GROUPS[list(CONFIGS).index(name) % len(GROUPS)]
    step = max(group, multiple_of(config))
    rounds = -(-depth_of(config) // step)
    wrong = {}
    for index, (m, n, extra) in enumerate(shapes(config)[: 2 if slow(runtime) else None]):
        k = max((1 + index % 3) * rounds + extra, 1) * step
        complaint = run(runtime, GemmQ4Problem(m=m, n=n, k=k, group=group), config, integers=index % 2 == 1)
        if complaint is not None:
            wrong[m, n, k] = complaint
    assert wrong == {}


@pytest.mark.parametrize("name", ["naive", "gemv-quads", "blocked-wide"])
def test_sizes_baked_into_the_text_are_right(runtime, name):
    problem = GemmQ4Problem(m=9, n=37, k=96)
    assert run(runtime, problem, CONFIGS[name], specialize=True) is None


@pytest.mark.parametrize(
    "sizes", [(1, 1, 16), (1, 133, 512), (2, 4099, 1040), (5, 70, 272), (16, 9, 4096), (40, 257, 80)]
)
def test_the_default_is_right(runtime, sizes):
    m, n, k = sizes
    problem = GemmQ4Problem(m=m, n=n, k=k, group=16)
    config = GEMM_Q4.default(problem, runtime.profile)
    assert run(runtime, problem, config) is None
    assert run(runtime, problem, config, integers=True) is None


@pytest.mark.parametrize("name", ["naive", "gemv-pairs", "gemv-rows", "blocked-prefetch", "blocked-wide"])
def test_f16_is_right_or_refused_by_name(runtime, name):
    config = CONFIGS[name]
    for m, n, k in [(1, 35, 64), (33, 70, 192)]:
        problem = GemmQ4Problem(m=m, n=n, k=k, dtype="f16")
        if not lacks_f16(runtime, problem, config):
            assert run(runtime, problem, config) is None
            assert run(runtime, problem, config, integers=True) is None


def test_workgroups_without_a_tile_leave_everything_alone(runtime):
    for name in ("naive", "gemv-quads", "blocked-single"):
        problem = GemmQ4Problem(m=3, n=18, k=64)
        plan = GEMM_Q4.plan(problem, CONFIGS[name], specialize=False)
        assert complaint(runtime, problem, plan, with_first_pass(plan, workgroups=90)) is None


@pytest.mark.parametrize("name", ["naive", "gemv", "gemv-converted-words", "blocked-single"])
def test_every_code_at_every_place_of_a_word_has_its_value(runtime, name):
    # Row n of W has code n everywhere but at place n // 16, and the row of A picks that place out.
    codes = np.full((128, 16), 3)
    for n in range(128):
        codes[n, n // 16] = n % 16
    a = np.eye(16, dtype=np.float32)[:8]
    inputs = {"a": a, "weights": pack(codes), "scales": np.full((128, 1), 0.5, np.float32)}
    problem = GemmQ4Problem(m=8, n=128, k=16, group=16)
    plan = GEMM_Q4.plan(problem, CONFIGS[name], specialize=False)
    runtime.load({key: value.tobytes() for key, value in inputs.items()} | {"c": bytes(4 * 8 * 128)})
    got = np.frombuffer(runtime.run(runtime.compile(plan))["c"], np.float32).reshape(8, 128)
    assert np.array_equal(got, (codes[:, :8].T - 8) * 0.5)
    assert np.array_equal(got, GEMM_Q4.reference(problem, inputs)["c"])


# Configs by chance.


def unrolled(config):
    """Multiply-adds written out, by which compile times go."""
    if isinstance(config, Blocked):
        return config.unroll_k * config.thread_m * config.thread_n
    return config.unroll_k * config.rows * config.columns * config.step


@cache
def legal_configs(m):
    """Configs of the shipped space that base limits allow and that compile quickly."""
    problem = GemmQ4Problem(m=m, n=256, k=4096)
    found = legal_configs_of(("gemv", "blocked"), problem, limits.base_profile())
    return [
        config
        for configs in found.values()
        for config in random.Random(0).sample([c for c in configs if unrolled(c) <= 256], 100)
    ]


@st.composite
def cases(draw):
    """A legal config and a small ragged problem it can run."""
    config = draw(st.sampled_from(legal_configs(16)))
    rows, cols = tile_of(config)
    group = draw(st.sampled_from(GROUPS))
    step = max(group, multiple_of(config))
    return config, GemmQ4Problem(
        m=draw(st.integers(1, 2 * rows + 3)),
        n=draw(st.integers(1, 2 * cols + 3)),
        k=draw(st.integers(1, max(min(3 * depth_of(config), 2000) // step, 2))) * step,
        group=group,
    )


@few_examples(6)
@given(data=st.data())
def test_legal_configs_are_right_at_ragged_shapes(runtime, data):
    config, problem = data.draw(cases())
    assert run(runtime, problem, config, integers=data.draw(st.booleans())) is None


# Without a device.

problems = st.builds(
    lambda m, n, groups, group, dtype: GemmQ4Problem(m=m, n=n, k=groups * group, group=group, dtype=dtype),
    m=st.one_of(st.integers(1, 20), st.integers(1, 5000)),
    n=st.integers(1, 20_000),
    groups=st.integers(1, 200),
    group=st.sampled_from(GROUPS),
    dtype=st.sampled_from(["f32", "f16"]),
)


@given(problems)
def test_the_default_is_legal_for_any_problem_within_the_base_limits(problem):
    roomy = roomy_profile()
    for config in (GEMM_Q4.default(problem, None), GEMM_Q4.baseline(problem, None)):
        assert list(space.refusals(GEMM_Q4, problem, config, roomy)) == []


@many_examples
@given(cases(), st.sampled_from(["f32", "f16"]), st.booleans())
def test_a_plan_needs_what_was_told_without_rendering_and_what_its_text_declares(case, dtype, baked):
    config, problem = case
    problem = structs.replace(problem, dtype=dtype)
    plan = GEMM_Q4.plan(problem, config, specialize=baked)
    assert GEMM_Q4.resources(problem, config) == limits.needs(plan)
    (step,) = plan.passes
    assert workgroup_memory(step.wgsl) == step.workgroup_bytes
    assert workgroup_size(step.wgsl) == step.workgroup_size
    assert ("var<uniform>" in step.wgsl) is not baked
    assert_finished(step.wgsl)


@many_examples
@given(cases())
def test_neighbours_are_problems_that_the_same_config_can_run(case):
    config, problem = case
    multiples = GEMM_Q4.plan(problem, config, specialize=False).multiples
    for other in GEMM_Q4.neighbours(problem, config):
        assert (other.group, other.dtype) == (problem.group, problem.dtype)
        assert other.k % multiples["k"] == 0


@each_config
def test_every_pass_needs_what_its_text_declares(name):
    for n, dtype in ((64, "f32"), (37, "f16")):
        problem = GemmQ4Problem(m=4, n=n, k=256, dtype=dtype)
        plan = GEMM_Q4.plan(problem, CONFIGS[name], specialize=False)
        assert GEMM_Q4.resources(problem, CONFIGS[name]) == limits.needs(plan)
        for step in plan.passes:
            assert workgroup_memory(step.wgsl) == step.workgroup_bytes
            assert workgroup_size(step.wgsl) == step.workgroup_size
            assert_finished(step.wgsl)


def test_every_kind_of_text_is_valid_for_tint_within_the_base_limits(tint):
    some = random.Random(1).sample(legal_configs(16), 40)
    configs = CONFIGS | {str(config): config for config in some}
    texts = {}
    for (name, config), (group, dtype, baked) in product(
        configs.items(), [(16, "f32", False), (32, "f16", True), (128, "f16", False)]
    ):
        problem = GemmQ4Problem(m=33, n=37, k=256, group=group, dtype=dtype)
        texts[f"{name} {group} {dtype}"] = GEMM_Q4.plan(problem, config, specialize=baked).passes[0].wgsl
    assert tint(texts) == {}


def test_the_space_has_a_few_thousand_points_at_most():
    for m in (1, 8, 16, 512):
        problem = GemmQ4Problem(m=m, n=14336, k=4096)
        found = space.legal(GEMM_Q4, problem, limits.base_profile())
        assert 100 < len(found) < 4000
        assert any(point[0] == "gemv" for point in found.points) is (m <= MAX_GEMV_M)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"k": 100}, "k = 100 is not a multiple of the group, 32"),
        ({"k": 64, "group": 128}, "k = 64 is not a multiple of the group, 128"),
        ({"group": 24}, "the group must be one of 16, 32, 64, 128, not 24"),
        ({"m": 0}, "m must be a whole number of at least 1, not 0"),
        ({"dtype": "f64"}, "the element type must be f32 or f16, not 'f64'"),
        ({"accumulate": "f16"}, "sums are kept in f32, not 'f16'"),
        ({"m": 1 << 20, "k": 1 << 10}, "a takes 4294967296 B"),
        ({"n": 1 << 20, "k": 1 << 13}, "weights takes 4294967296 B"),
    ],
)
def test_problems_that_cannot_be_are_refused_in_one_line(changes, reason):
    with pytest.raises(InvalidProblem, match=re.escape(reason)) as caught:
        GemmQ4Problem(**({"m": 8, "n": 8, "k": 64} | changes))
    assert "\n" not in str(caught.value)


def test_loads_longer_than_k_allows_are_refused():
    problem = GemmQ4Problem(m=1, n=64, k=48, group=16)
    with pytest.raises(InvalidConfig, match="a load is longer"):
        autotune.render(problem, CONFIGS["gemv-quads"])
    with pytest.raises(InvalidConfig, match="K not a multiple"):
        autotune.render(problem, CONFIGS["blocked-wide"])


def test_the_command_line_knows_the_family(tmp_path):
    arguments = ["--n", "64", "--k", "64", "--group", "16", "--cache-dir", str(tmp_path)]
    answer = CliRunner().invoke(cli, ["best", "gemm_q4", *arguments])
    assert answer.exit_code == 0, answer.output
    assert "gemm_q4 1x64x64-group16-f32" in answer.output
    without = CliRunner().invoke(cli, ["best", "gemm_q4"])
    assert str(without.exception) == "give --n and --k"


# Packing.


@given(
    arrays.arrays(
        np.uint8,
        st.tuples(st.integers(0, 5), st.integers(0, 6).map(lambda words: 8 * words)),
        elements=st.integers(0, 15),
    )
)
def test_unpack_undoes_pack(codes):
    words = pack(codes)
    assert words.dtype == np.uint32
    assert words.shape == (codes.shape[0], codes.shape[1] // 8)
    assert np.array_equal(unpack(words), codes)


def test_words_have_the_lowest_nibble_first_and_the_byte_order_of_matmulnbits():
    codes = [[1, 2, 3, 4, 5, 6, 7, 15]]
    assert pack(codes).tolist() == [[0xF7654321]]
    pairs = np.array(codes, np.uint8).reshape(1, 4, 2)
    as_bytes = pairs[..., 0] | pairs[..., 1] << 4
    assert pack(codes).astype("<u4").tobytes() == as_bytes.tobytes()


def test_dequantized_values_are_codes_less_8_times_the_scale_of_their_group():
    codes = np.arange(64).reshape(2, 32) % 16
    values = dequantize(pack(codes), np.array([[1, 2], [0.5, 4]], np.float32))
    assert values[0, 0] == -8
    assert values[0, 17] == -14
    assert values[1, 15] == 3.5
    assert values[1, 31] == 28


@pytest.mark.parametrize("codes", [[[16] * 8], [[-1] * 8], [[1] * 7], 3, [[0.5] * 8]], ids=str)
def test_what_are_no_codes_is_not_packed(codes):
    with pytest.raises(ValueError, match="codes"):
        pack(codes)
