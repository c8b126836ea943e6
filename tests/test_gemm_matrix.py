"""GEMM on matrix units: numbers on the stack that has them, and what texts and plans say everywhere."""

import random
import re
from functools import cache as once

import pytest
from fake_family import seconds
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import (
    assert_finished,
    complaint,
    few_examples,
    many_examples,
    run,
    with_first_pass,
)
from matrix_units import H200, SMALL, device
from msgspec import structs
from wgsl_text import without_comments, workgroup_memory, workgroup_size

from autotune import cache, limits, space
from autotune.entry import new_entry
from autotune.kernels.gemm import GEMM, GemmProblem, MatrixUnits
from autotune.kernels.gemm.configs import PackedMatrixUnits, depth_of
from autotune.kernels.gemm.matrix import product_of
from autotune.levels import find
from autotune.model import MATRIX_FEATURE

APPLE = device([("f32", "f32", 8, 8, 8), ("f16", "f16", 8, 8, 8)], 32, maxComputeWorkgroupStorageSize=32_768)
LAVAPIPE = device([("f16", result, 8, 8, 8) for result in ("f32", "f16")], 8)


def units(**changes):
    """A small config for matrices of 8×8×8 and subgroups of 8 lanes, as lavapipe has them."""
    return MatrixUnits(**SMALL | {"tile_m": 32, "tile_n": 16, "splits": 1} | changes)


CONFIGS = {
    "single": units(buffering="single", group_m=8),
    "prefetch": units(tile_n=64, subgroups_m=4, subgroups_n=1),
    "double": units(buffering="double", pad=0, tile_m=16, tile_n=32),
    "early": units(buffering="early"),
    "one-matrix": units(tile_m=8, tile_n=8, tile_k=8, subgroups_m=1, subgroups_n=1),
    "more-subgroups-than-words": units(tile_m=32, tile_n=32, tile_k=8, subgroups_m=4, subgroups_n=4),
    "split": units(splits=3),
}
DIRECT = {
    "a-from-memory": units(a_from="memory", tile_n=32),
    "b-from-memory": units(b_from="memory", buffering="double", tile_n=32),
    "both-from-memory": units(a_from="memory", b_from="memory", pad=0, buffering="single"),
}
each_config = pytest.mark.parametrize("name", CONFIGS)
TRANSPOSED = [(False, False), (True, False), (False, True), (True, True)]
each_transpose = pytest.mark.parametrize("transposed", TRANSPOSED, ids=str)


def in_turn(*names):
    """Each transpose with one of the configs: a text takes seconds to compile."""
    return pytest.mark.parametrize(("name", "transposed"), list(zip(names, TRANSPOSED, strict=True)), ids=str)


def f16(m, n, k, **changes):
    return GemmProblem(**{"m": m, "n": n, "k": k, "dtype": "f16", **changes})


def turned(transposed):
    return dict(zip(("transpose_a", "transpose_b"), transposed, strict=True))


def assert_right(runtime, problems, config):
    """All results right, on whole numbers and on fractions in turn."""
    wrong = {}
    for index, problem in enumerate(problems):
        assert list(space.refusals(GEMM, problem, config, runtime.profile)) == [] or problem.m * problem.n
        found = run(runtime, problem, config, integers=index % 2 == 0)
        if found is not None:
            wrong[GEMM.label(problem)] = found
    assert wrong == {}


# -- numbers -----------------------------------------------------------------------------------------


@each_config
def test_ragged_shapes_are_right(matrix_runtime, name):
    config = CONFIGS[name]
    m, n, k = config.tile_m, config.tile_n, config.tile_k
    sizes = [
        (m - 1, n + 1, k + 1),
        (m, n, k),
        (m + 1, n - 1, 1),
        (1, n, 3),
        (3, 7, 4),
        (2 * m + 1, 1, 7),
        (m + 8, n + 8, k + 8),
        (7, 2 * n + 2, 3 * k),
        (m, n, k - 1),
        (m + 4, n + 4, 5 * k + 4),
    ]
    assert_right(matrix_runtime, [f16(*size) for size in sizes], config)


