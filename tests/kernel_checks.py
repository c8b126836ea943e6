"""What the tests of kernel families share: running a config, configs of a space, settings for examples."""

import re

from hypothesis import HealthCheck, Phase, settings
from msgspec import structs
from wgsl_text import without_comments

from autotune import limits, space, verify
from autotune.kernels import family_of
from autotune.kernels.tiles import NVIDIA

many_examples = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def few_examples(count):
    """For tests that run kernels: always the same examples, no more than `count`."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],  # an example takes a second: the first failing one will do
        suppress_health_check=list(HealthCheck),
    )


def run(runtime, problem, config, *, specialize=False, integers=False, family=None):
    """What is wrong with the results of a config, or None. Whole numbers have to be met exactly.

    `family` stands in for the problem's own, with other data.
    """
    family = family or family_of(problem)
    plan = family.plan(problem, config, specialize=specialize)
    assert list(limits.refusals(limits.needs(plan), runtime.profile)) == []
    return complaint(runtime, problem, plan, plan, integers=integers, family=family)


def complaint(runtime, problem, plan, changed, *, integers=False, family=None):
    """What is wrong with the results of a plan that was changed, checked as those of the plan, or None."""
    family = family or family_of(problem)
    check = verify.prepare(family, problem, plan, runtime.profile, seed=1, integers=integers)
    runtime.load(check.contents)
    return check.complaint(runtime.run(runtime.compile(changed)))


def slow(runtime):
    """SwiftShader compiles anew each time, for up to a second, and is slow at barriers; lavapipe is not."""
    return runtime.profile.vendor == "google"


def with_first_pass(plan, **changes):
    """The plan with fields of its first pass changed."""
    return structs.replace(plan, passes=(structs.replace(plan.passes[0], **changes), *plan.passes[1:]))


def lacks_f16(runtime, problem, config):
    """Whether the adapter has no f16, after proving that the problem is refused there by name."""
    if "shader-f16" in runtime.profile.features:
        return False
    reasons = list(limits.refusals(family_of(problem).resources(problem, config), runtime.profile))
    assert reasons == ["needs a feature the adapter lacks: shader-f16"]
    return True


def roomy_profile():
    """Base limits but for the sizes of buffers, so that no problem is too large; every optional feature."""
    base = limits.base_profile()
    roomy = {"maxStorageBufferBindingSize": 2**32, "maxBufferSize": 2**32}
    return structs.replace(base, features=("shader-f16",), limits=base.limits | roomy)


def on_nvidia(profile):
    """The profile, as a GPU of NVIDIA's with subgroups would have it."""
    features = (*profile.features, "subgroups")
    return structs.replace(
        profile, vendor_id=NVIDIA, features=features, subgroup_size=32, adapter_type="discrete"
    )


def legal_configs_of(variants, problem, profile):
    """Configs of these variants of the shipped space that are legal for a problem on a device, by variant."""
    family = family_of(problem)
    axes = {variant: space.load_axes(family)[variant] for variant in variants}
    found = {variant: [] for variant in variants}
    for point in space.legal(family, problem, profile, axes).points:
        found[point[0]].append(space.config_at(family, axes, point))
    return found


def assert_finished(wgsl):
    """A rendered text has only finite numbers, no leftovers of the template, and its braces in pairs."""
    code = without_comments(wgsl)
    assert not re.search(r"\b(inf|nan|none|true|false|undefined)\b", code, re.IGNORECASE)
    assert not re.search(r"//#|\{\{|\{%", wgsl)
    assert code.count("{") == code.count("}")
