"""What every family must keep to, whatever it computes: tested for each line of KERNELS."""

from functools import cache

import numpy as np
import pytest
from msgspec import structs
from wgsl_text import workgroup_size

from autotune import limits, space, verify
from autotune.candidate import Bench
from autotune.kernels import KERNELS, family_of
from autotune.kernels.base import Family
from autotune.limits import base_profile
from autotune.model import MATRIX_FEATURE, SubgroupMatrix

GENEROUS = structs.replace(
    base_profile(),
    features=("shader-f16", "subgroups", MATRIX_FEATURE),
    subgroup_size=8,
    subgroup_matrix=tuple(
        SubgroupMatrix(element=element, result=result, m=8, n=8, k=8)
        for element, result in (("f16", "f32"), ("f16", "f16"), ("i8", "i32"))
    ),
)
"""A device with the base limits and every feature; its matrix units are those of lavapipe."""

each_kind = pytest.mark.parametrize(
    ("family", "kind"),
    [(family, kind) for family in KERNELS.values() for kind in family.samples],
    ids=lambda value: value.name if isinstance(value, Family) else value,
)


@cache
def points(name, kind):
    """The legal points of a sample."""
    family = KERNELS[name]
    return space.legal(family, family.samples[kind], GENEROUS).points


def configs(family, kind, count):
    """The default, the baseline, and this many legal configs of each variant, far from each other."""
    problem, axes = family.samples[kind], space.load_axes(family)
    found = [family.default(problem, None), family.baseline(problem, None)]
    for variant in axes:
        legal = [point for point in points(family.name, kind) if point[0] == variant]
        for index in range(min(count, len(legal))):
            found.append(space.config_at(family, axes, legal[index * len(legal) // count]))
    return list(dict.fromkeys(found))


def refusals(family, problem, config, profile=GENEROUS):
    return list(space.refusals(family, problem, config, profile))


def test_families_are_found_by_their_name_and_by_their_problems():
    for name, family in KERNELS.items():
        assert family.name == name
        assert family.samples
        assert {variant: kind.__struct_config__.tag for variant, kind in family.config_types.items()} == {
            variant: variant for variant in family.config_types
        }
        assert set(family.rules) <= set(family.config_types)
        assert all(family_of(problem) is family for problem in family.samples.values())


@each_kind
def test_default_and_baseline_are_legal_on_every_device(family, kind):
    problem = family.samples[kind]
    for profile in (None, GENEROUS):
        assert refusals(family, problem, family.default(problem, profile)) == []
        assert refusals(family, problem, family.baseline(problem, profile)) == []


@each_kind
def test_some_configs_of_every_variant_or_none_are_legal_and_points_of_the_space(family, kind):
    problem, axes = family.samples[kind], space.load_axes(family)
    for config in configs(family, kind, 5):
        assert refusals(family, problem, config) == []
        assert space.config_from(family, config.variant, config.parameters()) == config
        point = space.point_of(axes, config)
        assert point is None or space.config_at(family, axes, point) == config


@each_kind
def test_a_plan_says_what_its_text_and_the_resources_say(family, kind):
    problem = family.samples[kind]
    shared = set()
    for config in configs(family, kind, 12):
        for specialize in (False, True):
            plan = family.plan(problem, config, specialize=specialize)
            assert (plan.kernel, plan.variant) == (family.name, config.variant)
            assert limits.needs(plan) == family.resources(problem, config)
            assert bool(plan.uniform) != specialize
            assert [b.role for b in plan.buffers].count("uniform") == len(plan.uniform[:1])
            assert set(plan.uniform) <= set(plan.sizes) | set(plan.scalars)
            assert all(plan.sizes[name] % multiple == 0 for name, multiple in plan.multiples.items())
            names = [buffer.name for buffer in plan.buffers]
            assert len(set(names)) == len({buffer.binding for buffer in plan.buffers}) == len(names)
            for step in plan.passes:
                assert workgroup_size(step.wgsl) == step.workgroup_size
                assert f"fn {step.entry_point}(" in step.wgsl
                assert set(step.buffers) <= set(names)
            data = [b for b in plan.buffers if b.role in ("input", "output")]
            shared.add(tuple((b.name, b.role, b.element, str(b.shape)) for b in data))
    assert len(shared) == 1  # a search fills the data buffers once for all its candidates


@each_kind
def test_resources_do_not_depend_on_what_is_called_weightless(family, kind):
    problem, axes = family.samples[kind], space.load_axes(family)
    for config in configs(family, kind, 30):
        of = {axis.name: axis.values for axis in axes[config.variant]}
        for name in family.weightless.get(config.variant, ()):
            for value in of[name]:
                other = structs.replace(config, **{name: value})
                assert family.resources(problem, other) == family.resources(problem, config), other


@each_kind
@pytest.mark.parametrize("integers", [False, True])
def test_the_data_has_the_names_types_and_shapes_of_the_plan(family, kind, integers):
    problem = family.samples[kind]
    plan = family.plan(problem, family.default(problem, None), specialize=False)
    inputs = family.inputs(problem, 1, integers=integers)
    outputs = family.reference(problem, inputs)
    roles = {role: {b.name for b in plan.buffers if b.role == role} for role in ("input", "output")}
    assert roles["input"] <= set(inputs) <= roles["input"] | roles["output"]
    assert set(outputs) == roles["output"]
    types = {"f32": np.float32, "f16": np.float16, "u32": np.uint32}
    for buffer in plan.buffers:
        size = limits.evaluate({"mul": list(buffer.shape)}, plan.sizes)
        if buffer.name in inputs:
            assert (inputs[buffer.name].size, inputs[buffer.name].dtype) == (size, types[buffer.element])
            again = family.inputs(problem, 1, integers=integers)[buffer.name]
            assert inputs[buffer.name].tobytes() == again.tobytes()  # NaN included
        if buffer.name in outputs:
            assert (outputs[buffer.name].size, outputs[buffer.name].dtype) == (size, np.float64)
            assert np.all(np.isfinite(outputs[buffer.name]))
    check = verify.prepare(family, problem, plan, GENEROUS, seed=1, integers=integers)
    assert all(np.all(np.isfinite(tolerance)) for tolerance in check.tolerance.values())


@each_kind
def test_a_winner_can_be_proved_at_some_neighbour_and_none_is_the_problem_itself(family, kind):
    problem = family.samples[kind]
    for config in configs(family, kind, 12):
        neighbours = family.neighbours(problem, config)
        assert any(refusals(family, near, config) == [] for near in neighbours), config
        assert all(family.distance(problem, near) > 0 for near in neighbours)


@each_kind
def test_distance_tells_problems_apart_and_labels_do_too(family, kind):
    problem = family.samples[kind]
    assert family.distance(problem, problem) == 0
    for other_kind, other in family.samples.items():
        if other_kind != kind:
            assert family.distance(problem, other) == family.distance(other, problem) > 0
            assert family.label(problem) != family.label(other)
    assert family.flops(problem) > 0


@each_kind
def test_a_few_configs_are_right_at_the_problem_and_its_neighbours(family, kind, runtime):
    problem = family.samples[kind]
    default = family.default(problem, runtime.profile)
    lacking = [
        reason for reason in refusals(family, problem, default, runtime.profile) if "feature" in reason
    ]
    if lacking:
        pytest.skip(lacking[0])
    chosen = [c for c in configs(family, kind, 1) if not refusals(family, problem, c, runtime.profile)]
    bench = Bench(family, problem, runtime, seed=1)
    assert {config: bench.complaint(config) for config in chosen} == dict.fromkeys(chosen)
    for near in family.neighbours(problem, default)[:2]:
        if not refusals(family, near, default, runtime.profile):
            nearby = Bench(family, near, runtime, seed=1, integers=True)
            assert nearby.complaint(default) is None, family.label(near)
