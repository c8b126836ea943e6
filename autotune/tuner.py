"""The loop: ask the search, run the candidate, tell the outcome; then the final round, and the cache."""

import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from autotune import cache, efforts, entry, finalists, paths, space
from autotune.candidate import Bench
from autotune.errors import AutotuneError, CacheUnwritable, StorageLost, TuningFailed, WorkerError
from autotune.kernels import family_of
from autotune.kernels.base import Family
from autotune.lanes import Lane, lanes_for
from autotune.loop import told, trials
from autotune.model import Config, Measurement, Problem, Rejection, Trial
from autotune.recording import Recorder
from autotune.results import EARLY, Budget, Ended, Observer, Options, Progress, TuneResult, check_types
from autotune.runtime import DEFAULT_RUNTIME, runtime_of
from autotune.runtime.base import Runtime
from autotune.runtime.process import WorkerRuntime
from autotune.search import Search, SharedStudy, importance
from autotune.seeds import seeds
from autotune.space import Space
from autotune.trial_log import TrialLog, study_name

_FUTILE = 50
"""Failures of one kind in a row, with nothing that works, after which a search ends."""
_SAVE_SECONDS = 20.0
"""Between two writes of a recording, so that a killed run has most of it."""
_FINAL_SHARE = 0.25
"""Of the time limit: what the final round may take on top of it."""
_RETRIED = ("crash", "hang")
"""Failures that may have been the machine's at the time."""


def tune(
    problem: Problem,
    *,
    trials: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    adapter: str | None = None,
    cache_dir: str | Path | None = None,
    retry: bool = False,
    runtime: Runtime | str = DEFAULT_RUNTIME,
    observe: Observer = lambda _progress: None,
    options: Options = Options(),  # noqa: B008  frozen
) -> TuneResult:
    """Search for the fastest config of a problem on an adapter, prove it, and store it.

    `trials` bounds the unique measured candidates, `time_limit` the seconds of searching; the final round may
    take a quarter of it more, and the proofs their time. Resumes a search that was interrupted; with `retry`,
    candidates that crashed or hung then may be tried again. Ctrl-C ends the search early: the best so far is
    stored and returned with `ended="interrupted"`. `runtime` is `wgpu` or `dawn`, or runs the candidates
    itself, instead of a new worker process. `options` say how to search.

    Raises TuningFailed when no candidate survives, NoAdapter, InvalidProblem, and TypeError for arguments
    of wrong types.
    """
    check_types(trials=trials, time_limit=time_limit, seed=seed, adapter=adapter)
    family = family_of(problem)
    family.check_problem(problem)
    for what, value in (("trials", trials), ("time limit", time_limit)):
        if value is not None and not value > 0:
            raise AutotuneError(f"the {what} must be above 0, not {value}")
    root = paths.user_cache_dir(cache_dir)
    device = WorkerRuntime(adapter, runtime=runtime) if isinstance(runtime, str) else runtime
    try:
        notes: list[str] = []
        if isinstance(device, WorkerRuntime) and device.refuted:
            shapes = ", ".join(map(str, device.refuted))
            notes.append(
                f"matrix units that failed the check when the adapter was opened are not used: {shapes}"
            )
        try:
            cache.remember_device(device.profile, root, cache.selection(adapter, runtime_of(device.profile)))
        except CacheUnwritable as error:
            notes.append(f"nothing can be stored: {error}")
        preset = efforts.budget(options.effort, device.profile)
        budget = Budget(
            trials=preset.trials if trials is None else trials,
            seconds=preset.seconds if time_limit is None else time_limit,
        )
        patience = efforts.EFFORTS[options.effort].patience if trials is None else None
        return _Tuning(
            family, problem, device, budget, seed, root, observe, notes, retry, options, patience
        ).run()
    finally:
        if isinstance(runtime, str):
            device.close()


