"""Recordings are read back as they were, go on where they stopped, and refuse what does not compare."""

import gzip
import json
from math import inf, nan
from pathlib import Path

import pytest
from fake_family import FAKE, FakeProblem, Fast, Square, device, seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import recorded
from autotune.errors import AutotuneError
from autotune.model import Measurement, Rejection, Trial
from autotune.recording import Recorder
from autotune.replay import replay, summaries
from autotune.search.samplers import SAMPLERS
from autotune.space import Axis

PROBLEM = FakeProblem(m=64)
AXES = {
    "square": (Axis("tile", (1, 2, 4, 8)),),
    "fast": (Axis("tile", (16, 32)), Axis("half", (False, True))),
}
TRIALS = (
    Trial(config=Square(tile=4), outcome=seconds(2e-3)),
    Trial(config=Fast(tile=32, half=True), outcome=seconds(1.23456789e-3)),
    Trial(config=Square(tile=8), outcome=Rejection(stage="compile", reason="no")),
)


def recorder(path, **changes) -> Recorder:
    facts = {"problem": PROBLEM, "profile": device(), "axes": AXES, "legal": 8} | changes
    return Recorder(path, FAKE, **facts)


def recording(path):
    one = recorder(path)
    for trial in TRIALS:
        one.add(trial)
    one.save()
    return path


def test_a_recording_is_a_recorded_space(tmp_path):
    space = recorded.load(recording(tmp_path / "r.gz"))
    assert space.times == {("square", (2,)): 2e-3, ("fast", (1, 1)): 1.2346e-3, ("square", (3,)): None}
    assert set(space.space.points) == set(space.times)
    assert space.space.axes == AXES
    assert space.optimum == 1.2346e-3


def test_a_recorder_goes_on_with_what_the_file_holds(tmp_path):
    again = recorder(recording(tmp_path / "r.gz"))
    held = {trial.config: trial.outcome for trial in again.trials}
    assert held[Square(tile=4)].seconds == 2e-3
    assert held[Square(tile=8)].stage == "compile"
    again.add(Trial(config=Square(tile=1), outcome=seconds(5e-3)))
    again.add(Trial(config=Square(tile=4), outcome=seconds(3e-3)))  # measured again: the latest counts
    again.save()
    times = recorded.load(tmp_path / "r.gz").times
    assert (len(times), times[("square", (0,))], times[("square", (2,))]) == (4, 5e-3, 3e-3)


def test_a_file_opened_and_never_added_to_keeps_what_it_held(tmp_path):
    before = recorded.load(recording(tmp_path / "r.gz")).times
    recorder(tmp_path / "r.gz")
    assert recorded.load(tmp_path / "r.gz").times == before


def test_configs_that_no_longer_exist_are_left_out_when_going_on(tmp_path):
    fewer = {"square": AXES["square"]}
    again = recorder(recording(tmp_path / "r.gz"), axes=fewer)
    again.save()
    assert set(recorded.load(tmp_path / "r.gz").times) == {("square", (2,)), ("square", (3,))}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"problem": FakeProblem(m=65)}, "problem"),
        ({"profile": device(device_id=1)}, "device"),
        ({"profile": device(driver="another")}, "driver"),
    ],
)
def test_a_recording_of_something_else_is_not_gone_on_with(tmp_path, changes, word):
    path = recording(tmp_path / "r.gz")
    content = path.read_bytes()
    with pytest.raises(AutotuneError, match=rf"recorded with (an)?other {word} .* give --record a new file"):
        recorder(path, **changes)
    assert path.read_bytes() == content


def test_another_problem_is_told_by_its_label(tmp_path):
    with pytest.raises(AutotuneError) as caught:
        recorder(recording(tmp_path / "r.gz"), problem=FakeProblem(m=65))
    assert f"({FAKE.label(PROBLEM)}, now {FAKE.label(FakeProblem(m=65))})" in str(caught.value)


