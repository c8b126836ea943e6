"""Digests that tell whether a kernel changed: its templates since an entry was tuned, its Python since a
search was interrupted.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from autotune import paths


@cache
def template_digest(kernel: str) -> str:
    """Digest of the family's templates and of the snippets they share: 16 hex digits.

    Names and code enter; comments of whole lines, indentation and line ends do not: explaining a kernel
    better does not make it another one.
    """
    root = paths.templates_dir()
    found = (path for part in (kernel, "lib") for path in (root / part).rglob("*.wgsl"))
    return _digest(root, found, _code)


def _code(content: bytes) -> bytes:
    """A template without what only readers see. A comment at the end of a line stays, since `//` divides in
    Jinja; so does one whose text Jinja computes."""
    lines = map(bytes.strip, re.sub(rb"\{#.*?#\}", b"", content, flags=re.DOTALL).splitlines())
    return b"\n".join(line for line in lines if line and (not line.startswith(b"//") or _jinja(line)))


def _jinja(comment: bytes) -> bool:
    return comment.startswith(b"//#") or b"{" in comment


@cache
def package_digest(module: str) -> str:
    """Digest of the Python files of the package that a family's module lies in: 16 hex digits.

    A package below `autotune.kernels` comes with the modules beside it, since families share them. A module
    that lies beside other families, or in no package, stands for itself alone.
    """
    file = getattr(sys.modules[module], "__file__", None)
    if file is None:
        return _digest(Path(), ())
    path = Path(file)
    if module.count(".") < 3 and path.name != "__init__.py":
        return _digest(path.parent, (path,))
    shared = path.parent.parent.glob("*.py") if module.startswith("autotune.kernels.") else ()
    return _digest(path.parent.parent, (*shared, *path.parent.rglob("*.py")))


def _digest(
    root: Path, paths_below: Iterable[Path], part: Callable[[bytes], bytes] = lambda content: content
) -> str:
    total = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths_below):
        content = part(path.read_bytes().replace(b"\r\n", b"\n"))
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]
