"""Errors meant for people: each message says what went wrong, why, and what to do next."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.model import Trial


class AutotuneError(Exception):
    """Base of every error this package raises on purpose; the CLI prints it as one line."""


class InvalidProblem(AutotuneError):
    """The problem itself makes no sense or exceeds what WGSL can index."""


class InvalidConfig(AutotuneError):
    """A config that is not legal for this problem on this device."""


class NoAdapter(AutotuneError):
    """No usable GPU adapter was found, or none matches the selector."""


class RuntimeMissing(AutotuneError):
    """The package of a runtime that was asked for is not installed."""


class WorkerError(AutotuneError):
    """The worker process died, hung, or refused a request."""


class WorkerCrashed(WorkerError):
    """The worker process ended by itself (driver crash, panic, abort)."""


class WorkerHung(WorkerError):
    """The worker missed its deadline and was killed."""


class StorageLost(AutotuneError):
    """The database that several workers share cannot be reached any more."""


class TuningFailed(AutotuneError):
    """No candidate survived; nothing was stored."""

    def __init__(self, message: str, example: "Trial | None" = None) -> None:
        super().__init__(message)
        self.example = example  # one that failed in the most common way, with its whole reason


class CacheUnwritable(AutotuneError):
    """The result could not be written to the cache directory."""
