import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path

import pytest
from fake_family import FAKE, FakeProblem, Fast, Square, device, seconds
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from autotune import cache, files, layout
from autotune.entry import InvalidEntryError, decode, encode, new_entry
from autotune.errors import CacheUnwritable

FAMILIES = {"fake": FAKE}
TESTS = Path(__file__).parent


def entry(m=64, tile=16, profile=None, **changes):
    made = new_entry(
        FAKE,
        FakeProblem(m=m),
        profile or device(),
        Square(tile=tile),
        seconds(1e-3),
        default_measurement=seconds(2e-3),
        trials=20,
        complete=True,
        verified=True,
    )
    return structs.replace(made, **changes)


texts = st.text(st.characters(exclude_categories=["Cs"]))
times = st.floats(min_value=1e-12, max_value=1e6)
measurements = st.builds(
    seconds, times, st.floats(0, 1), samples=st.integers(1, 2**40), clock=st.sampled_from(["gpu", "wall"])
)
profiles = st.builds(
    device,
    name=texts,
    vendor=texts,
    driver=texts,
    vendor_id=st.integers(0, 2**32 - 1),
    device_id=st.integers(0, 2**32 - 1),
    backend=texts,
    features=st.lists(texts, max_size=3).map(tuple),
    limits=st.dictionaries(texts, st.integers(0, 2**63), max_size=3),
)
entries = st.builds(
    new_entry,
    st.just(FAKE),
    st.builds(FakeProblem, m=st.integers(1, 1 << 20), n=st.integers(1, 2**31), kind=texts),
    profiles,
    st.builds(Square, tile=st.integers(1, 256))
    | st.builds(Fast, tile=st.integers(1, 256), half=st.booleans()),
    measurements,
    default_measurement=st.none() | measurements,
    baseline_measurement=st.none() | measurements,
    trials=st.integers(0, 10**6),
    complete=st.booleans(),
    verified=st.booleans(),
)


@given(entries)
def test_an_entry_survives_the_file(made):
    assert decode(FAKE, encode(FAKE, made)) == made


@given(entries)
def test_an_entry_is_found_where_it_was_stored_whatever_the_names_are(tmp_path_factory, made):
    root = tmp_path_factory.mktemp("cache")
    path = cache.store(root, FAKE, made)
    warnings = []
    assert cache.exact(root, FAKE, made.problem, made.device, warnings) == made
    assert path.relative_to(root).parts[0] == "fake"
    assert cache.list_entries(root, warnings, FAMILIES) == [(path, made)]
    assert warnings == []


@given(st.binary(max_size=40), st.data())
def test_damaged_bytes_are_refused_or_still_a_valid_entry(damage, data):
    raw = encode(FAKE, entry())
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(len(raw), start + 40)))
    try:
        decoded = decode(FAKE, raw[:start] + damage + raw[end:])
    except InvalidEntryError:
        return
    assert encode(FAKE, decoded)


def edited(**changes):
    fields = json.loads(encode(FAKE, entry()))
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = fields
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    return json.dumps(fields).encode()


DAMAGED = {
    "empty": b"",
    "blank": b"\n",
    "truncated": encode(FAKE, entry())[:200],
    "binary": bytes(range(256)),
    "list": b"[]",
    "null": b"null",
    "deeply nested": b"[" * 100_000,
    "larger than 1 MiB": encode(FAKE, entry()) + b" " * (1 << 20),
    "NaN time": edited(measurement__seconds=nan),
    "infinite time": edited(measurement__seconds=1).replace(b'"seconds": 1,', b'"seconds": 1e999,'),
    "time of zero": edited(measurement__seconds=0),
    "negative default time": edited(default_measurement__low=-1.0),
    "time as text": edited(measurement__seconds="fast"),
    "impossible tile": edited(config__tile=100_000),
    "tile of zero": edited(config__tile=0),
    "tile as text": edited(config__tile="16; discard;"),
    "unknown variant": edited(config__variant="turbo"),
    "variant as list": edited(config__variant=["square"]),
    "unknown parameter": edited(config__colour=3),
    "no config": edited(config=None),
    "other kernel": edited(kernel="gemm"),
    "other schema": edited(schema=2),
    "unknown field": edited(extra=1),
    "problem too large": edited(problem__m=1 << 21),
    "problem of size zero": edited(problem__m=0),
    "problem with an unknown field": edited(problem__q=1),
    "problem of another place": edited(problem__m=65),
    "device of another place": edited(device__device_id=1),
    "negative limit": edited(device__limits={"maxBufferSize": -1}),
    "unknown compiler": edited(device__compiler="gcc"),
    "digest with a newline": edited(template_digest="0123456789abcdef\n"),
    "no date": edited(created="yesterday"),
    "date without a zone": edited(created="2025-01-01T00:00:00"),
    "negative trials": edited(trials=-1),
}


