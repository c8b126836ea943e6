"""One candidate, from config to outcome: render, check limits, compile, verify, time.

Whatever goes wrong with it is a value, not an exception: a Rejection that says at which stage.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from autotune import limits, measure, verify
from autotune.errors import AutotuneError
from autotune.kernels.base import Family
from autotune.measure import Clocked, Effort, Timer
from autotune.model import Config, Measurement, Plan, Problem, Rejection, Role
from autotune.runtime.base import CandidateFailed, Runtime


class Bench:
    """Runs candidates for one problem on one runtime, whose buffers it fills."""

    def __init__(
        self, family: Family, problem: Problem, runtime: Runtime, *, seed: int, integers: bool = False
    ) -> None:
        self.family = family
        self.problem = problem
        self.runtime = runtime
        plan = family.plan(problem, family.default(problem, runtime.profile), specialize=False)
        try:
            check = verify.prepare(family, problem, plan, runtime.profile, seed=seed, integers=integers)
        except (KeyError, ValueError) as error:
            _check_names(family, problem, plan, seed)
            raise AutotuneError(f"{family.name}: its data does not fit its plan: {error}") from error
        if {*check.contents} != _names(plan, "input", "output"):
            _check_names(family, problem, plan, seed)
        self._check = check
        self._specialize = False
        runtime.load(self._check.contents)

    def baked(self) -> "Bench":
        """The same bench for the candidates' other text, with the sizes baked in."""
        other = copy.copy(self)
        other._specialize = True
        return other

    def beside(self, runtime: Runtime) -> "Bench":
        """The same bench on another runtime, which is given the data."""
        other = copy.copy(self)
        other.runtime = runtime
        runtime.load(self._check.contents)
        return other

    @property
    def data_bytes(self) -> int:
        """What the data buffers hold."""
        return sum(map(len, self._check.contents.values()))

    def evaluate(
        self, config: Config, best: float | None, effort: Effort = measure.SCREEN
    ) -> Measurement | Rejection:
        """Prove a candidate right and time it; `best` is the fastest time so far in seconds."""
        try:
            with _its_own_failures(), self._compiled(config) as handle:
                wrong = self._complaint(handle)
                if wrong is not None:
                    return Rejection(stage="verify", reason=wrong)
                return measure.measure(self._timer(handle), best, effort)
        except CandidateFailed as error:
            return Rejection(stage=error.stage, reason=error.reason)

    def complaint(self, config: Config) -> str | None:
        """What is wrong with a candidate's results, or with running it at all; None when right."""
        try:
            with _its_own_failures(), self._compiled(config) as handle:
                return self._complaint(handle)
        except CandidateFailed as error:
            return f"{error.stage}: {error.reason}"

    def interleave(
        self, trials: Sequence[tuple[Config, float]], *, seed: int, budget: float
    ) -> list[Measurement | None]:
        """Re-measure verified candidates in turns; None for one that fails this time.

        `trials` are configs with an estimate of their time in seconds.
        """
        handles: list[int | None] = []
        for config, _ in trials:
            try:
                with _its_own_failures():
                    handle = self.runtime.compile(self._plan(config))
                    handles.append(handle if self._complaint(handle) is None else None)
            except CandidateFailed:
                handles.append(None)
        alive = [index for index, handle in enumerate(handles) if handle is not None]
        results: list[Measurement | None] = [None] * len(trials)
        if alive:
            failed: set[int] = set()
            timers = [self._forgiving(self._timer(handles[index] or 0), index, failed) for index in alive]
            estimates = [trials[index][1] for index in alive]
            measured = measure.interleave(timers, estimates, seed=seed, budget=budget)
            for index, measurement in zip(alive, measured, strict=True):
                results[index] = None if index in failed else measurement
        for index in alive:
            self.runtime.drop(handles[index] or 0)
        return results

    def _plan(self, config: Config) -> Plan:
        try:
            plan = self.family.plan(self.problem, config, specialize=self._specialize)
        except AutotuneError as error:
            raise CandidateFailed("compile", str(error)) from error
        refusal = next(limits.refusals(limits.needs(plan), self.runtime.profile), None)
        if refusal is not None:
            raise CandidateFailed("limits", refusal)
        return plan

    @contextmanager
    def _compiled(self, config: Config) -> Iterator[int]:
        handle = self.runtime.compile(self._plan(config))
        try:
            yield handle
        finally:
            self.runtime.drop(handle)

    def _complaint(self, handle: int) -> str | None:
        return self._check.complaint(self.runtime.run(handle))

    def _timer(self, handle: int) -> Timer:
        def time(batch: int, samples: int) -> Clocked:
            return self.runtime.time(handle, batch, samples)

        return time

    @staticmethod
    def _forgiving(timer: Timer, index: int, failed: set[int]) -> Timer:
        """A finalist that fails now gives no more readings and is noted as failed."""

        def time(batch: int, samples: int) -> Clocked:
            if index in failed:
                return [], "gpu"
            try:
                with _its_own_failures():
                    return timer(batch, samples)
            except CandidateFailed:
                failed.add(index)
                return [], "gpu"

        return time


def _names(plan: Plan, *roles: Role) -> set[str]:
    return {buffer.name for buffer in plan.buffers if buffer.role in roles}


def _check_names(family: Family, problem: Problem, plan: Plan, seed: int) -> None:
    """Raise AutotuneError where a family's data and its plan speak of different buffers."""
    data = family.inputs(problem, seed, integers=True)
    wanted, possible = _names(plan, "input"), _names(plan, "input", "output")
    if not wanted <= {*data} <= possible:
        raise AutotuneError(
            f"{family.name}: inputs() gives {_list(data)}, "
            f"but the input buffers of its plan are {_list(wanted)}"
        )
    outputs = _names(plan, "output")
    with suppress(KeyError):  # a name that reference() itself looks up
        results = family.reference(problem, data)
        if {*results} != outputs:
            raise AutotuneError(
                f"{family.name}: reference() gives {_list(results)}, "
                f"but the output buffers of its plan are {_list(outputs)}"
            )


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


@contextmanager
def _its_own_failures() -> Iterator[None]:
    """Errors of a kind never seen become the candidate's: a single one must not end a search."""
    try:
        yield
    except AutotuneError:
        raise
    except Exception as error:
        raise CandidateFailed("run", f"{type(error).__name__}: {error}") from error
