"""Where the files of a cache lie below its root; the shipped database and the user's cache are alike.

<root>/<kernel>/<device slug>/<problem slug>.json             the entries
<root>/studies/<kernel>/<device slug>/<problem slug>.jsonl    the logs of unfinished searches
<root>/device.json                                            the device last opened here through wgpu
<root>/device-dawn.json                                       ... through Dawn
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from autotune.kernels.base import Family
from autotune.model import DeviceProfile, Problem
from autotune.runtime import DEFAULT_RUNTIME, RUNTIMES
from autotune.slug import is_slug, slug

STUDIES = "studies"
"""Folder below a root that is laid out like the root and holds the search logs."""
DEVICE_FILES = {name: f"device-{name}.json" for name in RUNTIMES} | {DEFAULT_RUNTIME: "device.json"}
"""By runtime, the profile of the device last opened on this machine."""

_DEVICE_SLUG = re.compile(r"[0-9a-f]{4,}-.*")


def device_key(profile: DeviceProfile) -> str:
    """What entries of a device are filed under: its id; names are only aliases.

    Where the driver reports no device id (Apple, some browsers), the name is all that tells two
    GPUs apart, and joins the key.
    """
    return profile.id if profile.device_id else f"{profile.id}-{profile.name}"


def device_dir(root: Path, kernel: str, profile: DeviceProfile) -> Path:
    """Folder of a device's entries for one kernel family."""
    return root / kernel / slug(device_key(profile))


def entry_path(root: Path, family: Family, problem: Problem, profile: DeviceProfile) -> Path:
    """Where the entry of this key lies, whether or not it exists."""
    return device_dir(root, family.name, profile) / entry_name(family, problem)


def entry_name(family: Family, problem: Problem) -> str:
    """File name of a problem's entry in the folder of any device."""
    return f"{slug(family.label(problem))}.json"


def entry_files(root: Path, kernel: str) -> Iterator[Path]:
    """Every file in the place and with the name of an entry of this kernel, in a fixed order."""
    for folder in device_dirs(root, kernel):
        yield from entries_in(folder)


def entries_in(folder: Path) -> list[Path]:
    """Every file in a device's folder with the name of an entry, in a fixed order."""
    return named_files(folder, ".json")


def device_dirs(root: Path, kernel: str) -> list[Path]:
    """The folders of the devices that have entries of this kernel, in a fixed order."""
    with suppress(OSError):
        names = sorted(os.listdir(root / kernel))  # noqa: PTH208  much faster than iterdir
        return [root / kernel / name for name in names if is_slug(name) and _DEVICE_SLUG.fullmatch(name)]
    return []


def named_files(folder: Path, *suffixes: str) -> list[Path]:
    """Files whose name is a slug and one of these suffixes, in a fixed order."""
    with suppress(OSError):
        return [
            folder / name
            for name in sorted(os.listdir(folder))  # noqa: PTH208
            for suffix in suffixes
            if name.endswith(suffix) and is_slug(name.removesuffix(suffix))
        ]
    return []
