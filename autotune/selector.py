"""From a word for a device to the profile that a look-up asks for, without opening any device.

A word is a profile id (`10de-2204-vulkan-naga`), a vendor (`nvidia`) or a vendor and architecture
(`nvidia/ampere`). What such a device allows is taken from the devices known to the caches.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from autotune import cache, layout
from autotune.kernels.base import Family
from autotune.limits import base_profile
from autotune.model import ID, DeviceProfile


def last_or_base(root: Path) -> tuple[DeviceProfile, tuple[str, ...]]:
    """The device last opened on this machine, else one that grants only the base limits; and notes."""
    last = cache.last_device(root)
    if last is not None:
        return last, ()
    return base_profile(), (
        "no device was opened on this machine yet; only WebGPU's base limits are assumed",
    )


def select(word: str, family: Family, roots: Sequence[Path]) -> tuple[DeviceProfile, tuple[str, ...]]:
    """The profile that a word stands for, and notes about it.

    A vendor or an architecture stands for what all known devices of it allow; a config that one of
    them could not run must not answer. Where none is known, only the base limits are assumed.
    """
    word = word.strip().casefold()
    known = list(_known(family, roots))
    for profile in known:
        if profile.id.casefold() == word:
            return profile, ()
    unknown = (f"no known device matches {word!r}; only WebGPU's base limits are assumed",)
    if match := ID.fullmatch(word):
        vendor_id, device_id, backend, compiler = match.groups()
        ids = {"vendor_id": int(vendor_id, 16), "device_id": int(device_id, 16)}
        return structs.replace(base_profile(), **ids, backend=backend, compiler=compiler), unknown
    vendor, _, architecture = word.partition("/")
    matching = [
        profile
        for profile in known
        if profile.vendor.casefold() == vendor and architecture in ("", profile.architecture.casefold())
    ]
    profile = structs.replace(_common(matching), vendor=vendor, architecture=architecture)
    return profile, () if matching else unknown


def _known(family: Family, roots: Sequence[Path]) -> Iterator[DeviceProfile]:
    """Every device that the caches know, the last opened one first."""
    for root in roots:
        last = cache.last_device(root)
        if last is not None:
            yield last
        for folder in layout.device_dirs(root, family.name):
            entries = (cache.read(path, family, []) for path in layout.entries_in(folder))
            first = next((entry for entry in entries if entry is not None), None)
            if first is not None:
                yield first.device


def _common(profiles: Sequence[DeviceProfile]) -> DeviceProfile:
    """A profile without identity that grants what every one of these grants."""
    base = base_profile()
    if not profiles:
        return base
    shared = {}
    for field in ("vendor_id", "backend", "adapter_type", "compiler"):
        values = {getattr(profile, field) for profile in profiles}
        shared[field] = values.pop() if len(values) == 1 else getattr(base, field)
    names = set.intersection(*(set(profile.limits) for profile in profiles))
    features = set.intersection(*(set(profile.features) for profile in profiles))
    limits = {name: min(profile.limits[name] for profile in profiles) for name in sorted(names)}
    return structs.replace(base, **shared, features=tuple(sorted(features)), limits=limits)
