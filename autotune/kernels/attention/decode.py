"""Attention of few queries: what follows from problem and config, and which configs are legal."""

from autotune.expression import ceil_div
from autotune.kernels.attention.configs import FlashDecode
from autotune.kernels.attention.problem import AttentionProblem
from autotune.kernels.attention.rules import VECTOR_RULES
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.sizes import BYTES_LIMIT
from autotune.kernels.tiles import LANES

MAX_ROWS = 128
"""Rows (queries times heads of a group) beyond which tiles reuse K and V better."""
MAX_LOADS = 64
"""vec4s that an invocation may have under way."""
MAX_UNROLLED = 512
"""Products and sums of vec4s that it may have written out."""


def decode_bytes(problem: AttentionProblem, c: FlashDecode) -> int:
    """Workgroup memory of the first pass: queries, parts of products, scores, and what slots leave."""
    queries = ceil_div(ceil_div(problem.head_dim, 4), c.lanes_d) * c.lanes_d * 16 * c.rows
    scores = c.rows * c.tile_kv * 4
    parts = 0 if c.subgroup_size else scores * (c.lanes_d + 1)
    places = 2 if c.subgroup_size else 1
    peaks = c.invocations // ceil_div(problem.v_head_dim, 4) * 8
    return queries + whole(parts) + whole(places * scores) + c.invocations * 16 + whole(peaks)


def whole(size: int) -> int:
    """Bytes of a workgroup variable, which WGSL counts in units of 16."""
    return ceil_div(size, 16) * 16


def loads(p: AttentionProblem, c: Parameters) -> tuple[int, int]:
    """vec4s of K and of V that an invocation loads at a time."""
    quads_v = ceil_div(p.v_head_dim, 4)
    loads_d = ceil_div(ceil_div(p.head_dim, 4), c["lanes_d"])
    value_slots = max(c["lanes_d"] * c["slots"] // quads_v, 1)
    return loads_d * c["unroll"], ceil_div(c["slots"] * c["unroll"], value_slots)


def result_bytes(p: AttentionProblem, c: Parameters) -> int:
    """Bytes that the results of the splits of flash_decode take."""
    splits = ceil_div(p.kv_seq, c["slots"] * c["unroll"] * c["steps"])
    return splits * p.batch * p.heads * p.seq * ceil_div(p.v_head_dim, 4) * 16


DECODE_RULES = (
    *VECTOR_RULES,
    Rule(
        ("lanes_d", "subgroup_size"),
        "lanes of a product reach past a subgroup",
        lambda _, c: c["subgroup_size"] == 0 or c["lanes_d"] <= c["subgroup_size"],
    ),
    Rule(
        ("rows",),
        "flash_decode is for few queries",
        lambda p, c: p.seq * p.group <= MAX_ROWS and c["rows"] < 2 * p.seq * p.group,
        needed=False,
    ),
    Rule(
        ("lanes_d",),
        "more invocations than a key has vec4s",
        lambda p, c: c["lanes_d"] == 2 or c["lanes_d"] * 4 < 2 * p.head_dim,
        needed=False,
    ),
    Rule(
        ("lanes_d", "slots"),
        f"workgroup not a multiple of {LANES} invocations",
        lambda _, c: c["lanes_d"] * c["slots"] % LANES == 0,
        needed=False,
    ),
    Rule(
        ("lanes_d", "slots"),
        "fewer invocations than a row of V has vec4s",
        lambda p, c: c["lanes_d"] * c["slots"] >= ceil_div(p.v_head_dim, 4),
    ),
    Rule(
        ("slots", "unroll", "steps"),
        "more keys in a split than there are",
        lambda p, c: c["steps"] == 1 or c["slots"] * c["unroll"] * c["steps"] <= p.kv_seq,
        needed=False,
    ),
    Rule(
        ("steps", "ahead"),
        "there is no next step to load ahead for",
        lambda _, c: c["steps"] > 1 or c["ahead"] != "tile",
        needed=False,
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
    Rule(
        ("slots", "unroll", "steps"),
        "results of the splits are larger than WGSL can index",
        lambda p, c: result_bytes(p, c) < BYTES_LIMIT,
    ),
)
