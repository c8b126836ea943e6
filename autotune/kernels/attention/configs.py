"""What can be chosen: the variants and their parameters."""

from typing import Annotated, Literal

from msgspec import Meta

from autotune.kernels.matrices import MatrixShape, SubgroupSize
from autotune.model import Config


class Naive(Config, frozen=True, kw_only=True, tag="naive"):
    """Three passes: all scores to memory, softmax over their rows, product with V."""

    workgroup: Annotated[int, Meta(ge=1, le=1024)]


class Flash(Config, frozen=True, kw_only=True, tag="flash"):
    """A tile of queries against tiles of keys, with an online softmax; sums in registers."""

    vector: Literal[1, 4]
    staged: Literal["storage", "f32"]
    tile_q: Annotated[int, Meta(ge=4, le=512)]
    tile_kv: Annotated[int, Meta(ge=4, le=256)]
    thread_q: Annotated[int, Meta(ge=4, le=16)]
    thread_kv: Annotated[int, Meta(ge=1, le=16)]
    thread_v: Annotated[int, Meta(ge=4, le=64)]
    tile_d: Annotated[int, Meta(ge=4, le=256)]
    q_resident: bool
    k_from: Literal["workgroup", "storage"]
    v_from: Literal["workgroup", "storage"]
    v_rows: Annotated[int, Meta(ge=1, le=256)]
    p_sliced: bool
    along_d: Literal[1, 2, 4]
    unroll: Annotated[int, Meta(ge=4, le=256)]
    prefetch: bool
    pad_p: Literal[0, 1]
    chain: Literal[0, 4, 8, 16]

    @property
    def threads_kv(self) -> int:
        """Invocations along the keys, and along the columns of V."""
        return self.tile_kv // self.thread_kv

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.tile_q // self.thread_q * self.threads_kv

    @property
    def p_rows(self) -> int:
        """Keys of P that are in workgroup memory at a time."""
        return self.v_rows if self.p_sliced else self.tile_kv

    @property
    def tile_v(self) -> int:
        """Columns of V and O that a workgroup covers."""
        return self.thread_v * self.threads_kv

    def q_depth(self, head_dim: int) -> int:
        """Elements of a query that are in workgroup memory at a time."""
        return -(-head_dim // self.tile_d) * self.tile_d if self.q_resident else self.tile_d


class FlashDecode(Config, frozen=True, kw_only=True, tag="flash_decode"):
    """Few queries: keys are split over workgroups, and a second pass merges their results."""

    rows: Literal[1, 2, 4, 8, 16]
    lanes_d: Literal[2, 4, 8, 16, 32]
    slots: Annotated[int, Meta(ge=1, le=256)]
    unroll: Literal[1, 2, 4, 8]
    steps: Annotated[int, Meta(ge=1, le=256)]
    ahead: Literal["no", "values", "tile"]
    merge_threads: Literal[1, 2, 4, 8]
    vector: Literal[1, 4]

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.lanes_d * self.slots

    @property
    def tile_kv(self) -> int:
        """Keys that a workgroup takes at a time."""
        return self.slots * self.unroll

    @property
    def split(self) -> int:
        """Keys that a workgroup takes in all."""
        return self.tile_kv * self.steps


class FlashDecodeSubgroup(Config, frozen=True, kw_only=True, tag="flash_decode_subgroup"):
    """The same, for subgroups of a known size: products, scores and the softmax stay in their registers."""

    rows: Literal[1, 2, 4, 8, 16]
    lanes_d: Literal[2, 4, 8, 16, 32, 64]
    unroll: Literal[1, 2, 4, 8, 16]
    subgroups: Annotated[int, Meta(ge=1, le=64)]
    steps: Annotated[int, Meta(ge=1, le=256)]
    ahead: Literal["no", "values", "tile"]
    subgroup_size: Literal[4, 8, 16, 32, 64]
    merge_threads: Literal[1, 2, 4, 8]
    vector: Literal[1, 4]

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.subgroups * self.subgroup_size

    @property
    def tile_kv(self) -> int:
        """Keys that a workgroup takes at a time."""
        return self.invocations // self.lanes_d * self.unroll

    @property
    def split(self) -> int:
        """Keys that a workgroup takes in all."""
        return self.tile_kv * self.steps


class FlashSubgroupMatrix(Config, frozen=True, kw_only=True, tag="flash_subgroup_matrix"):
    """The walk of `Flash` with both products on matrix units; each subgroup has queries of its own."""

    matrix: MatrixShape
    subgroup_size: SubgroupSize
    subgroups: Annotated[int, Meta(ge=1, le=32)]
    rows: Annotated[int, Meta(ge=4, le=128)]
    tile_kv: Annotated[int, Meta(ge=8, le=256)]
    parts_v: Annotated[int, Meta(ge=1, le=8)]
    row_lanes: Literal[1, 2, 4, 8]
    q_from: Literal["registers", "workgroup"]
    k_from: Literal["workgroup", "storage"]
    v_from: Literal["workgroup", "storage"]
    ahead: Literal["no", "softmax", "scores"]
    scores: Literal["f32", "f16"]
    pad: Literal[0, 2]
    unroll: bool
    slack: Annotated[int, Meta(ge=0, le=8)]
    vector: Literal[1, 4]

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.subgroups * self.subgroup_size

    @property
    def tile_q(self) -> int:
        """Queries of a workgroup."""
        return self.subgroups * self.rows

    @property
    def whole_keys(self) -> int:
        """What the number of keys must be a multiple of: fragments straight from memory take whole tiles."""
        return self.tile_kv if "storage" in (self.k_from, self.v_from) else 1


Decode = FlashDecode | FlashDecodeSubgroup
"""Variants that split the keys and merge the results."""
AttentionConfig = Naive | Flash | Decode | FlashSubgroupMatrix
