"""Tables over many searches: suites and replays. Printing itself is the console's."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from autotune.console import ENDED, ProgressLine, as_json, aside, rate, say, seconds
from autotune.errors import AutotuneError
from autotune.kernels import family_of
from autotune.model import DeviceProfile, Problem
from autotune.replay import Summary
from autotune.space import Space
from autotune.suite import Outcome


class SuiteProgress:
    """The progress of a suite: a line for the problem in work, which says how many there are."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._line: ProgressLine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def of(self, number: int, problem: Problem) -> ProgressLine:
        """The line of the next problem, in the place of the last one's."""
        self._leave()
        family = family_of(problem)
        aside(f"[{number + 1}/{self._count}] {family.name} {family.label(problem)}")
        self._line = ProgressLine(problem, introduce=number == 0).__enter__()
        return self._line

    def _leave(self) -> None:
        if self._line is not None:
            self._line.__exit__(None, None, None)
            self._line = None


def suite(outcomes: Sequence[Outcome], profile: DeviceProfile) -> None:
    """The report of a suite, a line each problem."""
    lines = [("problem", "time", "rate", "default", "tried", "")]
    for outcome in outcomes:
        family = family_of(outcome.problem)
        name = f"{family.name} {family.label(outcome.problem)}"
        found = outcome.result or (outcome.answer.entry if outcome.answer is not None else None)
        if found is None:
            lines.append((name, "-", "-", "-", "-", outcome.error or ""))
            continue
        taken, default = found.measurement.seconds, found.default_measurement
        lines.append(
            (
                name,
                seconds(taken),
                rate(family.flops(outcome.problem), taken),
                "-" if default is None else f"{default.seconds / taken:.2f}×",
                str(outcome.result.measured) if outcome.result is not None else "-",
                ENDED[outcome.result.ended] if outcome.result is not None else "was known",
            )
        )
    say(f"on {profile.name} ({profile.backend}, {profile.compiler}); default: how much faster the winner is")
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    for line in lines:
        numbers = (f"{cell:>{width}}" for cell, width in zip(line[1:5], widths[1:5], strict=True))
        say(f"  {line[0]:<{widths[0]}}  {'  '.join(numbers)}  {line[5]}".rstrip())


def check_target(path: Path) -> None:
    """Raise AutotuneError where a file cannot be written: before the work, not after it."""
    new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise AutotuneError(f"cannot write {path}: {error.strerror or error}") from error


def written(path: Path, value: Any) -> None:
    """Write a value to a file as JSON."""
    try:
        path.write_bytes(as_json(value))
    except OSError as error:
        raise AutotuneError(f"cannot write {path}: {error.strerror or error}") from error


class Replayed(Struct, frozen=True):
    """What replays of a sampler came to."""

    sampler: str
    summaries: list[Summary]
    seconds_a_proposal: float


def replayed(name: str, space: Space, rows: Sequence[Replayed]) -> None:
    """A table of replays: median and 10th percentile of the share of the optimum, by measurements."""
    say(f"{name}: {len(space)} configs; share of the optimum after N measurements, median (10th percentile)")
    budgets = [summary.budget for summary in rows[0].summaries] if rows else []
    width = max(16, *(len(str(budget)) + 2 for budget in budgets))
    say(f"  {'sampler':12}" + "".join(f"{budget:>{width}}" for budget in budgets) + f"{'a proposal':>14}")
    for row in rows:
        cells = "".join(f"{f'{one.median:.3f} ({one.low:.3f})':>{width}}" for one in row.summaries)
        say(f"  {row.sampler:12}{cells}{seconds(row.seconds_a_proposal):>14}")
