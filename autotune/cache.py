"""The cache on disk: one JSON file an entry, written atomically, safe for concurrent processes.

Reading never raises for what a file holds: a bad file yields a warning in the caller's list and is
overwritten by the next store. The layered look-up over two such roots is in `lookup`; where
files lie is in `layout`.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from autotune import paths, space
from autotune.entry import Entry, InvalidEntryError, decode, encode
from autotune.errors import AutotuneError
from autotune.files import (
    Stamp,
    UnreadableError,
    read_regular,
    settled,
    stamp,
    temporaries,
    unwritable,
    write_atomic,
)
from autotune.kernels import KERNELS
from autotune.kernels.base import Family
from autotune.layout import (
    DEVICE_FILES,
    STUDIES,
    device_dirs,
    device_key,
    entry_files,
    entry_path,
    named_files,
)
from autotune.model import ID, DeviceProfile, Problem
from autotune.runtime import DEFAULT_RUNTIME, runtime_of
from autotune.slug import slug

NOISE_FLOOR = 0.02
"""Winners differ by 1 to 2 % from run to run, whatever the spread within one run says."""

_parsed: dict[Path, tuple[Stamp, Entry]] = {}
"""Entries read by this process, as long as their files stay as they were."""


def read(path: Path, family: Family, warnings: list[str]) -> Entry | None:
    """The entry in a file; None where there is none, or where it is not to be trusted.

    The latter adds a line to `warnings`. An entry whose key is not the one of its place was
    copied or renamed by hand, and is not trusted.
    """
    before = stamp(path)
    held = _parsed.get(path)
    if held is not None and held[0] == before:
        return held[1]
    try:
        raw = read_regular(path)
        if raw is None:
            return None
        entry = decode(family, raw)
        if path.parts[-3:] != entry_path(Path(), family, entry.problem, entry.device).parts:
            raise InvalidEntryError("lies in the wrong place for the problem and device it names")
    except (InvalidEntryError, UnreadableError) as error:
        warnings.append(f"ignored {path}: it {error}")
        return None
    if settled(before):
        _parsed[path] = before, entry
    return entry


def exact(
    root: Path, family: Family, problem: Problem, profile: DeviceProfile, warnings: list[str]
) -> Entry | None:
    """The entry for exactly this problem on this device, stale or not."""
    path = entry_path(root, family, problem, profile)
    entry = read(path, family, warnings)
    if entry is not None and (entry.problem != problem or device_key(entry.device) != device_key(profile)):
        warnings.append(f"ignored {path}: it answers for another problem or device")
        return None
    return entry


def store(root: Path, family: Family, entry: Entry) -> Path:
    """Write an entry to its place, whatever is there.

    Raises CacheUnwritable where that fails, and InvalidEntryError for what could not be read back.
    """
    path = entry_path(root, family, entry.problem, entry.device)
    write_atomic(root, path, encode(family, entry))
    with suppress(OSError):  # one stat of this folder then tells other processes that an entry changed
        now = time.time_ns()
        os.utime(path.parents[1], ns=(now, now))
    return path


def replaces(new: Entry, old: Entry | None) -> bool:
    """Whether a new winner takes the place of an old one for the same key.

    A sound old entry yields only to one that is better beyond noise, so that the published
    config does not flip between equals from run to run.
    """
    if old is None or stale_reasons(old, new.device, new.template_digest):
        return True
    if new.verified != old.verified:
        return new.verified
    if new.complete != old.complete:
        if new.complete:
            return True
    elif new.config == old.config:
        return True  # the same winner, measured again
    if new.measurement.clock != old.measurement.clock:
        return new.measurement.clock == "gpu"  # the two do not compare, and the GPU's is the finer
    noise = max(NOISE_FLOOR, (new.measurement.spread + old.measurement.spread) / 2)
    return new.measurement.seconds < old.measurement.seconds * (1 - noise)


def stale_reasons(entry: Entry, profile: DeviceProfile, digest: str) -> tuple[str, ...]:
    """Why an entry of this device may no longer be its best; none when it is fresh."""
    reasons = []
    if entry.template_digest != digest:
        reasons.append("the kernel templates changed since it was tuned")
    for what, then, now in (
        ("driver", entry.device.driver, profile.driver),
        ("runtime", entry.device.runtime, profile.runtime),
    ):
        if then != now:
            reasons.append(f"tuned with the {what} {then or 'unknown'!r}, now {now or 'unknown'!r}")
    return tuple(reasons)


class _LastOpened(Struct, frozen=True):
    profile: DeviceProfile
    selection: str
    """How it was chosen; see `selection`."""


def selection(adapter: str | None, runtime: str) -> str:
    """All that decides which adapter opens: the selector and the environment that drivers read.

    The same selection opens the same device, unless hardware or drivers changed since.
    """
    drivers = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith(("VK_", "WGPU_", "MESA_", "CUDA_VISIBLE", "DRI_", "LIBGL_"))
    )
    return "\n".join([adapter or "", runtime, *drivers])


def remember_device(profile: DeviceProfile, root: Path | None = None, chosen: str = "") -> None:
    """Note for its runtime the device just opened and the selection that chose it. Raises CacheUnwritable."""
    root = paths.user_cache_dir() if root is None else root
    note = _LastOpened(profile, chosen)
    runtime = runtime_of(profile)
    if _last_opened(root, runtime) != note:
        write_atomic(root, root / DEVICE_FILES[runtime], msgspec.json.encode(note))


def last_device(
    root: Path, chosen: str | None = None, runtime: str = DEFAULT_RUNTIME
) -> DeviceProfile | None:
    """The device last opened on this machine through a runtime (by this selection), or None where no valid
    note says so."""
    note = _last_opened(root, runtime)
    return note.profile if note is not None and chosen in (None, note.selection) else None


def _last_opened(root: Path, runtime: str) -> _LastOpened | None:
    try:
        raw = read_regular(root / DEVICE_FILES[runtime])
        note = None if raw is None else msgspec.json.decode(raw, type=_LastOpened)
        if note is None or runtime_of(note.profile) != runtime:
            return None
        return note if all(note.profile.limits.values()) else None
    except (AutotuneError, ValueError, RecursionError):
        return None  # as good as absent: the next opened device overwrites it


def list_entries(
    root: Path, warnings: list[str] | None = None, families: Mapping[str, Family] = KERNELS
) -> list[tuple[Path, Entry]]:
    """Every entry that can be read, in a fixed order; lines about the others go to `warnings`."""
    warnings = [] if warnings is None else warnings
    found = []
    for family in families.values():
        for path in entry_files(root, family.name):
            entry = read(path, family, warnings)
            if entry is not None:
                found.append((path, entry))
    return found


def verify_all(root: Path, families: Mapping[str, Family] = KERNELS) -> list[tuple[Path, str | None]]:
    """Every entry file with what is wrong with it, None where it is sound.

    Sound means readable, in its place, and with a config that is legal for its own problem on
    its own device.
    """
    results: list[tuple[Path, str | None]] = []
    for family in families.values():
        for path in entry_files(root, family.name):
            warnings: list[str] = []
            entry = read(path, family, warnings)
            if entry is None:
                results.append((path, warnings[0].partition(": ")[2] if warnings else "it vanished"))
            else:
                results.append((path, illegality(family, entry, entry.problem, entry.device)))
    return results


def illegality(family: Family, entry: Entry, problem: Problem, profile: DeviceProfile) -> str | None:
    """Why the entry's config cannot run this problem on this device; None when it can."""
    try:
        return next(space.refusals(family, problem, entry.config, profile), None)
    except (AutotuneError, ArithmeticError, ValueError) as error:
        return f"its config cannot be judged: {error}"  # parameters beyond what the rules foresee


