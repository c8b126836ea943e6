"""The search proposes every point once, learns from what it is told, and finds fast points early."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from autotune.search import Search, surrogate
from autotune.search.encoding import Encoding
from autotune.search.surrogate import GaussianProcess
from autotune.space import Axis, Point, Space

AXES = {
    "tiled": (Axis("tile", (8, 16, 32, 64)), Axis("unroll", (1, 2, 4)), Axis("pad", (False, True))),
    "split": (Axis("tile", (16, 32)), Axis("layout", ("row", "column", "block")), Axis("parts", (2, 4, 8))),
}


def all_points(axes: dict[str, tuple[Axis, ...]]) -> list[Point]:
    return [
        (variant, indices)
        for variant, of_variant in axes.items()
        for indices in product(*(range(len(axis.values)) for axis in of_variant))
    ]


def separable(point: Point) -> float:
    """A time that each axis multiplies on its own; the fastest is not at a corner."""
    variant, indices = point
    return math.exp(0.3 * sum(abs(index - 1) for index in indices)) * (1.0 if variant == "tiled" else 1.5)


def asked(search: Search, count: int, seconds=separable) -> list[Point]:
    points = []
    while len(points) < count and (point := search.ask()) is not None:
        points.append(point)
        search.tell(point, seconds(point))
    return points


@pytest.fixture
def space() -> Space:
    return Space(AXES, all_points(AXES))


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Small spaces of one to three variants, ordered and unordered axes, with holes."""
    axes = {}
    for variant in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        names = draw(st.lists(st.sampled_from("pqr"), unique=True, max_size=3))
        kinds = st.sampled_from([(1,), (1, 2, 4), (8, 16), (False, True), ("x", "y", "z")])
        axes[variant] = tuple(Axis(name, draw(kinds)) for name in names)
    points = all_points(axes)
    return Space(axes, draw(st.lists(st.sampled_from(points), unique=True)))


@settings(max_examples=40, deadline=None)
@given(space=spaces(), data=st.data())
def test_every_point_is_asked_exactly_once_whatever_it_is_told(space: Space, data: st.DataObject) -> None:
    outcomes = st.sampled_from([None, math.nan, math.inf, -1.0, 0.0, 1e-300, 1e-3, 2e-3, 1e300])
    points = asked(Search(space), len(space) + 5, lambda _: data.draw(outcomes))
    assert sorted(points) == sorted(space.points)


@settings(max_examples=20, deadline=None)
@given(space=spaces(), data=st.data())
def test_points_may_be_told_late_or_without_being_asked(space: Space, data: st.DataObject) -> None:
    told = data.draw(st.lists(st.sampled_from(space.points), unique=True)) if len(space) else []
    search = Search(space)
    for point in told:
        search.tell(point, 1.0)
    points = []
    while (point := search.ask()) is not None:
        points.append(point)
    assert sorted(points + told) == sorted(space.points)
    for point in reversed(points):
        search.tell(point, 1.0)
    assert all(trial.state == TrialState.COMPLETE for trial in search.study.trials)


def test_seeds_come_first_without_repeats_and_without_points_outside_the_space(space: Space) -> None:
    first, second = ("split", (1, 2, 0)), ("tiled", (3, 0, 1))
    search = Search(space, seeds=[first, ("tiled", (9, 9, 9)), ("gone", ()), first, second])
    assert asked(search, 2) == [first, second]


def test_a_seed_that_was_told_is_not_asked(space: Space) -> None:
    first, second = ("split", (1, 2, 0)), ("tiled", (3, 0, 1))
    search = Search(space, seeds=[first, second])
    search.tell(first, 1.0)
    assert search.ask() == second


