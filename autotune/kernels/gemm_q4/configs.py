"""What can be chosen: the variants and their parameters."""

from typing import Annotated, Literal

from msgspec import Meta

from autotune.kernels.gemm_q4.problem import CODES
from autotune.kernels.matrix_tiles import MatrixTiles
from autotune.model import Config

LANES_N = 8
"""Of the neighbouring invocations that lie together over a tile (`tiles.LANES`), how many lie along N."""


class Naive(Config, frozen=True, kw_only=True, tag="naive"):
    """One invocation for each element, straight from memory."""

    workgroup_x: Annotated[int, Meta(ge=1, le=1024)]
    workgroup_y: Annotated[int, Meta(ge=1, le=1024)]


class Gemv(Config, frozen=True, kw_only=True, tag="gemv"):
    """A few rows of A at a time, with each column of W shared out along K."""

    rows: Annotated[int, Meta(ge=1, le=16)]
    columns: Literal[1, 2, 4, 8]
    lanes_n: Annotated[int, Meta(ge=1, le=64)]
    lanes_k: Annotated[int, Meta(ge=1, le=256)]
    words: Literal[1, 2, 4]
    unroll_k: Annotated[int, Meta(ge=1, le=8)]
    prefetch: bool
    staging: Literal["memory", "workgroup"]
    rounds: Annotated[int, Meta(ge=1, le=16)]
    products: Literal["float", "integer"]
    reduce: Literal["tree", "subgroup"]

    @property
    def step(self) -> int:
        """k that an invocation takes with one load: eight for each word."""
        return CODES * self.words

    @property
    def sums(self) -> int:
        """Columns whose sums invocations add up together at once, as a scalar or vector: 1, 2 or 4."""
        return min(self.columns, 4)

    def workgroup_bytes(self, group: int) -> int:
        """Bytes of workgroup memory: a sum for each invocation and column, and A's part."""
        words = self.lanes_n * self.lanes_k * self.sums
        loads = self.rounds * self.unroll_k * self.lanes_k
        if self.staging == "workgroup" and self.products == "float":
            words += self.rows * self.step * (loads + 1)  # a vec4 more for each of a load
        elif self.staging == "workgroup":
            parts = max(self.step // group, 1)
            peaks = self.words // 2 if self.words // 2 > parts else 0
            words += self.rows * loads * (3 * self.step // 4 + parts + peaks)
        return 4 * words


class Blocked(Config, frozen=True, kw_only=True, tag="blocked"):
    """Register blocks over tiles in workgroup memory, W dequantised on its way there."""

    tile_m: Annotated[int, Meta(ge=4, le=512)]
    tile_n: Annotated[int, Meta(ge=4, le=512)]
    tile_k: Annotated[int, Meta(ge=8, le=128)]
    thread_m: Annotated[int, Meta(ge=4, le=32)]
    thread_n: Annotated[int, Meta(ge=4, le=32)]
    buffering: Literal["single", "prefetch", "double"]
    unroll_k: Annotated[int, Meta(ge=1, le=128)]

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.tile_m // self.thread_m * (self.tile_n // self.thread_n)


class SplitK(Blocked, frozen=True, kw_only=True, tag="split_k"):
    """Register blocks over a share of K each; a second pass adds the shares. For few tiles of C."""

    splits: Annotated[int, Meta(ge=2, le=64)]


class MatrixUnits(MatrixTiles, frozen=True, kw_only=True, tag="subgroup_matrix"):
    """Matrix units, W dequantised to f16 on its way to workgroup memory."""

    splits: Annotated[int, Meta(ge=1, le=64)]


GemmQ4Config = Naive | Gemv | Blocked | SplitK | MatrixUnits


def tile_of(config: GemmQ4Config) -> tuple[int, int]:
    """Rows and columns of C that a workgroup computes."""
    match config:
        case Naive():
            return config.workgroup_y, config.workgroup_x
        case Gemv():
            return config.rows, config.columns * config.lanes_n
        case Blocked() | MatrixUnits():
            return config.tile_m, config.tile_n


def depth_of(config: GemmQ4Config) -> int:
    """How many k a workgroup takes in one round."""
    match config:
        case Naive():
            return CODES
        case Gemv():
            return config.step * config.lanes_k * config.unroll_k * config.rounds
        case Blocked() | MatrixUnits():
            return config.tile_k * splits_of(config)


def splits_of(config: GemmQ4Config) -> int:
    """Shares that K is cut into."""
    return config.splits if isinstance(config, SplitK | MatrixUnits) else 1


def multiple_of(config: GemmQ4Config) -> int:
    """What K has to be a multiple of, besides the problem's group."""
    match config:
        case Naive() | MatrixUnits():
            return CODES
        case Gemv():
            return config.step
        case Blocked():
            return config.tile_k
