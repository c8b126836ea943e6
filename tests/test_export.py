"""What an export leaves in its directory."""

import hashlib
import json

import pytest
from fake_family import device
from kernel_checks import on_nvidia
from matrix_units import SMALL

from autotune import limits
from autotune.errors import AutotuneError
from autotune.export import export
from autotune.kernels import family_of
from autotune.kernels.attention import ATTENTION, AttentionProblem
from autotune.kernels.gemm import GEMM, GemmProblem, MatrixUnits, Naive, SplitK, Tiled
from autotune.levels import Answer
from autotune.model import MATRIX_FEATURE

PROBLEM = GemmProblem(m=64, n=64, k=512)
TILED = Tiled(tile=8)
CHANGED = "is no text of an earlier export, or was changed since; choose another --out, or move it away"
TWO_PASSES = GEMM.default(PROBLEM, device())
assert isinstance(TWO_PASSES, SplitK)


def write(directory, config=TILED, problem=PROBLEM, **options):
    answer = Answer(config=config, level="default")
    paths = export(family_of(problem), problem, answer, directory, **options)
    assert paths[-1] == directory / "manifest.json"
    return json.loads(paths[-1].read_text())


def texts(directory):
    return {path.name for path in directory.iterdir()} - {"manifest.json"}


@pytest.mark.parametrize("config", [TILED, TWO_PASSES], ids=["one pass", "two passes"])
@pytest.mark.parametrize("specialize", [False, True])
def test_the_manifest_names_every_text_and_what_it_holds(tmp_path, config, specialize):
    manifest = write(tmp_path, config, specialize=specialize)
    assert {step["file"] for step in manifest["passes"]} == texts(tmp_path)
    for step in manifest["passes"]:
        assert hashlib.sha256((tmp_path / step["file"]).read_bytes()).hexdigest() == step["sha256"]
    assert manifest["sizesBakedIn"] is specialize
    assert manifest["tuned"] is None
    assert bool(manifest["uniform"]) is not specialize
    assert all(("-baked" in name) is specialize for name in texts(tmp_path))


def test_multiples_are_told_unless_the_sizes_are_baked_in(tmp_path):
    assert write(tmp_path, TWO_PASSES)["sizeMultiples"] == {"n": 4, "k": TWO_PASSES.tile_k}
    assert write(tmp_path, TWO_PASSES, specialize=True)["sizeMultiples"] == {}


def test_a_second_export_replaces_the_first_and_nothing_else(tmp_path):
    (tmp_path / "mine.wgsl").write_text("mine")
    (tmp_path / "index.html").write_text("mine")
    write(tmp_path, TWO_PASSES)
    assert len(texts(tmp_path)) == 4
    write(tmp_path, specialize=True)
    write(tmp_path, Naive(workgroup_x=8, workgroup_y=8), GemmProblem(m=8, n=8, k=8))
    assert texts(tmp_path) == {"mine.wgsl", "index.html", "gemm-8x8x8-f32.wgsl"}


def test_a_text_that_somebody_changed_is_kept(tmp_path):
    write(tmp_path)
    (changed,) = texts(tmp_path)
    (tmp_path / changed).write_text("mine now")
    write(tmp_path, problem=GemmProblem(m=8, n=8, k=8))
    assert texts(tmp_path) == {changed, "gemm-8x8x8-f32.wgsl"}


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        '{"passes": 3}',
        '{"name": "My app", "icons": [], "start_url": "/"}',
        '{"passes": [{"file": "mine.wgsl", "sha256": "DIGEST"}]}',
        '{"passes": [{"file": "../mine.wgsl", "sha256": "DIGEST"}]}',
        '{"passes": [{"file": "mine.txt", "sha256": "DIGEST"}]}',
        '{"passes": [{"file": "\\u0000.wgsl", "sha256": "DIGEST"}]}',
        "[" * 100_000,
    ],
)
def test_a_manifest_that_is_not_ours_stays_and_so_does_all_else(tmp_path, manifest):
    directory = tmp_path / "kernels"
    directory.mkdir()
    mine = [tmp_path / "mine.wgsl", directory / "mine.txt", directory / "mine.wgsl"]
    for path in mine:
        path.write_bytes(b"mine")
    digest = hashlib.sha256(b"mine").hexdigest()
    content = manifest.replace("DIGEST", digest)
    (directory / "manifest.json").write_text(content)
    with pytest.raises(AutotuneError) as caught:
        write(directory)
    assert str(caught.value) == (
        f"{directory / 'manifest.json'} is no manifest of an export; choose another --out, or move it away"
    )
    assert [path.read_bytes() for path in mine] == [b"mine"] * 3
    assert texts(directory) == {"mine.txt", "mine.wgsl"}
    assert (directory / "manifest.json").read_text() == content


@pytest.mark.parametrize("specialize", [False, True])
def test_a_text_that_somebody_changed_is_not_replaced(tmp_path, specialize):
    write(tmp_path, TWO_PASSES, specialize=specialize)
    before = (tmp_path / "manifest.json").read_bytes()
    changed = tmp_path / sorted(texts(tmp_path))[-1]
    changed.write_text("mine now")
    with pytest.raises(AutotuneError) as caught:
        write(tmp_path, TWO_PASSES, specialize=specialize)
    assert str(caught.value) == f"{changed} {CHANGED}"
    assert changed.read_text() == "mine now"
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_a_text_that_no_manifest_names_is_replaced_only_by_itself(tmp_path):
    write(tmp_path)
    (tmp_path / "manifest.json").unlink()
    assert len(write(tmp_path)["passes"]) == 1  # an export that was killed before its manifest is made again
    (tmp_path / "manifest.json").unlink()
    (text,) = texts(tmp_path)
    (tmp_path / text).write_text("mine")
    with pytest.raises(AutotuneError, match=rf"{text} is no text of an earlier export"):
        write(tmp_path)


