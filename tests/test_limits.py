import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from autotune.errors import InvalidProblem
from autotune.kernels.base import Resources
from autotune.kernels.gemm import GEMM, GemmProblem, Naive, Tiled
from autotune.limits import BASE_LIMITS, base_profile, refusals, split_grid
from autotune.model import SubgroupMatrix

MODEST = Resources(workgroup_size=(8, 8, 1), workgroup_bytes=1024, workgroups=64, binding_bytes=(4096,) * 3)


def refused(profile=None, **changes):
    return list(refusals((structs.replace(MODEST, **changes),), profile or base_profile()))


def allowing(**limits):
    return structs.replace(base_profile(), limits=BASE_LIMITS | limits)


def test_a_modest_kernel_is_allowed_by_the_base_limits():
    assert refused() == []


def test_a_workgroup_whose_product_alone_is_too_large_is_refused_naming_product_and_limit():
    (reason,) = refused(workgroup_size=(8, 8, 8))
    assert "8×8×8 = 512" in reason
    assert "256" in reason


@pytest.mark.parametrize(
    ("size", "axis", "limit"), [((512, 1, 1), "x", 256), ((1, 512, 1), "y", 256), ((1, 1, 128), "z", 64)]
)
def test_a_workgroup_too_long_in_one_direction_is_refused_naming_it(size, axis, limit):
    profile = allowing(maxComputeInvocationsPerWorkgroup=1024)
    (reason,) = refused(profile, workgroup_size=size)
    assert f"in {axis}: {max(size)}" in reason
    assert str(limit) in reason


@pytest.mark.parametrize(("needed", "there"), [(40_960, 32_768), (65_536, 16_384)])
def test_too_much_workgroup_memory_is_refused_naming_both_amounts(needed, there):
    profile = allowing(maxComputeWorkgroupStorageSize=there)
    (reason,) = refused(profile, workgroup_bytes=needed)
    assert f"{needed} B" in reason
    assert f"{there} B" in reason
    assert refused(profile, workgroup_bytes=there) == []


@pytest.mark.parametrize("limit", ["maxStorageBufferBindingSize", "maxBufferSize"])
def test_a_matrix_beyond_the_largest_binding_or_buffer_is_refused_naming_the_smaller_limit(limit):
    profile = allowing(**{limit: 1 << 20})
    (reason,) = refused(profile, binding_bytes=(64, (1 << 20) + 4, 64))
    assert "largest storage binding" in reason
    assert "1048580 B" in reason
    assert "1048576 B" in reason
    assert refused(profile, binding_bytes=(64, 1 << 20, 64)) == []


def test_a_problem_too_large_for_the_binding_limit_is_refused_without_rendering_it():
    problem = GemmProblem(m=8192, n=8192, k=16)
    (reason,) = refusals(GEMM.resources(problem, Naive(workgroup_x=16, workgroup_y=16)), base_profile())
    assert "268435456 B, the adapter allows 134217728 B" in reason


def test_too_many_storage_buffers_are_refused():
    (reason,) = refused(binding_bytes=(64,) * 9)
    assert "9" in reason
    assert "8" in reason


def test_a_grid_is_refused_only_when_two_dimensions_do_not_hold_it():
    profile = allowing(maxComputeWorkgroupsPerDimension=100)
    assert refused(profile, workgroups=10_000) == []
    (reason,) = refused(profile, workgroups=10_001)
    assert "10001 workgroups" in reason


def test_a_missing_feature_is_named():
    (reason,) = refused(features=("shader-f16",))
    assert "shader-f16" in reason
    able = structs.replace(base_profile(), features=("shader-f16",))
    assert refused(able, features=("shader-f16",)) == []


def test_every_broken_limit_has_its_own_reason():
    reasons = refused(workgroup_size=(512, 1, 1), workgroup_bytes=1 << 20, features=("subgroups",))
    assert len(reasons) == len({reason.partition(":")[0] for reason in reasons}) == 4


def test_limits_a_profile_does_not_report_are_the_base_limits():
    silent = structs.replace(base_profile(), limits={})
    (reason,) = refused(silent, workgroup_size=(32, 32, 1))[:1]
    assert "256" in reason
    assert GEMM.resources(GemmProblem(m=4, n=4, k=4), Tiled(tile=32))[0].workgroup_size == (32, 32, 1)


