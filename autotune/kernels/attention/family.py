"""The attention family: its options, and what other modules of this package know, named as in `Family`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from msgspec import structs

from autotune.errors import InvalidProblem
from autotune.expression import ceil_div
from autotune.kernels import matrices
from autotune.kernels.attention import decode
from autotune.kernels.attention.configs import (
    AttentionConfig,
    Decode,
    Flash,
    FlashDecode,
    FlashDecodeSubgroup,
    FlashSubgroupMatrix,
    Naive,
)
from autotune.kernels.attention.default import DECODE_QUERIES, default
from autotune.kernels.attention.matrix import MATRIX_RULES, sums_in_f16
from autotune.kernels.attention.plan import plan, resources
from autotune.kernels.attention.problem import (
    AttentionProblem,
    Broadcast,
    Layout,
    Mask,
    check_problem,
    label,
)
from autotune.kernels.attention.rules import FLASH_RULES, NAIVE_RULES
from autotune.kernels.base import Family, Option, Resources, Rule
from autotune.kernels.sizes import check_size, doublings
from autotune.model import MAX_SIZE, DeviceProfile, Plan, Problem

if TYPE_CHECKING:
    from autotune.kernels.base import Array, Float64

_SIZES = ("batch", "heads", "kv_heads", "seq", "kv_seq", "head_dim", "v_head_dim")
_MINOR = (
    "layout",
    "causal",
    "mask",
    "mask_broadcast",
    "alibi",
    "lengths",
    "sinks",
    "lse",
    "accumulate",
    "scale",
    "softcap",
)
"""Fields: problems that differ in one of them are a quarter of a doubling further apart."""


class Attention(Family):
    """The attention family."""

    name = "attention"
    problem_type = AttentionProblem
    config_types = {  # noqa: RUF012
        "naive": Naive,
        "flash": Flash,
        "flash_decode": FlashDecode,
        "flash_decode_subgroup": FlashDecodeSubgroup,
        "flash_subgroup_matrix": FlashSubgroupMatrix,
    }
    samples = {  # noqa: RUF012
        "f32": AttentionProblem(heads=2, seq=40, head_dim=8),
        "f16": AttentionProblem(heads=2, seq=40, head_dim=8, dtype="f16"),
        "f16, f16 sums": AttentionProblem(heads=2, seq=40, head_dim=8, dtype="f16", accumulate="f16"),
        "f32, decode": AttentionProblem(batch=2, heads=4, kv_heads=2, seq=1, kv_seq=70, head_dim=16),
        "f32, causal, packed, with everything": AttentionProblem(
            batch=2,
            heads=4,
            kv_heads=2,
            seq=20,
            head_dim=8,
            layout="qkv-split",
            causal=True,
            window=15,
            softcap=5.0,
            mask="bias",
            alibi=True,
            lengths=True,
            sinks=True,
            lse=True,
        ),
    }
    rules = {  # noqa: RUF012
        "naive": NAIVE_RULES,
        "flash": FLASH_RULES,
        "flash_decode": decode.DECODE_RULES,
        "flash_decode_subgroup": decode.SUBGROUP_RULES,
        "flash_subgroup_matrix": MATRIX_RULES,
    }
    weightless = {  # noqa: RUF012
        "flash": ("vector", "unroll", "prefetch"),
        "flash_decode": ("vector", "ahead"),
        "flash_decode_subgroup": ("vector", "ahead"),
        "flash_subgroup_matrix": ("vector", "unroll", "ahead", "slack"),
    }
    options = (
        Option("batch", "Entries of the batch.", int, 1),
        Option("heads", "Query heads.", int),
        Option("kv_heads", "Heads of K and V, which query heads share in groups; 0: as many.", int, 0),
        Option("seq", "Queries; with --decode keys.", int),
        Option("kv_seq", "Keys; 0: as many as queries.", int, 0),
        Option("head_dim", "Elements of a head of Q and K.", int),
        Option("v_head_dim", "Elements of a head of V and O; 0: the same.", int, 0),
        Option("dtype", "Element type in memory; softmax and sums are f32.", ("f32", "f16"), "f32"),
        Option("layout", "How Q, K and V lie in memory.", get_args(Layout), "bshd"),
        Option(
            "causal", "Queries see no later keys; the last query has the last key's position.", bool, False
        ),
        Option("window", "Queries see keys less than this far away; 0: all.", int, 0),
        Option("scale", "Factor of Q·Kᵀ; 0: 1/√head_dim.", float, 0.0),
        Option("softcap", "Scores s become c·tanh(s/c); 0: they stay.", float, 0.0),
        Option("mask", "A buffer that is added to scores, or says which count.", get_args(Mask), "none"),
        Option(
            "mask_broadcast",
            "Dimensions along which one mask serves all: batch, heads, queries.",
            get_args(Broadcast),
            "bh",
        ),
        Option("alibi", "Scores fall with the distance, by a slope for each head.", bool, False),
        Option("lengths", "Each entry of the batch has a number of keys of its own.", bool, False),
        Option("capacity", "Rows that K and V have room for, as in a cache; 0: no more than keys.", int, 0),
        Option("sinks", "Each head has one more score, which adds nothing.", bool, False),
        Option("lse", "The logarithm of each softmax's sum as a second output.", bool, False),
        Option("accumulate", "Type of products and of short sums; others are f32.", ("f32", "f16"), "f32"),
        Option("decode", "One query; --seq (or --kv-seq) says how many keys.", bool, False),
    )

    def problem_from_options(self, values: Mapping[str, Any]) -> AttentionProblem:
        given = dict(values)
        decode = given.pop("decode", False)
        if decode:
            if given.get("seq") is not None and given.get("kv_seq"):
                raise InvalidProblem(
                    "--decode is one query: give either --seq or --kv-seq, the number of keys"
                )
            if not given.get("kv_seq"):
                if given.get("seq") is not None:
                    check_size("seq", given["seq"])
                given["kv_seq"] = given.get("seq")
            given["seq"] = 1 if given["kv_seq"] is not None else None
        missing = [f"--{n.replace('_', '-')}" for n in ("heads", "seq", "head_dim") if given.get(n) is None]
        if missing:
            raise InvalidProblem(f"give {' and '.join(missing)}")
        return AttentionProblem(**given)

    def check_problem(self, problem: AttentionProblem) -> None:
        check_problem(problem)

    def label(self, problem: AttentionProblem) -> str:
        return label(problem)

    def device_rules(
        self, variant: str, problem: AttentionProblem, profile: DeviceProfile
    ) -> tuple[Rule, ...]:
        if variant == "flash_decode_subgroup":
            return (matrices.subgroup_rule(profile),)
        if variant != "flash_subgroup_matrix":
            return ()
        return (*matrices.device_rules(profile, "f16", "f32"), *sums_in_f16(profile))

    def resources(self, problem: AttentionProblem, config: AttentionConfig) -> tuple[Resources, ...]:
        return resources(problem, config)

    def default(self, problem: AttentionProblem, profile: DeviceProfile | None) -> AttentionConfig:
        return default(problem, profile)

    def baseline(self, problem: AttentionProblem, profile: DeviceProfile | None) -> AttentionConfig:
        return Naive(workgroup=64)

    def plan(self, problem: AttentionProblem, config: AttentionConfig, *, specialize: bool) -> Plan:
        return plan(problem, config, specialize=specialize)

    def flops(self, problem: AttentionProblem) -> float:
        """Of both products, for the (query, key) pairs that a causal mask leaves: half of a square."""
        p = problem
        pairs: float = p.seq * p.kv_seq
        if p.causal:
            pairs = p.seq * (p.kv_seq - p.seq / 2) if p.kv_seq >= p.seq else p.kv_seq**2 / 2
        if p.window:
            pairs = min(pairs, p.seq * min(p.window * (1 if p.causal else 2), p.kv_seq))
        return 2.0 * p.batch * p.heads * pairs * (p.head_dim + p.v_head_dim)

    def distance(self, problem: AttentionProblem, other: AttentionProblem) -> float:
        if problem.dtype != other.dtype:
            return float("inf")
        differences: int = sum(getattr(problem, field) != getattr(other, field) for field in _MINOR)
        differences += bool(problem.window) != bool(other.window)
        nearby = 0.0 if problem.window == other.window else 0.05
        room = 0.0 if problem.capacity == other.capacity else 0.01
        streams = max(problem.seq, other.seq) <= DECODE_QUERIES
        # there the heads of a group are rows of one workgroup, so that K and V are read once
        rows = 2.0 * doublings(problem, other, ("group",)) if streams else 0.0
        return doublings(problem, other, _SIZES) + 0.25 * differences + nearby + room + rows

    def neighbours(self, problem: AttentionProblem, config: AttentionConfig) -> list[Problem]:
        match config:
            case Naive():
                queries, keys = 7, 65
            case Flash() | FlashSubgroupMatrix():
                queries, keys = config.tile_q, config.tile_kv
            case FlashDecode() | FlashDecodeSubgroup():
                queries, keys = max(config.rows // problem.group, 1), config.split
        square = problem.packed
        whole = config.whole_keys if isinstance(config, FlashSubgroupMatrix) else 1
        most = decode.MAX_ROWS // problem.group if isinstance(config, Decode) else MAX_SIZE
        found: list[Problem] = []
        for seq, kv_seq in (
            (queries + 1, 2 * keys + 3),
            (max(queries - 1, 1), max(keys - 1, 1)),
            (2 * queries + 3, 3 * keys),
            (1, keys + 1),
        ):
            length = ceil_div(max(seq, kv_seq) if square else kv_seq, whole) * whole
            rows = min(length, most) if square else seq
            found.append(
                structs.replace(
                    problem,
                    batch=min(problem.batch, 3),
                    kv_heads=min(problem.kv_heads, 2),
                    heads=min(problem.kv_heads, 2) * min(problem.group, 4),
                    seq=rows,
                    kv_seq=rows if square else length,
                    capacity=rows if square else length + (5 if problem.capacity > problem.kv_seq else 0),
                )
            )
        return [near for near in found if near != problem]

    def inputs(self, problem: AttentionProblem, seed: int, *, integers: bool) -> "dict[str, Array]":
        from autotune.kernels.attention import numeric  # keeps NumPy out of the look-up path

        return numeric.inputs(problem, seed, integers=integers)

    def reference(self, problem: AttentionProblem, inputs: "Mapping[str, Array]") -> "dict[str, Float64]":
        from autotune.kernels.attention import numeric

        return numeric.reference(problem, inputs)

    def exact_up_to(self, problem: AttentionProblem) -> float:
        return 0.0  # a softmax makes fractions

    def tolerance(self, problem: AttentionProblem, expected: "Float64") -> "Float64":
        from autotune.kernels.attention import numeric

        return numeric.tolerance(problem, expected)


ATTENTION = Attention()
