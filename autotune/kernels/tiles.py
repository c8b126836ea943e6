"""What the families of tiled kernels share: rules for tiles, register blocks and the layout of a workgroup.

The rules read parameters by the names that all these families use. A workgroup computes `tile_m` × `tile_n`
elements of C and takes `tile_k` steps along K at a time, through workgroup memory; each of its invocations
keeps a register block of `thread_m` × `thread_n` sums and has `unroll_k` steps written out.

Refused points count under the first rule that they break, so a family gives its rules in the order in which
it wants to be told.
"""

from collections.abc import Callable
from typing import Any

from autotune.expression import ceil_div
from autotune.kernels.base import Parameters, Rule

LANES = 32
"""Neighbouring invocations that lie together over a tile, and that workgroups are a multiple of."""
NVIDIA = 0x10DE
"""PCI vendor whose GPUs all let an invocation keep 128 sums in registers, and have subgroups of one size."""
SMALLEST_TILE = 32
"""Edge of a tile that is never too large, in elements."""
MAX_REGISTER_BLOCK = 128
"""Sums an invocation may keep; with more, the kernels of `gemm` spilled on every GPU tried."""
MAX_SPLIT_TILES = 512
"""Tiles of C beyond which any GPU is full without splitting K."""
REDUCE_LANES = 16
"""Invocations along C of a workgroup that adds partial sums."""
REDUCE_THREADS = 16
"""Its invocations along the splits, each of which adds every sixteenth of them."""
MAX_GEMV_M = 64
"""Rows of A beyond which tiles reuse the other matrix better than a gemv kernel does."""


