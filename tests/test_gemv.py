"""The gemv kernels of GEMM against float64 on every stack: either matrix streamed, in both directions."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import assert_finished, few_examples, legal_configs_of, roomy_profile, run, slow
from msgspec import structs
from test_gemm import gemv
from wgsl_text import workgroup_memory, workgroup_size

from autotune import limits
from autotune.kernels.gemm import GEMM, GemmProblem, Gemv
from autotune.kernels.gemm.configs import depth_of, tile_of
from autotune.kernels.gemm.streaming import along, larger

TRANSPOSES = list(product((False, True), repeat=2))
BASE = gemv(rows=2)
KINDS = {
    "plain": {},
    "scalar": {"vector": 1, "rows": 1},
    "staged": {"staging": "workgroup", "rows": 3},
    "staged-scalar": {"staging": "workgroup", "vector": 1, "unroll_k": 1},
    "splits": {"splits": 3, "rows": 1},
    "staged-splits": {"staging": "workgroup", "splits": 2},
    "subgroups": {"reduce": "subgroup"},
    "subgroups-splits": {
        "reduce": "subgroup",
        "splits": 5,
        "staging": "workgroup",
        "threads_k": 64,
        "lanes_n": 2,
    },
    "one-column": {"columns": 1, "reduce": "subgroup", "threads_k": 32, "lanes_n": 1},
    "eight-columns": {"columns": 8, "unroll_k": 1},
}


def shapes(problem, config):
    """Sizes around the tile and tiny ones, in fours where the config reads fours."""
    rows, cols = tile_of(config)
    depth = depth_of(config)
    along_k = along(problem, config.stream) == "k"
    by = 4 if config.vector == 4 else 1
    by_k, by_lines = (by, 1) if along_k else (1, by)
    by_m, by_n = (by_lines, 1) if config.stream == "a" else (1, by_lines)
    up = lambda size, by: max(-(-size // by) * by, by)  # noqa: E731
    return [
        (up(m, by_m), up(n, by_n), up(k, by_k))
        for m, n, k in [
            (rows + 1, cols + 1, depth + 5),
            (1, 1, 1),
            (2 * rows + 3, cols - 1, 3 * depth),
            (rows - 1, 2 * cols + 3, depth - 1),
        ]
    ]


@pytest.mark.parametrize("stream", ["a", "b"])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
def test_every_direction_is_right_at_ragged_shapes(runtime, stream, transpose_a, transpose_b):
    wrong = {}
    layout = GemmProblem(m=4, n=4, k=4, transpose_a=transpose_a, transpose_b=transpose_b)
    direction = (stream == "a") + transpose_a + transpose_b
    for turn, (name, changes) in enumerate(KINDS.items()):
        if slow(runtime) and (turn + direction) % 2:
            continue  # every kind in half of the directions
        config = structs.replace(BASE, stream=stream, **changes)
        if along(layout, stream) == "outer":
            config = structs.replace(config, columns=4)
        first, step = (turn // 2 % 4, 4) if slow(runtime) else (turn % 2, 2)
        for index, (m, n, k) in enumerate(shapes(layout, config)[first::step]):
            problem = structs.replace(layout, m=m, n=n, k=k)
            assert GEMM.unfit(problem, config) is None
            complaint = run(runtime, problem, config, integers=index % 2 == 1)
            if complaint is not None:
                wrong[name, m, n, k] = complaint
    assert wrong == {}


@pytest.mark.parametrize("stream", ["a", "b"])
@pytest.mark.parametrize("transposed", [False, True])
def test_batches_leading_dimensions_and_epilogues(runtime, stream, transposed):
    problem = GemmProblem(
        m=8,
        n=12,
        k=20,
        batch=3,
        transpose_a=transposed,
        transpose_b=transposed,
        lda=24,
        ldb=28,
        ldc=16,
        broadcast_b=True,
        alpha=0.5,
        beta=2.0,
        bias=True,
        activation="silu",
        residual=True,
    )
    for splits in (1, 2):
        config = structs.replace(BASE, stream=stream, splits=splits, staging="workgroup", reduce="subgroup")
        assert run(runtime, problem, config) is None


@pytest.mark.parametrize(("m", "n"), [(1, 300), (8, 257), (129, 7), (3, 2)])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
def test_the_default_of_few_rows_or_columns_is_right(runtime, m, n, transpose_a, transpose_b):
    if slow(runtime) and transpose_a != transpose_b:
        pytest.skip("SwiftShader runs either direction of each matrix, not every pair")
    k = 64 if transpose_a == (m > n) else 333
    problem = GemmProblem(m=m, n=n, k=k, transpose_a=transpose_a, transpose_b=transpose_b)
    config = GEMM.default(problem, runtime.profile)
    assert isinstance(config, Gemv)
    assert config.stream == larger(problem)
    assert list(limits.refusals(GEMM.resources(problem, config), limits.base_profile())) == []
    assert run(runtime, problem, config, integers=True) is None


@pytest.mark.parametrize("transpose_b", [False, True])
def test_the_default_of_many_lines_is_right(runtime, transpose_b):
    problem = GemmProblem(m=5 if transpose_b else 1, n=8200, k=36, transpose_b=transpose_b)
    config = GEMM.default(problem, None)
    assert run(runtime, problem, config, integers=True) is None


def test_the_default_exchanges_within_subgroups_where_the_device_can():
    problem = GemmProblem(m=1, n=512, k=512, transpose_b=True)
    device = structs.replace(roomy_profile(), features=("subgroups",))
    assert GEMM.default(problem, device).reduce == "subgroup"
    assert GEMM.default(problem, None).reduce == "tree"


@few_examples(6)
@given(data=st.data())
def test_legal_configs_are_right(runtime, data):
    few = data.draw(st.integers(1, 9))
    lines = data.draw(st.integers(10, 200))
    m, n = (few, lines) if data.draw(st.booleans()) else (lines, few)
    problem = GemmProblem(
        m=m,
        n=n,
        k=data.draw(st.integers(1, 700)),
        transpose_a=data.draw(st.booleans()),
        transpose_b=data.draw(st.booleans()),
    )
    (configs,) = legal_configs_of(("gemv",), problem, runtime.profile).values()
    config = data.draw(st.sampled_from(configs))
    assert run(runtime, problem, config, integers=data.draw(st.booleans())) is None


def test_texts_say_what_resources_say():
    for stream, (transpose_a, transpose_b), (name, changes) in product("ab", TRANSPOSES, KINDS.items()):
        problem = GemmProblem(m=8, n=8, k=64, transpose_a=transpose_a, transpose_b=transpose_b)
        config = structs.replace(BASE, stream=stream, **changes)
        if along(problem, stream) == "outer":
            config = structs.replace(config, columns=4)
        plan = GEMM.plan(problem, config, specialize=False)
        assert ("subgroups" in plan.features) is (config.reduce == "subgroup"), name
        for step, needs in zip(plan.passes, GEMM.resources(problem, config), strict=True):
            assert_finished(step.wgsl)
            assert workgroup_size(step.wgsl) == step.workgroup_size == needs.workgroup_size
            assert workgroup_memory(step.wgsl) == step.workgroup_bytes == needs.workgroup_bytes
            assert step.wgsl.startswith("enable subgroups;") is (config.reduce == "subgroup")


def test_tint_accepts_every_direction(tint):
    texts = {}
    for stream, (transpose_a, transpose_b), (name, changes) in product("ab", TRANSPOSES, KINDS.items()):
        problem = GemmProblem(m=8, n=8, k=64, dtype="f16", transpose_a=transpose_a, transpose_b=transpose_b)
        config = structs.replace(BASE, stream=stream, **changes)
        if along(problem, stream) == "outer":
            config = structs.replace(config, columns=4)
        for index, step in enumerate(GEMM.plan(problem, config, specialize=False).passes):
            texts[f"{stream}-{transpose_a}-{transpose_b}-{name}-{index}"] = step.wgsl
    assert tint(texts) == {}


def test_the_matrix_is_read_once_for_up_to_sixteen_rows():
    for transpose_b in (False, True):
        problem = GemmProblem(m=16, n=4096, k=4096, transpose_b=transpose_b)
        (configs,) = legal_configs_of(("gemv",), problem, roomy_profile()).values()
        assert any(config.rows == 16 for config in configs)
