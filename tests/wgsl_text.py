"""What a WGSL text says about itself."""

import ast
import re
from math import prod
from operator import add, floordiv, mul, sub

from autotune.model import DTYPE_BYTES

OPERATIONS = {ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: floordiv}


def constant(expression, names):
    """The value of a WGSL constant expression in whole numbers: names, + - * / and parentheses."""

    def value(node):
        if isinstance(node, ast.BinOp):
            return OPERATIONS[type(node.op)](value(node.left), value(node.right))
        return names[node.id] if isinstance(node, ast.Name) else int(node.value)

    return value(ast.parse(re.sub(r"\b(\d+)u\b", r"\1", expression).strip(), mode="eval").body)


def constants(wgsl):
    """The whole-number constants in capitals, by name."""
    names = {}
    for name, expression in re.findall(r"^const ([A-Z_]+) = (.*?);", wgsl, re.MULTILINE):
        names[name] = constant(expression, names)
    return names


def workgroup_size(wgsl):
    """The three numbers of the only @workgroup_size."""
    (size,) = re.findall(r"@workgroup_size\(([^()]*(?:\([^()]*\)[^()]*)*)\)", wgsl)
    names = constants(wgsl)
    return (*(constant(length, names) for length in size.split(",") if length.strip()), 1, 1)[:3]


def without_comments(wgsl):
    """The text without what `//` begins."""
    return re.sub(r"//.*", "", wgsl)


def workgroup_memory(wgsl):
    """Bytes of all workgroup variables; their element types may be aliases."""
    names = constants(wgsl)
    aliases = dict(re.findall(r"alias (\w+) = (\w+);", wgsl))
    total = 0
    for kind in re.findall(r"var<workgroup> \w+: (.*?);", wgsl):
        lengths = [constant(length, names) for length in re.findall(r", ([^,<>]+)>", kind)]
        (lanes,) = re.findall(r"vec(\d)", kind) or ["1"]
        names_in_kind = [aliases.get(name, name) for name in re.findall(r"\w+", kind)]
        (element,) = [name for name in names_in_kind if name in DTYPE_BYTES]
        total += prod(lengths) * int(lanes) * DTYPE_BYTES[element]
    return total
