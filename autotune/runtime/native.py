"""Runs plans through a wgpu-py style API: wgpu-native (naga) or, with the same calls, Dawn (Tint).

Lives in the worker process only. It knows no kernel family: it binds buffers by name and dispatches.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import msgspec

from autotune.expression import evaluate
from autotune.limits import split_grid
from autotune.model import DTYPE_BYTES, Compiler, DeviceProfile, Plan, SubgroupMatrix
from autotune.runtime import adapters, matrix_check
from autotune.runtime.buffers import DataBuffers, poisoned
from autotune.runtime.clock import Pacer, Stopwatch
from autotune.runtime.messages import Cadence, Samples

_LAYOUT_TYPES = {
    "uniform": "uniform",
    "input": "read-only-storage",
    "output": "storage",
    "scratch": "storage",
}


class NativeRuntime:
    """One device, its data buffers and its compiled plans."""

    def __init__(
        self,
        api: Any,
        *,
        compiler: Compiler,
        runtime: str,
        properties: Callable[[Any], Mapping[str, Any]] = lambda _adapter: {},
    ) -> None:
        """`properties` says what the specification has no place for about an adapter."""
        self._api = api
        self._properties = properties
        self._compiler = compiler
        self._runtime = runtime
        self._adapters: list[tuple[DeviceProfile, Any]] = []
        self._data: DataBuffers | None = None
        self._compiled: dict[int, _Compiled] = {}
        self._pacer: Pacer | None = None
        self.keeps_pace = True
        """Whether `pace` may load the GPU between requests."""

    def adapters(self) -> tuple[DeviceProfile, ...]:
        """Profiles of all adapters, best first; of one backend where WGPU_BACKEND_TYPE names it."""
        listed = [(self._profile_of(adapter), adapter) for adapter in self._api.gpu.enumerate_adapters_sync()]
        backend = os.environ.get("WGPU_BACKEND_TYPE", "").strip().lower()  # enumeration ignores it
        listed = [pair for pair in listed if backend in ("", pair[0].backend)]
        self._adapters = sorted(listed, key=lambda pair: adapters.preference(pair[0]))
        return tuple(profile for profile, _ in self._adapters)

    def open(self, index: int, cadence: Cadence | None) -> DeviceProfile:
        """Open an adapter of the list, whose cadence may be known. Optional features are asked for only where
        listed, and as few as possible given up when the request is refused: a listed feature is a maybe.
        """
        profile, adapter = self._adapters[index]
        listed = [name for name in adapters.FEATURES if name in adapter.features]
        for wanted in _fewer_and_fewer(listed):
            try:
                self._device = adapter.request_device_sync(
                    required_features=wanted, required_limits=dict(adapter.limits)
                )
                break
            except RuntimeError:
                if not wanted:
                    raise
        self._profile = adapters.opened(profile, wanted)
        self._stopwatch = Stopwatch(self._api, self._device, ticks_per_second=self._ticks_per_second())
        if not self._profile.is_cpu:  # a software adapter has no clocks of its own
            self._pacer = Pacer(self._api, self._device, self._stopwatch, cadence)
        if "subgroups" in self._profile.features:
            self._profile = msgspec.structs.replace(self._profile, subgroup_size=self._probe_subgroup_size())
        if self._profile.subgroup_matrix:
            self._profile = msgspec.structs.replace(self._profile, subgroup_matrix=self._right_matrices())
        return self._profile

    @property
    def cadence(self) -> Cadence | None:
        """Of the adapter that is open; None where nothing is paced."""
        return None if self._pacer is None else self._pacer.cadence

    def load(self, contents: dict[str, memoryview]) -> None:
        """Replace all data buffers. What they hold now is also what outputs are reset to."""
        self._compiled.clear()
        if self._data is not None:
            self._data.destroy()
            self._data = None  # where there is no room for the new ones
        self._data = DataBuffers(self._api, self._device, contents)

    def compile(self, handle: int, plan: Plan) -> None:
        """Create the pipelines of a plan and bind its buffers."""
        data = {} if self._data is None else self._data.by_name
        compiled = _Compiled(self._api, self._device, self._profile, plan, data)
        if self._data is not None:
            self._data.prepare(compiled.outputs)
        self._compiled[handle] = compiled

    def run(self, handle: int) -> None:
        """Reset the outputs, dispatch once and copy the outputs, for `outputs` to hand out."""
        compiled, data = self._compiled[handle], self._data
        assert data is not None
        encoder = self._device.create_command_encoder()
        data.reset(encoder, compiled.outputs)
        compute_pass = encoder.begin_compute_pass()
        compiled.encode(compute_pass)
        compute_pass.end()
        data.copy(encoder, compiled.outputs)
        self._device.queue.submit([encoder.finish()])
        data.wait(compiled.outputs)

    def outputs(self) -> dict[str, memoryview]:
        """What the last run copied, good until this is asked for again."""
        return {} if self._data is None else self._data.copies()

    def time(self, handle: int, batch: int, samples: int) -> Samples:
        """Time `samples` runs of `batch` dispatches, at the GPU's working clocks."""
        if self._pacer is not None:
            self._pacer.settle()
        return self._stopwatch.time(self._compiled[handle].encode, batch, samples)

    def pace(self) -> bool:
        """Keep the GPU busy for a moment, so that it does not clock down; False where that is no use."""
        if self._pacer is None or self._data is None or not self.keeps_pace:
            return False
        self._pacer.run()
        return True

    def drop(self, handle: int) -> None:
        """Forget a compiled plan."""
        self._compiled.pop(handle, None)

    def _profile_of(self, adapter: Any) -> DeviceProfile:
        return adapters.profile_of(
            adapter,
            compiler=self._compiler,
            runtime=self._runtime,
            properties=self._properties(adapter),
        )

    def _ticks_per_second(self) -> float | None:
        """Of the device's timestamps. Dawn hands out nanoseconds, wgpu-native raw ticks."""
        if "timestamp-query" not in self._profile.features:
            return None
        if self._compiler == "tint":
            return 1e9
        from wgpu.backends.wgpu_native import lib

        return 1e9 / float(lib.wgpuQueueGetTimestampPeriod(self._device.queue._internal))

    def _probe_subgroup_size(self) -> int:
        """Reported sizes are wrong on several drivers; one dispatch tells. 0 where the probe fails."""
        enable = "enable subgroups;\n" if self._compiler == "tint" else ""
        code = f"""{enable}
        @group(0) @binding(0) var<storage, read_write> size: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(subgroup_size) lanes: u32, @builtin(local_invocation_index) i: u32) {{
            if (i == 0u) {{ size[0] = lanes; }}
        }}"""
        return int.from_bytes(self._once(code, [bytes(4)]), "little")

    def _right_matrices(self) -> tuple[SubgroupMatrix, ...]:
        """Those shapes of the matrix units that a tiny product finds right."""
        profile = self._profile

        def run(text: str, contents: bytes, size: int) -> bytes:
            return self._once(text, [contents, bytes(size)])

        return matrix_check.checked(profile.subgroup_matrix, profile.subgroup_size, run)

    def _once(self, code: str, contents: list[bytes]) -> bytes:
        """Run one workgroup of a text whose bindings hold these contents, and read the last one; zeros where
        the text is refused.
        """
        device, usage = self._device, self._api.BufferUsage
        try:
            pipeline = device.create_compute_pipeline(
                layout="auto",
                compute={"module": device.create_shader_module(code=code), "entry_point": "main"},
            )
            buffers = [
                device.create_buffer_with_data(data=data, usage=usage.STORAGE | usage.COPY_SRC)
                for data in contents
            ]
            group = device.create_bind_group(
                layout=pipeline.get_bind_group_layout(0),
                entries=[
                    {"binding": index, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
                    for index, buffer in enumerate(buffers)
                ],
            )
            encoder = device.create_command_encoder()
            compute_pass = encoder.begin_compute_pass()
            compute_pass.set_pipeline(pipeline)
            compute_pass.set_bind_group(0, group)
            compute_pass.dispatch_workgroups(1)
            compute_pass.end()
            device.queue.submit([encoder.finish()])
            return bytes(device.queue.read_buffer(buffers[-1]))
        except self._api.GPUError:
            return bytes(len(contents[-1]))


def _fewer_and_fewer(names: list[str]) -> Iterator[list[str]]:
    """Every choice of the names, from all of them to none."""
    for count in range(len(names), -1, -1):
        yield from map(list, combinations(names, count))


def _accepted(wgsl: str, compiler: Compiler) -> str:
    """A text as the compiler takes it: naga knows the subgroup built-ins, not the line that enables them."""
    return wgsl.replace("enable subgroups;\n", "", 1) if compiler == "naga" else wgsl


class _Compiled:
    """The pipelines and bind groups of one plan."""

    def __init__(
        self, api: Any, device: Any, profile: DeviceProfile, plan: Plan, data: dict[str, Any]
    ) -> None:
        usage = api.BufferUsage
        own: dict[str, Any] = {}
        for buffer in plan.buffers:
            if buffer.role == "uniform":
                kinds = "".join("I" if name in plan.sizes else "f" for name in plan.uniform)
                values = struct.pack(
                    f"<{kinds}", *((plan.sizes | plan.scalars)[name] for name in plan.uniform)
                )
                own[buffer.name] = device.create_buffer_with_data(
                    data=values.ljust(-(-len(values) // 16) * 16, b"\0"), usage=usage.UNIFORM
                )
            elif buffer.role == "scratch":
                count = evaluate({"mul": list(buffer.shape)}, plan.sizes) * DTYPE_BYTES[buffer.element]
                own[buffer.name] = poisoned(api, device, count)
        self.outputs = [buffer.name for buffer in plan.buffers if buffer.role == "output"]
        by_name = {buffer.name: buffer for buffer in plan.buffers}
        limit = profile.limits["maxComputeWorkgroupsPerDimension"]
        self._steps = []
        for step in plan.passes:
            used = [by_name[name] for name in step.buffers]
            layout = device.create_bind_group_layout(
                entries=[
                    {
                        "binding": buffer.binding,
                        "visibility": api.ShaderStage.COMPUTE,
                        "buffer": {
                            "type": _LAYOUT_TYPES["input" if buffer.name in step.only_read else buffer.role]
                        },
                    }
                    for buffer in used
                ]
            )
            pipeline = device.create_compute_pipeline(
                layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={
                    "module": device.create_shader_module(code=_accepted(step.wgsl, profile.compiler)),
                    "entry_point": step.entry_point,
                },
            )
            entries = []
            for buffer in used:
                handle = own.get(buffer.name) or data[buffer.name]
                resource = {"buffer": handle, "offset": 0, "size": handle.size}
                entries.append({"binding": buffer.binding, "resource": resource})
            group = device.create_bind_group(layout=layout, entries=entries)
            self._steps.append((pipeline, group, split_grid(evaluate(step.workgroups, plan.sizes), limit)))

    def encode(self, compute_pass: Any) -> None:
        """Record every pass of the plan once."""
        for pipeline, group, grid in self._steps:
            compute_pass.set_pipeline(pipeline)
            compute_pass.set_bind_group(0, group)
            compute_pass.dispatch_workgroups(*grid)