@pytest.mark.parametrize("row", ['["none",[0],1.0]', '["square",[4],1.0]', '["square",[0,0],1.0]'])
def test_a_recording_with_places_that_no_axis_has_is_not_gone_on_with(tmp_path, row):
    path = recording(tmp_path / "r.gz")
    content = gzip.compress(gzip.decompress(path.read_bytes()) + row.encode())
    path.write_bytes(content)
    with pytest.raises(AutotuneError, match="not a sound recording"):
        recorder(path)
    assert path.read_bytes() == content


def test_a_recording_behind_a_link_is_written_where_it_is(tmp_path):
    (tmp_path / "link.gz").symlink_to(recording(tmp_path / "r.gz"))
    one = recorder(tmp_path / "link.gz")
    one.add(Trial(config=Square(tile=1), outcome=seconds(5e-3)))
    one.save()
    assert (tmp_path / "link.gz").is_symlink()
    assert len(recorded.load(tmp_path / "r.gz").times) == 4


def test_a_recording_that_cannot_be_written_is_told_before_the_search(tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "r.gz"
    with pytest.raises(AutotuneError) as caught:
        recorder(path)
    assert str(caught.value) == f"cannot write the recording {path}: File exists"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_a_recording_that_cannot_be_written_is_named_as_it_was_asked_for():
    with pytest.raises(AutotuneError) as caught:
        recorder(Path("/proc/x"))
    assert str(caught.value) == "cannot write the recording /proc/x: No such file or directory"


@settings(max_examples=60, deadline=None)
@given(damage=st.binary(max_size=40), data=st.data())
def test_a_damaged_recording_is_refused_in_one_line_or_read(tmp_path_factory, damage, data):
    path = recording(tmp_path_factory.mktemp("r") / "r")
    content = gzip.decompress(path.read_bytes())
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    path.write_bytes(content[:start] + damage + content[end:])
    try:
        space = recorded.load(path)
    except AutotuneError as error:
        assert "\n" not in str(error)
    else:
        assert all(value is None or value > 0 for value in space.times.values())


# -- tables and Kernel Tuner's caches ----------------------------------------------------------------


def test_a_table_of_times(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"MWG,KIND,time_ms\n32,row,1.5\n16,row,2\n32,col,nan\n16,col,error\n"))
    space = recorded.load(path)
    assert space.space.axes["recorded"] == (Axis("MWG", (16, 32)), Axis("KIND", ("row", "col")))
    assert space.times == {
        ("recorded", (1, 0)): 1.5e-3,
        ("recorded", (0, 0)): 2e-3,
        ("recorded", (1, 1)): None,
        ("recorded", (0, 1)): None,
    }


def test_tables_of_spreadsheets_and_with_empty_lines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfa,time_ms\r\n1,2\r\n\r\n2,4\r\n\r\n")
    space = recorded.load(path)
    assert space.space.axes["recorded"] == (Axis("a", (1, 2)),)
    assert space.times == {("recorded", (0,)): 2e-3, ("recorded", (1,)): 4e-3}


def test_rows_of_separators_alone_are_no_configs(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,KIND,time_ms\n1,x,2\n2,y,4\n,,\n , ,\n,,\n")
    assert list(recorded.load(path).times.values()) == [2e-3, 4e-3]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["16", " 32", "-8", "+4"], (-8, 4, 16, 32)),
        (["0.5", "1e3", ".25", "2."], (0.25, 0.5, 2.0, 1000.0)),
        (["1_0", "10"], ("1_0", "10")),
        (["\u0661", "1"], ("\u0661", "1")),
        (["nan", "inf", "1"], ("nan", "inf", "1")),
        (["1e5", "10e4", "abc"], ("1e5", "10e4", "abc")),
        (["0x10", "True"], ("0x10", "True")),
    ],
)
def test_a_column_of_a_table_is_numbers_only_where_all_are_plain_ones(tmp_path, texts, values):
    path = tmp_path / "t.csv"
    path.write_text("a,time_ms\n" + "".join(f"{text},1\n" for text in texts), encoding="utf-8")
    space = recorded.load(path)
    assert space.space.axes["recorded"][0].values == values
    assert len(space.times) == len(texts)


