"""Attention of few queries: what follows from problem and config, and which configs are legal."""

from collections.abc import Callable

from autotune.expression import ceil_div
from autotune.kernels.attention.configs import FlashDecode, FlashDecodeSubgroup
from autotune.kernels.attention.problem import AttentionProblem
from autotune.kernels.attention.rules import VECTOR_RULES
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.sizes import BYTES_LIMIT
from autotune.kernels.tiles import whole_lanes

MAX_ROWS = 128
"""Rows (queries times heads of a group) beyond which tiles reuse K and V better."""
MAX_LOADS = 64
"""vec4s that an invocation may have under way."""
MAX_UNROLLED = 512
"""Products and sums of vec4s that it may have written out."""
MERGE_INVOCATIONS = 256
"""Invocations that a workgroup of the second pass may have, unless a row takes more by itself."""
MAX_KEPT = 32
"""vec4s of queries and of sums that a lane may keep."""


def decode_bytes(problem: AttentionProblem, c: FlashDecode) -> int:
    """Workgroup memory of the first pass: queries, parts of products, scores, and what slots leave."""
    queries = ceil_div(ceil_div(problem.head_dim, 4), c.lanes_d) * c.lanes_d * 16 * c.rows
    scores = c.rows * c.tile_kv * 4
    parts = scores * (c.lanes_d + 1)
    peaks = c.invocations // ceil_div(problem.v_head_dim, 4) * 8
    return queries + whole(parts) + whole(scores) + c.invocations * 16 + whole(peaks)


def subgroup_bytes(problem: AttentionProblem, c: FlashDecodeSubgroup) -> int:
    """The same where products stay in subgroups: what each of them leaves."""
    left = c.subgroups * c.rows
    return left * ceil_div(problem.v_head_dim, 4) * 16 + whole(left * 8)


def whole(size: int) -> int:
    """Bytes of a workgroup variable, which WGSL counts in units of 16."""
    return ceil_div(size, 16) * 16