class _Tuning:
    """One tuning run."""

    def __init__(
        self,
        family: Family,
        problem: Problem,
        runtime: Runtime,
        budget: Budget,
        seed: int,
        root: Path,
        observe: Observer,
        notes: list[str],
        retry: bool,
        options: Options,
        patience: efforts.Patience | None,
    ) -> None:
        self.family, self.problem, self.runtime, self.profile = family, problem, runtime, runtime.profile
        self.budget, self.seed, self.root, self.observe, self.notes = budget, seed, root, observe, notes
        self.retry, self.options, self.patience = retry, options, patience
        self.outlooks: list[float] = []
        self.importance: dict[str, float] = {}
        self.outcomes: list[Trial] = []
        self.recorder: Recorder | None = None
        self.ended: Ended = "trials"
        self.measured = 0
        self.measured_a_second = 0.0
        self.lanes: Sequence[Lane] = ()
        self.best: tuple[Config, Measurement] | None = None
        self.started = self.saved = time.monotonic()
        self._report("prepare", None)
        self.whole = space.load_axes(family)
        self.axes = space.restricted(self.whole, options.only)
        self.space = space.legal(family, problem, self.profile, self.axes)
        if not self.space.points:
            default = family.default(problem, self.profile)
            reason = next(space.refusals(family, problem, default, self.profile), None)
            raise TuningFailed(
                f"no config can run {family.label(problem)} here: {reason or _counts(self.space.refused)}"
            )

    def run(self) -> TuneResult:
        """All phases. The log of the search is kept for a resume unless the run came to its end.

        A search without any winner is none to resume: its log is set aside for people to read.
        """
        if self.options.record is not None:
            path, legal = self.options.record, len(self.space)
            self.recorder = Recorder(path, self.family, self.problem, self.profile, self.whole, legal)
        shared = self._join()
        log = None if shared is not None else self._open_log()
        try:
            bench = Bench(self.family, self.problem, self.runtime, seed=self.seed)
            self._search(bench, log, shared)
            result = self._conclude(bench)
            if log is not None and result.ended not in EARLY:
                log.discard()
            return result
        except TuningFailed as error:
            kept = log.set_aside() if log is not None and self.outcomes else None
            if kept is None:
                raise
            raise TuningFailed(f"{error}; every reason in full is in {kept}", error.example) from error
        finally:
            if log is not None:
                log.close()
            if shared is not None:
                shared.close()
            if self.recorder is not None:
                self.recorder.save()

    def _open_log(self) -> TrialLog | None:
        try:
            return TrialLog.open(self.root, self.family, self.problem, self.profile)
        except CacheUnwritable:
            return None  # noted already; the search itself needs no disk

    def _join(self) -> SharedStudy | None:
        """The study that other workers share, which then keeps the trials."""
        options = self.options
        if options.storage is None:
            return None
        name = study_name(self.family, self.problem, self.profile, self.axes, len(self.space))
        shared = SharedStudy(options.storage, name, heartbeat=options.heartbeat)
        for other in shared.others:
            self.notes.append(f"not joined, as driver, limits, templates or space differ there: {other}")
        return shared

    def _search(self, bench: Bench, log: TrialLog | None, shared: SharedStudy | None) -> None:
        start_with = seeds(self.family, self.problem, self.profile, self.axes, self.root)
        search = Search(
            self.space,
            seeds=start_with,
            seed=self.seed,
            sampler=self.options.sampler,
            shared=shared,
            budget=self.budget.trials,
        )
        recorded = self.recorder.trials if self.recorder is not None else ()
        known = {trial.config: trial for trial in (*recorded, *(log.trials if log is not None else ()))}
        for trial in known.values():
            if not (self.retry and isinstance(trial.outcome, Rejection) and trial.outcome.stage in _RETRIED):
                self._take(trial, search)
        if self.outcomes:
            self.notes.append(f"resumed a search that had tried {len(self.outcomes)} candidates")
        self.started, resumed = time.monotonic(), self.measured
        self._report("search", self.space)
        try:
            going_on, best = self._may_go_on, self._best_seconds
            self._open_lanes(bench)
            for trial in trials(self.family, self.lanes, search, self.axes, log, going_on, best):
                self._take(trial, search)
                if search.outlook is not None:
                    self.outlooks.append(search.outlook)
                self._report("search", self.space)
        except KeyboardInterrupt:
            self.ended = "interrupted"
        except WorkerError as error:
            self.ended = "device lost"
            self.notes.append(f"the search ended early: {error}")
        except StorageLost as error:
            self.ended = "storage lost"
            self.notes.append(f"the search ended early: {error}")
        finally:
            self.measured_a_second = (self.measured - resumed) / max(time.monotonic() - self.started, 1e-3)
            if isinstance(self.runtime, WorkerRuntime):
                self.runtime.unshare()
        lost = [lane.error for lane in self.lanes if lane.error is not None]
        if lost and self.ended != "device lost":
            self.notes.append(f"{len(lost)} of {len(self.lanes)} lanes ended early, one by this: {lost[0]}")
        self.importance = importance(search.board)
        if self.ended == "converged" and self.patience is not None:
            self.notes.append(
                f"stopped early: for {self.patience.asks} configs in a row, the most promising untried ones "
                f"promised under {self.patience.promise:.1%} together; --effort thorough or --trials goes on"
            )

    def _open_lanes(self, bench: Bench) -> None:
        made = lanes_for(bench, jobs=self.options.jobs, workers=self.options.workers)
        self.lanes = made.lanes
        if self.options.workers != 1:
            self.notes.append(f"adapters searched on at once: {made.adapters}")

    def _may_go_on(self, in_work: int) -> bool:
        if len(self.outcomes) + in_work >= len(self.space):
            self.ended = "exhausted"
        elif self.measured + in_work >= self.budget.trials:
            self.ended = "trials"
        elif time.monotonic() - self.started >= self.budget.seconds:
            self.ended = "time"
        elif self._converged():
            self.ended = "converged"
        else:
            return not self._futile()
        return False

    def _converged(self) -> bool:
        """Whether the search has long expected next to nothing of what is untried."""
        wanted = self.patience
        if wanted is None or self.measured < wanted.least or len(self.outlooks) < wanted.asks:
            return False
        return max(self.outlooks[-wanted.asks :]) < wanted.promise

    def _futile(self) -> bool:
        """Whether the search has met nothing but one kind of failure, and plenty of it."""
        last = [t.outcome for t in self.outcomes[-_FUTILE:] if isinstance(t.outcome, Rejection)]
        return len(last) == _FUTILE and self.best is None and len(set(map(_kind, last))) == 1

    def _take(self, trial: Trial, search: Search) -> None:
        point = space.point_of(self.axes, trial.config)
        if point is None or point not in self.space:
            return  # an old trial that this space no longer has
        self.outcomes.append(trial)
        seconds = None
        if isinstance(trial.outcome, Measurement):
            seconds = trial.outcome.seconds
            self.measured += 1
            if self.best is None or seconds < self.best[1].seconds:
                self.best = trial.config, trial.outcome
        search.tell(point, seconds, told(trial.outcome))
        if self.recorder is not None:
            self.recorder.add(trial)
            if time.monotonic() - self.saved > _SAVE_SECONDS:
                self.saved = time.monotonic()
                self.recorder.save()

    def _conclude(self, bench: Bench) -> TuneResult:
        ranked = self._ranked()
        failed = Counter(_kind(t.outcome) for t in self.outcomes if isinstance(t.outcome, Rejection))
        if not ranked:
            if self.ended == "interrupted":
                raise KeyboardInterrupt
            why = _counts(failed)
            if not failed:
                limit = f"the time limit of {self.budget.seconds:g} s ended before the first candidate"
                why = self.notes[-1] if self.ended == "device lost" else limit
            alike = f" and {_FUTILE} in a row failed alike" if self._futile() else ""
            raise TuningFailed(
                f"no candidate worked{alike}, nothing was stored: {why}",
                next((trial for trial in self.outcomes if _failed_like(trial, failed.most_common(1))), None),
            )
        decision = finalists.Decision(*ranked[0])
        baseline: Measurement | None = None
        if self.ended not in EARLY:
            try:
                self._report("final", self.space)
                tried = [trial.config for trial in self.outcomes]
                spent = [t.seconds_spent for t in self.outcomes if isinstance(t.outcome, Measurement)]
                share = _FINAL_SHARE * self.budget.seconds
                until = time.monotonic() + share
                each = statistics.median(spent)
                finals = finalists.final_round(
                    bench,
                    ranked,
                    tried=tried,
                    seed=self.seed,
                    seconds=share,
                    each=each,
                )
                baseline = self._baseline(bench, finals, ranked[0][1].seconds)
                if baseline is not None:
                    finals = finalists.with_naive(bench, finals, baseline)
                wanted = self._asked_for
                decision = finalists.leader(bench, finals, wanted=wanted) or decision
                left = until - time.monotonic()
                finals = finalists.settle_ties(
                    bench, finals, seed=self.seed, seconds=left, each=each, wanted=wanted
                )
                decision = finalists.leader(bench, finals, wanted=wanted) or decision
                self._report("verify", self.space)
                decision = finalists.decide(bench, finals, seed=self.seed, wanted=wanted)
            except KeyboardInterrupt:
                self.ended = "interrupted"
            except WorkerError as error:
                self.ended = "device lost"
                self.notes.append(f"the final round ended early: {error}")
        self.notes += decision.notes
        return TuneResult(
            problem=self.problem,
            profile=self.profile,
            config=decision.config,
            measurement=decision.measurement,
            default_measurement=decision.default,
            baseline_measurement=baseline,
            measured=len(ranked),
            measured_a_second=self.measured_a_second,
            lanes=max(sum(lane.error is None for lane in self.lanes), 1),
            refused=dict(self.space.refused),
            failed=dict(failed),
            ended=self.ended,
            verified=decision.verified,
            path=self._store(decision, baseline),
            notes=tuple(self.notes),
            importance=self.importance,
        )

    def _asked_for(self, config: Config) -> bool:
        return space.within(config, self.options.only)

    def _baseline(
        self, bench: Bench, finals: list[tuple[Config, Measurement]], best: float
    ) -> Measurement | None:
        outcome = finalists.baseline(bench, finals, best)
        if isinstance(outcome, Measurement):
            return outcome
        self.notes.append(f"the naive kernel could not be measured: {outcome.stage}: {outcome.reason}")
        return None

    def _store(self, decision: finalists.Decision, baseline: Measurement | None) -> Path | None:
        new = entry.new_entry(
            self.family,
            self.problem,
            self.profile,
            decision.config,
            decision.measurement,
            default_measurement=decision.default,
            baseline_measurement=baseline,
            trials=len(self._ranked()),
            complete=self.ended not in EARLY and not self.options.only,
            verified=decision.verified,
        )
        try:
            if cache.replaces(new, cache.rival(self.root, self.family, new, self.notes)):
                return cache.store(self.root, self.family, new)
            self.notes.append("the cache keeps its earlier winner: this one is not faster beyond noise")
        except CacheUnwritable as error:
            if not any(str(error) in note for note in self.notes):  # told at the start
                self.notes.append(f"the result was not stored: {error}")
        return None

    def _ranked(self) -> list[tuple[Config, Measurement]]:
        measured = [(t.config, t.outcome) for t in self.outcomes if isinstance(t.outcome, Measurement)]
        return sorted(measured, key=lambda pair: pair[1].seconds)

    def _best_seconds(self) -> float | None:
        return None if self.best is None else self.best[1].seconds

    def _report(self, phase: Literal["prepare", "search", "final", "verify"], legal: Space | None) -> None:
        spent = (time.monotonic() - self.started) / self.budget.seconds
        share = {"prepare": 0.0, "search": min(max(self.measured / self.budget.trials, spent), 1.0)}
        self.observe(
            Progress(
                phase=phase,
                profile=self.profile,
                budget=self.budget,
                measured=self.measured,
                failed=len(self.outcomes) - self.measured,
                refused=sum(legal.refused.values()) if legal else 0,
                legal=len(legal) if legal else 0,
                share=share.get(phase, 1.0),
                best=self.best,
            )
        )


def _kind(rejection: Rejection) -> str:
    """Stage and reason with the numbers taken out, to count by."""
    words = " ".join(re.sub(r"[-+]?\d[\d.e+-]*", "#", rejection.reason).split())
    return f"{rejection.stage}: {words[:120]}"


def _failed_like(trial: Trial, commonest: list[tuple[str, int]]) -> bool:
    return isinstance(trial.outcome, Rejection) and [_kind(trial.outcome)] == [kind for kind, _ in commonest]


def _counts(reasons: Counter[str]) -> str:
    return "; ".join(f"{count}× {reason}" for reason, count in reasons.most_common(5)) or "no reason known"
