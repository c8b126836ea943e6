import json
import os
import subprocess
import sys
import timeit
from pathlib import Path

import platformdirs
import pytest
from fake_family import FAKE, FakeProblem, Fast, Square, device, seconds
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import autotune
from autotune import cache, kernels, lookup, paths
from autotune.entry import new_entry
from autotune.errors import AutotuneError, InvalidProblem
from autotune.levels import MAX_DISTANCE, find
from autotune.limits import base_profile
from autotune.lookup import best_config
from autotune.tuner import tune

ASKED = FakeProblem(m=64)
OTHER_BOARD = device(device_id=0x2204, name="NVIDIA GeForce RTX 3090", driver="999")
OTHER_ARCHITECTURE = device(device_id=0x2684, name="RTX 4090", architecture="lovelace")
OTHER_VENDOR = device(vendor="amd", vendor_id=0x1002, device_id=0x7480, architecture="rdna-3")


@pytest.fixture(autouse=True)
def fake_kernels(monkeypatch, tmp_path):
    monkeypatch.setitem(kernels.KERNELS, "fake", FAKE)
    monkeypatch.setattr(paths, "shipped_cache_dir", lambda: tmp_path / "shipped")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "user"))


@pytest.fixture
def user(tmp_path):
    return tmp_path / "user"


@pytest.fixture
def shipped(tmp_path):
    return tmp_path / "shipped"


def put(root, problem=ASKED, profile=None, config=None, **changes):
    made = new_entry(
        FAKE,
        problem,
        profile or device(),
        config or Square(tile=16),
        seconds(1e-3),
        trials=20,
        complete=True,
        verified=True,
    )
    return cache.store(root, FAKE, structs.replace(made, **changes))


def ask(problem=ASKED, profile=None):
    return find(FAKE, problem, profile or device())


def test_an_empty_cache_answers_with_the_portable_default():
    answer = ask()
    assert (answer.level, answer.config, answer.entry) == ("default", Square(tile=8), None)
    assert not answer.fresh


def test_the_levels_answer_from_special_to_general(user, shipped):
    put(user, profile=OTHER_VENDOR)
    assert ask().level == "default"
    put(user, profile=OTHER_ARCHITECTURE)
    assert ask().level == "vendor"
    put(shipped, profile=OTHER_BOARD)
    assert ask().level == "architecture"
    put(shipped, problem=FakeProblem(m=128))
    assert ask().level == "nearest"
    put(shipped)
    assert ask().level == "shipped"
    path = put(user)
    answer = ask()
    assert (answer.level, answer.path, answer.stale, answer.notes) == ("user", path, (), ())
    assert answer.fresh


def test_a_general_answer_says_where_it_comes_from(user):
    put(user, problem=FakeProblem(m=128), profile=OTHER_BOARD)
    answer = ask()
    assert any("RTX 3090" in note for note in answer.notes)
    assert any("128x64" in note for note in answer.notes)
    assert answer.stale == ()  # another device's driver is no news
    assert not answer.fresh


def test_the_nearest_problem_answers_within_a_limit_only(user):
    put(user, problem=FakeProblem(m=64 * 4), config=Square(tile=4))
    put(user, problem=FakeProblem(m=64 * 2), config=Square(tile=2))
    assert ask().config == Square(tile=2)
    assert ask(FakeProblem(m=2 ** (9 + int(MAX_DISTANCE)))).level == "default"


def test_small_sizes_do_not_answer_for_a_large_one(user):
    for m in (1, 2, 4, 8):
        put(user, problem=FakeProblem(m=m))
    assert ask(FakeProblem(m=2048)).level == "default"


def test_a_problem_at_infinite_distance_never_answers(user):
    put(user, problem=FakeProblem(m=64, kind="other"))
    assert ask().level == "default"


@pytest.mark.parametrize(("word", "level"), [("nvidia", "vendor"), ("nvidia/ampere", "architecture")])
def test_a_word_for_a_device_finds_the_same_problem_without_reading_all_others(
    user, monkeypatch, word, level
):
    for m in (1, 2, 4, 8, 16, 32, 128, 256):
        put(user, problem=FakeProblem(m=m), config=Square(tile=2))
    path = put(user)
    read, opened = cache.read, []
    monkeypatch.setattr(cache, "read", lambda path, *rest: opened.append(path) or read(path, *rest))
    answer = best_config(ASKED, device=word)
    assert (answer.path, answer.level) == (path, level)
    assert len({*opened}) <= 2  # its own, and one that tells what the device is
    path.unlink()
    answer = best_config(ASKED, device=word)
    assert answer.config == Square(tile=2)
    assert len({*opened}) > 8


