"""GEMM beside its peers, on one device in one run: times, rates, and ratios.

    python benchmarks/gemm.py --out benchmarks/results/gemm-h200.json

For each shape it tunes (or takes the cached winner), then times, interleaved, the winner and the
portable default, each with sizes at run time and baked in, and the naive kernel; then each peer that
can be imported:

* cuBLAS through PyTorch, float32 without TF32, replayed from a CUDA graph;
* ONNX Runtime's WebGPU provider, from the difference between two chains of equal MatMul nodes.
"""

from pathlib import Path
from typing import Any

import click
import common
import numpy as np

from autotune.kernels import KERNELS
from autotune.kernels.gemm import GemmProblem

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


def cublas() -> common.Peer:
    """PyTorch's matmul. Raises ImportError or RuntimeError where there is no CUDA."""
    torch = common.torch_with_cuda()

    def seconds(problem: GemmProblem) -> float:
        kind = torch.float16 if problem.dtype == "f16" else torch.float32
        batch = () if problem.batch == 1 else (problem.batch,)
        a = torch.rand(*batch, problem.m, problem.k, device="cuda").to(kind) - 0.5
        b = torch.rand(*batch, problem.k, problem.n, device="cuda").to(kind) - 0.5
        c = torch.empty(*batch, problem.m, problem.n, device="cuda", dtype=kind)
        return common.graph_seconds(torch, lambda: torch.matmul(a, b, out=c), FAMILY.flops(problem))

    return seconds


def onnxruntime() -> common.Peer:
    """ONNX Runtime WebGPU's MatMul: links are pairs x·W0·W1, which keep the shapes M×K → M×N → M×K."""
    ort = common.onnxruntime_with_webgpu()
    from onnx import helper

    def chain(links: int) -> tuple[list[Any], str]:
        names = ["x", *(f"y{i}" for i in range(2 * links))]
        nodes = [
            helper.make_node("MatMul", [names[i], f"W{i % 2}"], [names[i + 1]]) for i in range(2 * links)
        ]
        return nodes, names[-1]

    def seconds(problem: GemmProblem) -> float:
        kind = common.numpy_kind(problem.dtype)
        generator = np.random.default_rng(0)
        batch = () if problem.batch == 1 else (problem.batch,)
        weights = {
            "W0": (generator.standard_normal((*batch, problem.k, problem.n)) / problem.k**0.5).astype(kind),
            "W1": (generator.standard_normal((*batch, problem.n, problem.k)) / problem.n**0.5).astype(kind),
        }
        feeds = {"x": generator.standard_normal((*batch, problem.m, problem.k)).astype(kind)}
        return common.link_seconds(ort, chain, feeds, weights, 2 * FAMILY.flops(problem)) / 2

    return seconds


PEERS = {"cuBLAS": cublas, "ORT WebGPU": onnxruntime}


@click.command()
@click.option("--shapes", help="Comma-separated MxNxK, BxMxNxK or single sizes; default: the whole suite.")
@common.shared_options
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
    problems = [
        GemmProblem(m=m, n=n, k=k, batch=batch[0] if batch else 1, dtype=dtype)  # type: ignore[arg-type]
        for *batch, m, n, k in wanted
    ]
    others = common.peers(PEERS)
    common.compare(
        FAMILY, problems, others, adapter=adapter, cache_dir=cache_dir, tune_seconds=tune_seconds, out=out
    )


if __name__ == "__main__":
    main()
