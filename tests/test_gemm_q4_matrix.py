"""4-bit GEMM on matrix units: numbers on the stack that has them; texts and plans everywhere."""

import random

import pytest
from kernel_checks import assert_finished, complaint, run, with_first_pass
from matrix_units import H200, SMALL
from msgspec import structs
from wgsl_text import workgroup_memory, workgroup_size

from autotune import limits, space
from autotune.kernels.gemm_q4 import GEMM_Q4, GemmQ4Problem, MatrixUnits


def units(**changes):
    return MatrixUnits(**SMALL | {"splits": 1} | changes)


CONFIGS = {
    "single": units(buffering="single", tile_k=32, group_m=8),
    "prefetch": units(),
    "double": units(buffering="double", pad=0),
    "early": units(buffering="early"),
    "split": units(splits=3),
}


def problem(m, n, k, group=32, dtype="f16"):
    return GemmQ4Problem(m=m, n=n, k=k, group=group, dtype=dtype)


@pytest.mark.parametrize("name", CONFIGS)
def test_ragged_shapes_are_right(matrix_runtime, name):
    config = CONFIGS[name]
    asked = [problem(16, 32, 64), problem(35, 33, 48, 16), problem(1, 7, 32), problem(33, 68, 384, 128)]
    wrong = {p: run(matrix_runtime, p, config, integers=i) for p in asked for i in (True, False)}
    assert wrong == dict.fromkeys(asked)


def test_a_straight_from_memory_is_right(matrix_runtime):
    for p in (problem(32, 35, 64), problem(16, 64, 128, 64)):
        assert run(matrix_runtime, p, units(a_from="memory"), integers=True) is None


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("size - min(at, size)", "size"),
        ("<Right, col_major>", "<Right, row_major>"),
        ("vec2<f16>(1032h)", "vec2<f16>(1031h)"),
        ("GROUP / 8u", "GROUP / 16u"),
        ("vec4<u32>(0u, 8u, 16u, 24u)", "vec4<u32>(0u, 8u, 24u, 16u)"),
    ],
)
def test_a_wrong_text_is_found_out(matrix_runtime, right, wrong):
    asked, config = problem(19, 36, 48, 16), units(tile_k=32)
    plan = GEMM_Q4.plan(asked, config, specialize=False)
    text = plan.passes[0].wgsl
    assert right in text
    mutant = with_first_pass(plan, wgsl=text.replace(right, wrong))
    assert complaint(matrix_runtime, asked, plan, mutant, integers=True) is not None


def legal(asked, profile, count):
    """Configs by chance."""
    only = {"variant": {"subgroup_matrix"}, "group_m": {"1"}, "pad": {"1"}, "splits": {"1", "2"}}
    found = space.legal(GEMM_Q4, asked, profile, space.restricted(space.load_axes(GEMM_Q4), only))
    points = random.Random(1).sample(list(found.points), count)
    return [space.config_at(GEMM_Q4, found.axes, point) for point in points]


def test_texts_are_valid_for_tint(tint):
    small = structs.replace(H200, limits=H200.limits | dict(limits.BASE_LIMITS))
    texts = {}
    for asked in (problem(256, 256, 256), problem(255, 130, 112, 16)):
        for config in legal(asked, small, 60):
            if config.subgroups_m * config.subgroups_n * config.subgroup_size % 128 == 0:
                texts[f"{asked} {config}"] = GEMM_Q4.plan(asked, config, specialize=False).passes[0].wgsl
    assert len(texts) > 20
    assert tint(texts) == {}


@pytest.mark.parametrize("size", [(256, 256, 256, 64), (255, 130, 112, 16)], ids=str)
def test_plans_and_texts_say_the_same(size):
    asked = problem(*size)
    for config in legal(asked, H200, 30):
        for specialize in (False, True):
            plan = GEMM_Q4.plan(asked, config, specialize=specialize)
            assert GEMM_Q4.resources(asked, config) == limits.needs(plan)
            for step in plan.passes:
                assert workgroup_memory(step.wgsl) == step.workgroup_bytes
                assert workgroup_size(step.wgsl) == step.workgroup_size
                assert_finished(step.wgsl)
            assert all(plan.sizes[name] % multiple == 0 for name, multiple in plan.multiples.items())
        neighbours = GEMM_Q4.neighbours(asked, config)
        assert all(GEMM_Q4.unfit(p, config) is None for p in neighbours)
        texts = [GEMM_Q4.plan(p, config, specialize=False).passes[0].wgsl for p in neighbours]
        assert GEMM_Q4.plan(asked, config, specialize=False).passes[0].wgsl in texts


def test_only_f16_goes_to_matrix_units():
    assert GEMM_Q4.unfit(problem(64, 64, 64, dtype="f32"), units()) == "matrix units take A in f16"


def test_the_default_uses_matrix_units_for_many_rows_where_a_gpu_has_them():
    for size in ((4096, 4096, 4096), (128, 4096, 4096), (32, 70, 64)):
        chosen = GEMM_Q4.default(problem(*size), H200)
        assert isinstance(chosen, MatrixUnits)
        assert list(space.refusals(GEMM_Q4, problem(*size), chosen, H200)) == []
        for elsewhere in (None, limits.base_profile(), structs.replace(H200, adapter_type="cpu")):
            assert not isinstance(GEMM_Q4.default(problem(*size), elsewhere), MatrixUnits)
    assert not isinstance(GEMM_Q4.default(problem(1, 4096, 4096), H200), MatrixUnits)
    assert not isinstance(GEMM_Q4.default(problem(128, 4096, 4096, dtype="f32"), H200), MatrixUnits)
