import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_family import FAKE, FakeProblem, Fast, Square, device, seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import trial_log
from autotune.errors import AutotuneError, CacheUnwritable
from autotune.model import Rejection, Trial
from autotune.trial_log import TrialLog

PROBLEM = FakeProblem(m=64)
TRIALS = (
    Trial(config=Square(tile=8), outcome=seconds(1e-3), seconds_spent=0.5),
    Trial(config=Fast(tile=16, half=True), outcome=Rejection(stage="verify", reason="wrong «é»\nat 3")),
    Trial(config=Square(tile=16), outcome=seconds(2e-3)),
)


def open_log(root, problem=PROBLEM, profile=None):
    return TrialLog.open(root, FAKE, problem, profile or device())


def record(root, trials=TRIALS):
    with open_log(root) as log:
        for trial in trials:
            log.started(trial.config)
            log.finished(trial)
    return log.path


def killed_while_running(root, *configs):
    """What a process leaves that was killed while these ran."""
    log = open_log(root)
    for config in configs:
        log.started(config)
    log._running.clear()  # so that closing does not say that they were interrupted
    log.close()


def test_a_new_log_is_empty_and_lies_beside_the_entries(tmp_path):
    with open_log(tmp_path) as log:
        assert (log.trials, log.unfinished) == ((), ())
        expected = "studies/fake/10de-2206-vulkan-naga/64x64-plain.jsonl"
        assert log.path.relative_to(tmp_path).as_posix() == expected


def test_finished_trials_come_back(tmp_path):
    record(tmp_path, TRIALS[:2])
    with open_log(tmp_path) as log:
        assert log.trials == TRIALS[:2]
        log.started(TRIALS[2].config)
        log.finished(TRIALS[2])
    with open_log(tmp_path) as log:
        assert log.trials == TRIALS
        assert log.unfinished == ()


def test_a_candidate_refused_without_running_needs_no_start(tmp_path):
    with open_log(tmp_path) as log:
        log.finished(TRIALS[1])
    with open_log(tmp_path) as log:
        assert log.trials == (TRIALS[1],)


def test_a_candidate_running_when_killed_may_be_tried_once_more(tmp_path):
    record(tmp_path, TRIALS[:1])
    killed_while_running(tmp_path, Square(tile=4))
    with open_log(tmp_path) as log:
        assert log.trials == TRIALS[:1]
        assert log.unfinished == (Square(tile=4),)
    killed_while_running(tmp_path, Square(tile=4))
    with open_log(tmp_path) as log:
        crash = log.trials[-1]
        assert crash.config == Square(tile=4)
        assert crash.outcome == Rejection(
            stage="crash", reason="was running when the program was killed, twice"
        )
        assert log.unfinished == ()


def test_a_second_start_that_ends_well_counts_as_finished(tmp_path):
    killed_while_running(tmp_path, TRIALS[0].config)
    record(tmp_path, TRIALS[:1])
    with open_log(tmp_path) as log:
        assert log.trials == TRIALS[:1]
        assert log.unfinished == ()


def test_a_polite_interruption_blames_nobody(tmp_path):
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt), open_log(tmp_path) as log:
            assert (log.trials, log.unfinished) == ((), ())
            log.started(Square(tile=4))
            raise KeyboardInterrupt
    killed_while_running(tmp_path, Square(tile=4))
    with open_log(tmp_path) as log:
        assert log.unfinished == (Square(tile=4),)


