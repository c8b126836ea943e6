"""What a user does, with the commands: tune, ask again, look up, export, and run the export elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_gemm import run as complaint

from autotune import best_config, limits
from autotune.kernels.gemm import GEMM, GemmProblem

HOST = Path(__file__).with_name("manifest_host.py")
ENTRY = "from autotune.cli import main; main()"


def autotune(*words, cache, **options):
    """Run a command as a user would; gives what it printed. Fails where it fails."""
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, *words],
        env={**os.environ, "AUTOTUNE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A cache in which `gemm --size 96` was tuned, and what the command said."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, autotune("gemm", "--size", "96", "--trials", "6", "--adapter", "llvmpipe", cache=cache)


def host(directory, **sizes):
    """The largest error of an export in a host that knows only the manifest."""
    done = subprocess.run(
        [sys.executable, HOST, directory, json.dumps(sizes)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


def test_tuning_says_what_was_found_and_the_second_time_opens_nothing(tuned):
    cache, said = tuned
    for word in ("llvmpipe", "software adapter", "config", "the winner is", "refused", "FLOP/s", str(cache)):
        assert word in said
    assert "a second, one at a time; " in said
    again = autotune("gemm", "--size", "96", "--adapter", "llvmpipe", cache=cache)
    assert "answered from the cache, no device was opened" in again
    otherwise = autotune("gemm", "--size", "96", "--adapter", "LLVM", cache=cache)
    assert "answered from the cache; --force" in otherwise  # the same device by another part of its name


def test_the_look_up_gives_what_was_tuned(tuned):
    cache, _ = tuned
    answer = json.loads(autotune("best", "gemm", "--size", "96", "--json", cache=cache))
    assert answer["level"] == "user"
    assert answer["entry"]["verified"]
    assert (
        best_config(GemmProblem(m=96, n=96, k=96), cache_dir=cache).config.variant
        == answer["config"]["variant"]
    )


def test_a_cached_config_is_right_at_ragged_shapes(tuned, runtime):
    cache, _ = tuned
    config = best_config(GemmProblem(m=96, n=96, k=96), cache_dir=cache).config
    for m, n, k in [(35, 96, 96), (96, 36, 100), (97, 100, 92), (1, 4, 4), (3, 100, 8)]:
        problem = GemmProblem(m=m, n=n, k=k)
        assert GEMM.unfit(problem, config) is None
        refused = list(limits.refusals(GEMM.resources(problem, config), runtime.profile))
        assert not refused or runtime.profile.vendor != "mesa", "tuned on this very adapter"
        assert refused or complaint(runtime, problem, config, integers=m % 2 == 0) is None


def test_an_export_runs_in_a_host_that_knows_only_the_manifest_at_other_sizes_too(tuned, tmp_path):
    cache, _ = tuned
    autotune("export", "gemm", "--size", "96", "--out", str(tmp_path / "general"), cache=cache)
    k = json.loads((tmp_path / "general" / "manifest.json").read_text())["sizeMultiples"].get("k", 1)
    for sizes in ({"m": 96, "n": 96, "k": 96}, {"m": 101, "n": 64, "k": 5 * k}, {"m": 1, "n": 4, "k": k}):
        assert host(tmp_path / "general", **sizes) < 1e-5
    autotune("export", "gemm", "--size", "96", "--out", str(tmp_path / "baked"), "--specialize", cache=cache)
    assert host(tmp_path / "baked", m=96, n=96, k=96) < 1e-5


@pytest.mark.parametrize(
    "sizes", [{"m": 64, "n": 64, "k": 2048}, {"m": 1, "n": 100, "k": 260}, {"m": 50, "n": 33, "k": 7}]
)
def test_untuned_exports_of_every_variant_of_the_default_run_too(tmp_path, sizes):
    words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    autotune(
        "export", "gemm", *words, "--device", "nvidia/turing", "--out", str(tmp_path / "k"), cache=tmp_path
    )
    assert host(tmp_path / "k", **sizes) < 1e-5


def test_an_export_that_packs_its_operands_runs_at_other_sizes_too(tmp_path):
    words = ("gemm", "--m", "67", "--n", "35", "--k", "7")
    autotune(*words, "--only", "variant=packed", "--trials", "2", "--adapter", "llvmpipe", cache=tmp_path)
    autotune("export", *words, "--out", str(tmp_path / "k"), cache=tmp_path)
    manifest = json.loads((tmp_path / "k" / "manifest.json").read_text())
    assert (manifest["variant"], len(manifest["passes"]), manifest["sizeMultiples"]) == ("packed", 2, {})
    for m, n, k in ((37, 35, 9), (1, 1, 1), (64, 64, 64), (130, 3, 66)):
        assert host(tmp_path / "k", m=m, n=n, k=k) < 1e-5


def test_a_portable_export_asks_nothing_of_a_device_beyond_the_base_limits(tuned, tmp_path):
    cache, _ = tuned
    autotune("export", "gemm", "--size", "96", "--portable", "--out", str(tmp_path / "any"), cache=cache)
    manifest = json.loads((tmp_path / "any" / "manifest.json").read_text())
    assert (manifest["requiredFeatures"], manifest["requiredLimits"], manifest["tuned"]) == ([], {}, None)
    assert host(tmp_path / "any", m=33, n=64, k=5 * manifest["sizeMultiples"].get("k", 1)) < 1e-5


def test_several_candidates_in_work_on_one_adapter_find_a_right_winner(tmp_path):
    record = tmp_path / "record.gz"
    said = autotune(
        *("gemm", "--size", "64", "--trials", "8", "--jobs", "3", "--adapter", "llvmpipe"),
        *("--workers", "all", "--record", str(record)),
        cache=tmp_path / "cache",
    )
    assert "adapters searched on at once: 1" in said
    assert "a second, 3 in work at once; " in said
    assert "the number of trials was reached" in said
    assert "unproven" not in said
    replayed = autotune(
        "replay", str(record), "--sampler", "random", "--seeds", "2", cache=tmp_path / "cache"
    )
    assert f"{record.name}: 8 configs" in replayed


def test_a_suite_is_tuned_once_and_reported(tmp_path):
    suite = tmp_path / "suite.toml"
    suite.write_text("".join(f"[[problem]]\nkernel = 'gemm'\nsize = {size}\n" for size in (48, 64)))
    words = ("suite", str(suite), "--trials", "4", "--adapter", "llvmpipe")
    first = autotune(*words, cache=tmp_path / "cache")
    assert first.count("the number of trials was reached") == 2
    assert autotune(*words, cache=tmp_path / "cache").count("was known") == 2
