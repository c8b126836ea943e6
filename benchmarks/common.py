"""What the benchmarks of kernel families share: timing ours in turns, setting it beside peers, options."""

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from ceiling import Ceiling, ceiling
from peers import Peer
from tables import means, peaks_line, table

from autotune import limits, measure, paths, verify
from autotune.kernels import family_of
from autotune.levels import find
from autotune.model import Problem
from autotune.runtime import DEFAULT_RUNTIME, RUNTIMES
from autotune.runtime.process import WorkerRuntime
from autotune.tuner import tune


def ours(
    problem: Problem, runtime: WorkerRuntime, cache_dir: Path | None, seconds: float, budget: float
) -> dict[str, Any]:
    """Seconds of the tuned winner, the portable default (both ways of giving sizes) and the naive kernel.

    `seconds` bounds the search, `budget` the comparison. The naive kernel is left out where the device does
    not hold what it needs. The runtime is closed before a peer may run: it keeps the GPU busy otherwise.
    """
    family = family_of(problem)
    try:
        answer = find(family, problem, runtime.profile, user_root=paths.user_cache_dir(cache_dir))
        config, spent = answer.config, 0.0
        if not answer.fresh:
            start = time.perf_counter()
            config = tune(problem, time_limit=seconds, cache_dir=cache_dir, runtime=runtime).config
            spent = time.perf_counter() - start
        default = family.default(problem, runtime.profile)
        naive = family.baseline(problem, runtime.profile)
        kinds = {
            "tuned": (config, False),
            "tuned, sizes baked in": (config, True),
            "default": (default, False),
            "default, sizes baked in": (default, True),
            "naive": (naive, False),
        }
        if next(limits.refusals(family.resources(problem, naive), runtime.profile), None) is not None:
            del kinds["naive"]
        plans = {
            name: family.plan(problem, chosen, specialize=baked) for name, (chosen, baked) in kinds.items()
        }
        check = verify.prepare(family, problem, plans["tuned"], runtime.profile, seed=0)
        runtime.load(check.contents)
        timers, estimates = [], []
        for name, plan in plans.items():
            handle = runtime.compile(plan)
            wrong = check.complaint(runtime.run(handle))
            if wrong is not None:
                raise SystemExit(f"{name} of {family.label(problem)} is wrong: {wrong}")
            timers.append(lambda batch, samples, handle=handle: runtime.time(handle, batch, samples))
            estimates.append(runtime.time(handle, 1, 1)[0][0])
        measured = measure.interleave(timers, estimates, seed=0, budget=budget)
        return {
            "problem": msgspec.to_builtins(problem),
            "label": family.label(problem),
            "device": msgspec.to_builtins(runtime.profile),
            "config": msgspec.to_builtins(config),
            "tuning_seconds": round(spent, 1),
            "flops": family.flops(problem),
            "seconds": {name: m.seconds for name, m in zip(plans, measured, strict=True) if m is not None},
        }
    finally:
        runtime.close()


def run_peers(others: Mapping[str, Peer], problem: Problem, label: str) -> dict[str, float]:
    """Seconds of each peer. A shape that a peer refuses is a fact, not a failure of ours."""
    found = {}
    for name, peer in others.items():
        try:
            found[name] = peer(problem)
        except Exception as error:
            click.echo(f"{name} on {label}: {error}", err=True)
    return found


def compare(
    problems: Sequence[Problem],
    others: Mapping[str, Peer],
    traffic: Callable[[Any], int],
    *,
    dtype: str,
    multiplied: Sequence[str],
    adapter: str | None,
    runtime: str,
    cache_dir: Path | None,
    tune_seconds: float,
    compare_seconds: float,
    out: Path | None,
    stand_in: Callable[[Any], Problem] = lambda problem: problem,
) -> list[dict[str, Any]]:
    """Time each problem beside the peers, write the rows as they come, and print the table and the means.

    `traffic` gives the bytes that have to move once at least; of the peaks that `multiplied` names the first
    that the device has counts; `stand_in` gives what a peer is asked for.
    """
    opened = partial(WorkerRuntime, adapter, runtime=runtime)
    peaks = ceiling(opened)
    products = next((kind for kind in multiplied if kind in peaks.flops), multiplied[-1])
    rows: list[dict[str, Any]] = []
    for problem in problems:
        row = ours(problem, opened(), cache_dir, tune_seconds, compare_seconds) | {"bytes": traffic(problem)}
        row["seconds"] |= run_peers(others, stand_in(problem), row["label"])
        rows.append(row)
        click.echo(table([row], list(others), products, peaks).splitlines()[-1], err=True)
        if out is not None:
            _write(out, dtype, peaks, rows)
    click.echo(table(rows, list(others), products, peaks))
    click.echo(f"\n{peaks_line(peaks)}\n")
    click.echo(means(rows, list(others)))
    return rows


def _write(out: Path, dtype: str, peaks: Ceiling, rows: list[dict[str, Any]]) -> None:
    machine = {
        "python": platform.python_version(),
        "system": platform.system(),
        "date": time.strftime("%Y-%m-%d"),
    }
    result = {"machine": machine, "dtype": dtype, "ceiling": msgspec.to_builtins(peaks), "rows": rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that these benchmarks have in common."""
    for option in (
        click.option(
            "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JSON."
        ),
        click.option(
            "--tune-seconds", type=float, default=30.0, show_default=True, help="Search time a shape."
        ),
        click.option(
            "--compare-seconds", type=float, default=4.0, show_default=True, help="Timing in turns, a shape."
        ),
        click.option("--cache-dir", type=click.Path(file_okay=False, path_type=Path)),
        click.option("--adapter", help="As in `autotune gemm --adapter`."),
        click.option(
            "--runtime", type=click.Choice(list(RUNTIMES)), default=DEFAULT_RUNTIME, show_default=True
        ),
    ):
        command = option(command)
    return command