def test_the_undamaged_entry_is_read(tmp_path):
    path = layout.entry_path(tmp_path, FAKE, FakeProblem(m=64), device())
    path.parent.mkdir(parents=True)
    path.write_bytes(edited())
    warnings = []
    assert cache.read(path, FAKE, warnings) is not None
    assert warnings == []


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_ignored_with_one_warning_and_overwritten(tmp_path, damage):
    path = cache.store(tmp_path, FAKE, entry())
    path.write_bytes(DAMAGED[damage])
    warnings = []
    assert cache.exact(tmp_path, FAKE, FakeProblem(m=64), device(), warnings) is None
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert "\n" not in warnings[0]
    [(found, problem)] = cache.verify_all(tmp_path, FAMILIES)
    assert found == path
    assert problem
    again = entry()
    cache.store(tmp_path, FAKE, again)
    assert cache.exact(tmp_path, FAKE, FakeProblem(m=64), device(), []) == again


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_or_a_folder_in_an_entry_s_place_blocks_nobody(tmp_path):
    path = cache.store(tmp_path, FAKE, entry())
    for make in (os.mkfifo, os.mkdir):
        path.unlink()
        make(path)
        warnings = []
        assert cache.read(path, FAKE, warnings) is None
        assert "not a regular file" in warnings[0]


def test_what_json_cannot_carry_is_not_stored(tmp_path):
    for bad in (
        entry(measurement=seconds(inf)),
        entry(measurement=seconds(nan)),
        entry(profile=device(name="\ud800")),
        entry(template_digest="short"),
        entry(created=datetime(2025, 1, 1)),
    ):
        with pytest.raises(InvalidEntryError, match="cannot be stored"):
            cache.store(tmp_path, FAKE, bad)
    assert list(tmp_path.rglob("*.json")) == []


def test_the_file_is_readable_by_people_and_holds_the_raw_names(tmp_path):
    name = "NVIDIA GeForce RTX 3080/PCIe/SSE2"
    path = cache.store(tmp_path, FAKE, entry(profile=device(name=name)))
    fields = json.loads(path.read_text(encoding="utf-8"))
    assert fields["device"]["name"] == name
    assert fields["problem"] == {"m": 64, "n": 64, "kind": "plain"}
    assert fields["config"] == {"variant": "square", "tile": 16}
    assert path.read_text(encoding="utf-8").count("\n") > 10


def test_two_boards_under_one_name_have_separate_entries(tmp_path):
    one, other = device(device_id=0x2206), device(device_id=0x2216)
    cache.store(tmp_path, FAKE, entry(tile=8, profile=one))
    cache.store(tmp_path, FAKE, entry(tile=16, profile=other))
    assert cache.exact(tmp_path, FAKE, FakeProblem(m=64), one, []).config == Square(tile=8)
    assert cache.exact(tmp_path, FAKE, FakeProblem(m=64), other, []).config == Square(tile=16)


def test_devices_without_a_device_id_are_told_apart_by_name(tmp_path):
    one, other = (device(vendor_id=0x106B, device_id=0, name=name) for name in ("Apple M1", "Apple M3"))
    cache.store(tmp_path, FAKE, entry(profile=one))
    assert cache.exact(tmp_path, FAKE, FakeProblem(m=64), one, []) is not None
    assert cache.exact(tmp_path, FAKE, FakeProblem(m=64), other, []) is None


def test_a_root_that_cannot_be_written_is_one_clear_line(tmp_path):
    root = tmp_path / "file"
    root.write_text("not a folder")
    with pytest.raises(CacheUnwritable, match=r"--cache-dir") as caught:
        cache.store(root, FAKE, entry())
    assert "\n" not in str(caught.value)
    with pytest.raises(CacheUnwritable, match=r"--cache-dir"):
        cache.remember_device(device(), root)
    warnings = []
    assert cache.exact(root, FAKE, FakeProblem(m=64), device(), warnings) is None
    assert cache.list_entries(root, warnings, FAMILIES) == []
    assert cache.last_device(root) is None
    assert cache.clear(root, families=FAMILIES) == []
    assert warnings == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_one_clear_line(tmp_path):
    cache.store(tmp_path, FAKE, entry())
    folder = layout.device_dir(tmp_path, "fake", device())
    folder.chmod(0o500)
    try:
        with pytest.raises(CacheUnwritable, match=r"--cache-dir"):
            cache.store(tmp_path, FAKE, entry())
        assert cache.exact(tmp_path, FAKE, FakeProblem(m=64), device(), []) is not None
    finally:
        folder.chmod(0o700)


