"""What can be chosen: the variants and their parameters."""

from typing import Annotated, Literal

from msgspec import Meta

from autotune.kernels.matrix_tiles import MatrixTiles
from autotune.kernels.tiles import LANES
from autotune.model import Config

QUAD = 16
"""int8 in a vec4<u32>, the unit in which tiles are staged and read."""


class Naive(Config, frozen=True, kw_only=True, tag="naive"):
    """One invocation for each element, straight from memory."""

    workgroup_x: Annotated[int, Meta(ge=1, le=1024)]
    workgroup_y: Annotated[int, Meta(ge=1, le=1024)]


class Blocked(Config, frozen=True, kw_only=True, tag="blocked"):
    """Register blocks of i32 sums over tiles in workgroup memory; the template explains each parameter."""

    tile_m: Annotated[int, Meta(ge=4, le=512)]
    tile_n: Annotated[int, Meta(ge=4, le=512)]
    tile_k: Annotated[int, Meta(ge=QUAD, le=256)]
    thread_m: Annotated[int, Meta(ge=1, le=32)]
    thread_n: Annotated[int, Meta(ge=4, le=32)]
    lanes_n: Annotated[int, Meta(ge=1, le=LANES)]
    vector: Literal[1, 4]
    pad: Literal[0, 1]
    buffering: Literal["single", "prefetch", "double"]
    unroll_k: Annotated[int, Meta(ge=QUAD, le=256)]

    @property
    def invocations(self) -> int:
        """Invocations in a workgroup."""
        return self.tile_m // self.thread_m * (self.tile_n // self.thread_n)

    @property
    def workgroup_bytes(self) -> int:
        """Bytes of workgroup memory that the tiles of A and B take."""
        row = (self.tile_k // QUAD + self.pad) * QUAD
        return (self.tile_m + self.tile_n) * row * (2 if self.buffering == "double" else 1)


class MatrixUnits(MatrixTiles, frozen=True, kw_only=True, tag="subgroup_matrix"):
    """Matrix units that multiply int8 and add in i32."""


GemmI8Config = Naive | Blocked | MatrixUnits


def tile_of(config: GemmI8Config) -> tuple[int, int]:
    """Rows and columns of C that a workgroup computes."""
    if isinstance(config, Naive):
        return config.workgroup_y, config.workgroup_x
    return config.tile_m, config.tile_n


def depth_of(config: GemmI8Config) -> int:
    """How many k, each an int8 of A and of B, a workgroup takes in one round."""
    return 4 if isinstance(config, Naive) else config.tile_k


def vector_of(config: GemmI8Config) -> int:
    """Words of four int8 that one memory access moves: 1 or 4."""
    return config.vector if isinstance(config, Blocked) else 1
