"""What a person sees: progress, results, tables. The only module that prints."""

import os
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.live import Live
from rich.text import Text

from autotune.errors import TuningFailed
from autotune.kernels import family_of
from autotune.levels import Answer
from autotune.model import Config, DeviceProfile, Measurement, Problem, Rejection
from autotune.results import EARLY, Progress, TuneResult

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

_LEVELS = {
    "user": "tuned here for this problem",
    "shipped": "shipped: tuned for this problem on this device",
    "nearest": "tuned on this device for a similar problem",
    "architecture": "tuned on another device of this architecture",
    "vendor": "tuned on another device of this vendor",
    "default": "the portable default, not tuned",
}
ENDED = {
    "trials": "the number of trials was reached",
    "time": "the time limit was reached",
    "exhausted": "every legal config was tried",
    "interrupted": "interrupted",
    "converged": "the search expects no more",
    "device lost": "the device was lost",
    "storage lost": "the shared storage was lost",
}

_TELLING = 0.03
"""Share of the variation below which a parameter is not worth a word."""


def error(message: str) -> None:
    """One line on standard error."""
    _err.print(Text(f"error: {message}"))


def failed(failure: TuningFailed) -> None:
    """Why a tuning run has no winner, with one whole reason."""
    error(" ".join(str(failure).split()))
    trial = failure.example
    if trial is not None and isinstance(trial.outcome, Rejection):
        _err.print(Text(f"  for example {describe(trial.config)}"))
        _err.print(Text(f"  {trial.outcome.stage}:"))
        _err.print(Text(textwrap.indent(trial.outcome.reason.strip("\n"), "    ")))


def say(message: str) -> None:
    """One line on standard output."""
    _out.print(Text(message))


def note(message: str) -> None:
    """Something worth knowing, on standard error."""
    _err.print(Text(f"note: {message}"))


def aside(message: str) -> None:
    """Something about the progress, on standard error."""
    _err.print(Text(message))


def data(value: Any) -> None:
    """Machine-readable output: JSON on standard output."""
    sys.stdout.write(as_json(value).decode())


def as_json(value: Any) -> bytes:
    """A value as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=_path_text), indent=2) + b"\n"


def _path_text(value: Any) -> str:
    if isinstance(value, Path):
        return os.fsencode(value).decode(errors="replace")  # a path need not be UTF-8, JSON must
    raise NotImplementedError


def seconds(value: float) -> str:
    """A duration with three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def rate(flops: float, duration: float) -> str:
    """Floating-point operations a second."""
    per_second = flops / duration
    if per_second >= 1e12:
        return f"{per_second / 1e12:.2f} TFLOP/s"
    return f"{per_second / 1e9:.1f} GFLOP/s" if per_second >= 0.9995e9 else f"{per_second / 1e6:.3g} MFLOP/s"


def describe(config: Config) -> str:
    """A config in one line."""
    values = (f"{name}={_plain(value)}" for name, value in config.parameters().items())
    return f"{config.variant} {' '.join(values)}"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def device_line(profile: DeviceProfile) -> str:
    """Which adapter this is, and what it allows, in one line."""
    limit = profile.limits
    features = ", ".join(profile.features) or "no optional features"
    stack = f"{profile.backend}, {profile.compiler}, {profile.driver or 'unknown driver'}"
    return (
        f"{profile.name or 'unnamed adapter'} ({stack}): "
        f"{limit['maxComputeInvocationsPerWorkgroup']} invocations and "
        f"{limit['maxComputeWorkgroupStorageSize'] // 1024} KiB a workgroup; {features}"
    )


