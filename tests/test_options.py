"""How a search may be told to go about it: restricted, recorded, resumed, stopped early, shared."""

import itertools

import pytest
from click.testing import CliRunner
from test_tuner import ALL, AXES, DEFAULT, FASTEST, PROBLEM, FakeRuntime, naive, stored

from autotune import cli, efforts, paths, recorded, space, tuner
from autotune.cli_search import EFFORT_NAMES, SAMPLER_NAMES
from autotune.errors import AutotuneError, InvalidConfig, NoAdapter, StorageLost
from autotune.lanes import MOST_JOBS
from autotune.model import MATRIX_FEATURE, SubgroupMatrix
from autotune.results import Budget, Options
from autotune.runtime.base import CandidateFailed
from autotune.runtime.process import WorkerRuntime, refuted
from autotune.search import Board, importance
from autotune.search.samplers import SAMPLERS, make
from autotune.space import Axis, Space


@pytest.fixture(autouse=True)
def small_space(monkeypatch, tmp_path):
    monkeypatch.setattr(space, "load_axes", lambda _family: AXES)
    monkeypatch.setattr(paths, "shipped_cache_dir", lambda: tmp_path / "shipped")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


def run(root, runtime, *, trials=1000, time_limit=600.0, **options):
    return tuner.tune(
        PROBLEM, trials=trials, time_limit=time_limit, cache_dir=root, runtime=runtime,
        observe=runtime.watch, options=Options(**options),
    )  # fmt: skip


def test_the_names_on_the_command_line_are_those_there_are():
    assert tuple(SAMPLERS) == SAMPLER_NAMES
    assert tuple(efforts.EFFORTS) == EFFORT_NAMES


def test_help_says_how_long_the_efforts_search():
    def words(seconds):
        return f"{seconds:g} s" if seconds <= 90 else f"{seconds / 60:g} min"

    told = " ".join(CliRunner().invoke(cli.cli, ["gemm", "--help"]).output.split())
    for profile in efforts.EFFORTS.values():
        assert words(profile.gpu.seconds) in told
        assert words(profile.cpu.seconds) in told


def test_help_says_how_many_candidates_are_in_work():
    told = " ".join(CliRunner().invoke(cli.cli, ["gemm", "--help"]).output.split())
    assert f"default: up to {MOST_JOBS} on a GPU" in told


@pytest.mark.parametrize("sampler", SAMPLER_NAMES)
def test_every_sampler_tunes(root, sampler):
    runtime = FakeRuntime()
    result = run(root, runtime, sampler=sampler)
    assert (result.config, result.ended, len(runtime.tried)) == (FASTEST, "exhausted", ALL)


def test_an_unknown_sampler_and_a_missing_package_are_named(monkeypatch):
    with pytest.raises(AutotuneError, match="no sampler 'annealing'; there are default, random"):
        make("annealing", Space(AXES, ()), 0)
    monkeypatch.setitem(__import__("sys").modules, "cmaes", None)
    with pytest.raises(AutotuneError, match="pip install cmaes"):
        make("cmaes", Space(AXES, ()), 0)


# -- restricted --------------------------------------------------------------------------------------


def test_a_search_may_be_restricted_to_values(root):
    runtime = FakeRuntime()
    result = run(root, runtime, only={"variant": ("naive",), "workgroup_x": ("8", "16")})
    assert set(runtime.tried) == {naive(x, y) for x in (8, 16) for y in (1, 4, 8, 16)}
    assert result.measured == 8
    assert not stored(root).complete  # the whole space was not searched


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ({"variant": ("fast",)}, f"variant is never fast; it is {', '.join(sorted(AXES))}"),
        ({"tile": ("8", "9")}, "tile is never 9; it is 16, 32, 8"),
        ({"width": ("8",)}, "no variant of the search space has a parameter 'width'"),
        ({"variant": ("naive",), "tile": ("8",)}, "has all of variant=naive tile=8: naive has no tile"),
        ({"tile": ("8",), "variant": ("naive",)}, "has all of tile=8 variant=naive: naive has no tile"),
    ],
)
def test_a_restriction_to_what_there_is_not_is_named(only, words):
    with pytest.raises(InvalidConfig, match=words):
        space.restricted(AXES, only)