def threads(c: Parameters) -> int:
    """Invocations of a workgroup: one for each register block of the tile."""
    return int(c["tile_m"] // c["thread_m"] * (c["tile_n"] // c["thread_n"]))


def mostly_full(tile: str, what: str, extent: Callable[[Any], int]) -> Rule:
    """A tile is at most twice as large as what it covers, unless it is small; `tile` names its parameter,
    `what` what it covers, and `extent` takes a problem and gives the elements of that."""
    return Rule(
        (tile,),
        f"tile larger than twice the {what}",
        lambda p, c: c[tile] <= max(SMALLEST_TILE, 2 * extent(p)),
        needed=False,
    )


TILE_SIZES = (
    mostly_full("tile_m", "matrix", lambda p: p.m),
    mostly_full("tile_n", "matrix", lambda p: p.n),
)
"""Tiles that are mostly full."""

WHOLE_REGISTER_BLOCKS = (
    Rule(
        ("tile_m", "thread_m"),
        "tile not a multiple of the register block",
        lambda _, c: c["tile_m"] % c["thread_m"] == 0,
    ),
    Rule(
        ("tile_n", "thread_n"),
        "tile not a multiple of the register block",
        lambda _, c: c["tile_n"] % c["thread_n"] == 0,
    ),
)
"""Tiles that register blocks fill."""

REGISTER_BLOCK = Rule(
    ("thread_m", "thread_n"),
    "register block too large",
    lambda _, c: c["thread_m"] * c["thread_n"] <= MAX_REGISTER_BLOCK,
    needed=False,
)
"""Register blocks that stay in registers."""


def whole_lanes(
    parameters: tuple[str, ...], invocations: Callable[[Parameters], int], *, needed: bool
) -> Rule:
    """Whether the invocations of a workgroup, which these parameters tell, are a multiple of `LANES`."""
    return Rule(
        parameters,
        f"workgroup not a multiple of {LANES} invocations",
        lambda _, c: invocations(c) % LANES == 0,
        needed=needed,
    )


LANES_FIT = (
    whole_lanes(("tile_m", "tile_n", "thread_m", "thread_n"), threads, needed=True),
    Rule(
        ("tile_n", "thread_n", "lanes_n"),
        "lanes do not fit the tile along N",
        lambda _, c: LANES % c["lanes_n"] == 0 and c["tile_n"] // c["thread_n"] % c["lanes_n"] == 0,
    ),
    Rule(
        ("tile_m", "thread_m", "lanes_n"),
        "lanes do not fit the tile along M",
        lambda _, c: c["tile_m"] // c["thread_m"] % max(LANES // c["lanes_n"], 1) == 0,
    ),
)
"""Workgroups that consist of blocks of `lanes_n` × LANES / `lanes_n` invocations."""

WHOLE_UNROLLED_STEPS = Rule(
    ("tile_k", "unroll_k"),
    "unrolled steps do not divide the tile's depth",
    lambda _, c: c["tile_k"] % c["unroll_k"] == 0,
)
"""Tiles whose depth is a multiple of the steps written out."""

MAX_GEMV_ROWS = 16
"""Rows that a gemv kernel takes at a time at most."""
FEW_ROWS = Rule(
    ("rows",),
    "gemv is for few rows of A",
    lambda p, c: p.m <= MAX_GEMV_M and good_rows(c["rows"], p.m),
    needed=False,
)
"""Problems that a kernel without tiles is for; it takes `rows` rows of A at a time."""


def good_rows(rows: int, of: int) -> bool:
    """Whether taking this many rows at a time leaves few idle, and reads the other matrix once or twice (for
    more than MAX_GEMV_ROWS, that often for each MAX_GEMV_ROWS of them)."""
    return min(of, MAX_GEMV_ROWS) <= 2 * rows < 4 * of


def unrolled_code(most: int) -> Rule:
    """At most this many multiply-adds of single elements written out for a tile."""
    return Rule(
        ("unroll_k", "thread_m", "thread_n"),
        "too much unrolled code",
        lambda _, c: c["unroll_k"] * c["thread_m"] * c["thread_n"] <= most,
        needed=False,
    )


def even_loads(pieces: Callable[[Any, Parameters], tuple[int, int]], *also: str) -> Rule:
    """All invocations carry the same number of pieces of a tile, or some carry one and the others none.

    `pieces` takes a problem and the parameters, and tells in how many pieces each of the two tiles is carried
    to workgroup memory; `also` names the parameters it reads besides the sizes of tile and register block.
    """

    def holds(problem: Any, c: Parameters) -> bool:
        invocations = threads(c)
        return all(count <= invocations or count % invocations == 0 for count in pieces(problem, c))

    return Rule(
        ("tile_m", "tile_n", "tile_k", "thread_m", "thread_n", *also),
        "a tile's loads do not go round evenly",
        holds,
    )


def few_tiles(batch: Callable[[Any], int]) -> tuple[Rule, Rule]:
    """Problems for which K is worth splitting, in no more shares than it has tiles; `batch` gives the number
    of matrices C."""
    return (
        Rule(
            ("tile_m", "tile_n"),
            "splitting K is no use: the tiles of C fill any GPU",
            lambda p, c: (
                batch(p) * ceil_div(p.m, c["tile_m"]) * ceil_div(p.n, c["tile_n"]) <= MAX_SPLIT_TILES
            ),
            needed=False,
        ),
        Rule(
            ("tile_k", "splits"),
            "more splits than K has tiles",
            lambda p, c: c["splits"] * c["tile_k"] <= p.k,
            needed=False,
        ),
    )


def may_split(batch: Callable[[Any], int]) -> tuple[Rule, ...]:
    """The same for a variant that splits K or does not, and walks tiles in groups where it does not."""
    return (
        Rule(
            ("group_m", "splits"),
            "where K is split, tiles are too few to walk in groups",
            lambda _, c: c["splits"] == 1 or c["group_m"] == 1,
            needed=False,
        ),
        *map(_where_split, few_tiles(batch)),
    )


def _where_split(rule: Rule) -> Rule:
    """The rule, for configs that split K alone."""
    return Rule(
        tuple(dict.fromkeys((*rule.parameters, "splits"))),
        rule.reason,
        lambda p, c: c["splits"] == 1 or rule.holds(p, c),
        rule.needed,
    )


def whole_rows(piece: int) -> Rule:
    """The invocations take whole rows of a tile at a time, in pieces of this many elements along K."""
    return Rule(
        ("tile_m", "tile_n", "tile_k", "thread_m", "thread_n"),
        "a row of a tile is longer than the workgroup",
        lambda _, c: threads(c) % (c["tile_k"] // piece) == 0,
    )


def vector_access(possible: Callable[[Any], bool], reason: str) -> tuple[Rule, Rule]:
    """Memory is accessed in vec4s (`vector` = 4) where the problem makes that possible, and only there.

    `reason` says what a problem must be for it.
    """
    return (
        Rule(("vector",), reason, lambda p, c: c["vector"] == 1 or possible(p)),
        Rule(
            ("vector",),
            "scalar access where vec4 is possible",
            lambda p, c: c["vector"] == 4 or not possible(p),
            needed=False,
        ),
    )
