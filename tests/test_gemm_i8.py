"""int8 GEMM kernels against exact sums, on every stack, with poisoned outputs and guarded buffers."""

import random
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from kernel_checks import (
    assert_finished,
    complaint,
    few_examples,
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
from autotune.errors import InvalidConfig, InvalidProblem
from autotune.kernels.gemm_i8 import GEMM_I8, Blocked, GemmI8Problem, Naive, pack, unpack
from autotune.kernels.gemm_i8.configs import depth_of, tile_of, vector_of
from autotune.kernels.gemm_i8.family import GemmI8
from autotune.kernels.gemm_i8.problem import K_LIMIT


def blocked(**changes):
    config = Blocked(
        tile_m=32,
        tile_n=32,
        tile_k=16,
        thread_m=4,
        thread_n=4,
        lanes_n=8,
        vector=1,
        pad=0,
        buffering="single",
        unroll_k=16,
    )
    return structs.replace(config, **changes)


DEEP = {"vector": 4, "tile_k": 64, "pad": 1}
CONFIGS = {
    "naive": Naive(workgroup_x=8, workgroup_y=4),
    "scalar-single": blocked(),
    "scalar-prefetch": blocked(buffering="prefetch", tile_m=16, tile_n=64, thread_m=2, thread_n=8),
    "scalar-double": blocked(buffering="double", thread_m=2, tile_k=32, unroll_k=32, pad=1),
    "vec4-single": blocked(thread_m=2, unroll_k=32, **DEEP),
    "vec4-prefetch": blocked(buffering="prefetch", tile_m=64, lanes_n=4, **DEEP),
    "vec4-double": blocked(vector=4, buffering="double", tile_n=64, thread_n=8, thread_m=2, tile_k=32),
}
each_config = pytest.mark.parametrize("name", CONFIGS)
one_of_each = pytest.mark.parametrize("name", ["naive", "scalar-double", "vec4-prefetch"])


def ragged(config, *, turn, every_pair):
    """Sizes around the tile and tiny ones, as (m, n, k).

    All values of all three sizes occur among three turns; with `every_pair`, all pairs of m and n too.
    """
    rows, cols = tile_of(config)
    depth = max(depth_of(config), 16)
    ms = [rows - 1, rows + 1, 1, rows, 3, 2 * rows + 5]
    ns = [cols + 1, 1, cols - 1, 2 * cols + 3, cols, 7]
    ks = [depth + 16, 16, 3 * depth, 5 * depth, depth, 48]
    if vector_of(config) == 1:
        ks = [depth + 4, 4, 3 * depth + 8, depth - 4, 12, depth]
    if every_pair:
        return [(m, n, ks[(i + j) % 6]) for i, m in enumerate(ms) for j, n in enumerate(ns)]
    return [(ms[i], ns[(i + turn) % 6], ks[(i + 2 * turn) % 6]) for i in range(turn % 3, 6, 3)]


@each_config
def test_ragged_shapes_are_right(runtime, name):
    config = CONFIGS[name]
    wrong = {}
    shapes = ragged(config, turn=list(CONFIGS).index(name), every_pair=not slow(runtime))
    for index, (m, n, k) in enumerate(shapes):
        complaint = run(runtime, GemmI8Problem(m=m, n=n, k=k), config, integers=index % 2 == 1)
        if complaint is not None:
            wrong[m, n, k] = complaint
    assert wrong == {}


@one_of_each
def test_sizes_baked_into_the_text_are_right_at_ragged_shapes(runtime, name):
    config = CONFIGS[name]
    rows, cols = tile_of(config)
    problem = GemmI8Problem(m=rows + 1, n=cols + 3, k=48 + 4 * vector_of(config))
    assert run(runtime, problem, config, specialize=True, integers=True) is None


@pytest.mark.parametrize("name", ["scalar-double", "vec4-double"])
def test_an_odd_number_of_double_buffered_tiles_is_right(runtime, name):
    for tiles in (3,) if slow(runtime) else (1, 3, 13):
        problem = GemmI8Problem(m=40, n=70, k=tiles * CONFIGS[name].tile_k)
        assert run(runtime, problem, CONFIGS[name], integers=True) is None


@pytest.mark.parametrize(
    ("config", "broken"),
    [
        (blocked(tile_m=64, tile_n=128, thread_m=8), "tile larger than twice the matrix"),
        (blocked(tile_m=64, tile_n=128, thread_m=16, thread_n=16), "register block too large"),
        (blocked(pad=1), "padding"),
        (blocked(), "scalar access where vec4 is possible"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_only_spares_the_search_is_right_all_the_same(runtime, config, broken):
    problem = GemmI8Problem(m=21, n=33, k=80)
    reasons = list(GEMM_I8.refusals(problem, config))
    assert any(broken in reason for reason in reasons)
    assert GEMM_I8.unfit(problem, config) is None
    assert run(runtime, problem, config, integers=True) is None


class Extreme(GemmI8):
    """Only the least and the greatest int8; the first rows of A and B give the largest sums there are."""

    def inputs(self, problem, seed, *, integers):
        data = super().inputs(problem, seed, integers=integers)
        for name in ("a", "b"):
            values = np.where(unpack(data[name]) < 0, -128, 127).astype(np.int8)
            values[0] = -128
            values[-1, :] = -128 if name == "a" else 127
            data[name] = pack(values)
        return data


@each_config
def test_extreme_values_are_summed_exactly(runtime, name):
    k = 1008 if vector_of(CONFIGS[name]) == 4 else 1012
    for m, n in [(35, 3)] if slow(runtime) else [(35, 3), (2, 37), (33, 70)]:
        problem = GemmI8Problem(m=m, n=n, k=k)
        assert run(runtime, problem, CONFIGS[name], integers=True, family=Extreme()) is None


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_longest_k_does_not_overflow(runtime, sign):
    class Longest(GemmI8):
        def inputs(self, problem, seed, *, integers):  # noqa: ARG002  always the same data
            one = np.ones(1, np.float32)
            a = np.full((1, problem.k), -128, np.int8)
            b = a if sign > 0 else np.full((1, problem.k), 127, np.int8)
            return {"a": pack(a), "b": pack(b), "scale_a": one, "scale_b": one}

    problem = GemmI8Problem(m=1, n=1, k=K_LIMIT - 4)
    assert run(runtime, problem, GEMM_I8.default(problem, runtime.profile), family=Longest()) is None


@pytest.mark.parametrize(
    "sizes", [(1, 1, 4), (1, 300, 64), (300, 1, 60), (257, 65, 132), (16, 33, 16)], ids=str
)
def test_the_default_is_right(runtime, sizes):
    m, n, k = sizes
    problem = GemmI8Problem(m=m, n=n, k=k)
    config = GEMM_I8.default(problem, runtime.profile)
    assert list(space.refusals(GEMM_I8, problem, config, runtime.profile)) == []
    assert run(runtime, problem, config) is None


def test_more_workgroups_than_one_dimension_holds_reach_every_tile(runtime):
    config = Naive(workgroup_x=1, workgroup_y=1)
    problem = GemmI8Problem(m=257, n=257, k=4)
    needs = GEMM_I8.resources(problem, config)[0]
    assert needs.workgroups > runtime.profile.limits["maxComputeWorkgroupsPerDimension"]
    assert run(runtime, problem, config, integers=True) is None


@one_of_each
def test_workgroups_without_a_tile_leave_everything_alone(runtime, name):
    problem = GemmI8Problem(m=33, n=36, k=16)
    plan = GEMM_I8.plan(problem, CONFIGS[name], specialize=False)
    assert complaint(runtime, problem, plan, with_first_pass(plan, workgroups=500)) is None


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("let words = sizes.k / 4u;", "let words = sizes.k / 4u - 1u;"),
        ("* scale_b[col]", "* scale_b[row]"),
        ("f32(sum)", "f32(sum + 1i)"),
    ],
    ids=["one word less", "the wrong scale", "off by one"],
)
def test_a_kernel_that_is_wrong_by_little_is_caught(runtime, right, wrong, integers):
    problem = GemmI8Problem(m=20, n=30, k=256)
    plan = GEMM_I8.plan(problem, CONFIGS["naive"], specialize=False)
    text = plan.passes[0].wgsl
    assert right in text
    changed = with_first_pass(plan, wgsl=text.replace(right, wrong))
    assert "elements are wrong" in complaint(runtime, problem, plan, changed, integers=integers)


# Configs by chance.


@cache
def legal_configs(vector):
    """Configs of the shipped space that base limits allow and that compile quickly."""
    problem = GemmI8Problem(m=64, n=64, k=256 if vector == 4 else 252)
    configs = legal_configs_of(("blocked",), problem, limits.base_profile())["blocked"]
    return [c for c in configs if c.unroll_k * c.thread_m * c.thread_n <= 1024]


@st.composite
def cases(draw):
    """A legal config and a small ragged problem it can run."""
    vector = draw(st.sampled_from([1, 4]))
    config = draw(st.sampled_from(legal_configs(vector)))
    rows, cols = tile_of(config)
    step = 4 * vector
    m, n = draw(st.integers(1, 2 * rows + 3)), draw(st.integers(1, 2 * cols + 3))
    k = draw(st.integers(1, 3 * depth_of(config) // step + 1)) * step
    return config, GemmI8Problem(m=m, n=n, k=k)


@few_examples(4)
@given(data=st.data())
def test_legal_configs_are_right_at_ragged_shapes(runtime, data):
    config, problem = data.draw(cases())
    assert run(runtime, problem, config, integers=data.draw(st.booleans())) is None


# Without a device.

chosen = st.one_of(
    cases(),
    cases().map(lambda case: (CONFIGS["naive"], case[1])),
)


def test_every_kind_of_text_is_valid_for_tint_within_the_base_limits(tint):
    some = random.Random(1).sample(legal_configs(1), 15) + random.Random(2).sample(legal_configs(4), 15)
    configs = CONFIGS | {f"{index}: {config}": config for index, config in enumerate(some)}
    problem = GemmI8Problem(m=33, n=36, k=48)
    texts = {
        f"{name} {baked}": GEMM_I8.plan(problem, config, specialize=baked).passes[0].wgsl
        for name, config in configs.items()
        for baked in (False, True)
    }
    assert tint(texts) == {}


@many_examples
@given(chosen)
def test_resources_told_without_rendering_are_those_of_the_plan(case):
    config, problem = case
    plan = GEMM_I8.plan(problem, config, specialize=False)
    assert GEMM_I8.resources(problem, config) == limits.needs(plan)


@many_examples
@given(chosen)
def test_the_text_declares_the_workgroup_memory_that_the_plan_tells(case):
    config, problem = case
    step = GEMM_I8.plan(problem, config, specialize=True).passes[0]
    kinds = re.findall(
        r"var<workgroup> tile_(.): array<array<array<vec4<u32>, PITCH>, TILE_(.)>, BUFFERS>;", step.wgsl
    )
    assert kinds == ([] if isinstance(config, Naive) else [("a", "M"), ("b", "N")])
    assert step.wgsl.count("var<workgroup>") == len(kinds)
    assert (step.workgroup_bytes == 0) is isinstance(config, Naive)
    assert workgroup_memory(step.wgsl) == step.workgroup_bytes
    assert workgroup_size(step.wgsl) == step.workgroup_size


@many_examples
@given(chosen)
def test_rendered_texts_hold_only_finite_numbers_and_no_template_leftovers(case):
    config, problem = case
    text = GEMM_I8.plan(problem, config, specialize=False).passes[0].wgsl
    assert text.startswith("requires packed_4x8_integer_dot_product;\n")
    assert_finished(text)


@many_examples
@given(chosen)
def test_neighbours_are_problems_that_the_same_config_can_run(case):
    config, problem = case
    multiple = GEMM_I8.plan(problem, config, specialize=False).multiples["k"]
    neighbours = GEMM_I8.neighbours(problem, config)
    assert all(other.k % multiple == 0 for other in neighbours)
    assert {other.k for other in neighbours} > {problem.k}


sizes = st.integers(1, 40_000)


@many_examples
@given(sizes, sizes, st.integers(1, (K_LIMIT - 4) // 4))
@example(4096, 1, 1)
@example(1, 4096, 1)
def test_the_default_is_legal_for_any_problem_within_the_base_limits(m, n, words):
    profile = roomy_profile()
    try:
        problem = GemmI8Problem(m=m, n=n, k=4 * words)
    except InvalidProblem as error:
        assert "matrix" in str(error)
        return
    assert list(space.refusals(GEMM_I8, problem, GEMM_I8.default(problem, profile), profile)) == []


def test_the_space_is_a_few_thousand_points_and_holds_the_default():
    axes = space.load_axes(GEMM_I8)
    problem = GemmI8Problem(m=4096, n=4096, k=4096)
    found = space.legal(GEMM_I8, problem, limits.base_profile(), axes)
    assert 1000 < len(found) < 5000
    for m, k in [(4096, 4096), (100, 4096), (1, 4096), (64, 4092)]:
        problem = GemmI8Problem(m=m, n=512, k=k)
        legal = space.legal(GEMM_I8, problem, limits.base_profile(), axes)
        assert space.point_of(axes, GEMM_I8.default(problem, None)) in legal


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"m": 0, "n": 1, "k": 4}, "m must be a whole number of at least 1"),
        ({"m": 1, "n": 1, "k": 6}, "k must be a multiple of 4"),
        ({"m": 1, "n": 1, "k": K_LIMIT}, "could overflow the i32 sum"),
        ({"m": 2**17, "n": 1, "k": 2**15}, "matrix A"),
        ({"m": 1, "n": 2**17, "k": 2**15}, "matrix B"),
        ({"m": 2**15, "n": 2**15, "k": 4}, "matrix C"),
    ],
)
def test_a_problem_that_cannot_be_summed_or_indexed_is_refused_in_one_line(sizes, words):
    with pytest.raises(InvalidProblem, match=words) as caught:
        GemmI8Problem(**sizes)
    assert "\n" not in str(caught.value)


def test_vec4_access_is_refused_where_k_is_no_multiple_of_16():
    with pytest.raises(InvalidConfig, match="multiple of 16"):
        autotune.render(GemmI8Problem(m=8, n=8, k=20), CONFIGS["vec4-single"])


def test_problems_come_from_options():
    options = {"size": 64, "m": None, "n": None, "k": 32}
    assert GEMM_I8.problem_from_options(options) == GemmI8Problem(m=64, n=64, k=32)
    with pytest.raises(InvalidProblem, match="--m, --n"):
        GEMM_I8.problem_from_options(options | {"size": None})


def int8s(columns):
    shapes = st.tuples(st.integers(1, 5), columns)
    return shapes.flatmap(lambda shape: arrays.arrays(np.int8, shape))


@given(int8s(st.integers(1, 6).map(lambda words: 4 * words)))
def test_packing_and_unpacking_come_back_to_the_same_values(values):
    words = pack(values)
    assert words.dtype == np.uint32
    assert words.shape == (values.shape[0], values.shape[1] // 4)
    assert np.array_equal(unpack(words), values)
    assert np.array_equal(pack(unpack(words)), words)


def test_the_first_int8_lies_in_the_lowest_byte():
    assert pack(np.array([1, -1, 127, -128], np.int8)).tolist() == [0x807F_FF01]
    transposed = np.arange(16, dtype=np.int8).reshape(4, 4).T
    assert np.array_equal(unpack(pack(transposed)), transposed)


@pytest.mark.parametrize(
    "values", [np.zeros(6, np.int8), np.zeros(8, np.uint8), np.zeros((), np.int8)], ids=repr
)
def test_what_cannot_be_packed_is_refused(values):
    with pytest.raises(ValueError, match="needs int8"):
        pack(values)


def test_only_words_are_unpacked():
    with pytest.raises(ValueError, match="needs an array of u32"):
        unpack(np.zeros(4, np.int32))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9), st.integers(1, 40))
def test_the_reference_is_exact(seed, m, n, words):
    problem = GemmI8Problem(m=m, n=n, k=4 * words)
    data = GEMM_I8.inputs(problem, seed, integers=True)
    whole = unpack(data["a"]).astype(np.int64) @ unpack(data["b"]).astype(np.int64).T
    scaled = whole * data["scale_a"].astype(np.int64)[:, np.newaxis] * data["scale_b"].astype(np.int64)
    assert np.array_equal(GEMM_I8.reference(problem, data)["c"], scaled)
