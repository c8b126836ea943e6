"""The worker process: `python -m autotune.runtime.worker [wgpu|dawn]`. The only place that opens a GPU.

It reads requests from standard input and answers on standard output. A driver crash ends it; the
parent replaces it. When the parent goes away, it leaves at once, even from inside a hung driver call.
"""

import os
import queue
import sys
import threading
import time
from io import BufferedReader
from typing import BinaryIO

from autotune.runtime import DEFAULT_RUNTIME, compiler_of, messages
from autotune.runtime.adapters import DAWN_TOGGLES, DAWN_TOGGLES_OFF
from autotune.runtime.native import NativeRuntime

MOST_PACING = 2.0
"""Seconds without a request after which the GPU is left alone."""


def _claim_pipes() -> tuple[BufferedReader, BinaryIO]:
    """Keep the pipes to ourselves: whatever a library prints goes to standard error."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, replies


def _open_runtime(name: str) -> NativeRuntime:
    if name == "dawn":
        import wgpudawn
        from wgpudawn.backends.dawn.extras import get_adapter_properties, set_instance_extras

        set_instance_extras(enable_toggles=list(DAWN_TOGGLES), disable_toggles=list(DAWN_TOGGLES_OFF))
        return NativeRuntime(
            wgpudawn,
            compiler=compiler_of(name),
            runtime=f"wgpudawn {wgpudawn.__version__}",
            properties=get_adapter_properties,
        )
    import wgpu
    from wgpu.backends.wgpu_native import _ffi

    version = getattr(_ffi, "__version__", None) or wgpu.__version__
    return NativeRuntime(wgpu, compiler=compiler_of(name), runtime=f"wgpu {version}")


def _answer(runtime: NativeRuntime, request: messages.Request) -> messages.Reply:
    match request:
        case messages.ListAdapters():
            return messages.Adapters(runtime.adapters())
        case messages.Open(index, cadence):
            return messages.Opened(runtime.open(index, cadence), runtime.cadence)
        case messages.Pace(on):
            runtime.keeps_pace = on
        case messages.Load(contents):
            runtime.load(contents)
        case messages.Compile(handle, plan):
            runtime.compile(handle, plan)
        case messages.Run(handle):
            runtime.run(handle)
        case messages.Read():
            return messages.Outputs(runtime.outputs())
        case messages.Time(handle, batch, samples):
            return runtime.time(handle, batch, samples)
        case messages.Drop(handle):
            runtime.drop(handle)
    return messages.Done()


def _read_into(inbox: "queue.SimpleQueue[messages.Request]", stream: BufferedReader) -> None:
    while (request := messages.receive_request(stream)) is not None:
        inbox.put(request)
    os._exit(0)  # the parent is gone; the main thread may be stuck in a driver call


def _next_request(inbox: "queue.SimpleQueue[messages.Request]", runtime: NativeRuntime) -> messages.Request:
    """Wait for a request; while a candidate is being looked at, with the GPU kept at its clocks."""
    idle_until = time.monotonic() + MOST_PACING
    while inbox.empty() and time.monotonic() < idle_until and runtime.pace():
        pass
    return inbox.get()


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    requests, replies = _claim_pipes()
    inbox: queue.SimpleQueue[messages.Request] = queue.SimpleQueue()
    threading.Thread(target=_read_into, args=(inbox, requests), daemon=True).start()
    runtime = _open_runtime(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_RUNTIME)
    while True:
        request = _next_request(inbox, runtime)
        try:
            reply = _answer(runtime, request)
        except Exception as error:  # any refusal of the API is the candidate's, not ours
            reply = messages.Failed(f"{type(error).__name__}: {error}"[:4000])
        messages.send(replies, reply)


if __name__ == "__main__":
    main()
