"""int8 GEMM on matrix units: exact on the stack that has them; texts and plans everywhere."""

import random

import pytest
from kernel_checks import assert_finished, complaint, run, with_first_pass
from matrix_units import SMALL, hopper
from msgspec import structs
from wgsl_text import workgroup_memory, workgroup_size

from autotune import limits, space
from autotune.kernels.gemm_i8 import GEMM_I8, GemmI8Problem, MatrixUnits

H200 = hopper([("i8", "i32", 16, n, 32) for n in (16, 8)])


def units(**changes):
    return MatrixUnits(**SMALL | {"tile_k": 32} | changes)


CONFIGS = {
    "single": units(buffering="single", tile_n=16, group_m=8),
    "prefetch": units(),
    "double": units(buffering="double", pad=0, tile_k=16),
    "early": units(buffering="early", tile_k=16),
}
DIRECT = {
    "a": units(a_from="memory"),
    "b": units(b_from="memory"),
    "both": units(a_from="memory", b_from="memory", pad=0, buffering="single"),
}


def problem(m, n, k):
    return GemmI8Problem(m=m, n=n, k=k)


@pytest.mark.parametrize("name", CONFIGS)
def test_ragged_shapes_are_exact(matrix_runtime, name):
    config = CONFIGS[name]
    m, n, k = config.tile_m, config.tile_n, config.tile_k
    sizes = [(m, n, k), (m - 1, n + 1, k + 4), (1, n, 4), (2 * m + 3, 1, 12), (m + 8, n + 4, k - 4)]
    sizes += [(7, 2 * n + 2, 3 * k), (m + 1, n + 8, 5 * k + 16)]
    wrong = {size: run(matrix_runtime, problem(*size), config, integers=True) for size in sizes}
    assert wrong == dict.fromkeys(sizes)


@pytest.mark.parametrize("name", DIRECT)
def test_matrices_straight_from_memory_are_exact(matrix_runtime, name):
    config = DIRECT[name]
    size = (2 * config.tile_m, 2 * config.tile_n, 3 * config.tile_k)
    assert run(matrix_runtime, problem(*size), config) is None
    assert GEMM_I8.unfit(problem(*(s - 4 for s in size)), config) is not None


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("size - min(at, size)", "size"),
        ("<Right, col_major>", "<Right, row_major>"),
        ("* scale_a[row]", ""),
        ("c_0_1 = subgroup", "_ = subgroup"),
    ],
)
def test_a_wrong_text_is_found_out(matrix_runtime, right, wrong):
    asked, config = problem(19, 36, 36), units()
    plan = GEMM_I8.plan(asked, config, specialize=False)
    text = plan.passes[0].wgsl
    assert right in text
    mutant = with_first_pass(plan, wgsl=text.replace(right, wrong))
    assert complaint(matrix_runtime, asked, plan, mutant, integers=True) is not None


def legal(asked, profile, count):
    """Configs by chance."""
    only = {"variant": {"subgroup_matrix"}, "group_m": {"8"}, "pad": {"1"}}
    found = space.legal(GEMM_I8, asked, profile, space.restricted(space.load_axes(GEMM_I8), only))
    points = random.Random(1).sample(list(found.points), count)
    return [space.config_at(GEMM_I8, found.axes, point) for point in points]


def test_texts_are_valid_for_tint(tint):
    small = structs.replace(H200, limits=H200.limits | dict(limits.BASE_LIMITS))
    texts = {}
    for asked in (problem(256, 256, 256), problem(255, 130, 68)):
        for config in legal(asked, small, 60):
            if config.subgroups_m * config.subgroups_n * config.subgroup_size % 128 == 0:
                texts[f"{asked} {config}"] = GEMM_I8.plan(asked, config, specialize=False).passes[0].wgsl
    assert len(texts) > 20
    assert tint(texts) == {}


@pytest.mark.parametrize("size", [(256, 256, 256), (255, 130, 68)], ids=str)
def test_plans_and_texts_say_the_same(size):
    asked = problem(*size)
    for config in legal(asked, H200, 30):
        for specialize in (False, True):
            plan = GEMM_I8.plan(asked, config, specialize=specialize)
            (step,) = plan.passes
            assert GEMM_I8.resources(asked, config) == limits.needs(plan)
            assert workgroup_memory(step.wgsl) == step.workgroup_bytes
            assert workgroup_size(step.wgsl) == step.workgroup_size
            assert_finished(step.wgsl)
            assert all(plan.sizes[name] % multiple == 0 for name, multiple in plan.multiples.items())
        texts = [GEMM_I8.plan(p, config, specialize=False).passes for p in GEMM_I8.neighbours(asked, config)]
        assert GEMM_I8.plan(asked, config, specialize=False).passes in texts


def test_the_default_uses_matrix_units_where_a_gpu_has_them():
    for size in ((4096, 4096, 4096), (128, 4096, 4096), (100, 70, 60)):
        chosen = GEMM_I8.default(problem(*size), H200)
        assert isinstance(chosen, MatrixUnits)
        assert list(space.refusals(GEMM_I8, problem(*size), chosen, H200)) == []
        for elsewhere in (None, limits.base_profile(), structs.replace(H200, adapter_type="cpu")):
            assert not isinstance(GEMM_I8.default(problem(*size), elsewhere), MatrixUnits)
