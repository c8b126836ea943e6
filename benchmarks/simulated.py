"""Tuning spaces from analytical models, so that the search is not fitted to the one recorded space.

    python -m benchmarks.search simulated:gemm-large simulated:stencil-small …

Each model counts what a kernel of that kind needs (registers, workgroup memory, traffic, instructions), turns
it into occupancy and a roofline time (Williams, Waterman & Patterson 2009; Volkov 2016 for occupancy against
parallelism within a thread), and adds what makes real spaces hard: waves, bank conflicts, spilled registers,
switches whose effect depends on the rest, and 1 % of noise. The numbers are invented; the landscapes have the
shapes of those of the field's benchmark kernels.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise, product

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from autotune.space import Axis, Point, Space

VARIANT = "simulated"
Times = dict[Point, float | None]
"""Seconds; None where the config fails."""
Columns = Mapping[str, NDArray[np.int64]]
Array = NDArray[np.float64]


class Machine(Struct, frozen=True):
    """An invented GPU."""

    cores: int = 68
    flops: float = 13e12
    bandwidth: float = 600e9
    cache_bandwidth: float = 2.2e12
    registers: int = 65536
    shared: int = 65536
    threads: int = 1024
    warp: int = 32
    latency: float = 24.0
    """Independent instructions (warps × chains of each) that fill a core."""
    quirk: int = 0
    """Seed of what no model explains."""


MACHINES = {
    "large": Machine(
        cores=108, flops=19e12, bandwidth=1.5e12, cache_bandwidth=4e12, shared=163840, threads=2048, quirk=1
    ),
    "medium": Machine(quirk=2),
    "small": Machine(
        cores=10,
        flops=1.1e12,
        bandwidth=60e9,
        cache_bandwidth=250e9,
        shared=32768,
        registers=32768,
        latency=12,
        quirk=3,
    ),
    "wide": Machine(
        cores=60,
        flops=10e12,
        bandwidth=480e9,
        cache_bandwidth=2e12,
        threads=2560,
        warp=64,
        latency=10,
        quirk=4,
    ),
}


def _columns(values: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.int64]]:
    grid = np.array(list(product(*values.values())), dtype=np.int64)
    return dict(zip(values, grid.T, strict=True))


def _kept(columns: Columns, keep: NDArray[np.bool_]) -> dict[str, NDArray[np.int64]]:
    return {name: column[keep] for name, column in columns.items()}


def _occupancy(gpu: Machine, threads: Array, registers: Array, shared: Array) -> tuple[Array, Array]:
    """Workgroups a core, and resident warps a core."""
    warps = np.ceil(threads / gpu.warp)
    by_registers = gpu.registers // (np.maximum(np.ceil(registers / 8) * 8, 16) * warps * gpu.warp)
    by_shared = np.where(shared > 0, gpu.shared // np.maximum(shared, 1), 32)
    groups = np.minimum.reduce(
        [by_registers, by_shared, gpu.threads // (warps * gpu.warp), np.full_like(warps, 16)]
    )
    return groups, groups * warps


def _assemble(
    values: Mapping[str, tuple[int, ...]], columns: Columns, seconds: Array, quirk: int
) -> tuple[Space, Times]:
    axes = tuple(Axis(name, tuple(options)) for name, options in values.items())
    place = {name: {value: i for i, value in enumerate(options)} for name, options in values.items()}
    rng = np.random.default_rng(quirk)
    seconds = seconds * np.exp(rng.normal(0, 0.01, len(seconds)))
    for (
        name,
        column,
    ) in columns.items():  # a few values of each axis are a little better or worse than the model says
        bumps = dict(zip(values[name], np.exp(rng.normal(0, 0.02, len(values[name]))), strict=True))
        seconds = seconds * np.array([bumps[value] for value in column.tolist()])
    names = list(values)
    for first, second in pairwise(names):
        bumps = np.exp(rng.normal(0, 0.03, (len(values[first]), len(values[second]))))
        rows = np.array([place[first][value] for value in columns[first].tolist()])
        cols = np.array([place[second][value] for value in columns[second].tolist()])
        seconds = seconds * bumps[rows, cols]
    indices = zip(*([place[name][value] for value in columns[name].tolist()] for name in values), strict=True)
    times: Times = {
        (VARIANT, tuple(index)): float(took) if np.isfinite(took) else None
        for index, took in zip(indices, seconds, strict=True)
    }
    return Space({VARIANT: axes}, times), times


def gemm(gpu: Machine, size: int = 4096) -> tuple[Space, Times]:
    """A product of matrices in two levels of tiles, staged or not through workgroup memory."""
    values = {
        "MWG": (16, 32, 64, 128),
        "NWG": (16, 32, 64, 128),
        "KWG": (16, 32),
        "MDIMC": (8, 16, 32),
        "NDIMC": (8, 16, 32),
        "MDIMA": (8, 16, 32),
        "NDIMB": (8, 16, 32),
        "VWM": (1, 2, 4, 8),
        "VWN": (1, 2, 4, 8),
        "SA": (0, 1),
        "SB": (0, 1),
    }
    c = _columns(values)
    threads = c["MDIMC"] * c["NDIMC"]
    keep = (c["MWG"] % (c["MDIMC"] * c["VWM"]) == 0) & (c["NWG"] % (c["NDIMC"] * c["VWN"]) == 0)
    keep &= (c["MWG"] % (c["MDIMA"] * c["VWM"]) == 0) & (c["NWG"] % (c["NDIMB"] * c["VWN"]) == 0)
    keep &= (threads % c["MDIMA"] == 0) & (threads % c["NDIMB"] == 0)
    keep &= (c["KWG"] % np.maximum(threads // c["MDIMA"], 1) == 0) & (
        c["KWG"] % np.maximum(threads // c["NDIMB"], 1) == 0
    )
    shared = 4 * c["KWG"] * (c["MWG"] * c["SA"] + c["NWG"] * c["SB"])
    keep &= shared <= gpu.shared // 2
    c, threads, shared = _kept(c, keep), threads[keep].astype(float), shared[keep].astype(float)
    wm, wn = c["MWG"] / c["MDIMC"], c["NWG"] / c["NDIMC"]
    registers = wm * wn + wm + wn + 18 + 2 * (c["VWM"] + c["VWN"])
    spill = 1 + np.maximum(registers - 250, 0) / 60
    groups, warps = _occupancy(gpu, threads, np.minimum(registers, 250), shared)
    chains = np.minimum(wm * wn, 16) / 2
    busy = 1 - np.exp(-warps * chains / gpu.latency)
    loads = wm / c["VWM"] * np.where(c["SA"], 1.0, 1.9) + wn / c["VWN"] * np.where(c["SB"], 1.0, 1.6)
    conflicts = 1 + 0.3 * c["SA"] * (c["VWM"] == 8) + 0.12 * c["SB"] * ((c["NDIMC"] == 8) & (c["VWN"] == 1))
    issue = wm * wn / (wm * wn + 1.5 * loads * conflicts + 3)
    idle_lanes = np.ceil(threads / gpu.warp) * gpu.warp / threads
    flops = 2.0 * size**3
    compute = flops / (gpu.flops * busy * issue) * spill * idle_lanes
    again_a = np.where(c["SA"], 1.0, np.minimum(c["NDIMC"] / 4, 3)) / c["NWG"]
    again_b = np.where(c["SB"], 1.0, np.minimum(c["MDIMC"] / 4, 3)) / c["MWG"]
    wide_a = np.minimum(c["MDIMA"] * c["VWM"], 32) / 32
    wide_b = np.minimum(c["NDIMB"] * c["VWN"], 32) / 32
    traffic = 4.0 * size**3 * (again_a / (0.4 + 0.6 * wide_a) + again_b / (0.4 + 0.6 * wide_b))
    memory = traffic / gpu.cache_bandwidth
    barriers = (c["SA"] | c["SB"]) * size / c["KWG"] * 4e-7 * (size / c["MWG"]) * (size / c["NWG"])
    barriers = barriers / np.maximum(groups, 1) / gpu.cores / np.sqrt(np.maximum(groups, 1))
    count = (size / c["MWG"]) * (size / c["NWG"])
    wave = np.ceil(count / (gpu.cores * np.maximum(groups, 1))) * gpu.cores * np.maximum(groups, 1) / count
    seconds = (np.maximum(compute, memory) + 0.3 * np.minimum(compute, memory) + barriers) * wave
    seconds = np.where((groups < 1) | (registers > 380), np.inf, seconds)
    return _assemble(values, c, seconds, gpu.quirk)


def stencil(gpu: Machine, size: int = 4096) -> tuple[Space, Times]:
    """A stencil over several time steps at once: less traffic for a halo computed again."""
    values = {
        "block_x": (8, 16, 32, 64, 96, 128, 192, 256),
        "block_y": (1, 2, 4, 8, 16, 32),
        "tile_x": (1, 2, 3, 4, 5, 6, 8),
        "tile_y": (1, 2, 3, 4, 5, 6, 8),
        "steps": (1, 2, 3, 4, 5, 6),
        "unroll": (1, 2, 3, 6),
        "power_shared": (0, 1),
    }
    c = _columns(values)
    threads = c["block_x"] * c["block_y"]
    wide, high = c["block_x"] * c["tile_x"], c["block_y"] * c["tile_y"]
    keep = (threads >= 32) & (threads <= 1024) & (c["steps"] % c["unroll"] == 0)
    keep &= (wide > 2 * c["steps"]) & (high > 2 * c["steps"])
    shared = 4 * wide * high * (2 + c["power_shared"])
    keep &= shared <= 49152
    c, threads, shared = _kept(c, keep), threads[keep].astype(float), shared[keep].astype(float)
    wide, high = wide[keep], high[keep]
    registers = 22 + 4.0 * c["tile_x"] * c["tile_y"] + 3 * c["unroll"]
    groups, warps = _occupancy(gpu, threads, np.minimum(registers, 250), shared)
    useful = (wide - 2 * c["steps"]) * (high - 2 * c["steps"]) / (wide * high)
    chains = np.minimum(c["tile_x"] * c["tile_y"], 6) * (1 + 0.15 * (c["unroll"] - 1))
    busy = 1 - np.exp(-warps * np.sqrt(chains) / gpu.latency)
    cells = float(size) ** 2
    compute = cells * 15 * (1 + 0.25 / c["unroll"]) / (gpu.flops * 0.5 * busy * useful)
    line = wide * 4 / (np.ceil(wide * 4 / 128) * 128)
    traffic = cells * 4 * (2 + (1 - c["power_shared"]) * 0.5 * c["steps"]) / useful / line / c["steps"]
    memory = traffic / (gpu.bandwidth * (0.5 + 0.5 * busy))
    barriers = cells / (wide * high * useful) * 1.5e-7 / gpu.cores / np.maximum(groups, 1)
    odd = 1 + 0.12 * (c["tile_x"] % 2 == 1) * (c["tile_x"] > 1) + 0.2 * (c["block_x"] % gpu.warp != 0)
    seconds = (np.maximum(compute, memory) + 0.2 * np.minimum(compute, memory)) * odd + barriers
    return _assemble(values, c, np.where(groups < 1, np.inf, seconds), gpu.quirk + 10)


def branchy(gpu: Machine, size: int = 20_000_000) -> tuple[Space, Times]:
    """Many independent points, each with an inner loop; methods that are named, not ordered."""
    values = {
        "block": tuple(range(32, 1025, 32)),
        "tile": (*range(1, 11), 12, 14, 16, 18, 20),
        "between": (0, 1, 2, 3),
        "method": (0, 1, 2),
        "precomputed": (0, 1),
    }
    c = _columns(values)
    rng = np.random.default_rng(gpu.quirk + 20)
    between, method = rng.uniform(8, 13, 4), rng.uniform(3, 6, 3)
    pair = rng.uniform(0.9, 1.15, (4, 3))
    work = (between[c["between"]] + method[c["method"]]) * pair[c["between"], c["method"]] - 1.5 * c[
        "precomputed"
    ]
    registers = 14 + rng.uniform(2.0, 3.5, 4)[c["between"]] * c["tile"]
    threads = c["block"].astype(float)
    groups, warps = _occupancy(gpu, threads, np.minimum(registers, 250), np.zeros_like(threads))
    busy = 1 - np.exp(-warps * np.sqrt(c["tile"]) / gpu.latency / 1.5)
    loads = 4 * (1 + c["precomputed"]) / c["tile"]
    seconds = size * 600 * (work + loads) / (gpu.flops * 2 * busy)
    seconds = seconds * (1 + np.maximum(registers - 64, 0) / 90) * (1 + 0.02 * (c["tile"] % 2))
    return _assemble(values, c, np.where(groups < 1, np.inf, seconds), gpu.quirk + 20)


def tangled(gpu: Machine) -> tuple[Space, Times]:
    """No kernel at all: random effects of axes and of pairs, a cliff across three, and failing corners."""
    rng = np.random.default_rng(gpu.quirk + 30)
    values = {f"axis{i}": tuple(range(int(count))) for i, count in enumerate(rng.integers(2, 7, 9))}
    c = _columns(values)
    cells = {name: column / max(column.max(), 1) for name, column in c.items()}
    names = list(values)
    keep = (cells[names[0]] + cells[names[1]] + cells[names[2]] < 2.4) & (rng.random(len(c[names[0]])) < 0.25)
    c, cells = _kept(c, keep), {name: cell[keep] for name, cell in cells.items()}
    slow = np.zeros(len(c[names[0]]))
    for name in names:  # a bowl an axis, weights of very different size
        slow += rng.gamma(0.6, 0.5) * (cells[name] - rng.random()) ** 2
    for _ in range(8):
        one, two = rng.choice(names, 2, replace=False)
        slow += rng.gamma(0.6, 0.5) * np.abs(cells[one] - rng.random()) * np.abs(cells[two] - rng.random())
    one, two, three = rng.choice(names, 3, replace=False)
    slow += 0.5 * (cells[one] + cells[two] + cells[three] > 1.6)
    fails = (cells[names[3]] > 0.8) & (cells[names[4]] > 0.6)
    return _assemble(values, c, np.where(fails, np.inf, 1e-3 * np.exp(slow)), gpu.quirk + 30)


_KINDS: dict[str, Callable[[Machine], tuple[Space, Times]]] = {
    "gemm": gemm,
    "stencil": stencil,
    "branchy": branchy,
    "tangled": tangled,
}
NAMES = tuple(f"{kind}-{machine}" for kind in _KINDS for machine in MACHINES)


def simulated(name: str) -> tuple[Space, Times]:
    """The space and its times in seconds by a name such as `gemm-large`."""
    kind, _, machine = name.partition("-")
    with np.errstate(divide="ignore"):  # configs that do not fit get an infinite time
        return _KINDS[kind](MACHINES[machine])
