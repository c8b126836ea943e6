from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from autotune import paths, space
from autotune.errors import InvalidConfig
from autotune.kernels import KERNELS
from autotune.kernels.base import Rule
from autotune.kernels.gemm import GEMM, GemmProblem, Naive, Tiled
from autotune.kernels.gemm.family import Gemm
from autotune.limits import BASE_LIMITS, base_profile
from autotune.plans import render

SHIPPED = space.load_axes(GEMM)
SIZES = [1, 4, 7, 64, 100]
TYPES = [("f32", "f32"), ("f16", "f32"), ("f16", "f16")]

problems = st.builds(
    lambda m, n, k, types: GemmProblem(m=m, n=n, k=k, dtype=types[0], accumulate=types[1]),
    *[st.sampled_from(SIZES)] * 3,
    st.sampled_from(TYPES),
)
profiles = st.builds(
    lambda features, **limits: structs.replace(
        base_profile(), features=features, limits=BASE_LIMITS | limits
    ),
    st.sampled_from([(), ("shader-f16",)]),
    maxComputeInvocationsPerWorkgroup=st.sampled_from([64, 256, 1024]),
    maxComputeWorkgroupSizeX=st.sampled_from([64, 256, 1024]),
    maxComputeWorkgroupStorageSize=st.sampled_from([4096, 16_384, 32_768]),
)


DEFAULTS = [GEMM.default(GemmProblem(m=m, n=m, k=m), None) for m in (64, 65, 1024, 4096)]


@st.composite
def reduced(draw, axes=SHIPPED):
    """The shipped axes with a few of their values: small enough to enumerate, and around a legal config."""
    legal = draw(st.sampled_from(DEFAULTS)).parameters()

    def few(axis, most):
        kept = draw(st.sets(st.sampled_from(axis.values), min_size=1, max_size=most))
        return space.Axis(axis.name, tuple(value for value in axis.values if value in kept))

    def with_its(axis, others):
        kept = {legal[axis.name], *few(axis, 2).values} if others else {legal[axis.name]}
        return space.Axis(axis.name, tuple(value for value in axis.values if value in kept))

    widened = {"vector"} | draw(st.sets(st.sampled_from([axis.name for axis in axes["blocked"]]), max_size=7))
    return {
        "naive": tuple(few(axis, 4) for axis in axes["naive"]),
        "blocked": tuple(with_its(axis, axis.name in widened) for axis in axes["blocked"]),
        "tiled": tuple(few(axis, 4) for axis in axes["tiled"]),
    }


def every_point(axes):
    for variant, variant_axes in axes.items():
        indices = [()]
        for axis in variant_axes:
            indices = [(*before, i) for before in indices for i in range(len(axis.values))]
        yield from ((variant, chosen) for chosen in indices)


@settings(deadline=None)
@given(problems, profiles, reduced())
def test_pruned_enumeration_finds_exactly_the_points_without_a_refusal(problem, profile, axes):
    found = space.legal(GEMM, problem, profile, axes)
    expected = [
        point
        for point in every_point(axes)
        if not list(space.refusals(GEMM, problem, space.config_at(GEMM, axes, point), profile))
    ]
    assert list(found.points) == expected


@settings(deadline=None)
@given(problems, profiles, reduced())
def test_every_point_is_either_legal_or_counted_under_a_reason(problem, profile, axes):
    found = space.legal(GEMM, problem, profile, axes)
    size = sum(prod(len(axis.values) for axis in variant_axes) for variant_axes in axes.values())
    assert len(found) + found.refused.total() == size
    assert all(count > 0 and ":" not in reason for reason, count in found.refused.items())


@settings(deadline=None)
@given(problems, profiles, reduced())
def test_neighbours_are_legal_differ_on_one_axis_and_are_mutual(problem, profile, axes):
    found = space.legal(GEMM, problem, profile, axes)
    for point in found.points[:50]:
        nearby = found.neighbours(point)
        assert len(nearby) == len(set(nearby))
        for other in nearby:
            assert other in found
            assert other[0] == point[0]
            (moved,) = [i for i, (a, b) in enumerate(zip(point[1], other[1], strict=True)) if a != b]
            if axes[point[0]][moved].ordered:
                assert abs(point[1][moved] - other[1][moved]) == 1
            assert point in found.neighbours(other)


@settings(deadline=None)
@given(reduced())
def test_points_and_configs_stand_for_each_other(axes):
    for point in every_point(axes):
        config = space.config_at(GEMM, axes, point)
        assert config.variant == point[0]
        assert space.point_of(axes, config) == point
        assert space.config_from(GEMM, config.variant, config.parameters()) == config


