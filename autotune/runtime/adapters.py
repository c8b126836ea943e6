"""From what a runtime's API says about an adapter to a `DeviceProfile` in the specification's words."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from autotune.limits import BASE_LIMITS
from autotune.model import MATRIX_FEATURE, Compiler, DeviceProfile, SubgroupMatrix

DAWN_TOGGLES = ("allow_unsafe_apis", "vulkan_enable_f16_on_nvidia")
"""What Dawn is told before the first adapter: experimental features may be asked for (subgroup matrices),
and NVIDIA's GPUs have f16, which it blocks there by default."""
DAWN_TOGGLES_OFF = ("timestamp_quantization",)
"""What Dawn is told to leave: timestamps in steps of 65,536 ns, against web pages that time each other."""

FEATURES = {
    "shader-f16": "shader-f16",
    "timestamp-query": "timestamp-query",
    "subgroups": "subgroups",
    "subgroup": "subgroups",  # wgpu-native's name
    MATRIX_FEATURE: MATRIX_FEATURE,  # Dawn's; wgpu-native has another form, and refuses who asks for it
}
"""The features that we ever ask for, by the API's name, with the specification's name."""

_VENDORS = {
    0x1002: "amd",
    0x10DE: "nvidia",
    0x13B5: "arm",
    0x5143: "qualcomm",
    0x8086: "intel",
    0x106B: "apple",
    0x1AE0: "google",
    0x10005: "mesa",
}

# Architectures as browsers name them, by the bits of the device id that tell them apart.
_ARCHITECTURES: dict[str, tuple[int, dict[str, tuple[int, ...]]]] = {
    "nvidia": (
        0xFF00,
        {
            "turing": (0x1E00, 0x1F00, 0x2100),
            "ampere": (0x2000, 0x2200, 0x2400, 0x2500),
            "hopper": (0x2300,),
            "lovelace": (0x2600, 0x2700, 0x2800),
            "blackwell": (0x2900, 0x2B00, 0x2C00, 0x2D00, 0x2F00),
        },
    ),
    "intel": (
        0xFF00,
        {
            "gen-9": (0x1900, 0x3E00, 0x5900, 0x9B00),
            "gen-11": (0x8A00, 0x4E00),
            "gen-12lp": (0x4600, 0x4C00, 0x4900, 0x9A00, 0xA700),
            "gen-12hp": (0x4F00, 0x5600),
            "xe-lpg": (0x7D00,),
            "xe-2lpg": (0x6400,),
            "xe-2hpg": (0xE200,),
        },
    ),
    "amd": (
        0xFFF0,
        {
            "rdna-2": (0x73A0, 0x73B0, 0x73D0, 0x73E0, 0x73F0, 0x1430, 0x1640),
            "rdna-3": (0x7440, 0x7470, 0x7480, 0x15B0),
        },
    ),
}


def vendor_name(vendor_id: int) -> str:
    """The vendor as browsers name it, or "" when unknown."""
    return _VENDORS.get(vendor_id, "")


def architecture_name(vendor: str, device_id: int) -> str:
    """The architecture as browsers name it, or "" when unknown."""
    if vendor == "apple":
        return "metal-3"
    if vendor == "google":
        return "swiftshader"
    if vendor == "mesa":
        return "software"
    mask, names = _ARCHITECTURES.get(vendor, (0, {}))
    for name, families in names.items():
        if device_id & mask in families:
            return name
    return ""


def _camel_case(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)


def profile_of(
    adapter: Any, *, compiler: Compiler, runtime: str, properties: Mapping[str, Any] | None = None
) -> DeviceProfile:
    """The profile of an adapter as listed: its features are those it offers, not yet those granted.

    `properties` is what Dawn says about an adapter beyond the specification.
    """
    info = dict(adapter.info)
    vendor = vendor_name(info["vendor_id"])
    limits = {_camel_case(name): int(value) for name, value in dict(adapter.limits).items()}
    return DeviceProfile(
        name=info["device"] or info["description"],
        vendor=vendor,
        architecture=info["architecture"] or architecture_name(vendor, info["device_id"]),
        vendor_id=info["vendor_id"],
        device_id=info["device_id"],
        backend=info["backend_type"].lower(),
        adapter_type=_adapter_type(info["adapter_type"]),
        compiler=compiler,
        runtime=runtime,
        driver=info["description"],
        features=granted(adapter.features),
        limits={name: limits[name] for name in BASE_LIMITS if name in limits},
        subgroup_matrix=_matrices(properties or {}),
    )


def _matrices(properties: Mapping[str, Any]) -> tuple[SubgroupMatrix, ...]:
    """Each shape once, in the adapter's order."""
    found = (
        SubgroupMatrix(
            element=str(config["component_type"]),
            result=str(config["result_component_type"]),
            m=config["m"],
            n=config["n"],
            k=config["k"],
        )
        for config in properties.get("subgroup_matrix_configs", ())
    )
    return tuple(dict.fromkeys(found))


def opened(profile: DeviceProfile, features: Any) -> DeviceProfile:
    """The profile of a device that was granted these features, by the API's names."""
    names = granted(features)
    shapes = profile.subgroup_matrix if MATRIX_FEATURE in names else ()
    return structs.replace(profile, features=names, subgroup_matrix=shapes)


def granted(features: Any) -> tuple[str, ...]:
    """The specification's names of those features that we know, sorted."""
    return tuple(sorted({FEATURES[feature] for feature in features if feature in FEATURES}))


def _adapter_type(name: str) -> str:
    for kind in ("discrete", "integrated", "cpu"):
        if kind in name.lower():
            return kind
    return "unknown"


def preference(profile: DeviceProfile) -> tuple[bool, int]:
    """Sort key: a real GPU before a software adapter, OpenGL last."""
    kinds = ("discrete", "integrated", "unknown", "cpu")
    return profile.backend.startswith("opengl"), kinds.index(profile.adapter_type)
