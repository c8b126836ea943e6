"""Packed operands: copies of A and B whose rows lie across K and are whole accesses, made by a pass before.

The pass that multiplies sees a problem whose operands lie so from the start: A stored K×M, B stored K×N, in
rows of whole 16 bytes. Where both are copies, these go on in zeros past K, so that tiles of them are always
whole: nothing is asked while they are loaded. (Packing is as old as Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication", TOMS 2008.)
"""

from collections.abc import Callable
from functools import lru_cache

from msgspec import structs

from autotune.errors import InvalidProblem
from autotune.expression import ceil_div
from autotune.kernels.base import Parameters, Rule
from autotune.kernels.gemm.configs import GemmConfig, PackedConfig
from autotune.kernels.gemm.problem import GemmProblem
from autotune.kernels.gemm.streaming import Operand, along
from autotune.limits import BASE_LIMITS
from autotune.model import DTYPE_BYTES, DeviceProfile, Expr

ACCESS_BYTES = 16
"""Of the widest access of memory."""
LINE_BYTES = 128
"""Of a line of the cache."""
BLOCK = 4
"""Edge of the block that an invocation carries, in elements."""
TILE = 64
"""Elements across K that a workgroup packs."""

ACROSS: dict[Operand, str] = {"a": "m", "b": "n"}
"""The size of each operand across K."""


def step(problem: GemmProblem) -> int:
    """Elements that rows of packed operands are a multiple of."""
    return ACCESS_BYTES // DTYPE_BYTES[problem.dtype]


def to_pack(problem: GemmProblem) -> tuple[Operand, ...]:
    """Operands that do not lie as packed ones do: they are contiguous along K, or their rows are ragged."""
    operands: tuple[Operand, ...] = ("a", "b")
    return tuple(
        x
        for x in operands
        if along(problem, x) == "k" or any(s % step(problem) for s in problem.stored(x)[2:])
    )


def packs(problem: GemmProblem, config: GemmConfig) -> tuple[Operand, ...]:
    """Operands that are packed before they are multiplied."""
    return to_pack(problem) if isinstance(config, PackedConfig) else ()


@lru_cache(maxsize=64)  # an enumeration asks for the same few a hundred thousand times
def packed(problem: GemmProblem) -> GemmProblem:
    """The problem that the multiplying pass of a packed kernel sees: operands as wide as their rows, and as
    deep as the copies."""
    steps_of = {ACROSS[x]: step(problem) for x in to_pack(problem)} | {"k": depth_step(problem)}
    wide = {name: ceil_div(getattr(problem, name), by) * by for name, by in steps_of.items()}
    gaps = {f"ld{x}": 0 for x in (*to_pack(problem), "c")}
    return structs.replace(problem, transpose_a=True, transpose_b=False, **wide, **gaps)


def multiplied(problem: GemmProblem, config: GemmConfig) -> GemmProblem:
    """The problem as the pass that multiplies sees it; of C it says nothing."""
    return packed(problem) if isinstance(config, PackedConfig) else problem


@lru_cache(maxsize=64)
def indexable(problem: GemmProblem) -> bool:
    """Whether kernels can index the matrices of the problem that the multiplying pass sees."""
    try:
        packed(problem)
    except InvalidProblem:
        return False
    return True


def copies_fit(problem: GemmProblem, profile: DeviceProfile | None) -> bool:
    """Whether a binding of the device, or of any device, holds each of the copies."""
    limits = BASE_LIMITS if profile is None else profile.limits
    largest = limits["maxStorageBufferBindingSize"]
    return indexable(problem) and all(
        packed(problem).elements(x) * DTYPE_BYTES[problem.dtype] <= largest for x in to_pack(problem)
    )


INDEXABLE_COPIES = Rule(
    ("tile_m",), "copies of A or B would be larger than kernels can index", lambda p, _: indexable(p)
)


def of_packed(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules for the problem that the multiplying pass sees."""
    return tuple(structs.replace(rule, holds=_of_packed(rule)) for rule in rules)


def _of_packed(rule: Rule) -> Callable[[GemmProblem, Parameters], bool]:
    return lambda p, c: indexable(p) and rule.holds(packed(p), c)


def pitch(problem: GemmProblem, operand: Operand) -> Expr:
    """Elements of a row of a packed operand."""
    return {"mul": [{"ceilDiv": [ACROSS[operand], step(problem)]}, step(problem)]}


def depth_step(problem: GemmProblem) -> int:
    """Rows that packed operands have a multiple of: with zeros past K, where both are copies."""
    return tile_k(problem) if len(to_pack(problem)) == len(ACROSS) else 1


def depth(problem: GemmProblem) -> Expr:
    """Rows of a packed operand."""
    by = depth_step(problem)
    return "k" if by == 1 else {"mul": [{"ceilDiv": ["k", by]}, by]}


def batch_factor(problem: GemmProblem, operand: Operand) -> tuple[Expr, ...]:
    """The size that says how many matrices an operand has, where that is not one."""
    return ("batch",) if problem.stored(operand)[0] > 1 else ()


def tile_k(problem: GemmProblem) -> int:
    """Elements along K that a workgroup packs: a line of the cache."""
    return LINE_BYTES // DTYPE_BYTES[problem.dtype]


def turns(problem: GemmProblem) -> bool:
    """Whether any operand is turned around as it is packed, since it lies along K."""
    return any(along(problem, x) == "k" for x in to_pack(problem))


def workgroup(problem: GemmProblem) -> tuple[tuple[int, int, int], int]:
    """Workgroup size and bytes of workgroup memory of the pass that packs; its operands share them."""
    blocks = TILE // BLOCK
    turned = tile_k(problem) * (blocks + 1) * BLOCK * DTYPE_BYTES[problem.dtype]
    invocations = blocks * (tile_k(problem) // BLOCK)
    return (invocations, 1, 1), turned if turns(problem) else 0


def workgroups(problem: GemmProblem) -> Expr:
    """Workgroups of the pass that packs: one for each tile of every operand that is packed."""
    return {"add": [_tiles(problem, x) for x in to_pack(problem)]}


def _tiles(problem: GemmProblem, operand: Operand) -> Expr:
    return {
        "mul": [
            {"ceilDiv": [ACROSS[operand], TILE]},
            {"ceilDiv": ["k", tile_k(problem)]},
            *batch_factor(problem, operand),
        ]
    }


def steps(problem: GemmProblem, config: GemmConfig) -> dict[str, int]:
    """What M, N and K must be multiples of so that the same operands are packed, by the same texts."""
    found = {"m": 1, "n": 1, "k": 1}
    if isinstance(config, PackedConfig):
        for x in ACROSS:
            _, column, _ = problem.size_names(x)
            multiple = vector(problem, x) if x in to_pack(problem) else step(problem)
            found[column] = max(found[column], multiple)
    return found


def vector(problem: GemmProblem, operand: Operand) -> int:
    """Elements that an access of the operand as stored moves."""
    return BLOCK if problem.stored(operand)[3] % BLOCK == 0 else 1