def test_a_config_with_a_value_outside_the_space_has_no_point():
    assert space.point_of(SHIPPED, Tiled(tile=9)) is None
    assert space.point_of({"tiled": SHIPPED["tiled"]}, Naive(workgroup_x=8, workgroup_y=8)) is None


def test_the_shipped_space_offers_something_on_a_device_with_base_limits():
    found = space.legal(GEMM, GemmProblem(m=64, n=64, k=64), base_profile())
    left_out = {"packed", "subgroup_matrix", "packed_subgroup_matrix"}  # whole vec4s; no matrix units
    assert {variant for variant, _ in found.points} == set(GEMM.config_types) - left_out
    assert found.refused["needs a feature the adapter lacks"] > 0
    assert found.refused["too much workgroup memory"] > 0
    assert found.refused["too many invocations in a workgroup"] > 0


@settings(deadline=None)
@given(problems, profiles)
def test_the_default_and_the_baseline_are_legal_wherever_base_limits_hold(problem, profile):
    roomy = structs.replace(
        profile,
        limits={name: max(profile.limits[name], BASE_LIMITS[name]) for name in BASE_LIMITS},
        features=("shader-f16",),
    )
    for config in (GEMM.default(problem, roomy), GEMM.default(problem, None), GEMM.baseline(problem, roomy)):
        assert list(space.refusals(GEMM, problem, config, roomy)) == []


def test_unordered_axes_make_every_value_a_neighbour_and_ordered_ones_only_the_next():
    axes = {"naive": (space.Axis("x", (1, 2, 4)), space.Axis("y", ("a", "b", "c")))}
    whole = space.Space(axes, every_point(axes))
    assert sorted(whole.neighbours(("naive", (0, 0)))) == [
        ("naive", (0, 1)),
        ("naive", (0, 2)),
        ("naive", (1, 0)),
    ]


NAIVE = "[naive]\nworkgroup_x = [8, 16]\nworkgroup_y = [4]\n"


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "search_spaces_dir", lambda: tmp_path)

    def load(content):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "gemm.toml").write_bytes(data)
        return space.load_axes(GEMM)

    return load


def test_axes_come_in_the_order_of_the_config_whatever_the_file_says(load):
    axes = load("[naive]\nworkgroup_y = [4]\nworkgroup_x = [8, 16]\n")
    assert axes == {"naive": (space.Axis("workgroup_x", (8, 16)), space.Axis("workgroup_y", (4,)))}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "[fast]\ntile = [8]\n",
            "unknown variant [fast]; gemm has naive, tiled, blocked, split_k, slice_k, packed, gemv",
        ),
        ("tile = [8]\n", "unknown variant [tile]"),
        ("naive = 3\n", "[naive] must list exactly these parameters: workgroup_x, workgroup_y"),
        ("[[tiled]]\ntile = [8]\n", "[tiled] must list exactly these parameters: tile"),
        ("[naive]\nworkgroup_x = [8]\n", "must list exactly these parameters: workgroup_x, workgroup_y"),
        (NAIVE + "workgroup_z = [1]\n", "must list exactly these parameters: workgroup_x, workgroup_y"),
        ("[tiled]\ntile = 8\n", "[tiled] tile must be a non-empty list of different values"),
        ("[tiled]\ntile = []\n", "[tiled] tile must be a non-empty list of different values"),
        ("[tiled]\ntile = [8, 16, 0x8]\n", "[tiled] tile must be a non-empty list of different values"),
        ('[tiled]\ntile = [8, "16"]\n', "[tiled] tile = '16': Expected `int`, got `str`"),
        ("[tiled]\ntile = [8, 16.0]\n", "[tiled] tile = 16.0: Expected `int`, got `float`"),
        ("[tiled]\ntile = [8, true]\n", "[tiled] tile = True: Expected `int`, got `bool`"),
        ("[tiled]\ntile = [8, [16]]\n", "[tiled] tile = [16]: Expected `int`, got `array`"),
        ("[tiled]\ntile = [8, nan]\n", "[tiled] tile = nan: Expected `int`, got `float`"),
        ("[tiled]\ntile = [8, 64]\n", "[tiled] tile = 64: Expected `int` <= 32"),
        ("[tiled]\ntile = [-8]\n", "[tiled] tile = -8: Expected `int` >= 2"),
        ("[tiled\ntile = [8]\n", "cannot read the search space"),
        (b"[tiled]\ntile = [8] # \xff\n", "cannot read the search space"),
        ("", "lists no variant"),
        ("# only a comment\n", "lists no variant"),
    ],
)
def test_a_faulty_file_is_refused_with_its_name_and_the_fault(load, tmp_path, content, says):
    with pytest.raises(InvalidConfig) as caught:
        load(content)
    assert says in str(caught.value)
    assert str(tmp_path / "gemm.toml") in str(caught.value)


