"""GEMM kernels against float64, on every software stack, with poisoned outputs and guarded buffers."""

import random
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import (
    assert_finished,
    complaint,
    few_examples,
    lacks_f16,
    legal_configs_of,
    many_examples,
    run,
    slow,
    with_first_pass,
)
from msgspec import structs
from wgsl_text import without_comments, workgroup_memory, workgroup_size

import autotune
from autotune import limits, space, verify
from autotune.candidate import Bench
from autotune.kernels.gemm import GEMM, Blocked, GemmProblem, Gemv, Naive, SliceK, SplitK, Tiled
from autotune.kernels.gemm.configs import depth_of, tile_of, vector_of
from autotune.kernels.gemm.family import Gemm
from autotune.model import Rejection


def blocked(**changes):
    config = Blocked(
        tile_m=32,
        tile_n=32,
        tile_k=8,
        thread_m=4,
        thread_n=4,
        lanes_n=8,
        vector=1,
        strips=True,
        k_major_a=True,
        banks="plain",
        buffering="single",
        commit_k=0,
        unroll_k=4,
        group_m=1,
        order="rows",
        staged="storage",
    )
    return structs.replace(config, **changes)


def split_k(*, splits, **changes):
    return SplitK(**blocked(**changes).parameters(), splits=splits)


def slice_k(*, slices, splits, **changes):
    return SliceK(**blocked(**changes).parameters(), slices=slices, splits=splits)


ROW_MAJOR = {"k_major_a": False, "strips": False, "banks": "pad"}
TALL = {"tile_m": 64, "thread_m": 8, "lanes_n": 4, "group_m": 8}


def gemv(**changes):
    config = Gemv(
        stream="b",
        rows=1,
        columns=4,
        lanes_n=4,
        threads_k=8,
        vector=4,
        unroll_k=2,
        splits=1,
        staging="memory",
        reduce="tree",
    )
    return structs.replace(config, **changes)


CONFIGS = {
    "naive": Naive(workgroup_x=8, workgroup_y=4),
    "tiled-8": Tiled(tile=8),
    "tiled-16": Tiled(tile=16),
    "scalar-single": blocked(),
    "scalar-single-row-major": blocked(**ROW_MAJOR, **TALL),
    "scalar-prefetch": blocked(buffering="prefetch", strips=False, group_m=8),
    "scalar-prefetch-row-major": blocked(buffering="prefetch", k_major_a=False, tile_k=16, order="zigzag"),
    "scalar-double": blocked(buffering="double", banks="pad", tile_n=64, thread_n=8),
    "scalar-double-row-major": blocked(buffering="double", **ROW_MAJOR),
    "vec4-single": blocked(vector=4, strips=False, tile_k=16),
    "vec4-prefetch": blocked(vector=4, buffering="prefetch", banks="pad", **TALL),
    "vec4-prefetch-row-major": blocked(vector=4, buffering="prefetch", **ROW_MAJOR),
    "vec4-double": blocked(vector=4, buffering="double", unroll_k=8),
    "vec4-double-row-major": blocked(vector=4, buffering="double", k_major_a=False, group_m=8),
    "vec4-ahead": blocked(
        vector=4, buffering="ahead", commit_k=2, banks="swizzle", tile_k=16, unroll_k=16, **TALL
    ),
    "vec4-ahead-plain": blocked(
        vector=4, buffering="ahead", commit_k=7, unroll_k=8, order="zigzag", thread_n=8, lanes_n=4
    ),
    "vec4-ahead-scalars": blocked(
        vector=4, buffering="ahead", commit_k=1, unroll_k=8, order="scalars", **TALL
    ),
    "vec4-ahead-pairs": blocked(
        vector=4, buffering="ahead", unroll_k=8, order="pairs", thread_n=8, lanes_n=4
    ),
    "vec4-swizzle": blocked(vector=4, buffering="double", banks="swizzle", tile_k=16, strips=False),
    "scalar-ahead": blocked(buffering="ahead", banks="swizzle", unroll_k=8, strips=False),
    "scalar-swizzle": blocked(banks="swizzle", unroll_k=8),
    "split-scalar": split_k(splits=3),
    "split-vec4-double": split_k(splits=4, vector=4, buffering="double"),
    "split-vec4-ahead": split_k(splits=3, vector=4, buffering="ahead", commit_k=1, unroll_k=8),
    "split-vec4-prefetch-row-major": split_k(
        splits=2, vector=4, buffering="prefetch", k_major_a=False, tile_k=16
    ),
    "slices-scalar": slice_k(slices=4, splits=1),
    "slices-row-major": slice_k(slices=2, splits=1, vector=4, buffering="prefetch", **ROW_MAJOR),
    "slices-double": slice_k(slices=2, splits=1, vector=4, buffering="double", banks="pad"),
    "slices-ahead": slice_k(
        slices=2, splits=1, vector=4, buffering="ahead", commit_k=1, unroll_k=8, order="zigzag", **TALL
    ),
    "slices-splits": slice_k(slices=2, splits=3, buffering="ahead", banks="swizzle", unroll_k=8),
    "gemv": gemv(vector=1, lanes_n=4, threads_k=8, unroll_k=1),
    "gemv-rows": gemv(rows=4, lanes_n=2, threads_k=16),
    "gemv-splits": gemv(rows=2, lanes_n=8, threads_k=4, unroll_k=1, splits=3),
    "gemv-columns": gemv(stream="a", rows=2, columns=2, staging="workgroup"),
}
one_of_each = pytest.mark.parametrize(
    "name",
    [
        "naive",
        "tiled-8",
        "scalar-prefetch",
        "scalar-double-row-major",
        "vec4-double",
        "vec4-ahead",
        "split-vec4-ahead",
        "slices-double",
        "gemv-splits",
    ],
)


