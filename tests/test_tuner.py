import json
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_family import device, seconds

from autotune import cache, console, entry, finalists, layout, paths, space, trial_log
from autotune.candidate import Bench
from autotune.errors import AutotuneError, CacheUnwritable, NoAdapter, TuningFailed, WorkerError
from autotune.kernels.base import Rule
from autotune.kernels.gemm import GEMM, GemmProblem, Naive, Tiled
from autotune.kernels.gemm.family import Gemm
from autotune.model import Rejection
from autotune.results import Options
from autotune.runtime.base import CandidateFailed
from autotune.runtime.process import WorkerRuntime
from autotune.space import Axis
from autotune.trial_log import TrialLog
from autotune.tuner import tune

ROOT = Path(__file__).resolve().parents[1]
PROBLEM = GemmProblem(m=64, n=64, k=64)
DEVICE = device()
DEFAULT = GEMM.default(PROBLEM, DEVICE)
AXES = {
    "naive": (Axis("workgroup_x", (8, 16, 32, 64)), Axis("workgroup_y", (1, 4, 8, 16))),
    "tiled": (Axis("tile", (8, 16, 32)),),
    DEFAULT.variant: tuple(Axis(name, (value,)) for name, value in DEFAULT.parameters().items()),
}
"""Few enough to try all, and told apart by variant and workgroup size."""
ALL = 16 + 3 + 1


def naive(x, y):
    return Naive(workgroup_x=x, workgroup_y=y)


NAIVE = naive(16, 16)


def tiled(tile):
    return Tiled(tile=tile)


FASTEST, SECOND, THIRD = tiled(16), tiled(8), tiled(32)
TIMES = {FASTEST: 1.0e-3, SECOND: 1.2e-3, THIRD: 1.4e-3, DEFAULT: 2.0e-3}
"""Every naive kernel is slower than these."""


class FakeRuntime:
    """Multiplies with NumPy, takes the time that it is told to, and fails where it is told to.

    `times` overrides the usual ones by config, `baked` those of texts with the sizes baked in. `play` is
    called with the verb, the config and the sizes before each compile, run and time, and may raise; what it
    returns for a run is added to C.
    """

    def __init__(self, times=None, play=lambda *_: None, profile=DEVICE, baked=None):
        self.profile, self.play = profile, play
        self.baked = baked or {}
        self.times = {**TIMES, **(times or {})}
        self.phase = "prepare"
        self.tried = []
        """Configs that the search compiled, in order."""
        self.finals = []
        """Configs compiled for the final round."""
        self._plans = {}
        self._contents = {}
        self._handles = count(1)

    def watch(self, progress):
        self.phase = progress.phase

    def load(self, contents):
        self._contents = dict(contents)
        self._plans.clear()

    def compile(self, plan):
        config = self._config(plan)
        {"search": self.tried, "final": self.finals}.get(self.phase, []).append(config)
        self.play("compile", config, plan.sizes)
        handle = next(self._handles)
        self._plans[handle] = plan
        return handle

    def run(self, handle):
        plan = self._plans[handle]
        error = self.play("run", self._config(plan), plan.sizes) or 0
        m, n, k = (plan.sizes[name] for name in "mnk")
        a = np.frombuffer(self._contents["a"], np.float32)[: m * k].reshape(m, k)
        b = np.frombuffer(self._contents["b"], np.float32)[: k * n].reshape(k, n)
        product = (a @ b + np.float32(error)).tobytes()
        return {"c": product + self._contents["c"][len(product) :]}

    def time(self, handle, batch, samples):
        plan = self._plans[handle]
        config = self._config(plan)
        baked = None if plan.uniform else self.baked.get(config)
        taken = self.play("time", config, plan.sizes) or baked or self.times.get(config)
        if taken is None:
            taken = 3e-3 + 1e-5 * config.workgroup_x + 1e-6 * config.workgroup_y
        assert batch >= 1
        return [taken] * samples, "gpu"

    def drop(self, handle):
        self._plans.pop(handle, None)

    def close(self):
        raise AssertionError("a runtime that was passed in is its owner's to close")

    @staticmethod
    def _config(plan):
        x, y, _ = plan.passes[0].workgroup_size
        return {"naive": lambda: naive(x, y), "tiled": lambda: tiled(x), DEFAULT.variant: lambda: DEFAULT}[
            plan.variant
        ]()


@pytest.fixture(autouse=True)
def small_space(monkeypatch, tmp_path):
    monkeypatch.setattr(space, "load_axes", lambda _family: AXES)
    monkeypatch.setattr(paths, "shipped_cache_dir", lambda: tmp_path / "shipped")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


def run(root, runtime, *, trials=1000, **options):
    options = {"time_limit": 600.0, **options}
    return tune(PROBLEM, trials=trials, cache_dir=root, runtime=runtime, observe=runtime.watch, **options)


def stored(root, profile=DEVICE):
    return cache.exact(root, GEMM, PROBLEM, profile, [])


def log_path(root, profile=DEVICE):
    return layout.entry_path(root / layout.STUDIES, GEMM, PROBLEM, profile).with_suffix(".jsonl")


def failing(config, error, verb="run"):
    """Raises the error whenever this config comes to this verb."""

    def play(what, which, _sizes):
        if (what, which) == (verb, config):
            raise error

    return play