def test_a_restriction_keeps_variants_without_the_parameter():
    kept = space.restricted(AXES, {"tile": ("16",)})
    assert kept["tiled"] == (Axis("tile", (16,)),)
    assert kept["naive"] == AXES["naive"]


@pytest.mark.parametrize("text", ["tile", "=8", "tile=", "tile= , "])
def test_a_restriction_is_a_name_and_values(text):
    ended = CliRunner().invoke(cli.cli, ["gemm", "--size", "8", "--only", text])
    assert (ended.exit_code, "is not NAME=VALUE" in ended.output) == (2, True)


def test_a_restriction_of_one_parameter_is_given_once():
    ended = CliRunner().invoke(cli.cli, ["gemm", "--size", "8", "--only", "tile=8", "--only", "tile=16"])
    assert (ended.exit_code, "tile is given twice" in ended.output) == (2, True)


# -- recorded ----------------------------------------------------------------------------------------


def test_a_run_can_be_recorded_and_the_record_replayed(root, tmp_path):
    def play(what, config, _sizes):
        if what == "compile" and config == DEFAULT:
            raise CandidateFailed("compile", "no")

    run(root, FakeRuntime(play=play), record=tmp_path / "r.gz")
    held = recorded.load(tmp_path / "r.gz")
    assert len(held.times) == ALL
    assert held.times[space.point_of(AXES, FASTEST)] == held.optimum == 1e-3
    assert held.times[space.point_of(AXES, DEFAULT)] is None


def test_what_a_record_holds_is_not_measured_again(root, tmp_path):
    first, second = FakeRuntime(), FakeRuntime()
    run(root, first, record=tmp_path / "r.gz", trials=8)
    result = run(tmp_path / "another", second, record=tmp_path / "r.gz")
    assert not set(first.tried) & set(second.tried)
    assert len(first.tried) + len(second.tried) == ALL
    assert result.config == FASTEST
    assert len(recorded.load(tmp_path / "r.gz").times) == ALL


def test_an_interrupted_run_leaves_its_record(root, tmp_path):
    count = itertools.count()

    def play(what, *_):
        if what == "run" and next(count) == 5:
            raise KeyboardInterrupt

    assert run(root, FakeRuntime(play=play), record=tmp_path / "r.gz").ended == "interrupted"
    assert len(recorded.load(tmp_path / "r.gz").times) == 5


# -- stopped early -----------------------------------------------------------------------------------

MANY = {"naive": (Axis("workgroup_x", tuple(range(1, 33))), Axis("workgroup_y", tuple(range(1, 33))))}


@pytest.fixture
def hasty(monkeypatch):
    """A thousand configs that are all alike, budgets that none of these searches reaches, little patience."""
    monkeypatch.setattr(space, "load_axes", lambda _family: MANY)
    budget = Budget(trials=900, seconds=900.0)
    patience = efforts.Patience(promise=0.01, asks=5, least=20)
    monkeypatch.setitem(efforts.EFFORTS, "quick", efforts.Profile(budget, budget, patience))


@pytest.mark.usefixtures("hasty")
def test_a_search_that_expects_no_more_ends_and_says_so(root):
    result = run(root, FakeRuntime(), trials=None, time_limit=None, effort="quick")
    assert result.ended == "converged"
    assert 20 <= result.measured < 90
    assert any("stopped early: for 5 configs in a row" in note for note in result.notes)
    assert stored(root).complete


@pytest.mark.usefixtures("hasty")
def test_a_search_with_a_number_of_trials_runs_them(root):
    result = run(root, FakeRuntime(), trials=90, time_limit=None, effort="quick")
    assert (result.ended, result.measured) == ("trials", 90)


@pytest.mark.parametrize("sampler", ["random", "local"])
@pytest.mark.usefixtures("hasty")
def test_a_sampler_without_expectations_runs_to_its_budget(root, sampler, monkeypatch):
    budget = Budget(trials=100, seconds=900.0)
    patience = efforts.EFFORTS["quick"].patience
    monkeypatch.setitem(efforts.EFFORTS, "quick", efforts.Profile(budget, budget, patience))
    result = run(root, FakeRuntime(), trials=None, time_limit=None, effort="quick", sampler=sampler)
    assert (result.ended, result.measured) == ("trials", 100)


