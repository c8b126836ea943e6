"""Clocks for what kernels are compared with: PyTorch on CUDA, replayed from a CUDA graph, and ONNX Runtime's
WebGPU provider, from the difference between two chains of equal nodes."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np

Peer = Callable[[Any], float]
"""Seconds that a peer takes for a problem. Raises where it refuses one."""
WARM_UP = 0.7
"""Seconds of load before a peer is timed: what a GPU needs to come up to its clocks."""


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
    while time.perf_counter() - start < WARM_UP:
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
    while time.perf_counter() - start < WARM_UP:
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


def available(makers: Mapping[str, Callable[[], Peer]]) -> dict[str, Peer]:
    """The peers of these that can run here; says which cannot, and why."""
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except (ImportError, RuntimeError) as error:
            click.echo(f"without {name}: {error}", err=True)
    return found