@in_turn("prefetch", "double", "double", "prefetch")
def test_all_four_transposes_are_right_for_rows_of_any_length(matrix_runtime, name, transposed):
    sizes = [(37, 33, 35), (38, 34, 36), (36, 36, 20), (40, 72, 24), (8, 8, 8), (1, 1, 1)]
    problems = [f16(*size, **turned(transposed)) for size in sizes]
    assert_right(matrix_runtime, problems, CONFIGS[name])


@pytest.mark.parametrize("name", DIRECT)
@each_transpose
def test_matrices_straight_from_memory_are_right(matrix_runtime, name, transposed):
    config = DIRECT[name]
    m, n, k = 2 * config.tile_m, 2 * config.tile_n, 3 * config.tile_k
    extra = {"lda": 100, "ldb": 104} if name == "both-from-memory" else {}
    odd = {"lda": 101, "ldb": 103} if name == "both-from-memory" else {}
    problems = [f16(m, n, k, **turned(transposed), **given) for given in ({}, extra, odd)]
    assert_right(matrix_runtime, problems, config)


@in_turn("prefetch", "early", "split", "prefetch")
def test_packed_operands_are_right(matrix_runtime, name, transposed):
    config = PackedMatrixUnits(**CONFIGS[name].parameters())
    problems = [
        f16(33, 35, 37, **turned(transposed)),
        f16(40, 72, 24, **turned(transposed), lda=76, ldb=80, ldc=75),
        f16(8, 8, 8, **turned(transposed)),
        f16(31, 36, 50, **turned(transposed), batch=3, broadcast_b=True, beta=0.5),
        f16(33, 32, 16, **turned(transposed), accumulate="f16"),
    ]
    assert_right(matrix_runtime, problems, config)


@pytest.mark.parametrize("name", ["prefetch", "early", "split"])
def test_sums_in_f16_are_right(matrix_runtime, name):
    problems = [f16(33, 36, 40, accumulate="f16"), f16(65, 33, 17, accumulate="f16", out_dtype="f32")]
    assert_right(matrix_runtime, problems, CONFIGS[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"lda": 44, "ldb": 41, "ldc": 50},
        {"lda": 48, "ldb": 40, "ldc": 40, "out_dtype": "f32"},
        {"batch": 3},
        {"batch": 3, "broadcast_a": True, "transpose_b": True},
        {"batch": 2, "broadcast_b": True, "transpose_a": True},
        {"alpha": -0.5, "beta": 0.25, "out_dtype": "f32"},
        {"activation": "gelu", "bias": True, "residual": True},
        {"activation": "silu", "beta": 0.5, "residual": True, "ldc": 40},
        {"activation": "relu", "bias": True, "batch": 2},
    ],
    ids=repr,
)
def test_layouts_batches_and_epilogues_are_right(matrix_runtime, changes):
    for name, size in (("prefetch", (35, 36, 40)), ("split", (33, 39, 33))):
        assert_right(matrix_runtime, [f16(*size, **changes)], CONFIGS[name])


def test_sizes_baked_into_the_text_are_right(matrix_runtime):
    for config in (CONFIGS["early"], CONFIGS["split"]):
        assert run(matrix_runtime, f16(33, 39, 50), config, specialize=True, integers=True) is None


@pytest.mark.parametrize("k", [16, 48, 80])
@pytest.mark.parametrize("name", ["double", "early"])
def test_an_odd_number_of_tiles_is_right(matrix_runtime, name, k):
    config = structs.replace(CONFIGS[name], tile_k=16)
    assert_right(matrix_runtime, [f16(33, 40, k), f16(33, 40, k + 3)], config)


