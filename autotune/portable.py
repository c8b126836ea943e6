"""The portable default: of the configs measured everywhere, the one that is never far from the best.

From recordings of several devices (or problems) of one kernel: for each config the share of the best speed
that it reaches on each, and the worst of those. CLBlast too makes its defaults for unknown devices of what
did well on many (Nugteren 2018).
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from autotune import space
from autotune.errors import AutotuneError
from autotune.kernels import KERNELS
from autotune.kernels.base import Family
from autotune.limits import base_profile
from autotune.model import Config, Measurement, Problem
from autotune.recording import Header, decode, read_packed, trials_of


class Portable(Struct, frozen=True):
    """A config and how it does everywhere."""

    config: Config
    shares: tuple[float, ...]
    """Of the best speed, 0 to 1, for each recording."""

    @property
    def worst(self) -> float:
        """The smallest share."""
        return min(self.shares)


class Comparison(Struct, frozen=True):
    """Recordings of one kernel beside each other."""

    family: Family
    headers: tuple[Header, ...]
    ranked: tuple[Portable, ...]
    """Configs that run within WebGPU's base limits and have a time in every recording, the best first."""


def compare(files: Sequence[Path]) -> Comparison:
    """Rank the configs that all the recordings measured. Raises AutotuneError where there are none."""
    headers, times = [], []
    for path in files:
        raw = read_packed(path)
        if raw is None:
            raise AutotuneError(f"there is no file {path}")
        header, rows = decode(raw, path)
        if header.kernel not in KERNELS:
            raise AutotuneError(f"{path} is of the unknown kernel {header.kernel!r}")
        measured = {
            trial.config: trial.outcome.seconds
            for trial in trials_of(KERNELS[header.kernel], header, rows)
            if isinstance(trial.outcome, Measurement)
        }
        if not measured:
            timed = sum(not isinstance(value, str) for _, _, value in rows)
            gone = f"; the {timed} that have one do not exist in this version: record them again"
            raise AutotuneError(f"{path}: no config has a time{gone if timed else ''}")
        headers.append(header)
        times.append(measured)
    kernels = sorted({header.kernel for header in headers})
    if len(kernels) != 1:
        raise AutotuneError(f"recordings of one kernel compare, not of {', '.join(kernels)}")
    family = KERNELS[kernels[0]]
    problems = [_problem(family, header) for header in headers]
    fastest = [min(measured.values()) for measured in times]
    ranked = sorted(
        (
            Portable(config, tuple(best / of[config] for best, of in zip(fastest, times, strict=True)))
            for config in times[0]
            if all(config in of for of in times)
            and all(_runs_anywhere(family, problem, config) for problem in problems)
        ),
        key=lambda one: (-one.worst, -sum(one.shares)),
    )
    if not ranked:
        raise AutotuneError("no config that runs within WebGPU's base limits was measured in every recording")
    return Comparison(family, tuple(headers), tuple(ranked))


def start_table(config: Config) -> str:
    """The config as a `[[start]]` table for a file in search_spaces/."""
    lines = [f"{name} = {_toml(value)}" for name, value in config.parameters().items()]
    return "\n".join(["[[start]]", f'variant = "{config.variant}"', *lines])


def _problem(family: Family, header: Header) -> Problem:
    try:
        return msgspec.convert(header.problem, family.problem_type)
    except ValueError as error:
        raise AutotuneError(f"a recording's problem is no problem of {family.name}: {error}") from error


def _runs_anywhere(family: Family, problem: Problem, config: Config) -> bool:
    return next(space.refusals(family, problem, config, base_profile()), None) is None


def _toml(value: int | bool | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
