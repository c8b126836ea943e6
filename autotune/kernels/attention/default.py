"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from collections.abc import Iterator, Mapping
from itertools import chain, product
from typing import Any, Literal

from autotune.expression import ceil_div
from autotune.kernels.attention.configs import (
    AttentionConfig,
    Flash,
    FlashDecode,
    FlashDecodeSubgroup,
    FlashSubgroupMatrix,
)
from autotune.kernels.attention.decode import (
    MAX_LOADS,
    MAX_ROWS,
    MAX_UNROLLED,
    SUBGROUP_RULES,
    decode_bytes,
    loads,
    most_to_merge,
    result_bytes,
)
from autotune.kernels.attention.matrix import MATRIX_RULES
from autotune.kernels.attention.plan import flash_bytes, resources
from autotune.kernels.attention.problem import AttentionProblem
from autotune.kernels.attention.strides import contiguous
from autotune.kernels.base import Rule
from autotune.kernels.matrices import extents, shapes_of
from autotune.kernels.tiles import NVIDIA
from autotune.limits import BASE_LIMITS, refusals
from autotune.model import DeviceProfile

DECODE_QUERIES = 8
"""Queries up to which K and V are streamed past all of them."""
WANTED = 256
"""Workgroups to aim for."""
MATRIX_EXTENT = 16
"""Queries and keys up to which matrix units would mostly multiply zeros."""


def default(problem: AttentionProblem, profile: DeviceProfile | None) -> AttentionConfig:
    """Few queries: stream K and V, the keys split, in subgroups where their size is certain. Else matrix
    units where elements are f16 and a GPU has them, or the largest tiles that the device has room for."""
    limits = BASE_LIMITS | (profile.limits if profile is not None else {})
    memory = limits["maxComputeWorkgroupStorageSize"]
    invocations = limits["maxComputeInvocationsPerWorkgroup"]
    vector: Literal[1, 4] = 4 if contiguous(problem) else 1
    if problem.seq <= DECODE_QUERIES and problem.seq * problem.group <= MAX_ROWS:
        in_subgroups = None if profile is None else next(_in_subgroups(problem, profile, vector), None)
        streaming = in_subgroups or _decode(problem, limits, vector)
        if streaming is not None:
            return streaming
    slow = profile is not None and profile.is_cpu  # compiles long texts slowly
    on_matrices = None if profile is None or slow else next(_on_matrix_units(problem, profile, vector), None)
    if on_matrices is not None:
        return on_matrices
    shapes = (
        _flash(problem, vector, unroll=4) if slow else chain(_wide(problem, vector), _flash(problem, vector))
    )
    return next(c for c in shapes if flash_bytes(problem, c) <= memory and c.invocations <= invocations)


