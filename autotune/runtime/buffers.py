"""The data buffers of a device: reset and read back on the GPU's side, so that a run waits for little else.

Other lanes wait while a candidate runs. So what outputs are reset to stays on the device, and what they hold
then is copied to memory of the host in the same submission, from where it can be fetched later.
"""

import struct
from collections.abc import Sequence
from typing import Any

from autotune.expression import ceil_div
from autotune.runtime.messages import Space

_NAN = struct.pack("<4I", *[0x7FC5_A5A5] * 4)
_PIECE = 1 << 22
"""Bytes of NaN that travel to the device; more are copied there."""


def poisoned(api: Any, device: Any, size: int) -> Any:
    """A buffer of `size` bytes or a few more for passes to share, full of NaN: what none wrote must show."""
    size, usage = 16 * ceil_div(size, 16), api.BufferUsage
    if size <= _PIECE:
        return device.create_buffer_with_data(data=_NAN * (size // 16), usage=usage.STORAGE)
    source = device.create_buffer_with_data(data=_NAN * (_PIECE // 16), usage=usage.COPY_SRC)
    made = device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_DST)
    encoder = device.create_command_encoder()
    for start in range(0, size, _PIECE):
        encoder.copy_buffer_to_buffer(source, 0, made, start, min(_PIECE, size - start))
    device.queue.submit([encoder.finish()])
    return made


class DataBuffers:
    """The buffers of one problem by name, with the contents that outputs are reset to."""

    def __init__(self, api: Any, device: Any, contents: dict[str, memoryview]) -> None:
        self._device, self._usage = device, api.BufferUsage
        self._contents = contents
        usage = self._usage.STORAGE | self._usage.COPY_SRC | self._usage.COPY_DST
        self.by_name = {name: self._filled(name, usage) for name in contents}
        self._initial: dict[str, Any] = {}
        self._read: dict[str, Any] = {}
        self._mapped: list[str] = []
        self._space = Space()

    def prepare(self, names: Sequence[str]) -> None:
        """Put on the device what these outputs are reset to, and make room for their copies."""
        for name in names:
            if name not in self._initial:
                self._initial[name] = self._filled(name, self._usage.COPY_SRC)
                usage = self._usage.COPY_DST | self._usage.MAP_READ
                self._read[name] = self._device.create_buffer(size=self.by_name[name].size, usage=usage)

    def reset(self, encoder: Any, names: Sequence[str]) -> None:
        """Record that these, once prepared, hold their first contents again."""
        for name in names:
            self._copy(encoder, self._initial[name], self.by_name[name])

    def copy(self, encoder: Any, names: Sequence[str]) -> None:
        """Record that these are copied to where `wait` finds them. Copies of before are forgotten."""
        self._forget()
        for name in names:
            self._copy(encoder, self.by_name[name], self._read[name])

    def wait(self, names: Sequence[str]) -> None:
        """Wait until what was submitted is done and its copies can be read."""
        for name in names:
            self._read[name].map_sync("READ")
            self._mapped.append(name)

    def copies(self) -> dict[str, memoryview]:
        """What `wait` waited for, good until it is asked for again.

        It is in memory of our own, since not every system writes to a pipe from what a driver has mapped.
        """
        room = self._space.take(sum(self._read[name].size for name in self._mapped))
        found = {}
        for name in self._mapped:
            mapped = self._read[name].read_mapped(copy=False)
            found[name], room = room[: len(mapped)], room[len(mapped) :]
            found[name][:] = mapped
        return found

    def destroy(self) -> None:
        """Give the memory back."""
        self._forget()
        for buffers in (self.by_name, self._initial, self._read):
            for buffer in buffers.values():
                buffer.destroy()

    def _filled(self, name: str, usage: int) -> Any:
        return self._device.create_buffer_with_data(data=self._contents[name], usage=usage)

    @staticmethod
    def _copy(encoder: Any, source: Any, target: Any) -> None:
        encoder.copy_buffer_to_buffer(source, 0, target, 0, source.size)

    def _forget(self) -> None:
        while self._mapped:
            self._read[self._mapped.pop()].unmap()