def test_ties_between_neighbours_are_broken_the_same_way_each_time(user, shipped):
    for m, tile in ((128, 2), (32, 4)):
        put(user, problem=FakeProblem(m=m), config=Square(tile=tile))
        put(shipped, problem=FakeProblem(m=m), config=Square(tile=tile + 1))
    answers = {ask().config for _ in range(3)}
    assert answers == {Square(tile=2)}  # the user's before the shipped; then by name


def test_one_gpu_under_another_name_hits_with_a_note(user):
    put(user)
    for name in ("NVIDIA GeForce RTX 3080/PCIe/SSE2", "GeForce RTX 3080", ""):
        answer = ask(profile=device(name=name))
        assert answer.level == "user"
        assert any("NVIDIA GeForce RTX 3080" in note for note in answer.notes)


def test_two_boards_under_one_name_do_not_answer_exactly_for_each_other(user):
    put(user, profile=device(device_id=0x2216))
    assert ask().level == "architecture"


def test_the_same_gpu_through_another_compiler_comes_before_its_siblings(user):
    put(user, profile=OTHER_BOARD, config=Square(tile=4))
    put(user, profile=device(compiler="tint", architecture=""), config=Square(tile=2))
    answer = ask()
    assert (answer.level, answer.config) == ("architecture", Square(tile=2))


def test_unknown_vendors_are_not_one_vendor(user):
    nobody = device(vendor="", architecture="", vendor_id=0, device_id=0, name="a")
    put(user, profile=nobody)
    assert ask(profile=structs.replace(nobody, name="b")).level == "default"
    assert ask(profile=nobody).level == "user"


def test_a_stale_entry_is_served_with_the_reason(user):
    put(user, template_digest="0" * 16)
    answer = ask()
    assert answer.level == "user"
    assert "templates" in answer.stale[0]
    assert not answer.fresh
    put(user)
    assert ask().fresh
    assert "driver" in ask(profile=device(driver="560")).stale[0]


def test_a_fresh_shipped_entry_comes_before_a_stale_one_of_the_user(user, shipped):
    put(user, template_digest="0" * 16)
    put(shipped)
    assert (ask().level, ask().stale) == ("shipped", ())
    put(shipped, template_digest="0" * 16)
    assert ask().level == "user"


def test_interrupted_and_unverified_tunings_are_served_and_flagged(user):
    put(user, complete=False, verified=False)
    answer = ask()
    assert answer.level == "user"
    assert any("interrupted after 20 trials" in note for note in answer.notes)
    assert any("not verified" in note for note in answer.notes)
    assert not answer.fresh


def test_a_config_illegal_on_the_asked_device_is_skipped_with_the_reason(user, shipped):
    put(user, config=Square(tile=32))  # 1024 invocations
    put(shipped, config=Square(tile=4))
    assert ask().level == "user"
    small = device(limits=base_profile().limits)
    answer = ask(profile=small)
    assert (answer.level, answer.config) == ("shipped", Square(tile=4))
    assert any("1024" in note for note in answer.notes)


def test_a_config_illegal_for_the_asked_problem_is_skipped(user):
    put(user, problem=FakeProblem(m=64, n=64), config=Fast(tile=16))
    put(user, problem=FakeProblem(m=32, n=64), config=Square(tile=4))
    answer = ask(FakeProblem(m=64, n=40))
    assert answer.config == Square(tile=4)
    assert any("not a multiple" in note for note in answer.notes)


def test_a_config_that_needs_an_absent_feature_is_skipped(user):
    put(user, config=Fast(tile=8, half=True))
    assert ask().level == "user"
    assert ask(profile=device(features=())).level == "default"


def test_an_entry_edited_to_nonsense_falls_to_the_next_level_which_says_so(user, shipped):
    path = put(user)
    put(shipped, config=Square(tile=4))
    fields = json.loads(path.read_text())
    fields["config"]["tile"] = 100_000
    path.write_text(json.dumps(fields))
    answer = ask()
    assert (answer.level, answer.config) == ("shipped", Square(tile=4))
    assert any(str(path) in note for note in answer.notes)


