"""Jinja2 templates -> WGSL text. Control flow lives in `//#` lines, so editors still highlight WGSL."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2

from autotune import paths
from autotune.errors import AutotuneError


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.templates_dir()),
        undefined=jinja2.StrictUndefined,
        line_statement_prefix="//#",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the output is WGSL; every value was validated as a number or a known name
    )


def wgsl(template: str, context: Mapping[str, Any]) -> str:
    """Render one template. Raises AutotuneError naming template and line where it fails."""
    try:
        text = _environment().get_template(template).render(context)
    except jinja2.TemplateSyntaxError as error:
        raise AutotuneError(f"template {error.name}, line {error.lineno}: {error.message}") from error
    except jinja2.TemplateError as error:
        raise AutotuneError(f"template {template}: {error.message or error}") from error
    return _tidy(text)


def _starts_a_block(code: str, before: str, depth: int) -> bool:
    """Whether a blank line belongs before this line: a comment after code, or what follows a function."""
    if not before or before.endswith("{"):
        return False
    if code.startswith("//"):
        return not before.lstrip().startswith("//")
    return depth == 0 and before == "}"


def _tidy(text: str) -> str:
    """Indent by braces and drop the blank lines that unrolling leaves; the text is meant to be read."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        code = line.strip() if depth else line.rstrip()
        if not code:
            if depth == 0 and lines and lines[-1]:
                lines.append("")
            continue
        opened, closed = code.count("{"), code.count("}")
        if code.lstrip().startswith("//"):
            opened = closed = 0
        leading = 1 if code.startswith("}") else 0
        if lines and _starts_a_block(code, lines[-1], depth):
            lines.append("")
        lines.append("    " * (depth - leading) + code)
        depth += opened - closed
    return "\n".join(lines).strip("\n") + "\n"
