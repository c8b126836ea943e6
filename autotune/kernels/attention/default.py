"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from collections.abc import Iterator
from typing import Any, Literal

from autotune.expression import ceil_div
from autotune.kernels.attention.configs import AttentionConfig, Flash, FlashDecode
from autotune.kernels.attention.plan import decode_bytes, flash_bytes
from autotune.kernels.attention.problem import AttentionProblem
from autotune.kernels.attention.rules import DECODE_ROWS
from autotune.kernels.attention.strides import contiguous
from autotune.limits import BASE_LIMITS
from autotune.model import DeviceProfile

DECODE_QUERIES = 8
"""Queries up to which K and V are streamed past all of them."""
WANTED = 256
"""Workgroups to aim for when keys are split."""


def default(problem: AttentionProblem, profile: DeviceProfile | None) -> AttentionConfig:
    """Few queries: stream K and V, the keys split. Else the largest tiles that the device has room for."""
    limits = BASE_LIMITS | (profile.limits if profile is not None else {})
    memory = limits["maxComputeWorkgroupStorageSize"]
    invocations = limits["maxComputeInvocationsPerWorkgroup"]
    vector: Literal[1, 4] = 4 if contiguous(problem) else 1
    few = problem.seq <= DECODE_QUERIES and problem.seq * problem.group <= DECODE_ROWS
    if few and ceil_div(problem.v_head_dim, 4) <= 128:
        return _decode(problem, memory, vector)
    return next(
        config
        for config in _flash(problem, vector, unroll=4 if profile is not None and profile.is_cpu else 16)
        if flash_bytes(problem, config) <= memory and config.invocations <= invocations
    )


def _decode(p: AttentionProblem, memory: int, vector: Literal[1, 4]) -> FlashDecode:
    """128 invocations, eight of them a key (fewer where heads are short), and enough splits to fill a GPU."""
    rows: Any = min(_power_of_two_from(p.seq * p.group), 16)
    lanes: Any = max(min(_power_of_two_from(ceil_div(p.head_dim, 4)), 8), 2)
    slots = 128 // lanes
    loads = ceil_div(ceil_div(p.head_dim, 4), lanes)
    unroll: Any = max(min(8, _power_of_two_to(16 // loads)), 1)
    shape: dict[str, Any] = {"lanes_d": lanes, "slots": slots, "prefetch": True, "vector": vector}
    while decode_bytes(p, FlashDecode(rows=rows, unroll=unroll, steps=1, **shape)) > memory:
        if unroll > 1:
            unroll //= 2
        else:
            rows //= 2
    others = p.batch * p.kv_heads * ceil_div(p.seq * p.group, rows)
    tiles = ceil_div(p.kv_seq, slots * unroll)
    steps = max(_power_of_two_to(min(tiles * others // WANTED, 64)), 1)
    return FlashDecode(rows=rows, unroll=unroll, steps=steps, **shape)


def _flash(p: AttentionProblem, vector: Literal[1, 4], unroll: int) -> Iterator[Flash]:
    """Shapes, the best first; the last ones fit anywhere. `unroll` steps are written out at most."""
    width = min(p.v_head_dim, 256)
    # queries, keys, register block of the scores, depth, Q stays, rows of V
    shapes: list[tuple[int, int, int, int, int, bool, int]] = []
    large = min(p.seq, p.kv_seq) > 32
    if large and max(p.head_dim, p.v_head_dim) <= 80:
        shapes.append((64, 32, 8, 4, ceil_div(p.head_dim, 4) * 4, True, 32))
    if large:
        shapes += [(32, 64, 8, 4, 32, True, 16), (32, 64, 8, 4, 16, True, 8)]
    shapes += [(32, 32, 4, 4, 16, True, 16), (32, 32, 4, 4, 16, False, 16)]
    shapes += [(32, 32, 4, 4, 16, False, 8), (16, 32, 4, 4, 8, False, 8), (16, 32, 4, 4, 8, False, 4)]
    for tile_q, tile_kv, thread_q, thread_kv, tile_d, resident, v_rows in shapes:
        threads_kv = tile_kv // thread_kv
        depth = min(tile_d, ceil_div(p.head_dim, 4) * 4)
        while depth % 4:
            depth -= 1
        steps = unroll
        while depth % steps or v_rows % steps:
            steps //= 2
        yield Flash(
            tile_q=tile_q,
            tile_kv=tile_kv,
            thread_q=thread_q,
            thread_kv=thread_kv,
            thread_v=4 * ceil_div(width, 4 * threads_kv),
            tile_d=depth,
            q_resident=resident or depth >= p.head_dim,
            k_from="workgroup",
            v_from="workgroup",
            v_rows=v_rows,
            p_sliced=False,
            along_d=1,
            prefetch=False,
            vector=vector,
            unroll=steps,
            pad_p=1,
            chain=0,
            staged="storage",
        )


def _power_of_two_from(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def _power_of_two_to(most: int) -> int:
    """The largest power of two up to `most`; 1 at least."""
    return 1 << max(most.bit_length() - 1, 0)
