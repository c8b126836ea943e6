"""Results move between caches: better ones take a place, worse ones and wrong ones do not."""

import gzip
import json

import pytest
from fake_family import device, seconds
from msgspec import structs

from autotune import cache, entry, transfer
from autotune.errors import AutotuneError
from autotune.kernels.gemm import GEMM, GemmProblem, Tiled

RTX, OTHER = device(), device(device_id=0x2335)


def made(size, profile=RTX, taken=1e-3):
    problem = GemmProblem(m=size, n=size, k=size)
    return entry.new_entry(
        GEMM, problem, profile, Tiled(tile=8), seconds(taken), trials=9, complete=True, verified=True
    )


def filled(root, *entries):
    for one in entries:
        cache.store(root, GEMM, one)
    return root


def held(root):
    return {
        (one.problem.m, one.device.device_id): one.measurement.seconds for _, one in cache.list_entries(root)
    }


def test_a_pack_takes_results_to_another_cache(tmp_path):
    here = filled(tmp_path / "a", made(64), made(128), made(64, OTHER))
    assert transfer.pack(here, tmp_path / "pack.gz", []) == 3
    taken = transfer.unpack(tmp_path / "pack.gz", tmp_path / "b")
    assert (taken.stored, taken.kept, taken.refused) == (3, 0, [])
    assert held(tmp_path / "b") == held(here)


def test_a_pack_may_be_of_one_device_or_kernel(tmp_path):
    here = filled(tmp_path / "a", made(64), made(64, OTHER))
    assert transfer.pack(here, tmp_path / "pack.gz", [], device=OTHER.id) == 1
    assert transfer.pack(here, tmp_path / "pack.gz", [], kernel="gemm", device="nvidia") == 2
    with pytest.raises(AutotuneError, match="no such results"):
        transfer.pack(here, tmp_path / "pack.gz", [], kernel="gemm_q4")


@pytest.mark.parametrize("way", ["pack", "merge"])
def test_the_faster_result_stays(tmp_path, way):
    here = filled(tmp_path / "a", made(64, taken=1e-3), made(128, taken=3e-3))
    there = filled(tmp_path / "b", made(64, OTHER))
    cache.store(there, GEMM, structs.replace(made(64, taken=2e-3), config=Tiled(tile=16)))
    cache.store(there, GEMM, structs.replace(made(128, taken=2e-3), config=Tiled(tile=16)))
    if way == "pack":
        transfer.pack(here, tmp_path / "pack.gz", [])
        taken = transfer.unpack(tmp_path / "pack.gz", there)
    else:
        taken = transfer.merge(here, there)
    assert (taken.stored, taken.kept) == (1, 1)
    assert held(there) == {(64, RTX.device_id): 1e-3, (128, RTX.device_id): 2e-3, (64, OTHER.device_id): 1e-3}


def test_what_is_wrong_in_a_pack_is_refused_and_the_rest_taken(tmp_path):
    transfer.pack(filled(tmp_path / "a", made(64)), tmp_path / "pack.gz", [])
    good = gzip.decompress((tmp_path / "pack.gz").read_bytes())
    bad = good.replace(b'"tile":8', b'"tile":7')
    lines = [b"{}", b"null", good.replace(b'"gemm"', b'"gone"'), bad, b"[" * 100_000, good]
    (tmp_path / "pack").write_bytes(b"\n".join(line.strip() for line in lines))
    taken = transfer.unpack(tmp_path / "pack", tmp_path / "b")
    assert taken.stored + taken.kept == 1 + (len(lines) - 1 - len(taken.refused))
    assert len(taken.refused) >= 4
    assert held(tmp_path / "b") == {(64, RTX.device_id): 1e-3}


def test_a_config_that_its_device_does_not_allow_is_refused(tmp_path):
    small = device(limits={**RTX.limits, "maxComputeInvocationsPerWorkgroup": 16})
    taken = transfer.merge(filled(tmp_path / "a", made(64, small)), tmp_path / "b")
    assert (taken.stored, len(taken.refused)) == (0, 1)
    assert "not legal" in taken.refused[0]


@pytest.mark.parametrize("times", [{"seconds": 1e-300, "low": 1e-300}, {"low": 5.0}, {"high": 1e-9}])
def test_a_time_that_cannot_be_true_is_refused(tmp_path, times):
    one = made(64)
    one = structs.replace(one, measurement=structs.replace(one.measurement, **times))
    here = filled(tmp_path / "a", one, made(128))
    transfer.pack(here, tmp_path / "pack.gz", [])
    taken = transfer.unpack(tmp_path / "pack.gz", tmp_path / "b")
    assert (taken.stored, len(taken.refused)) == (1, 1)
    assert "cannot be true" in taken.refused[0]


@pytest.mark.parametrize(
    "content",
    [b"my notes", gzip.compress(b'{"format":"autotune-recording"}')],
    ids=["notes", "a recording"],
)
def test_a_pack_takes_the_place_of_packs_only(tmp_path, content):
    here = filled(tmp_path / "a", made(64))
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(AutotuneError, match="is there already, and no file of `cache export`"):
        transfer.pack(here, path, [])
    assert path.read_bytes() == content
    transfer.pack(here, tmp_path / "pack.gz", [])
    assert transfer.pack(here, tmp_path / "pack.gz", []) == 1


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x1f\x8bbroken"])
def test_a_file_that_is_no_pack_is_refused(tmp_path, content):
    (tmp_path / "pack").write_bytes(content)
    with pytest.raises(AutotuneError):
        transfer.unpack(tmp_path / "pack", tmp_path / "b")
    with pytest.raises(AutotuneError, match="there is no file"):
        transfer.unpack(tmp_path / "none", tmp_path / "b")
    with pytest.raises(AutotuneError, match="no results in"):
        transfer.merge(tmp_path / "none", tmp_path / "b")


def spoilt(path, **changes):
    """An entry's file with other parameters in its config."""
    held = json.loads(path.read_text())
    held["config"] |= changes
    path.write_text(json.dumps(held))


def test_a_pack_says_what_it_leaves_out(tmp_path):
    here = filled(tmp_path / "a", made(64), made(128))
    spoilt(next(here.rglob("64x64x64-f32.json")), gone=1)
    notes = []
    assert transfer.pack(here, tmp_path / "pack.gz", notes) == 1
    assert ["64x64x64-f32.json" in note for note in notes] == [True]
    only = filled(tmp_path / "b", made(64))
    spoilt(next(only.rglob("64x64x64-f32.json")), gone=1)
    with pytest.raises(AutotuneError, match=r"no such results .* 1 files there cannot be used: .*gone"):
        transfer.pack(only, tmp_path / "other.gz", [])


def test_a_pack_of_an_older_version_is_a_pack(tmp_path):
    path = tmp_path / "pack.gz"
    here = filled(tmp_path / "a", made(64))
    transfer.pack(here, path, [])
    line = json.loads(gzip.decompress(path.read_bytes()))
    line["config"]["gone"] = 1
    path.write_bytes(gzip.compress(json.dumps(line).encode()))
    assert transfer.pack(here, path, []) == 1


def test_an_entry_that_cannot_run_gives_way(tmp_path):
    here = filled(tmp_path / "a", made(64, taken=1e-3))
    there = filled(tmp_path / "b", made(64, taken=1e-6))
    spoilt(next(there.rglob("64x64x64-f32.json")), tile=1000)
    taken = transfer.merge(here, there)
    assert (taken.stored, taken.kept) == (1, 0)
    assert held(there) == held(here)
