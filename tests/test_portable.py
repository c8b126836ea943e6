"""The portable default is the config that is never far from the best."""

import gzip
import tomllib

import pytest
from fake_family import device, seconds

from autotune import portable, space
from autotune.errors import AutotuneError
from autotune.kernels.gemm import GEMM, GemmProblem, Naive, Tiled
from autotune.model import Rejection, Trial
from autotune.recording import Recorder

PROBLEM = GemmProblem(m=64, n=64, k=64)
LEFT, MIDDLE, RIGHT = Tiled(tile=8), Tiled(tile=16), Naive(workgroup_x=8, workgroup_y=4)
WIDE = Tiled(tile=32)  # 1,024 invocations: more than WebGPU's base limits


def recording(path, times, **changes):
    axes = space.load_axes(GEMM)
    recorder = Recorder(path, GEMM, PROBLEM, device(**changes), axes, 9)
    for config, taken in times.items():
        outcome = Rejection(stage="run", reason="no") if taken is None else seconds(taken)
        recorder.add(Trial(config=config, outcome=outcome))
    recorder.save()
    return path


def test_the_best_worst_case_wins(tmp_path):
    one = recording(tmp_path / "1", {LEFT: 1e-3, MIDDLE: 1.25e-3, RIGHT: 4e-3, WIDE: 1e-3})
    two = recording(tmp_path / "2", {LEFT: 4e-3, MIDDLE: 1.25e-3, RIGHT: 1e-3, WIDE: 1e-3}, device_id=7)
    found = portable.compare([one, two])
    assert [place.config for place in found.ranked] == [MIDDLE, LEFT, RIGHT]
    assert found.ranked[0].shares == pytest.approx((0.8, 0.8))
    assert found.ranked[1].worst == pytest.approx(0.25)


def test_a_config_counts_only_where_it_ran_everywhere(tmp_path):
    one = recording(tmp_path / "1", {LEFT: 1e-3, MIDDLE: 2e-3, RIGHT: None})
    two = recording(tmp_path / "2", {LEFT: None, MIDDLE: 2e-3, RIGHT: 1e-3}, device_id=7)
    assert [place.config for place in portable.compare([one, two]).ranked] == [MIDDLE]


def test_the_table_is_a_start_of_the_search_space():
    table = tomllib.loads(portable.start_table(MIDDLE))["start"][0]
    assert space.config_from(GEMM, table.pop("variant"), table) == MIDDLE


def test_what_does_not_compare_is_refused(tmp_path):
    one = recording(tmp_path / "1", {LEFT: 1e-3})
    two = recording(tmp_path / "2", {MIDDLE: 1e-3})
    with pytest.raises(AutotuneError, match="measured in every recording"):
        portable.compare([one, two])
    with pytest.raises(AutotuneError, match="no config has a time"):
        portable.compare([recording(tmp_path / "3", {LEFT: None})])
    with pytest.raises(AutotuneError, match="there is no file"):
        portable.compare([tmp_path / "none"])


def test_a_recording_of_configs_that_are_gone_says_so(tmp_path):
    path = recording(tmp_path / "1", {LEFT: 1e-3})
    text = gzip.decompress(path.read_bytes()).replace(b'"tile"', b'"edge"')  # as another version named it
    path.write_bytes(gzip.compress(text))
    with pytest.raises(AutotuneError, match="the 1 that have one do not exist in this version"):
        portable.compare([path])