def test_workgroups_without_a_tile_leave_everything_alone(matrix_runtime):
    problem = f16(33, 36, 12)
    plan = GEMM.plan(problem, CONFIGS["prefetch"], specialize=False)
    assert complaint(matrix_runtime, problem, plan, with_first_pass(plan, workgroups=65_535 + 2)) is None


def test_a_last_group_of_fewer_tile_rows_is_right(matrix_runtime):
    assert_right(matrix_runtime, [f16(11 * 32 - 3, 3 * 16, 12)], CONFIGS["single"])


MUTANTS = {
    "a zero is missing past the end of K": ("size - min(at, size)", "size", (35, 36, 20)),
    "columns for rows": ("<Right, row_major>", "<Right, col_major>", (35, 36, 20)),
    "the wrong part of the tile": ("part_n = subgroup % SUBGROUPS_N", "part_n = 0u", (40, 40, 16)),
    "another step of K": ("a_sub + 0u * PITCH_A + 1u", "a_sub + 0u * PITCH_A + 0u", (40, 40, 16)),
    "a row past the end": ("sizes.m - 1u)", "sizes.m)", (35, 36, 20)),
    "sums left out": ("c_0_1 = subgroupMatrixMultiply", "_ = subgroupMatrixMultiply", (40, 40, 16)),
    "stored a row too far": ("own_row + 8u", "own_row + 9u", (40, 40, 16)),
    "unguarded columns": ("row < sizes.m && col < sizes.n", "row < sizes.m", (35, 36, 20)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_text_is_found_out(matrix_runtime, name):
    right, wrong, size = MUTANTS[name]
    problem, config = f16(*size), units(tile_n=32)
    plan = GEMM.plan(problem, config, specialize=False)
    text = plan.passes[0].wgsl
    assert right in text
    mutant = with_first_pass(plan, wgsl=text.replace(right, wrong))
    if name == "a row past the end":  # re-reads what is never stored, so nothing can be wrong
        assert complaint(matrix_runtime, problem, plan, mutant, integers=True) is None
    else:
        assert complaint(matrix_runtime, problem, plan, mutant, integers=True) is not None


def some_configs(problem, profile, count, fits):
    """Configs by chance that are legal for a problem on a device; minor axes at few of their values."""
    few = {"variant": {"subgroup_matrix"}, "group_m": {"8"}, "splits": {"1"}}
    split = {"variant": {"subgroup_matrix"}, "group_m": {"1"}, "splits": {"2"}, "pad": {"1"}}
    packed = {"variant": {"packed_subgroup_matrix"}, "group_m": {"8"}, "splits": {"1"}}
    found = []
    for only in (few, split, packed):
        legal = space.legal(GEMM, problem, profile, space.restricted(space.load_axes(GEMM), only))
        found += [space.config_at(GEMM, legal.axes, point) for point in legal.points]
    fitting = [config for config in found if fits(config)]
    return random.Random(0).sample(fitting, min(count, len(fitting)))


def subgroups(config):
    return config.subgroups_m * config.subgroups_n


@once
def legal_configs(ragged):
    """Configs of the shipped space for lavapipe, without those that it compiles for half a minute."""
    problem = f16(63, 63, 511) if ragged else f16(64, 64, 512)
    return some_configs(
        problem, LAVAPIPE, 400, lambda c: c.tile_m * c.tile_n * c.tile_k <= 8 * 8**3 * subgroups(c)
    )


@st.composite
def cases(draw):
    """A legal config and a small problem for it."""
    ragged = draw(st.booleans())
    config = draw(st.sampled_from(legal_configs(ragged)))
    m, n, k = (
        draw(st.integers(1, 2 * size + 3)) if ragged else draw(st.integers(1, 2)) * size
        for size in (config.tile_m, config.tile_n, depth_of(config))
    )
    transposed = draw(st.sampled_from(TRANSPOSED))
    accumulate = draw(st.sampled_from(["f32", "f16"]))
    extra = draw(st.sampled_from([{}, {"out_dtype": "f32"}, {"bias": True, "activation": "relu"}]))
    return config, f16(m, n, k, accumulate=accumulate, **turned(transposed), **extra)


@few_examples(6)
@given(case=cases(), integers=st.booleans())
def test_legal_configs_are_right_at_any_shape(matrix_runtime, case, integers):
    config, problem = case
    if GEMM.unfit(problem, config) is None:
        assert run(matrix_runtime, problem, config, integers=integers) is None


def test_a_software_adapter_takes_no_matrix_units_by_default(matrix_runtime):
    assert not isinstance(GEMM.default(f16(512, 512, 512), matrix_runtime.profile), MatrixUnits)


# -- texts -------------------------------------------------------------------------------------------


@once
def texts_for(profile_name):
    """WGSL of configs by chance, for workgroups that Dawn's null adapter takes."""
    profile = {"h200": H200, "apple": APPLE}[profile_name]
    small = structs.replace(profile, limits=profile.limits | dict(limits.BASE_LIMITS))
    kinds = {
        "h200": [{"dtype": "f16"}, {"dtype": "f16", "accumulate": "f16"}],
        "apple": [{"dtype": "f32"}, {"dtype": "f16", "accumulate": "f16"}],
    }[profile_name]
    found = {}
    for kind in kinds:
        for m, n, k in ((256, 256, 256), (255, 130, 68)):
            problem = GemmProblem(m=m, n=n, k=k, **kind)
            configs = some_configs(problem, small, 150, lambda c: subgroups(c) * c.subgroup_size % 128 == 0)
            for transposed in TRANSPOSED:
                other = structs.replace(problem, **turned(transposed))
                able = [config for config in configs if not list(GEMM.refusals(other, config))]
                alike = {}
                for config in able:
                    alike.setdefault((config.variant, config.a_from, config.b_from), []).append(config)
                for config in (config for like in alike.values() for config in like[:3]):
                    plan = GEMM.plan(other, config, specialize=False)
                    for index, step in enumerate(plan.passes):
                        found[f"{GEMM.label(other)} {config} {index}"] = step.wgsl
    return found


@pytest.mark.parametrize("name", ["h200", "apple"])
def test_texts_are_valid_for_tint(tint, name):
    texts = texts_for(name)
    assert tint(texts) == {}
    wanted = ("row_major", "col_major", "&a,", "&b,", "fn pitch_a()", "packed_b:")
    assert [kind for kind in wanted if kind not in "".join(texts.values())] == []


def test_tint_would_say_so_if_a_matrix_were_of_another_shape(tint):
    config = units(matrix="16x16x16", subgroup_size=32, tile_n=32)
    text = GEMM.plan(f16(64, 64, 64), config, specialize=False).passes[0].wgsl
    wrong = text.replace("subgroup_matrix_right<f16, 16, 16>", "subgroup_matrix_right<f16, 16, 8>")
    assert set(tint({"right": text, "wrong": wrong})) == {"wrong"}


@st.composite
def plans(draw):
    """A legal config of a device, a problem for it, and the plan of both."""
    config = draw(st.sampled_from(legal_configs(False)))
    transposed = draw(st.sampled_from(TRANSPOSED))
    rows, cols, depth = config.tile_m, config.tile_n, depth_of(config)
    m, n, k = (draw(st.integers(1, 3)) * size for size in (rows, cols, depth))
    if config.a_from == config.b_from == "workgroup":
        m, n, k = m + draw(st.integers(0, 9)), n + draw(st.integers(0, 9)), k + draw(st.integers(0, 9))
    problem = f16(m, n, k, accumulate=draw(st.sampled_from(["f32", "f16"])), **turned(transposed))
    return config, problem, GEMM.plan(problem, config, specialize=draw(st.booleans()))


def on_matrix_units(plan):
    """The pass that multiplies."""
    return next(step for step in plan.passes if step.subgroup_matrix is not None)


@many_examples
@given(plans())
def test_plans_and_texts_say_the_same(case):
    config, problem, plan = case
    assert GEMM.resources(problem, config) == limits.needs(plan)
    assert MATRIX_FEATURE in plan.features
    first = on_matrix_units(plan)
    assert (first.subgroup_size, first.subgroup_matrix.m) == (config.subgroup_size, 8)
    for step in plan.passes:
        assert workgroup_memory(step.wgsl) == step.workgroup_bytes
        assert workgroup_size(step.wgsl) == step.workgroup_size
        assert_finished(step.wgsl)
    assert ("enable chromium_experimental_subgroup_matrix;" in first.wgsl) is True
    assert all(plan.sizes[name] % multiple == 0 for name, multiple in plan.multiples.items())


@many_examples
@given(plans())
def test_places_in_workgroup_memory_are_sums_products_quotients_and_remainders(case):
    """What Tint proves to be in range; it clamps everything else, and tests the place of a matrix."""
    _, _, plan = case
    text = without_comments(on_matrix_units(plan).wgsl)
    defined = re.findall(r"let [ab]_(?:piece|line|word|place)_\d+ = (.*);|let [ab]_sub = (.*);", text)
    places = [place for pair in defined for place in pair if place and "tile_" not in place]
    places += re.findall(r"tiles\[([ab]_place.*?)\] =", text)
    places += re.findall(r"MatrixLoad<.*>\(&tiles, (.*), PITCH", text)
    known = r"[0-9]+u?|invocation|part_[mn]|[ab]_(?:piece|line|word|place)_\d+|[ab]_sub|[A-Z_]+|[-+*/%() ]"
    assert places or "&tiles" not in text.replace("Store<row_major>(&tiles", "")
    assert [place for place in places if re.sub(rf"\bnow % 2u|\(1u - now\) % 2u|{known}", "", place)] == []


def texts_of(plan):
    return [step.wgsl for step in plan.passes]


@many_examples
@given(plans())
def test_neighbours_can_be_run_and_some_have_the_very_text(case):
    config, problem, _ = case
    neighbours = GEMM.neighbours(problem, config)
    assert all(GEMM.unfit(other, config) is None for other in neighbours)
    texts = [texts_of(GEMM.plan(other, config, specialize=False)) for other in neighbours]
    assert texts_of(GEMM.plan(problem, config, specialize=False)) in texts


# -- legality ----------------------------------------------------------------------------------------


def test_a_device_without_the_feature_the_shape_or_the_subgroups_refuses_and_says_which():
    problem, config = f16(64, 64, 64), units(matrix="16x16x16", subgroup_size=32, tile_n=32)
    assert list(space.refusals(GEMM, problem, config, H200)) == []
    plain = structs.replace(H200, features=("shader-f16", "subgroups"), subgroup_matrix=())
    reasons = list(space.refusals(GEMM, problem, config, plain))
    assert f"needs a feature the adapter lacks: {MATRIX_FEATURE}" in reasons
    (reason,) = space.refusals(GEMM, problem, config, structs.replace(H200, subgroup_size=64))
    assert "32 lanes, the adapter has 64" in reason
    (reason,) = space.refusals(GEMM, problem, config, structs.replace(H200, subgroup_matrix=()))
    assert "lack this shape: f16 to f32 16×16×16, there are none" in reason


def test_an_enumeration_is_what_the_limits_allow():
    problem = f16(64, 64, 64)
    axes = space.load_axes(GEMM)
    few = {"a_from": {"workgroup"}, "b_from": {"workgroup"}, "buffering": {"single"}, "splits": {"1"}}
    few |= {"group_m": {"1"}, "pad": {"1"}, "variant": {"subgroup_matrix"}}
    found = space.legal(GEMM, problem, H200, space.restricted(axes, few))
    configs = [space.config_at(GEMM, found.axes, point) for point in found.points]
    assert {config.matrix for config in configs} == {"16x16x16", "16x8x16", "16x8x8"}
    assert {config.subgroup_size for config in configs} == {32}
    assert all(list(space.refusals(GEMM, problem, config, H200)) == [] for config in configs)
    for problem in (f16(64, 64, 64), GemmProblem(m=64, n=64, k=64)):
        nothing = space.legal(
            GEMM, problem, limits.base_profile(), {"subgroup_matrix": axes["subgroup_matrix"]}
        )
        assert not nothing.points
        assert set(nothing.refused) == {"needs a feature the adapter lacks"}


def test_matrices_straight_from_memory_take_whole_tiles_and_the_plan_says_so():
    config = DIRECT["both-from-memory"]
    assert GEMM.unfit(f16(64, 32, 48), config) is None
    for size in ((65, 32, 48), (64, 33, 48), (64, 32, 47)):
        assert GEMM.unfit(f16(*size), config) == "matrices straight from memory take whole tiles"
    plan = GEMM.plan(f16(64, 32, 48), config, specialize=False)
    assert plan.multiples == {"m": 32, "n": 16, "k": 16}


@pytest.mark.parametrize(
    ("changes", "multiples"),
    [
        ({"m": 35, "n": 39, "k": 33}, {}),
        ({"m": 35, "n": 34, "k": 33}, {"n": 2}),
        ({"m": 35, "n": 36, "k": 34}, {"n": 4, "k": 2}),
        ({"m": 35, "n": 40, "k": 40}, {"n": 8, "k": 8}),
        ({"m": 36, "n": 39, "k": 48, "transpose_a": True}, {"m": 4, "k": 16}),
        ({"m": 35, "n": 40, "k": 40, "lda": 44, "ldb": 42}, {"n": 4, "k": 4, "lda": 4, "ldb": 2}),
    ],
    ids=repr,
)
def test_accesses_are_as_wide_as_rows_allow_and_the_plan_says_so(changes, multiples):
    problem = GemmProblem(**{"dtype": "f16", **changes})
    assert GEMM.plan(problem, units(tile_n=32), specialize=False).multiples == multiples


def test_the_default_uses_matrix_units_where_a_device_has_them_and_only_there():
    for sizes in (
        (4096, 4096, 4096),
        (1024, 1024, 1024),
        (128, 4096, 4096),
        (1023, 1025, 1027),
        (64, 64, 64),
    ):
        problem = f16(*sizes)
        chosen = GEMM.default(problem, H200)
        assert isinstance(chosen, MatrixUnits)
        assert list(space.refusals(GEMM, problem, chosen, H200)) == []
        for elsewhere in (None, limits.base_profile(), structs.replace(H200, features=("shader-f16",))):
            assert not isinstance(GEMM.default(problem, elsewhere), MatrixUnits)
    for size, edge in ((2048, 128), (1024, 64)):  # smaller tiles, so that they fill the GPU
        large = GEMM.default(f16(size, size, size), H200)
        assert (large.matrix, large.tile_m, large.tile_n, large.tile_k) == ("16x8x16", edge, edge, 32)
    ragged = GEMM.default(f16(1023, 1025, 1027), H200)  # whose rows are not whole words
    assert isinstance(ragged, PackedMatrixUnits)
    assert not isinstance(GEMM.default(f16(255, 257, 259), H200), PackedMatrixUnits)
    assert GEMM.default(f16(4096, 4096, 4096, accumulate="f16"), H200).matrix == "16x16x16"
    assert not isinstance(GEMM.default(GemmProblem(m=4096, n=4096, k=4096), H200), MatrixUnits)
    assert not isinstance(GEMM.default(f16(1, 4096, 4096), H200), MatrixUnits)


def test_what_was_tuned_without_matrix_units_does_not_come_before_the_default_that_has_them(tmp_path):
    here = structs.replace(H200, vendor="nvidia", vendor_id=0x10DE, device_id=0x2335, architecture="hopper")
    naga = structs.replace(here, compiler="naga", features=("shader-f16",), subgroup_matrix=())
    large = f16(4096, 4096, 4096)
    winner = GEMM.default(large, naga)
    made = new_entry(GEMM, large, naga, winner, seconds(3e-3), trials=9, complete=True, verified=True)
    cache.store(tmp_path, GEMM, made)
    answer = find(GEMM, large, here, user_root=tmp_path, shipped_root=tmp_path / "none")
    assert (answer.level, answer.config) == ("default", GEMM.default(large, here))
    assert any("tuned without matrix units" in note for note in answer.notes)
    small = f16(8, 4096, 4096)  # no matrix units there: what the other stack found is worth more than a guess
    few = structs.replace(made, problem=small, config=GEMM.default(small, naga))
    cache.store(tmp_path, GEMM, few)
    found = find(GEMM, small, here, user_root=tmp_path, shipped_root=tmp_path / "none")
    assert found.level == "architecture"


def test_starts_are_legal_for_large_matrices_on_a_device_like_theirs():
    starts = [start for start in space.load_starts(GEMM) if isinstance(start, MatrixUnits)]
    large = f16(4096, 4096, 4096)
    assert [start for start in starts if not list(space.refusals(GEMM, large, start, H200))]


# -- lines that lie abreast ----------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", TRANSPOSED, ids=str)
@many_examples
@given(data=st.data())
def test_every_word_of_a_tile_has_a_place_of_its_own_and_matrices_do_not_straddle_rows(transposed, data):
    c = {"matrix": data.draw(st.sampled_from(["8x8x8", "16x8x8", "16x8x16", "16x16x16"])), "pad": 1}
    m, n, k = (int(extent) for extent in c["matrix"].split("x"))
    c |= {name: data.draw(st.sampled_from([1, 2, 3, 4])) for name in ("subgroups_m", "subgroups_n")}
    for name, extent in (("tile_m", m * c["subgroups_m"]), ("tile_n", n * c["subgroups_n"]), ("tile_k", k)):
        c[name] = extent * data.draw(st.sampled_from([1, 2, 3, 4, 8]))
    product = product_of(f16(64, 64, 64, **turned(transposed)))
    for x, along, block, parts in (
        ("a", product.along_a, m, c["subgroups_m"]),
        ("b", product.along_b, n, c["subgroups_n"]),
    ):
        lines, length = product.lines(c, x)
        words, abreast = length // product.per_word(c["matrix"]), product.abreast(c, x)
        rows = lines // abreast
        assert lines % abreast == 0
        assert abreast == 1 or words * abreast * product.word(c["matrix"]) <= 128
        places = {
            (line % rows) * (words * abreast + 1) + line // rows * words + word
            for line in range(lines)
            for word in range(words)
        }
        assert len(places) == lines * words
        step, part = (block, lines // parts) if along == "k" else (k, lines)
        for first in range(0, lines, step):
            assert first // rows == (first + step - 1) // rows, "a matrix in one column of lines"
        assert rows % part == 0 or part % rows == 0


def test_short_lines_lie_abreast_and_long_ones_do_not():
    tiles = {"matrix": "16x8x16", "pad": 1, "tile_m": 128, "tile_n": 128, "tile_k": 32}
    tiles |= {"subgroups_m": 2, "subgroups_n": 2}
    assert [product_of(f16(64, 64, 64)).abreast(tiles, x) for x in "ab"] == [2, 1]
    assert [product_of(f16(64, 64, 64, transpose_b=True)).abreast(tiles, x) for x in "ab"] == [2, 2]
    assert [product_of(f16(64, 64, 64)).abreast(tiles | {"pad": 0}, x) for x in "ab"] == [1, 1]