class ProgressLine:
    """A live line in a terminal; elsewhere a plain line now and then."""

    def __init__(self, problem: Problem, *, introduce: bool = True) -> None:
        """`introduce` the device too."""
        self._family = family_of(problem)
        self._problem = problem
        self._live: Live | None = None
        self._introduced = not introduce
        self._printed = 0.0

    def __enter__(self) -> Self:
        if _err.is_terminal and not _err.is_dumb_terminal:
            self._live = Live(
                Text("opening the adapter …"), console=_err, transient=True, refresh_per_second=8
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far the run is."""
        if not self._introduced:
            self._introduced = True
            _err.print(Text(device_line(progress.profile)))
            if progress.profile.is_cpu:
                note("this is a software adapter: the result is right, but says nothing about a GPU")
        text = Text(self._line(progress))
        if self._live is not None:
            self._live.update(text)
        elif time.monotonic() - self._printed > 5 or progress.phase != "search":
            self._printed = time.monotonic()
            _err.print(text)

    def _line(self, progress: Progress) -> str:
        if progress.phase == "prepare":
            return "enumerating the legal configs and computing the float64 reference …"
        best = "none yet"
        if progress.best is not None:
            best = rate(self._family.flops(self._problem), progress.best[1].seconds)
        head = {
            "search": f"trial {progress.measured}/{progress.budget.trials}",
            "final": "re-measuring the finalists in turns",
            "verify": "verifying the winner at ragged sizes",
        }[progress.phase]
        return (
            f"{head} · best {best} · {progress.share:.0%} of the budget · "
            f"{progress.legal} legal, {progress.refused} refused, {progress.failed} failed"
        )


def tuned(result: TuneResult) -> None:
    """The outcome of a tuning run."""
    family = family_of(result.problem)
    _result(
        result.problem,
        result.profile,
        result.config,
        result.measurement,
        result.default_measurement,
        result.baseline_measurement,
    )
    rows = [("tried", f"{result.measured} configs{_pace(result)}; {ENDED[result.ended]}")]
    if result.refused:
        rows.append(("refused", f"{sum(result.refused.values())} configs: {_counts(result.refused, most=4)}"))
    if result.failed:
        rows.append(("failed", _counts(result.failed)))
    if result.importance:
        most = [(name, share) for name, share in result.importance.items() if share >= _TELLING][:5]
        if most:
            shares = ", ".join(f"{name} {share:.0%}" for name, share in most)
            rows.append(("matters", f"{shares} of the variation of time, each alone"))
    if not result.verified:
        early = result.ended in EARLY
        also = ", nor against the other finalists" if early else ""
        rows.append(("unproven", f"the winner was not checked at other sizes{also}"))
    if result.path is not None:
        rows.append(("stored", str(result.path)))
        rows.append(("next", f"autotune export {family.name} … --out DIR writes the WGSL"))
    _rows(rows)
    for line in result.notes:
        note(line)


def answered(problem: Problem, profile: DeviceProfile, answer: Answer) -> None:
    """A look-up's answer for a device."""
    if answer.entry is not None and answer.level in ("user", "shipped"):
        entry = answer.entry
        _result(
            problem,
            profile,
            answer.config,
            entry.measurement,
            entry.default_measurement,
            entry.baseline_measurement,
        )
    else:
        family = family_of(problem)
        say(f"{family.name} {family.label(problem)}")
        _rows([("config", describe(answer.config))])
    _rows([("for", _whom(profile)), ("from", _LEVELS[answer.level])])
    if answer.path is not None:
        _rows([("entry", str(answer.path))])
    for line in (*(f"stale: {reason}" for reason in answer.stale), *answer.notes):
        note(line)


def _whom(profile: DeviceProfile) -> str:
    """The device that a look-up answered for, however little is known of it."""
    make = f"{profile.vendor} {profile.architecture}".strip()
    if profile.device_id or profile.name:
        return f"{profile.name or make or 'an unknown device'} ({profile.id})"
    return f"any {make} device" if make else "any device that grants WebGPU's base limits"


def _result(
    problem: Problem,
    profile: DeviceProfile,
    config: Config,
    measurement: Measurement,
    default: Measurement | None,
    baseline: Measurement | None,
) -> None:
    family = family_of(problem)
    say(f"{family.name} {family.label(problem)} on {profile.name} ({profile.backend}, {profile.compiler})")
    quartiles = f"{seconds(measurement.low)} to {seconds(measurement.high)}"
    clock = "GPU timestamps" if measurement.clock == "gpu" else "wall clock, no GPU timestamps here"
    rows = [
        ("config", describe(config)),
        (
            "time",
            f"{seconds(measurement.seconds)} (quartiles {quartiles}, "
            f"{measurement.samples} samples, {clock}) = {rate(family.flops(problem), measurement.seconds)}",
        ),
    ]
    for name, other in (("default", default), ("naive", baseline)):
        if other is not None:
            faster = other.seconds / measurement.seconds
            rows.append((name, f"{seconds(other.seconds)}: the winner is {faster:.2f}× as fast"))
    _rows(rows)


def _pace(result: TuneResult) -> str:
    """How fast the search measured, and in how many lanes; nothing where all was resumed."""
    if not result.measured_a_second:
        return ""
    at_once = "one at a time" if result.lanes == 1 else f"{result.lanes} in work at once"
    return f", {result.measured_a_second:,.1f} a second, {at_once}"


def _counts(reasons: dict[str, int], most: int | None = None) -> str:
    """Counts by reason, the `most` frequent ones."""
    ranked = sorted(reasons.items(), key=lambda pair: -pair[1])
    more = "; …" if most is not None and len(ranked) > most else ""
    return "; ".join(f"{count}× {reason}" for reason, count in ranked[:most]) + more


def _rows(rows: Sequence[tuple[str, str]]) -> None:
    width = max(9, *(len(name) + 2 for name, _ in rows))
    for name, value in rows:
        _out.print(Text(f"  {name:<{width}}{value}"))


def devices(runtime: str, listed: Sequence[tuple[DeviceProfile, dict[str, str]]]) -> None:
    """Every adapter that a runtime sees, its limits and features, and which kernels it can run."""
    say(f"--runtime {runtime}" + ("" if listed else ": no adapter"))
    for index, (profile, kernels) in enumerate(listed):
        say(f"{index}: {profile.name or 'unnamed adapter'}")
        make = f"{profile.vendor or 'unknown vendor'} {profile.architecture}".rstrip()
        kind = "software adapter" if profile.is_cpu else f"{profile.adapter_type} GPU"
        limits = (f"{name} {value}" for name, value in sorted(profile.limits.items()))
        _rows(
            [
                ("id", f"{profile.id} ({kind}; {make})"),
                ("driver", f"{profile.driver or 'unknown'}; {profile.runtime}"),
                ("features", ", ".join(profile.features) or "none of those we use"),
                ("limits", ", ".join(limits)),
                *([("matrices", _matrices(profile))] if profile.subgroup_matrix else []),
                *((name, text) for name, text in kernels.items()),
            ]
        )


def _matrices(profile: DeviceProfile) -> str:
    """What the matrix units multiply, by types: `f16 to f32 16×16×16 16×8×16 (m×n×k)`."""
    by_types: dict[str, list[str]] = {}
    for one in profile.subgroup_matrix:
        by_types.setdefault(f"{one.element} to {one.result}", []).append(f"{one.m}×{one.n}×{one.k}")
    return "; ".join(f"{types} {' '.join(shapes)}" for types, shapes in by_types.items()) + " (m×n×k)"


class Row(Struct, frozen=True):
    """A cache entry in a list."""

    problem: str
    device: str
    time: str
    rate: str
    config: str


def entries(rows: Sequence[Row], *, configs: bool) -> None:
    """A list of cache entries, a line each; each config below where they are asked for.

    In a terminal a line takes 80 columns, and long names of devices are cut.
    """
    heading = Row("problem", "device", "time", "rate", "")
    names = ("problem", "time", "rate")
    problem, time_, rate_ = (max(len(getattr(row, name)) for row in (heading, *rows)) for name in names)
    room = max(80 - 6 - problem - time_ - rate_, 12)
    device = max(len(row.device) for row in (heading, *rows))
    if _out.is_terminal and not _out.is_dumb_terminal:
        device = min(device, room)
    for row in (heading, *rows):
        name = row.device if len(row.device) <= device else row.device[: device - 1] + "…"
        say(f"{row.problem:<{problem}}  {name:<{device}}  {row.time:>{time_}}  {row.rate:>{rate_}}")
        if configs and row.config:
            say(f"  {row.config}")