def interrupting(number):
    """Ctrl-C while the candidate with this number runs."""
    runs = []

    def play(what, config, _sizes):
        if what == "run":
            runs.append(config)
            if len(runs) == number:
                raise KeyboardInterrupt

    return play


# -- how many ----------------------------------------------------------------------------------------


def test_trials_counts_unique_measured_candidates(root):
    runtime = FakeRuntime()
    result = run(root, runtime, trials=7)
    assert (result.measured, result.ended) == (7, "trials")
    assert len(runtime.tried) == len(set(runtime.tried)) == 7
    assert stored(root).trials == 7


def test_failed_candidates_do_not_count_as_measured(root):
    def play(what, config, _sizes):
        if what == "compile" and config.variant == "tiled":
            raise CandidateFailed("compile", "no tiles today")

    runtime = FakeRuntime(play=play)
    result = run(root, runtime, trials=12)
    assert result.measured == 12
    assert len(set(runtime.tried)) == len(runtime.tried) == 12 + sum(result.failed.values())


def test_a_space_smaller_than_the_trials_is_run_once_and_the_search_says_so(root):
    runtime = FakeRuntime()
    result = run(root, runtime, trials=ALL + 1)
    assert (result.measured, result.ended) == (ALL, "exhausted")
    assert set(Counter(runtime.tried).values()) == {1}
    assert result.config == FASTEST


def test_a_space_as_large_as_the_trials_was_searched_to_its_end(root):
    result = run(root, FakeRuntime(), trials=ALL)
    assert (result.measured, result.ended) == (ALL, "exhausted")


