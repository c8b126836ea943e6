"""What the cache remembers of one tuning, and its JSON form.

An entry holds its full key (kernel, problem, device), so a file tells by itself what it answers for.
Whatever is read from a file is validated before anyone sees it: types and ranges by msgspec with
the family's own types (a number that is not finite passes for none), the problem by the family.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from autotune.digest import template_digest
from autotune.errors import AutotuneError
from autotune.kernels.base import Family
from autotune.model import Config, DeviceProfile, Measurement, Problem
from autotune.space import config_from

SCHEMA: Literal[1] = 1


class Entry(Struct, frozen=True, kw_only=True):
    """The winner of one tuning, with all that is needed to judge whether it still holds."""

    schema: Literal[1] = SCHEMA
    kernel: str
    problem: Problem
    device: DeviceProfile
    config: Config
    measurement: Measurement
    default_measurement: Measurement | None = None
    """The portable default in the same final round."""
    baseline_measurement: Measurement | None = None
    """The family's naive kernel."""
    template_digest: str
    program_version: str
    created: datetime
    trials: int
    complete: bool
    """False when the search was interrupted before it had run its course."""
    verified: bool
    """Whether the winner was also proved right on ragged neighbours of the problem."""


class _Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry as it lies in a file, with the family's types still undecided."""

    schema: Literal[1]
    kernel: str
    problem: dict[str, Any]
    device: DeviceProfile
    config: dict[str, Any]
    measurement: Measurement
    default_measurement: Measurement | None
    baseline_measurement: Measurement | None
    template_digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    program_version: str
    created: Annotated[datetime, Meta(tz=True)]
    trials: Annotated[int, Meta(ge=0)]
    complete: bool
    verified: bool


class InvalidEntryError(AutotuneError):
    """The bytes are not an entry of this family. The message says what is wrong with them."""


def new_entry(
    family: Family,
    problem: Problem,
    device: DeviceProfile,
    config: Config,
    measurement: Measurement,
    *,
    default_measurement: Measurement | None = None,
    baseline_measurement: Measurement | None = None,
    trials: int,
    complete: bool,
    verified: bool,
) -> Entry:
    """An entry made now, by this version of the program, with the templates as they are."""
    return Entry(
        kernel=family.name,
        problem=problem,
        device=device,
        config=config,
        measurement=measurement,
        default_measurement=default_measurement,
        baseline_measurement=baseline_measurement,
        template_digest=template_digest(family.name),
        program_version=_program_version(),
        created=datetime.now(UTC).replace(microsecond=0),
        trials=trials,
        complete=complete,
        verified=verified,
    )


def encode(family: Family, entry: Entry) -> bytes:
    """The entry as JSON, for people to read too.

    Raises InvalidEntryError for values that could not be read back, such as a time of infinity.
    """
    try:
        raw = msgspec.json.format(msgspec.json.encode(entry), indent=2) + b"\n"
        if decode(family, raw) != entry:
            raise InvalidEntryError("holds values that JSON cannot carry")
    except ValueError as error:  # a lone surrogate has no UTF-8 form
        raise InvalidEntryError(f"the entry cannot be stored: {error}") from error
    except InvalidEntryError as error:
        raise InvalidEntryError(f"the entry cannot be stored: it {error}") from error
    return raw


def decode(family: Family, raw: bytes) -> Entry:
    """The entry of these bytes. Raises InvalidEntryError where anything about them is off."""
    try:
        record = msgspec.json.decode(raw, type=_Record)
        if record.kernel != family.name:
            raise InvalidEntryError(f"is of the kernel {record.kernel!r}, not {family.name!r}")
        problem = msgspec.convert(record.problem, family.problem_type)
        family.check_problem(problem)
        parameters = {name: value for name, value in record.config.items() if name != "variant"}
        config = config_from(family, str(record.config.get("variant")), parameters)
    except InvalidEntryError:
        raise
    except (AutotuneError, ValueError, ArithmeticError, RecursionError) as error:
        # msgspec's errors are ValueErrors; deep nesting ends in RecursionError
        raise InvalidEntryError(f"is not a valid entry: {error}" if raw.strip() else "is empty") from error
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return Entry(**{**fields, "problem": problem, "config": config})


def _program_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow, and only tuning needs it

    try:
        return version("wgsl-autotune")
    except PackageNotFoundError:
        return "unknown"  # a bare checkout
