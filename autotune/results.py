"""What a tuning run may take, how far it is, and what it found."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from autotune.model import Config, DeviceProfile, Measurement, Problem

Ended = Literal["trials", "time", "exhausted", "converged", "interrupted", "device lost", "storage lost"]
EARLY: tuple[Ended, ...] = ("interrupted", "device lost", "storage lost")
"""Ends before the search had run its course."""


class Budget(Struct, frozen=True):
    """When the search stops: unique measured candidates, and seconds of searching."""

    trials: int
    seconds: float


class Options(Struct, frozen=True, kw_only=True):
    """How a tuning run searches, for those who want it otherwise."""

    effort: str = "normal"
    """One of `efforts.EFFORTS`: budgets where none are given, and when to stop early."""
    sampler: str = "default"
    """One of `search.SAMPLERS`."""
    jobs: int | None = None
    """Candidates in work at once on each adapter; None for `lanes.automatic_jobs`. With one, what is tried
    next depends on the seed and on results; with more, on the order in which these come too."""
    workers: int = 1
    """Adapters of the same model on this machine to use; 0 for all of them."""
    only: Mapping[str, tuple[str, ...]] = {}
    """Values that parameters (or `variant`) are restricted to, as texts, by name."""
    storage: str | None = None
    """URL of a database that several workers share; see `search/shared.py`."""
    heartbeat: int = 10
    """Seconds between two signs of life to that database."""
    record: Path | None = None
    """File to keep every trial in, for a replay; what it holds already is not measured again."""


class Progress(Struct, frozen=True):
    """How far a tuning run is."""

    phase: Literal["prepare", "search", "final", "verify"]
    profile: DeviceProfile
    budget: Budget
    measured: int = 0
    failed: int = 0
    refused: int = 0
    legal: int = 0
    share: float = 0.0
    """Of the budget, 0 to 1."""
    best: tuple[Config, Measurement] | None = None


class TuneResult(Struct, frozen=True, kw_only=True):
    """What a tuning run found."""

    problem: Problem
    profile: DeviceProfile
    config: Config
    measurement: Measurement
    default_measurement: Measurement | None
    """The portable default, in the same final round."""
    baseline_measurement: Measurement | None
    """The naive kernel."""
    measured: int
    measured_a_second: float
    """Configs measured per second of the search, without those it resumed from; 0 where there were none."""
    lanes: int
    """Candidates in work at once, on all adapters together: without lanes that did not open or ended."""
    refused: dict[str, int]
    """Configs of the space that cannot run here, by reason."""
    failed: dict[str, int]
    """Candidates that failed, by stage and reason."""
    ended: Ended
    verified: bool
    path: Path | None
    """Where the entry was stored; None when it was not."""
    notes: tuple[str, ...] = ()
    importance: dict[str, float] = {}
    """What share of the variation of speed each parameter of the winner's variant explains alone."""


Observer = Callable[[Progress], None]


_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "trials": ((int, type(None)), "a whole number or None"),
    "time_limit": ((int, float, type(None)), "seconds or None"),
    "seed": ((int,), "a whole number of at least 0"),
    "adapter": ((str, type(None)), "a text, such as '0' or a part of the name, or None"),
}


def check_types(**arguments: object) -> None:
    """Raise TypeError where an argument of `tune` has a wrong type, before anything is opened."""
    for name, value in arguments.items():
        types, words = _TYPES[name]
        negative = name == "seed" and isinstance(value, int) and value < 0
        if negative or isinstance(value, bool) or not isinstance(value, types):
            raise TypeError(f"{name} must be {words}, not {value!r}")
