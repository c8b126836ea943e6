import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.expression import ceil_div, evaluate

sizes = st.integers(1, 2**32)


@given(sizes, sizes)
def test_ceil_div_is_the_smallest_count_that_covers(a, b):
    count = ceil_div(a, b)
    assert (count - 1) * b < a <= count * b


@given(sizes, sizes, sizes)
def test_nested_expressions_follow_the_named_sizes(m, n, tile):
    tiles = [{"ceilDiv": ["m", tile]}, {"ceilDiv": ["n", tile]}]
    rows, columns = ceil_div(m, tile), ceil_div(n, tile)
    assert evaluate({"mul": [*tiles, 3]}, {"m": m, "n": n}) == rows * columns * 3
    assert evaluate({"add": [*tiles, 3]}, {"m": m, "n": n}) == rows + columns + 3


def test_numbers_and_names_are_expressions_too():
    assert evaluate(7, {}) == 7
    assert evaluate("k", {"k": 9}) == 9
    assert evaluate({"mul": []}, {}) == 1
    assert evaluate({"add": []}, {}) == 0


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("q", "'q'"),
        ({"ceilDiv": ["q", 4]}, "'q'"),
        ({"sub": [1, 2]}, "'sub'"),
        ({"ceilDiv": [1]}, "'ceilDiv' with 1"),
        ({"ceilDiv": [1, 2, 3]}, "'ceilDiv' with 3"),
    ],
)
def test_unknown_sizes_and_operations_are_named(expression, named):
    with pytest.raises(ValueError, match="unknown") as caught:
        evaluate(expression, {"m": 4})
    assert named in str(caught.value)
