"""The points of a space as rows of numbers, whose squared distances a surrogate weighs.

- An ordered axis has one column for each step between neighbouring values, 0 before and 1 after it, so that
  the squared distance grows by the same amount at each step: tuning parameters have cliffs. An unordered one
  has a column for each value. Of axes with very many values, several share a column. An axis that several
  variants share has its columns once, so they learn from each other. Values that no legal point has, and axes
  that do not vary, have none.
- Two axes of numbers have two more columns: the logarithms of their product and of their quotient. Kernels
  feel their parameters through those: the invocations of a workgroup are a product, the work of each one is a
  quotient. On recorded and simulated spaces this is what made the search find fast configs sooner.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from autotune.space import Axis, Point, Space, Value

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_COMBINATION_WEIGHT = 0.15
"""Of products and quotients beside axes, before anything is known."""
_FEWEST_VALUES = 3
"""Of an axis that takes part in products and quotients."""
_MOST_COLUMNS = 64
"""Of an axis: recorded tables have columns, such as numbers of runs, with a value for each row."""


class _Block(Struct, frozen=True):
    """The columns of one axis: a row of the table for each place, and the last for variants without it."""

    name: str
    table: Array
    places: dict[Value, int]
    """Of every value. One that no legal point has stands where the next that one has does, or the first where
    values have no order."""
    logarithms: Array | None
    """Of the values, centred; None where they are no numbers above 0, or too few."""


class Encoding:
    """Encodes points of a space, a few at a time: the rows of all would not be small."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._blocks = _blocks(space)
        self._positions = {
            variant: [_position(axes, block.name) for block in self._blocks]
            for variant, axes in space.axes.items()
        }
        self._codes = self._encode(space.points)
        numeric = [i for i, block in enumerate(self._blocks) if block.logarithms is not None]
        together = [
            {
                block.name
                for block, position in zip(self._blocks, self._positions[variant], strict=True)
                if position is not None
            }
            for variant in space.used
        ]
        self._pairs = [
            (i, j)
            for i, j in combinations(numeric, 2)
            if any({self._blocks[i].name, self._blocks[j].name} <= names for names in together)
        ]
        logs = self._logarithms(self._codes)
        combined = (logs[i] + sign * logs[j] for i, j in self._pairs for sign in (1, -1))
        ranges = [(float(of.min()), float(np.ptp(of)) or 1.0) for of in combined] if len(space) else []
        self._lowest, self._span = np.array(ranges or [(0.0, 1.0)]).T  # legal points lie between 0 and 1
        widths = [block.table.shape[1] for block in self._blocks]
        count = len(self._blocks)
        self.axis_of_column = np.concatenate(
            [np.repeat(np.arange(count), widths), count + np.arange(2 * len(self._pairs))]
        ).astype(np.intp)
        """Which columns share a weight."""
        self.prior_weights = np.repeat([1.0, _COMBINATION_WEIGHT], [count, 2 * len(self._pairs)])
        """How much each weight is expected to be, relative to the others."""

    @property
    def axes(self) -> int:
        """How many axes there are, without their combinations; the choice of a variant is one."""
        return len(self._blocks)

    def of(self, rows: Sequence[int] | Rows) -> Array:
        """The encoded points at these places of the space."""
        return self._columns(self._codes[np.asarray(rows, dtype=np.intp)])

    def of_point(self, point: Point) -> Array:
        """One point, whether or not it is legal."""
        row: Array = self._columns(self._encode([point]))[0]
        return row

    def _columns(self, codes: NDArray[np.int32]) -> Array:
        parts: list[Array] = [block.table[codes[:, i]] for i, block in enumerate(self._blocks)]
        logs = self._logarithms(codes)
        if self._pairs:
            columns = [logs[i] + sign * logs[j] for i, j in self._pairs for sign in (1, -1)]
            parts.append((np.stack(columns, axis=1) - self._lowest) / self._span)
        encoded: Array = np.hstack(parts) if parts else np.empty((len(codes), 0))
        return encoded

    def _logarithms(self, codes: NDArray[np.int32]) -> dict[int, Array]:
        """Of the values of each block that has any."""
        return {
            i: block.logarithms[codes[:, i]]
            for i, block in enumerate(self._blocks)
            if block.logarithms is not None
        }

    def _encode(self, points: Sequence[Point]) -> NDArray[np.int32]:
        """The place of each point's value on each block."""
        codes = np.empty((len(points), len(self._blocks)), dtype=np.int32)
        members: dict[str, list[int]] = {}
        for row, (variant, _) in enumerate(points):
            members.setdefault(variant, []).append(row)
        for variant, rows in members.items():
            indices = np.array([points[row][1] for row in rows], dtype=np.intp).reshape(len(rows), -1)
            for column, (block, position) in enumerate(
                zip(self._blocks, self._positions[variant], strict=True)
            ):
                if block.name == "":
                    codes[rows, column] = block.places[variant]
                elif position is None:
                    codes[rows, column] = len(block.table) - 1
                else:
                    values = self._space.axes[variant][position].values
                    places = np.array([block.places[value] for value in values], dtype=np.int32)
                    codes[rows, column] = places[indices[:, position]]
        return codes


def _position(axes: Sequence[Axis], name: str) -> int | None:
    return next((position for position, axis in enumerate(axes) if axis.name == name), None)


def _blocks(space: Space) -> list[_Block]:
    """The axes ('' for the choice of a variant); those with one value tell nothing."""
    every: dict[str, list[Axis]] = {}
    used: dict[str, dict[Value, None]] = {}
    for variant, axes in space.axes.items():
        for axis, indices in zip(axes, space.used.get(variant) or [()] * len(axes), strict=True):
            every.setdefault(axis.name, []).append(axis)
            used.setdefault(axis.name, {}).update(dict.fromkeys(axis.values[index] for index in indices))
    blocks = [_block("", list(space.used), list(space.axes), ordered=False)] if len(space.used) > 1 else []
    for name, values in used.items():
        if len(values) > 1:
            same = every[name]
            known = dict.fromkeys(value for axis in same for value in axis.values)
            ordered = all(axis.ordered for axis in same)
            blocks.append(_block(name, list(values), list(known), ordered=ordered))
    return blocks


def _block(name: str, values: Sequence[Value], known: Sequence[Value], *, ordered: bool) -> _Block:
    """`values` are those that legal points have, among those `known`."""
    count = len(values)
    logarithms = None
    if ordered:
        values = sorted(values)
        places = {value: min(bisect_left(values, value), count - 1) for value in known}
        table = _steps(count)
        numbers = [float(value) for value in values]
        if count >= _FEWEST_VALUES and numbers[0] > 0:
            logs = np.log2(numbers)
            middle = (logs[0] + logs[-1]) / 2
            logarithms = np.append(logs - middle, 0.0)
    else:
        places = dict.fromkeys(known, 0) | {value: place for place, value in enumerate(values)}
        table = math.sqrt(0.5) * np.eye(min(count, _MOST_COLUMNS))[np.arange(count) % _MOST_COLUMNS]
    table = np.vstack([table, table.mean(axis=0)])  # a variant that lacks the axis lies amid all its values
    return _Block(name, table, places, logarithms)


def _steps(count: int) -> Array:
    """A row for each of `count` places: the steps below it, whose ends are at distance 1 from each other."""
    steps = min(max(count - 1, 1), _MOST_COLUMNS)
    reached = np.arange(count)[:, None] * (steps / max(count - 1, 1))
    below: Array = np.clip(reached - np.arange(steps), 0.0, 1.0) / math.sqrt(steps)
    return below