def test_what_cannot_be_read_in_the_place_of_a_text_is_one_clear_line(tmp_path):
    write(tmp_path)
    (text,) = texts(tmp_path)
    (tmp_path / text).unlink()
    (tmp_path / text).symlink_to("/dev/null")
    with pytest.raises(AutotuneError, match=rf"{text} is not a regular file; choose another --out"):
        write(tmp_path)


def test_a_directory_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AutotuneError, match="choose another --out"):
        write(tmp_path / "file")


def test_a_folder_in_the_place_of_the_manifest_is_one_clear_line_and_nothing_is_written(tmp_path):
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(
        AutotuneError, match=r"manifest\.json is a directory there; choose another --out\Z"
    ) as e:
        write(tmp_path)
    assert "cache" not in str(e.value).replace(str(tmp_path), "")
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_failed_write_speaks_of_the_directory_and_not_of_the_cache(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("autotune.files.os.fsync", full)
    with pytest.raises(AutotuneError) as caught:
        write(tmp_path)
    assert str(caught.value) == f"cannot write to {tmp_path}: No space left on device; choose another --out"


UNITS = MatrixUnits(
    **SMALL | {"matrix": "16x16x16", "subgroup_size": 32, "tile_m": 32, "buffering": "single", "splits": 1}
)
HALVES = GemmProblem(m=64, n=64, k=512, dtype="f16")


def test_a_kernel_on_matrix_units_has_a_twin_that_runs_everywhere(tmp_path):
    manifest = write(tmp_path, UNITS, HALVES)
    twin = json.loads((tmp_path / manifest["twin"]).read_text())
    assert manifest["requiredFeatures"] == [MATRIX_FEATURE, "subgroups", "shader-f16"]
    (step,) = manifest["passes"]
    assert step["subgroupSize"] == 32
    shape = {"element": "f16", "result": "f32", "m": 16, "n": 16, "k": 16}
    assert step["subgroupMatrix"] == shape
    assert (twin["problem"], twin["twin"], twin["tuned"]) == (manifest["problem"], None, None)
    assert twin["requiredFeatures"] == ["shader-f16"]
    assert twin["requiredLimits"] == {}
    assert {(step["subgroupSize"], step["subgroupMatrix"]) for step in twin["passes"]} == {(None, None)}
    named = {step["file"] for step in (*manifest["passes"], *twin["passes"])}
    assert named == texts(tmp_path) - {"manifest-portable.json"}
    for step in twin["passes"]:
        assert hashlib.sha256((tmp_path / step["file"]).read_bytes()).hexdigest() == step["sha256"]


def test_a_kernel_for_subgroups_of_one_size_has_a_twin_that_does_for_any(tmp_path):
    asked = AttentionProblem(heads=4, kv_heads=1, seq=1, kv_seq=200, head_dim=64)
    config = ATTENTION.default(asked, on_nvidia(limits.base_profile()))
    assert config.variant == "flash_decode_subgroup"
    manifest = write(tmp_path, config, asked)
    twin = json.loads((tmp_path / manifest["twin"]).read_text())
    assert [step["subgroupSize"] for step in manifest["passes"]] == [32, None]
    assert (manifest["requiredFeatures"], twin["requiredFeatures"]) == (["subgroups"], [])
    assert {step["subgroupSize"] for step in twin["passes"]} == {None}


def test_the_twin_goes_with_the_kernel_that_it_was_written_for(tmp_path):
    write(tmp_path, UNITS, HALVES)
    assert write(tmp_path)["twin"] is None
    assert texts(tmp_path) == {"gemm-64x64x512-f32.wgsl"}


def test_a_manifest_of_somebody_elses_is_no_twin(tmp_path):
    (tmp_path / "manifest-portable.json").write_text("mine")
    write(tmp_path)
    write(tmp_path)
    assert (tmp_path / "manifest-portable.json").read_text() == "mine"


def test_a_manifest_of_somebody_elses_in_the_place_of_the_twin_s_stays(tmp_path):
    (tmp_path / "manifest-portable.json").write_text("mine")
    with pytest.raises(AutotuneError, match=r"manifest-portable\.json is no manifest of an export; choose"):
        write(tmp_path, UNITS, HALVES)
    assert texts(tmp_path) == {"manifest-portable.json"}


def test_a_twin_s_text_that_somebody_changed_is_not_replaced(tmp_path):
    manifest = write(tmp_path, UNITS, HALVES)
    twin = json.loads((tmp_path / manifest["twin"]).read_text())
    changed = tmp_path / twin["passes"][0]["file"]
    changed.write_text("mine now")
    with pytest.raises(AutotuneError, match=f"{changed.name} {CHANGED}"):
        write(tmp_path, UNITS, HALVES)
    assert changed.read_text() == "mine now"
    assert write(tmp_path)["twin"] is None  # another kernel takes the place of all that is as it was written
    assert changed.name in texts(tmp_path)
