"""How few measurements each search strategy needs, replayed on recorded or simulated spaces.

    python -m benchmarks.search SPACE… --runs 30 --sampler default --sampler tpe --plot search.svg

A space is a file (of `autotune gemm … --record`, a CSV table, a Kernel Tuner cache) or `simulated:NAME`;
NAME is one of those in benchmarks/simulated.py, and `simulated:all` is all of them. No search knows anything
of its space. Told is, after N different measurements, how near the fastest one found is to the fastest of
all: 1.0 is the optimum. A failed config counts as a measurement.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from autotune.cli_search import SAMPLER_NAMES
from autotune.console import say
from autotune.console_reports import Replayed, replayed
from autotune.recorded import Recorded, load
from autotune.replay import Curve, Summary, replay, summaries
from benchmarks.simulated import NAMES, simulated

PREFIX = "simulated:"


def opened(name: str) -> list[Recorded]:
    """The recorded spaces that an argument names."""
    if not name.startswith(PREFIX):
        return [load(Path(name))]
    wanted = name.removeprefix(PREFIX)
    return [Recorded(one, *simulated(one)) for one in (NAMES if wanted == "all" else (wanted,))]


def mean(of: list[list[Summary]]) -> list[Summary]:
    """The mean of several spaces' summaries, budget by budget."""
    return [
        Summary(
            same[0].budget, float(np.mean([s.median for s in same])), float(np.mean([s.low for s in same]))
        )
        for same in zip(*of, strict=True)
    ]


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise click.ClickException("a plot needs matplotlib: pip install 'wgsl-autotune[plots]'") from error
    return pyplot


def draw(title: str, curves: Mapping[str, list[list[Curve]]], trials: int, path: Path) -> None:
    """A line a sampler: the median over its runs, as a mean over the spaces."""
    figure, axes = _pyplot().subplots(figsize=(9, 5), layout="constrained")
    measured = range(4, trials + 1)
    for name, of_spaces in curves.items():
        medians = [[np.median([curve.at(n) for curve in ran]) for n in measured] for ran in of_spaces]
        axes.plot(measured, np.mean(medians, axis=0), label=name)
    axes.set_xscale("log", base=2)
    axes.set_ylim(0.5, 1.0)
    axes.set_xlabel("different measurements")
    axes.set_ylabel("share of the optimum")
    axes.set_title(title, loc="left")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


@click.command(help=__doc__)
@click.argument("spaces", nargs=-1, required=True)
@click.option("--runs", default=30, show_default=True, help="Runs of each sampler, with seeds 0, 1, 2 …")
@click.option("--trials", default=200, show_default=True, help="Measurements of each run.")
@click.option(
    "--sampler",
    "samplers",
    type=click.Choice(SAMPLER_NAMES),
    multiple=True,
    help="Only these (default: all).",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it: a name in .svg or .png."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures as JSON.")
def main(
    spaces: tuple[str, ...],
    runs: int,
    trials: int,
    samplers: tuple[str, ...],
    plot: Path | None,
    out: Path | None,
) -> None:
    """Replay the strategies and print a table a space, and the means."""
    if plot is not None:
        _pyplot()  # before minutes of searching
    chosen = samplers or tuple(name for name in SAMPLER_NAMES if name != "exhaustive")
    curves: dict[str, list[list[Curve]]] = {name: [] for name in chosen}
    figures: dict[str, dict[str, list[Summary]]] = {}
    for recorded in (one for name in spaces for one in opened(name)):
        rows = []
        for name in chosen:
            ran = [replay(recorded, name, seed=seed, trials=trials) for seed in range(runs)]
            curves[name].append(ran)
            cost = float(np.median([curve.seconds_asking for curve in ran]))
            rows.append(Replayed(name, summaries(ran, trials), cost))
        figures[recorded.name] = {row.sampler: row.summaries for row in rows}
        replayed(recorded.name, recorded.space, rows)
    if len(figures) > 1:
        say(f"mean over {len(figures)} spaces")
        for name in chosen:
            means = mean([of_space[name] for of_space in figures.values()])
            say(f"  {name:12}" + "".join(f"{f'{m.median:.3f} ({m.low:.3f})':>16}" for m in means))
    if plot is not None:
        title = f"{len(figures)} spaces" if len(figures) > 1 else next(iter(figures))
        draw(f"{title}, {runs} runs of each sampler", curves, trials, plot)
    if out is not None:
        told = {
            space: {
                name: [
                    {"measurements": s.budget, "median": round(s.median, 4), "p10": round(s.low, 4)}
                    for s in of
                ]
                for name, of in by_sampler.items()
            }
            for space, by_sampler in figures.items()
        }
        out.write_text(json.dumps({"runs": runs, "spaces": told}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
