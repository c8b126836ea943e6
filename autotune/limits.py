"""Our own check of what a kernel needs against what the adapter reports, before any shader exists.

wgpu-native checks neither workgroup memory nor override-sized workgroups, so nobody else would.
Each refusal reads `reason: details`; the part before the colon is what counts are kept under.
"""

from collections.abc import Iterable, Iterator
from math import prod

from autotune.expression import evaluate
from autotune.kernels.base import Resources
from autotune.model import DTYPE_BYTES, DeviceProfile, Plan

BASE_LIMITS: dict[str, int] = {
    "maxBufferSize": 268_435_456,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
    "maxComputeWorkgroupStorageSize": 16_384,
    "maxComputeWorkgroupsPerDimension": 65_535,
    "maxStorageBufferBindingSize": 134_217_728,
    "maxStorageBuffersPerShaderStage": 8,
    "maxUniformBufferBindingSize": 65_536,
}
"""What every WebGPU implementation grants (the specification's default limits)."""


def base_profile() -> DeviceProfile:
    """An unknown device that grants only the base limits and no optional feature."""
    return DeviceProfile(
        name="",
        vendor="",
        architecture="",
        vendor_id=0,
        device_id=0,
        backend="",
        adapter_type="unknown",
        compiler="tint",
        runtime="",
        driver="",
        features=(),
        limits=dict(BASE_LIMITS),
    )


def split_grid(workgroups: int, limit: int) -> tuple[int, int]:
    """Spread a linear count over x and y so that each fits `limit` and as few as possible are idle."""
    rows = -(-workgroups // max(limit, 1))  # OpenGL adapters without compute shaders report 0
    return -(-workgroups // max(rows, 1)), max(rows, 1)


def refusals(passes: Iterable[Resources], profile: DeviceProfile) -> Iterator[str]:
    """Every reason why the device cannot run passes with these needs, each once."""
    told: set[str] = set()
    for needs in passes:
        for reason in _refusals(needs, profile):  # lazily: an enumeration asks for the first one only
            if reason not in told:
                told.add(reason)
                yield reason


def _refusals(needs: Resources, profile: DeviceProfile) -> Iterator[str]:
    limit = {**BASE_LIMITS, **profile.limits}

    invocations = prod(needs.workgroup_size)
    most = limit["maxComputeInvocationsPerWorkgroup"]
    if invocations > most:
        shape = "×".join(map(str, needs.workgroup_size))
        yield f"too many invocations in a workgroup: {shape} = {invocations}, the adapter allows {most}"
    for axis, size in zip("XYZ", needs.workgroup_size, strict=True):
        if size > limit[f"maxComputeWorkgroupSize{axis}"]:
            most = limit[f"maxComputeWorkgroupSize{axis}"]
            yield f"workgroup too long in {axis.lower()}: {size}, the adapter allows {most}"
    if needs.workgroup_bytes > limit["maxComputeWorkgroupStorageSize"]:
        most = limit["maxComputeWorkgroupStorageSize"]
        yield f"too much workgroup memory: {needs.workgroup_bytes} B, the adapter has {most} B"
    if len(needs.binding_bytes) > limit["maxStorageBuffersPerShaderStage"]:
        most = limit["maxStorageBuffersPerShaderStage"]
        yield f"too many storage buffers: {len(needs.binding_bytes)}, the adapter allows {most}"
    most = min(limit["maxStorageBufferBindingSize"], limit["maxBufferSize"])
    largest = max(needs.binding_bytes, default=0)
    if largest > most:
        yield f"a matrix exceeds the largest storage binding: {largest} B, the adapter allows {most} B"
    dimension = limit["maxComputeWorkgroupsPerDimension"]
    if max(split_grid(needs.workgroups, dimension)) > dimension:
        yield f"grid too large: {needs.workgroups} workgroups, the adapter allows {dimension}² over x and y"
    for feature in needs.features:
        if feature not in profile.features:
            yield f"needs a feature the adapter lacks: {feature}"
    if needs.subgroup_size not in (0, profile.subgroup_size):
        has = profile.subgroup_size or "an unknown number"
        yield f"written for subgroups of another size: {needs.subgroup_size} lanes, the adapter has {has}"
    if needs.subgroup_matrix is not None and needs.subgroup_matrix not in profile.subgroup_matrix:
        has = "; ".join(map(str, profile.subgroup_matrix)) or "none"
        yield f"the adapter's matrix units lack this shape: {needs.subgroup_matrix}, there are {has}"


def needs(plan: Plan) -> tuple[Resources, ...]:
    """What each pass of a rendered plan needs; for the last check before shader creation."""
    sizes = {
        buffer.name: evaluate({"mul": list(buffer.shape)}, plan.sizes) * DTYPE_BYTES[buffer.element]
        for buffer in plan.buffers
        if buffer.role != "uniform"
    }
    return tuple(
        Resources(
            workgroup_size=step.workgroup_size,
            workgroup_bytes=step.workgroup_bytes,
            workgroups=evaluate(step.workgroups, plan.sizes),
            binding_bytes=tuple(sizes[name] for name in step.buffers if name in sizes),
            features=plan.features,
            subgroup_size=step.subgroup_size,
            subgroup_matrix=step.subgroup_matrix,
        )
        for step in plan.passes
    )
