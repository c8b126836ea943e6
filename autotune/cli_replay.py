"""The `replay` command: searches on a recorded space, with no GPU."""

from pathlib import Path

import click

from autotune.cli_options import json_option
from autotune.cli_search import SAMPLER_NAMES


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--sampler",
    "samplers",
    type=click.Choice(SAMPLER_NAMES),
    multiple=True,
    default=("default",),
    show_default=True,
    help="Which to replay; may be given several times.",
)
@click.option(
    "--trials", type=click.IntRange(min=1), default=100, show_default=True, help="Configs a search."
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Searches, with seeds 0, 1, 2 …",
)
@json_option
def replay(file: Path, samplers: tuple[str, ...], trials: int, seeds: int, as_json: bool) -> None:
    """Replay searches on a recorded space: one of `--record`, a CSV table, or a Kernel Tuner cache.

    Told is how near the fastest config found after so many measurements is to the fastest of all, as the
    median and the 10th percentile over the seeds.
    """
    from autotune import console, console_reports, recorded
    from autotune import replay as player

    space = recorded.load(file)
    told = []
    for name in dict.fromkeys(samplers):
        curves = [player.replay(space, name, seed=seed, trials=trials) for seed in range(seeds)]
        cost = sum(curve.seconds_asking for curve in curves) / len(curves)
        told.append(console_reports.Replayed(name, player.summaries(curves, trials), cost))
    if as_json:
        console.data({"file": space.name, "configs": len(space.space), "samplers": told})
    else:
        console_reports.replayed(space.name, space.space, told)
