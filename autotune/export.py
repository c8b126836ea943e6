"""Tuned kernels as files for any WebGPU host: the WGSL of each pass, and a manifest with what a
reflection of the text cannot tell.
"""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from autotune.errors import AutotuneError, CacheUnwritable
from autotune.files import UnreadableError, read_regular, write_atomic
from autotune.kernels.base import Family
from autotune.levels import Answer, default_answer
from autotune.limits import BASE_LIMITS, base_profile, needs
from autotune.model import Plan, Problem

MANIFEST_SCHEMA = 3
MANIFEST = "manifest.json"
TWIN_MANIFEST = "manifest-portable.json"
"""Of the kernel that runs where the other one's features or subgroups are missing."""


def export(
    family: Family, problem: Problem, answer: Answer, directory: Path, *, specialize: bool = False
) -> list[Path]:
    """Write the kernel of an answer and its manifest into a directory, which is made if absent.

    A kernel for matrix units, or for subgroups of one size, has a twin beside it: the portable default of the
    problem, with a manifest of its own, which the other one names.

    A directory holds one kernel: the texts that an earlier manifest in it names, and that are as they
    were written, are removed. Returns the files written, the manifest last.

    Raises AutotuneError where a file cannot be written, and where one that is there is not ours to replace:
    somebody else's manifest, or a text that is not as an earlier export wrote it. Nothing is written then.
    """
    plan = family.plan(problem, answer.config, specialize=specialize)
    files: dict[str, bytes] = {}
    twin = None
    if any(step.subgroup_size or step.subgroup_matrix for step in plan.passes):
        twin = TWIN_MANIFEST
        portable = default_answer(family, problem, base_profile())
        plain = family.plan(problem, portable.config, specialize=specialize)
        files |= _kernel(family, problem, portable, plain, TWIN_MANIFEST, suffix="-portable")
    files |= _kernel(family, problem, answer, plan, MANIFEST, twin=twin)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        blocked = next((name for name in files if (directory / name).is_dir()), None)
        if blocked is not None:
            raise IsADirectoryError(0, f"{blocked} is a directory there")
        earlier = _earlier(directory)
        _check_replaced(directory, files)
        for name, content in files.items():
            write_atomic(directory, directory / name, content)
        for path in earlier:
            if path.name not in files:
                path.unlink(missing_ok=True)
    except (OSError, CacheUnwritable) as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        reason = getattr(cause, "strerror", None) or cause
        raise AutotuneError(f"cannot write to {directory}: {reason}; choose another --out") from error
    return [directory / name for name in files]


def _kernel(
    family: Family,
    problem: Problem,
    answer: Answer,
    plan: Plan,
    name: str,
    *,
    suffix: str = "",
    twin: str | None = None,
) -> dict[str, bytes]:
    """The files of one kernel by name: its texts, whose names end in `suffix`, and last its manifest, which
    names its `twin`.
    """
    texts = {
        f"{stem}{suffix}.wgsl": step.wgsl
        for stem, step in zip(_names(family, problem, plan), plan.passes, strict=True)
    }
    document = manifest(problem, answer, plan, list(texts), twin=twin)
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    return {file: text.encode() for file, text in texts.items()} | {name: encoded}


class _Text(Struct):
    """A pass of a manifest, as far as it tells which file is its."""

    file: str
    sha256: str


class _Manifest(Struct):
    """A manifest of ours, as far as it tells what it belongs to."""

    schema: int
    kernel: str
    passes: list[_Text]
    twin: str | None = None


def _read(path: Path) -> _Manifest | None:
    """The manifest of an earlier export; None where there is none of ours."""
    try:
        return msgspec.json.decode(read_regular(path) or b"", type=_Manifest)
    except (UnreadableError, ValueError, RecursionError):
        return None


def _check_replaced(directory: Path, files: dict[str, bytes]) -> None:
    """Raise AutotuneError where one of these files is there and not ours to replace."""
    found = {name: _read(directory / name) for name in (MANIFEST, TWIN_MANIFEST)}
    written = {
        (text.file, text.sha256) for held in found.values() if held is not None for text in held.passes
    }
    for name, content in files.items():
        path = directory / name
        try:
            there = read_regular(path)
        except UnreadableError as error:
            raise AutotuneError(f"{path} {error}; choose another --out") from error
        if there is None or there == content:
            continue
        if name in found and found[name] is None:
            raise AutotuneError(f"{path} is no manifest of an export; choose another --out, or move it away")
        if name not in found and (name, _sha256(there)) not in written:
            raise AutotuneError(
                f"{path} is no text of an earlier export, or was changed since; "
                "choose another --out, or move it away"
            )


