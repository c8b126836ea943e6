"""Suites: many problems in one go, in an order in which each one's winner is a good start for the next."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from autotune import levels, paths
from autotune.errors import AutotuneError, InvalidProblem, TuningFailed
from autotune.files import UnreadableError, read_regular
from autotune.kernels import KERNELS, family_of
from autotune.kernels.base import Family, Option
from autotune.levels import Answer
from autotune.model import Problem
from autotune.results import EARLY, Observer, Options, TuneResult
from autotune.runtime.base import Runtime
from autotune.tuner import tune


class Outcome(Struct, frozen=True):
    """What came of one problem: a tuning, an answer that was there already, or why there is none."""

    problem: Problem
    result: TuneResult | None = None
    answer: Answer | None = None
    error: str | None = None


def read(path: Path) -> list[Problem]:
    """The problems of a TOML file: an array of tables `problem`, each a `kernel` and its options by name.

    Raises AutotuneError, and InvalidProblem that names the place, where the file or one of them is wrong.
    """
    try:
        raw = read_regular(path)
        if raw is None:
            raise AutotuneError(f"there is no suite {path}")
        content = tomllib.loads(raw.decode("utf-8-sig"))
    except UnreadableError as error:
        raise AutotuneError(f"the suite {path} {error}") from error
    except (ValueError, RecursionError) as error:
        raise AutotuneError(f"cannot read the suite {path}: {error}") from error
    tables = content.pop("problem", None)
    if not isinstance(tables, list) or not tables or content:
        raise AutotuneError(f"{path}: a suite is a list of [[problem]] tables and nothing else")
    problems = []
    for number, table in enumerate(tables, start=1):
        try:
            problems.append(_problem(table))
        except InvalidProblem as error:
            raise InvalidProblem(f"{path}: [[problem]] number {number}: {error}") from error
    return list(dict.fromkeys(problems))


def _problem(table: Any) -> Problem:
    if not isinstance(table, dict):
        raise InvalidProblem(f"it must be a table of a kernel and its options, not {table!r}")
    values = {name.replace("-", "_"): value for name, value in table.items()}
    if len(values) < len(table):
        twice = next(name for name in table if "-" in name and name.replace("-", "_") in table)
        raise InvalidProblem(f"{twice} is given twice, with - and with _")
    kernel = values.pop("kernel", None)
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise InvalidProblem(f"kernel must be one of {', '.join(KERNELS)}, not {kernel!r}")
    family: Family = KERNELS[kernel]
    known = {option.name: option for option in family.options}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise InvalidProblem(f"{kernel} has no option {unknown[0]!r}; it has {', '.join(known)}")
    for name, value in values.items():
        _check(known[name], value)
    problem = family.problem_from_options(
        {option.name: values.get(option.name, option.default) for option in family.options}
    )
    family.check_problem(problem)
    return problem


def _check(option: Option, value: Any) -> None:
    if isinstance(option.kind, tuple):
        if value not in option.kind:
            raise InvalidProblem(f"{option.name} must be one of {', '.join(option.kind)}, not {value!r}")
    elif option.kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidProblem(f"{option.name} must be a number, not {value!r}")
    elif type(value) is not option.kind:
        raise InvalidProblem(f"{option.name} must be of type {option.kind.__name__}, not {value!r}")


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    """The problems family by family; the one nearest to all others first, then always the one nearest to any
    that is done (the order in which Prim's algorithm joins a spanning tree)."""
    chain: list[Problem] = []
    by_family: dict[str, list[Problem]] = {}
    for problem in problems:
        by_family.setdefault(family_of(problem).name, []).append(problem)
    for name, left in by_family.items():
        distance = KERNELS[name].distance
        done: list[Problem] = []
        while left:
            to = done or left
            whole = min if done else sum
            reach = [whole([_bounded(distance(problem, other)) for other in to]) for problem in left]
            done.append(left.pop(reach.index(min(reach))))
        chain += done
    return chain


def _bounded(distance: float) -> float:
    """So that problems that never answer for each other still have an order."""
    return min(distance, 100.0)


def run(
    problems: Sequence[Problem],
    runtime: Runtime,
    *,
    options: Options,
    cache_dir: Path | None = None,
    adapter: str | None = None,
    trials: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    force: bool = False,
    observer: Callable[[int, Problem], Observer],
) -> Iterator[Outcome]:
    """Tune the problems in turn; those that have a fresh answer on this device need none, unless forced.

    A problem that fails does not end the suite; an interruption or a lost device does.
    """
    root = paths.user_cache_dir(cache_dir)
    for number, problem in enumerate(problems):
        family = family_of(problem)
        if not force:
            with suppress(AutotuneError):
                answer = levels.find(family, problem, runtime.profile, user_root=root)
                if answer.fresh:
                    yield Outcome(problem, answer=answer)
                    continue
        try:
            result = tune(
                problem,
                trials=trials,
                time_limit=time_limit,
                seed=seed,
                adapter=adapter,
                cache_dir=cache_dir,
                retry=force,
                runtime=runtime,
                observe=observer(number, problem),
                options=options,
            )
        except TuningFailed as error:
            yield Outcome(problem, error=" ".join(str(error).split()))
            continue
        yield Outcome(problem, result=result)
        if result.ended in EARLY:
            return
