"""What parent and worker say to each other: tagged msgpack messages, each behind an 8-byte length."""

import struct
from typing import IO

import msgspec
from msgspec import Struct

from autotune.model import DeviceProfile, Plan

_LENGTH = struct.Struct("<Q")


class _Message(Struct, frozen=True, tag=True):
    pass


class ListAdapters(_Message, frozen=True):
    """Ask for the profile of every adapter. Answer: Adapters."""


class Open(_Message, frozen=True):
    """Open the adapter at this place of the list. Answer: Opened."""

    index: int


class Pace(_Message, frozen=True):
    """Whether to keep the GPU busy between requests; not where other workers use it too. Answer: Done."""

    on: bool


class Load(_Message, frozen=True):
    """Replace all data buffers by these contents. Answer: Done."""

    contents: dict[str, bytes]


class Compile(_Message, frozen=True):
    """Create the pipelines of a plan and bind the data buffers under `handle`. Answer: Done."""

    handle: int
    plan: Plan


class Run(_Message, frozen=True):
    """Reset the outputs to their loaded contents, dispatch once, read them into the worker. Answer: Done."""

    handle: int


class Read(_Message, frozen=True):
    """Hand out what the last run read, which is forgotten then. Answer: Outputs."""


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


class Done(_Message, frozen=True):
    """The request was carried out."""


class Outputs(_Message, frozen=True):
    """Contents of the output buffers by name."""

    contents: dict[str, bytes]


class Samples(_Message, frozen=True):
    """Seconds for one dispatch, one value a sample; impossible readings are left out."""

    seconds: tuple[float, ...]
    clock: str


class Failed(_Message, frozen=True):
    """The request was refused; the device is still usable."""

    reason: str


Request = ListAdapters | Open | Pace | Load | Compile | Run | Read | Time | Drop
Reply = Adapters | Opened | Done | Outputs | Samples | Failed

_REQUESTS = msgspec.msgpack.Decoder(Request)
_REPLIES = msgspec.msgpack.Decoder(Reply)


def send(stream: IO[bytes], message: Request | Reply) -> None:
    """Write one message."""
    body = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def receive_request(stream: IO[bytes]) -> Request | None:
    """Read one request; None at the end of the stream."""
    body = _receive(stream)
    return None if body is None else _REQUESTS.decode(body)


def receive_reply(stream: IO[bytes]) -> Reply | None:
    """Read one reply; None at the end of the stream."""
    body = _receive(stream)
    return None if body is None else _REPLIES.decode(body)
