"""What GEMM is compared with: each function gives one that times a problem, in seconds.

* cuBLAS through PyTorch, float32 without TF32, replayed from a CUDA graph;
* ONNX Runtime's WebGPU provider, from the difference between two chains of equal MatMul nodes.
"""

import statistics
import time
from collections.abc import Callable

import click
import numpy as np

from autotune.kernels.gemm import GEMM, GemmProblem

Peer = Callable[[GemmProblem], float]
WARM_UP = 0.7
"""Seconds of load before a peer is timed: what a GPU needs to come up to its clocks."""


def cublas() -> Peer:
    """PyTorch's matmul. Raises ImportError or RuntimeError where there is no CUDA."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False

    def seconds(problem: GemmProblem) -> float:
        kind = torch.float16 if problem.dtype == "f16" else torch.float32
        batch = () if problem.batch == 1 else (problem.batch,)
        a = torch.rand(*batch, problem.m, problem.k, device="cuda").to(kind) - 0.5
        stored_b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
        b = torch.rand(*batch, *stored_b, device="cuda").to(kind) - 0.5
        b = b.transpose(-1, -2) if problem.transpose_b else b
        c = torch.empty(*batch, problem.m, problem.n, device="cuda", dtype=kind)
        start = time.perf_counter()
        while time.perf_counter() - start < WARM_UP:
            torch.matmul(a, b, out=c)
            torch.cuda.synchronize()
        count = max(3, min(50, int(2e13 * 5e-3 / GEMM.flops(problem))))
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


def onnxruntime() -> Peer:
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
        while time.perf_counter() - start < WARM_UP:
            session.run(None, {"x": x})
        readings = []
        for _ in range(9):
            start = time.perf_counter()
            session.run(None, {"x": x})
            readings.append(time.perf_counter() - start)
        return min(readings)

    def seconds(problem: GemmProblem) -> float:
        if problem.transpose_b:
            raise ValueError("MatMul has no transposed B")
        extra = int(max(6, min(200, 1.5e12 / GEMM.flops(problem) / 2)))
        return (chain_seconds(problem, 1 + extra) - chain_seconds(problem, 1)) / extra / 2

    return seconds


PEERS: dict[str, Callable[[], Peer]] = {"cuBLAS": cublas, "ORT WebGPU": onnxruntime}


def available(names: tuple[str, ...]) -> dict[str, Peer]:
    """The peers of these that can run here; says which cannot, and why."""
    found = {}
    for name in names:
        try:
            found[name] = PEERS[name]()
        except (ImportError, RuntimeError) as error:
            click.echo(f"without {name}: {error}", err=True)
    return found
