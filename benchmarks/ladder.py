"""The way from the naive GEMM to the tuned one, a step at a time, on the adapter at hand.

    python benchmarks/ladder.py --size 4096

Each rung changes one thing of the rung before. All are proved right and timed in turns; what a device
cannot run is left out, with the reason. The last rung is the best config known (`autotune gemm` finds it).
"""

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
    pad_a=0,
    buffering="single",
    unroll_k=4,
    group_m=1,
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
def main(size: int, adapter: str | None) -> None:
    """Time every rung of the ladder."""
    problem = GemmProblem(m=size, n=size, k=size)
    runtime = WorkerRuntime(adapter)
    try:
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
    finally:
        runtime.close()
    click.echo(f"{FAMILY.label(problem)} on {runtime.profile.name}\n")
    click.echo("| step | time | rate | times naive |\n|---|---:|---:|---:|")
    naive = measured[0]
    for name, result in zip(timed, measured, strict=True):
        if result is not None and naive is not None:
            rate = console.rate(FAMILY.flops(problem), result.seconds)
            faster = naive.seconds / result.seconds
            click.echo(f"| {name} | {console.seconds(result.seconds)} | {rate} | {faster:.1f} |")


if __name__ == "__main__":
    main()