def test_times_of_a_table_are_plain_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,time_ms\n1, 2.5\n2,1_0\n3,\u0661\n4,inf\n5,nan\n6,\n", encoding="utf-8")
    assert list(recorded.load(path).times.values()) == [2.5e-3, None, None, None, None, None]


KERNEL_TUNER = {
    "device_name": "NVIDIA A100",
    "kernel_name": "gemm",
    "tune_params_keys": ["block_size_x", "use_padding", "layout"],
    "tune_params": {"block_size_x": [16, 32, 64], "use_padding": [0, 1], "layout": ["a", "b"]},
    "cache": {
        "32,1,a": {"block_size_x": 32, "use_padding": 1, "layout": "a", "time": 2.5, "times": [2.4, 2.6]},
        "16,0,b": {"block_size_x": 16, "use_padding": 0, "layout": "b", "time": 4.0, "GFLOP/s": 1},
        "64,0,a": {"block_size_x": 64, "use_padding": 0, "layout": "a", "time": "RuntimeFailedConfig"},
        "64,1,a": {"block_size_x": 64, "use_padding": 1, "layout": "a", "time": 1e20},
    },
}


def test_a_cache_of_kernel_tuner(tmp_path):
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(KERNEL_TUNER))
    space = recorded.load(path)
    assert space.space.axes["recorded"][0] == Axis("block_size_x", (16, 32, 64))
    by_values = dict(sorted(space.times.items()))
    assert list(by_values.values()) == [4e-3, 2.5e-3, None, None]
    assert space.optimum == 2.5e-3


@pytest.mark.parametrize("taken", [10**400, -1, "1e999", None, [1], nan, inf, -inf, True])
def test_a_time_that_is_none_is_a_failure(tmp_path, taken):
    path = tmp_path / "cache.json"
    odd = {"block_size_x": 64, "use_padding": 1, "layout": "b", "time": taken}
    path.write_text(json.dumps({**KERNEL_TUNER, "cache": {**KERNEL_TUNER["cache"], "64,1,b": odd}}))
    times = recorded.load(path).times
    assert len(times) == 5
    assert list(times.values())[-1] is None


def test_what_is_no_number_in_other_metrics_of_kernel_tuner_is_nobody_s_business(tmp_path):
    path = tmp_path / "cache.json"
    record = {"block_size_x": 64, "use_padding": 1, "layout": "b", "time": 8.0, "GFLOP/s": nan, "W": inf}
    path.write_text(json.dumps({**KERNEL_TUNER, "cache": {**KERNEL_TUNER["cache"], "64,1,b": record}}))
    assert list(recorded.load(path).times.values())[-1] == 8e-3


@pytest.mark.parametrize("value", ["1e999", "-Infinity", "NaN", "1" + "0" * 400])
def test_a_parameter_that_is_no_number_to_compute_with_is_one_clear_line(tmp_path, value):
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(KERNEL_TUNER).replace('"block_size_x": 16', f'"block_size_x": {value}'))
    with pytest.raises(
        AutotuneError, match="block_size_x has a value that is no number, or beyond"
    ) as caught:
        recorded.load(path)
    assert "\n" not in str(caught.value)


