"""The commands, as far as they need no device."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from fake_family import device, seconds

from autotune import cache, cli, console, entry, paths
from autotune.errors import AutotuneError, TuningFailed
from autotune.kernels.base import Option
from autotune.kernels.gemm import GEMM, GemmProblem, Tiled
from autotune.kernels.gemm.family import Gemm

H200 = device(name="NVIDIA H200 141GB HBM3e with a very long name", architecture="hopper", device_id=0x2335)


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(paths, "shipped_cache_dir", lambda: tmp_path / "shipped")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))

    def run(line):
        monkeypatch.setattr(sys, "argv", ["autotune", *line.split()])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def put(root, m, profile):
    problem = GemmProblem(m=m, n=m, k=m)
    made = entry.new_entry(
        GEMM, problem, profile, Tiled(tile=8), seconds(1e-3), trials=9, complete=True, verified=True
    )
    cache.store(root, GEMM, made)


def test_the_list_of_results_fits_eighty_columns_of_a_terminal(run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        console, "_out", console.Console(highlight=False, soft_wrap=True, force_terminal=True)
    )
    monkeypatch.setenv("TERM", "xterm")
    for m in (64, 16_384):
        put(tmp_path / "cache", m, H200)
    code, out, _ = run("cache list")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert len(set(map(len, lines))) == 1
    assert "tile=8" not in out
    _, out, _ = run("cache list --config")
    assert out.splitlines()[::2] == [lines[0], "  tiled tile=8", "  tiled tile=8"]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_piped_list_of_results_has_whole_names(run, tmp_path, monkeypatch, terminal):
    dumb = console.Console(highlight=False, soft_wrap=True, force_terminal=terminal)
    monkeypatch.setattr(console, "_out", dumb)
    monkeypatch.setenv("TERM", "dumb")
    put(tmp_path / "cache", 64, H200)
    lines = run("cache list --config")[1].splitlines()
    assert len(lines) == 3
    assert f"  {H200.name}  " in lines[1]


def test_an_empty_list_is_a_heading(run):
    assert run("cache list")[1].split() == ["problem", "device", "time", "rate"]


@pytest.mark.parametrize(
    ("options", "whom"),
    [
        ("", "any device that grants WebGPU's base limits"),
        ("--device nvidia", "any nvidia device"),
        ("--device nvidia/ampere", "any nvidia ampere device"),
        ("--device 10de-9999-vulkan-naga", "an unknown device (10de-9999-vulkan-naga)"),
    ],
)
@pytest.mark.parametrize("command", ["best", "export"])
def test_an_answer_says_for_which_device_it_is(run, tmp_path, command, options, whom):
    out = f" --out {tmp_path / 'out'}" if command == "export" else ""
    code, shown, _ = run(f"{command} gemm --size 64 {options}{out}")
    assert code == 0
    assert f"  for      {whom}\n" in shown


def test_an_answer_of_another_device_is_for_the_device_that_was_asked_for(run, tmp_path):
    root = tmp_path / "cache"
    put(root, 64, H200)
    cache.remember_device(device(), root)
    _, shown, _ = run("best gemm --size 64")
    assert "for      NVIDIA GeForce RTX 3080 (10de-2206-vulkan-naga)" in shown
    assert "from     tuned on another device of this vendor" in shown


def test_an_export_on_cooperative_matrices_says_that_it_is_an_experiment(run, tmp_path):
    out = tmp_path / "out"
    code, shown, notes = run(f"export gemm --size 64 --dtype f16 --cooperative-matrix 16x16 --out {out}")
    assert code == 0
    assert shown.splitlines()[-1] == str(out / "manifest.json")
    assert "note: experimental: " in notes
    assert json.loads((out / "manifest.json").read_text())["variant"] == "cooperative_matrix"
    assert "enable wgpu_cooperative_matrix;" in (out / "gemm-64x64x64-f16.wgsl").read_text()


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        ("gemm --size 64 --cooperative-matrix 16x16", 1, "error: cooperative matrices of f32 are 8x8"),
        ("attention --heads 1 --seq 8 --head-dim 8 --cooperative-matrix 8x8", 1, "error: attention has no"),
        ("gemm --size 64 --cooperative-matrix 8x8 --portable", 2, "--cooperative-matrix is untuned; leave"),
        ("gemm --size 64 --cooperative-matrix 8x8 --device nvidia", 2, "is untuned; leave --portable, --dev"),
        ("gemm --size 64 --cooperative-matrix 4x4", 2, "'4x4' is not one of '8x8', '16x16'"),
    ],
)
def test_an_export_on_cooperative_matrices_that_cannot_be_is_one_line(run, tmp_path, line, code, reason):
    found, shown, error = run(f"export {line} --out {tmp_path / 'out'}")
    assert (found, shown) == (code, "")
    assert reason in error.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_every_command_has_a_help_text():
    def walk(command):
        assert command.get_short_help_str(), command.name
        for below in getattr(command, "commands", {}).values():
            walk(below)

    walk(cli.cli)
    assert "as JSON" in CliRunner().invoke(cli.cli, ["cache", "show", "gemm", "--help"]).output


class Named(Gemm):
    """A family with another name and more options."""

    def __init__(self, name, *options):
        self.name, self.options = name, (*Gemm.options, *options)


@pytest.mark.parametrize("name", ["cache", "best", "devices", "gemm"])
def test_a_family_named_like_a_command_is_refused(name):
    with pytest.raises(AutotuneError, match=f"{name!r} has the name of another command"):
        cli._add_tune(Named(name))


@pytest.mark.parametrize("name", ["seed", "time_limit", "help", "cache_dir", "size"])
def test_an_option_named_like_one_of_the_command_s_own_is_refused(name):
    with pytest.raises(AutotuneError, match=f"the option {name!r} of 'other'"):
        cli._add_tune(Named("other", Option(name, "What.", int)))
    assert "other" not in cli.cli.commands


def test_an_option_named_like_one_of_a_look_up_is_refused():
    with pytest.raises(AutotuneError, match="the option 'json' of 'other'"):
        cli._add_best(Named("other", Option("json", "What.", int)))


def test_a_failed_tuning_exits_with_1_and_one_line(run, monkeypatch):
    def failing(*_, **__):
        raise TuningFailed("no candidate\nworked")

    monkeypatch.setattr("autotune.tuner.tune", failing)
    code, _, shown = run("gemm --size 64")
    assert code == 1
    assert "error: no candidate worked" in shown.splitlines()


def test_an_answer_as_json_has_the_path_of_its_entry(run, tmp_path):
    root = tmp_path / "cache"
    put(root, 16, device())
    cache.remember_device(device(), root)
    code, out, _ = run("best gemm --size 16 --json")
    answer = json.loads(out)
    assert (code, answer["level"], answer["config"]["tile"]) == (0, "user", 8)
    assert Path(answer["path"]).is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="names of files must be text here")
def test_a_path_that_is_no_utf_8_still_gives_json(run, tmp_path):
    root = tmp_path / os.fsdecode(b"caf\xe9")
    put(root, 16, device())
    cache.remember_device(device(), root)
    code, out, _ = run(f"best gemm --size 16 --json --cache-dir {root}")
    assert (code, json.loads(out)["level"]) == (0, "user")


# -- options that name folders and devices -----------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("cache clear --yes --device", "--device"),
        ("best gemm --size 8 --device", "--device"),
        ("cache list --cache-dir", "--cache-dir"),
        ("export gemm --size 8 --out", "--out"),
    ],
)
def test_an_empty_value_is_refused(tmp_path, monkeypatch, capsys, line, option):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    put(tmp_path / "cache", 64, H200)
    monkeypatch.setattr(sys, "argv", ["autotune", *line.split(), ""])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert f"Invalid value for '{option}': it is empty" in capsys.readouterr().err
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 1


def test_the_home_folder_is_expanded(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert run("cache path --cache-dir ~/mine")[1] == f"{tmp_path / 'mine'}\n"
    assert run("export gemm --size 8 --out ~/out")[0] == 0
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_a_home_folder_that_is_not_known_is_one_line_that_names_the_option(run):
    for line, option in (
        ("cache list --cache-dir ~nosuch/x", "--cache-dir"),
        ("export gemm --size 8 --out ~nosuch/x", "--out"),
    ):
        code, _, shown = run(line)
        assert code == 1
        assert shown.startswith(f"error: {option} ~nosuch/x: ")


@pytest.mark.skipif(sys.platform == "win32", reason="a working directory cannot be removed here")
def test_a_working_directory_that_is_gone_is_one_line(run, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, _, shown = run("best gemm --size 8 --cache-dir x")
    assert code == 1
    assert shown.startswith("error: --cache-dir x: the working directory")
    assert run("best gemm --size 8")[0] == 0


COMMANDS = ("best gemm --size 8", "cache list", "cache path", "cache verify", "gemm --size 8")


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("where", ["file", "file/below", "loop"])
def test_a_cache_where_no_directory_can_be_is_refused_however_it_is_named(
    run, tmp_path, monkeypatch, line, where
):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    code, out, shown = run(f"{line} --cache-dir {tmp_path / where}")
    assert (code > 0, out) == (True, "")
    assert "--cache-dir" in shown
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / where))
    code, out, shown = run(line)
    assert (code, out) == (1, "")
    assert shown.startswith(f"error: AUTOTUNE_CACHE_DIR {tmp_path / where}: no directory can be there (")
    assert shown.endswith("); name another\n")
    assert shown.count("\n") == 1


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("value", ["rel/x", ".", "x"])
def test_a_relative_cache_in_the_environment_is_refused(run, tmp_path, monkeypatch, line, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", value)
    code, out, shown = run(line)
    assert (code, out) == (1, "")
    assert shown == (
        f"error: AUTOTUNE_CACHE_DIR {value}: it is relative, and would name another cache in each working "
        "directory; give an absolute path\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_relative_cache_on_the_command_line_is_where_it_was_typed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("cache path --cache-dir rel/x")[1] == f"{tmp_path / 'rel' / 'x'}\n"


def test_a_cache_that_is_not_there_cannot_be_verified(run, tmp_path):
    code, out, shown = run(f"cache verify --cache-dir {tmp_path / 'none'}")
    assert (code, out) == (1, "")
    assert shown.startswith(f"error: there is no cache {tmp_path / 'none'}; ")
    put(tmp_path / "cache", 64, H200)
    assert run("cache verify")[:2] == (0, "1 of 1 entries are good\n")


# -- clearing ----------------------------------------------------------------------------------------

APPLE = device(vendor="apple", vendor_id=0x106B, device_id=0, name="Apple M1", backend="metal")


def test_clear_takes_the_id_that_devices_prints_also_where_names_tell_devices_apart(run, tmp_path):
    for profile in (APPLE, H200):
        put(tmp_path / "cache", 64, profile)
    code, out, shown = run("cache clear --yes --device 106B-0000-metal-tint")
    assert (code, out) == (0, "removed 0 files\n")
    assert "note: there are no results of 106B-0000-metal-tint in " in shown
    assert run(f"cache clear --yes --device {APPLE.id}")[1] == "removed 1 files\n"
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 1


@pytest.mark.parametrize("part", ["10de", "10de-2335", "10de-2335-vulkan"])
def test_a_part_of_an_id_clears_nothing(run, tmp_path, part):
    put(tmp_path / "cache", 64, H200)
    assert run(f"cache clear --yes --device {part}")[1] == "removed 0 files\n"


@pytest.mark.parametrize(("answer", "code", "says"), [("n\n", 0, "nothing was removed"), ("", 1, "")])
def test_clear_removes_nothing_unless_told_so(run, tmp_path, monkeypatch, answer, code, says):
    put(tmp_path / "cache", 64, H200)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    ended, out, shown = run("cache clear")
    assert ended == code
    assert says in out
    assert ("nothing was removed; --yes" in shown) is not bool(says)
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 1


# -- how a run ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "code", "words"),
    [("device lost", 1, "the device was lost"), ("interrupted", 130, "interrupted")],
)
def test_a_run_that_ended_early_says_so_and_does_not_exit_with_0(run, monkeypatch, ended, code, words):
    monkeypatch.setattr("autotune.tuner.tune", lambda *_, **__: SimpleNamespace(ended=ended))
    monkeypatch.setattr(console, "tuned", lambda _result: None)
    exit_code, _, shown = run("gemm --size 64")
    assert exit_code == code
    assert f"note: {words}: the best so far was kept" in shown


@pytest.mark.parametrize("force", [False, True])
def test_force_tries_again_what_hung(run, monkeypatch, force):
    asked = []

    def tune(*_, retry, **__):
        asked.append(retry)
        return SimpleNamespace(ended="trials")

    monkeypatch.setattr("autotune.tuner.tune", tune)
    monkeypatch.setattr(console, "tuned", lambda _result: None)
    assert run("gemm --size 64" + " --force" * force)[0] == 0
    assert asked == [force]


def test_rates_of_small_problems_have_a_fitting_unit():
    assert console.rate(2e12, 1) == "2.00 TFLOP/s"
    assert console.rate(2e9, 1) == "2.0 GFLOP/s"
    assert console.rate(8192, 1e-3) == "8.19 MFLOP/s"


# -- options, also where the cache has an answer ------------------------------------------------------


@pytest.fixture
def known(run, tmp_path, monkeypatch):
    """Runs the gemm of size 64, which has an entry; what was searched for comes with the outcome."""
    put(tmp_path / "cache", 64, device())
    cache.remember_device(device(), tmp_path / "cache", cache.selection(None, "wgpu"))
    searched = []

    def tune(*_, options, **__):
        searched.append(options.only)
        return SimpleNamespace(ended="trials")

    monkeypatch.setattr("autotune.tuner.tune", tune)
    monkeypatch.setattr(console, "tuned", lambda _result: None)
    return lambda options: (*run(f"gemm --size 64 {options}"), searched)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("--only nosuch=1", 1, "no variant of the search space has a parameter 'nosuch'"),
        ("--only tile=9", 1, "tile is never 9"),
        ("--only variant=naive --only tile=8", 1, "no variant has all of variant=naive tile=8"),
        ("--workers 1000", 2, "1000 adapters are more than the 64 that are used at once"),
        ("--storage nosuch", 2, "it is no URL, such as postgresql://"),
        ("--time-limit nan", 2, "it is not a number"),
    ],
)
def test_options_are_checked_before_the_cache_answers(known, options, code, words):
    ended, out, shown, searched = known(options)
    assert (ended, out, searched) == (code, "", [])
    assert words in shown


@pytest.mark.parametrize(
    "only", ["variant=tiled", "tile=8", "tile=8,16", "workgroup_x=16", "variant=tiled,naive"]
)
def test_the_cache_answers_where_its_config_is_within_the_restriction(known, only):
    code, out, shown, searched = known(f"--only {only}")
    assert (code, searched) == (0, [])
    assert "tiled tile=8" in out
    assert "answered from the cache" in shown


@pytest.mark.parametrize("only", ["variant=blocked", "tile=16"])
def test_a_cached_config_outside_the_restriction_is_no_answer(known, only):
    name, _, value = only.partition("=")
    code, out, _, searched = known(f"--only {only}")
    assert (code, out, searched) == (0, "", [{name: (value,)}])


def test_columns_of_a_replay_stay_apart(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,time_ms\n1,2\n2,1\n")
    most = 2**63
    _, out, _ = run(f"replay {tmp_path / 't.csv'} --sampler random --seeds 1 --trials {most}")
    head, row = out.splitlines()[1:]
    assert head.split() == ["sampler", "25", "50", "100", "200", "400", "800", str(most), "a", "proposal"]
    assert row.index("(1.000)") + len("(1.000)") == head.index("25") + len("25")


# -- standard output as it may be --------------------------------------------------------------------


def program(line, **options):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    environment |= options.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "autotune", *line.split()],
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
        env=environment,
        **options,
    )


def test_signs_that_the_terminal_does_not_know_are_replaced(tmp_path):
    put(tmp_path, 64, device())
    cache.remember_device(device(), tmp_path)
    done = program(
        f"best gemm --size 64 --cache-dir {tmp_path}",
        stdout=subprocess.PIPE,
        env={"PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert b"1 ms" in done.stdout
    assert done.stdout.isascii()


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


@needs_full
@pytest.mark.parametrize("line", ["best gemm --size 64", "best gemm --size 64 --json", "--help"])
def test_an_answer_that_cannot_be_written_is_one_line(tmp_path, line):
    with Path("/dev/full").open("wb") as full:
        done = program(line, stdout=full, env={"AUTOTUNE_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].startswith("error: the system refuses: No space left")
    assert b"Traceback" not in done.stderr


@needs_full
def test_an_error_that_cannot_be_told_is_still_an_error(tmp_path):
    command = f"exec {sys.executable} -m autotune cache show gemm --size 9 --cache-dir {tmp_path} 2>/dev/full"
    assert program("--version", stdout=subprocess.DEVNULL).returncode == 0
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(["sh", "-c", command], check=False, env={**os.environ, "PYTHONPATH": root})
    assert done.returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="closes standard output in a shell")
def test_a_closed_standard_output_is_one_line(tmp_path):
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m autotune best gemm --size 64 --json >&-"],
        check=False,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root, "AUTOTUNE_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (1, b"error: standard output is closed\n")
