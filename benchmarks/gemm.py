"""GEMM beside its peers, on one device in one run: times, rates, ratios, shares of the device's peaks.

    python benchmarks/gemm.py --dtype f32 --out benchmarks/results/h200/gemm-f32.json

For each shape it tunes (or takes the cached winner), then times, interleaved, the winner and the
portable default, each with sizes at run time and baked in, and the naive kernel; then each peer that
can be imported (peers.py). First of all it measures the device's peaks (ceiling.py). For int8 and 4-bit
weights the peer is f16 in cuBLAS, which is what they stand in for.
"""

from typing import Any

import click
import numpy as np
from common import compare, shared_options
from msgspec import structs
from peers import (
    Peer,
    available,
    graph_seconds,
    link_seconds,
    numpy_kind,
    onnxruntime_with_webgpu,
    torch_with_cuda,
)

from autotune.kernels import family_of
from autotune.kernels.gemm import GEMM, GemmProblem
from autotune.kernels.gemm_i8.problem import GemmI8Problem
from autotune.kernels.gemm_q4 import GemmQ4Problem
from autotune.model import Problem

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


def cublas() -> Peer:
    """PyTorch's matmul. Raises ImportError or RuntimeError where there is no CUDA."""
    torch = torch_with_cuda()

    def seconds(problem: GemmProblem) -> float:
        kind = torch.float16 if problem.dtype == "f16" else torch.float32
        batch = () if problem.batch == 1 else (problem.batch,)
        a = torch.rand(*batch, problem.m, problem.k, device="cuda").to(kind) - 0.5
        stored_b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
        b = torch.rand(*batch, *stored_b, device="cuda").to(kind) - 0.5
        b = b.transpose(-1, -2) if problem.transpose_b else b
        c = torch.empty(*batch, problem.m, problem.n, device="cuda", dtype=kind)
        return graph_seconds(torch, lambda: torch.matmul(a, b, out=c), GEMM.flops(problem))

    return seconds


def onnxruntime() -> Peer:
    """ONNX Runtime WebGPU's MatMul: links are pairs x·W0·W1, which keep the shapes M×K → M×N → M×K."""
    ort = onnxruntime_with_webgpu()
    from onnx import helper

    def chain(links: int) -> tuple[list[Any], str]:
        names = ["x", *(f"y{i}" for i in range(2 * links))]
        nodes = [
            helper.make_node("MatMul", [names[i], f"W{i % 2}"], [names[i + 1]]) for i in range(2 * links)
        ]
        return nodes, names[-1]

    def seconds(problem: GemmProblem) -> float:
        if problem.transpose_b:
            raise ValueError("MatMul has no transposed B")
        kind = numpy_kind(problem.dtype)
        generator = np.random.default_rng(0)
        batch = () if problem.batch == 1 else (problem.batch,)
        weights = {
            "W0": (generator.standard_normal((*batch, problem.k, problem.n)) / problem.k**0.5).astype(kind),
            "W1": (generator.standard_normal((*batch, problem.n, problem.k)) / problem.n**0.5).astype(kind),
        }
        feeds = {"x": generator.standard_normal((*batch, problem.m, problem.k)).astype(kind)}
        return link_seconds(ort, chain, feeds, weights, 2 * GEMM.flops(problem)) / 2

    return seconds


PEERS = {"cuBLAS": cublas, "ORT WebGPU": onnxruntime}
ALONE = {"i8": ["cuBLAS"], "q4": ["cuBLAS"]}
"""Types that not every peer stands beside."""


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


def traffic(problem: Problem) -> int:
    """Bytes of the matrices of a problem: what has to be read and written once at least."""
    family = family_of(problem)
    return sum(family.resources(problem, family.baseline(problem, None))[0].binding_bytes)


def _parsed(shapes: str | None, dtype: str) -> list[Shape]:
    if shapes is None:
        return SUITES[dtype]
    parsed = [tuple(map(int, shape.split("x"))) for shape in shapes.split(",")]
    return [shape * 3 if len(shape) == 1 else shape for shape in parsed]


@click.command()
@click.option("--shapes", help="Comma-separated MxNxK, BxMxNxK or single sizes; default: the whole suite.")
@click.option("--dtype", type=click.Choice(list(SUITES)), default="f32", show_default=True)
@click.option("--transpose-b", is_flag=True, help="B stored N×K, as weights often are (f32, f16).")
@click.option("--accumulate", type=click.Choice(["f32", "f16"]), default="f32", show_default=True)
@shared_options
def main(shapes: str | None, dtype: str, transpose_b: bool, accumulate: str, **options: Any) -> None:
    """Time GEMM beside its peers."""
    if accumulate == "f16" and dtype != "f16":
        raise click.UsageError("--accumulate f16 is for --dtype f16")
    problems = [problem_of(dtype, shape, transpose_b=transpose_b) for shape in _parsed(shapes, dtype)]
    if dtype == "f16":
        problems = [structs.replace(problem, accumulate=accumulate) for problem in problems]
    others = available({name: PEERS[name] for name in ALONE.get(dtype, PEERS)})
    # Without matrix units f16 elements are multiplied as f32, as 4-bit weights are beside f32 activations.
    products = {"i8": ["i8 to i32", "i8"], "f16": [f"f16 to {accumulate}", "f32"]}
    multiplied = products.get(dtype, ["f32"])
    compare(problems, others, traffic, dtype=dtype, multiplied=multiplied, stand_in=peer_problem, **options)


if __name__ == "__main__":
    main()
