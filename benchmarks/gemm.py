"""GEMM beside its peers, on one device in one run: times, rates, ratios, shares of the device's peaks.

    python benchmarks/gemm.py --dtype f32 --out benchmarks/results/gemm-f32.json

For each shape it tunes (or takes the cached winner), then times, interleaved, the winner and the
portable default, each with sizes at run time and baked in, and the naive kernel; then each peer that
can be imported (peers.py). First of all it measures the device's peaks (ceiling.py). For int8 and 4-bit
weights the peer is f16 in cuBLAS, which is what they stand in for.
"""

import json
import platform
import time
from pathlib import Path
from typing import Any

import click
import msgspec
from ceiling import Ceiling, ceiling
from peers import Peer, available
from tables import means, peaks_line, table

from autotune import measure, paths, verify
from autotune.kernels import family_of
from autotune.kernels.gemm import GemmProblem
from autotune.kernels.gemm_i8.problem import GemmI8Problem
from autotune.kernels.gemm_q4 import GemmQ4Problem
from autotune.levels import find
from autotune.model import Problem
from autotune.runtime.process import WorkerRuntime
from autotune.tuner import tune

Shape = tuple[int, ...]
"""M, N, K; with four numbers the first is the batch."""
SQUARE: list[Shape] = [(size, size, size) for size in (256, 512, 1024, 2048, 4096, 8192)]
LAYERS: list[Shape] = [
    (1, 4096, 4096),
    (1, 14336, 4096),
    (8, 4096, 4096),
    (32, 4096, 4096),
    (128, 4096, 4096),
    (512, 14336, 4096),
    (2048, 4096, 4096),
]
"""Layers of language models, from one token to many."""
ODD: list[Shape] = [(64, 64, 65536), (1000, 1000, 1000), (1023, 1025, 1027), (32, 512, 512, 64)]
SUITES: dict[str, list[Shape]] = {
    "f32": [*SQUARE, *LAYERS, *ODD],
    "f16": [*SQUARE, *LAYERS, *ODD],
    "i8": [*SQUARE[2:5], *LAYERS],
    "q4": [*LAYERS[:5], (512, 4096, 4096), *LAYERS[5:]],
}
PEERS = {
    "f32": ("cuBLAS", "ORT WebGPU"),
    "f16": ("cuBLAS", "ORT WebGPU"),
    "i8": ("cuBLAS",),
    "q4": ("cuBLAS",),
}


def problem_of(dtype: str, shape: Shape, *, transpose_b: bool) -> Problem:
    """What is asked of us for a shape."""
    *batch, m, n, k = shape
    if dtype == "i8":
        return GemmI8Problem(m=m, n=n, k=k)
    if dtype == "q4":
        return GemmQ4Problem(m=m, n=n, k=k)
    kind: Any = dtype
    return GemmProblem(m=m, n=n, k=k, batch=batch[0] if batch else 1, dtype=kind, transpose_b=transpose_b)


def peer_problem(problem: Any) -> GemmProblem:
    """What is asked of a peer in its place: the same, or f16 with the same sizes."""
    if isinstance(problem, GemmProblem):
        return problem
    return GemmProblem(m=problem.m, n=problem.n, k=problem.k, dtype="f16")


def ours(problem: Problem, adapter: str | None, cache_dir: Path | None, seconds: float) -> dict[str, Any]:
    """Seconds of the tuned winner, the portable default (both ways of giving sizes) and the naive kernel."""
    family = family_of(problem)
    runtime = WorkerRuntime(adapter)
    try:
        answer = find(family, problem, runtime.profile, user_root=paths.user_cache_dir(cache_dir))
        config, spent = answer.config, 0.0
        if not answer.fresh:
            start = time.perf_counter()
            config = tune(problem, time_limit=seconds, cache_dir=cache_dir, runtime=runtime).config
            spent = time.perf_counter() - start
        default = family.default(problem, runtime.profile)
        kinds = {
            "tuned": (config, False),
            "tuned, sizes baked in": (config, True),
            "default": (default, False),
            "default, sizes baked in": (default, True),
            "naive": (family.baseline(problem, runtime.profile), False),
        }
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
        measured = measure.interleave(timers, estimates, seed=0, budget=4.0)
        return {
            "label": family.label(problem),
            "device": msgspec.to_builtins(runtime.profile),
            "config": msgspec.to_builtins(config),
            "tuning_seconds": round(spent, 1),
            "flops": family.flops(problem),
            "bytes": _bytes(problem),
            "seconds": {name: m.seconds for name, m in zip(plans, measured, strict=True) if m is not None},
        }
    finally:
        runtime.close()  # before a peer runs: the worker keeps the GPU busy between requests


def _bytes(problem: Problem) -> int:
    """Bytes of the matrices of a problem: what has to be read and written once at least."""
    family = family_of(problem)
    return sum(family.resources(problem, family.baseline(problem, None))[0].binding_bytes)


def run_peers(others: dict[str, Peer], problem: Problem, label: str) -> dict[str, float]:
    """Seconds of each peer. A shape that a peer refuses is a fact, not a failure of ours."""
    found = {}
    for name, peer in others.items():
        try:
            found[name] = peer(peer_problem(problem))
        except Exception as error:
            click.echo(f"{name} on {label}: {error}", err=True)
    return found


def _parsed(shapes: str | None, dtype: str) -> list[Shape]:
    if shapes is None:
        return SUITES[dtype]
    parsed = [tuple(map(int, shape.split("x"))) for shape in shapes.split(",")]
    return [shape * 3 if len(shape) == 1 else shape for shape in parsed]


def _write(out: Path, dtype: str, peaks: Ceiling, rows: list[dict[str, Any]]) -> None:
    machine = {
        "python": platform.python_version(),
        "system": platform.system(),
        "date": time.strftime("%Y-%m-%d"),
    }
    result = {"machine": machine, "dtype": dtype, "ceiling": msgspec.to_builtins(peaks), "rows": rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


@click.command()
@click.option("--shapes", help="Comma-separated MxNxK, BxMxNxK or single sizes; default: the whole suite.")
@click.option("--dtype", type=click.Choice(list(SUITES)), default="f32", show_default=True)
@click.option("--transpose-b", is_flag=True, help="B stored N×K, as weights often are (f32, f16).")
@click.option("--adapter", help="As in `autotune gemm --adapter`.")
@click.option("--cache-dir", type=click.Path(file_okay=False, path_type=Path))
@click.option("--tune-seconds", type=float, default=30.0, show_default=True, help="Search time a shape.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JSON.")
def main(
    shapes: str | None,
    dtype: str,
    transpose_b: bool,
    adapter: str | None,
    cache_dir: Path | None,
    tune_seconds: float,
    out: Path | None,
) -> None:
    """Time GEMM beside its peers."""
    others = available(PEERS[dtype])
    peaks = ceiling(adapter)
    rows = []
    for shape in _parsed(shapes, dtype):
        problem = problem_of(dtype, shape, transpose_b=transpose_b)
        row = {"problem": msgspec.to_builtins(problem), **ours(problem, adapter, cache_dir, tune_seconds)}
        row["seconds"] |= run_peers(others, problem, row["label"])
        rows.append(row)
        click.echo(table([row], list(others), dtype, peaks).splitlines()[-1], err=True)
        if out is not None:
            _write(out, dtype, peaks, rows)
    click.echo(table(rows, list(others), dtype, peaks))
    click.echo(f"\n{peaks_line(peaks)}\n")
    click.echo(means(rows, list(others)))


if __name__ == "__main__":
    main()
