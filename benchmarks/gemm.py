"""GEMM beside its peers, on one device in one run: times, rates, and ratios.

    python benchmarks/gemm.py --out benchmarks/results/gemm-h200.json

For each shape it tunes (or takes the cached winner), then times, interleaved, the winner and the
portable default, each with sizes at run time and baked in, and the naive kernel; then each peer that
can be imported:

* cuBLAS through PyTorch, float32 without TF32, replayed from a CUDA graph;
* ONNX Runtime's WebGPU provider, from the difference between two chains of equal MatMul nodes.
"""

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from autotune import console, measure, paths, verify
from autotune.kernels import KERNELS
from autotune.kernels.gemm import GemmProblem
from autotune.levels import find
from autotune.model import Config
from autotune.results import TuneResult
from autotune.runtime.process import WorkerRuntime
from autotune.tuner import tune

SQUARE = (256, 512, 1024, 2048, 4096)
SUITE: list[tuple[int, ...]] = [(size, size, size) for size in SQUARE] + [
    (8192, 8192, 8192),
    (1, 4096, 4096),
    (1, 14336, 4096),
    (8, 4096, 4096),
    (32, 4096, 4096),
    (128, 4096, 4096),
    (512, 14336, 4096),
    (2048, 4096, 4096),
    (64, 64, 65536),
    (1000, 1000, 1000),
    (1023, 1025, 1027),
    (32, 512, 512, 64),
]
"""M, N, K; with four numbers the first is the batch."""
FAMILY = KERNELS["gemm"]


def ours(problem: GemmProblem, adapter: str | None, cache_dir: Path | None, seconds: float) -> dict[str, Any]:
    """Seconds of the tuned winner, the portable default (both ways of giving sizes) and the naive kernel."""
    runtime = WorkerRuntime(adapter)
    try:
        root = paths.user_cache_dir(cache_dir)
        answer = find(FAMILY, problem, runtime.profile, user_root=root)
        spent = 0.0
        if not answer.fresh:
            start = time.perf_counter()
            result: TuneResult = tune(problem, time_limit=seconds, cache_dir=cache_dir, runtime=runtime)
            spent = time.perf_counter() - start
            config: Config = result.config
        else:
            config = answer.config
        default = FAMILY.default(problem, runtime.profile)
        kinds = {
            "tuned": (config, False),
            "tuned, sizes baked in": (config, True),
            "default": (default, False),
            "naive": (FAMILY.baseline(problem, runtime.profile), False),
        }
        plans = {
            name: FAMILY.plan(problem, chosen, specialize=baked) for name, (chosen, baked) in kinds.items()
        }
        check = verify.prepare(FAMILY, problem, plans["tuned"], runtime.profile, seed=0)
        runtime.load(check.contents)
        timers, estimates = [], []
        for name, plan in plans.items():
            handle = runtime.compile(plan)
            wrong = check.complaint(runtime.run(handle))
            if wrong is not None:
                raise SystemExit(f"{name} of {FAMILY.label(problem)} is wrong: {wrong}")
            timers.append(lambda batch, samples, handle=handle: runtime.time(handle, batch, samples))
            estimates.append(runtime.time(handle, 1, 1)[0][0])
        measured = measure.interleave(timers, estimates, seed=0, budget=4.0)
        times = {name: m.seconds for name, m in zip(plans, measured, strict=True) if m is not None}
        return {
            "device": msgspec.to_builtins(runtime.profile),
            "config": msgspec.to_builtins(config),
            "tuning_seconds": round(spent, 1),
            "seconds": times,
        }
    finally:
        runtime.close()  # before a peer runs: the worker keeps the GPU busy between requests


def cublas() -> Callable[[GemmProblem], float]:
    """PyTorch's matmul. Raises ImportError or RuntimeError where there is no CUDA."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False

    def seconds(problem: GemmProblem) -> float:
        kind = torch.float16 if problem.dtype == "f16" else torch.float32
        batch = () if problem.batch == 1 else (problem.batch,)
        a = torch.rand(*batch, problem.m, problem.k, device="cuda").to(kind) - 0.5
        b = torch.rand(*batch, problem.k, problem.n, device="cuda").to(kind) - 0.5
        c = torch.empty(*batch, problem.m, problem.n, device="cuda", dtype=kind)
        start = time.perf_counter()
        while time.perf_counter() - start < 0.7:  # brings the clocks up
            torch.matmul(a, b, out=c)
            torch.cuda.synchronize()
        count = max(3, min(50, int(2e13 * 5e-3 / FAMILY.flops(problem))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                torch.matmul(a, b, out=c)
        readings = []
        for _ in range(15):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            readings.append(begin.elapsed_time(end) * 1e-3 / count)
        return statistics.median(readings)

    return seconds


def onnxruntime() -> Callable[[GemmProblem], float]:
    """ONNX Runtime WebGPU's MatMul. Raises ImportError where it is not installed."""
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    if "WebGpuExecutionProvider" not in ort.get_available_providers():
        raise RuntimeError("this onnxruntime has no WebGPU provider")
    options = ort.SessionOptions()
    options.log_severity_level = 3

    def chain_seconds(problem: GemmProblem, links: int) -> float:
        """The best of several runs of `links` pairs x·W0·W1, which keep the shapes M×K → M×N → M×K."""
        kind = np.float16 if problem.dtype == "f16" else np.float32
        element = TensorProto.FLOAT16 if problem.dtype == "f16" else TensorProto.FLOAT
        generator = np.random.default_rng(0)
        batch = () if problem.batch == 1 else (problem.batch,)
        weights = {
            "W0": (generator.standard_normal((*batch, problem.k, problem.n)) / problem.k**0.5).astype(kind),
            "W1": (generator.standard_normal((*batch, problem.n, problem.k)) / problem.n**0.5).astype(kind),
        }
        x = generator.standard_normal((*batch, problem.m, problem.k)).astype(kind)
        nodes, last = [], "x"
        for i in range(2 * links):
            nodes.append(helper.make_node("MatMul", [last, f"W{i % 2}"], [f"y{i}"]))
            last = f"y{i}"
        nodes.append(helper.make_node("ReduceMean", [last], ["o"], keepdims=0))
        graph = helper.make_graph(
            nodes,
            "chain",
            [helper.make_tensor_value_info("x", element, x.shape)],
            [helper.make_tensor_value_info("o", element, [])],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["WebGpuExecutionProvider"]
        )
        start = time.perf_counter()
        while time.perf_counter() - start < 0.7:
            session.run(None, {"x": x})
        readings = []
        for _ in range(9):
            start = time.perf_counter()
            session.run(None, {"x": x})
            readings.append(time.perf_counter() - start)
        return min(readings)

    def seconds(problem: GemmProblem) -> float:
        extra = int(max(6, min(200, 1.5e12 / FAMILY.flops(problem) / 2)))
        return (chain_seconds(problem, 1 + extra) - chain_seconds(problem, 1)) / extra / 2

    return seconds