def loads(p: AttentionProblem, c: Parameters) -> tuple[int, int]:
    """vec4s of K and of V that an invocation loads at a time."""
    quads_v = ceil_div(p.v_head_dim, 4)
    loads_d = ceil_div(ceil_div(p.head_dim, 4), c["lanes_d"])
    value_slots = max(c["lanes_d"] * c["slots"] // quads_v, 1)
    return loads_d * c["unroll"], ceil_div(c["slots"] * c["unroll"], value_slots)


def shares(p: AttentionProblem, c: Parameters) -> int:
    """vec4s of a key and of its row of V that a lane takes, where the same lanes take both."""
    return sum(ceil_div(ceil_div(size, 4), c["lanes_d"]) for size in (p.head_dim, p.v_head_dim))


def result_bytes(p: AttentionProblem, split: int) -> int:
    """Bytes that the results of the splits take, of so many keys each."""
    return ceil_div(p.kv_seq, split) * p.batch * p.heads * p.seq * ceil_div(p.v_head_dim, 4) * 16


def most_to_merge(p: AttentionProblem, split: int) -> int:
    """Invocations worth having for every four columns of a row where splits of so many keys are merged."""
    room = max(MERGE_INVOCATIONS // ceil_div(p.v_head_dim, 4), 1)
    return min(2 * ceil_div(p.kv_seq, split) - 1, room)


def _slots_keys(c: Parameters) -> int:
    """Keys that a workgroup takes at a time."""
    return int(c["slots"] * c["unroll"])


def _subgroups_keys(c: Parameters) -> int:
    """The same; one where the lanes of a key reach past the workgroup, which another rule refuses."""
    return max(int(c["subgroups"] * c["subgroup_size"] // c["lanes_d"] * c["unroll"]), 1)


def _decode_rules(tile: tuple[str, ...], keys: Callable[[Parameters], int]) -> tuple[Rule, ...]:
    """Rules of both variants; the parameters `tile` say how many `keys` a workgroup takes at a time."""
    return (
        *VECTOR_RULES,
        Rule(
            ("rows",),
            "decoding is for few queries",
            lambda p, c: p.seq * p.group <= MAX_ROWS and c["rows"] < 2 * p.seq * p.group,
            needed=False,
        ),
        Rule(
            (*tile, "steps"),
            "more keys in a split than there are",
            lambda p, c: c["steps"] == 1 or keys(c) * c["steps"] <= p.kv_seq,
            needed=False,
        ),
        Rule(
            ("steps", "ahead"),
            "there is no next step to load ahead for",
            lambda _, c: c["steps"] > 1 or c["ahead"] != "tile",
            needed=False,
        ),
        Rule(
            (*tile, "steps"),
            "results of the splits are larger than WGSL can index",
            lambda p, c: result_bytes(p, keys(c) * c["steps"]) < BYTES_LIMIT,
        ),
        Rule(
            (*tile, "steps", "merge_threads"),
            "more invocations merge a row than there are splits, or than a workgroup should have",
            lambda p, c: c["merge_threads"] <= most_to_merge(p, keys(c) * c["steps"]),
            needed=False,
        ),
    )


DECODE_RULES = (
    *_decode_rules(("slots", "unroll"), _slots_keys),
    Rule(
        ("lanes_d",),
        "more invocations than a key has vec4s",
        lambda p, c: c["lanes_d"] == 2 or c["lanes_d"] * 4 < 2 * p.head_dim,
        needed=False,
    ),
    whole_lanes(("lanes_d", "slots"), lambda c: c["lanes_d"] * c["slots"], needed=False),
    Rule(
        ("lanes_d", "slots"),
        "fewer invocations than a row of V has vec4s",
        lambda p, c: c["lanes_d"] * c["slots"] >= ceil_div(p.v_head_dim, 4),
    ),
    Rule(
        ("lanes_d", "slots", "unroll"),
        "too many loads under way",
        lambda p, c: sum(loads(p, c)) <= MAX_LOADS,
        needed=False,
    ),
    Rule(
        ("rows", "lanes_d", "slots", "unroll"),
        "too much unrolled code",
        lambda p, c: c["rows"] * sum(loads(p, c)) <= MAX_UNROLLED,
        needed=False,
    ),
)

SUBGROUP_RULES = (
    Rule(
        ("lanes_d",),
        "more lanes than a key and its row of V have vec4s",
        lambda p, c: c["lanes_d"] == 2 or c["lanes_d"] * 4 < 2 * max(p.head_dim, p.v_head_dim),
        needed=False,
    ),
    Rule(
        ("lanes_d", "subgroup_size"),
        "lanes of a key reach past a subgroup",
        lambda _, c: c["lanes_d"] <= c["subgroup_size"],
    ),
    Rule(
        ("rows", "lanes_d"),
        "more rows than lanes of a key, each of which has scores of one row",
        lambda _, c: c["rows"] <= c["lanes_d"],
    ),
    whole_lanes(("subgroups", "subgroup_size"), lambda c: c["subgroups"] * c["subgroup_size"], needed=False),
    Rule(
        ("rows", "lanes_d"),
        "queries and sums of O take too many registers",
        lambda p, c: c["rows"] * shares(p, c) <= MAX_KEPT,
        needed=False,
    ),
    Rule(
        ("lanes_d", "unroll"),
        "too many loads under way",
        lambda p, c: c["unroll"] * shares(p, c) <= MAX_LOADS,
        needed=False,
    ),
    Rule(
        ("rows", "lanes_d", "unroll"),
        "too much unrolled code",
        lambda p, c: c["rows"] * c["unroll"] * shares(p, c) <= MAX_UNROLLED,
        needed=False,
    ),
    *_decode_rules(("lanes_d", "unroll", "subgroups", "subgroup_size"), _subgroups_keys),
)
