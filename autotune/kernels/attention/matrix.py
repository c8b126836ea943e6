"""Attention on matrix units: what follows from problem and config, and which configs are legal."""

from typing import Any

from autotune.expression import ceil_div
from autotune.kernels.attention.configs import FlashSubgroupMatrix
from autotune.kernels.attention.problem import AttentionProblem
from autotune.kernels.attention.rules import VECTOR_RULES
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.matrices import extents, matrix_of, shapes_of
from autotune.kernels.tiles import mostly_full
from autotune.model import DeviceProfile, SubgroupMatrix

MAX_REGISTERS = 224
"""Words of fragments that a lane may keep: of Q, S and O."""
MAX_SCORES = 64
"""Scores that a lane may have in registers in the softmax."""
MAX_UNROLLED = 640
"""Products of two matrices, and vec4s of scores and of O that a lane takes, written out."""
MIN_COLUMNS = 64
"""Of V, below which a workgroup does not repeat all scores for a part of them."""
MAX_FETCHED = 48
"""vec4s of f16 that may wait in registers for the next tile."""


def units_of(c: FlashSubgroupMatrix) -> SubgroupMatrix:
    """What matrix units multiply; where scores are f16, besides the same with f16 results."""
    return matrix_of(c.matrix, "f16", "f32")


def depth(p: AttentionProblem, c: Parameters) -> int:
    """Elements of a row of Q and K, to whole matrices."""
    k = extents(c["matrix"])[2]
    return ceil_div(p.head_dim, k) * k


def width(p: AttentionProblem, c: Parameters) -> int:
    """Columns of V and O that a workgroup has, to whole matrices."""
    n = extents(c["matrix"])[1]
    return ceil_div(p.v_head_dim, n * c["parts_v"]) * n


def matrix_bytes(problem: AttentionProblem, config: FlashSubgroupMatrix) -> int:
    """Workgroup memory: tiles of Q, K and V, strips of S and P, and a flag. Rows have pads."""
    c = config.parameters()
    of_heads, of_v = (elements * 2 + config.pad * 8 for elements in (depth(problem, c), width(problem, c)))
    q = of_heads if config.q_from == "workgroup" else 0
    k = of_heads if config.k_from == "workgroup" else 0
    v = of_v if config.v_from == "workgroup" else 0
    strip_columns = extents(config.matrix)[1] if config.scores == "f16" else config.tile_kv
    strips = config.tile_kv * 2 + config.pad * 8 + strip_columns * 4 + max(config.row_lanes, 2) * 16
    return config.tile_kv * (k + v) + config.tile_q * (q + strips) + 16


def matrix_context(problem: AttentionProblem, config: FlashSubgroupMatrix) -> dict[str, Any]:
    """What the template asks besides the parameters."""
    c = config.parameters()
    m, n, k = extents(config.matrix)
    guards = {
        "guard_d": depth(problem, c) > problem.head_dim,
        "guard_v": width(problem, c) * config.parts_v > problem.v_head_dim,
    }
    return {"m": m, "n": n, "k": k, "tiles": True} | guards


def sums_in_f16(profile: DeviceProfile) -> tuple[Rule, ...]:
    """What the adapter must have besides what `units_of` names."""
    there = shapes_of(profile, "f16", "f16")
    return (
        Rule(
            ("matrix", "scores"),
            "the adapter's matrix units do not add up in f16 in this shape",
            lambda _, c: c["scores"] == "f32" or c["matrix"] in there,
        ),
    )


def _whole_tiles(p: AttentionProblem, c: Parameters) -> bool:
    """Whether fragments may come straight from memory, in vec4s: tiles are whole, and nothing lies behind the
    keys that an entry has."""
    return c["vector"] == 4 and not p.lengths and p.kv_seq % c["tile_kv"] == 0