def _decode(p: AttentionProblem, limits: Mapping[str, int], vector: Literal[1, 4]) -> FlashDecode | None:
    """128 invocations, eight of them a key (fewer where heads are short), and enough splits to fill a GPU.
    None where heads are too long even for one row and one key at a time, or the results too large to keep."""
    if ceil_div(p.v_head_dim, 4) > 128:
        return None
    rows: Any = min(_power_of_two_from(p.seq * p.group), 16)
    lanes: Any = max(min(_power_of_two_from(ceil_div(p.head_dim, 4)), 8), 2)
    slots = 128 // lanes
    of_key = ceil_div(ceil_div(p.head_dim, 4), lanes)
    unroll: Any = max(min(8, _power_of_two_to(16 // of_key)), 1)
    shape: dict[str, Any] = {
        "lanes_d": lanes,
        "slots": slots,
        "ahead": "values",
        "vector": vector,
    }
    memory = limits["maxComputeWorkgroupStorageSize"]
    while not _fits(p, FlashDecode(rows=rows, unroll=unroll, steps=1, merge_threads=1, **shape), memory):
        if unroll > 1:
            unroll //= 2
        elif rows > 1:
            rows //= 2
        else:
            return None
    steps, merge = _splits(p, rows, slots * unroll)
    config = FlashDecode(rows=rows, unroll=unroll, steps=steps, merge_threads=merge, **shape)
    room = min(limits["maxStorageBufferBindingSize"], limits["maxBufferSize"])
    return config if result_bytes(p, config.split) <= room else None


def _splits(p: AttentionProblem, rows: int, tile: int) -> tuple[int, Any]:
    """Steps of `tile` keys that leave enough splits to fill a GPU, and invocations that merge a row."""
    others = p.batch * p.kv_heads * ceil_div(p.seq * p.group, rows)
    steps = _power_of_two_to(min(ceil_div(p.kv_seq, tile) * others // WANTED, p.kv_seq // tile, 64))
    return steps, _power_of_two_to(min(most_to_merge(p, tile * steps), 8))


def _in_subgroups(
    p: AttentionProblem, profile: DeviceProfile, vector: Literal[1, 4]
) -> Iterator[FlashDecodeSubgroup]:
    """Legal configs for an NVIDIA GPU, the best guess first: eight subgroups, eight keys a lane, and enough
    splits to fill it; then what takes fewer registers and less workgroup memory. None for other vendors,
    some of whose drivers choose the size of subgroups for each kernel: nobody has proved a default."""
    size: Any = profile.subgroup_size
    if profile.vendor_id != NVIDIA or not size:
        return
    lanes: Any = min(max(_power_of_two_from(ceil_div(p.head_dim, 4)), 2), size)
    rows: Any = min(_power_of_two_from(p.seq * p.group), lanes, 8)
    unroll: Any
    for subgroups, unroll in product((8, 4, 2, 1), (8, 4, 2, 1)):
        tile = subgroups * size // lanes * unroll
        steps, merge = _splits(p, rows, tile)
        config = FlashDecodeSubgroup(
            rows=rows,
            lanes_d=lanes,
            unroll=unroll,
            subgroups=subgroups,
            steps=steps,
            ahead="tile" if steps > 1 else "values",
            subgroup_size=size,
            merge_threads=merge,
            vector=vector,
        )
        if _legal(p, config, SUBGROUP_RULES, profile):
            yield config


def _legal(
    p: AttentionProblem, config: AttentionConfig, rules: tuple[Rule, ...], profile: DeviceProfile
) -> bool:
    broken = any(not rule.holds(p, config.parameters()) for rule in rules)
    return not broken and next(refusals(resources(p, config), profile), None) is None


def _fits(p: AttentionProblem, config: FlashDecode, memory: int) -> bool:
    """Whether workgroup memory holds it and its text stays short."""
    count = sum(loads(p, config.parameters()))
    short = count <= MAX_LOADS and config.rows * count <= MAX_UNROLLED
    return short and decode_bytes(p, config) <= memory


def _on_matrix_units(
    p: AttentionProblem, profile: DeviceProfile, vector: Literal[1, 4]
) -> Iterator[FlashSubgroupMatrix]:
    """Legal configs for f16 elements, the best guess first: 16 queries a subgroup, eight subgroups where that
    fills a GPU, else four, and 16 keys at a time (32 for wide heads); then what takes less workgroup memory
    and registers. None where there are few queries or keys."""
    if min(p.seq, p.kv_seq) <= MATRIX_EXTENT:
        return
    short = p.accumulate == "f16"
    keys = (16, 32) if max(p.head_dim, p.v_head_dim) <= 64 else (32, 16)
    most = (8, 4) if p.batch * p.heads * ceil_div(p.seq, 8 * 16) >= WANTED else (4,)
    tiles = [(subgroups, count, 1) for subgroups in most for count in keys]
    tiles += [(4, 32, 2), (2, 32, 1), (2, 32, 2), (1, 16, 1), (1, 16, 4)]
    for shape in shapes_of(profile, "f16", "f32"):
        for subgroups, tile_kv, parts_v in tiles:
            rows = max(extents(shape)[0], 16)
            row_lanes: Any = max(profile.subgroup_size // rows, 1)
            config = FlashSubgroupMatrix(
                matrix=shape,
                subgroup_size=profile.subgroup_size,
                subgroups=subgroups,
                rows=rows,
                tile_kv=tile_kv,
                parts_v=parts_v,
                row_lanes=row_lanes,
                q_from="registers",
                k_from="workgroup",
                v_from="workgroup",
                ahead="scores",
                scores="f16" if short and shape in shapes_of(profile, "f16", "f16") else "f32",
                pad=2,
                unroll=True,
                slack=8,
                vector=vector,
            )
            if _legal(p, config, MATRIX_RULES, profile):
                yield config


def _wide(p: AttentionProblem, vector: Literal[1, 4]) -> Iterator[Flash]:
    """Wide blocks of scores, P in slices, where heads are short enough and there is work for every shape."""
    widest = max(p.head_dim, p.v_head_dim)
    # queries, keys, keys of an invocation, depth, rows of V, steps written out; by how fast they are
    if widest <= 64:
        shapes = [(128, 64, 8, 16, 16, 16)] if p.accumulate == "f16" else [(128, 64, 8, 16, 8, 8)]
        shapes += [(128, 64, 8, 8, 8, 8), (64, 128, 8, 16, 16, 8), (64, 64, 8, 8, 8, 8)]
    elif widest <= 128:
        shapes = [(128, 128, 8, 32, 32, 16)] if p.accumulate == "f16" else [(128, 64, 4, 32, 16, 16)]
        shapes += [(128, 128, 8, 16, 16, 8), (64, 128, 8, 8, 16, 8)]
    else:
        return
    for tile_q, tile_kv, thread_kv, tile_d, v_rows, unroll in shapes:
        tiles = p.batch * p.heads * ceil_div(p.seq, tile_q)
        if 2 * p.seq <= tile_q or 2 * p.kv_seq <= tile_kv or (tile_q > 64 and tiles < WANTED):
            continue
        yield _flash_config(
            p,
            vector,
            tile_q=tile_q,
            tile_kv=tile_kv,
            thread_q=8,
            thread_kv=thread_kv,
            tile_d=tile_d,
            v_rows=v_rows,
            unroll=unroll,
            p_sliced=True,
            prefetch=True,
            along_d=2,
            chain=16 if p.accumulate == "f16" and unroll == 16 else 0,
        )


def _flash(p: AttentionProblem, vector: Literal[1, 4], unroll: int = 16) -> Iterator[Flash]:
    """Other shapes, the best first; the last ones fit anywhere. `unroll` steps are written out at most."""
    # queries, keys, register block of the scores, depth, Q stays, rows of V
    shapes: list[tuple[int, int, int, int, int, bool, int]] = []
    large = min(p.seq, p.kv_seq) > 32
    if large and max(p.head_dim, p.v_head_dim) <= 80:
        shapes.append((64, 32, 4, 4, ceil_div(p.head_dim, 4) * 4, True, 32))
    if large:
        shapes += [(32, 64, 8, 4, 32, True, 16), (32, 64, 8, 4, 16, True, 8)]
    shapes += [(32, 32, 4, 4, 16, True, 16), (32, 32, 4, 4, 16, False, 16)]
    shapes += [(32, 32, 4, 4, 16, False, 8), (16, 32, 4, 4, 8, False, 8), (16, 32, 4, 4, 8, False, 4)]
    for tile_q, tile_kv, thread_q, thread_kv, tile_d, resident, v_rows in shapes:
        yield _flash_config(
            p,
            vector,
            tile_q=tile_q,
            tile_kv=tile_kv,
            thread_q=thread_q,
            thread_kv=thread_kv,
            tile_d=tile_d,
            v_rows=v_rows,
            unroll=unroll,
            q_resident=resident,
        )


def _flash_config(p: AttentionProblem, vector: Literal[1, 4], **shape: Any) -> Flash:
    """Fit a shape to the head dims: its depth, the columns of O, and the steps that are written out."""
    usual = {"q_resident": False, "p_sliced": False, "prefetch": False, "along_d": 1, "chain": 0} | shape
    threads_kv = usual["tile_kv"] // usual["thread_kv"]
    least = 4 * usual["along_d"]
    depth = min(usual["tile_d"], ceil_div(p.head_dim, least) * least)
    if depth % 16:
        usual["chain"] = 0
    while depth % usual["unroll"] or usual["v_rows"] % usual["unroll"]:
        usual["unroll"] //= 2
    fitted = {
        "tile_d": depth,
        "q_resident": usual["q_resident"] or depth >= p.head_dim,
        "thread_v": 4 * ceil_div(min(p.v_head_dim, 256), 4 * threads_kv),
    }
    others = {"vector": vector, "k_from": "workgroup", "v_from": "workgroup", "pad_p": 1, "staged": "storage"}
    return Flash(**others | usual | fitted)


def _power_of_two_from(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def _power_of_two_to(most: int) -> int:
    """The largest power of two up to `most`; 1 at least."""
    return 1 << max(most.bit_length() - 1, 0)