@pytest.mark.parametrize("failure", [None, math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_a_failure_is_never_the_best(space: Space, failure: float | None) -> None:
    search = Search(space)
    search.tell(space.points[0], failure)
    assert search.best is None
    search.tell(space.points[1], 2.0)
    search.tell(space.points[2], failure)
    assert search.best == (space.points[1], 2.0)
    assert [trial.state for trial in search.study.trials] == [
        TrialState.FAIL,
        TrialState.COMPLETE,
        TrialState.FAIL,
    ]


def test_telling_twice_or_outside_the_space_changes_nothing(space: Space) -> None:
    search = Search(space)
    point = search.ask()
    search.tell(point, 2.0)
    search.tell(point, 1.0)
    search.tell(("tiled", (9, 9, 9)), 1e-9)
    search.tell(("gone", ()), 1e-9)
    assert search.best == (point, 2.0)
    assert len(search.study.trials) == 1


def test_the_same_seed_asks_the_same_points(space: Space) -> None:
    runs = [asked(Search(space, seed=seed), 25) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_an_interrupted_run_goes_on_from_its_trials(space: Space) -> None:
    whole = asked(Search(space, seed=1), 20)
    search = Search(space, seed=2)
    for point in whole:
        search.tell(point, separable(point))
    rest = asked(search, len(space))
    assert sorted(whole + rest) == sorted(space.points)
    assert search.best is not None
    assert search.best[1] == min(map(separable, space.points))


def test_an_empty_space_is_exhausted_at_once() -> None:
    search = Search(Space({}, ()))
    assert search.ask() is None
    assert search.best is None


def test_it_finds_fast_points_sooner_than_chance() -> None:
    axes = {"v": tuple(Axis(f"axis{i}", (1, 2, 4, 8, 16)) for i in range(5))}
    space = Space(axes, all_points(axes))
    slowdown = lambda point: separable(("tiled", point[1]))  # noqa: E731
    ours, chance = [], []
    for seed in range(3):
        ours.append(min(map(slowdown, asked(Search(space, seed=seed), 40, slowdown))))
        sample = np.random.default_rng(seed).choice(len(space), 40, replace=False)
        chance.append(min(slowdown(space.points[row]) for row in sample))
    assert max(ours) < min(chance)


def test_a_region_that_fails_is_left() -> None:
    axes = {"v": (Axis("kind", ("good", "bad")), Axis("a", tuple(range(40))), Axis("b", tuple(range(40))))}
    space = Space(axes, all_points(axes))

    def taken(point: Point) -> float | None:
        bad, a, b = point[1]
        return None if bad else 1.0 + abs(a - 27) + abs(b - 13)

    for seed in range(3):
        points = asked(Search(space, seed=seed), 60, taken)
        until_found = points[10 : points.index(("v", (0, 27, 13)))]
        assert sum(bad for _, (bad, *_) in until_found) <= len(until_found) / 5


def test_the_surrogate_knows_what_it_saw_and_how_little_it_knows_elsewhere() -> None:
    axes = {"v": (Axis("a", tuple(range(9))), Axis("noise", tuple(range(9))))}
    encoding = Encoding(Space(axes, all_points(axes)))
    truth = np.array([float(a) for _, (a, _) in all_points(axes)])
    seen = np.random.default_rng(0).choice(81, 30, replace=False)
    model = GaussianProcess(encoding)
    model.fit(encoding.of(seen), truth[seen], steps=30)
    mean, deviation = model.predict(encoding.of(range(81)))
    assert np.abs(mean - truth).max() < 0.5
    unseen = np.setdiff1d(np.arange(81), seen)
    assert deviation[seen].max() < deviation[unseen].min()


def test_distance_counts_steps_and_variants_share_their_axes() -> None:
    space = Space(AXES, all_points(AXES))
    encoding = Encoding(space)
    of_axes = encoding.axis_of_column < encoding.axes
    row = dict(zip(space.points, encoding.of(range(len(space)))[:, of_axes], strict=True))

    def apart(a: Point, b: Point) -> float:
        return float(np.square(row[a] - row[b]).sum())

    assert apart(("tiled", (0, 0, 0)), ("tiled", (2, 0, 0))) == pytest.approx(2 / 3)
    assert apart(("split", (0, 0, 0)), ("split", (0, 1, 0))) == pytest.approx(1.0)
    assert apart(("split", (0, 0, 0)), ("split", (0, 2, 0))) == pytest.approx(1.0)
    same_tile = apart(("tiled", (1, 0, 0)), ("split", (0, 0, 0)))
    assert apart(("tiled", (3, 0, 0)), ("split", (0, 0, 0))) == pytest.approx(same_tile + 2 / 3)


def test_products_and_quotients_of_two_axes_are_told_apart_from_their_values() -> None:
    axes = {"v": (Axis("x", (8, 16, 32)), Axis("y", (1, 2, 4)), Axis("flag", (False, True)))}
    space = Space(axes, all_points(axes))
    encoding = Encoding(space)
    assert encoding.axis_of_column.max() + 1 == encoding.axes + 2 == len(encoding.prior_weights)
    product, quotient = encoding.of(range(len(space)))[:, -2:].T
    for (_, (x, y, _)), times, by in zip(space.points, product, quotient, strict=True):
        assert (times, by) == pytest.approx(((x + y) / 4, (x - y + 2) / 4))


def test_values_and_variants_that_no_legal_point_has_are_as_if_they_were_not_listed() -> None:
    listed = {
        "a": (Axis("x", (1, 2, 4, 8, 16)), Axis("how", ("one", "two", "three")), Axis("z", (3, 5))),
        "b": (Axis("x", (1, 2)), Axis("w", (1, 2, 3, 4))),
    }
    left = {"a": (Axis("x", (1, 4, 16)), Axis("how", ("one", "three")))}
    legal = [("a", (x, how, 1)) for x in (0, 2, 4) for how in (0, 2)]
    same = [("a", (x, how)) for x in range(3) for how in range(2)]
    space, small = Space(listed, legal), Space(left, same)
    one, other = Encoding(space), Encoding(small)
    assert one.axes == other.axes == 2
    assert np.array_equal(one.of(range(6)), other.of(range(6)))
    assert np.array_equal(one.prior_weights, other.prior_weights)
    for point, alike in zip(legal, same, strict=True):
        assert [legal.index(near) for near in space.neighbours(point)] == [
            same.index(near) for near in small.neighbours(alike)
        ]
    between = one.of_point(("a", (1, 0, 0)))  # what a borrowed sampler draws need not be legal
    assert np.array_equal(between, one.of_point(("a", (2, 0, 0))))
    assert one.of_point(("b", (1, 3))).shape == between.shape


@settings(max_examples=40, deadline=None)
@given(space=spaces(), data=st.data())
def test_one_point_is_encoded_as_it_is_among_others(space: Space, data: st.DataObject) -> None:
    encoding = Encoding(space)
    rows = encoding.of(range(len(space)))
    assert rows.shape == (len(space), len(encoding.axis_of_column))
    for place, point in enumerate(space.points):
        assert np.array_equal(encoding.of_point(point), rows[place])
    if len(space):
        chosen = data.draw(st.lists(st.integers(0, len(space) - 1)))
        assert np.array_equal(encoding.of(chosen), rows[chosen])


@pytest.mark.parametrize(
    "values", [tuple(range(5000)), tuple(f"s{i}" for i in range(5000))], ids=["int", "text"]
)
def test_an_axis_with_a_value_for_each_point_takes_few_columns_and_few_neighbours(values) -> None:
    space = Space({"v": (Axis("id", values),)}, [("v", (i,)) for i in range(5000)])
    encoding = Encoding(space)
    encoded = encoding.of(range(5000))
    assert encoded.shape[1] <= 64
    assert len(space.neighbours(("v", (2500,)))) <= 64
    if isinstance(values[0], int):
        gaps = np.square(encoded - encoded[0]).sum(axis=1)
        assert np.all(np.diff(gaps) > 0)
        assert gaps[-1] == pytest.approx(1.0)
    search = Search(space, seed=0)
    points = asked(search, 30, lambda point: 1.0 + point[1][0])
    assert len(set(points)) == 30


@pytest.mark.parametrize("size", [1, 2, 33, 34, 100, 175])
def test_a_triangular_matrix_is_inverted(size: int) -> None:
    rng = np.random.default_rng(size)
    lower = np.tril(rng.normal(size=(size, size))) / size + np.eye(size)
    inverse = surrogate._inverse(lower)
    assert np.allclose(inverse @ lower, np.eye(size), atol=1e-9)