def ragged(config, *, turn, every_pair):
    """Sizes around the tile and tiny ones, as (m, n, k).

    All values of all three sizes occur; with `every_pair`, all pairs of values of m and n too.
    """
    rows, cols = tile_of(config)
    depth = max(depth_of(config), 4)
    ms = [max(rows - 1, 1), rows, rows + 1, 1, 3, 7]
    if vector_of(config) == 4:
        ns = [4, max(cols - 4, 4), cols, cols + 4, 12]
        ks = [4, depth, depth + 4, 3 * depth, 12]
    else:
        ns = [cols - 1, cols, cols + 1, cols + 2, 1, 3, 7]
        ks = [1, 3, 4, 7, depth, depth + 1]
    if every_pair:
        return [(m, n, ks[(i + j) % len(ks)]) for i, m in enumerate(ms) for j, n in enumerate(ns)]
    return [
        (ms[i % len(ms)], ns[(i + turn) % len(ns)], ks[(i + 2 * turn) % len(ks)])
        for i in range(max(len(ms), len(ns), len(ks)))
    ]


@pytest.mark.parametrize("name", CONFIGS)
def test_ragged_shapes_are_right(runtime, name):
    turn = list(CONFIGS).index(name)
    shapes = ragged(CONFIGS[name], turn=turn, every_pair=not slow(runtime))
    shapes = shapes[turn % 2 :: 2] if slow(runtime) else shapes  # each text is compiled anew
    wrong = {}
    for index, (m, n, k) in enumerate(shapes):
        problem = GemmProblem(m=m, n=n, k=k)
        complaint = run(runtime, problem, CONFIGS[name], integers=index % 2 == 1)
        if complaint is not None:
            wrong[m, n, k] = complaint
    assert wrong == {}


@one_of_each
def test_sizes_baked_into_the_text_are_right_at_ragged_shapes(runtime, name):
    config = CONFIGS[name]
    rows, cols = tile_of(config)
    v = vector_of(config)
    for m, n, k in [(rows + 1, cols + v, 16 + v), (7, 3 * v, v)]:
        assert run(runtime, GemmProblem(m=m, n=n, k=k), config, specialize=True) is None


