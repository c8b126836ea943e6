"""Two runtimes of one GPU: what is installed, what each sees, and that their results never mix."""

import json
import os
import subprocess
import sys

import pytest
from conftest import SWIFTSHADER, VALIDATING, chosen
from fake_family import device
from test_cli import put
from test_cli import run as run  # noqa: PLC0414  a fixture

from autotune import best_config, cache
from autotune.entry import decode, encode
from autotune.errors import AutotuneError, RuntimeMissing, WorkerCrashed
from autotune.kernels.gemm import GEMM, GemmProblem
from autotune.lookup import cached
from autotune.model import MATRIX_FEATURE, DeviceProfile, SubgroupMatrix
from autotune.runtime import DEFAULT_RUNTIME, RUNTIMES, adapters, runtime_of
from autotune.runtime.process import WorkerRuntime, require

ASKED = GemmProblem(m=64, n=64, k=64)
SHAPE = SubgroupMatrix(element="f16", result="f32", m=16, n=8, k=16)
NAGA = device()
TINT = device(compiler="tint", runtime="wgpudawn 0.32", subgroup_matrix=(SHAPE,))


@pytest.fixture
def no_dawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "wgpudawn", None)


# -- names -------------------------------------------------------------------------------------------


def test_each_compiler_is_of_one_runtime():
    assert len(set(RUNTIMES.values())) == len(RUNTIMES)
    assert [runtime_of(profile) for profile in (NAGA, TINT)] == ["wgpu", "dawn"]


def test_an_unknown_runtime_is_named():
    for use in (WorkerRuntime, best_config):
        with pytest.raises(AutotuneError, match="no runtime 'metal'; there are wgpu, dawn"):
            use(ASKED if use is best_config else None, runtime="metal")


@pytest.mark.usefixtures("no_dawn")
@pytest.mark.parametrize("line", ["gemm --size 8", "devices"])
def test_a_missing_runtime_is_one_line_that_says_what_to_install(run, line):
    code, out, shown = run(f"{line} --runtime dawn")
    assert (code, out) == (1, "")
    assert shown == "error: the runtime dawn is not installed: pip install 'wgsl-autotune[dawn]'\n"


@pytest.mark.usefixtures("no_dawn")
def test_a_missing_runtime_is_no_obstacle_to_the_other():
    require(DEFAULT_RUNTIME)
    with pytest.raises(RuntimeMissing):
        require("dawn")


def test_where_dawn_finds_no_adapter_the_error_says_which_drivers_it_takes(run, monkeypatch):
    monkeypatch.setattr("autotune.runtime.process.list_adapters", lambda _name: ())
    code, _, shown = run("devices --runtime dawn")
    assert code == 1
    assert "no GPU adapter found; install a Vulkan driver that Dawn accepts" in shown
    assert "mesa-vulkan-drivers" in run("devices")[2]


def test_a_runtime_that_cannot_start_does_not_hide_what_the_other_sees(run, monkeypatch):
    def views(name):
        if name == "dawn":
            raise WorkerCrashed("the worker died (exit code 1)")
        return (NAGA,)

    monkeypatch.setattr("autotune.runtime.process.list_adapters", views)
    code, out, shown = run("devices")
    assert (code, NAGA.name in out) == (0, True)
    assert "note: dawn: the worker died (exit code 1)" in shown
    assert run("devices --runtime dawn")[0] == 1


# -- the device last opened --------------------------------------------------------------------------


def test_each_runtime_remembers_its_own_device(tmp_path):
    cache.remember_device(TINT, tmp_path, cache.selection(None, "dawn"))
    assert cache.last_device(tmp_path) is None
    cache.remember_device(NAGA, tmp_path, cache.selection(None, "wgpu"))
    assert cache.last_device(tmp_path) == NAGA
    assert cache.last_device(tmp_path, runtime="dawn") == TINT


def test_a_note_of_another_runtime_is_not_trusted(tmp_path):
    cache.remember_device(TINT, tmp_path)
    (tmp_path / "device-dawn.json").rename(tmp_path / "device.json")
    assert cache.last_device(tmp_path) is None


