"""Devices with matrix units, and the tiles that tests of GEMM on them start from."""

from msgspec import structs

from autotune import limits
from autotune.model import MATRIX_FEATURE, SubgroupMatrix

SMALL = {
    "matrix": "8x8x8",
    "subgroup_size": 8,
    "tile_m": 16,
    "tile_n": 32,
    "tile_k": 16,
    "subgroups_m": 2,
    "subgroups_n": 2,
    "a_from": "workgroup",
    "b_from": "workgroup",
    "pad": 1,
    "buffering": "prefetch",
    "group_m": 1,
}
"""For matrices of 8×8×8 and subgroups of 8 lanes, as lavapipe has them."""


def device(shapes, subgroup_size, **limit):
    """A profile with matrix units: shapes as (element, result, m, n, k)."""
    base = limits.base_profile()
    matrices = tuple(
        SubgroupMatrix(element=element, result=result, m=m, n=n, k=k) for element, result, m, n, k in shapes
    )
    roomy = {"maxStorageBufferBindingSize": 2**31, "maxBufferSize": 2**31}
    return structs.replace(
        base,
        features=("shader-f16", "subgroups", MATRIX_FEATURE),
        limits=base.limits | roomy | limit,
        subgroup_size=subgroup_size,
        subgroup_matrix=matrices,
    )


def hopper(shapes):
    """An H200 with some of its shapes."""
    return device(
        shapes,
        32,
        maxComputeWorkgroupStorageSize=49_152,
        maxComputeInvocationsPerWorkgroup=1024,
        maxComputeWorkgroupSizeX=1024,
    )


H200 = hopper(
    [("f16", result, 16, n, k) for result in ("f32", "f16") for n, k in ((16, 16), (8, 16), (8, 8))]
)