@pytest.mark.parametrize("config", [None, CONFIGS["vec4-double"]], ids=["default", "vec4-double"])
def test_the_tail_row_of_257_rows_is_right(runtime, config):
    problem = GemmProblem(m=257, n=1152, k=384)
    assert run(runtime, problem, config or GEMM.default(problem, runtime.profile)) is None


def test_rows_past_the_last_full_tile_are_right(runtime):
    config = blocked(vector=4, tile_m=64, tile_n=64, thread_m=8, buffering="prefetch")
    for m in (35, 535) if slow(runtime) else (35, 64, 128, 256, 500, 535, 1024):
        assert run(runtime, GemmProblem(m=m, n=128, k=128), config) is None


@pytest.mark.parametrize(
    "sizes", [(382, 1, 10), (4096, 5, 14), (4096, 14, 5), (1000, 3, 1), (4, 2, 4), (10, 10, 10)], ids=str
)
def test_few_columns_are_right_with_the_default(runtime, sizes):
    m, n, k = sizes
    problem = GemmProblem(m=m, n=n, k=k)
    assert run(runtime, problem, GEMM.default(problem, runtime.profile)) is None
    assert run(runtime, problem, CONFIGS["naive"], integers=True) is None


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", ["split-scalar", "split-vec4-double"])
def test_either_order_of_tiles_and_shares_of_k_is_right_for_any_sizes(runtime, name, batch):
    config = CONFIGS[name]
    one_line = GemmProblem(m=config.tile_m, n=100, k=120, batch=batch)
    many = GemmProblem(m=3 * config.tile_m - 5, n=100, k=120, batch=batch)
    plans = [GEMM.plan(problem, config, specialize=False) for problem in (one_line, many)]
    texts = [plan.passes[0].wgsl for plan in plans]
    assert ["let split = id % SPLITS;" in text for text in texts] == [True, False]
    for problem, plan, other in zip((one_line, many), plans, reversed(texts), strict=True):
        assert complaint(runtime, problem, plan, with_first_pass(plan, wgsl=other), integers=True) is None


@pytest.mark.parametrize("name", ["scalar-double", "scalar-double-row-major", "vec4-double"])
@pytest.mark.parametrize("k", [104, 440])
def test_an_odd_number_of_double_buffered_tiles_is_right(runtime, name, k):
    config = CONFIGS[name]
    assert k // config.tile_k % 2 == 1
    assert run(runtime, GemmProblem(m=96, n=104, k=k), config, integers=True) is None


@pytest.mark.parametrize("name", ["scalar-prefetch", "vec4-prefetch"])
def test_a_last_group_of_fewer_tile_rows_is_right(runtime, name):
    config = CONFIGS[name]
    assert config.group_m == 8
    assert run(runtime, GemmProblem(m=11 * config.tile_m - 3, n=3 * 32, k=12), config, integers=True) is None


@pytest.mark.parametrize(
    ("config", "size"), [(Naive(workgroup_x=1, workgroup_y=1), 257), (Tiled(tile=2), 513)], ids=repr
)
def test_more_workgroups_than_one_dimension_holds_reach_every_tile(runtime, config, size):
    problem = GemmProblem(m=size, n=size, k=3)
    workgroups = GEMM.resources(problem, config)[0].workgroups
    assert workgroups > runtime.profile.limits["maxComputeWorkgroupsPerDimension"]
    assert run(runtime, problem, config, integers=True) is None


@one_of_each
def test_workgroups_without_a_tile_leave_everything_alone(runtime, name):
    problem = GemmProblem(m=33, n=36, k=12)
    plan = GEMM.plan(problem, CONFIGS[name], specialize=False)
    workgroups = 500 if slow(runtime) else 65_535 + 2  # the latter is two rows
    assert complaint(runtime, problem, plan, with_first_pass(plan, workgroups=workgroups)) is None


