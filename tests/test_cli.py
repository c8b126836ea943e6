"""The commands, as far as they need no device."""

import sys

import pytest
from click.testing import CliRunner
from fake_family import device, seconds

from autotune import cache, cli, entry, paths
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


def test_the_list_of_results_fits_eighty_columns(run, tmp_path):
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
