"""Transposes, leading dimensions, batches and epilogues of GEMM, against float64 on every software stack."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from test_gemm import CONFIGS, run, slow

from autotune import limits, space, verify
from autotune.errors import InvalidProblem
from autotune.kernels.gemm import GEMM, GemmProblem, SliceK
from autotune.kernels.gemm.problem import LARGEST_FACTOR, SMALLEST_FACTOR
from autotune.kernels.gemm.rules import vec4_possible
from autotune.kernels.gemm_i8 import GEMM_I8

AXES = space.load_axes(GEMM)
VARIED = [
    "naive",
    "tiled-8",
    "scalar-prefetch",
    "scalar-double-row-major",
    "vec4-double",
    "vec4-prefetch-row-major",
    "slices-double",
]
SPLIT = ["split-scalar", "split-vec4-double", "gemv-rows", "gemv-splits"]


def legal_names(problem, names):
    """The named configs that may run a problem."""
    return [name for name in names if not list(GEMM.refusals(problem, CONFIGS[name]))]


def assert_right(runtime, problem, names=(*VARIED, *SPLIT), **options):
    names = legal_names(problem, names)
    assert {"naive", "tiled-8"} <= set(names)
    assert len(names) > 2, "no register-blocked config took part"
    if slow(runtime):  # SwiftShader compiles each text for up to a second
        names = random.Random(GEMM.label(problem)).sample(names, 3)
    wrong = {name: run(runtime, problem, CONFIGS[name], **options) for name in names}
    assert {name: complaint for name, complaint in wrong.items() if complaint} == {}


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("n", [7, 11, 12, 33, 36])
def test_all_four_transposes_are_right_for_every_remainder_of_n(runtime, transpose_a, transpose_b, n):
    for m, k in [(36, 20), (35, 17)]:
        problem = GemmProblem(m=m, n=n, k=k, transpose_a=transpose_a, transpose_b=transpose_b)
        assert_right(runtime, problem, VARIED, integers=k == 17)


@pytest.mark.parametrize(
    "strides", [{"lda": 40}, {"ldb": 44}, {"ldc": 48}, {"lda": 41, "ldb": 43, "ldc": 45}], ids=repr
)
def test_gaps_between_rows_are_neither_read_nor_written(runtime, strides):
    assert_right(runtime, GemmProblem(m=33, n=36, k=36, **strides))


@pytest.mark.parametrize("broadcast", [{}, {"broadcast_a": True}, {"broadcast_b": True}], ids=repr)
@pytest.mark.parametrize("transposed", [{}, {"transpose_a": True, "transpose_b": True}], ids=repr)
def test_batches_and_their_broadcasts_are_right(runtime, broadcast, transposed):
    assert_right(runtime, GemmProblem(m=12, n=36, k=300, batch=3, **broadcast, **transposed))
    assert_right(runtime, GemmProblem(m=3, n=5, k=33, batch=2, **broadcast, **transposed), VARIED)


@pytest.mark.parametrize(
    "epilogue",
    [
        {"alpha": 2.0},
        {"beta": 1.0},
        {"alpha": -0.5, "beta": 0.25},
        {"bias": True},
        {"residual": True},
        {"activation": "relu", "bias": True},
        {"activation": "gelu", "bias": True, "residual": True},
        {"activation": "silu", "beta": 0.5, "residual": True, "ldc": 40},
    ],
    ids=repr,
)
def test_epilogues_are_fused_in_the_documented_order(runtime, epilogue):
    assert_right(runtime, GemmProblem(m=33, n=36, k=260, **epilogue))
    assert_right(
        runtime, GemmProblem(m=5, n=7, k=130, batch=2, **epilogue | ({"ldc": 9} if "ldc" in epilogue else {}))
    )


def test_sizes_baked_in_serve_operands_and_epilogues_too(runtime):
    problem = GemmProblem(
        m=33, n=36, k=260, batch=2, ldb=40, alpha=0.5, beta=2.0, bias=True, activation="relu"
    )
    assert_right(runtime, problem, specialize=True)


def test_whole_numbers_are_met_exactly_through_epilogues_that_keep_them_whole(runtime):
    problem = GemmProblem(
        m=33, n=36, k=260, alpha=2.0, beta=-1.0, bias=True, activation="relu", residual=True
    )
    assert_right(runtime, problem, integers=True)


def test_with_beta_0_nan_in_c_does_not_reach_the_result(runtime):
    # The output starts as NaN in every run; so this holds wherever C is not read.
    assert_right(runtime, GemmProblem(m=33, n=35, k=17, beta=0.0, bias=True))


def test_activations_stay_finite_for_large_sums(runtime):
    class Large(type(GEMM)):
        def inputs(self, problem, seed, *, integers):
            return {
                name: value * 1000 for name, value in super().inputs(problem, seed, integers=integers).items()
            }

        def tolerance(self, _problem, expected):
            return 1e-3 * np.abs(expected) + 50.0

    for activation in ("gelu", "silu"):
        problem = GemmProblem(m=9, n=8, k=64, activation=activation)
        for name in ("naive", "vec4-double"):
            assert run(runtime, problem, CONFIGS[name], family=Large()) is None


def test_f16_in_and_f32_out_keeps_large_results(runtime):
    problem = GemmProblem(m=33, n=36, k=36, dtype="f16", out_dtype="f32", bias=True)
    if "shader-f16" in runtime.profile.features:
        assert_right(runtime, problem)
    else:
        (reason,) = limits.refusals(GEMM.resources(problem, CONFIGS["naive"]), runtime.profile)
        assert reason == "needs a feature the adapter lacks: shader-f16"


@st.composite
def problems(draw):
    """Any problem, small."""
    step = draw(st.sampled_from([1, 4]))
    m, n, k = (draw(st.integers(1, 40 // step)) * step for _ in range(3))
    flag, gap = st.booleans(), st.sampled_from([0, 0, step])
    given_ = {
        name: draw(flag)
        for name in ("transpose_a", "transpose_b", "broadcast_a", "broadcast_b", "bias", "residual")
    }
    problem = GemmProblem(m=m, n=n, k=k, batch=draw(st.sampled_from([1, 1, 2, 5])), **given_)
    lds = {f"ld{x}": problem.stored(x)[2] + gap_ if (gap_ := draw(gap)) else 0 for x in "abc"}
    return GemmProblem(
        m=m,
        n=n,
        k=k,
        batch=problem.batch,
        **given_,
        **lds,
        alpha=draw(st.sampled_from([1.0, 1.0, -2.0])),
        beta=draw(st.sampled_from([0.0, 0.0, 0.5])),
        activation=draw(st.sampled_from(["none", "none", "relu", "gelu", "silu"])),
    )


@settings(
    max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(problem=problems(), baked=st.booleans())
def test_the_default_is_right_for_any_problem(runtime, problem, baked):
    assert run(runtime, problem, GEMM.default(problem, None), specialize=baked) is None


@settings(max_examples=200, deadline=None)
@given(problem=problems())
def test_the_default_is_legal_for_any_problem_within_the_base_limits(problem):
    assert list(space.refusals(GEMM, problem, GEMM.default(problem, None), limits.base_profile())) == []


@settings(max_examples=200, deadline=None)
@given(first=problems(), second=problems())
def test_labels_tell_problems_apart_and_distances_are_zero_for_the_same_alone(first, second):
    assert (GEMM.label(first) == GEMM.label(second)) == (first == second)
    assert GEMM.distance(first, first) == 0
    assert first == second or GEMM.distance(first, second) > 0


def test_vec4_needs_whatever_is_contiguous_in_fours():
    assert vec4_possible(GemmProblem(m=5, n=8, k=8))
    assert not vec4_possible(GemmProblem(m=5, n=8, k=8, transpose_a=True))
    assert vec4_possible(GemmProblem(m=5, n=7, k=8, transpose_b=True))
    assert not vec4_possible(GemmProblem(m=5, n=8, k=8, lda=9))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"lda": 3}, "lda must be 0 or at least the 8 columns"),
        ({"ldb": -1}, "ldb must be 0 or at least the 8 columns of a row, not -1"),
        ({"lda": 1 << 32}, "lda must be at most 4294967295, what WGSL can index, not 4294967296"),
        ({"m": -(1 << 40)}, "m must be a whole number of at least 1, not -1099511627776"),
        (
            {"alpha": 1e-40},
            "alpha must be 0, or at least 1e-30 in size for f32 to .*, not 1e-40",
        ),
        ({"beta": -1e31}, "beta must be at most 1e.30 in size, not -1e.31"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"alpha": float("nan")}, "alpha must be a number"),
        ({"beta": float("inf")}, "beta must be a number"),
        ({"activation": "tanh"}, "unknown output type None or activation 'tanh'"),
        ({"batch": 1 << 28}, "takes 68719476736 B"),
    ],
)
def test_problems_that_make_no_sense_are_refused_with_one_line(wrong, words):
    with pytest.raises(InvalidProblem, match=words):
        GemmProblem(**{"m": 8, "n": 8, "k": 8} | wrong)


@pytest.mark.parametrize("family", [GEMM, GEMM_I8])
@pytest.mark.parametrize("sizes", [{"size": 0}, {"size": 0, "m": 8, "n": 8, "k": 8}, {"size": 0, "k": 8}])
def test_a_size_that_is_none_is_named_as_it_was_given(family, sizes):
    given = {option.name: option.default for option in family.options}
    with pytest.raises(InvalidProblem, match=r"\Asize must be a whole number of at least 1, not 0"):
        family.problem_from_options(given | sizes)


@pytest.mark.parametrize("factor", [SMALLEST_FACTOR, -SMALLEST_FACTOR, LARGEST_FACTOR, -LARGEST_FACTOR])
def test_texts_with_the_smallest_and_largest_factors_baked_in_compile(tint, factor):
    problem = GemmProblem(m=8, n=8, k=8, alpha=factor, beta=factor)
    plan = GEMM.plan(problem, GEMM.default(problem, None), specialize=True)
    assert tint({str(i): step.wgsl for i, step in enumerate(plan.passes)}) == {}


def test_a_batch_of_more_than_65_535_tiny_matrices_is_right(runtime):
    if slow(runtime):
        problem = GemmProblem(m=3, n=3, k=3, batch=700)
    else:
        problem = GemmProblem(m=3, n=3, k=3, batch=70_000)
    assert run(runtime, problem, CONFIGS["naive"], integers=True) is None


def test_tint_accepts_every_kind_of_operand_and_epilogue(tint):
    texts = {}
    for ta in (False, True):
        for tb in (False, True):
            for dtype in ("f32", "f16"):
                problem = GemmProblem(
                    m=36, n=36, k=260, batch=2, transpose_a=ta, transpose_b=tb, dtype=dtype, ldc=40,
                    alpha=2.0, beta=0.5, bias=True, activation="gelu" if ta else "silu", residual=True,
                )  # fmt: skip
                for name in legal_names(problem, (*VARIED, *SPLIT)):
                    for baked in (False, True):
                        plan = GEMM.plan(problem, CONFIGS[name], specialize=baked)
                        for index, step in enumerate(plan.passes):
                            texts[f"{name} {ta} {tb} {dtype} {baked} {index}"] = step.wgsl
    assert len(texts) > 50
    assert tint(texts) == {}


HALF = structs.replace(limits.base_profile(), features=("shader-f16",))
SOFTWARE = structs.replace(HALF, adapter_type="cpu")
GPU = structs.replace(HALF, features=("shader-f16", "subgroups"), adapter_type="discrete", vendor_id=0x10DE)
F32, F16 = ("f32", "f32"), ("f16", "f16")
SHARED = GemmProblem(m=1000, n=8, k=2048, batch=2000, transpose_a=True, broadcast_a=True)


@settings(max_examples=300, deadline=None)
@given(
    problem=problems(),
    scale=st.sampled_from([1, 8, 64]),
    types=st.sampled_from([F32, ("f16", "f32"), F16]),
    profile=st.sampled_from([HALF, SOFTWARE, GPU]),
)
@example(GemmProblem(m=1, n=64, k=64, transpose_b=True), 1, F16, GPU)  # no subgroup adds sums in f16
@example(SHARED, 1, F32, HALF)  # sums of all splits would be larger than a buffer
@example(GemmProblem(m=256, n=256, k=16), 1, F32, HALF)  # too short a K to share
@example(GemmProblem(m=256, n=256, k=63), 1, F16, GPU)
def test_the_default_is_a_legal_point_of_the_search_space(problem, scale, types, profile):
    sizes = {size: getattr(problem, size) * scale for size in ("m", "n", "k")}
    kinds = dict(zip(("dtype", "accumulate"), types, strict=True))
    larger = structs.replace(problem, **sizes, **kinds, lda=0, ldb=0, ldc=0)
    config = GEMM.default(larger, profile)
    assert list(space.refusals(GEMM, larger, config, profile)) == []
    assert space.point_of(AXES, config) is not None


def test_a_short_k_of_a_small_c_is_shared_within_workgroups_and_stays_in_whole_tiles():
    small = GemmProblem(m=512, n=512, k=512)
    config = GEMM.default(small, GPU)
    assert isinstance(config, SliceK)
    assert GEMM.plan(small, config, specialize=False).multiples["k"] == config.slices * config.tile_k
    for change in ({"k": 2048}, {"k": 32}, {"m": 32, "n": 4096}, {"m": 64, "n": 64}, {"m": 1024, "n": 1024}):
        assert not isinstance(GEMM.default(structs.replace(small, **change), GPU), SliceK), change


def test_large_matrices_of_f16_are_turned_into_f32_once_on_nvidia():
    large = GemmProblem(m=4096, n=4096, k=4096, dtype="f16")
    assert GEMM.default(large, GPU).staged == "accumulator"
    for other in (structs.replace(large, dtype="f32"), structs.replace(large, accumulate="f16")):
        assert GEMM.default(other, GPU).staged == "storage"


def at_other_sizes(runtime, problem, config, **sizes):
    """Run a problem's general text with other sizes in the uniform buffer; gives its check and C's bytes."""
    plan = GEMM.plan(problem, config, specialize=False)
    check = verify.prepare(GEMM, problem, plan, runtime.profile, seed=1)
    runtime.load(check.contents)
    raw = runtime.run(runtime.compile(structs.replace(plan, sizes=plan.sizes | sizes)))["c"]
    return check, raw


@pytest.mark.parametrize("name", [*VARIED, *SPLIT])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_with_k_0_the_result_is_beta_c(runtime, name, beta):
    problem = GemmProblem(m=5, n=8, k=256, beta=beta)
    check, raw = at_other_sizes(runtime, problem, CONFIGS[name], k=0)
    got = np.frombuffer(raw, np.float32)[: 5 * 8]
    before = np.frombuffer(check.contents["c"], np.float32)[: 5 * 8]
    assert np.array_equal(got, beta * before if beta else np.zeros(5 * 8))


@pytest.mark.parametrize("empty", ["m", "n"])
def test_with_m_or_n_0_nothing_is_written(runtime, empty):
    problem = GemmProblem(m=8, n=8, k=256)
    for name in ("naive", "tiled-8", "vec4-double", "gemv-rows"):
        check, raw = at_other_sizes(runtime, problem, CONFIGS[name], **{empty: 0})
        assert raw == check.contents["c"]