def test_an_unrunnable_default_is_answered_with_a_note():
    tiny = device(limits={"maxComputeInvocationsPerWorkgroup": 1})
    answer = ask(profile=tiny)
    assert answer.level == "default"
    assert any("untuned config cannot run" in note for note in answer.notes)


def test_a_root_that_is_a_file_answers_too(tmp_path):
    (tmp_path / "user").write_text("")
    assert ask().level == "default"
    assert best_config(ASKED).level == "default"


profiles = st.sampled_from([device(), OTHER_BOARD, OTHER_ARCHITECTURE, OTHER_VENDOR, base_profile()])
problems = st.builds(FakeProblem, m=st.integers(1, 512), n=st.sampled_from([16, 64, 65]))
configs = st.builds(Square, tile=st.integers(1, 256)) | st.builds(
    Fast, tile=st.integers(1, 64), half=st.booleans()
)


@settings(max_examples=50)
@given(st.lists(st.tuples(problems, profiles, configs), max_size=6), problems, profiles)
def test_every_answer_is_legal_on_the_asked_device(tmp_path_factory, stored, problem, profile):
    root = tmp_path_factory.mktemp("cache")
    for other, where, config in stored:
        put(root, other, where, config)
    answer = find(FAKE, problem, profile, user_root=root)
    assert answer == find(FAKE, problem, profile, user_root=root)
    assert not list(FAKE.refusals(problem, answer.config))
    if answer.entry is not None:
        assert cache.illegality(FAKE, answer.entry, problem, profile) is None


# best_config


def test_best_config_asks_for_the_device_last_opened(user):
    answer = best_config(ASKED)
    assert answer.level == "default"
    assert any("base limits" in note for note in answer.notes)
    put(user)
    cache.remember_device(device(), user)
    answer = best_config(ASKED)
    assert (answer.level, answer.notes) == ("user", ())


def test_best_config_takes_a_cache_dir(tmp_path):
    put(tmp_path / "elsewhere")
    assert best_config(ASKED, device=device()).level == "default"
    assert best_config(ASKED, device=device(), cache_dir=tmp_path / "elsewhere").level == "user"
    assert best_config(ASKED, device=device(), cache_dir=str(tmp_path / "elsewhere")).level == "user"


def test_best_config_selects_by_id_vendor_and_architecture(user, shipped):
    put(shipped, profile=OTHER_BOARD, config=Square(tile=4))
    put(user, profile=OTHER_ARCHITECTURE, config=Square(tile=2))
    assert best_config(ASKED, device=OTHER_BOARD.id).level == "shipped"
    answer = best_config(ASKED, device="nvidia/ampere")
    assert (answer.level, answer.config) == ("architecture", Square(tile=4))
    assert best_config(ASKED, device="NVIDIA/Lovelace").config == Square(tile=2)
    assert best_config(ASKED, device="nvidia").level == "vendor"
    answer = best_config(ASKED, device="nvidia/blackwell")
    assert answer.level == "vendor"
    assert any("no known device" in note for note in answer.notes)
    answer = best_config(ASKED, device="10de-ffff-vulkan-naga")
    assert answer.level == "vendor"
    for word in ("amd", "", "/", "..", "10de-ffff"):
        assert best_config(ASKED, device=word).level == "default"


def test_a_vendor_stands_for_what_all_its_known_devices_allow(user):
    put(user, profile=OTHER_BOARD, config=Square(tile=32))
    assert best_config(ASKED, device="nvidia/ampere").config == Square(tile=32)
    put(user, profile=device(limits=base_profile().limits, features=()), config=Square(tile=4))
    assert best_config(ASKED, device="nvidia/ampere").config == Square(tile=4)


def test_best_config_refuses_what_is_no_problem():
    with pytest.raises(TypeError, match="str"):
        best_config("1024")
    with pytest.raises(InvalidProblem):
        best_config(FakeProblem(m=1 << 21))


@pytest.mark.parametrize("problem", ["1024", None, {}, [], device()])
def test_what_is_no_problem_is_a_type_error(problem):
    with pytest.raises(TypeError, match="no kernel family has problems of type"):
        best_config(problem)


@pytest.mark.parametrize("asked", [0, b"nvidia", ["nvidia"], {}])
def test_what_is_no_device_is_a_type_error(asked):
    with pytest.raises(TypeError, match="device must be a DeviceProfile, a text or None, not "):
        best_config(ASKED, device=asked)


