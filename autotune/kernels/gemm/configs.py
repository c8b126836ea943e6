"""What can be chosen: the variants of GEMM and their parameters."""

from typing import Annotated, Literal

from msgspec import Meta

from autotune.kernels.matrix_tiles import MatrixTiles
from autotune.kernels.tiles import LANES
from autotune.model import Config


class Naive(Config, frozen=True, kw_only=True, tag="naive"):
    """One invocation for each element, straight from memory."""

    workgroup_x: Annotated[int, Meta(ge=1, le=1024)]
    workgroup_y: Annotated[int, Meta(ge=1, le=1024)]


class Tiled(Config, frozen=True, kw_only=True, tag="tiled"):
    """Square tiles through workgroup memory, one invocation for each element."""

    tile: Annotated[int, Meta(ge=2, le=32)]


class Blocked(Config, frozen=True, kw_only=True, tag="blocked"):
    """Register blocks of vec4s over tiles in workgroup memory; the template explains each parameter."""

    tile_m: Annotated[int, Meta(ge=4, le=512)]
    tile_n: Annotated[int, Meta(ge=4, le=512)]
    tile_k: Annotated[int, Meta(ge=4, le=64)]
    thread_m: Annotated[int, Meta(ge=4, le=32)]
    thread_n: Annotated[int, Meta(ge=4, le=32)]
    lanes_n: Annotated[int, Meta(ge=1, le=LANES)]
    vector: Literal[1, 4]
    strips: bool
    k_major_a: bool
    banks: Literal["plain", "pad", "swizzle"]
    buffering: Literal["single", "prefetch", "double", "ahead"]
    commit_k: Annotated[int, Meta(ge=0, le=63)]
    unroll_k: Annotated[int, Meta(ge=1, le=64)]
    group_m: Annotated[int, Meta(ge=1, le=64)]
    order: Literal["rows", "zigzag", "scalars", "pairs"]
    staged: Literal["storage", "accumulator"]

    @property
    def threads_m(self) -> int:
        """Invocations along M."""
        return self.tile_m // self.thread_m

    @property
    def threads_n(self) -> int:
        """Invocations along N."""
        return self.tile_n // self.thread_n

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.threads_m * self.threads_n * slices_of(self)

    def tile_vec4s(self) -> int:
        """vec4s of workgroup memory that the tiles take."""
        pad = 1 if self.banks == "pad" else 0
        if self.k_major_a:
            tile_a = self.tile_k * (self.tile_m // 4 + pad)
        else:
            tile_a = self.tile_m * (self.tile_k // 4 + pad)
        tile_b = self.tile_k * self.tile_n // 4
        return (tile_a + tile_b) * (2 if self.buffering in ("double", "ahead") else 1) * slices_of(self)

    def sum_vec4s(self) -> int:
        """vec4s of workgroup memory through which slices add their sums, a row of a block at a time."""
        slices = slices_of(self)
        return (slices - 1) * self.thread_n // 4 * self.threads_m * self.threads_n


class SplitK(Blocked, frozen=True, kw_only=True, tag="split_k"):
    """Register blocks over a share of K each; a second pass adds the shares. For long K and small C."""

    splits: Annotated[int, Meta(ge=2, le=256)]


class SliceK(Blocked, frozen=True, kw_only=True, tag="slice_k"):
    """Register blocks whose steps of k several sets of invocations of a workgroup share; they add their sums
    in workgroup memory. For a small C. K may be split besides."""

    slices: Annotated[int, Meta(ge=2, le=16)]
    splits: Annotated[int, Meta(ge=1, le=256)]


class Packed(Blocked, frozen=True, kw_only=True, tag="packed"):
    """Register blocks over copies of A and B, which a pass before has made, in rows across K of whole vec4s.
    For ragged rows, and for a large A that is contiguous along K."""


class Gemv(Config, frozen=True, kw_only=True, tag="gemv"):
    """The larger of A and B streamed past a few rows or columns of the other; K shared out among invocations
    and workgroups."""

    stream: Literal["a", "b"]
    rows: Annotated[int, Meta(ge=1, le=16)]
    columns: Literal[1, 2, 4, 8]
    lanes_n: Annotated[int, Meta(ge=1, le=256)]
    threads_k: Annotated[int, Meta(ge=1, le=256)]
    vector: Literal[1, 4]
    unroll_k: Annotated[int, Meta(ge=1, le=8)]
    splits: Annotated[int, Meta(ge=1, le=256)]
    staging: Literal["memory", "workgroup"]
    reduce: Literal["tree", "subgroup"]

    @property
    def sums(self) -> int:
        """Sums that an invocation adds to those of others at once, as a scalar or vector: 1, 2 or 4."""
        return min(self.columns, 4)


class MatrixUnits(MatrixTiles, frozen=True, kw_only=True, tag="subgroup_matrix"):
    """Matrix units; a second pass adds the shares of K where it is split."""

    splits: Annotated[int, Meta(ge=1, le=256)]


class PackedMatrixUnits(MatrixUnits, frozen=True, kw_only=True, tag="packed_subgroup_matrix"):
    """Matrix units, fed from copies of A and B in rows across K, which a pass before has made."""


class CooperativeMatrix(Config, frozen=True, kw_only=True, tag="cooperative_matrix"):
    """Matrix units in naga's dialect. Exported only: no variant of the family, never searched or run."""

    edge: Literal[8, 16]
    tile_m: int
    tile_n: int
    tile_k: int
    parts_m: int
    parts_n: int
    invocations: int
    group_m: int


PackedConfig = Packed | PackedMatrixUnits
"""Those that copy operands first."""
GemmConfig = (
    Naive
    | Tiled
    | Blocked
    | SplitK
    | SliceK
    | Packed
    | Gemv
    | MatrixUnits
    | PackedMatrixUnits
    | CooperativeMatrix
)


def tile_of(config: GemmConfig) -> tuple[int, int]:
    """Rows and columns of C that a workgroup computes."""
    match config:
        case Naive():
            return config.workgroup_y, config.workgroup_x
        case Tiled():
            return config.tile, config.tile
        case Gemv():
            wide = config.columns * config.lanes_n
            return (wide, config.rows) if config.stream == "a" else (config.rows, wide)
        case _:
            return config.tile_m, config.tile_n


def depth_of(config: GemmConfig) -> int:
    """How many k the workgroups of one tile take in one round, all splits of K together."""
    match config:
        case Naive():
            return 1
        case Tiled():
            return config.tile
        case Gemv():
            return 4 * config.unroll_k * config.threads_k * config.splits
        case _:
            return tile_depth(config) * splits_of(config)


def tile_depth(config: Blocked | MatrixUnits | CooperativeMatrix) -> int:
    """How many k a workgroup takes in one round."""
    return config.tile_k * slices_of(config)


def vector_of(config: GemmConfig) -> int:
    """Elements of A or B that one memory access moves: 1 or 4; matrix units have it from the problem."""
    return config.vector if isinstance(config, Blocked | Gemv) else 1


def splits_of(config: GemmConfig) -> int:
    """Shares that K is cut into."""
    return config.splits if isinstance(config, SplitK | SliceK | Gemv | MatrixUnits) else 1


def slices_of(config: GemmConfig) -> int:
    """Sets of invocations of a workgroup that share its steps of k."""
    return config.slices if isinstance(config, SliceK) else 1