CHILD = """
import sys, time
from pathlib import Path
from types import ModuleType
from test_trial_log import *
log = open_log(Path(sys.argv[1]))
log.started(TRIALS[0].config)
log.finished(TRIALS[0])
log.started(Square(tile=4))
print("running", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_process_leaves_a_log_to_resume_and_no_lock(tmp_path):
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout.readline() == "running\n"
    with pytest.raises(AutotuneError, match=r"another process is tuning fake 64x64-plain.*--cache-dir"):
        open_log(tmp_path)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    with open_log(tmp_path) as log:
        assert log.trials == TRIALS[:1]
        assert log.unfinished == (Square(tile=4),)


def test_one_key_is_tuned_by_one_process_at_a_time(tmp_path):
    with open_log(tmp_path):
        with pytest.raises(AutotuneError, match="another process"):
            open_log(tmp_path)
        with open_log(tmp_path, FakeProblem(m=65)), open_log(tmp_path, profile=device(device_id=1)):
            pass
    open_log(tmp_path).close()


def test_a_discarded_log_is_gone_and_can_be_begun_anew(tmp_path):
    path = record(tmp_path)
    log = open_log(tmp_path)
    log.discard()
    log.close()
    assert not path.exists()
    with open_log(tmp_path) as log:
        assert log.trials == ()


@settings(max_examples=60)
@given(st.data())
def test_a_log_cut_anywhere_yields_the_trials_before_the_cut(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("cache")
    path = record(root)
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    whole = content[:cut].count(b'"finished"') - (not content[:cut].endswith(b"\n"))
    with open_log(root) as log:
        assert log.trials == TRIALS[: len(log.trials)]
        assert len(log.trials) >= whole
        log.finished(TRIALS[2])
    with open_log(root) as log:
        assert TRIALS[2] in log.trials


@settings(max_examples=60)
@given(st.binary(max_size=60), st.data())
def test_damage_anywhere_is_survived(tmp_path_factory, damage, data):
    root = tmp_path_factory.mktemp("cache")
    path = record(root)
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    path.write_bytes(content[:start] + damage + content[end:])
    with open_log(root) as log:
        log.finished(TRIALS[0])
    with open_log(root) as log:
        assert TRIALS[0] in log.trials


def test_garbage_between_the_lines_is_ignored(tmp_path):
    path = record(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    garbage = [b"\n", b"{}\n", b"null\n", b"\xff\n", b"[" * 50_000 + b"\n", b'{"event":"finished"}\n']
    path.write_bytes(lines[0] + b"".join(garbage) + b"".join(lines[1:]) + b"".join(garbage))
    with open_log(tmp_path) as log:
        assert log.trials == TRIALS
        assert log.unfinished == ()


def test_configs_that_no_longer_exist_are_ignored(tmp_path):
    path = record(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"fast"', b'"gone"'))
    with open_log(tmp_path) as log:
        assert log.trials == (TRIALS[0], TRIALS[2])


def test_a_log_of_other_templates_is_set_aside(tmp_path, monkeypatch):
    path = record(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(trial_log, "template_digest", lambda _: "0" * 16)
    with open_log(tmp_path) as log:
        assert log.trials == ()
    assert path.with_name(f"{path.name}.old").read_bytes() == before


def test_a_log_of_other_rules_is_set_aside(tmp_path, monkeypatch):
    path = record(tmp_path)
    monkeypatch.setattr(trial_log, "package_digest", lambda _: "0" * 16)
    with open_log(tmp_path) as log:
        assert log.trials == ()
    assert path.with_name(f"{path.name}.old").exists()


def test_a_log_set_aside_can_be_read_but_is_not_resumed(tmp_path):
    path = record(tmp_path)
    before = path.read_bytes()
    log = open_log(tmp_path)
    assert log.set_aside().read_bytes() == before
    log.close()
    with open_log(tmp_path) as log:
        assert log.trials == ()


@pytest.mark.parametrize("changes", [{"driver": "560"}, {"runtime": "wgpu-native 30"}])
def test_a_log_of_another_driver_or_runtime_is_set_aside(tmp_path, changes):
    record(tmp_path)
    with open_log(tmp_path, profile=device(**changes)) as log:
        assert log.trials == ()
        assert log.path.with_name(f"{log.path.name}.old").exists()


def test_a_root_that_cannot_be_written_is_one_clear_line(tmp_path):
    root = tmp_path / "file"
    root.write_text("")
    with pytest.raises(CacheUnwritable, match="--cache-dir"):
        open_log(root)


def test_a_full_disk_is_one_clear_line(tmp_path):
    log = open_log(tmp_path)
    real = log._file

    class Full:
        closed = False
        close = real.close

        def write(self, raw):
            return len(raw) // 2

    log._file = Full()
    with pytest.raises(CacheUnwritable, match="no space left"):
        log.finished(TRIALS[0])
    log.close()
