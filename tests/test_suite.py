"""Suites: read strictly, ordered so that near problems follow each other, resumable."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tuner import AXES, DEVICE, FASTEST, FakeRuntime

from autotune import console_reports, paths, space, suite
from autotune.cli import cli
from autotune.errors import AutotuneError, InvalidProblem
from autotune.kernels import family_of
from autotune.kernels.gemm import GemmProblem
from autotune.results import Options
from autotune.runtime import process
from autotune.runtime.base import CandidateFailed

SIZES = (64, 96, 128)
PROBLEMS = [GemmProblem(m=size, n=size, k=size) for size in SIZES]


@pytest.fixture(autouse=True)
def small_space(monkeypatch, tmp_path):
    monkeypatch.setattr(space, "load_axes", lambda _family: AXES)
    monkeypatch.setattr(paths, "shipped_cache_dir", lambda: tmp_path / "shipped")


def written(tmp_path, text):
    path = tmp_path / "suite.toml"
    path.write_text(text)
    return path


def run(tmp_path, runtime, problems=PROBLEMS, **options):
    def observer(_number, _problem):
        return lambda progress: setattr(runtime, "phase", progress.phase)

    return list(
        suite.run(
            problems, runtime, options=Options(), cache_dir=tmp_path / "cache", trials=1000,
            time_limit=600.0, observer=observer, **options,
        )
    )  # fmt: skip


def test_a_suite_is_a_list_of_problems_by_their_options(tmp_path):
    path = written(
        tmp_path,
        """
        [[problem]]
        kernel = "gemm"
        size = 64
        transpose-b = true
        [[problem]]
        kernel = "gemm_q4"
        m = 1
        n = 256
        k = 256
        group = 32
        [[problem]]
        kernel = "gemm"
        size = 64
        transpose_b = true
        """,
    )
    first, second = suite.read(path)  # one that is there twice counts once
    assert first == GemmProblem(m=64, n=64, k=64, transpose_b=True)
    assert family_of(second).name == "gemm_q4"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"a list of \[\[problem\]\] tables"),
        ("problem = 1", r"a list of \[\[problem\]\]"),
        ("name = 'x'\n[[problem]]\nkernel='gemm'\nsize=8", "and nothing else"),
        ("[[problem]]\nsize = 8", "number 1: kernel must be one of gemm"),
        ("[[problem]]\nkernel='gemm'\nsize=8\n[[problem]]\nkernel='none'", "number 2: kernel must be"),
        ("[[problem]]\nkernel='gemm'\nwidth=8", "gemm has no option 'width'; it has size"),
        ("[[problem]]\nkernel='gemm'\nsize='8'", "size must be of type int, not '8'"),
        ("[[problem]]\nkernel='gemm'\nsize=true", "size must be of type int"),
        ("[[problem]]\nkernel='gemm'\nsize=8\ndtype='f8'", "dtype must be one of f32"),
        ("[[problem]]\nkernel='gemm'\nsize=8\nalpha='x'", "alpha must be a number"),
        ("[[problem]]\nkernel='gemm'\nsize=0", "number 1: "),
        ("[[problem]", "cannot read the suite"),
        ("problem = [1]", "number 1: it must be a table"),
        ("problem = ['ab']", "number 1: it must be a table"),
        ("problem = [[['kernel', 'gemm']]]", "number 1: it must be a table"),
        ("[[problem]]\nkernel=['gemm']", "number 1: kernel must be one of"),
        ("[[problem]]\nkernel={gemm=1}", "number 1: kernel must be one of"),
        ("[[problem]]\nkernel='gemm'\nsize=8\ntranspose-b=true\ntranspose_b=false", "number 1: .*twice"),
    ],
)
def test_what_is_wrong_in_a_suite_is_named_with_its_place(tmp_path, text, words):
    with pytest.raises(AutotuneError, match=words) as caught:
        suite.read(written(tmp_path, text))
    assert "\n" not in str(caught.value) or "TOML" in str(caught.value)
    assert isinstance(caught.value, InvalidProblem) == ("number" in str(caught.value))


def test_what_is_no_file_is_no_suite(tmp_path):
    with pytest.raises(AutotuneError, match="is not a regular file"):
        suite.read(Path(os.devnull))
    with pytest.raises(AutotuneError, match="there is no suite"):
        suite.read(tmp_path / "none")


def test_the_suite_of_the_benchmarks_is_one():
    problems = suite.read(Path(__file__).parents[1] / "benchmarks" / "llama-8b-f16.toml")
    assert len(problems) == 12
    assert {problem.dtype for problem in problems} == {"f16"}


def test_near_problems_follow_each_other():
    sizes = (64, 4096, 128, 2048, 256, 1024, 512)
    chain = suite.ordered(GemmProblem(m=size, n=size, k=size) for size in sizes)
    assert chain[0].m == 512  # amid all
    for place, problem in enumerate(chain[1:], start=1):
        assert any(problem.m in (2 * done.m, done.m // 2) for done in chain[:place])


@settings(max_examples=30)
@given(st.lists(st.tuples(*[st.integers(1, 5000)] * 3), max_size=8, unique=True))
def test_an_order_holds_every_problem_once(sizes):
    problems = [GemmProblem(m=m, n=n, k=k) for m, n, k in sizes]
    assert sorted(map(repr, suite.ordered(problems))) == sorted(map(repr, problems))


def test_every_problem_is_tuned_and_the_second_time_known(tmp_path):
    runtime = FakeRuntime()
    first = run(tmp_path, runtime)
    assert [outcome.problem for outcome in first] == PROBLEMS
    assert all(outcome.result.config == FASTEST for outcome in first)
    runtime.tried.clear()
    again = run(tmp_path, runtime)
    assert [outcome.answer.config for outcome in again] == [FASTEST] * 3
    assert runtime.tried == []
    forced = run(tmp_path, runtime, force=True)
    assert all(outcome.result is not None for outcome in forced)


def test_a_winner_is_tried_early_for_the_next_problem(tmp_path):
    runtime = FakeRuntime()
    run(tmp_path, runtime, PROBLEMS[:1])
    runtime.tried.clear()
    run(tmp_path, runtime, PROBLEMS[1:2])
    assert FASTEST in runtime.tried[:3]  # after the default and the naive kernel


def test_a_problem_that_fails_does_not_end_the_suite(tmp_path, capsys):
    def play(what, _config, sizes):
        if what == "run" and sizes["m"] == 96 and runtime.phase == "search":
            raise CandidateFailed("run", "not\ntoday")

    runtime = FakeRuntime(play=play)
    outcomes = run(tmp_path, runtime)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    console_reports.suite(outcomes, DEVICE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert "no candidate worked" in lines[3]


def test_an_interrupted_suite_goes_on_where_it_was(tmp_path):
    runs = []

    def play(what, _config, sizes):
        if what == "run" and sizes["m"] == 96:
            runs.append(sizes)
            if len(runs) == 5:
                raise KeyboardInterrupt

    first = run(tmp_path, FakeRuntime(play=play))
    assert [outcome.result.ended for outcome in first] == ["exhausted", "interrupted"]
    runtime = FakeRuntime()
    again = run(tmp_path, runtime)
    assert [outcome.answer is not None for outcome in again] == [True, False, False]
    assert any("resumed a search that had tried 4" in note for note in again[1].result.notes)


def test_the_report_can_be_written_as_json(tmp_path):
    console_reports.written(tmp_path / "report.json", run(tmp_path, FakeRuntime(), PROBLEMS[:1]))
    assert '"ended": "exhausted"' in (tmp_path / "report.json").read_text()
    with pytest.raises(AutotuneError, match="cannot write"):
        console_reports.written(tmp_path / "none" / "report.json", [])


@pytest.mark.parametrize(("ends", "code"), [(KeyboardInterrupt(), 130), (AutotuneError("the end"), 1)])
def test_a_suite_that_ends_early_tells_what_is_done(tmp_path, monkeypatch, ends, code):
    done = run(tmp_path, FakeRuntime(), PROBLEMS[:1])

    def begun(*_problems, **_options):
        yield from done
        raise ends

    monkeypatch.setattr(suite, "run", begun)
    monkeypatch.setattr(process, "WorkerRuntime", lambda *_words, **_options: FakeRuntime())
    monkeypatch.setattr(FakeRuntime, "close", lambda _runtime: None)
    path = written(tmp_path, "[[problem]]\nkernel='gemm'\nsize=64")
    ended = CliRunner().invoke(cli, ["suite", str(path), "--out", str(tmp_path / "report.json")])
    assert "gemm 64x64x64-f32" in ended.output
    assert "exhausted" in (tmp_path / "report.json").read_text()
    assert ended.exit_code == code


def test_a_report_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "run", lambda *_problems, **_options: pytest.fail("it began"))
    path = written(tmp_path, "[[problem]]\nkernel='gemm'\nsize=64")
    ended = CliRunner().invoke(cli, ["suite", str(path), "--out", str(tmp_path / "none" / "report.json")])
    assert isinstance(ended.exception, AutotuneError)
    assert "cannot write" in str(ended.exception)
    console_reports.check_target(tmp_path / "new")
    assert not (tmp_path / "new").exists()
