"""The digest that tells whether a kernel's templates changed since an entry was tuned."""

import hashlib
from functools import cache

from autotune import paths


@cache
def template_digest(kernel: str) -> str:
    """Digest of the family's templates and of the snippets they share: 16 hex digits.

    Names and contents enter, line ends do not: a checkout with CRLF has the same kernels.
    """
    root = paths.templates_dir()
    files = sorted(
        (path.relative_to(root).as_posix(), path)
        for part in (kernel, "lib")
        for path in (root / part).rglob("*.wgsl")
    )
    total = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes().replace(b"\r\n", b"\n")
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]