def _registers(p: AttentionProblem, c: Parameters) -> int:
    """Words of fragments of a lane."""
    q = depth(p, c) // 2 if c["q_from"] == "registers" else 0
    s = c["tile_kv"] // (2 if c["scores"] == "f16" else 1)
    return int(c["rows"] * (q + s + width(p, c)) // c["subgroup_size"])


def _fetched(p: AttentionProblem, c: Parameters) -> int:
    """vec4s that an invocation carries to workgroup memory at a time."""
    invocations = c["subgroups"] * c["subgroup_size"]
    rows = [depth(p, c)] * (c["k_from"] == "workgroup") + [width(p, c)] * (c["v_from"] == "workgroup")
    return sum(ceil_div(c["tile_kv"] * row // 4, invocations) for row in rows)


def _unrolled(p: AttentionProblem, c: Parameters) -> int:
    m, n, k = extents(c["matrix"])
    blocks = c["rows"] // m
    steps_d, steps_kv = (depth(p, c) // k, c["tile_kv"] // k) if c["unroll"] else (1, 1)
    products = blocks * (c["tile_kv"] // n * steps_d + width(p, c) // n * steps_kv)
    quads = c["rows"] * (c["tile_kv"] + 2 * width(p, c)) // 4 // c["subgroup_size"]
    return int(products + quads)


MATRIX_RULES = (
    *VECTOR_RULES,
    Rule(
        ("matrix",),
        "matrix units here multiply f16",
        lambda p, _: p.dtype == "f16",
    ),
    Rule(
        ("matrix",),
        "rows of a matrix are not whole vec4s",
        lambda _, c: not any(extent % 4 for extent in extents(c["matrix"])[1:]),
    ),
    Rule(
        ("matrix", "rows"),
        "rows not a multiple of the matrices",
        lambda _, c: c["rows"] % extents(c["matrix"])[0] == 0,
    ),
    Rule(
        ("matrix", "tile_kv"),
        "tile of keys not a multiple of the matrices",
        lambda _, c: not any(c["tile_kv"] % extent for extent in extents(c["matrix"])[1:]),
    ),
    Rule(
        ("subgroup_size", "rows", "row_lanes"),
        "rows do not go round evenly over the lanes",
        lambda _, c: (
            c["subgroup_size"] % c["row_lanes"] == 0 and c["rows"] * c["row_lanes"] % c["subgroup_size"] == 0
        ),
    ),
    Rule(
        ("tile_kv", "row_lanes"),
        "a row is not shared evenly by its lanes",
        lambda _, c: c["tile_kv"] % (4 * c["row_lanes"]) == 0,
    ),
    Rule(
        ("tile_kv", "row_lanes"),
        "too many scores in registers",
        lambda _, c: c["tile_kv"] <= MAX_SCORES * c["row_lanes"],
        needed=False,
    ),
    Rule(
        ("scores",),
        "scores are added up in f16 where the problem allows it",
        lambda p, c: c["scores"] == "f32" or p.accumulate == "f16",
    ),
    Rule(
        ("vector", "matrix", "tile_kv", "k_from"),
        "K straight from memory takes whole tiles and rows",
        lambda p, c: c["k_from"] == "workgroup" or (_whole_tiles(p, c) and depth(p, c) == p.head_dim),
    ),
    Rule(
        ("vector", "matrix", "tile_kv", "parts_v", "v_from"),
        "V straight from memory takes whole tiles and rows",
        lambda p, c: (
            c["v_from"] == "workgroup" or (_whole_tiles(p, c) and width(p, c) * c["parts_v"] == p.v_head_dim)
        ),
    ),
    Rule(
        ("k_from", "v_from", "ahead"),
        "nothing to load ahead",
        lambda _, c: c["ahead"] == "no" or "workgroup" in (c["k_from"], c["v_from"]),
        needed=False,
    ),
    Rule(
        ("matrix", "parts_v"),
        "few columns of V need not be shared",
        lambda p, c: c["parts_v"] == 1 or width(p, c) >= MIN_COLUMNS,
        needed=False,
    ),
    Rule(
        ("q_from", "unroll"),
        "fragments of Q in registers take products written out",
        lambda _, c: c["unroll"] or c["q_from"] == "workgroup",
    ),
    Rule(
        ("subgroups", "rows"),
        "tile larger than twice the queries",
        lambda p, c: c["subgroups"] == 1 or c["subgroups"] * c["rows"] < max(32, 2 * p.seq),
        needed=False,
    ),
    mostly_full("tile_kv", "keys", lambda p: p.kv_seq),
    Rule(
        ("matrix", "subgroup_size", "rows", "tile_kv", "parts_v", "q_from", "scores"),
        "too many registers a lane",
        lambda p, c: _registers(p, c) <= MAX_REGISTERS,
        needed=False,
    ),
    Rule(
        ("matrix", "subgroup_size", "subgroups", "tile_kv", "parts_v", "k_from", "v_from"),
        "too much to carry to workgroup memory at a time",
        lambda p, c: _fetched(p, c) <= MAX_FETCHED,
        needed=False,
    ),
    Rule(
        ("matrix", "subgroup_size", "rows", "tile_kv", "parts_v", "unroll"),
        "too much unrolled code",
        lambda p, c: _unrolled(p, c) <= MAX_UNROLLED,
        needed=False,
    ),
)
