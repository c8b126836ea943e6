"""The log of a search, from which a killed one resumes: one JSON line an event, only ever appended.

    <root>/studies/<kernel>/<device slug>/<problem slug>.jsonl

The first line tells what the times are of. A candidate is noted before it runs and again when its
outcome is known, so that one which takes the whole program down is known at the next start. The
open file is locked: two processes that tune the same key would measure each other's load.
"""

import hashlib
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

import msgspec
from msgspec import Struct

from autotune import space
from autotune.digest import package_digest, template_digest
from autotune.errors import AutotuneError
from autotune.files import lock, unwritable
from autotune.kernels.base import Family
from autotune.layout import STUDIES, device_key, entry_path
from autotune.model import Config, DeviceProfile, Measurement, Problem, Rejection, Trial

MAX_STARTS = 2
"""A candidate that was running this many times when the program was killed is not tried again."""
_MAX_BYTES = 64 << 20


class _Header(Struct, frozen=True, kw_only=True):
    """What every time in the log depends on."""

    schema: Literal[1] = 1
    kernel: str
    problem: dict[str, Any]
    device: str
    driver: str
    runtime: str
    template_digest: str
    package_digest: str
    """A fix in the rules or the plan of a family ends the failures that it mends."""


class _Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: a config, and what happened to it."""

    event: Literal["started", "finished", "interrupted"]
    config: dict[str, Any]
    measurement: Measurement | None = None
    rejection: Rejection | None = None
    seconds_spent: float = 0.0


class TrialLog:
    """An open log. Close it to keep it for a resume, discard it when its search is done."""

    def __init__(self, path: Path, root: Path, file: IO[bytes]) -> None:
        self.path = path
        self.trials: tuple[Trial, ...] = ()
        """Outcomes from earlier runs, one a config, in the order they came; those that killed
        the program are rejections."""
        self.unfinished: tuple[Config, ...] = ()
        """Configs that ran once when the program was killed, and may be tried again."""
        self._root = root
        self._file = file
        self._running: list[Config] = []

    @classmethod
    def open(cls, root: Path, family: Family, problem: Problem, profile: DeviceProfile) -> Self:
        """Open the log of this search, or begin it.

        A log with other templates, rules, driver or runtime is set aside as `.old`: its times do not
        compare. Raises CacheUnwritable, and AutotuneError while another process has it open.
        """
        path = entry_path(root / STUDIES, family, problem, profile).with_suffix(".jsonl")
        header = _Header(
            kernel=family.name,
            problem=msgspec.to_builtins(problem),
            device=device_key(profile),
            driver=profile.driver,
            runtime=profile.runtime,
            template_digest=template_digest(family.name),
            package_digest=package_digest(type(family).__module__),
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = lock(path)
            if file is None:
                raise AutotuneError(
                    f"another process is tuning {family.name} {family.label(problem)} on this device; "
                    "wait for it, or give this one a cache of its own with --cache-dir"
                )
            log = cls(path, root, file)
            try:
                log._resume(family, header)
            except BaseException:
                file.close()
                raise
        except OSError as error:
            raise unwritable(root, error) from error
        return log

    def started(self, config: Config) -> None:
        """Note that a candidate is about to run. Call it before anything of it reaches the driver."""
        self._running.append(config)
        self._append(_Event(event="started", config=msgspec.to_builtins(config)))
        with suppress(OSError):
            os.fsync(self._file.fileno())  # a bad kernel can take the machine down, not only us

    def finished(self, trial: Trial) -> None:
        """Note the outcome of a candidate."""
        outcome = trial.outcome
        self._append(
            _Event(
                event="finished",
                config=msgspec.to_builtins(trial.config),
                measurement=outcome if isinstance(outcome, Measurement) else None,
                rejection=outcome if isinstance(outcome, Rejection) else None,
                seconds_spent=trial.seconds_spent,
            )
        )
        with suppress(ValueError):  # a candidate refused without running was never started
            self._running.remove(trial.config)

    def close(self) -> None:
        """Release the log and keep it. What is running now is not to blame: we got to say so."""
        if self._file.closed:
            return
        with suppress(AutotuneError):
            for config in self._running:
                self._append(_Event(event="interrupted", config=msgspec.to_builtins(config)))
        self._running.clear()
        self._file.close()

    def discard(self) -> None:
        """Release the log and remove it: its search ran to the end and the winner is stored."""
        with suppress(OSError):
            self._file.truncate(0)  # for where an open file cannot be removed
        with suppress(OSError):
            self.path.unlink()
        self._file.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def set_aside(self) -> Path | None:
        """Release the log and keep it as `.old`, from which no search resumes; None where that fails."""
        kept = None
        with suppress(OSError):
            self._file.seek(0)
            kept = self._keep(self._file.read(_MAX_BYTES + 1))
        self.discard()
        return kept

    def _keep(self, content: bytes) -> Path:
        """A copy, since the lock goes with the file and not with its name."""
        old = self.path.with_name(f"{self.path.name}.old")
        old.write_bytes(content)
        return old

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, line: Struct) -> None:
        raw = msgspec.json.encode(line) + b"\n"
        try:
            if self._file.write(raw) != len(raw):
                raise OSError("no space left")  # the file is unbuffered: a full disk takes a part
        except OSError as error:
            raise unwritable(self._root, error) from error

    def _resume(self, family: Family, header: _Header) -> None:
        """Read what an earlier run left, and leave the file ready to be appended to."""
        self._file.seek(0)
        content = self._file.read(_MAX_BYTES + 1)
        whole = content[: content.rfind(b"\n") + 1]  # a killed write leaves a torn last line
        lines = whole.splitlines()
        if len(content) <= _MAX_BYTES and lines and lines[0] == msgspec.json.encode(header):
            self._file.truncate(len(whole))
            self._replay(family, lines[1:])
            return
        if whole:
            self._keep(content)
        self._file.truncate(0)
        self._append(header)

    def _replay(self, family: Family, lines: list[bytes]) -> None:
        outcomes: dict[Config, Trial] = {}
        starts: Counter[Config] = Counter()
        for line in lines:
            try:
                event = msgspec.json.decode(line, type=_Event)
                config = _config(family, event.config)
            except (AutotuneError, ValueError, RecursionError):
                continue  # garbage, or a config that this version no longer has
            if event.event == "started":
                starts[config] += 1
                continue
            starts[config] = max(starts[config] - 1, 0)
            outcome = event.measurement or event.rejection
            if event.event == "finished" and outcome is not None:
                starts[config] = 0
                outcomes[config] = Trial(config=config, outcome=outcome, seconds_spent=event.seconds_spent)
        for config, count in starts.items():
            if count >= MAX_STARTS and config not in outcomes:
                reason = "was running when the program was killed, twice"
                outcomes[config] = Trial(config=config, outcome=Rejection(stage="crash", reason=reason))
        self.trials = tuple(outcomes.values())
        self.unfinished = tuple(c for c, count in starts.items() if count > 0 and c not in outcomes)


def study_name(family: Family, problem: Problem, profile: DeviceProfile, axes: space.Axes, legal: int) -> str:
    """A name for a shared search that only workers have whose times compare: the same problem, device model,
    driver, runtime, limits, templates, rules and space."""
    facts = (
        problem,
        profile,
        {variant: [(axis.name, axis.values) for axis in of] for variant, of in axes.items()},
        legal,
        template_digest(family.name),
        package_digest(type(family).__module__),
    )
    digest = hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]
    return f"{family.name} {family.label(problem)} on {device_key(profile)} #{digest}"


def _config(family: Family, fields: dict[str, Any]) -> Config:
    parameters = {name: value for name, value in fields.items() if name != "variant"}
    return space.config_from(family, str(fields.get("variant")), parameters)
