"""One file name for one text, the same for writing and for reading, on every file system.

Device names come from drivers and may hold slashes, reserved words or nothing at all. Two different
texts never share a slug: whenever something was lost, a digest of the whole text follows an
underscore, and the underscore occurs nowhere else.
"""

import hashlib
import re

MAX_LENGTH = 64
_DIGEST_LENGTH = 10
_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SLUG = re.compile(rf"{_PLAIN.pattern}(?:_[0-9a-f]{{{_DIGEST_LENGTH}}})?")
_PORTS = {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
_RESERVED = frozenset({"con", "prn", "aux", "nul"} | _PORTS)
"""Names that Windows keeps for devices, whatever extension follows."""


def slug(text: str) -> str:
    """A file name made of `a-z0-9-` that stands for the text; never empty, at most MAX_LENGTH long."""
    if _PLAIN.fullmatch(text) and len(text) <= MAX_LENGTH and text not in _RESERVED:
        return text
    # surrogates reach us where a driver's bytes were decoded with `surrogateescape`
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower())[: MAX_LENGTH - _DIGEST_LENGTH - 1].strip("-")
    return f"{readable or 'unnamed'}_{digest}"


def is_slug(name: str) -> bool:
    """Whether `slug` could have made this name."""
    return len(name) <= MAX_LENGTH and name not in _RESERVED and _SLUG.fullmatch(name) is not None
