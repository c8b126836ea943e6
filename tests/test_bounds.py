"""The short way to a verdict: whatever it calls right is right by the definition, for any numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune import bounds, verify
from autotune.verify import Check

FLOATS = {"f32": np.float32, "f16": np.float16}
BITS = {"f32": np.uint32, "f16": np.uint16}
POISON = {"f32": np.uint32(0x7FC5_A5A5), "f16": np.uint16(0x7EA5)}
GUARD = 4


def check_of(expected, tolerance, element):
    return Check(
        contents={},
        elements={"c": element},
        expected={"c": expected},
        tolerance={"c": tolerance},
        bounds={"c": bounds.of(expected, tolerance)},
    )


def poisoned(count, element):
    return np.full(count, POISON[element]).view(FLOATS[element])


def held(expected, tolerance, results):
    element = "f32" if results.dtype == np.float32 else "f16"
    return bounds.of(expected, tolerance).hold(results, POISON[element])


def verdict(buffer, expected, tolerance, element):
    """What `Check.complaint` has to say, one element at a time."""
    values = buffer[: expected.size]
    bits, places = buffer.view(BITS[element]), list(enumerate(expected))
    gaps = [index for index, value in places if np.isnan(value)]
    mine = [index for index, value in places if not np.isnan(value)]
    of = f"c: {{}} of {expected.size} elements"
    if unwritten := sum(bits[index] == POISON[element] for index in mine):
        return of.format(unwritten) + " were never written"
    if any(bits[expected.size :] != POISON[element]):
        return "c: wrote past the end of the buffer"
    if any(bits[index] != POISON[element] for index in gaps):
        return "c: wrote between the rows"
    with np.errstate(all="ignore"):
        wrong = [i for i in mine if not abs(np.float64(values[i]) - expected[i]) <= tolerance[i]]
    if not wrong:
        return None
    first = wrong[0] if len(wrong) < expected.size else 0
    told = f"{float(values[first]):.7g} instead of {float(expected[first]):.7g}"
    return of.format(len(wrong)) + f" are wrong, first at [{first}]: {told}"


@st.composite
def cases(draw):
    """An output with its reference: results near the ends of their tolerance, and a few that are anything."""
    element = draw(st.sampled_from(["f32", "f16"]))
    width = 32 if element == "f32" else 16
    whole = draw(st.booleans())
    expected, tolerance, results = [], [], []
    for _ in range(draw(st.integers(1, 12))):
        value = draw(st.integers(-2048, 2048).map(float) if whole else st.floats(width=64))
        reach = 0.0 if whole else draw(st.sampled_from([0.0, 1e-30, 1e-5, 0.5, 3.0, float("inf")]))
        with np.errstate(all="ignore"):
            near = FLOATS[element](value + draw(st.sampled_from([-1.0, 0.0, 1.0])) * reach)
            near = np.nextafter(near, FLOATS[element](draw(st.sampled_from([-np.inf, near, np.inf]))))
        anything = FLOATS[element](draw(st.floats(width=width)))
        result = draw(st.sampled_from([near, near, near, anything, poisoned(1, element)[0]]))
        if draw(st.integers(0, 5)) == 0:
            value, result = np.nan, draw(st.sampled_from([*[poisoned(1, element)[0]] * 4, result]))
        expected.append(value)
        tolerance.append(reach)
        results.append(result)
    buffer = np.concatenate([np.array(results, FLOATS[element]), poisoned(GUARD, element)])
    if draw(st.integers(0, 7)) == 0:
        buffer[-1] = 0
    return buffer, np.array(expected), np.array(tolerance), element


@given(cases())
def test_the_verdict_is_that_of_the_definition(case):
    buffer, expected, tolerance, element = case
    found = check_of(expected, tolerance, element).complaint({"c": buffer.tobytes()})
    assert found == verdict(buffer, expected, tolerance, element)


@given(cases())
def test_what_is_held_is_right(case):
    buffer, expected, tolerance, element = case
    if held(expected, tolerance, buffer[: expected.size]):
        buffer[expected.size :] = poisoned(GUARD, element)
        assert verdict(buffer, expected, tolerance, element) is None


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("reach", [0.0, 1e-3, 0.25])
def test_right_results_take_no_closer_look(kind, reach):
    exact = np.random.default_rng(0).integers(-200, 200, 2_500_000).astype(kind)
    expected = exact.astype(np.float64)
    tolerance = np.full(expected.size, reach)
    assert held(expected, tolerance, exact)
    expected[::7] = np.nan
    exact[::7] = poisoned(1, "f32" if kind == np.float32 else "f16")
    assert held(expected, tolerance, exact)


@pytest.mark.parametrize("place", [0, 1, 1_048_575, 1_048_576, 2_499_999])
def test_one_wrong_element_is_found_in_whatever_block(place):
    expected = np.arange(2_500_000) % 1000.0
    results = expected.astype(np.float32)
    results[place] += 1
    check = check_of(expected, np.full(expected.size, 0.5), "f32")
    assert f"1 of 2500000 elements are wrong, first at [{place}]" in check.complaint({"c": results.tobytes()})


@pytest.mark.parametrize("place", [0, 1_048_577, 2_499_999])
def test_a_touched_gap_and_an_unwritten_neighbour_do_not_make_up_for_each_other(place):
    expected = np.arange(2_500_000) % 1000.0
    expected[place] = np.nan
    results = (np.arange(2_500_000) % 1000).astype(np.float32)
    check = check_of(expected, np.zeros(expected.size), "f32")
    assert check.complaint({"c": results.tobytes()}) == "c: wrote between the rows"
    results[place - 1] = poisoned(1, "f32")[0]
    assert check.complaint({"c": results.tobytes()}) == "c: 1 of 2500000 elements were never written"
    results[place] = poisoned(1, "f32")[0]
    results[place - 1] = expected[place - 1]
    assert check.complaint({"c": results.tobytes()}) is None


def test_the_poison_of_the_definition_is_that_of_the_program():
    assert verify._POISON == POISON