def test_a_failed_write_leaves_the_old_entry_and_no_litter(tmp_path, monkeypatch):
    path = cache.store(tmp_path, FAKE, entry(tile=8))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(CacheUnwritable, match="No space left"):
        cache.store(tmp_path, FAKE, entry(tile=16))
    assert cache.read(path, FAKE, []).config == Square(tile=8)
    assert list(path.parent.iterdir()) == [path]


def test_litter_of_killed_writers_is_swept_once_it_is_old(tmp_path):
    path = cache.store(tmp_path, FAKE, entry())
    old, young = (path.with_name(f".{path.name}.{digit * 16}.tmp") for digit in "ab")
    foreign = path.with_name(".mine.tmp")
    for file in (old, young, foreign):
        file.write_bytes(b"{")
    past = time.time() - 7200
    os.utime(old, (past, past))
    os.utime(foreign, (past, past))
    cache.store(tmp_path, FAKE, entry())
    assert not old.exists()
    assert young.exists()
    assert foreign.exists()


WRITER = """
import sys
from pathlib import Path
from test_cache import entry, FAKE, cache
root, first = Path(sys.argv[1]), int(sys.argv[2])
for m in range(first, first + 10_000):
    cache.store(root, FAKE, entry(m=m))
    print(m, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_no_key_is_lost_when_one_of_four_writers_is_killed(tmp_path):
    root = tmp_path / "cache"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    announced = [tmp_path / f"{first}.txt" for first in (10_000, 20_000, 30_000, 40_000)]
    writers = []
    for path in announced:  # files, since of a pipe that somebody reads line by line a part is held back
        with path.open("wb") as file:
            command = [sys.executable, "-c", WRITER, str(root), path.stem]
            writers.append(subprocess.Popen(command, stdout=file, env=environment))
    end = time.monotonic() + 60
    while not all(path.stat().st_size for path in announced):
        assert time.monotonic() < end, "not every writer began"
        assert all(writer.poll() is None for writer in writers)
        time.sleep(0.01)
    time.sleep(random.uniform(0.1, 0.3))
    writers[0].send_signal(signal.SIGKILL)
    time.sleep(0.3)
    for writer in writers[1:]:
        writer.terminate()
    for writer in writers:
        assert writer.wait(timeout=30) < 0  # ended by our signal, and not before
    stored = []
    for path in announced:
        *lines, torn = path.read_text().split("\n")
        assert lines or torn
        stored += [int(line) for line in lines]
    assert len(stored) > 8
    for path in root.rglob("*.json"):
        decode(FAKE, path.read_bytes())
    warnings = []
    for m in stored:
        assert cache.exact(root, FAKE, FakeProblem(m=m), device(), warnings) is not None
    assert warnings == []


def test_an_entry_of_other_templates_or_driver_is_stale():
    made = entry()
    assert cache.stale_reasons(made, device(), made.template_digest) == ()
    [reason] = cache.stale_reasons(made, device(), "0" * 16)
    assert "templates" in reason
    [reason] = cache.stale_reasons(made, device(driver="560.2"), made.template_digest)
    assert "550.1" in reason
    assert "560.2" in reason
    [reason] = cache.stale_reasons(made, device(runtime="wgpu-native 30"), made.template_digest)
    assert "wgpu-native 30" in reason


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (entry(tile=8, measurement=seconds(0.90)), entry(measurement=seconds(1.00)), True),
        (entry(tile=8, measurement=seconds(0.99)), entry(measurement=seconds(1.00)), False),
        (entry(tile=8, measurement=seconds(1.10)), entry(measurement=seconds(1.00)), False),
        (entry(tile=8, measurement=seconds(0.90, 0.2)), entry(measurement=seconds(1.00, 0.2)), False),
        (entry(tile=16, measurement=seconds(1.10)), entry(tile=16, measurement=seconds(1.00)), True),
        (entry(tile=8, measurement=seconds(1.10)), entry(complete=False), True),
        (entry(tile=8, complete=False), entry(complete=False), False),
        (entry(tile=8, measurement=seconds(5e-4), complete=False), entry(complete=False), True),
        (entry(tile=16, complete=False), entry(tile=16), False),
        (entry(tile=8, measurement=seconds(5e-4), complete=False), entry(), True),
        (entry(tile=8, measurement=seconds(1.10)), entry(template_digest="0" * 16), True),
        (entry(tile=8, measurement=seconds(1.10)), entry(profile=device(driver="old")), True),
        (entry(tile=8, measurement=seconds(5e-4), verified=False), entry(), False),
        (entry(tile=8, measurement=seconds(1.10)), entry(verified=False), True),
        (entry(tile=8, measurement=seconds(5e-4, clock="wall")), entry(), False),
        (entry(tile=8, measurement=seconds(1.10)), entry(measurement=seconds(1, clock="wall")), True),
    ],
)
def test_a_winner_is_replaced_only_by_a_better_one_or_when_unsound(new, old, expected):
    assert cache.replaces(new, old) is expected
    assert cache.replaces(new, None)


def test_verify_finds_a_config_that_its_own_device_cannot_run(tmp_path):
    path = cache.store(tmp_path, FAKE, entry(tile=16))
    bad = cache.store(tmp_path, FAKE, entry(m=128, tile=100))
    assert dict(cache.verify_all(tmp_path, FAMILIES))[path] is None
    assert "10000" in dict(cache.verify_all(tmp_path, FAMILIES))[bad]


def test_clear_removes_only_our_own_files(tmp_path):
    other = device(device_id=1)
    ours = [cache.store(tmp_path, FAKE, entry(m=m, profile=p)) for m in (1, 2) for p in (device(), other)]
    log = tmp_path / "studies" / ours[0].relative_to(tmp_path).with_suffix(".jsonl")
    log.parent.mkdir(parents=True)
    log.write_bytes(b"")
    foreign = [
        tmp_path / "notes.json",
        tmp_path / "fake" / "notes.json",
        tmp_path / "fake" / "my-folder" / "a.json",
        tmp_path / "photos" / "10de-2206-vulkan-naga" / "1x64-plain.json",
        ours[0].with_name("My Notes.json"),
        ours[0].with_name("readme.txt"),
    ]
    for file in foreign:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    ours[1].write_bytes(b"damaged")
    removed = cache.clear(tmp_path, "fake", other, FAMILIES)
    assert sorted(removed) == sorted(path for path in ours if path.parent.name.startswith("10de-0001"))
    assert sorted(cache.clear(tmp_path, families=FAMILIES)) == sorted([log, *set(ours) - set(removed)])
    assert cache.clear(tmp_path, families=FAMILIES) == []
    assert cache.clear(tmp_path, "..", families=FAMILIES) == []
    assert all(file.read_text() == "mine" for file in foreign)
    assert not log.parent.exists()


def test_clear_takes_a_device_by_its_id(tmp_path):
    path = cache.store(tmp_path, FAKE, entry())
    assert cache.clear(tmp_path, device="10de-ffff-vulkan-naga", families=FAMILIES) == []
    assert cache.clear(tmp_path, device=device().id, families=FAMILIES) == [path]
    assert not path.parent.exists()


def test_the_device_last_opened_is_remembered(tmp_path):
    assert cache.last_device(tmp_path) is None
    cache.remember_device(device(), tmp_path)
    assert cache.last_device(tmp_path) == device()
    for raw in (b"", b"{}", b"[" * 100_000, (tmp_path / "device.json").read_bytes()[:-5], b"\xff"):
        (tmp_path / "device.json").write_bytes(raw)
        assert cache.last_device(tmp_path) is None
    cache.remember_device(device(), tmp_path)
    assert cache.last_device(tmp_path) == device()


def test_a_remembered_device_that_allows_nothing_is_ignored(tmp_path):
    cache.remember_device(device(limits={**device().limits, "maxBufferSize": 0}), tmp_path)
    assert cache.last_device(tmp_path) is None


def test_clear_takes_the_id_of_devices_that_only_names_tell_apart(tmp_path):
    named = [device(vendor_id=0x106B, device_id=0, name=name) for name in ("Apple M1", "Apple M3", "")]
    paths = [cache.store(tmp_path, FAKE, entry(profile=profile)) for profile in named]
    kept = cache.store(tmp_path, FAKE, entry())
    assert cache.clear(tmp_path, device=named[0], families=FAMILIES) == paths[:1]
    for word in ("106b", "106b-0000", "106b-0000-vulkan", "", "106b-0000-vulkan-tint"):
        assert cache.clear(tmp_path, device=word, families=FAMILIES) == []
    assert cache.clear(tmp_path, device=paths[1].parent.name, families=FAMILIES) == paths[1:2]
    assert cache.clear(tmp_path, device=named[0].id.upper(), families=FAMILIES) == paths[2:]
    assert kept.exists()


def test_a_new_entry_knows_when_and_by_what_it_was_made():
    made = entry()
    assert abs((datetime.now(UTC) - made.created).total_seconds()) < 60
    assert made.program_version
    assert len(made.template_digest) == 16


def test_an_entry_edited_in_place_is_read_again(tmp_path):
    path = cache.store(tmp_path, FAKE, entry(tile=16))
    for old, new in ((16, 32), (32, 64), (64, 16)):  # the size stays, and so may the time stamp
        assert cache.read(path, FAKE, []).config == Square(tile=old)
        path.write_text(path.read_text().replace(f'"tile": {old}', f'"tile": {new}'))
        assert cache.read(path, FAKE, []).config == Square(tile=new)
