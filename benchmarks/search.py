"""How few measurements the search needs, replayed on a recorded space instead of a GPU.

    python -m benchmarks.search SPACE.csv.gz --runs 30

The file has one column a parameter and a last one, `time_ms`, for every legal config of a kernel.
Each strategy starts with no knowledge of the space. Told is, after N different measurements, how near
the fastest one found is to the fastest of all: 1.0 is the optimum.
"""

import csv
import gzip
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import click
import numpy as np
import optuna

from autotune.search import Search
from autotune.space import Axis, Point, Space

BUDGETS = (25, 50, 100, 200)
VARIANT = "recorded"
ASKS = 5 * BUDGETS[-1]
"""After so many asks a strategy that repeats itself has stalled."""

Times = dict[Point, float]
Strategy = Callable[[Space, Times, int], Iterator[Point]]
"""From the space, its times and a seed to the points in the order in which they are measured."""


def load(path: Path) -> tuple[Space, Times]:
    """Read a recorded space: a CSV file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    columns = list(zip(*rows, strict=True))[:-1]
    axes = tuple(
        Axis(name, tuple(sorted({int(value) for value in column})))
        for name, column in zip(header, columns, strict=False)
    )
    index = [{str(value): position for position, value in enumerate(axis.values)} for axis in axes]
    times = {}
    for *values, milliseconds in rows:
        indices = tuple(codes[value] for codes, value in zip(index, values, strict=True))
        times[(VARIANT, indices)] = float(milliseconds) / 1e3
    return Space({VARIANT: axes}, times), times


def at_random(space: Space, times: Times, seed: int) -> Iterator[Point]:
    """Legal points in random order."""
    for row in np.random.default_rng(seed).permutation(len(times)):
        yield space.points[row]


def optuna_tpe(space: Space, times: Times, seed: int) -> Iterator[Point]:
    """Optuna's TPE; a repeat is told again but costs nothing, an illegal point is told as failed."""
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True))
    seen: set[Point] = set()
    axes = space.axes[VARIANT]
    for _ in range(ASKS):
        trial = study.ask()
        indices = (trial.suggest_int(axis.name, 0, len(axis.values) - 1) for axis in axes)
        point = VARIANT, tuple(indices)
        if point not in times:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        study.tell(trial, times[point])
        if point not in seen:
            seen.add(point)
            yield point


def ours(space: Space, times: Times, seed: int) -> Iterator[Point]:
    """The search of this package, without seeds."""
    search = Search(space, seed=seed)
    while (point := search.ask()) is not None:
        yield point
        search.tell(point, times[point])


STRATEGIES: dict[str, Strategy] = {"random": at_random, "Optuna TPE": optuna_tpe, "ours": ours}


def progress(strategy: Strategy, space: Space, times: Times, seed: int) -> list[float]:
    """The fraction of the optimum after each budget; a run that stalls keeps its last best."""
    taken = [times[point] for point in islice(strategy(space, times, seed), BUDGETS[-1])]
    optimum = min(times.values())
    return [optimum / min(taken[:budget]) for budget in BUDGETS]


@click.command(help=__doc__)
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--runs", default=30, show_default=True, help="Runs of each strategy, with seeds 0, 1, 2 …")
@click.option("--only", type=click.Choice(list(STRATEGIES)), multiple=True, help="Run only these strategies.")
def main(path: Path, runs: int, only: tuple[str, ...]) -> None:
    """Replay the strategies and print a table."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, times = load(path)
    click.echo(f"{path.name}: {len(space)} configs; fraction of the optimum, median (10th percentile)")
    click.echo(f"{'measurements':14}" + "".join(f"{budget:>16}" for budget in BUDGETS) + f"{'ms each':>10}")
    for name in only or STRATEGIES:
        start = time.perf_counter()
        found = np.array([progress(STRATEGIES[name], space, times, seed) for seed in range(runs)])
        cost = (time.perf_counter() - start) / (runs * BUDGETS[-1]) * 1e3
        cells = [f"{np.median(column):.3f} ({np.percentile(column, 10):.3f})" for column in found.T]
        click.echo(f"{name:14}" + "".join(f"{cell:>16}" for cell in cells) + f"{cost:>10.1f}")


if __name__ == "__main__":
    main()