def test_the_time_limit_ends_the_search_with_what_it_has(root, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("autotune.tuner.time", SimpleNamespace(monotonic=lambda: clock.now))

    def play(what, *_):
        clock.now += 1.0 if what == "compile" else 0.0

    result = run(root, FakeRuntime(play=play), time_limit=5.0)
    assert (result.measured, result.ended, result.verified) == (5, "time", True)
    assert (result.measured_a_second, result.lanes) == (1.0, 1)
    assert stored(root).complete


def test_progress_is_told_from_start_to_end(root):
    seen = []
    tune(PROBLEM, trials=5, time_limit=600.0, cache_dir=root, runtime=FakeRuntime(), observe=seen.append)
    assert list(dict.fromkeys(one.phase for one in seen)) == ["prepare", "search", "final", "verify"]
    shares = [one.share for one in seen]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert [one.measured for one in seen if one.phase == "search"] == [0, 1, 2, 3, 4, 5]


# -- candidates that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["compile", "run", "time"])
@pytest.mark.parametrize(
    "error",
    [
        CandidateFailed("crash", "the worker died (SIGSEGV)"),
        CandidateFailed("hang", "no answer within 20 s"),
        ZeroDivisionError("of a kind never seen"),
        OSError(28, "odd"),
    ],
    ids=["crash", "hang", "unknown", "system"],
)
def test_one_failing_candidate_is_recorded_and_the_search_goes_on(root, error, verb):
    result = run(root, FakeRuntime(play=failing(FASTEST, error, verb)))
    assert (result.measured, result.ended) == (ALL - 1, "exhausted")
    assert sum(result.failed.values()) == 1
    assert result.config == SECOND
    assert stored(root).config == SECOND


def test_when_every_candidate_fails_the_reasons_are_counted_and_nothing_is_stored(root):
    def play(what, config, _sizes):
        if what == "run":
            raise CandidateFailed("run", "lost: detail" if config.variant == "naive" else "out of memory")

    with pytest.raises(TuningFailed, match=r"16× run: lost.*4× run: out of memory"):
        run(root, FakeRuntime(play=play))
    assert stored(root) is None
    assert list(layout.entry_files(root, "gemm")) == []


def test_when_every_candidate_fails_one_whole_reason_is_shown(root, capsys):
    diagnostics = "\nShader '' parsing error\n   |  let x = y;\n   |          ^ unknown identifier\n"

    def play(what, config, _sizes):
        if what == "compile":
            raise CandidateFailed("compile", diagnostics if config.variant == "naive" else "odd")

    with pytest.raises(TuningFailed) as caught:
        run(root, FakeRuntime(play=play))
    assert caught.value.example.config == NAIVE
    assert caught.value.example.outcome == Rejection(stage="compile", reason=diagnostics)
    console.failed(caught.value)
    first, config, stage, *reason = capsys.readouterr().err.splitlines()
    assert first.startswith("error: no candidate worked")
    assert config == "  for example naive workgroup_x=16 workgroup_y=16"
    assert [stage, *reason] == ["  compile:", *("    " + line for line in diagnostics.strip().splitlines())]


@pytest.mark.parametrize("phase", ["search", "verify"])
def test_a_search_without_a_winner_begins_anew_and_its_reasons_stay_readable(root, phase):
    first = FakeRuntime()

    def play(what, *_):
        if what == "run" and first.phase == phase:
            raise CandidateFailed("run", "all of it")

    first.play = play
    with pytest.raises(TuningFailed) as caught:
        run(root, first)
    old = log_path(root).with_name(log_path(root).name + ".old")
    assert str(old) in str(caught.value)
    assert old.read_text().count('"finished"') == ALL
    assert not log_path(root).exists()
    second = FakeRuntime()
    assert run(root, second).config == FASTEST
    assert len(second.tried) == ALL


def test_a_wrong_candidate_is_neither_chosen_nor_cached(root):
    def play(what, config, _sizes):
        return 1.0 if what == "run" and config == FASTEST else None

    runtime = FakeRuntime(play=play)
    result = run(root, runtime)
    assert FASTEST in runtime.tried
    assert FASTEST not in runtime.finals
    assert (result.config, stored(root).config) == (SECOND, SECOND)
    assert [name.partition(":")[0] for name in result.failed] == ["verify"]


def test_a_candidate_that_writes_nothing_is_wrong(root):
    class Lazy(FakeRuntime):
        def run(self, handle):
            right = super().run(handle)
            return {"c": self._contents["c"]} if self._config(self._plans[handle]) == FASTEST else right

    result = run(root, Lazy())
    assert result.config == SECOND
    assert [name.partition(":")[0] for name in result.failed] == ["verify"]


def test_a_candidate_right_at_the_size_but_wrong_at_a_ragged_neighbour_gives_way_to_the_next(root):
    def play(what, config, sizes):
        return 1.0 if what == "run" and config == FASTEST and sizes["m"] != PROBLEM.m else None

    result = run(root, FakeRuntime(play=play))
    assert (result.config, result.verified) == (SECOND, True)
    assert stored(root).config == SECOND
    assert any("wrong at another size" in note for note in result.notes)


@pytest.mark.parametrize(
    "error", [CandidateFailed("hang", "no answer within 20 s"), ValueError("of a kind never seen")], ids=repr
)
def test_a_finalist_that_fails_at_a_ragged_neighbour_gives_way_to_the_next(root, error):
    def play(what, config, sizes):
        if what == "run" and config == FASTEST and sizes["m"] != PROBLEM.m:
            raise error

    assert run(root, FakeRuntime(play=play)).config == SECOND


def test_when_every_finalist_is_wrong_at_other_sizes_nothing_is_stored(root):
    def play(what, _config, sizes):
        return 1.0 if what == "run" and sizes["m"] != PROBLEM.m else None

    with pytest.raises(TuningFailed, match="other sizes"):
        run(root, FakeRuntime(play=play))
    assert stored(root) is None


class Careless(Gemm):
    """Names neighbours for which its own rules exclude the tiled kernels, or that no device holds."""

    rules = {"tiled": (Rule(("tile",), "m is odd", lambda p, _: p.m % 2 == 0),)}  # noqa: RUF012
    sizes = ((33, 8, 8), (1 << 13, 1 << 13, 8))

    def neighbours(self, *_):
        return [GemmProblem(m=m, n=n, k=k) for m, n, k in self.sizes]


@pytest.mark.parametrize("right", [True, False])
def test_a_neighbour_that_the_rules_exclude_or_no_device_holds_says_nothing_against_a_config(right):
    def play(what, _config, sizes):
        return 1.0 if what == "run" and sizes["m"] == 33 and not right else None

    runtime = FakeRuntime(play=play)
    bench = Bench(Careless(), PROBLEM, runtime, seed=0)
    first = finalists.decide(bench, [(FASTEST, seconds(1e-3)), (NAIVE, seconds(2e-3))], seed=0)
    assert (first.config, first.verified) == (FASTEST, right)  # nowhere proved is not verified
    notes = [note.partition(" was not judged at ")[2] for note in first.notes]
    assert notes[-1].startswith("8192x8192x8-f32: a matrix exceeds the largest storage binding")
    assert notes[:-1] == ([] if right else ["33x8x8-f32: m is odd"])


def test_a_rule_that_only_spares_the_search_the_useless_excuses_nothing():
    class Frugal(Careless):
        rules = {  # noqa: RUF012
            "tiled": (Rule(("tile",), "m is odd", lambda p, _: p.m % 2 == 0, needed=False),)
        }

    def play(what, config, sizes):
        return 1.0 if what == "run" and config == FASTEST and sizes["m"] == 33 else None

    bench = Bench(Frugal(), PROBLEM, FakeRuntime(play=play), seed=0)
    decision = finalists.decide(bench, [(FASTEST, seconds(1e-3)), (NAIVE, seconds(2e-3))], seed=0)
    assert (decision.config, decision.verified) == (NAIVE, True)
    assert "was wrong at another size: 33x8x8-f32" in decision.notes[0]


def test_a_device_lost_for_good_leaves_the_best_so_far(root):
    def play(what, config, _sizes):
        if what == "compile" and config.variant == "naive":
            raise WorkerError("the adapter cannot be opened")

    result = run(root, FakeRuntime(play=play))
    assert (result.ended, result.verified) == ("device lost", False)
    assert any("cannot be opened" in note for note in result.notes)
    assert (stored(root).config, stored(root).complete) == (result.config, False)


# -- the final round ---------------------------------------------------------------------------------


def test_the_default_is_in_the_final_round_however_slow(root):
    runtime = FakeRuntime({DEFAULT: 9e-3})
    result = run(root, runtime)
    assert DEFAULT in runtime.finals
    assert result.default_measurement.seconds == pytest.approx(9e-3)
    assert stored(root).default_measurement == result.default_measurement


def test_a_default_that_is_no_point_of_the_space_is_in_the_final_round_too(root, monkeypatch):
    others = {variant: axes for variant, axes in AXES.items() if variant != DEFAULT.variant}
    monkeypatch.setattr(space, "load_axes", lambda _family: others)
    result = run(root, FakeRuntime({DEFAULT: 1e-6}))
    assert result.config == DEFAULT
    assert result.default_measurement is not None


def test_the_result_is_never_slower_than_the_default(root):
    runtime = FakeRuntime()

    def play(what, config, _sizes):  # the default was measured in a bad moment
        if what == "time" and config == DEFAULT:
            return 0.9e-3 if runtime.phase == "final" else 5e-3
        return None

    runtime.play = play
    result = run(root, runtime)
    assert result.config == DEFAULT
    assert result.measurement.seconds <= result.default_measurement.seconds


def test_the_result_is_never_slower_than_the_naive_kernel(root):
    runtime = FakeRuntime()

    def play(what, config, _sizes):  # the naive kernel was measured in a bad moment
        if what == "time" and config == NAIVE:
            return 0.9e-3 if runtime.phase == "final" else 3.5e-3
        return None

    runtime.play = play
    result = run(root, runtime, trials=ALL)
    assert result.config == NAIVE
    assert result.measurement == result.baseline_measurement


def test_a_naive_kernel_that_looked_hopeless_wins_where_it_turns_out_the_fastest(root):
    runtime = FakeRuntime()

    def play(what, config, _sizes):  # at first 100 times slower, so that it has no turn in the round
        if what == "time" and config == NAIVE:
            return 0.9e-3 if runtime.phase == "final" else 0.1
        return None

    runtime.play = play
    result = run(root, runtime, trials=ALL)
    assert runtime.finals.count(NAIVE) == 1
    assert result.config == NAIVE
    assert stored(root).config == NAIVE


def test_a_restricted_search_finds_what_was_asked_for_though_the_default_is_faster(root):
    runtime = FakeRuntime({DEFAULT: 1e-6})
    result = run(root, runtime, options=Options(only={"variant": ("tiled",)}))
    assert result.config == FASTEST
    assert result.default_measurement.seconds == pytest.approx(1e-6)


def test_a_hopeless_naive_kernel_is_kept_out_of_the_final_round_but_measured(root):
    runtime = FakeRuntime({NAIVE: 9.0})
    result = run(root, runtime)
    assert result.baseline_measurement.seconds == pytest.approx(9.0)
    assert runtime.finals.count(NAIVE) == 1  # for the comparison, after the round


def test_the_final_round_decides_not_the_first_impression(root):
    runtime = FakeRuntime()

    def play(what, config, _sizes):
        return 1.5e-3 if what == "time" and config == FASTEST and runtime.phase == "final" else None

    runtime.play = play
    assert run(root, runtime).config == SECOND


CLOSE = {FASTEST: 1.0e-3, SECOND: 1.015e-3, THIRD: 1.03e-3}


@pytest.mark.parametrize(
    ("baked", "winner"),
    [
        ({FASTEST: 1.2e-3}, SECOND),
        ({FASTEST: 1.2e-3, SECOND: 1.1e-3, THIRD: 0.5e-3}, SECOND),  # the third does not tie
        ({FASTEST: 1.01e-3}, FASTEST),
    ],
)
def test_finalists_that_tie_are_told_apart_with_their_sizes_baked_in(root, baked, winner):
    result = run(root, FakeRuntime(CLOSE, baked=baked))
    assert result.config == winner
    assert result.measurement.seconds == pytest.approx(CLOSE[winner])  # of the text for sizes at run time


def test_a_finalist_whose_text_with_baked_in_sizes_is_wrong_loses_a_tie(root, monkeypatch):
    runtime = FakeRuntime(CLOSE, baked={FASTEST: 0.5e-3})
    right = runtime.run

    def once_baked_wrong(handle):
        plan = runtime._plans[handle]
        outputs = right(handle)
        baked_fastest = not plan.uniform and runtime._config(plan) == FASTEST
        return {"c": bytes(len(outputs["c"]))} if baked_fastest else outputs

    monkeypatch.setattr(runtime, "run", once_baked_wrong)
    assert run(root, runtime).config == SECOND


def test_a_search_without_a_time_limit_settles_ties_too(root):
    runtime = FakeRuntime(CLOSE, baked={FASTEST: 1.2e-3})
    assert run(root, runtime, time_limit=float("inf")).config == SECOND


def test_what_was_not_asked_for_neither_ties_nor_wins(root):
    runtime = FakeRuntime({**CLOSE, DEFAULT: 0.9e-3}, baked={FASTEST: 1.2e-3, DEFAULT: 0.1e-3})
    result = run(root, runtime, options=Options(only={"variant": ("tiled",)}))
    assert result.config == SECOND
    assert result.default_measurement.seconds == pytest.approx(0.9e-3)


def test_a_device_lost_over_a_tie_leaves_what_the_final_round_found(root):
    runtime = FakeRuntime(CLOSE)
    compiled = runtime.compile

    def lost_at_baked_texts(plan):
        if not plan.uniform:
            raise WorkerError("the adapter cannot be opened")
        return compiled(plan)

    runtime.compile = lost_at_baked_texts
    result = run(root, runtime)
    assert (result.ended, result.config, result.verified) == ("device lost", FASTEST, False)
    assert result.default_measurement.seconds == pytest.approx(TIMES[DEFAULT])


def test_a_tie_does_not_make_the_published_config_flip(root):
    assert run(root, FakeRuntime(CLOSE, baked={FASTEST: 1.2e-3})).config == SECOND
    run(root, FakeRuntime(CLOSE), retry=True)
    assert stored(root).config == SECOND


def test_a_final_round_in_which_everyone_fails_is_told_as_that(root):
    runtime = FakeRuntime()

    def play(what, *_):
        if what == "run" and runtime.phase == "final":
            raise CandidateFailed("crash", "the worker died")

    runtime.play = play
    with pytest.raises(TuningFailed, match="every finalist failed in the final round"):
        run(root, runtime)


def test_ties_are_left_where_there_is_no_time_for_two():
    bench = Bench(GEMM, PROBLEM, FakeRuntime(CLOSE, baked={FASTEST: 9e-3}), seed=0)
    finals = [(config, seconds(time)) for config, time in CLOSE.items()]
    for limit in (1.9, -1.0):
        assert finalists.settle_ties(bench, finals, seed=0, seconds=limit, each=1.0) == finals
    settled = finalists.settle_ties(bench, finals, seed=0, seconds=2.5, each=1.0)
    assert settled == [finals[1], finals[0], finals[2]]


RANKED = [FASTEST, SECOND, THIRD, *(naive(8, y) for y in (1, 4, 8)), DEFAULT, NAIVE]


@pytest.mark.parametrize(
    ("limit", "each", "places"),
    [
        (1e9, 1.0, [0, 1, 2, 3, 4, 6, 7]),
        (5.2, 1.0, [0, 1, 2, 6, 7]),
        (4.9, 1.0, [0, 1, 6, 7]),
        (0.0, 1.0, [0, 1, 6, 7]),
        (0.05, 0.0, [0, 1, 2, 3, 4, 6, 7]),
    ],
)
def test_the_final_round_has_as_many_as_there_is_time_for(limit, each, places):
    ranked = [(config, seconds(1e-3 * (1 + place / 10))) for place, config in enumerate(RANKED)]
    chosen = finalists.admitted(ranked, DEFAULT, NAIVE, seconds=limit, each=each)
    assert chosen == [ranked[place] for place in places]


def test_slow_candidates_take_a_place_only_where_three_rounds_of_them_fit():
    times = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 4.1]
    ranked = [(config, seconds(time)) for config, time in zip(RANKED, times, strict=True)]
    chosen = finalists.admitted(ranked, DEFAULT, NAIVE, seconds=10.0, each=0.0)
    assert [config for config, _ in chosen] == [FASTEST, SECOND, THIRD, DEFAULT]


