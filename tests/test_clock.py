"""The pacer and the stopwatch, with a device that plays the clocks of a GPU."""

import struct

import pytest

from autotune.runtime import clock
from autotune.runtime.clock import Pacer, Stopwatch
from autotune.runtime.messages import Samples


class Anything:
    """A device on which everything succeeds and nothing happens."""

    def __getattr__(self, _name):
        return self

    def __call__(self, *_args, **_options):
        return self

    def __or__(self, _other):
        return self


class Time:
    """A clock that moves when told to."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


class SleepyGpu:
    """Runs the pacer slowly after a pause, and at full speed once it had 0.3 s of load."""

    FULL, IDLE = 0.001, 0.006

    def __init__(self, time):
        self.time_ = time
        self.load = 1.0
        self.runs = 0

    def time(self, _encode, batch, samples):
        assert (batch, samples) == (1, 1)
        span = self.FULL if self.load >= 0.3 else self.IDLE
        self.load += span
        self.time_.now += span
        self.runs += 1
        return Samples((span,), "gpu")


@pytest.fixture
def gpu(monkeypatch):
    time = Time()
    monkeypatch.setattr(clock, "time", time)
    return SleepyGpu(time)


def test_a_gpu_that_idled_is_loaded_until_it_is_as_fast_as_it_ever_was(gpu):
    pacer = Pacer(Anything(), Anything(), gpu)
    gpu.load = 0.0
    pacer.settle()
    assert gpu.time(None, 1, 1).seconds == (SleepyGpu.FULL,)


def test_a_gpu_at_its_clocks_waits_for_a_single_run(gpu):
    pacer = Pacer(Anything(), Anything(), gpu)
    before = gpu.runs
    pacer.settle()
    assert gpu.runs == before + 1


def test_what_one_pacer_learned_another_on_that_adapter_need_not_learn(gpu):
    learned = Pacer(Anything(), Anything(), gpu).cadence
    gpu.load, before = 0.0, gpu.runs
    pacer = Pacer(Anything(), Anything(), gpu, learned)
    assert gpu.runs == before
    assert pacer.cadence == learned
    pacer.settle()
    assert gpu.load >= 0.3


def test_clocks_that_heat_keeps_down_end_the_wait(gpu):
    pacer = Pacer(Anything(), Anything(), gpu)
    gpu.load = float("-inf")
    start = gpu.time_.now
    pacer.settle()
    assert Pacer.PATIENCE <= gpu.time_.now - start < Pacer.PATIENCE + 2 * SleepyGpu.IDLE


def test_a_gpu_found_idle_shows_its_full_speed_before_anything_is_compared_with_it(gpu):
    gpu.load = 0.0
    pacer = Pacer(Anything(), Anything(), gpu)
    gpu.load = 0.0
    pacer.settle()
    assert gpu.load >= 0.3


def test_a_pacer_that_cannot_be_read_keeps_nobody_waiting(gpu):
    gpu.time = lambda *_: _tick(gpu)
    pacer = Pacer(Anything(), Anything(), gpu)
    pacer.settle()
    assert gpu.time_.now < Pacer.FIRST + Pacer.PATIENCE


def _tick(gpu):
    gpu.time_.now += 0.001
    return Samples((), "gpu")


class Queue(Anything):
    """Hands out timestamps."""

    def __init__(self, ticks):
        self.ticks = ticks

    def read_buffer(self, _buffer, *, size):
        return struct.pack(f"<{size // 8}Q", *self.ticks[: size // 8])


def stopwatch(ticks, rate):
    device = Anything()
    device.queue = Queue(ticks)
    return Stopwatch(Anything(), device, ticks_per_second=rate)


def test_timestamps_become_seconds_by_the_rate_of_the_device():
    watch = stopwatch([1000, 3000, 5000, 9000], rate=1e6)
    assert watch.time(lambda _pass: None, batch=2, samples=2) == Samples((0.001, 0.002), "gpu")


def test_timestamps_that_cannot_be_true_are_left_out():
    ticks = [5000, 4000, 0, 0, 7000, 7000, 0, 900, 1000, 3000]
    watch = stopwatch(ticks, rate=1e6)
    assert watch.time(lambda _pass: None, batch=1, samples=5) == Samples((0.002,), "gpu")


def test_without_timestamps_the_wall_clock_is_used_and_named():
    watch = stopwatch([0], rate=None)
    samples = watch.time(lambda _pass: None, batch=1, samples=3)
    assert samples.clock == "wall"
    assert all(seconds > 0 for seconds in samples.seconds)
