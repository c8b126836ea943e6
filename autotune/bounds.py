"""A quick proof that results lie within their tolerance, in one pass and without temporaries of their size.

`verify` says in float64 what is right. Nearly every candidate is, and by far: bounds that are made once for a
problem show that in float32, a block at a time.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Float32 = NDArray[np.float32]
Bits = np.uint32 | np.uint16
_BLOCK = 1 << 20
"""Elements looked at in one go: what is noted about them stays in a cache. Each of the few calls that a block
takes gives way to other lanes, and may have to wait for them.
"""


class Bounds(Struct, frozen=True):
    """Between which numbers each element of an output is right for certain; NaN where none are known."""

    lower: Float32
    upper: Float32
    gaps: tuple[int, ...]
    """Elements of each block that nobody may write."""

    def hold(self, results: NDArray[np.floating[Any]], poison: Bits) -> bool:
        """Whether these results are right, gaps still poisoned; False where it takes a closer look."""
        room = min(_BLOCK, results.size)
        values, above, below = np.empty(room, np.float32), np.empty(room, np.bool_), np.empty(room, np.bool_)
        for number, gaps in enumerate(self.gaps):
            block = slice(number * _BLOCK, (number + 1) * _BLOCK)
            got = results[block]
            if got.dtype != np.float32:
                values[: got.size] = got
                got = values[: got.size]
            inside = np.greater_equal(got, self.lower[block], out=above[: got.size])
            inside &= np.less_equal(got, self.upper[block], out=below[: got.size])
            if np.count_nonzero(inside) + gaps != got.size:
                return False
            # poison is NaN, which lies within no bounds: as many poisoned elements as gaps are the gaps
            if gaps and np.count_nonzero(results[block].view(poison.dtype) == poison) != gaps:
                return False
        return True


def of(expected: Float64, tolerance: Float64) -> Bounds:
    """Bounds within which `abs(got - expected) <= tolerance` holds, computed in float64.

    Each is itself a number for which that was found true. The rounded difference grows with `got`, so it is
    true of all numbers between the two.
    """
    middle, reach = expected.ravel(), tolerance.ravel()
    lower, upper = np.empty(middle.size, np.float32), np.empty(middle.size, np.float32)
    gaps = []
    for start in range(0, middle.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        lower[block] = _proved(middle[block], reach[block], -1)
        upper[block] = _proved(middle[block], reach[block], 1)
        gaps.append(int(np.count_nonzero(np.isnan(middle[block]))))
    return Bounds(lower=lower, upper=upper, gaps=tuple(gaps))


def _proved(expected: Float64, tolerance: Float64, side: int) -> Float32:
    """The float32 at the end of the tolerance on one side, else the next one inwards, else NaN."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        end = (expected + side * tolerance).astype(np.float32)
        for beyond in (np.float32(-side * np.inf), np.float32(np.nan)):
            (outside,) = np.nonzero(~(np.abs(end - expected) <= tolerance))
            end[outside] = np.nextafter(end[outside], beyond)  # towards NaN is NaN
        return end
