"""Bytes in and out of files that other processes read and write at the same time."""

import errno
import os
import re
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from autotune.errors import AutotuneError, CacheUnwritable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MAX_BYTES = 1 << 20
"""No entry comes near this; a larger file is not ours."""

_TEMPORARY = r"\..+\.[0-9a-f]{16}\.tmp"
_ABANDONED_SECONDS = 3600.0
_LOCKED_BYTE = 1 << 40
"""Where Windows locks: its locks keep even readers of the locked bytes out."""


Stamp = tuple[int, int, int] | None
"""What changes when a file or folder does; None where there is none."""
_TICK_NS = 15_000_000
"""Modification times move in steps as coarse as this."""


class UnreadableError(AutotuneError):
    """A file that must not or cannot be read. The message says what it is or does."""


def stamp(path: str | Path) -> Stamp:
    """The stamp of a file or folder as it is now."""
    try:
        status = os.stat(path)  # noqa: PTH116  pathlib costs more than the call itself
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def settled(*stamps: Stamp) -> bool:
    """Whether any later change will show in the stamps: a second one within a tick would not."""
    now = time.time_ns()
    return all(held is None or abs(now - held[0]) > _TICK_NS for held in stamps)


def read_regular(path: Path, limit: int = MAX_BYTES) -> bytes | None:
    """The bytes of a regular file, or None where there is none.

    Raises UnreadableError for what must not be read: devices, pipes, files over the limit.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  pathlib would hide that links are followed on purpose
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("is not a regular file")
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
    if len(raw) > limit:
        raise UnreadableError(f"is larger than {limit} bytes")
    return raw


def write_atomic(root: Path, path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees the old or the new bytes, never a part.

    The temporary file lies in the same folder, since a rename across file systems is a copy.
    """
    import secrets  # a look-up writes nothing

    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise unwritable(root, error) from error


def unwritable(root: Path, error: OSError) -> CacheUnwritable:
    """The one line that a person gets when the cache cannot be written."""
    return CacheUnwritable(
        f"cannot write to the cache {root} ({error.strerror or error}); "
        "choose a writable directory with --cache-dir or AUTOTUNE_CACHE_DIR"
    )


def reason(error: AutotuneError) -> str:
    """What the system said against a write, without the name of the temporary file."""
    cause = error.__cause__
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause or error)


def _replace(source: Path, target: Path) -> None:
    for _ in range(4):  # Windows refuses while another process has the target open to read it
        with suppress(PermissionError):
            source.replace(target)
            return
        time.sleep(0.02)
    source.replace(target)


def temporaries(folder: Path) -> list[Path]:
    """What writes in progress, or killed in the middle, have in this folder."""
    return [path for path in folder.glob(".*.tmp") if re.fullmatch(_TEMPORARY, path.name)]


def _sweep(folder: Path) -> None:
    """Remove what processes killed in the middle of a write left behind."""
    for path in temporaries(folder):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                path.unlink()


def lock(path: Path) -> IO[bytes] | None:
    """Open a file to read and append, unbuffered, for this process alone until it is closed.

    None while another holder has it. Raises OSError where it cannot be created or written.
    """
    while True:
        file = path.open("a+b", buffering=0)
        try:
            if not _try_lock(file):
                file.close()
                return None
            # the holder before us may have removed the file that we waited to open
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):  # noqa: PTH116
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()


if sys.platform == "win32":

    def _try_lock(file: IO[bytes]) -> bool:
        file.seek(_LOCKED_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # some network file systems have no locks; tuning there is better than no tuning
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True
