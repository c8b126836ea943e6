"""What the benchmarks of kernel families share: timing ours in turns, the peers' clocks, tables, options."""

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from autotune import console, limits, measure, paths, verify
from autotune.kernels.base import Family
from autotune.levels import find
from autotune.model import Config, Problem
from autotune.results import TuneResult
from autotune.runtime.process import WorkerRuntime
from autotune.tuner import tune

KINDS = ("tuned", "tuned, sizes baked in", "default", "naive")
Peer = Callable[[Any], float]
"""Seconds that a peer takes for a problem."""


def ours(
    family: Family, problem: Problem, adapter: str | None, cache_dir: Path | None, seconds: float
) -> dict[str, Any]:
    """Seconds of the tuned winner, the portable default (both ways of giving sizes) and the naive kernel.

    The naive kernel is left out where the device does not hold what it needs.
    """
    runtime = WorkerRuntime(adapter)
    try:
        root = paths.user_cache_dir(cache_dir)
        answer = find(family, problem, runtime.profile, user_root=root)
        spent = 0.0
        if not answer.fresh:
            start = time.perf_counter()
            result: TuneResult = tune(problem, time_limit=seconds, cache_dir=cache_dir, runtime=runtime)
            spent = time.perf_counter() - start
            config: Config = result.config
        else:
            config = answer.config
        default = family.default(problem, runtime.profile)
        naive = family.baseline(problem, runtime.profile)
        chosen = dict(
            zip(KINDS, ((config, False), (config, True), (default, False), (naive, False)), strict=True)
        )
        if next(limits.refusals(family.resources(problem, naive), runtime.profile), None) is not None:
            del chosen["naive"]
        plans = {name: family.plan(problem, one, specialize=baked) for name, (one, baked) in chosen.items()}
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
        times = {name: m.seconds for name, m in zip(plans, measured, strict=True) if m is not None}
        return {
            "device": msgspec.to_builtins(runtime.profile),
            "config": msgspec.to_builtins(config),
            "tuning_seconds": round(spent, 1),
            "seconds": times,
        }
    finally:
        runtime.close()  # before a peer runs: the worker keeps the GPU busy between requests


