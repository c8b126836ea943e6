"""Which configs are legal, with reasons."""

from autotune.expression import ceil_div
from autotune.kernels.attention.problem import AttentionProblem
from autotune.kernels.attention.strides import contiguous
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.sizes import BYTES_LIMIT
from autotune.kernels.tiles import mostly_full, vector_access, whole_lanes

MAX_REGISTERS = 192
"""Scores and sums of O that an invocation may keep."""
MIN_SLICED = 32
"""Scores of an invocation from which on they may wait in registers for their slice."""
MAX_FETCHED = 24
"""vec4s that may wait in registers for the next step."""
MAX_UNROLLED = 5120
"""Multiply-adds written out."""
MAX_COLUMNS = 256
"""Columns of V from which on a second column tile may be worth computing the scores again."""


def _q_chunks(p: AttentionProblem, c: Parameters) -> int:
    return ceil_div(p.head_dim, c["tile_d"])


def _lengths(p: AttentionProblem, c: Parameters) -> tuple[int, int]:
    """Steps of Q·Kᵀ and of P·V that are computed between two loads."""
    in_pieces = c["k_from"] == "workgroup" or not c["q_resident"]
    depth = c["tile_d"] if in_pieces else _q_chunks(p, c) * c["tile_d"]
    return depth, c["v_rows"] if c["v_from"] == "workgroup" else c["tile_kv"]


