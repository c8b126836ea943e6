"""The loop: ask the search, run the candidate, tell the outcome; then finalists, proof, and the cache."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from autotune import cache, entry, measure, paths, space
from autotune.candidate import Bench
from autotune.errors import CacheUnwritable, TuningFailed, WorkerError
from autotune.kernels import family_of
from autotune.kernels.base import Family
from autotune.levels import Answer, find
from autotune.model import Config, DeviceProfile, Measurement, Problem, Rejection, Trial
from autotune.runtime.base import Runtime
from autotune.runtime.process import WorkerRuntime
from autotune.search import Search
from autotune.space import Axes, Point, Space
from autotune.trial_log import TrialLog

FINALISTS = 5
"""How many of the fastest candidates are re-measured against each other, besides the default."""
MAX_SEEDS = 8
"""How many winners from the caches the search starts with, besides the default."""

RUNTIME = "wgpu"
"""The runtime that candidates run on."""

Ended = Literal["trials", "time", "exhausted", "interrupted", "device lost"]


class Budget(Struct, frozen=True):
    """When the search stops: unique measured candidates, and seconds of searching."""

    trials: int
    seconds: float


def default_budget(profile: DeviceProfile) -> Budget:
    """What a search may take when nobody says: under a minute on a GPU, longer on a software adapter."""
    return Budget(trials=60, seconds=90.0) if profile.is_cpu else Budget(trials=200, seconds=35.0)


class Progress(Struct, frozen=True):
    """How far a tuning run is."""

    phase: Literal["prepare", "search", "final", "verify"]
    profile: DeviceProfile
    budget: Budget
    measured: int = 0
    failed: int = 0
    refused: int = 0
    legal: int = 0
    share: float = 0.0
    """Of the budget, 0 to 1."""
    best: Trial | None = None
    resumed: int = 0


class TuneResult(Struct, frozen=True, kw_only=True):
    """What a tuning run found."""

    problem: Problem
    profile: DeviceProfile
    config: Config
    measurement: Measurement
    default_measurement: Measurement | None
    """The portable default, in the same final round."""
    baseline_measurement: Measurement | None
    """The naive kernel."""
    measured: int
    refused: dict[str, int]
    """Configs of the space that cannot run here, by reason."""
    failed: dict[str, int]
    """Candidates that failed, by stage and reason."""
    ended: Ended
    verified: bool
    path: Path | None
    """Where the entry was stored; None when it was not."""
    notes: tuple[str, ...] = ()


Observer = Callable[[Progress], None]


def cached(
    problem: Problem, *, adapter: str | None = None, cache_dir: str | Path | None = None
) -> tuple[Answer, DeviceProfile] | None:
    """The finished, fresh answer for exactly this problem on the device that `tune` would open.

    Opens nothing: the device is the one that the same selection opened last on this machine. None
    where that is not known, or where there is no such answer.
    """
    root = paths.user_cache_dir(cache_dir)
    profile = cache.last_device(root, cache.selection(adapter, RUNTIME))
    if profile is None:
        return None
    answer = find(family_of(problem), problem, profile, user_root=root)
    return (answer, profile) if answer.fresh else None


def tune(
    problem: Problem,
    *,
    trials: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    adapter: str | None = None,
    cache_dir: str | Path | None = None,
    runtime: Runtime | None = None,
    observe: Observer = lambda _progress: None,
) -> TuneResult:
    """Search for the fastest config of a problem on an adapter, prove it, and store it.

    `trials` bounds the unique measured candidates, `time_limit` the seconds of searching. Resumes a
    search that was interrupted. Ctrl-C ends the search early: the best so far is stored and returned
    with `ended="interrupted"`. `runtime` runs the candidates instead of a new worker process.

    Raises TuningFailed when no candidate survives, NoAdapter, InvalidProblem.
    """
    family = family_of(problem)
    family.check_problem(problem)
    own = WorkerRuntime(adapter, runtime=RUNTIME) if runtime is None else None
    device = own or runtime
    assert device is not None
    try:
        preset = default_budget(device.profile)
        budget = Budget(
            trials=preset.trials if trials is None else trials,
            seconds=preset.seconds if time_limit is None else time_limit,
        )
        root = paths.user_cache_dir(cache_dir)
        tuning = _Tuning(family, problem, device, budget, seed, root, observe)
        tuning.selection = cache.selection(adapter, RUNTIME)
        return tuning.run()
    finally:
        if own is not None:
            own.close()


class _Tuning:
    """One tuning run, phase by phase."""

    def __init__(
        self,
        family: Family,
        problem: Problem,
        runtime: Runtime,
        budget: Budget,
        seed: int,
        root: Path,
        observe: Observer,
    ) -> None:
        self.family, self.problem, self.runtime = family, problem, runtime
        self.budget, self.seed, self.root, self.observe = budget, seed, root, observe
        self.profile = runtime.profile
        self.selection = ""
        self.notes: list[str] = []
        self.outcomes: list[Trial] = []
        self.resumed = 0
        self.ended: Ended = "trials"
        self.started = time.monotonic()

    def run(self) -> TuneResult:
        self._report("prepare")
        self.axes = space.load_axes(self.family)
        self.space = space.legal(self.family, self.problem, self.profile, self.axes)
        if not self.space.points:
            raise TuningFailed(f"no config can run this problem here: {_counts(self.space.refused)}")
        self._remember_device()
        log = self._open_log()
        try:
            self.bench = Bench(self.family, self.problem, self.runtime, seed=self.seed)
            self._search(log)
            result = self._conclude()
            if log is not None and result.ended not in ("interrupted", "device lost"):
                log.discard()
            return result
        finally:
            if log is not None:
                log.close()

    def _remember_device(self) -> None:
        try:
            cache.remember_device(self.profile, self.root, self.selection)
        except CacheUnwritable as error:
            self.notes.append(f"nothing can be stored: {error}")

    def _open_log(self) -> TrialLog | None:
        try:
            return TrialLog.open(self.root, self.family, self.problem, self.profile)
        except CacheUnwritable:
            return None  # already noted; the search itself needs no disk

    # -- search ----------------------------------------------------------------------------------

    def _search(self, log: TrialLog | None) -> None:
        search = Search(
            self.space,
            seeds=_seeds(self.family, self.problem, self.profile, self.axes, self.root),
            seed=self.seed,
        )
        for trial in log.trials if log is not None else ():
            self._take(trial, search)
        self.resumed = len(self.outcomes)
        if self.resumed:
            self.notes.append(f"resumed an interrupted search with {self.resumed} candidates already tried")
        self.started = time.monotonic()
        self._report("search")
        try:
            for trial in _trials(self.bench, search, self.axes, log, self._may_go_on, self._best_seconds):
                self._take(trial, search)
                self._report("search")
        except KeyboardInterrupt:
            self.ended = "interrupted"
        except WorkerError as error:
            self.ended = "device lost"
            self.notes.append(f"the search ended early: {error}")

    def _may_go_on(self) -> bool:
        if self._measured() >= self.budget.trials:
            self.ended = "trials"
            return False
        if time.monotonic() - self.started >= self.budget.seconds:
            self.ended = "time"
            return False
        self.ended = "exhausted"  # unless the generator is stopped before the search runs dry
        return True

    def _take(self, trial: Trial, search: Search) -> None:
        point = space.point_of(self.axes, trial.config)
        if point is None or point not in self.space:
            return  # an old trial that this space no longer has
        self.outcomes.append(trial)
        search.tell(point, trial.outcome.seconds if isinstance(trial.outcome, Measurement) else None)

    # -- conclusion ------------------------------------------------------------------------------

    def _conclude(self) -> TuneResult:
        ranked = self._ranked()
        failed = Counter(
            f"{trial.outcome.stage}: {trial.outcome.reason.partition(':')[0].splitlines()[0]}"
            for trial in self.outcomes
            if isinstance(trial.outcome, Rejection)
        )
        if not ranked:
            if self.ended == "interrupted":
                raise KeyboardInterrupt
            raise TuningFailed(f"no candidate worked, nothing was stored: {_counts(failed)}")
        config, measurement = ranked[0]
        default = baseline = None
        verified = False
        if self.ended not in ("interrupted", "device lost"):
            try:
                config, measurement, default, verified = self._decide(ranked)
                baseline = self._baseline(measurement.seconds)
            except KeyboardInterrupt:
                self.ended = "interrupted"
            except WorkerError as error:
                self.ended = "device lost"
                self.notes.append(f"the final round ended early: {error}")
        return TuneResult(
            problem=self.problem,
            profile=self.profile,
            config=config,
            measurement=measurement,
            default_measurement=default,
            baseline_measurement=baseline,
            measured=self._measured(),
            refused=dict(self.space.refused),
            failed=dict(failed),
            ended=self.ended,
            verified=verified,
            path=self._store(config, measurement, default, baseline, verified),
            notes=tuple(self.notes),
        )

    def _decide(
        self, ranked: list[tuple[Config, Measurement]]
    ) -> tuple[Config, Measurement, Measurement | None, bool]:
        """Re-measure the best few and the default in turns; the fastest that is right at ragged
        neighbours too wins, so that the default never beats what is published."""
        self._report("final")
        default_config = self.family.default(self.problem, self.profile)
        finalists = ranked[:FINALISTS]
        finalists += [pair for pair in ranked[FINALISTS:] if pair[0] == default_config]
        budget = 12.0 if self.profile.is_cpu else 6.0
        estimates = [(config, measurement.seconds) for config, measurement in finalists]
        finals = self.bench.interleave(estimates, seed=self.seed, budget=budget)
        decided = [
            (config, final) for (config, _), final in zip(finalists, finals, strict=True) if final is not None
        ]
        default = next((final for config, final in decided if config == default_config), None)
        self._report("verify")
        for config, final in sorted(decided, key=lambda pair: pair[1].seconds):
            wrong = self._wrong_nearby(config)
            if wrong is None:
                return config, final, default, True
            self.notes.append(f"a finalist was wrong at another size and was dropped: {wrong}")
        raise TuningFailed("every finalist failed in the final round or at other sizes; nothing was stored")

    def _wrong_nearby(self, config: Config) -> str | None:
        """What is wrong with a config on ragged neighbours of the problem, with exact integer data."""
        for neighbour in self.family.neighbours(self.problem, config):
            bench = Bench(self.family, neighbour, self.runtime, seed=self.seed, integers=True)
            wrong = bench.complaint(config)
            if wrong is not None:
                return f"{self.family.label(neighbour)}: {wrong}"
        return None

    def _baseline(self, best: float) -> Measurement | None:
        config = self.family.baseline(self.problem, self.profile)
        bench = Bench(self.family, self.problem, self.runtime, seed=self.seed)
        outcome = bench.evaluate(config, best, measure.Effort(hopeless=float("inf")))
        if isinstance(outcome, Measurement):
            return outcome
        self.notes.append(f"the naive kernel could not be measured: {outcome.stage}: {outcome.reason}")
        return None

    def _store(
        self,
        config: Config,
        measurement: Measurement,
        default: Measurement | None,
        baseline: Measurement | None,
        verified: bool,
    ) -> Path | None:
        new = entry.new_entry(
            self.family,
            self.problem,
            self.profile,
            config,
            measurement,
            default_measurement=default,
            baseline_measurement=baseline,
            trials=self._measured(),
            complete=self.ended not in ("interrupted", "device lost"),
            verified=verified,
        )
        try:
            old = cache.exact(self.root, self.family, self.problem, self.profile, self.notes)
            if not cache.replaces(new, old):
                self.notes.append("the cache keeps its earlier winner: this one is not faster beyond noise")
                return None
            return cache.store(self.root, self.family, new)
        except CacheUnwritable as error:
            self.notes.append(f"the result was not stored: {error}")
            return None

    # -- bookkeeping -----------------------------------------------------------------------------

    def _ranked(self) -> list[tuple[Config, Measurement]]:
        measured = [(t.config, t.outcome) for t in self.outcomes if isinstance(t.outcome, Measurement)]
        return sorted(measured, key=lambda pair: pair[1].seconds)

    def _measured(self) -> int:
        return sum(isinstance(trial.outcome, Measurement) for trial in self.outcomes)

    def _best_seconds(self) -> float | None:
        return min((m.seconds for _, m in self._ranked()), default=None)

    def _report(self, phase: Literal["prepare", "search", "final", "verify"]) -> None:
        measured = self._measured()
        spent = time.monotonic() - self.started
        legal: Space | None = getattr(self, "space", None)
        best = min(
            (trial for trial in self.outcomes if isinstance(trial.outcome, Measurement)),
            key=lambda trial: trial.outcome.seconds if isinstance(trial.outcome, Measurement) else 0.0,
            default=None,
        )
        share = max(measured / max(self.budget.trials, 1), spent / max(self.budget.seconds, 1e-9))
        self.observe(
            Progress(
                phase=phase,
                profile=self.profile,
                budget=self.budget,
                measured=measured,
                failed=len(self.outcomes) - measured,
                refused=sum(legal.refused.values()) if legal else 0,
                legal=len(legal) if legal else 0,
                share=min(share, 1.0) if phase == "search" else float(phase in ("final", "verify")),
                best=best,
                resumed=self.resumed,
            )
        )


def _trials(
    bench: Bench,
    search: Search,
    axes: Axes,
    log: TrialLog | None,
    may_go_on: Callable[[], bool],
    best: Callable[[], float | None],
) -> Iterator[Trial]:
    """Candidates and their outcomes, one by one, until told to stop or the space is exhausted."""
    while may_go_on():
        point = search.ask()
        if point is None:
            return
        config = space.config_at(bench.family, axes, point)
        if log is not None:
            log.started(config)
        start = time.monotonic()
        outcome = bench.evaluate(config, best())
        trial = Trial(config=config, outcome=outcome, seconds_spent=time.monotonic() - start)
        if log is not None:
            log.finished(trial)
        yield trial


def _seeds(family: Family, problem: Problem, profile: DeviceProfile, axes: Axes, root: Path) -> list[Point]:
    """The portable default, then winners from the caches: this device's before others', near before far."""
    known = [found for place in (root, paths.shipped_cache_dir()) for _, found in cache.list_entries(place)]
    ranked = sorted(
        (
            (found.device.id != profile.id, found.device.vendor_id != profile.vendor_id, distance, index)
            for index, found in enumerate(known)
            if found.kernel == family.name
            and (distance := family.distance(problem, found.problem)) < float("inf")
        ),
    )
    configs = [family.default(problem, profile), *(known[index].config for *_, index in ranked)]
    points = dict.fromkeys(filter(None, (space.point_of(axes, config) for config in configs)))
    return list(points)[: MAX_SEEDS + 1]


def _counts(reasons: Counter[str]) -> str:
    return "; ".join(f"{count}× {reason}" for reason, count in reasons.most_common(5)) or "no reason known"
