"""What a word for a device stands for, by what the shipped database knows."""

import pytest

from autotune import paths
from autotune.kernels import KERNELS
from autotune.selector import select

SHIPPED = [paths.shipped_cache_dir()]


@pytest.mark.parametrize("kernel", ["gemm", "gemm_q4", "attention"])
def test_a_device_known_by_one_kernel_is_known_to_all(kernel):
    profile, notes = select("10de-2335-vulkan-tint", KERNELS[kernel], SHIPPED)
    assert (profile.name, notes) == ("NVIDIA H200", ())
    assert "shader-f16" in profile.features


@pytest.mark.parametrize(("runtime", "lanes"), [("dawn", 32), ("wgpu", 32), (None, 32)])
def test_an_architecture_keeps_what_its_devices_agree_on(runtime, lanes):
    profile, notes = select("nvidia/hopper", KERNELS["gemm"], SHIPPED, runtime)
    assert (profile.subgroup_size, notes) == (lanes, ())
    assert bool(profile.subgroup_matrix) == (runtime == "dawn")  # naga's view of it has none


def test_a_device_that_nobody_knows_has_the_base_limits():
    profile, [note] = select("10de-0001-vulkan-naga", KERNELS["gemm"], SHIPPED)
    assert (profile.device_id, profile.subgroup_matrix) == (1, ())
    assert "no known device" in note
