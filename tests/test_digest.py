"""What tells that a kernel changed, and what does not."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from autotune import digest, paths
from autotune.digest import package_digest
from autotune.kernels import gemm

TEMPLATES = sorted(path.relative_to(paths.templates_dir()) for path in paths.templates_dir().rglob("*.wgsl"))


def comment_only(line):
    """Whether a line only explains: no code, nothing that Jinja computes."""
    return line.strip() == "" or (line.strip().startswith("//") and not set(line) & set("#{"))


def digest_with(root, content):
    """The digest of a family whose only template has this text."""
    (root / "one").mkdir(exist_ok=True)
    (root / "one" / "kernel.wgsl").write_bytes(content)
    return digest.template_digest.__wrapped__("one")


@pytest.mark.parametrize("template", TEMPLATES, ids=str)
def test_every_line_of_code_counts_and_no_line_that_only_explains(tmp_path, monkeypatch, template):
    text = (paths.templates_dir() / template).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    monkeypatch.setattr(paths, "templates_dir", lambda: tmp_path)
    whole = digest_with(tmp_path, text.encode())
    inside = False  # a comment of Jinja over several lines
    for i, line in enumerate(lines):
        inside = inside or line.startswith("{#")
        explains = inside or comment_only(line)
        inside = inside and "#}" not in line
        if "{#" in line or "#}" in line:
            continue  # without one of its ends a comment takes code with it
        without = digest_with(tmp_path, "".join(lines[:i] + lines[i + 1 :]).encode())
        assert (without == whole) is explains, line


def test_line_ends_and_indentation_do_not_count_but_division_does(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "templates_dir", lambda: tmp_path)
    before = digest_with(tmp_path, b"fn a() {\n    x = {{ n // 4 }};\n}\n")
    assert digest_with(tmp_path, b"fn a() {\r\n  x = {{ n // 4 }};\r\n\r\n}\r\n") == before
    assert digest_with(tmp_path, b"fn a() {\n    x = {{ n // 8 }};\n}\n") != before
    assert digest_with(tmp_path, b"fn a() {\n    // {{ n }}\n    x = {{ n // 4 }};\n}\n") != before


def test_the_digest_of_a_package_covers_all_its_modules_and_no_other_family_s():
    package = Path(gemm.__file__).parent
    assert package_digest("autotune.kernels.gemm.family") == package_digest("autotune.kernels.gemm")
    names = {path.name for path in package.rglob("*.py")}
    assert {"rules.py", "plan.py"} <= names
    assert (
        len(
            {
                package_digest(name)
                for name in ("autotune.kernels.gemm", "autotune.kernels.base", "fake_family")
            }
        )
        == 3
    )


def test_the_digest_of_a_family_covers_the_modules_that_families_share(tmp_path, monkeypatch):
    family, shared, other = (tmp_path / name for name in ("mine/__init__.py", "tiles.py", "other/rules.py"))
    for path in (family, shared, other):
        path.parent.mkdir(exist_ok=True)
        path.write_text("LIMIT = 1")
    module = ModuleType("autotune.kernels.mine")
    module.__file__ = str(family)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    digest = package_digest.__wrapped__
    before = digest(module.__name__)
    other.write_text("LIMIT = 2")
    assert digest(module.__name__) == before
    shared.write_text("LIMIT = 2")
    assert digest(module.__name__) != before