def torch_with_cuda() -> Any:
    """PyTorch without TF32. Raises ImportError or RuntimeError where there is no CUDA."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch


def graph_seconds(torch: Any, call: Callable[[], object], flops: float) -> float:
    """Seconds of a call that only launches kernels, replayed from a CUDA graph at the working clocks."""
    start = time.perf_counter()
    while time.perf_counter() - start < 0.7:  # brings the clocks up
        call()
        torch.cuda.synchronize()
    count = max(3, min(50, int(2e13 * 5e-3 / flops)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    readings = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        readings.append(begin.elapsed_time(end) * 1e-3 / count)
    return statistics.median(readings)


def onnxruntime_with_webgpu() -> Any:
    """ONNX Runtime. Raises ImportError where it is missing, RuntimeError without its WebGPU provider."""
    import onnx  # noqa: F401
    import onnxruntime as ort

    if "WebGpuExecutionProvider" not in ort.get_available_providers():
        raise RuntimeError("this onnxruntime has no WebGPU provider")
    return ort


def link_seconds(
    ort: Any,
    links: Callable[[int], tuple[Sequence[Any], str]],
    feeds: Mapping[str, Any],
    weights: Mapping[str, Any],
    flops: float,
) -> float:
    """Seconds of one link, from the difference between a chain of one and a chain of many: what a session
    costs besides cancels. `links` gives the nodes of a chain and the name of its last output."""
    extra = int(max(6, min(200, 1.5e12 / flops)))
    times = [_chain_seconds(ort, *links(count), feeds, weights) for count in (1, 1 + extra)]
    return (times[1] - times[0]) / extra


def _chain_seconds(
    ort: Any, nodes: Sequence[Any], last: str, feeds: Mapping[str, Any], weights: Mapping[str, Any]
) -> float:
    """The best of several runs of a graph, whose last output is averaged so that little travels back."""
    from onnx import helper, numpy_helper

    options = ort.SessionOptions()
    options.log_severity_level = 3
    element = helper.np_dtype_to_tensor_dtype(next(iter(feeds.values())).dtype)
    graph = helper.make_graph(
        [*nodes, helper.make_node("ReduceMean", [last], ["mean"], keepdims=0)],
        "chain",
        [helper.make_tensor_value_info(name, element, value.shape) for name, value in feeds.items()],
        [helper.make_tensor_value_info("mean", element, [])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains)
    model.ir_version = 9
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["WebGpuExecutionProvider"])
    start = time.perf_counter()
    while time.perf_counter() - start < 0.7:
        session.run(None, dict(feeds))
    readings = []
    for _ in range(9):
        start = time.perf_counter()
        session.run(None, dict(feeds))
        readings.append(time.perf_counter() - start)
    return min(readings)


def numpy_kind(dtype: str) -> Any:
    """The NumPy type of an element type."""
    return np.float16 if dtype == "f16" else np.float32


def peers(makers: Mapping[str, Callable[[], Peer]]) -> dict[str, Peer]:
    """The peers that can run here; says which cannot, and why."""
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except (ImportError, RuntimeError) as error:
            click.echo(f"without {name}: {error}", err=True)
    return found


def table(family: Family, rows: list[dict[str, Any]], names: list[str], traffic: bool = False) -> str:
    """A Markdown table: rates in TFLOP/s, and ours over each peer; with `traffic` also GB/s, from the field
    `bytes` of a row."""
    ratios = [f"tuned / {name}" for name in names]
    lines = [
        "| " + " | ".join(["shape", "time", *(["GB/s"] if traffic else []), *KINDS, *names, *ratios]) + " |"
    ]
    lines.append("|" + "---|" * (lines[0].count("|") - 1))
    for row in rows:
        problem = family.problem_type(**row["problem"])
        times = row["seconds"]
        cells = [family.label(problem), console.seconds(times["tuned"])]
        if traffic:
            size = row["bytes"]
            cells.append(f"{size / times['tuned'] / 1e9:.0f}")
        cells += [
            f"{family.flops(problem) / times[kind] / 1e12:.2f}" if kind in times else ""
            for kind in [*KINDS, *names]
        ]
        cells += [f"{times[name] / times['tuned']:.2f}" if name in times else "" for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def compare(
    family: Family,
    problems: Sequence[Problem],
    others: Mapping[str, Peer],
    *,
    adapter: str | None,
    cache_dir: Path | None,
    tune_seconds: float,
    out: Path | None,
    extra: Callable[[Any], dict[str, Any]] = lambda _: {},
    traffic: bool = False,
    key: str = "rows",
) -> list[dict[str, Any]]:
    """Time each problem beside the peers, write the rows under `key` of `out` as they come, and print the
    table and the means. `extra` gives more fields of a row."""
    rows: list[dict[str, Any]] = []
    for problem in problems:
        row = {"problem": msgspec.to_builtins(problem), **extra(problem)}
        row |= ours(family, problem, adapter, cache_dir, tune_seconds)
        for name, peer in others.items():
            try:
                row["seconds"][name] = peer(problem)
            except Exception as error:  # a shape that a peer refuses is a fact, not a failure of ours
                click.echo(f"{name} on {family.label(problem)}: {error}", err=True)
        rows.append(row)
        click.echo(table(family, [row], list(others), traffic).splitlines()[-1], err=True)
        if out is not None:
            _write(out, key, rows)
    click.echo(table(family, rows, list(others), traffic))
    for name in others:
        ratios = [row["seconds"][name] / row["seconds"]["tuned"] for row in rows if name in row["seconds"]]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            click.echo(f"geometric mean of tuned / {name}, {len(ratios)} shapes: {mean:.2f}")
    defaults = [row["seconds"]["tuned"] / row["seconds"]["default"] for row in rows]
    click.echo(f"geometric mean of default / tuned: {statistics.geometric_mean(defaults):.2f}")
    return rows


def _write(out: Path, key: str, rows: list[dict[str, Any]]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads(out.read_text()) if out.exists() and key != "rows" else {}
    document["machine"] = {
        "python": platform.python_version(),
        "system": platform.system(),
        "date": time.strftime("%Y-%m-%d"),
    }
    document[key] = rows
    out.write_text(json.dumps(document, indent=1) + "\n")


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that these benchmarks have in common."""
    for option in (
        click.option(
            "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JSON."
        ),
        click.option(
            "--tune-seconds", type=float, default=30.0, show_default=True, help="Search time a shape."
        ),
        click.option("--cache-dir", type=click.Path(file_okay=False, path_type=Path)),
        click.option("--adapter", help="As in `autotune gemm --adapter`."),
        click.option("--dtype", type=click.Choice(["f32", "f16"]), default="f32", show_default=True),
    ):
        command = option(command)
    return command
