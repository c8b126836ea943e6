"""Results that move between machines: packed into one file, or merged from another cache folder.

A pack is gzipped JSON lines, an entry each. Whatever comes in is validated like any entry, and takes a place
only where the cache's rule for a new winner says so: see `cache.replaces`.
"""

import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from autotune import cache
from autotune.entry import Entry, InvalidEntryError, decode
from autotune.errors import AutotuneError
from autotune.files import reason, write_atomic
from autotune.kernels import KERNELS
from autotune.kernels.base import Family
from autotune.recording import read_packed

FASTEST_RATE = 1e17
"""FLOP/s that no adapter comes near: a time below would never be replaced by a true one."""


class Taken(Struct):
    """What became of the entries that were offered."""

    stored: int = 0
    kept: int = 0
    """Places that keep what they had: as good, or better."""
    refused: list[str] = []
    """What is wrong with the others, a line each."""


def pack(
    root: Path, path: Path, notes: list[str], *, kernel: str | None = None, device: str | None = None
) -> int:
    """Write the entries of a cache, of one kernel or device where given, to a file, and count them. What
    cannot be used is left out, with a note.

    Raises AutotuneError where there are none, or where the file cannot be written or holds anything else.
    """
    _check_target(path)
    entries = [
        entry
        for _, entry in cache.list_entries(root, notes)
        if kernel in (None, entry.kernel) and device in (None, entry.device.id, entry.device.vendor)
    ]
    if not entries:
        unusable = f"; {len(notes)} files there cannot be used: {notes[0]}" if notes else ""
        raise AutotuneError(f"there are no such results in {root}{unusable}")
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    try:
        target = Path(os.path.realpath(path))  # a link stays one
        write_atomic(target.parent, target, gzip.compress(lines, mtime=0))
    except AutotuneError as error:
        raise AutotuneError(f"cannot write {path}: {reason(error)}") from error
    return len(entries)


def _check_target(path: Path) -> None:
    """Raise AutotuneError where a file is there already that is no pack: it is not ours to replace."""
    try:
        raw = read_packed(path)
        if raw and raw.strip():
            msgspec.json.decode(raw.splitlines()[0], type=_Envelope)
    except (AutotuneError, ValueError, RecursionError) as error:
        raise AutotuneError(
            f"{path} is there already, and no file of `cache export`; name another"
        ) from error


def unpack(path: Path, root: Path) -> Taken:
    """Take the entries of a pack into a cache. Raises AutotuneError where the file is none."""
    raw = read_packed(path)
    if raw is None:
        raise AutotuneError(f"there is no file {path}")
    taken = Taken()
    entries = []
    for number, line in enumerate(raw.splitlines(), start=1):
        try:
            entries.append(_entry(line))
        except AutotuneError as error:
            taken.refused.append(f"line {number} {error}")
    if not entries:
        raise AutotuneError(f"{path} holds no results: {'; '.join(taken.refused[:1]) or 'it is empty'}")
    return _take(entries, root, taken)


def merge(source: Path, root: Path) -> Taken:
    """Take the entries of another cache folder into a cache. Raises AutotuneError where it has none."""
    refused: list[str] = []
    entries = [entry for _, entry in cache.list_entries(source, refused)]
    if not entries and not refused:
        raise AutotuneError(f"there are no results in {source}")
    return _take(entries, root, Taken(refused=refused))


def _entry(line: bytes) -> Entry:
    try:
        kernel = msgspec.json.decode(line, type=_Kernel).kernel
    except (ValueError, RecursionError) as error:
        raise InvalidEntryError(f"is no result: {error}") from error
    if kernel not in KERNELS:
        raise InvalidEntryError(f"is of the unknown kernel {kernel!r}")
    return decode(KERNELS[kernel], line)


class _Kernel(Struct):
    kernel: str


class _Envelope(_Kernel):
    """What every entry has, of whatever version of this program."""

    schema: int
    problem: dict[str, Any]
    device: dict[str, Any]
    config: dict[str, Any]


def _take(entries: Iterable[Entry], root: Path, taken: Taken) -> Taken:
    for entry in entries:
        family = KERNELS[entry.kernel]
        wrong = _impossible(family, entry)
        if wrong is not None:
            taken.refused.append(f"{entry.kernel} {family.label(entry.problem)}: {wrong}")
        elif cache.replaces(entry, cache.rival(root, family, entry, [])):
            cache.store(root, family, entry)
            taken.stored += 1
        else:
            taken.kept += 1
    return taken


def _impossible(family: Family, entry: Entry) -> str | None:
    """Why an entry cannot be true; None where it can."""
    illegal = cache.illegality(family, entry, entry.problem, entry.device)
    if illegal is not None:
        return f"its config is not legal: {illegal}"
    taken = entry.measurement
    if (
        family.flops(entry.problem) > FASTEST_RATE * taken.seconds
        or not taken.low <= taken.seconds <= taken.high
    ):
        return f"its time of {taken.seconds:g} s ({taken.low:g} to {taken.high:g}) cannot be true"
    return None