def test_what_one_runtime_tuned_is_no_answer_of_the_other(run, tmp_path):
    root = tmp_path / "cache"
    for profile in (NAGA, TINT):
        cache.remember_device(profile, root, cache.selection(None, runtime_of(profile)))
    put(root, 64, TINT)
    assert cached(ASKED, cache_dir=root) is None
    assert cached(ASKED, cache_dir=root, runtime="dawn")[1] == TINT
    levels = [json.loads(run(f"best gemm --size 64 --json{more}")[1])["level"] for more in RUNS]
    assert levels == ["architecture", "architecture", "user"]
    assert "wgpudawn" in run("cache show gemm --size 64 --runtime dawn")[1]


RUNS = ("", " --runtime wgpu", " --runtime dawn")


def test_a_named_device_is_the_one_that_the_runtime_sees(run, tmp_path):
    root = tmp_path / "cache"
    put(root, 64, TINT)
    code, _, shown = run(f"best gemm --size 64 --device {NAGA.id} --runtime dawn")
    assert (code, shown) == (
        1,
        f"error: the device {NAGA.id} is not one that dawn sees: its compiler is naga\n",
    )
    assert f"({TINT.id})" in run(f"best gemm --size 64 --device {TINT.id} --runtime dawn")[1]
    assert "no known device matches" in run("best gemm --size 64 --device nvidia --runtime wgpu")[2]
    assert "no known device matches" not in run("best gemm --size 64 --device nvidia --runtime dawn")[2]


def test_a_held_answer_is_of_the_runtime_asked_for(tmp_path):
    for profile in (NAGA, TINT):
        cache.remember_device(profile, tmp_path)
    put(tmp_path, 64, TINT)
    levels = [best_config(ASKED, cache_dir=tmp_path, runtime=name).level for name in ("wgpu", "dawn")]
    assert levels == ["architecture", "user"]


def test_a_portable_export_is_of_no_runtime(run, tmp_path):
    code, _, shown = run(f"export gemm --size 8 --portable --runtime dawn --out {tmp_path / 'out'}")
    assert code == 2
    assert "leave --device and --runtime out" in shown


# -- matrix units ------------------------------------------------------------------------------------


def test_an_entry_from_before_matrices_were_known_still_counts(tmp_path):
    put(tmp_path, 64, TINT)
    path = next(tmp_path.rglob("gemm/**/*.json"))
    entry = decode(GEMM, path.read_bytes())
    assert entry.device.subgroup_matrix == (SHAPE,)
    raw = json.loads(encode(GEMM, entry))
    del raw["device"]["subgroup_matrix"]
    assert decode(GEMM, json.dumps(raw).encode()).device.subgroup_matrix == ()


CONFIGS = [
    {"component_type": a, "result_component_type": b, "m": 16, "n": n, "k": 16, "min_subgroup_size": 32}
    for a, b in (("f16", "f32"), ("f16", "f16"))
    for n in (16, 8, 8)
]


class Adapter:
    """An adapter as an API lists it."""

    info = {  # noqa: RUF012
        "vendor": "nvidia",
        "architecture": "",
        "device": "H200",
        "description": "550",
        "vendor_id": 0x10DE,
        "device_id": 0x2335,
        "adapter_type": "DiscreteGPU",
        "backend_type": "Vulkan",
    }
    features = frozenset({"shader-f16", "subgroups", MATRIX_FEATURE, "dawn-native"})
    limits = {"max-buffer-size": 1 << 30}  # noqa: RUF012


def seen(**options) -> DeviceProfile:
    return adapters.profile_of(Adapter, compiler="tint", runtime="wgpudawn", **options)


def test_the_shapes_of_an_adapter_are_listed_once_each():
    assert seen().subgroup_matrix == ()
    shapes = seen(properties={"subgroup_matrix_configs": CONFIGS}).subgroup_matrix
    assert [(s.element, s.result, s.m, s.n, s.k) for s in shapes] == [
        ("f16", "f32", 16, 16, 16),
        ("f16", "f32", 16, 8, 16),
        ("f16", "f16", 16, 16, 16),
        ("f16", "f16", 16, 8, 16),
    ]