@given(st.integers(1, 65_535).flatmap(lambda limit: st.tuples(st.integers(1, limit * limit), st.just(limit))))
def test_a_split_grid_covers_the_count_within_the_limit_and_wastes_less_than_a_column(case):
    workgroups, limit = case
    x, y = split_grid(workgroups, limit)
    assert 1 <= x <= limit
    assert 1 <= y <= limit
    assert 0 <= x * y - workgroups < y <= x


def test_an_adapter_that_allows_no_workgroups_refuses_every_grid():
    (reason,) = refused(allowing(maxComputeWorkgroupsPerDimension=0))
    assert "64 workgroups, the adapter allows 0²" in reason


@given(st.integers(1, 200), st.integers(1, 40))
def test_linearised_workgroups_of_a_split_grid_meet_every_tile_once(workgroups, limit):
    x, y = split_grid(workgroups, limit)
    linear = [row * x + column for row in range(y) for column in range(x)]
    assert sorted(tile for tile in linear if tile < workgroups) == list(range(workgroups))


@pytest.mark.parametrize("workgroups", [1, 65_535])
def test_a_grid_that_fits_one_dimension_is_not_split(workgroups):
    assert split_grid(workgroups, 65_535) == (workgroups, 1)


@pytest.mark.parametrize(
    "sizes",
    [
        {"m": 1 << 15, "n": 1 << 15, "k": 1},  # C has 2³⁰ elements
        {"m": 1 << 15, "n": 1, "k": 1 << 15},  # A has
        {"m": 1, "n": 1 << 15, "k": 1 << 15},  # B has
        {"m": 65_536, "n": 16_384, "k": 1},  # m·n·4 = 2³²
        {"m": 1 << 16, "n": 1 << 15, "k": 1, "dtype": "f16"},
    ],
)
def test_a_matrix_of_four_gibibytes_is_refused_when_the_problem_is_made(sizes):
    with pytest.raises(InvalidProblem, match="indexes up to 4294967296 B"):
        GemmProblem(**sizes)


@pytest.mark.parametrize("size", [1 << 40, 10**5000, -(10**5000)], ids=["long", "longer", "negative"])
def test_a_size_that_no_index_holds_is_refused_without_printing_it(size):
    words = "at most 4294967295" if size > 0 else "a whole number of at least 1, not a number of many digits"
    with pytest.raises(InvalidProblem, match=f"m must be {words}"):
        GemmProblem(m=size, n=1, k=1)


def test_the_largest_indexable_matrix_is_a_problem():
    GemmProblem(m=(1 << 30) - 1, n=1, k=1)
    GemmProblem(m=1 << 30, n=1, k=1, dtype="f16")


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "4", None])
def test_sizes_that_are_not_whole_numbers_of_at_least_one_are_refused(size):
    with pytest.raises(InvalidProblem, match="k must be a whole number"):
        GemmProblem(m=4, n=4, k=size)


@pytest.mark.parametrize(
    "types",
    [
        {"dtype": "f32", "accumulate": "f16"},
        {"dtype": "f64"},
        {"dtype": "u32"},
        {"dtype": "u32", "accumulate": "u32"},
        {"accumulate": "f64"},
    ],
)
def test_element_types_that_do_not_go_together_are_refused(types):
    with pytest.raises(InvalidProblem):
        GemmProblem(m=4, n=4, k=4, **types)


SHAPE = SubgroupMatrix(element="f16", result="f32", m=16, n=16, k=16)


def test_a_text_for_subgroups_of_another_size_is_refused_naming_both():
    (reason,) = refused(subgroup_size=32)
    assert "32 lanes, the adapter has an unknown number" in reason
    eight = structs.replace(base_profile(), subgroup_size=8)
    (reason,) = refused(eight, subgroup_size=32)
    assert "32 lanes, the adapter has 8" in reason
    assert refused(eight, subgroup_size=8) == refused(eight) == []


def test_a_matrix_shape_that_the_units_lack_is_refused_naming_those_there_are():
    (reason,) = refused(subgroup_matrix=SHAPE)
    assert "f16 to f32 16×16×16, there are none" in reason
    able = structs.replace(base_profile(), subgroup_matrix=(SHAPE,))
    assert refused(able, subgroup_matrix=SHAPE) == []
    (reason,) = refused(able, subgroup_matrix=structs.replace(SHAPE, result="f16"))
    assert "f16 to f16 16×16×16, there are f16 to f32 16×16×16" in reason