def test_a_cache_of_kernel_tuner_whose_run_was_killed(tmp_path):
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(KERNEL_TUNER)[:-2] + ",\n")
    assert len(recorded.load(path).times) == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "needs a column a parameter"),
        (b"a,b\n1,2\n", "time_s, time_ms, time_us"),
        (b"a,time_ms\n1\n", "no recorded space"),
        (b'{"cache": {}}', "no Kernel Tuner cache"),
        (b'{"tune_params_keys": ["a"], "cache": {"1": {"b": 1, "time": 2}}}', "no Kernel Tuner cache"),
        (b'{"tune_params_keys": ["a"], "cache": [1]}', "no Kernel Tuner cache"),
        (b'{"tune_params_keys": [], "cache": {"1": {"a": 1, "time": 2}}}', "no Kernel Tuner cache"),
        (b'{"tune_params_keys": "a", "cache": {"1": {"a": 1, "time": 2}}}', "no Kernel Tuner cache"),
        (b"time_ms\n1\n2\n", "it has no parameter"),
        (b"a,time_ms\n1e999,2\n", "a has a value that is no number, or beyond what a float can hold"),
        (b"{broken", "neither a recording nor a Kernel Tuner cache"),
        (b'{"format":"autotune-recording","schema":2}', "is not a recording"),
        (b"a,time_ms\n1,failed\n", "no config has a time"),
        (b"\x1f\x8bbroken", "cannot be unpacked"),
        (gzip.compress(b"a,time_ms\n1,2\n", mtime=0)[:10] + b"\x00" * 20, "cannot be unpacked"),
        (b"a,a,time_ms\n1,2,3\n", "two parameters are named 'a'"),
        (b"a,time_ms\n1" + b"0" * 400 + b",3\n", "beyond what a float can hold"),
        (b'{"tune_params_keys": ["a", "a"], "cache": {"1": {"a": 1, "time": 2}}}', "two parameters are"),
        (b"a,b\n1,2\n", "the last column is named 'b'"),
        (b"a,b,time_ms\n1,2,3\n\n1,2\n", "line 4 has 2 columns, the first 3"),
    ],
)
def test_files_that_are_no_recorded_space_are_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(AutotuneError, match=words) as caught:
        recorded.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(AutotuneError, match="there is no file"):
        recorded.load(tmp_path / "none")


# -- replays -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid(tmp_path_factory) -> recorded.Recorded:
    """400 configs, a quarter of which fail; the best is not at a corner."""
    path = tmp_path_factory.mktemp("grid") / "t.csv"
    rows = [
        f"{x},{y},{'failed' if x > 14 and y > 9 else 1 + (x - 6) ** 2 + (y - 13) ** 2}"
        for x in range(1, 21)
        for y in range(1, 21)
    ]
    path.write_text("x,y,time_ms\n" + "\n".join(rows))
    return recorded.load(path)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_finds_the_best_of_a_space_in_as_many_steps_as_it_has_points(grid, sampler):
    curve = replay(grid, sampler, seed=0, trials=500)
    assert len(curve.shares) == 400
    assert list(curve.shares) == sorted(curve.shares)
    assert curve.shares[-1] == 1.0


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "exhaustive"])
def test_a_sampler_repeats_itself_with_its_seed_and_only_then(grid, sampler):
    one, same, other = (replay(grid, sampler, seed=seed, trials=30).shares for seed in (5, 5, 6))
    assert one == same != other


@pytest.mark.parametrize("sampler", ["default", "local", "tpe", "cmaes"])
def test_samplers_that_learn_beat_chance(grid, sampler):
    def reached(name):
        curves = [replay(grid, name, seed=seed, trials=60) for seed in range(5)]
        return sum(curve.at(60) for curve in curves)

    assert reached(sampler) > reached("random")


def test_summaries_tell_the_budgets_up_to_the_trials(grid):
    curves = [replay(grid, "random", seed=seed, trials=60) for seed in range(4)]
    found = summaries(curves, 60)
    assert [one.budget for one in found] == [25, 50, 60]
    assert all(0 <= one.low <= one.median <= 1 for one in found)


def test_measurements_of_a_recording_have_its_clock(tmp_path):
    one = recorder(tmp_path / "r.gz")
    one.add(Trial(config=Square(tile=4), outcome=seconds(2e-3, clock="wall")))
    one.save()
    (held,) = recorder(tmp_path / "r.gz").trials
    assert isinstance(held.outcome, Measurement)
    assert held.outcome.clock == "wall"
