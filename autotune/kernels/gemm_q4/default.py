"""A good config without tuning, for any device: legal wherever WebGPU's base limits hold."""

from typing import Any

from msgspec import structs

from autotune.expression import ceil_div
from autotune.kernels.gemm_q4.configs import Blocked, GemmQ4Config, Gemv, MatrixUnits, SplitK
from autotune.kernels.gemm_q4.matrix import MATRIX_RULES, PRODUCT
from autotune.kernels.gemm_q4.problem import GemmQ4Problem
from autotune.kernels.matrix_tiles import default_tiles
from autotune.kernels.tiles import LANES
from autotune.model import DeviceProfile

FULL = 128
"""Workgroups of 64 invocations; with no more than these a large GPU has idle cores, and K is split."""
WANTED = 512
"""Workgroups to aim for when K is split."""
MOST_SPLITS = 16
"""Shares of K at most."""
GEMV_ROWS = 16
"""Rows of A up to which the kernel that streams W is the better choice."""
WORTH_DIGITS = 8192
"""Columns from which on 64 of them a workgroup leave enough workgroups."""
MANY_COLUMNS = 4096
"""Columns from which on an invocation may take four of them and leave enough workgroups."""
MANY_K = 1024
"""K from which on an invocation has several loads to make, so that two may be under way at once."""


def default(problem: GemmQ4Problem, profile: DeviceProfile | None) -> GemmQ4Config:
    """Few rows: stream W. Else tiles of 64×64, 32×128 where there are no more than 32 rows, and 32×32 where
    larger ones would be few however K is split; which it is until a GPU has enough to do. Where a GPU has
    matrix units, many rows in f16 are theirs.
    """
    if problem.m <= GEMV_ROWS:
        return _gemv(problem, profile)
    on_matrices = _on_matrix_units(problem, profile)
    if on_matrices is not None:
        return on_matrices
    on_cpu = profile is not None and profile.is_cpu
    most = 1 if on_cpu else max(min(problem.k // 64, MOST_SPLITS), 1)
    tile_m, tile_n = (32 if size <= 32 else 64 for size in (problem.m, problem.n))
    strip = problem.m <= 32 and problem.n >= 512 and not on_cpu
    if strip:
        tile_n = 128
    elif _tiles(problem, tile_m, tile_n) * max(most, 4) < FULL:
        tile_m = tile_n = 32
    common: dict[str, Any] = {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": 16,
        "thread_m": 8 if strip else tile_m // 8,
        "thread_n": 8 if strip else tile_n // 8,
        "buffering": "prefetch" if strip else "double",
        "unroll_k": 16,
    }
    tiles = _tiles(problem, tile_m, tile_n)
    splits = 1 << max(min(WANTED // tiles, most).bit_length() - 1, 0) if tiles <= FULL else 1
    return SplitK(**common, splits=splits) if splits > 1 else Blocked(**common)


def _on_matrix_units(problem: GemmQ4Problem, profile: DeviceProfile | None) -> MatrixUnits | None:
    """Tiles of 128×128 where these fill a GPU, else smaller ones, K split until they do. None where the
    device has no matrix units for f16.
    """
    for fields in default_tiles(profile, PRODUCT, tile_k=32):
        tiles = _tiles(problem, fields["tile_m"], fields["tile_n"])
        large = fields["tile_m"] == 128
        if large and tiles < FULL:
            continue
        splits = 1 if large else 1 << max(min(WANTED // tiles, problem.k // 256, 8).bit_length() - 1, 0)
        config = MatrixUnits(**fields | {"splits": splits, "group_m": 8 if splits == 1 else 1})
        if all(rule.holds(problem, config.parameters()) for rule in MATRIX_RULES):
            return config
    return None


def _tiles(problem: GemmQ4Problem, tile_m: int, tile_n: int) -> int:
    return ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n)


def _gemv(problem: GemmQ4Problem, profile: DeviceProfile | None) -> Gemv:
    """In whole numbers where there are columns enough to share what they cost, on a GPU that is known to
    multiply them; else loads of 16 codes: longer ones would spread neighbours' reads of A over more lines."""
    rows = 1
    while rows < min(problem.m, 8):
        rows *= 2
    known = profile is not None and not profile.is_cpu and profile.backend != "metal"
    if profile is not None and known and rows == 1 and problem.n >= WORTH_DIGITS and problem.k % 32 == 0:
        return _integers(problem, profile)
    return Gemv(
        rows=rows,
        columns=4 if problem.n >= MANY_COLUMNS else 2,
        lanes_n=4,
        lanes_k=LANES,
        words=2,
        unroll_k=2 if rows <= 2 and problem.k >= MANY_K else 1,
        prefetch=False,
        staging="memory",
        rounds=1,
        products="float",
        reduce="tree",
    )


def _integers(problem: GemmQ4Problem, profile: DeviceProfile) -> Gemv:
    """Sixteen times four columns, with as much of A laid out at a time as there is and memory holds."""
    config = Gemv(
        rows=1,
        columns=4,
        lanes_n=16,
        lanes_k=16,
        words=4,
        unroll_k=1,
        prefetch=False,
        staging="workgroup",
        rounds=1,
        products="integer",
        reduce="subgroup" if "subgroups" in profile.features else "tree",
    )
    for rounds in (8, 4, 2):
        more = structs.replace(config, rounds=rounds)
        room = profile.limits.get("maxComputeWorkgroupStorageSize", 0)
        if rounds * config.lanes_k * config.step <= problem.k and more.workgroup_bytes(problem.group) <= room:
            return more
    return config