def test_a_short_limit_has_fewer_finalists_and_a_winner_that_is_proven_all_the_same(root, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    for module in ("tuner", "lanes"):
        monkeypatch.setattr(f"autotune.{module}.time", SimpleNamespace(monotonic=lambda: clock.now))

    def play(what, *_):
        clock.now += 1.0 if what == "compile" else 0.0

    at_length, in_short = FakeRuntime(play=play), FakeRuntime(play=play)
    run(root / "long", at_length, trials=10)
    result = run(root / "short", in_short, trials=10, time_limit=11.0)
    assert (result.measured, result.ended, result.verified) == (10, "trials", True)
    assert set(in_short.finals) < set(at_length.finals)
    assert {*in_short.finals} >= {DEFAULT, result.config}


@pytest.mark.parametrize(
    "error", [CandidateFailed("crash", "the worker died"), ValueError("of a kind never seen")], ids=repr
)
def test_a_finalist_that_fails_in_the_final_round_is_not_published(root, error):
    runtime = FakeRuntime()
    turns = []

    def play(what, config, _sizes):
        if what == "time" and config == FASTEST and runtime.phase == "final":
            turns.append(config)
            if len(turns) > 5:  # five good readings, then none
                raise error

    runtime.play = play
    result = run(root, runtime)
    assert len(turns) == 6
    assert result.config == SECOND


def test_the_naive_kernel_is_measured_for_comparison(root):
    result = run(root, FakeRuntime())
    assert result.baseline_measurement.seconds == pytest.approx(3e-3 + 16e-5 + 16e-6)
    assert stored(root).baseline_measurement == result.baseline_measurement


def test_a_naive_kernel_that_fails_costs_a_note_and_nothing_else(root):
    error = CandidateFailed("hang", "no answer")
    result = run(root, FakeRuntime(play=failing(naive(16, 16), error)))
    assert (result.config, result.baseline_measurement) == (FASTEST, None)
    assert any("naive kernel could not be measured" in note for note in result.notes)


# -- what is stored ----------------------------------------------------------------------------------


def test_the_winner_is_stored_with_its_proof(root):
    result = run(root, FakeRuntime())
    found = stored(root)
    assert result.path.is_file()
    assert (found.config, found.measurement) == (result.config, result.measurement)
    assert (found.complete, found.verified, found.device) == (True, True, DEVICE)


def test_a_winner_within_noise_does_not_replace_the_old_entry(root):
    first = run(root, FakeRuntime())
    again = run(root, FakeRuntime({SECOND: 0.99e-3}))
    assert (again.config, again.path) == (SECOND, None)
    assert any("keeps its earlier winner" in note for note in again.notes)
    assert stored(root).config == first.config == FASTEST


def test_a_winner_beyond_noise_replaces_the_old_entry(root):
    run(root, FakeRuntime())
    again = run(root, FakeRuntime({SECOND: 0.8e-3}))
    assert again.path is not None
    assert stored(root).config == SECOND


def test_a_cache_that_cannot_be_written_costs_a_note_that_names_the_option(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    result = run(blocked, FakeRuntime())
    assert (result.config, result.path, result.verified) == (FASTEST, None, True)
    assert any("--cache-dir" in note for note in result.notes)


def test_winners_of_neighbours_in_the_cache_are_tried_first(root):
    odd = naive(64, 1)
    other_gpu = device(device_id=0x2204, name="NVIDIA GeForce RTX 3090")
    for problem, profile, config in (
        (GemmProblem(m=128, n=128, k=128), DEVICE, odd),
        (PROBLEM, other_gpu, THIRD),
        (GemmProblem(m=64, n=64, k=64, dtype="f16"), DEVICE, naive(8, 1)),  # another type tells nothing
    ):
        one = entry.new_entry(
            GEMM, problem, profile, config, seconds(1e-3), trials=9, complete=True, verified=True
        )
        cache.store(root, GEMM, one)
    runtime = FakeRuntime()
    run(root, runtime, trials=4)
    assert runtime.tried == [DEFAULT, NAIVE, odd, THIRD]


# -- interrupted and resumed -------------------------------------------------------------------------


def test_ctrl_c_stores_the_best_so_far_as_unfinished(root):
    runtime = FakeRuntime(play=interrupting(6))
    result = run(root, runtime)
    assert (result.ended, result.verified, result.measured) == ("interrupted", False, 5)
    found = stored(root)
    assert (found.config, found.complete, found.verified, found.trials) == (result.config, False, False, 5)
    measured = runtime.tried[:5]
    assert result.config == min(measured, key=lambda config: TIMES.get(config, 1.0))


def test_a_search_resumes_after_ctrl_c_without_measuring_anything_twice(root):
    first = FakeRuntime(play=interrupting(6))
    run(root, first)
    second = FakeRuntime()
    result = run(root, second)
    assert not set(first.tried[:5]) & set(second.tried)
    assert len(second.tried) == len(set(second.tried)) == ALL - 5  # the interrupted one included
    assert (result.measured, result.ended, result.verified) == (ALL, "exhausted", True)
    assert any("resumed" in note for note in result.notes)
    assert stored(root).complete
    assert not log_path(root).exists()


def test_trials_of_an_interrupted_search_count_when_it_resumes(root):
    run(root, FakeRuntime(play=interrupting(6)), trials=8)
    second = FakeRuntime()
    assert run(root, second, trials=8).measured == 8
    assert len(second.tried) == 3


@pytest.mark.parametrize("phase", ["final", "verify"])
def test_ctrl_c_in_the_last_phases_keeps_the_search_for_a_resume(root, phase):
    first = FakeRuntime()

    def play(what, *_):
        if what == "run" and first.phase == phase:
            raise KeyboardInterrupt

    first.play = play
    result = run(root, first)
    assert (result.ended, result.config) == ("interrupted", FASTEST)
    assert not stored(root).complete
    second = FakeRuntime()
    result = run(root, second)
    assert second.tried == []
    assert (result.config, result.verified, stored(root).complete) == (FASTEST, True, True)


def test_ctrl_c_before_anything_was_measured_is_passed_on(root):
    with pytest.raises(KeyboardInterrupt):
        run(root, FakeRuntime(play=interrupting(1)))
    assert stored(root) is None


def test_a_candidate_that_crashed_or_hung_is_not_retried_on_resume(root):
    def play(what, config, sizes):
        if what == "run" and config == DEFAULT:
            raise CandidateFailed("hang", "no answer within 20 s")
        stop(what, config, sizes)

    stop = interrupting(6)
    run(root, FakeRuntime(play=play))
    second = FakeRuntime()
    result = run(root, second)
    assert DEFAULT not in second.tried
    assert [name.partition(":")[0] for name in result.failed] == ["hang"]


def test_a_search_that_the_space_outgrew_resumes_with_what_is_still_valid(root, monkeypatch):
    first = FakeRuntime(play=interrupting(12))
    run(root, first)
    smaller = {**AXES, "naive": (Axis("workgroup_x", (8, 16)), Axis("workgroup_y", (1, 16)))}
    monkeypatch.setattr(space, "load_axes", lambda _family: smaller)
    second = FakeRuntime()
    result = run(root, second)
    assert not set(first.tried[:11]) & set(second.tried)
    assert (result.measured, result.ended) == (4 + 3 + 1, "exhausted")


def test_a_second_process_that_tunes_the_same_key_is_told_to_wait(root):
    with (
        trial_log.TrialLog.open(root, GEMM, PROBLEM, DEVICE),
        pytest.raises(AutotuneError, match=r"another process.*--cache-dir"),
    ):
        run(root, FakeRuntime())


# -- real workers ------------------------------------------------------------------------------------

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_tuner import AXES, PROBLEM
from autotune import space, trial_log
from autotune.results import Options
from autotune.tuner import tune

started = trial_log.TrialLog.started

def announce(log, config):
    print("started", config, flush=True)
    started(log, config)

trial_log.TrialLog.started = announce
space.load_axes = lambda family: AXES
result = tune(PROBLEM, trials=8, cache_dir=sys.argv[2], options=Options(jobs=1),
              observe=lambda at: print("measured", at.phase, at.measured, at.best and at.best[0], flush=True))
print("result", result.measured, result.ended, result.verified, flush=True)
print("modules", sorted({"wgpu", "wgpudawn"} & set(sys.modules)), flush=True)
"""


@pytest.fixture
def worker():
    try:
        runtime = WorkerRuntime()
    except NoAdapter as error:
        pytest.skip(str(error))
    yield runtime
    runtime.close()


def child(root):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(ROOT / "tests"), str(root)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def finished_in(log):
    """Seconds of the candidates that a log knows the outcome of, by config."""
    found = {}
    for line in log.read_text().splitlines()[1:]:
        event = json.loads(line)
        if event["event"] == "finished":
            config = space.config_from(GEMM, event["config"].pop("variant"), event["config"])
            found[config] = event["measurement"]["seconds"]
    return found


def test_after_kill_9_a_search_resumes_without_measuring_anything_twice(root, worker):
    profile = worker.profile
    worker.close()
    first = child(root)
    for line in first.stdout:
        if line.startswith("measured search 4 "):
            break
    first.send_signal(signal.SIGKILL)
    rest, _ = first.communicate(timeout=60)
    assert "result" not in rest
    before = finished_in(log_path(root, profile))
    assert len(before) >= 4

    output, _ = child(root).communicate(timeout=120)
    lines = output.splitlines()
    again = [line for line in lines if line.startswith("started")]
    assert len(again) == 8 - len(before)
    assert not {f"started {config}" for config in before} & set(again)
    best = min(before, key=before.get)
    assert next(line for line in lines if line.startswith("measured search")) == (
        f"measured search {len(before)} {best}"
    )
    assert "result 8 trials True" in lines
    assert "modules []" in lines  # only the worker opens a GPU
    assert stored(root, profile).complete


def test_after_kill_9_of_the_worker_the_search_goes_on(root, worker):
    def kill_once(progress):
        if (progress.phase, progress.measured, worker.restarts) == ("search", 2, 0) and worker.worker_pid:
            os.kill(worker.worker_pid, signal.SIGKILL)

    result = tune(
        PROBLEM, trials=5, time_limit=600.0, cache_dir=root, runtime=worker, observe=kill_once,
        options=Options(jobs=1),
    )  # fmt: skip
    assert worker.restarts == 1
    assert (result.measured, result.ended, result.verified) == (5, "trials", True)
    assert list(result.failed.values()) == [1]
    assert "crash" in next(iter(result.failed))


@pytest.mark.parametrize("phase", ["final", "verify"])
def test_after_kill_9_of_the_worker_in_the_last_phases_there_is_still_a_result(root, worker, phase):
    def kill_once(progress):
        if (progress.phase, worker.restarts) == (phase, 0):
            os.kill(worker.worker_pid, signal.SIGKILL)

    result = tune(
        PROBLEM, trials=3, time_limit=600.0, cache_dir=root, runtime=worker, observe=kill_once,
        options=Options(jobs=1),
    )  # fmt: skip
    assert worker.restarts == 1
    assert (result.measured, result.verified) == (3, True)


@pytest.mark.parametrize("bad", [{"trials": 0}, {"trials": -3}, {"time_limit": 0.0}])
def test_no_trials_or_no_time_is_refused(root, bad):
    with pytest.raises(AutotuneError, match="must be above 0"):
        run(root, FakeRuntime(), **bad)


def test_a_failure_without_a_reason_is_counted_too(root):
    result = run(root, FakeRuntime(play=failing(FASTEST, CandidateFailed("run", ""))))
    assert result.config == SECOND
    assert sum(result.failed.values()) == 1


def test_a_disk_that_fills_up_costs_the_resume_but_not_the_result(root, monkeypatch):
    calls = []

    def full(_log, trial):
        calls.append(trial)
        if len(calls) > 3:
            raise CacheUnwritable("disk full")

    monkeypatch.setattr(TrialLog, "finished", full)
    assert run(root, FakeRuntime()).config == FASTEST
    assert len(calls) > 3


def test_a_cache_that_cannot_be_written_costs_the_entry_and_is_told_in_one_line(root):
    root.write_text("")
    result = run(root / "below a file", FakeRuntime())
    assert (result.config, result.path) == (FASTEST, None)
    (line,) = (note for note in result.notes if "--cache-dir" in note)
    assert line.startswith("nothing can be stored: cannot write to the cache")


class Misnamed(Gemm):
    """Calls its data what the plan does not."""

    wrong: dict = {}  # noqa: RUF012

    def inputs(self, problem, seed, *, integers):
        return self.wrong.get("inputs") or super().inputs(problem, seed, integers=integers)

    def reference(self, problem, inputs):
        return self.wrong.get("reference") or super().reference(problem, inputs)


VECTOR = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inputs": {"a": VECTOR}}, r"gemm: inputs\(\) gives a, but the input buffers of its plan are a, b"),
        ({"reference": {"z": VECTOR}}, r"gemm: reference\(\) gives z, but the output buffers .* are c"),
        ({"reference": {"c": VECTOR, "z": VECTOR}}, r"gemm: reference\(\) gives c, z, but"),
    ],
    ids=["missing input", "unknown output", "one output too many"],
)
def test_data_that_the_plan_does_not_name_is_one_clear_line(wrong, message):
    family = Misnamed()
    family.wrong = wrong
    with pytest.raises(AutotuneError, match=message):
        Bench(family, PROBLEM, FakeRuntime(), seed=0)


def test_an_input_too_many_is_one_clear_line():
    family = Misnamed()
    family.wrong = {"inputs": {**GEMM.inputs(PROBLEM, 0, integers=True), "alpha": VECTOR}}
    with pytest.raises(AutotuneError, match=r"inputs\(\) gives a, alpha, b, but the input buffers"):
        Bench(family, PROBLEM, FakeRuntime(), seed=0)


# -- searches that come to nothing, and wrong arguments ----------------------------------------------


def test_a_problem_that_no_config_can_run_names_the_limit(root, monkeypatch):
    monkeypatch.undo()  # the shipped space, which is large
    with pytest.raises(
        TuningFailed, match=r"6000x6000x6000-f32 here: .*largest storage binding: 144000000 B"
    ):
        tune(GemmProblem(m=6000, n=6000, k=6000), cache_dir=root, runtime=FakeRuntime())


@pytest.mark.parametrize("stage", ["crash", "hang"])
def test_what_crashed_or_hung_is_tried_again_when_asked_for(root, stage):
    def play(what, config, sizes):
        if what == "run" and config == DEFAULT:
            raise CandidateFailed(stage, "no answer within 20 s")
        if what == "run" and config == NAIVE:
            raise CandidateFailed("run", "refused")
        stop(what, config, sizes)

    stop = interrupting(6)
    first = FakeRuntime(play=play)
    run(root, first)
    second = FakeRuntime()
    result = run(root, second, retry=True)
    assert DEFAULT in second.tried
    assert NAIVE not in second.tried  # it may well be wrong
    assert not (set(first.tried[:-1]) - {DEFAULT}) & set(second.tried)  # times are kept
    assert (result.ended, list(result.failed)) == ("exhausted", ["run: refused"])


MANY = {"naive": (Axis("workgroup_x", tuple(range(1, 17))), Axis("workgroup_y", tuple(range(1, 17))))}


def test_a_search_that_meets_one_kind_of_failure_only_ends_and_shows_it(root, monkeypatch, capsys):
    monkeypatch.setattr(space, "load_axes", lambda _family: MANY)

    def play(what, config, _sizes):
        if what == "run":
            raise CandidateFailed("crash", f"the worker died after {config.workgroup_x} s")

    runtime = FakeRuntime(play=play)
    with pytest.raises(
        TuningFailed, match=r"50 in a row failed alike, .*: 50× crash: the worker died"
    ) as caught:
        run(root, runtime)
    assert len(runtime.tried) == 50
    console.failed(caught.value)
    assert "    the worker died after " in capsys.readouterr().err


@pytest.mark.parametrize("kinds", ["two kinds of failure", "one that works"])
def test_a_search_that_meets_anything_else_goes_on(root, monkeypatch, kinds):
    monkeypatch.setattr(space, "load_axes", lambda _family: MANY)
    good = naive(16, 16)

    def play(what, config, _sizes):
        if what == "run" and (config != good or kinds == "two kinds of failure"):
            raise CandidateFailed("crash" if config.workgroup_x % 2 else "run", "no")

    runtime = FakeRuntime(play=play)
    if kinds == "one that works":
        run(root, runtime)
    else:
        with pytest.raises(TuningFailed, match="no candidate worked, nothing was stored"):
            run(root, runtime)
    assert len(runtime.tried) == 256


def test_a_time_limit_that_ends_before_the_first_candidate_says_so(root):
    with pytest.raises(TuningFailed, match=r"the time limit of 1e-09 s ended before the first candidate\Z"):
        run(root, FakeRuntime(), time_limit=1e-9)


def test_a_device_lost_before_the_first_outcome_is_named(root):
    def play(*_):
        raise WorkerError("the adapter is gone")

    with pytest.raises(
        TuningFailed, match=r"nothing was stored: the search ended early: the adapter is gone"
    ):
        run(root, FakeRuntime(play=play))


@pytest.mark.parametrize(
    "wrong",
    [
        {"adapter": 0},
        {"adapter": b"0"},
        {"seed": "0"},
        {"seed": 1.5},
        {"seed": None},
        {"seed": -1},
        {"trials": 2.5},
        {"trials": "9"},
        {"trials": True},
        {"time_limit": "9"},
    ],
    ids=repr,
)
def test_arguments_of_wrong_types_are_refused_by_name(root, wrong):
    (name,) = wrong
    with pytest.raises(TypeError, match=rf"\A{name} must be [^\n]*\Z"):
        tune(PROBLEM, cache_dir=root, **wrong)
