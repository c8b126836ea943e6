"""What parent and worker say to each other: tagged msgpack messages, each behind an 8-byte length.

Contents of buffers follow their message as they are, so that nobody copies them to put them into one, or to
take them out.
"""

import struct
from collections.abc import Mapping
from io import BufferedReader
from typing import IO, Generic, TypeVar

import msgspec
from msgspec import Struct

from autotune.model import DeviceProfile, Plan

_LENGTH = struct.Struct("<Q")


class _Message(Struct, frozen=True, tag=True):
    pass


class ListAdapters(_Message, frozen=True):
    """Ask for the profile of every adapter. Answer: Adapters."""


class Cadence(Struct, frozen=True):
    """What a pacer knows of its adapter: how much it runs at a time, and how fast that can be."""

    workgroups: int
    seconds: float


class Open(_Message, frozen=True):
    """Open the adapter at this place of the list. Answer: Opened."""

    index: int
    cadence: Cadence | None = None
    """Of that adapter, where another worker has learned it already."""


class Pace(_Message, frozen=True):
    """Whether to keep the GPU busy between requests; not where other workers use it too. Answer: Done."""

    on: bool


class Load(_Message, frozen=True):
    """Replace all data buffers by these contents. Answer: Done."""

    contents: dict[str, memoryview]


class Compile(_Message, frozen=True):
    """Create the pipelines of a plan and bind the data buffers under `handle`. Answer: Done."""

    handle: int
    plan: Plan


class Run(_Message, frozen=True):
    """Reset the outputs to their loaded contents, dispatch once, copy them to the worker. Answer: Done."""

    handle: int


class Read(_Message, frozen=True):
    """Hand out what the last run copied. Answer: Outputs."""


class Time(_Message, frozen=True):
    """Time `samples` runs of `batch` dispatches each. Answer: Samples."""

    handle: int
    batch: int
    samples: int


class Drop(_Message, frozen=True):
    """Forget a compiled plan. Answer: Done."""

    handle: int


class Adapters(_Message, frozen=True):
    """Every adapter, best first."""

    profiles: tuple[DeviceProfile, ...]


class Opened(_Message, frozen=True):
    """The device is ready; its features are the ones really granted."""

    profile: DeviceProfile
    cadence: Cadence | None
    """None where nothing is paced."""


class Done(_Message, frozen=True):
    """The request was carried out."""


class Outputs(_Message, frozen=True):
    """Contents of the output buffers by name."""

    contents: dict[str, memoryview]


class Samples(_Message, frozen=True):
    """Seconds for one dispatch, one value a sample; impossible readings are left out."""

    seconds: tuple[float, ...]
    clock: str


class Failed(_Message, frozen=True):
    """The request was refused; the device is still usable."""

    reason: str


Request = ListAdapters | Open | Pace | Load | Compile | Run | Read | Time | Drop
Reply = Adapters | Opened | Done | Outputs | Samples | Failed

_M = TypeVar("_M", Request, Reply)


class _Frame(Struct, Generic[_M], frozen=True):
    """A message without its contents, and how many bytes of each follow."""

    message: _M
    follow: dict[str, int]


_REQUESTS = msgspec.msgpack.Decoder(_Frame[Request])
_REPLIES = msgspec.msgpack.Decoder(_Frame[Reply])


class Space:
    """Memory for the contents of messages. Those of a message are good until the next one takes it."""

    def __init__(self) -> None:
        self._room = memoryview(bytearray())

    def take(self, size: int) -> memoryview:
        """So many bytes. The same memory serves again: fresh pages cost more than reading into them."""
        if len(self._room) < size:
            self._room = memoryview(bytearray(size))
        return self._room[:size]


def views(contents: Mapping[str, bytes]) -> dict[str, memoryview]:
    """Contents as a message holds them."""
    return {name: memoryview(data) for name, data in contents.items()}


def send(stream: IO[bytes], message: Request | Reply) -> None:
    """Write one message."""
    contents: dict[str, memoryview] = {}
    if isinstance(message, Load | Outputs):
        contents, message = message.contents, msgspec.structs.replace(message, contents={})
    follow = {name: data.nbytes for name, data in contents.items()}
    body = msgspec.msgpack.encode(_Frame(message, follow))
    stream.write(_LENGTH.pack(len(body)) + body)
    for data in contents.values():
        stream.write(data)
    stream.flush()


def _receive(
    stream: BufferedReader, decoder: "msgspec.msgpack.Decoder[_Frame[_M]]", space: Space
) -> _M | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        return None
    frame = decoder.decode(body)
    room = space.take(sum(frame.follow.values()))
    if stream.readinto(room) < len(room):
        return None
    if not isinstance(frame.message, Load | Outputs):
        return frame.message
    contents = {}
    for name, size in frame.follow.items():
        contents[name], room = room[:size], room[size:]
    return msgspec.structs.replace(frame.message, contents=contents)


def receive_request(stream: BufferedReader) -> Request | None:
    """Read one request; None at the end of the stream."""
    return _receive(stream, _REQUESTS, Space())


def receive_reply(stream: BufferedReader, space: Space) -> Reply | None:
    """Read one reply, its contents into this space; None at the end of the stream."""
    return _receive(stream, _REPLIES, space)