def _earlier(directory: Path) -> list[Path]:
    """The files of an earlier export that a new one replaces, besides its manifest."""
    held = _read(directory / MANIFEST)
    if held is None:
        return []
    found = _texts_of(directory, held)
    twin = _read(directory / TWIN_MANIFEST) if held.twin == TWIN_MANIFEST else None
    if twin is not None:
        texts = _texts_of(directory, twin)
        found += [*texts, *([directory / TWIN_MANIFEST] if texts else [])]
    return found


def _texts_of(directory: Path, manifest: _Manifest) -> list[Path]:
    """The texts that a manifest names, as far as they are as they were written."""
    return [
        directory / text.file
        for text in manifest.passes
        if text.file.endswith(".wgsl")
        and Path(text.file).name == text.file
        and _is_as_written(directory / text.file, text.sha256)
    ]


def _is_as_written(path: Path, digest: str) -> bool:
    try:
        return _sha256(read_regular(path) or b"") == digest
    except (UnreadableError, ValueError):  # ValueError: a name that no file has
        return False


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _names(family: Family, problem: Problem, plan: Plan) -> list[str]:
    stem = f"{family.name}-{family.label(problem)}{'' if plan.uniform else '-baked'}"
    many = len(plan.passes) > 1
    return [f"{stem}-pass{index}" if many else stem for index in range(len(plan.passes))]


def manifest(
    problem: Problem, answer: Answer, plan: Plan, files: list[str], *, twin: str | None = None
) -> dict[str, Any]:
    """Everything a host needs to run the plan, in the WebGPU specification's words; `twin` is the manifest of
    the kernel for hosts that lack a feature of this one.

    docs/manifest.md is its reference.
    """
    baked = not plan.uniform
    entry = answer.entry
    return {
        "schema": MANIFEST_SCHEMA,
        "kernel": plan.kernel,
        "variant": plan.variant,
        "problem": msgspec.to_builtins(problem),
        "config": msgspec.to_builtins(answer.config),
        "sizes": plan.sizes,
        "scalars": plan.scalars,
        "sizesBakedIn": baked,
        "sizeMultiples": {} if baked else plan.multiples,
        "sizesFixed": [] if baked else list(plan.fixed),
        "uniform": [
            {"name": name, "type": "u32" if name in plan.sizes else "f32", "offset": 4 * i}
            for i, name in enumerate(plan.uniform)
        ],
        "buffers": [
            {
                "name": buffer.name,
                "binding": buffer.binding,
                "role": buffer.role,
                "type": {"uniform": "uniform", "input": "read-only-storage"}.get(buffer.role, "storage"),
                "element": buffer.element,
                "shape": list(buffer.shape),
            }
            for buffer in plan.buffers
        ],
        "passes": [
            {
                "file": file,
                "sha256": _sha256(step.wgsl.encode()),
                "entryPoint": step.entry_point,
                "workgroupSize": list(step.workgroup_size),
                "workgroups": step.workgroups,
                "buffers": list(step.buffers),
                "onlyRead": list(step.only_read),
                "subgroupSize": step.subgroup_size or None,
                "subgroupMatrix": msgspec.to_builtins(step.subgroup_matrix),
            }
            for file, step in zip(files, plan.passes, strict=True)
        ],
        "requiredFeatures": list(plan.features),
        "requiredLimits": _required_limits(plan),
        "twin": twin,
        "experimental": {"dialect": plan.dialect, "tested": "validated, never run"} if plan.dialect else None,
        "tuned": None
        if entry is None
        else {
            "level": answer.level,
            "device": entry.device.name,
            "deviceId": entry.device.id,
            "driver": entry.device.driver,
            "runtime": entry.device.runtime,
            "compiler": entry.device.compiler,
            "problem": msgspec.to_builtins(entry.problem),
            "seconds": entry.measurement.seconds,
            "created": entry.created.isoformat(),
            "templateDigest": entry.template_digest,
        },
    }


def _required_limits(plan: Plan) -> dict[str, int]:
    """Limits that the plan needs beyond those every implementation grants."""
    wanted: dict[str, int] = {}
    for step in needs(plan):
        x, y, z = step.workgroup_size
        for name, value in {
            "maxComputeInvocationsPerWorkgroup": x * y * z,
            "maxComputeWorkgroupSizeX": x,
            "maxComputeWorkgroupSizeY": y,
            "maxComputeWorkgroupSizeZ": z,
            "maxComputeWorkgroupStorageSize": step.workgroup_bytes,
            "maxStorageBuffersPerShaderStage": len(step.binding_bytes),
            "maxStorageBufferBindingSize": max(step.binding_bytes),
            "maxBufferSize": max(step.binding_bytes),
        }.items():
            if value > BASE_LIMITS[name]:
                wanted[name] = max(value, wanted.get(name, 0))
    return wanted
