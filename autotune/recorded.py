"""Recorded spaces from files: our own recordings, tables, and Kernel Tuner's caches.

- our own: see `recording.py`;
- CSV, gzipped or not: one column a parameter and a last one named `time_ms`, `time_us` or `time_s`, one row
  a config; a time that is no number above 0 is a failure;
- Kernel Tuner's cache, JSON: `tune_params_keys` names the parameters, `cache` holds a record for every config
  with its parameters and its `time` in milliseconds; in its place stands the name of an error, or in older
  caches 1e20, where there is none.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from autotune.errors import AutotuneError
from autotune.recording import axes_of, decode, read_packed
from autotune.space import Axis, Point, Space, Value

VARIANT = "recorded"
"""Of spaces that know no variants."""
_OLD_FAILURE = 1e20
_TOO_LARGE = 1 << 1023
_UNITS = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6}


class Recorded(Struct, frozen=True):
    """A space whose every point has been measured, or has failed."""

    name: str
    space: Space
    times: dict[Point, float | None]
    """Seconds of each point; None where it failed."""

    @property
    def optimum(self) -> float:
        """The fastest time, in seconds."""
        return min(seconds for seconds in self.times.values() if seconds is not None)


def load(path: Path) -> Recorded:
    """Read a recorded space. Raises AutotuneError where the file is none of the formats, or has no time."""
    raw = read_packed(path)
    if raw is None:
        raise AutotuneError(f"there is no file {path}")
    if raw.startswith(b'{"format":"autotune-recording"'):
        recorded = _ours(raw, path)
    elif raw.lstrip().startswith(b"{"):
        recorded = _kernel_tuner(raw, path)
    else:
        recorded = _table(raw, path)
    if not any(recorded.times.values()):
        raise AutotuneError(f"{path}: no config has a time")
    return recorded


def _ours(raw: bytes, path: Path) -> Recorded:
    header, rows = decode(raw, path)
    times = {
        (variant, tuple(places)): None if isinstance(value, str) else value for variant, places, value in rows
    }
    return Recorded(path.name, Space(axes_of(header), times), times)


def _table(raw: bytes, path: Path) -> Recorded:
    try:
        lines = csv.reader(io.StringIO(raw.decode("utf-8-sig")))  # spreadsheets write a mark at the beginning
        numbered = [(lines.line_num, row) for row in lines if row]
        if not numbered:
            raise ValueError("it is empty")
        (_, header), *rows = numbered
        unit = _UNITS.get(header[-1])
        if unit is None:
            raise ValueError(f"the last column is named {header[-1][:40]!r}")
        for number, row in rows:
            if len(row) != len(header):
                raise ValueError(f"line {number} has {len(row)} columns, the first {len(header)}")
        values = [[_value(text) for text in row[:-1]] for _, row in rows]
        seconds = [_seconds(row[-1], unit) for _, row in rows]
        return _recorded(path.name, header[:-1], values, seconds)
    except (ValueError, csv.Error) as error:
        raise AutotuneError(
            f"{path} is no recorded space: a table needs a column a parameter and a last one named "
            f"{', '.join(_UNITS)}; {error}"
        ) from error


def _kernel_tuner(raw: bytes, path: Path) -> Recorded:
    try:
        content = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        try:  # the cache of a run that was killed ends in a comma
            content = msgspec.json.decode(raw.rstrip().rstrip(b",") + b"}}")
        except (ValueError, RecursionError) as error:
            raise AutotuneError(f"{path} is neither a recording nor a Kernel Tuner cache: {error}") from error
    try:
        names: list[str] = content["tune_params_keys"]
        records = list(content["cache"].values())
        values = [[record[name] for name in names] for record in records]
        seconds = [_seconds(record.get("time"), _UNITS["time_ms"]) for record in records]
        return _recorded(path.name, names, values, seconds)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AutotuneError(
            f"{path} is no Kernel Tuner cache: it needs tune_params_keys, and a cache of records that have "
            f"those parameters ({type(error).__name__}: {error})"
        ) from error


def _recorded(
    name: str, names: Sequence[str], values: Sequence[Sequence[Any]], seconds: Sequence[float | None]
) -> Recorded:
    """A space of one variant. Of a config that appears twice, the last row counts.

    Raises ValueError where two parameters have one name, or a value is too large to compute with.
    """
    twice = next((axis for axis in names if list(names).count(axis) > 1), None)
    if twice is not None:
        raise ValueError(f"two parameters are named {twice!r}")
    if any(isinstance(value, int) and abs(value) >= _TOO_LARGE for row in values for value in row):
        raise ValueError("a parameter has a value beyond what a float can hold")
    axes = tuple(Axis(axis, _ordered(row[place] for row in values)) for place, axis in enumerate(names))
    places = [{value: place for place, value in enumerate(axis.values)} for axis in axes]
    times: dict[Point, float | None] = {}
    for row, took in zip(values, seconds, strict=True):
        times[(VARIANT, tuple(codes[value] for codes, value in zip(places, row, strict=True)))] = took
    return Recorded(name, Space({VARIANT: axes}, times), times)


def _ordered(values: Iterable[Any]) -> tuple[Value, ...]:
    """The different values, numbers in order."""
    different = dict.fromkeys(values)
    numeric = all(isinstance(value, int | float) for value in different)
    return tuple(sorted(different) if numeric else different)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _seconds(value: Any, unit: float) -> float | None:
    """The time of a record in seconds; None where it is a failure: no number, or none above 0."""
    try:
        seconds = float(value) * unit
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < _OLD_FAILURE * unit else None
