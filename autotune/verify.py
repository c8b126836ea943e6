"""Proves a candidate right against a float64 reference before anyone times it.

Outputs start as a NaN with a bit pattern of its own, so that an element nobody wrote shows. Behind
every buffer lie guard bytes: behind outputs the same pattern, which must survive; behind inputs
another NaN, which poisons any result it reaches and is not mistaken for an unwritten one.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from autotune import bounds
from autotune.bounds import Bits, Bounds, Float64
from autotune.kernels.base import Family
from autotune.model import DeviceProfile, Plan, Problem
from autotune.runtime.base import Contents

GUARD_BYTES = 256
_POISON: dict[str, Bits] = {"f32": np.uint32(0x7FC5_A5A5), "f16": np.uint16(0x7EA5)}
_PAST_INPUT: dict[int, Bits] = {4: np.uint32(0x7FCA_5A5A), 2: np.uint16(0x7E5A)}
"""By bytes of an element."""
_FLOATS: dict[str, type[np.floating[Any]]] = {"f32": np.float32, "f16": np.float16}


class Check(Struct, frozen=True):
    """Everything needed to judge the outputs of one problem."""

    contents: dict[str, bytes]
    """What each data buffer holds before a run, guards included."""
    elements: dict[str, str]
    """Element type of each output."""
    expected: dict[str, Float64]
    tolerance: dict[str, Float64]
    bounds: dict[str, Bounds]
    """Of each output: a shorter way to the same verdict for results that are right."""

    def complaint(self, outputs: Contents) -> str | None:
        """What is wrong with these outputs, or None when they are right."""
        for name, expected in self.expected.items():
            poison = _POISON[self.elements[name]]
            bits = np.frombuffer(outputs[name], dtype=poison.dtype)
            results = bits[: expected.size].view(_FLOATS[self.elements[name]])
            if self.bounds[name].hold(results, poison) and np.all(bits[expected.size :] == poison):
                continue
            reason = _compare(results, bits, poison, expected, self.tolerance[name])
            if reason is not None:
                return f"{name}: {reason}"
        return None


def prepare(
    family: Family, problem: Problem, plan: Plan, profile: DeviceProfile, *, seed: int, integers: bool = False
) -> Check:
    """Inputs, poisoned outputs and the float64 reference of a problem.

    `plan` may be the plan of any config: a family's configs share their data buffers. Where the
    reference is NaN (gaps between rows), a kernel must not write. With
    `integers` the inputs are small whole numbers, whose sums are exact in any order, and must be so.
    """
    inputs = family.inputs(problem, seed, integers=integers)
    expected = family.reference(problem, inputs)
    elements = {buffer.name: buffer.element for buffer in plan.buffers if buffer.role == "output"}
    largest = min(profile.limits["maxStorageBufferBindingSize"], profile.limits["maxBufferSize"])
    contents = {name: _guarded(data, largest) for name, data in inputs.items()}
    for name, values in expected.items():
        poison = _POISON[elements[name]]
        before = np.full(values.size, poison)
        if name in inputs:  # the kernel reads what is there; gaps between rows are poisoned all the same
            there = inputs[name].ravel()
            before = np.where(np.isnan(there), poison, there.view(poison.dtype))
        contents[name] = _guarded(before, largest, poison)
    tolerance = {name: family.tolerance(problem, values) for name, values in expected.items()}
    limit = family.exact_up_to(problem) if integers else 0.0
    if limit > 0:
        tolerance = {
            name: np.where(np.abs(values) <= limit, 0.0, tolerance[name]) for name, values in expected.items()
        }
    return Check(
        contents=contents,
        elements=elements,
        expected=expected,
        tolerance=tolerance,
        bounds={name: bounds.of(values, tolerance[name]) for name, values in expected.items()},
    )


def _guarded(data: NDArray[np.generic], largest: int, poison: Bits | None = None) -> bytes:
    """The data, padded to whole vec4s, with a guard behind it where the device's limits leave room."""
    if poison is None:
        poison = _PAST_INPUT[data.dtype.itemsize]
    raw = data.tobytes()
    room = GUARD_BYTES + -len(raw) % 16
    if len(raw) + room > largest:
        room = -len(raw) % 16
    return raw + np.full(room // poison.dtype.itemsize, poison).tobytes()


def _compare(
    results: NDArray[np.floating[Any]],
    bits: NDArray[Any],
    poison: Bits,
    expected: Float64,
    tolerance: Float64,
) -> str | None:
    """What is wrong with results, which lie at the start of these bits of a buffer."""
    gaps = np.isnan(expected).ravel()
    unwritten = int(np.count_nonzero((bits[: expected.size] == poison) & ~gaps))
    if unwritten:
        return f"{unwritten} of {expected.size} elements were never written"
    if np.any(bits[expected.size :] != poison):
        return "wrote past the end of the buffer"
    if np.any(bits[: expected.size][gaps] != poison):
        return "wrote between the rows"
    got = results.reshape(expected.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        close: NDArray[np.bool_] = np.abs(got - expected) <= tolerance  # NaN is not
    wrong = ~close & ~gaps.reshape(expected.shape)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0]) if count < wrong.size else (0,) * wrong.ndim
    return (
        f"{count} of {expected.size} elements are wrong, first at {list(first)}: "
        f"{float(got[first]):.7g} instead of {float(expected[first]):.7g}"
    )
