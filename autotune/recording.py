"""Recordings of tuning runs: every candidate and what it took, to replay a search with no GPU.

A file is gzipped JSON lines: the first tells what the times are of, each further one is a candidate: its
variant, the places of its values among the axes' values, and its seconds or the stage that refused it.

    {"format":"autotune-recording","schema":1,"kernel":"gemm","problem":{…},"device":{…},"axes":{…},…}
    ["blocked",[0,2,1],0.0031]
    ["blocked",[0,2,2],"compile"]
"""

import gzip
import io
import math
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from autotune import space
from autotune.digest import template_digest
from autotune.errors import AutotuneError, InvalidConfig
from autotune.files import UnreadableError, read_regular, reason, write_atomic
from autotune.kernels.base import Family
from autotune.model import Clock, Config, DeviceProfile, Measurement, Problem, Rejection, Stage, Trial
from autotune.space import Axes, Axis, Point, Value

MOST_BYTES = 1 << 28
"""Of a recording, packed or not; a larger file is not ours."""
_DIGITS = 5
"""Of a recorded time: finer is noise."""


class Header(Struct, frozen=True, kw_only=True):
    """What the times of a recording are of."""

    format: Literal["autotune-recording"] = "autotune-recording"
    schema: Literal[1] = 1
    kernel: str
    problem: dict[str, Any]
    device: DeviceProfile
    template_digest: str
    clock: Clock = "gpu"
    legal: int = 0
    """How many configs were legal; the recording holds some or all of them."""
    axes: dict[str, list[tuple[str, list[Value]]]]


Index = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Row = tuple[str, list[Index], Seconds | Stage]


class Recorder:
    """Collects the trials of a run and writes them to a file; goes on with what the file holds already."""

    def __init__(
        self, path: Path, family: Family, problem: Problem, profile: DeviceProfile, axes: Axes, legal: int
    ) -> None:
        """Raises AutotuneError where the file holds anything but a recording of the same problem, device and
        templates, or where nothing can be written beside it."""
        self.path = path
        self.trials: tuple[Trial, ...] = ()
        """What the file held when it was opened."""
        self._axes = axes
        self._rows: dict[Point, Row] = {}
        self._header = Header(
            kernel=family.name,
            problem=msgspec.to_builtins(problem),
            device=profile,
            template_digest=template_digest(family.name),
            legal=legal,
            axes={name: [(axis.name, list(axis.values)) for axis in of] for name, of in axes.items()},
        )
        raw = read_packed(path)
        if raw is not None:
            held, rows = decode(raw, path)
            _compare(family, held, self._header, path)
            self.trials = tuple(trials_of(family, held, rows))
            for trial in self.trials:
                self.add(trial)
        self.save()  # a path that cannot be written is told now, not after the search

    def add(self, trial: Trial) -> None:
        """Keep a trial; the latest of a config counts."""
        point = space.point_of(self._axes, trial.config)
        if point is None:
            return
        outcome = trial.outcome
        value: float | Stage
        if isinstance(outcome, Measurement):
            value = float(f"{outcome.seconds:.{_DIGITS}g}")
            if outcome.clock == "wall":
                self._header = msgspec.structs.replace(self._header, clock="wall")
        else:
            value = outcome.stage
        self._rows[point] = (point[0], list(point[1]), value)

    def save(self) -> None:
        """Write the file, in one step. Raises AutotuneError where that fails."""
        lines = [self._header, *self._rows.values()]
        body = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        try:
            path = Path(os.path.realpath(self.path))  # a link stays one
            write_atomic(path.parent, path, gzip.compress(body, mtime=0))
        except AutotuneError as error:
            raise AutotuneError(f"cannot write the recording {self.path}: {reason(error)}") from error


def decode(raw: bytes, path: Path) -> tuple[Header, list[Row]]:
    """Header and rows of a recording's unpacked bytes. Raises AutotuneError where they are none."""
    first, *lines = raw.splitlines() or [b""]
    try:
        header = msgspec.json.decode(first, type=Header)
        rows = [msgspec.json.decode(line, type=Row) for line in lines if line.strip()]
    except (ValueError, RecursionError) as error:
        raise AutotuneError(f"{path} is not a recording: {error}") from error
    _check_places(header, rows, path)
    return header, rows


def axes_of(header: Header) -> Axes:
    """The axes that the rows' places refer to."""
    return {
        name: tuple(Axis(axis, tuple(values)) for axis, values in axes) for name, axes in header.axes.items()
    }


def read_packed(path: Path) -> bytes | None:
    """The bytes of a file, unpacked where it is gzipped; None where there is none.

    Raises AutotuneError where it cannot be read.
    """
    try:
        raw = read_regular(path, limit=MOST_BYTES)
        if raw is None or not raw.startswith(b"\x1f\x8b"):
            return raw
        with gzip.open(io.BytesIO(raw)) as file:
            unpacked = file.read(MOST_BYTES + 1)
    except UnreadableError as error:
        raise AutotuneError(f"{path} {error}") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise AutotuneError(f"{path} cannot be unpacked: {error}") from error
    if len(unpacked) > MOST_BYTES:
        raise AutotuneError(f"{path} is larger than {MOST_BYTES} bytes unpacked")
    return unpacked


def _check_places(header: Header, rows: Iterable[Row], path: Path) -> None:
    """Raise AutotuneError for places that no axis has."""
    axes = axes_of(header)
    for variant, indices, _ in rows:
        of = axes.get(variant)
        if (
            of is None
            or len(of) != len(indices)
            or any(i >= len(a.values) for i, a in zip(indices, of, strict=True))
        ):
            raise AutotuneError(f"{path} is not a sound recording: no axes for {variant} {indices}")


def trials_of(family: Family, header: Header, rows: Iterable[Row]) -> Iterator[Trial]:
    """The rows as trials of today's configs; those that exist no longer are left out."""
    axes = axes_of(header)
    for variant, indices, value in rows:
        try:
            of = axes[variant]
            names = {axis.name: axis.values[place] for axis, place in zip(of, indices, strict=True)}
            config: Config = space.config_from(family, variant, names)
        except (InvalidConfig, KeyError, IndexError, ValueError):
            continue
        if isinstance(value, str):
            yield Trial(config=config, outcome=Rejection(stage=value, reason="recorded earlier as refused"))
        elif math.isfinite(value):
            known = Measurement(seconds=value, low=value, high=value, samples=1, batch=1, clock=header.clock)
            yield Trial(config=config, outcome=known)


def _compare(family: Family, held: Header, new: Header, path: Path) -> None:
    for what, then, now in (
        ("kernel", held.kernel, new.kernel),
        ("problem", held.problem, new.problem),
        ("device", held.device.id, new.device.id),
        ("driver", held.device.driver, new.device.driver),
        ("templates", held.template_digest, new.template_digest),
    ):
        if then != now:
            words = [_label(family, of) if isinstance(of, dict) else of for of in (then, now)]
            raise AutotuneError(
                f"{path} was recorded with {'other' if what == 'templates' else 'another'} {what} "
                f"({words[0]}, now {words[1]}); "
                "give --record a new file"
            )


def _label(family: Family, problem: Any) -> str:
    try:
        return family.label(msgspec.convert(problem, family.problem_type))
    except (AutotuneError, ValueError):
        return "one that there is not any more"