# -- what mattered -----------------------------------------------------------------------------------


def board(seconds, axes, count=60):
    points = [("v", place) for place in itertools.product(*(range(len(axis.values)) for axis in axes))]
    made = Board(Space({"v": axes}, points))
    for row in range(0, len(points), max(len(points) // count, 1)):
        made.tell(row, seconds(points[row][1]))
    return made


def test_importance_tells_what_moves_the_time_and_what_does_not():
    axes = (Axis("a", (1, 2, 4, 8)), Axis("b", (1, 2, 4, 8, 16)), Axis("c", (False, True)), Axis("one", (1,)))
    shares = importance(board(lambda at: 1.0 + at[0] + 0.1 * at[1], axes))
    assert next(iter(shares)) == "a"
    assert shares["a"] > 0.8
    assert shares["c"] < 0.05
    assert "one" not in shares
    assert sum(shares.values()) < 1.2


def test_importance_of_too_little_is_nothing():
    axes = (Axis("a", (1, 2, 4, 8)),)
    assert importance(board(lambda _: 1.0, axes)) == {}
    assert importance(Board(Space({"v": axes}, ()))) == {}


# -- shared, and on several adapters -----------------------------------------------------------------


def test_a_storage_that_is_lost_ends_the_search_with_what_it_has(root, tmp_path, monkeypatch):
    settled = []

    class Fragile(tuner.SharedStudy):
        def settle(self, *arguments):
            settled.append(arguments)
            if len(settled) == 8:
                raise StorageLost("the storage is gone")
            return super().settle(*arguments)

    monkeypatch.setattr(tuner, "SharedStudy", Fragile)
    result = run(root, FakeRuntime(), storage=f"sqlite:///{tmp_path}/study.db")
    assert (result.ended, result.measured) == ("storage lost", 8)
    assert any("the storage is gone" in note for note in result.notes)
    assert not stored(root).complete


def test_a_shared_search_goes_on_where_others_were(root, tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    first, second = FakeRuntime(), FakeRuntime()
    run(root, first, storage=url, trials=6)
    result = run(tmp_path / "another", second, storage=url)
    assert not set(first.tried) & set(second.tried)
    assert (result.measured, result.config) == (ALL, FASTEST)


def test_reasons_travel_between_workers(root, tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"

    def play(what, config, _sizes):
        if what == "compile" and config == DEFAULT:
            raise CandidateFailed("compile", "no such luck")

    run(root, FakeRuntime(play=play), storage=url, trials=3)
    result = run(tmp_path / "another", FakeRuntime(play=play), storage=url)
    assert list(result.failed) == ["compile: no such luck"]


def listed(*profiles, index=0):
    runtime = object.__new__(WorkerRuntime)
    runtime.listed, runtime.index = profiles, index
    return runtime


def test_workers_use_adapters_of_the_same_model_only():
    from fake_family import device

    one, other = device(), device(device_id=1, name="another")
    assert listed(one, other, one, one, index=2).alike(0) == [2, 0, 3]
    assert listed(one, other, one).alike(2) == [0, 2]
    assert listed(one, other).alike(1) == [0]
    with pytest.raises(NoAdapter, match=r"2 workers need .* there are 1, and others .*: another"):
        listed(one, other).alike(2)
    with pytest.raises(NoAdapter, match="there are 1"):
        listed(one, device(driver="older")).alike(2)


def test_matrix_units_that_fail_their_check_are_named():
    from fake_family import device

    shapes = tuple(SubgroupMatrix(element="f16", result="f32", m=8, n=8, k=k) for k in (8, 16))
    offered = device(subgroup_matrix=shapes)
    opened = device(features=(MATRIX_FEATURE,), subgroup_matrix=shapes[:1])
    assert [str(one) for one in refuted(offered, opened)] == ["f16 to f32 8×8×16"]
    assert refuted(offered, device(subgroup_matrix=())) == ()  # not asked for: nothing was checked


@pytest.mark.parametrize("text", ["0", "-1", "some", "1.5"])
def test_workers_are_a_number_or_all(text):
    ended = CliRunner().invoke(cli.cli, ["gemm", "--size", "8", "--workers", text])
    assert (ended.exit_code, "neither 'all' nor a number" in ended.output) == (2, True)