def rival(root: Path, family: Family, new: Entry, notes: list[str]) -> Entry | None:
    """The entry that a new one has to beat: the one in its place, where that can still run."""
    old = exact(root, family, new.problem, new.device, notes)
    if old is None or illegality(family, old, new.problem, new.device) is not None:
        return None
    return old


def clear(
    root: Path,
    kernel: str | None = None,
    device: DeviceProfile | str | None = None,
    families: Mapping[str, Family] = KERNELS,
) -> list[Path]:
    """Remove entries and search logs, of one kernel or device where given, and say which.

    An id stands for every device that has it: where drivers report no device id, names tell them apart.
    Only files with the place and the name of ours go; a directory goes when that leaves it empty.
    """
    removed: list[Path] = []
    try:
        for name in [name for name in families if kernel in (None, name)]:
            for base in (root, root / STUDIES):
                for folder in device_dirs(base, name):
                    if device is None or _is_of(folder, device):
                        removed += _clear_folder(folder)
                with suppress(OSError):
                    (base / name).rmdir()
    except OSError as error:
        raise unwritable(root, error) from error
    return removed


def _is_of(folder: Path, device: DeviceProfile | str) -> bool:
    """Whether a device's folder is of this profile, of this id, or has this name."""
    if isinstance(device, DeviceProfile):
        return folder.name == slug(device_key(device))
    name = device.strip().casefold()
    named_too = ID.fullmatch(name) is not None and folder.name.startswith((f"{name}-", f"{name}_"))
    return folder.name in (name, slug(name)) or named_too


def _clear_folder(folder: Path) -> list[Path]:
    ours = named_files(folder, ".json", ".jsonl", ".jsonl.old")
    ours += temporaries(folder)
    for path in ours:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
    return ours
