"""How the worker tells time: GPU timestamps, or the wall clock where there are none; and a pacer that
brings a GPU up to its working clocks before anything is timed.

A GPU that idles between candidates (we compile, transfer and compare meanwhile) clocks down. On an
NVIDIA H200 everything then took four to six times as long, and it needed a third of a second of load to
come up again. The pacer is a fixed piece of arithmetic: when it takes longer than it ever did, the GPU
is not up yet.
"""

import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

from autotune.runtime.messages import Cadence, Samples

MAX_SAMPLES = 64
"""Samples one request may ask for; a single query set of twice as many is reused throughout."""

Encode = Callable[[Any], None]
"""Records one run of something into a compute pass."""

_PACER_WGSL = """
@group(0) @binding(0) var<storage, read_write> sink: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var x = f32(id.x);
    for (var i = 0u; i < 4096u; i += 1u) {
        x = fma(x, 0.5, 1.0);
        x = fma(x, 0.5, 2.0);
        x = fma(x, 0.5, 3.0);
        x = fma(x, 0.5, 4.0);
    }
    if (x == 12345.0) { sink[0] = x; }
}
"""


class Stopwatch:
    """Times whatever can be recorded into a compute pass."""

    def __init__(self, api: Any, device: Any, *, ticks_per_second: float | None) -> None:
        """`ticks_per_second` of the device's timestamps, or None where it has none."""
        self._device = device
        usage = api.BufferUsage
        self._ticks = device.create_buffer(size=16 * MAX_SAMPLES, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        self._rate = ticks_per_second
        self._queries = None
        if ticks_per_second is not None:
            self._queries = device.create_query_set(type="timestamp", count=2 * MAX_SAMPLES)
        self._overhead = statistics.median(self._wall(lambda _pass: None, 1) for _ in range(5))

    def time(self, encode: Encode, batch: int, samples: int) -> Samples:
        """Seconds for one run, from `samples` passes of `batch` runs; impossible readings are left out."""
        if self._queries is None or self._rate is None:
            spans = [self._wall(encode, batch) - self._overhead for _ in range(samples)]
            return Samples(tuple(span / batch for span in spans if span > 0), "wall")
        encoder = self._device.create_command_encoder()
        for sample in range(samples):
            compute_pass = encoder.begin_compute_pass(
                timestamp_writes={
                    "query_set": self._queries,
                    "beginning_of_pass_write_index": 2 * sample,
                    "end_of_pass_write_index": 2 * sample + 1,
                }
            )
            for _ in range(batch):
                encode(compute_pass)
            compute_pass.end()
        encoder.resolve_query_set(self._queries, 0, 2 * samples, self._ticks, 0)
        self._device.queue.submit([encoder.finish()])
        raw = self._device.queue.read_buffer(self._ticks, size=16 * samples)
        ticks = struct.unpack(f"<{2 * samples}Q", raw)
        pairs = ((ticks[2 * i], ticks[2 * i + 1]) for i in range(samples))
        seconds = tuple((end - begin) / self._rate / batch for begin, end in pairs if 0 < begin < end)
        return Samples(seconds, "gpu")

    def _wall(self, encode: Encode, batch: int) -> float:
        encoder = self._device.create_command_encoder()
        compute_pass = encoder.begin_compute_pass()
        for _ in range(batch):
            encode(compute_pass)
        compute_pass.end()
        start = time.perf_counter()
        self._device.queue.submit([encoder.finish()])
        self._device.queue.read_buffer(self._ticks, size=8)  # waits for the queue
        return time.perf_counter() - start


class Pacer:
    """Keeps a GPU at its working clocks."""

    TOLERANCE = 1.03
    """A pacer run this much slower than the fastest ever means that the clocks are not up."""
    FIRST = 0.6
    """Seconds of load when the device is opened, to learn how fast the pacer can be."""
    PATIENCE = 0.6
    """Seconds of load at most before giving up on higher clocks (heat may keep them down for good)."""
    SPAN = 1e-3
    """Seconds one pacer run should last."""

    def __init__(self, api: Any, device: Any, stopwatch: Stopwatch, known: Cadence | None = None) -> None:
        """`known` is what a pacer has learned on the same adapter; otherwise that is learned now."""
        self._stopwatch = stopwatch
        pipeline = device.create_compute_pipeline(
            layout="auto",
            compute={"module": device.create_shader_module(code=_PACER_WGSL), "entry_point": "main"},
        )
        sink = device.create_buffer(size=16, usage=api.BufferUsage.STORAGE)
        group = device.create_bind_group(
            layout=pipeline.get_bind_group_layout(0),
            entries=[{"binding": 0, "resource": {"buffer": sink, "offset": 0, "size": 16}}],
        )
        self._workgroups, self._fastest = 256, float("inf")

        def encode(compute_pass: Any) -> None:
            compute_pass.set_pipeline(pipeline)
            compute_pass.set_bind_group(0, group)
            compute_pass.dispatch_workgroups(self._workgroups)

        self._encode = encode
        if known is None:
            self._learn()
        else:
            self._workgroups, self._fastest = known.workgroups, known.seconds

    @property
    def cadence(self) -> Cadence:
        """What is known by now."""
        return Cadence(self._workgroups, self._fastest)

    def _learn(self) -> None:
        """Load the GPU until it must be at its working clocks; find how much to run at a time."""
        deadline = time.monotonic() + self.FIRST
        while time.monotonic() < deadline:
            span = self.run()
            if span < self.SPAN / 2 and self._workgroups < 32_768:
                self._workgroups *= 2  # a run long enough to tell a few percent
                self._fastest = float("inf")

    def settle(self) -> None:
        """Load the GPU until the pacer is as fast as it ever was, or patience runs out."""
        deadline = time.monotonic() + self.PATIENCE
        while self.run() > self.TOLERANCE * self._fastest and time.monotonic() < deadline:
            pass

    def run(self) -> float:
        """One run, about a millisecond of arithmetic; its time in seconds, 0 where it could not be read."""
        seconds = self._stopwatch.time(self._encode, 1, 1).seconds
        span = seconds[0] if seconds else 0.0
        if span > 0:
            self._fastest = min(self._fastest, span)
        return span