@pytest.fixture
def homeless(monkeypatch):
    """A user without a home folder, as where a container runs under a number that has no name."""
    for name in ("AUTOTUNE_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(_):
        raise KeyError("uid not found")

    monkeypatch.setattr("pwd.getpwuid", nobody)


@pytest.mark.skipif(sys.platform == "win32", reason="homes are not looked up by number here")
@pytest.mark.usefixtures("homeless")
def test_without_a_home_folder_look_ups_answer_and_all_else_names_the_option(shipped, tmp_path):
    put(shipped)
    assert best_config(ASKED, device=device()).level == "shipped"
    assert find(FAKE, ASKED, device()).level == "shipped"
    assert lookup.asked_device(ASKED) == base_profile()
    assert lookup.cached(ASKED) is None
    for use in (paths.user_cache_dir, lambda: tune(ASKED), lambda: cache.remember_device(device())):
        with pytest.raises(AutotuneError, match=r"home folder is not known.*--cache-dir"):
            use()
    put(tmp_path / "named", config=Square(tile=2))
    assert best_config(ASKED, device=device(), cache_dir=tmp_path / "named").config == Square(tile=2)


def test_a_cache_in_a_home_folder_that_is_not_known_is_refused(monkeypatch):
    with pytest.raises(AutotuneError, match=r"\A--cache-dir ~nosuch/x: "):
        best_config(ASKED, cache_dir="~nosuch/x")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", "~nosuch/x")
    with pytest.raises(AutotuneError, match=r"\AAUTOTUNE_CACHE_DIR ~nosuch/x: "):
        best_config(ASKED)


@pytest.mark.parametrize("value", ["rel/x", "."])
def test_a_cache_that_the_environment_names_does_not_follow_the_working_directory(monkeypatch, value):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", value)
    for use in (lambda: best_config(ASKED), paths.user_cache_dir, lambda: tune(ASKED)):
        with pytest.raises(AutotuneError, match=r"it is relative, .* give an absolute path"):
            use()
    assert paths.user_cache_dir("x") == Path("x").absolute()


@pytest.mark.parametrize("limit", base_profile().limits)
def test_a_device_that_allows_nothing_gets_an_answer_with_the_reason(limit):
    none = device(limits={**device().limits, limit: 0})
    gemm = kernels.KERNELS["gemm"].problem_type(m=64, n=64, k=64)
    answer = best_config(gemm, device=none)
    assert answer.level == "default"
    assert answer.notes or limit in ("maxUniformBufferBindingSize",)


def test_a_held_answer_is_dropped_when_a_file_behind_it_changes(user, shipped):
    def now():
        return best_config(ASKED, device=device()).config

    assert now() == Square(tile=8)
    put(shipped, config=Square(tile=3))
    assert now() == Square(tile=3)
    put(user, problem=FakeProblem(m=32), config=Square(tile=2))
    assert now() == Square(tile=3)
    path = put(user, config=Square(tile=4))
    assert now() == Square(tile=4)
    path.write_text(path.read_text().replace('"tile": 4', '"tile": 12'))
    assert now() == Square(tile=12)
    path.write_text(path.read_text().replace('"tile": 12', '"tile": 1000'))
    assert now() == Square(tile=3)
    put(user, config=Square(tile=5))
    assert now() == Square(tile=5)
    path.unlink()
    assert now() == Square(tile=3)


def test_a_held_general_answer_notices_a_store_for_another_device(user):
    assert best_config(ASKED, device="nvidia").level == "default"
    put(user, profile=OTHER_BOARD)
    assert best_config(ASKED, device="nvidia").level == "vendor"
    assert best_config(ASKED, device=device()).level == "architecture"
    put(user, problem=FakeProblem(m=65), profile=OTHER_BOARD, config=Square(tile=7))
    put(user, profile=OTHER_BOARD, config=Square(tile=6))
    assert best_config(ASKED, device=device()).config == Square(tile=6)


def test_a_held_answer_notices_a_store_by_another_process(user):
    assert best_config(ASKED, device=device()).level == "default"
    program = "import test_lookup as t; from pathlib import Path; import sys; t.put(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, str(user)], check=True, env=environment())
    assert best_config(ASKED, device=device()).level == "user"


def test_a_held_answer_notices_another_device(user):
    cache.remember_device(device(), user)
    put(user)
    assert best_config(ASKED).level == "user"
    cache.remember_device(OTHER_VENDOR, user)
    assert best_config(ASKED).level == "default"


def test_the_location_does_not_depend_on_the_working_directory(user, tmp_path, monkeypatch):
    put(user)
    for folder in (tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        assert best_config(ASKED, device=device()).level == "user"


def test_a_warm_answer_takes_microseconds(user):
    put(user)
    profile = device()
    best_config(ASKED, device=profile)
    best = min(timeit.repeat(lambda: best_config(ASKED, device=profile), number=200, repeat=5)) / 200
    assert best < 200e-6  # about 20 on an idle machine


def test_the_memo_is_bounded(monkeypatch):
    monkeypatch.setattr(lookup, "_MEMO_SIZE", 3)
    for m in range(1, 10):
        best_config(FakeProblem(m=m), device=device())
    assert len(lookup._memo) <= 3


def environment():
    here = Path(__file__).parent
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}


PROGRAM = """
import sys
from autotune import {name}, best_config
problem = {problem}
assert best_config(problem).config
assert best_config(problem, device="nvidia/hopper", cache_dir=sys.argv[1]).config
print(*sys.modules)
"""
NEEDLESS = {
    *("wgpu", "optuna", "numpy", "jinja2", "click", "rich"),
    *("tomllib", "secrets", "tempfile", "importlib.metadata"),
    *(f"autotune.{name}" for name in ("cli", "console", "plans", "search", "templating", "tuner")),
    *(["platformdirs"] if sys.platform == "linux" else []),
}
"""Modules that a look-up must not wait for; nor for those of other families."""


@pytest.mark.parametrize("asked", [name for name in kernels.KERNELS if name != "fake"])
def test_a_look_up_imports_its_own_family_and_nothing_heavy(asked, tmp_path):
    problem = next(iter(kernels.KERNELS[asked].samples.values()))
    program = PROGRAM.format(name=type(problem).__name__, problem=problem)
    env = environment() | {"XDG_CACHE_HOME": str(tmp_path / "user")}
    del env["AUTOTUNE_CACHE_DIR"]
    command = [sys.executable, "-c", program, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.split())
    others = {f"autotune.kernels.{name}" for name in kernels.KERNELS if name != asked}
    assert f"autotune.kernels.{asked}" in loaded
    assert not loaded & (NEEDLESS | others)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs is asked")
@pytest.mark.parametrize(
    "known",
    [
        {"HOME": "/home/me"},
        {"HOME": "/"},
        {"HOME": "/home/me/", "XDG_CACHE_HOME": ""},
        {"HOME": "/home/me", "XDG_CACHE_HOME": "/tmp/caches/"},
        {"XDG_CACHE_HOME": "/tmp/caches"},
        {"HOME": "/home/me", "XDG_CACHE_HOME": "relative"},
        {"HOME": "relative"},
        {"HOME": ""},
        {},
    ],
)
def test_the_cache_lies_where_the_platform_has_caches(known, monkeypatch):
    for name in ("AUTOTUNE_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    try:
        expected = platformdirs.user_cache_path("wgsl-autotune", appauthor=False)
    except RuntimeError:
        expected = None
    if expected is None or not expected.is_absolute():
        with pytest.raises(AutotuneError):
            paths.user_cache_dir()
    else:
        assert paths.user_cache_dir() == expected


def test_public_names_are_there_before_they_are_loaded():
    program = "import autotune, sys; print(*dir(autotune)); print(*sys.modules)"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    names, modules = (set(line.split()) for line in run.stdout.splitlines())
    assert set(autotune.__all__) <= names
    assert "msgspec" not in modules
    assert all(getattr(autotune, name) is not None for name in autotune.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = autotune.nothing


def test_a_gemm_does_not_answer_exactly_for_another_shape(user):
    gemm = kernels.KERNELS["gemm"]
    here = device(
        limits={**device().limits, "maxStorageBufferBindingSize": 1 << 31, "maxBufferSize": 1 << 31}
    )
    tuned, asked = (gemm.problem_type(m=4096, n=n, k=n) for n in (4096, 8192))
    config = gemm.default(tuned, here)
    made = new_entry(gemm, tuned, here, config, seconds(1), trials=1, complete=True, verified=True)
    cache.store(user, gemm, made)
    assert best_config(tuned, device=here).level == "user"
    answer = best_config(asked, device=here)
    assert answer.level == "nearest"
    assert any("4096x4096x4096" in note for note in answer.notes)
