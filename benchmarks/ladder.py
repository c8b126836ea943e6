"""The way from the naive GEMM to the tuned one, a step at a time, on the adapter at hand.

    python benchmarks/ladder.py --size 4096 --plot ladder.svg

Each rung changes one thing of the rung before. All are proved right and timed in turns; what a device
cannot run is left out, with the reason. The last rung is the best config known (`autotune gemm` finds it).
"""

from pathlib import Path
from typing import Any

import click
from msgspec import structs

from autotune import console, limits, measure, verify
from autotune.kernels import KERNELS
from autotune.kernels.gemm import Blocked, GemmConfig, GemmProblem, Naive, Tiled
from autotune.levels import find
from autotune.runtime.process import WorkerRuntime

FAMILY = KERNELS["gemm"]

REGISTER_BLOCKS = Blocked(
    tile_m=64,
    tile_n=64,
    tile_k=16,
    thread_m=4,
    thread_n=4,
    lanes_n=16,
    vector=1,
    strips=False,
    k_major_a=False,
    banks="plain",
    commit_k=0,
    buffering="single",
    unroll_k=4,
    group_m=1,
    order="rows",
    staged="storage",
)


def rungs() -> dict[str, GemmConfig]:
    """The steps in order, by what each adds."""
    vec4 = structs.replace(REGISTER_BLOCKS, vector=4)
    k_major = structs.replace(vec4, k_major_a=True)
    strips = structs.replace(k_major, strips=True, lanes_n=8)
    unrolled = structs.replace(strips, unroll_k=16)
    wider = structs.replace(unrolled, thread_m=8, thread_n=8)
    double = structs.replace(wider, buffering="double")
    grouped = structs.replace(double, group_m=8)
    return {
        "naive: one invocation an element": Naive(workgroup_x=16, workgroup_y=16),
        "tiled: 16×16 tiles in workgroup memory": Tiled(tile=16),
        "register blocks of 4×4": REGISTER_BLOCKS,
        "vec4 loads and stores": vec4,
        "A's tile stored k-major": k_major,
        "vec4s of an invocation in strips": strips,
        "K steps written out": unrolled,
        "register blocks of 8×8": wider,
        "double buffering": double,
        "tiles walked in groups": grouped,
        "256×128 tiles, blocks of 16×8": structs.replace(
            grouped, tile_m=256, tile_n=128, thread_m=16, thread_n=8
        ),
    }


@click.command()
@click.option("--size", type=click.IntRange(min=64), default=1024, show_default=True, help="A multiple of 4.")
@click.option("--adapter", help="As in `autotune gemm --adapter`.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it: a name in .svg or .png."
)
def main(size: int, adapter: str | None, plot: Path | None) -> None:
    """Time every rung of the ladder."""
    if plot is not None:
        _pyplot()  # before a minute of measuring
    problem = GemmProblem(m=size, n=size, k=size)
    runtime = WorkerRuntime(adapter)
    try:
        seconds = climb(runtime, problem)
    finally:
        runtime.close()
    title = f"{FAMILY.label(problem)} on {runtime.profile.name}"
    click.echo(f"{title}\n\n| step | time | rate | times naive |\n|---|---:|---:|---:|")
    naive = next(iter(seconds.values()))
    for name, time in seconds.items():
        rate = console.rate(FAMILY.flops(problem), time)
        click.echo(f"| {name} | {console.seconds(time)} | {rate} | {naive / time:.1f} |")
    if plot is not None:
        draw(title, {name: FAMILY.flops(problem) / time for name, time in seconds.items()}, plot)


def climb(runtime: WorkerRuntime, problem: GemmProblem) -> dict[str, float]:
    """Seconds of each rung that the device can run, proved right and timed in turns."""
    steps = rungs() | {"the best known config": find(FAMILY, problem, runtime.profile).config}
    plans = {name: FAMILY.plan(problem, config, specialize=False) for name, config in steps.items()}
    check = verify.prepare(FAMILY, problem, plans["vec4 loads and stores"], runtime.profile, seed=0)
    runtime.load(check.contents)
    timers, estimates, timed = [], [], []
    for name, plan in plans.items():
        refusal = next(limits.refusals(limits.needs(plan), runtime.profile), None)
        if refusal is not None:
            click.echo(f"left out: {name}: {refusal}", err=True)
            continue
        handle = runtime.compile(plan)
        wrong = check.complaint(runtime.run(handle))
        if wrong is not None:
            raise SystemExit(f"{name} is wrong: {wrong}")
        timers.append(lambda batch, samples, handle=handle: runtime.time(handle, batch, samples))
        estimates.append(runtime.time(handle, 1, 1)[0][0])
        timed.append(name)
    measured = measure.interleave(timers, estimates, seed=0, budget=20.0)
    return {name: found.seconds for name, found in zip(timed, measured, strict=True) if found is not None}


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise click.ClickException("a plot needs matplotlib: pip install 'wgsl-autotune[plots]'") from error
    return pyplot


def draw(title: str, rates: dict[str, float], path: Path) -> None:
    """A bar a rung, longer is faster, with its rate beside it."""
    pyplot = _pyplot()
    unit, name = (1e12, "TFLOP/s") if max(rates.values()) >= 1e12 else (1e9, "GFLOP/s")
    values = [rate / unit for rate in rates.values()]
    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(rates) + 1.2), layout="constrained")
    bars = axes.barh(list(rates), values, color="#3b6ea5")
    axes.bar_label(bars, labels=[f"{value:.3g}" for value in values], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel(name)
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    main()