def test_a_device_that_was_refused_the_feature_has_no_matrices():
    listed = seen(properties={"subgroup_matrix_configs": CONFIGS})
    kept = adapters.opened(listed, ["shader-f16", MATRIX_FEATURE])
    assert (kept.subgroup_matrix, kept.features) == (
        listed.subgroup_matrix,
        (MATRIX_FEATURE, "shader-f16"),
    )
    assert adapters.opened(listed, ["shader-f16"]).subgroup_matrix == ()


def test_devices_shows_what_each_runtime_sees(run, monkeypatch):
    views = {"wgpu": (NAGA,), "dawn": (TINT,)}
    monkeypatch.setattr("autotune.runtime.process.list_adapters", views.get)
    code, out, _ = run("devices")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith(("--", "0"))] == [
        "--runtime wgpu",
        f"0: {NAGA.name}",
        "--runtime dawn",
        f"0: {TINT.name}",
    ]
    assert out.count("matrices") == 1
    assert "f16 to f32 16×8×16 (m×n×k)" in out
    only = json.loads(run("devices --runtime dawn --json")[1])
    assert [profile["compiler"] for profile in only] == ["tint"]


# -- for real ----------------------------------------------------------------------------------------

_NULL = """
import sys, msgspec, wgpudawn
from wgpudawn.backends.dawn.extras import get_adapter_properties, set_instance_extras
from autotune.runtime import adapters
set_instance_extras(enable_toggles=list(adapters.DAWN_TOGGLES))
adapter = wgpudawn.gpu.request_adapter_sync()
profile = adapters.profile_of(
    adapter, compiler="tint", runtime="", properties=get_adapter_properties(adapter)
)
names = [name for name in adapters.FEATURES if name in adapter.features]
adapter.request_device_sync(required_features=names)
print(msgspec.json.encode(profile).decode())
"""


@pytest.mark.skipif(VALIDATING not in chosen(), reason=f"{VALIDATING} is left out")
def test_dawn_grants_every_feature_by_the_name_we_ask_with():
    done = subprocess.run(
        [sys.executable, "-c", _NULL],
        env={**os.environ, "WGPU_BACKEND_TYPE": "Null"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    profile = json.loads(done.stdout.splitlines()[-1])
    assert profile["features"] == sorted(set(adapters.FEATURES.values()))
    assert profile["subgroup_matrix"] == []  # no driver, no shapes


@pytest.mark.skipif("tint-swiftshader" not in chosen(), reason="tint-swiftshader is left out")
def test_a_gemm_is_tuned_through_dawn_and_answers_for_dawn_alone(tmp_path):
    def autotune(*words):
        done = subprocess.run(
            [sys.executable, "-m", "autotune", *words],
            env={
                **os.environ,
                "AUTOTUNE_CACHE_DIR": str(tmp_path / "cache"),
                "VK_ICD_FILENAMES": str(SWIFTSHADER),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout if "--json" in words else done.stdout + done.stderr

    words = ("gemm", "--size", "48", "--runtime", "dawn")
    assert "tint" in autotune(*words, "--trials", "4")
    assert "answered from the cache, no device was opened" in autotune(*words)
    answer = json.loads(autotune("best", *words, "--json"))
    assert (answer["level"], answer["entry"]["device"]["compiler"]) == ("user", "tint")
    other = json.loads(autotune("best", "gemm", "--size", "48", "--json"))
    assert other["level"] != "user"
    suite = tmp_path / "suite.toml"
    suite.write_text("[[problem]]\nkernel = 'gemm'\nsize = 48\n")
    assert "was known" in autotune("suite", str(suite), "--runtime", "dawn")
    views = json.loads(autotune("devices", "--json"))
    assert {profile["compiler"] for profile in views} == {"naga", "tint"}
    out = tmp_path / "out"
    autotune("export", *words, "--out", str(out))
    assert json.loads((out / "manifest.json").read_text())["tuned"]