def test_a_dispatch_that_is_too_small_is_caught_also_after_a_right_one(runtime):
    problem = GemmProblem(m=40, n=36, k=12)
    plan = GEMM.plan(problem, CONFIGS["tiled-8"], specialize=False)
    check = verify.prepare(GEMM, problem, plan, runtime.profile, seed=1)
    runtime.load(check.contents)
    right, clamped = runtime.compile(plan), runtime.compile(with_first_pass(plan, workgroups=24))
    assert check.complaint(runtime.run(right)) is None
    assert "elements were never written" in check.complaint(runtime.run(clamped))
    assert check.complaint(runtime.run(right)) is None


@pytest.mark.parametrize("size", [96, 600])
def test_sums_that_no_pass_wrote_show_in_every_element(runtime, size):
    problem = GemmProblem(m=size, n=size, k=64)
    plan = GEMM.plan(problem, CONFIGS["split-vec4-double"], specialize=False)
    alone = structs.replace(plan, passes=plan.passes[1:])
    said = complaint(runtime, problem, plan, alone)
    assert said.startswith(f"c: {size**2} of {size**2} elements")
    assert said.endswith("were never written") or ": nan instead of" in said


# f16: run where the adapter has it, refused by name where it has not.

F16_CONFIGS = {
    "naive": CONFIGS["naive"],
    "tiled": CONFIGS["tiled-8"],
    "scalar": CONFIGS["scalar-double"],
    "scalar-wide": structs.replace(CONFIGS["scalar-prefetch-row-major"], staged="accumulator"),
    "vec4": CONFIGS["vec4-prefetch"],
    "vec4-wide": structs.replace(CONFIGS["vec4-double"], staged="accumulator"),
    "split": CONFIGS["split-vec4-double"],
    "slices": structs.replace(CONFIGS["slices-ahead"], staged="accumulator"),
    "gemv": CONFIGS["gemv-splits"],
}
each_f16_config = pytest.mark.parametrize("name", F16_CONFIGS)


@each_f16_config
@pytest.mark.parametrize("accumulate", ["f32", "f16"])
def test_f16_is_right_or_refused_by_name(runtime, name, accumulate):
    config = F16_CONFIGS[name]
    v = vector_of(config)
    for m, n, k in [(33, 32 + v, 16 + v), (7, 3 * v, v), (65, 12, 3 * 16)]:
        problem = GemmProblem(m=m, n=n, k=k, dtype="f16", accumulate=accumulate)
        if not lacks_f16(runtime, problem, config):
            assert run(runtime, problem, config) is None
            assert run(runtime, problem, config, integers=True) is None


class Steep(Gemm):
    """f16 operands whose partial sums pass 65,504 although the results are small whole numbers."""

    def inputs(self, problem, seed, *, integers):  # noqa: ARG002  always the same data
        a = np.full((problem.m, problem.k), 300, np.float16)
        a[:, 1::2] = -300
        b = np.full((problem.k, problem.n), 300, np.float16)
        a[:, -1] = np.arange(problem.m) % 7
        b[-1, :] = np.arange(problem.n) % 5 + 1
        a[:, -2] = 0
        return {"a": a, "b": b}


@each_f16_config
def test_partial_sums_beyond_f16_are_kept_in_f32(runtime, name):
    config = F16_CONFIGS[name]
    problem = GemmProblem(m=33, n=36, k=20, dtype="f16")
    if not lacks_f16(runtime, problem, config):
        assert run(runtime, problem, config, integers=True, family=Steep()) is None


# Configs by chance.


@cache
def legal_configs(profile, vector):
    """Configs of the shipped space, legal on a device and quickly compiled, as many of each variant."""
    problem = GemmProblem(m=64, n=64, k=512) if vector == 4 else GemmProblem(m=63, n=63, k=511)
    found = legal_configs_of(("blocked", "split_k", "slice_k", "gemv"), problem, profile.value)
    quick = [
        [c for c in configs if isinstance(c, Gemv) or c.unroll_k * c.thread_m * c.thread_n <= 256]
        for configs in found.values()
    ]
    few = min(map(len, quick))
    choose = random.Random(0).sample
    return [config for configs in quick for config in choose(configs, few)]


class Hashed:
    """A profile as a cache key."""

    def __init__(self, profile):
        self.value = profile

    def __hash__(self):
        return hash(self.value.id)

    def __eq__(self, other):
        return self.value == other.value