def _invocations(c: Parameters) -> int:
    return int(c["tile_q"] // c["thread_q"] * (c["tile_kv"] // c["thread_kv"]))


def _tile_v(c: Parameters) -> int:
    return int(c["thread_v"] * (c["tile_kv"] // c["thread_kv"]))


def _fetched(c: Parameters) -> int:
    """vec4s that an invocation carries to workgroup memory at a time."""
    count, invocations = 0, _invocations(c)
    if c["k_from"] == "workgroup":
        count += 4 * ceil_div(c["tile_kv"] * c["tile_d"] // 16, invocations)
    if not c["q_resident"]:
        count += 4 * ceil_div(c["tile_q"] * c["tile_d"] // 16, invocations)
    if c["v_from"] == "workgroup":
        count += ceil_div(c["v_rows"] * _tile_v(c) // 4, invocations)
    return count


def _slices(c: Parameters) -> int:
    """Times that the product P·V is written out."""
    return int(c["tile_kv"] // c["v_rows"]) if c["p_sliced"] else 1


VECTOR_RULES = vector_access(
    contiguous, "vec4 access needs rows that lie together, in multiples of 4 elements"
)

NAIVE_RULES = (
    Rule(
        ("workgroup",),
        "the matrix of scores is larger than WGSL can index",
        lambda p, _: p.batch * p.heads * p.seq * p.kv_seq * 4 < BYTES_LIMIT,
    ),
)

FLASH_RULES = (
    *VECTOR_RULES,
    Rule(
        ("staged",),
        "staging in f32 changes nothing here",
        lambda p, c: c["staged"] == "storage" or p.dtype == "f16",
        needed=False,
    ),
    Rule(
        ("k_from", "v_from", "staged"),
        "nothing is staged",
        lambda _, c: c["staged"] == "storage" or "workgroup" in (c["k_from"], c["v_from"]),
        needed=False,
    ),
    Rule(
        ("tile_q", "thread_q"),
        "tile of queries not a multiple of the register block, or that not of a vec4",
        lambda _, c: c["tile_q"] % c["thread_q"] == c["thread_q"] % 4 == 0,
    ),
    Rule(
        ("tile_kv", "thread_kv"),
        "tile of keys not a multiple of the register block, or that not of a vec4",
        lambda _, c: c["tile_kv"] % c["thread_kv"] == c["thread_kv"] % 4 == 0,
    ),
    Rule(
        ("tile_d", "thread_v"),
        "depth or columns not a multiple of a vec4",
        lambda _, c: c["tile_d"] % 4 == c["thread_v"] % 4 == 0,
    ),
    Rule(
        ("tile_kv", "v_rows"),
        "the rows of V in workgroup memory do not divide the tile of keys",
        lambda _, c: c["tile_kv"] % c["v_rows"] == 0,
    ),
    Rule(
        ("tile_kv", "thread_kv", "v_rows", "p_sliced"),
        "not every invocation has keys in a slice of P",
        lambda _, c: not c["p_sliced"] or c["v_rows"] % (c["tile_kv"] // c["thread_kv"]) == 0,
    ),
    Rule(
        ("tile_kv", "v_from", "v_rows", "p_sliced"),
        "P needs no slices",
        lambda _, c: not c["p_sliced"] or (c["v_from"] == "workgroup" and c["v_rows"] < c["tile_kv"]),
    ),
    Rule(
        ("p_sliced", "pad_p"),
        "slices of P are small enough for a pad",
        lambda _, c: not c["p_sliced"] or c["pad_p"] == 1,
        needed=False,
    ),
    Rule(
        ("p_sliced", "thread_q", "thread_kv"),
        "slices are for wide blocks of scores",
        lambda _, c: not c["p_sliced"] or c["thread_q"] * c["thread_kv"] >= MIN_SLICED,
        needed=False,
    ),
    Rule(
        ("chain", "staged", "k_from", "v_from"),
        "sums in f16 need f16 elements in workgroup memory, and a problem that allows them",
        lambda p, c: (
            not c["chain"]
            or (
                (p.accumulate == "f16" and c["staged"] == "storage")
                and (c["k_from"], c["v_from"]) == ("workgroup", "workgroup")
            )
        ),
    ),
    Rule(
        ("chain", "tile_d", "v_rows", "unroll"),
        "a chain of products does not divide the steps that are written out",
        lambda _, c: not c["chain"] or not any(c[n] % c["chain"] for n in ("tile_d", "v_rows", "unroll")),
    ),
    Rule(
        ("tile_d", "along_d"),
        "the depth is not shared evenly by invocations along it",
        lambda _, c: c["tile_d"] % (4 * c["along_d"]) == 0,
    ),
    mostly_full("tile_q", "queries", lambda p: p.seq),
    mostly_full("tile_kv", "keys", lambda p: p.kv_seq),
    Rule(
        ("tile_d",),
        "tile deeper than the heads",
        lambda p, c: c["tile_d"] <= 8 or c["tile_d"] < 2 * p.head_dim,
        needed=False,
    ),
    whole_lanes(("tile_q", "tile_kv", "thread_q", "thread_kv"), _invocations, needed=False),
    Rule(
        ("tile_kv", "thread_kv", "thread_v"),
        "columns do not fit those of V",
        lambda p, c: (
            _tile_v(c) >= min(p.v_head_dim, MAX_COLUMNS)
            and (c["thread_v"] == 4 or _tile_v(c) < 2 * p.v_head_dim)
        ),
        needed=False,
    ),
    Rule(
        ("thread_q", "thread_kv", "thread_v"),
        "register blocks too large",
        lambda _, c: c["thread_q"] * (c["thread_kv"] + c["thread_v"]) <= MAX_REGISTERS,
        needed=False,
    ),
    Rule(
        ("tile_d", "q_resident"),
        "a tile of Q that is all there may as well stay",
        lambda p, c: c["q_resident"] or _q_chunks(p, c) > 1,
        needed=False,
    ),
    Rule(
        ("q_resident", "k_from"),
        "with K straight from storage, Q stays in workgroup memory",
        lambda _, c: c["q_resident"] or c["k_from"] == "workgroup",
        needed=False,
    ),
    Rule(
        ("tile_kv", "v_from", "v_rows"),
        "no rows of V are staged",
        lambda _, c: c["v_from"] == "workgroup" or c["v_rows"] == c["tile_kv"],
        needed=False,
    ),
    Rule(
        ("tile_d", "q_resident", "k_from", "v_from", "v_rows", "tile_kv", "unroll"),
        "unrolled steps do not divide those of a product",
        lambda p, c: (
            c["unroll"] % 4 == 0 and all(n <= c["unroll"] or n % c["unroll"] == 0 for n in _lengths(p, c))
        ),
    ),
    Rule(
        ("tile_d", "q_resident", "k_from", "v_from", "v_rows", "tile_kv", "unroll"),
        "more steps unrolled than either product has",
        lambda p, c: c["unroll"] == 4 or c["unroll"] < 2 * max(_lengths(p, c)),
        needed=False,
    ),
    Rule(
        ("thread_q", "thread_kv", "thread_v", "tile_kv", "v_rows", "unroll", "p_sliced"),
        "too much unrolled code",
        lambda _, c: (
            c["unroll"] * c["thread_q"] * (c["thread_kv"] + _slices(c) * c["thread_v"]) <= MAX_UNROLLED
        ),
        needed=False,
    ),
    Rule(
        ("k_from", "v_from", "prefetch"),
        "nothing to prefetch",
        lambda _, c: not c["prefetch"] or "workgroup" in (c["k_from"], c["v_from"]),
        needed=False,
    ),
    Rule(
        (
            "tile_q",
            "tile_kv",
            "thread_q",
            "thread_kv",
            "thread_v",
            "tile_d",
            "q_resident",
            "k_from",
            "v_from",
            "v_rows",
        ),
        "too much to carry to workgroup memory at a time",
        lambda _, c: _fetched(c) <= MAX_FETCHED,
        needed=False,
    ),
)
