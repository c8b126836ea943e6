"""Recorded spaces from files: our own recordings, tables, and Kernel Tuner's caches.

- our own: see `recording.py`;
- CSV, gzipped or not: one column a parameter and a last one named `time_ms`, `time_us` or `time_s`, one row
  a config; a time that is no number above 0 is a failure. Parameters are numbers where all of a column are,
  else texts; numbers are written plainly, as in `16`, `-0.5` or `1e3`. Rows without any text are none;
- Kernel Tuner's cache, JSON with Python's NaN and Infinity: `tune_params_keys` names the parameters, `cache`
  holds a record for every config with its parameters and its `time` in milliseconds; in its place stands the
  name of an error, or in older caches 1e20, where there is none.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from autotune.errors import AutotuneError
from autotune.recording import axes_of, decode, read_packed
from autotune.space import Axis, Point, Space, Value

VARIANT = "recorded"
"""Of spaces that know no variants."""
_OLD_FAILURE = 1e20
_TOO_LARGE = 1 << 1023
_UNITS = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6}
_WHOLE = re.compile(r"\s*[-+]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*")
"""What of a table is a number; Python reads more, such as `1_0`, `nan` and digits of other scripts."""


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
        # and rows of nothing but separators at the end
        numbered = [(lines.line_num, row) for row in lines if any(text.strip() for text in row)]
        if not numbered:
            raise ValueError("it is empty")
        (_, header), *rows = numbered
        unit = _UNITS.get(header[-1])
        if unit is None:
            raise ValueError(f"the last column is named {header[-1][:40]!r}")
        for number, row in rows:
            if len(row) != len(header):
                raise ValueError(f"line {number} has {len(row)} columns, the first {len(header)}")
        columns = [_column([row[place] for _, row in rows]) for place in range(len(header) - 1)]
        seconds = [_seconds(row[-1], unit) for _, row in rows]
        return _recorded(path.name, header[:-1], list(zip(*columns, strict=True)), seconds)
    except (ValueError, csv.Error) as error:
        raise AutotuneError(
            f"{path} is no recorded space: a table needs a column a parameter and a last one named "
            f"{', '.join(_UNITS)}; {error}"
        ) from error


class _KernelTuner(Struct):
    """A cache of Kernel Tuner, as far as it tells the time of each config."""

    tune_params_keys: Annotated[list[str], Meta(min_length=1)]
    cache: dict[str, dict[str, Any]]


def _kernel_tuner(raw: bytes, path: Path) -> Recorded:
    try:  # not by msgspec, since Python writes NaN and Infinity
        text = raw.decode()
        try:
            content = json.loads(text)
        except ValueError:  # the cache of a run that was killed ends in a comma
            content = json.loads(text.rstrip().rstrip(",") + "}}")
    except (ValueError, RecursionError) as error:
        raise AutotuneError(f"{path} is neither a recording nor a Kernel Tuner cache: {error}") from error
    try:
        held = msgspec.convert(content, _KernelTuner)
        names, records = held.tune_params_keys, list(held.cache.values())
        values = [[record[name] for name in names] for record in records]
        seconds = [_seconds(record.get("time"), _UNITS["time_ms"]) for record in records]
        return _recorded(path.name, names, values, seconds)
    except (KeyError, TypeError, ValueError) as error:
        raise AutotuneError(
            f"{path} is no Kernel Tuner cache: it needs tune_params_keys, and a cache of records that have "
            f"those parameters ({type(error).__name__}: {error})"
        ) from error


def _recorded(
    name: str, names: Sequence[str], values: Sequence[Sequence[Any]], seconds: Sequence[float | None]
) -> Recorded:
    """A space of one variant. Of a config that appears twice, the last row counts.

    Raises ValueError where there is no parameter, two have one name, or a value is no number to compute with.
    """
    if not names:
        raise ValueError("it has no parameter")
    twice = next((axis for axis in names if list(names).count(axis) > 1), None)
    if twice is not None:
        raise ValueError(f"two parameters are named {twice!r}")
    for row in values:
        for axis, value in zip(names, row, strict=True):
            if isinstance(value, int | float) and not abs(value) < _TOO_LARGE:  # true for NaN too
                raise ValueError(f"{axis} has a value that is no number, or beyond what a float can hold")
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


def _column(texts: list[str]) -> list[Any]:
    """The values of a parameter: numbers where all are, else texts."""
    if all(map(_NUMBER.fullmatch, texts)):
        return [_number(text) for text in texts]
    return texts


def _number(text: str) -> int | float:
    """A number as tables write it; infinity for whole ones that are far beyond what a float holds."""
    if not _WHOLE.fullmatch(text):
        return float(text)
    try:
        return int(text)
    except ValueError:  # of thousands of digits
        return inf


def _seconds(value: Any, unit: float) -> float | None:
    """The time of a record in seconds; None where it is a failure: no number, or none above 0."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = value * unit
    except OverflowError:
        return None
    return seconds if 0 < seconds < _OLD_FAILURE * unit else None