def test_a_missing_file_is_refused_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "search_spaces_dir", lambda: tmp_path)
    with pytest.raises(InvalidConfig, match="cannot read the search space"):
        space.load_axes(GEMM)


@pytest.mark.parametrize(
    ("variant", "parameters", "says"),
    [
        ("fast", {"tile": 8}, "unknown gemm variant 'fast'"),
        ("tiled", {}, "tile"),
        ("tiled", {"tile": 8, "vector": 4}, "vector"),
        ("tiled", {"tile": "8"}, "Expected `int`"),
        ("tiled", {"tile": 8.5}, "Expected `int`"),
        ("tiled", {"tile": 1 << 70}, "tile"),
        ("tiled", {"tile": 8, "variant": "naive"}, None),
    ],
)
def test_untrusted_parameters_become_a_config_or_a_reason(variant, parameters, says):
    if says is None:
        assert space.config_from(GEMM, variant, parameters) == Tiled(tile=8)
        return
    with pytest.raises(InvalidConfig) as caught:
        space.config_from(GEMM, variant, parameters)
    assert says in str(caught.value)


@pytest.mark.parametrize(("reads", "named"), [(("tile", "vectors"), "vectors"), ((), "no parameter")])
def test_a_rule_that_reads_an_unknown_parameter_is_refused_with_its_reason(reads, named):
    class Mistaken(Gemm):
        rules = {"tiled": (Rule(reads, "too wide", lambda *_: True),)}  # noqa: RUF012

    problem = GemmProblem(m=8, n=8, k=8)
    with pytest.raises(
        InvalidConfig, match=f"gemm: the rule 'too wide' of tiled reads {named}; there are tile"
    ):
        space.legal(Mistaken(), problem, base_profile(), {"tiled": SHIPPED["tiled"]})


def test_the_shipped_starts_are_configs_and_points_of_their_spaces():
    for family in KERNELS.values():
        axes = space.load_axes(family)
        assert all(space.point_of(axes, config) is not None for config in space.load_starts(family))
    assert space.load_starts(GEMM)


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ('[[start]]\nvariant = "tiled"\ntile = 8\n\n[[start]]\nvariant = "tiled"\ntile = 99\n', "number 2"),
        ('[[start]]\nvariant = "fast"\n', "unknown gemm variant 'fast'"),
        ("[start]\ntile = 8\n", "must be an array of tables"),
    ],
)
def test_a_start_that_is_no_config_is_refused_by_place(tmp_path, monkeypatch, starts, words):
    (tmp_path / "gemm.toml").write_text(f"{starts}\n[tiled]\ntile = [8]\n")
    monkeypatch.setattr(space.paths, "search_spaces_dir", lambda: tmp_path)
    with pytest.raises(InvalidConfig, match=words):
        space.load_starts(GEMM)


BLOCKED = GEMM.default(GemmProblem(m=1024, n=1024, k=1024), None)


@pytest.mark.parametrize(
    "config",
    [
        Naive(workgroup_x=0, workgroup_y=8),
        Naive(workgroup_x=-8, workgroup_y=8),
        Naive(workgroup_x=1 << 70, workgroup_y=8),
        Naive(workgroup_x=8.0, workgroup_y=8),
        Naive(workgroup_x="8; discard;", workgroup_y=8),
        Naive(workgroup_x=None, workgroup_y=[]),
        Tiled(tile=True),
        Tiled(tile=object()),
        structs.replace(BLOCKED, thread_m=0),
        structs.replace(BLOCKED, thread_n=0, tile_k=0),
        structs.replace(BLOCKED, tile_m=4, thread_m=8),  # no invocation at all
        structs.replace(BLOCKED, buffering="triple"),
        structs.replace(BLOCKED, vector=3),
    ],
)
@pytest.mark.parametrize("profile", [None, base_profile()])
def test_a_config_that_is_none_is_not_rendered(config, profile):
    with pytest.raises(InvalidConfig):
        render(GemmProblem(m=1024, n=1024, k=1024), config, device=profile)


def test_no_rule_divides_by_zero_where_an_earlier_one_is_broken():
    for family in KERNELS.values():
        for problem in family.samples.values():
            for variant, axes in space.load_axes(family).items():
                config = family.config_types[variant](**{axis.name: axis.values[0] for axis in axes})
                for field in ("tile_m", "tile_n"):
                    if hasattr(config, "thread_m"):
                        tiny = structs.replace(config, **{field: 4}, thread_m=8, thread_n=8)
                        assert list(space.refusals(family, problem, tiny, base_profile()))


@pytest.mark.parametrize("device", ["nvidia", 0, {}])
def test_render_takes_profiles_only(device):
    with pytest.raises(TypeError, match="device must be a DeviceProfile or None, not "):
        render(GemmProblem(m=8, n=8, k=8), device=device)