PEERS = {"cuBLAS": cublas, "ORT WebGPU": onnxruntime}


def peers() -> dict[str, Callable[[GemmProblem], float]]:
    """The peers that can run here; says which cannot, and why."""
    found = {}
    for name, make in PEERS.items():
        try:
            found[name] = make()
        except (ImportError, RuntimeError) as error:
            click.echo(f"without {name}: {error}", err=True)
    return found


def table(rows: list[dict[str, Any]], names: list[str]) -> str:
    """A Markdown table: rates in TFLOP/s, and ours over each peer."""
    kinds = ["tuned", "tuned, sizes baked in", "default", "naive"]
    ratios = [f"tuned / {name}" for name in names]
    lines = ["| " + " | ".join(["shape", "time", *kinds, *names, *ratios]) + " |"]
    lines.append("|" + "---|" * (2 + len(kinds) + 2 * len(names)))
    for row in rows:
        problem = GemmProblem(**row["problem"])
        times = row["seconds"]
        cells = [FAMILY.label(problem), console.seconds(times["tuned"])]
        cells += [
            f"{FAMILY.flops(problem) / times[kind] / 1e12:.2f}" if kind in times else ""
            for kind in [*kinds, *names]
        ]
        cells += [f"{times[name] / times['tuned']:.2f}" if name in times else "" for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


@click.command()
@click.option("--shapes", help="Comma-separated MxNxK, BxMxNxK or single sizes; default: the whole suite.")
@click.option("--dtype", type=click.Choice(["f32", "f16"]), default="f32", show_default=True)
@click.option("--adapter", help="As in `autotune gemm --adapter`.")
@click.option("--cache-dir", type=click.Path(file_okay=False, path_type=Path))
@click.option("--tune-seconds", type=float, default=30.0, show_default=True, help="Search time a shape.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JSON.")
def main(
    shapes: str | None,
    dtype: str,
    adapter: str | None,
    cache_dir: Path | None,
    tune_seconds: float,
    out: Path | None,
) -> None:
    """Time GEMM beside its peers."""
    wanted: list[tuple[int, ...]] = SUITE
    if shapes is not None:
        parsed = [tuple(map(int, shape.split("x"))) for shape in shapes.split(",")]
        wanted = [shape * 3 if len(shape) == 1 else shape for shape in parsed]
    others = peers()
    rows = []
    for *batch, m, n, k in wanted:
        problem = GemmProblem(m=m, n=n, k=k, batch=batch[0] if batch else 1, dtype=dtype)  # type: ignore[arg-type]
        row = {"problem": msgspec.to_builtins(problem), **ours(problem, adapter, cache_dir, tune_seconds)}
        for name, peer in others.items():
            try:
                row["seconds"][name] = peer(problem)
            except Exception as error:  # a shape that a peer refuses is a fact, not a failure of ours
                click.echo(f"{name} on {FAMILY.label(problem)}: {error}", err=True)
        rows.append(row)
        click.echo(table([row], list(others)).splitlines()[-1], err=True)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            machine = {
                "python": platform.python_version(),
                "system": platform.system(),
                "date": time.strftime("%Y-%m-%d"),
            }
            out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    click.echo(table(rows, list(others)))
    for name in others:
        ratios = [row["seconds"][name] / row["seconds"]["tuned"] for row in rows if name in row["seconds"]]
        click.echo(
            f"geometric mean of tuned / {name}, {len(ratios)} shapes: {statistics.geometric_mean(ratios):.2f}"
        )
    defaults = [row["seconds"]["tuned"] / row["seconds"]["default"] for row in rows]
    click.echo(f"geometric mean of default / tuned: {statistics.geometric_mean(defaults):.2f}")


if __name__ == "__main__":
    main()
