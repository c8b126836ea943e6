"""Attention beside its peers, on one device in one run: times, rates, ratios, shares of the device's peaks.

    python benchmarks/attention.py --out benchmarks/results/h200/attention-f32.json
    python benchmarks/attention.py --layouts            # the ways to store Q, K and V, against each other

For each shape it tunes (or takes the cached winner), then times, interleaved, the winner and the portable
default, each with sizes at run time and baked in, and the naive kernel; then each peer that can be imported:

* PyTorch's scaled_dot_product_attention, float32 without TF32, its own choice of backend, from a CUDA graph;
* ONNX Runtime's WebGPU provider, from the difference between two chains of equal MultiHeadAttention nodes.

First of all it measures the device's peaks (ceiling.py). A shape is BxHxGxQxKxD or with a `c` behind it
(causal): batch, heads, KV heads, queries, keys, head dim.
"""

from typing import Any, get_args

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

from autotune import console
from autotune.kernels import KERNELS
from autotune.kernels.attention import AttentionProblem
from autotune.kernels.attention.problem import Layout
from autotune.model import DTYPE_BYTES

SUITE = (
    "1x16x16x1024x1024x64",
    "1x16x16x4096x4096x64",
    "1x16x16x4096x4096x64c",
    "1x32x32x4096x4096x128",
    "4x12x12x384x384x64",
    "1x32x32x1x4096x128",
    "8x32x8x1x2048x128",
    "1x32x8x2048x2048x128c",
)
LAYOUT_SHAPES = ("1x16x16x2048x2048x64", "8x16x16x64x64x64")
"""A shape of which products take most of the time, and one of which reading does."""
FAMILY = KERNELS["attention"]


def problem_of(shape: str, dtype: str, accumulate: str = "f32") -> AttentionProblem:
    """The problem that a shape of the command line stands for."""
    b, h, g, q, kv, d = map(int, shape.removesuffix("c").split("x"))
    sizes: dict[str, Any] = {"batch": b, "heads": h, "kv_heads": g, "seq": q, "kv_seq": kv, "head_dim": d}
    kinds: dict[str, Any] = {"dtype": dtype, "accumulate": accumulate}
    return AttentionProblem(**sizes, **kinds, causal=shape.endswith("c"))


def torch_sdpa() -> Peer:
    """PyTorch's scaled_dot_product_attention, on Q, K and V as [batch][heads][rows][head_dim]."""
    torch = torch_with_cuda()
    from torch.nn.functional import scaled_dot_product_attention

    def seconds(p: AttentionProblem) -> float:
        kind = torch.float16 if p.dtype == "f16" else torch.float32
        q = torch.randn(p.batch, p.heads, p.seq, p.head_dim, device="cuda", dtype=kind)
        k, v = (
            torch.randn(p.batch, p.kv_heads, p.kv_seq, p.head_dim, device="cuda", dtype=kind)
            for _ in range(2)
        )
        if p.group > 1 and p.dtype == "f32":  # its kernel for f32 takes no groups
            k, v = (t.repeat_interleave(p.group, 1).contiguous() for t in (k, v))
        groups = k.shape[1] != p.heads

        def call() -> object:
            return scaled_dot_product_attention(q, k, v, is_causal=p.causal, enable_gqa=groups)

        return graph_seconds(torch, call, FAMILY.flops(p))

    return seconds


def onnxruntime() -> Peer:
    """ONNX Runtime WebGPU's MultiHeadAttention; a link's output is the next one's Q."""
    ort = onnxruntime_with_webgpu()
    from onnx import helper

    def seconds(p: AttentionProblem) -> float:
        if p.group > 1:
            raise ValueError("MultiHeadAttention has no groups; GroupQueryAttention is not comparable")

        def chain(links: int) -> tuple[list[Any], str]:
            names = ["q", *(f"y{i}" for i in range(links))]
            made = [
                helper.make_node(
                    "MultiHeadAttention",
                    [names[i], "k", "v"],
                    [names[i + 1]],
                    domain="com.microsoft",
                    num_heads=p.heads,
                    unidirectional=int(p.causal),
                )
                for i in range(links)
            ]
            return made, names[-1]

        generator, kind = np.random.default_rng(0), numpy_kind(p.dtype)

        def rows(count: int) -> Any:
            return generator.standard_normal((p.batch, count, p.heads * p.head_dim)).astype(kind)

        weights = {"k": rows(p.kv_seq), "v": rows(p.kv_seq)}
        return link_seconds(ort, chain, {"q": rows(p.seq)}, weights, FAMILY.flops(p))

    return seconds


PEERS = {"PyTorch SDPA": torch_sdpa, "ORT WebGPU": onnxruntime}


def traffic(p: AttentionProblem) -> int:
    """Bytes of Q, K, V and O, each once."""
    own = p.batch * p.heads * p.seq * (p.head_dim + p.v_head_dim)
    others = p.batch * p.kv_heads * p.kv_seq * (p.head_dim + p.v_head_dim)
    return (own + others) * DTYPE_BYTES[p.dtype]


def layout_table(rows: list[dict[str, Any]]) -> str:
    """Times of the layouts of a shape, and each over that of `bshd`."""
    lines = ["| shape | layout | tuned | default | of bshd |", "|---|---|---|---|---|"]
    first: dict[str, float] = {}
    for row in rows:
        problem = AttentionProblem(**row["problem"])
        shape = FAMILY.label(structs.replace(problem, layout="bshd"))
        times = row["seconds"]
        first.setdefault(shape, times["tuned"])
        cells = [shape, problem.layout, console.seconds(times["tuned"]), console.seconds(times["default"])]
        lines.append("| " + " | ".join([*cells, f"{times['tuned'] / first[shape]:.2f}"]) + " |")
    return "\n".join(lines)


@click.command()
@click.option("--shapes", help="Comma-separated shapes; default: the whole suite.")
@click.option("--dtype", type=click.Choice(["f32", "f16"]), default="f32", show_default=True)
@click.option("--accumulate", type=click.Choice(["f32", "f16"]), default="f32", show_default=True)
@click.option("--layouts", is_flag=True, help="Compare the layouts of Q, K and V instead of peers.")
@shared_options
def main(shapes: str | None, dtype: str, accumulate: str, layouts: bool, **options: Any) -> None:
    """Time attention beside its peers."""
    usual = LAYOUT_SHAPES if layouts else SUITE
    asked = shapes.split(",") if shapes else usual
    problems = [problem_of(shape, dtype, accumulate) for shape in asked]
    if layouts:
        problems = [
            structs.replace(problem, layout=layout) for problem in problems for layout in get_args(Layout)
        ]
    others = {} if layouts else available(PEERS)
    multiplied = [*(["f16 to f32"] if dtype == "f16" else []), accumulate]
    rows = compare(problems, others, traffic, dtype=dtype, multiplied=multiplied, **options)
    if layouts:
        click.echo(layout_table(rows))


if __name__ == "__main__":
    main()