@st.composite
def cases(draw, profile):
    """A legal config and a small ragged problem it can run."""
    vector = draw(st.sampled_from([1, 4]))
    config = draw(st.sampled_from(legal_configs(Hashed(profile), vector)))
    rows, cols = tile_of(config)
    m = draw(st.integers(1, 2 * rows + 3))
    n = draw(st.integers(1, 2 * cols // vector + 3)) * vector
    k = draw(st.integers(1, min(3 * depth_of(config), 2000) // vector + 1)) * vector
    return config, GemmProblem(m=m, n=n, k=k)


@few_examples(6)
@given(data=st.data())
def test_legal_configs_are_right_at_ragged_shapes(runtime, data):
    config, problem = data.draw(cases(runtime.profile))
    assert run(runtime, problem, config, integers=data.draw(st.booleans())) is None


# Without a device: what a plan says about itself.


def sampled_configs():
    """Legal configs of all variants on a device with base limits."""
    return st.one_of(
        st.builds(Naive, workgroup_x=st.sampled_from([1, 8, 32]), workgroup_y=st.sampled_from([1, 4, 8])),
        st.builds(Tiled, tile=st.sampled_from([2, 8, 16])),
        cases(limits.base_profile()).map(lambda case: case[0]),
    )


@st.composite
def plans(draw):
    """A config, a problem for it, and the plan of both."""
    config = draw(sampled_configs())
    dtype, accumulate = draw(st.sampled_from([("f32", "f32"), ("f16", "f32"), ("f16", "f16")]))
    if isinstance(config, Blocked) and dtype != accumulate:
        config = structs.replace(config, staged=draw(st.sampled_from(["storage", "accumulator"])))
    v = vector_of(config)
    m, n, k = draw(st.integers(1, 300)), draw(st.integers(1, 75)) * v, draw(st.integers(1, 75)) * v
    problem = GemmProblem(m=m, n=n, k=k, dtype=dtype, accumulate=accumulate)
    return config, problem, GEMM.plan(problem, config, specialize=draw(st.booleans()))


def texts_of_every_kind():
    """WGSL of every variant in every type, general and baked, and of legal configs by chance."""
    some = random.Random(1).sample(legal_configs(Hashed(limits.base_profile()), 4), 40)
    configs = CONFIGS | {f"{index}: {config}": config for index, config in enumerate(some)}
    found = {}
    for name, config in configs.items():
        for dtype, accumulate in [("f32", "f32"), ("f16", "f32"), ("f16", "f16")]:
            wide = isinstance(config, Blocked) and dtype != accumulate
            for staged in ("storage", "accumulator") if wide else ("storage",):
                chosen = structs.replace(config, staged=staged) if wide else config
                for baked in (False, True):
                    problem = GemmProblem(m=33, n=36, k=20, dtype=dtype, accumulate=accumulate)
                    plan = GEMM.plan(problem, chosen, specialize=baked)
                    for index, step in enumerate(plan.passes):
                        found[f"{name} {dtype} {accumulate} {staged} {baked} {index}"] = step.wgsl
    return found


def test_every_kind_of_text_is_valid_for_tint_within_the_base_limits(tint):
    texts = texts_of_every_kind()
    assert tint(texts) == {}


def test_tint_would_say_so_if_a_text_were_wrong_or_too_large_for_the_base_limits(tint):
    right = GEMM.plan(GemmProblem(m=8, n=8, k=8), Tiled(tile=8), specialize=False).passes[0].wgsl
    large = GEMM.plan(GemmProblem(m=8, n=8, k=8), Tiled(tile=32), specialize=False).passes[0].wgsl
    wrong = right.replace("sizes.m", "sizes.q")
    assert set(tint({"right": right, "wrong": wrong, "large": large})) == {"wrong", "large"}


@many_examples
@given(plans())
def test_resources_told_without_rendering_are_those_of_the_plan(case):
    config, problem, plan = case
    assert GEMM.resources(problem, config) == limits.needs(plan)


@many_examples
@given(plans())
def test_the_text_declares_the_workgroup_memory_and_size_that_the_plan_tells(case):
    _, _, plan = case
    for step in plan.passes:
        assert workgroup_memory(step.wgsl) == step.workgroup_bytes
        assert workgroup_size(step.wgsl) == step.workgroup_size


@many_examples
@given(plans())
def test_rendered_texts_hold_only_finite_numbers_and_no_template_leftovers(case):
    _, _, plan = case
    for step in plan.passes:
        assert_finished(step.wgsl)
        assert not re.search(r"\d\.\d", step.wgsl)


@many_examples
@given(plans())
def test_a_baked_text_reads_no_uniform_and_a_general_one_reads_them_all(case):
    _, problem, plan = case
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
    assert plan.sizes == sizes
    names = [buffer.name for buffer in plan.buffers]
    if plan.uniform:
        assert plan.uniform == tuple(sizes)
        assert names[:4] == ["sizes", "a", "b", "c"]
        assert all("var<uniform>" in step.wgsl for step in plan.passes)
    else:
        assert names[:3] == ["a", "b", "c"]
        assert all("uniform" not in without_comments(step.wgsl) for step in plan.passes)


@many_examples
@given(plans())
def test_neighbours_are_problems_that_the_same_config_can_run(case):
    config, problem, plan = case
    neighbours = GEMM.neighbours(problem, config)
    for other in neighbours:
        assert (other.dtype, other.accumulate) == (problem.dtype, problem.accumulate)
        assert other.n % plan.multiples.get("n", 1) == 0
        assert GEMM.unfit(other, config) is None
    # the very text of the problem, and where that is for whole tiles of K the one for others too
    assert any(other.k % plan.multiples.get("k", 1) == 0 for other in neighbours)
    assert any(other.k % depth_of(config) for other in neighbours) or depth_of(config) == 1


@pytest.mark.parametrize("name", ["vec4-single", "vec4-double-row-major"])
@pytest.mark.parametrize(("n", "k"), [(6, 8), (8, 6), (7, 8), (8, 5)])
def test_vec4_access_is_refused_where_n_or_k_is_no_multiple_of_4(name, n, k):
    with pytest.raises(autotune.errors.InvalidConfig, match="multiples of 4"):
        autotune.render(GemmProblem(m=8, n=n, k=k), CONFIGS[name])


def test_the_public_render_stays_a_function_after_it_was_used():
    problem = GemmProblem(m=8, n=8, k=8)
    for _ in range(2):
        assert autotune.render(problem, CONFIGS["naive"]).variant == "naive"


class NoShaders:
    """A runtime that must not be asked to compile anything."""

    def __init__(self, storage):
        base = limits.base_profile()
        limit = base.limits | {"maxComputeWorkgroupStorageSize": storage}
        self.profile = structs.replace(base, limits=limit)

    def load(self, contents):
        pass

    def compile(self, plan):
        raise AssertionError(f"a shader was created for {plan.variant}")


@pytest.mark.parametrize(
    ("config", "needed", "there"),
    [
        (blocked(tile_m=128, tile_k=32, thread_m=8, buffering="double", vector=4), 40_960, 32_768),
        (
            blocked(tile_m=128, tile_n=128, tile_k=32, thread_m=8, thread_n=8, buffering="double", vector=4),
            65_536,
            16_384,
        ),
    ],
)
def test_too_much_workgroup_memory_is_refused_before_any_shader_exists(config, needed, there):
    problem = GemmProblem(m=64, n=64, k=64)
    bench = Bench(GEMM, problem, NoShaders(there), seed=1)
    reason = f"too much workgroup memory: {needed} B, the adapter has {there} B"
    assert bench.evaluate(config, None) == Rejection(stage="limits", reason=reason)
    assert bench.complaint(config) == f"limits: {reason}"
    fitting = GEMM.default(problem, bench.runtime.profile)
    assert list(space.refusals(GEMM, problem, fitting, bench.runtime.profile)) == []
