"""One search over several processes and machines: an Optuna study in a database or behind its gRPC proxy.

A claim is a trial that is created running, with its parameters, in the one transaction that numbers it. So
whoever was first to claim a point, or a place in the budget, has the lower number, and everybody sees so: a
claim that finds a lower number with its point, or enough lower numbers, withdraws. Nothing is measured twice,
whatever the race.

Whoever works on a trial sends heartbeats for it; a trial without any for a while fails, its point with it.
"""

import random
import threading
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import optuna
from msgspec import Struct
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from autotune.errors import AutotuneError, StorageLost
from autotune.search.distributions import Distributions

warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

HEARTBEAT = 10
"""Seconds between two heartbeats; three of them missed and a worker counts as dead."""
_ATTEMPTS = 5
_ANSWER_SECONDS = 10
"""Of a storage proxy, to its first question."""
_OUTCOME = "outcome"
_WITHDRAWN = "withdrawn"
_OVER = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)


class Ended(Struct, frozen=True):
    """How a trial of another worker ended."""

    params: Mapping[str, Any]
    seconds: float | None
    outcome: str | None
    """As that worker told it; None where it died."""


class SharedStudy:
    """A study that several workers ask and tell."""

    def __init__(self, url: str, name: str, *, heartbeat: int = HEARTBEAT) -> None:
        """Join the study of this name, or begin it. Raises AutotuneError with one line where that fails."""
        self.url, self.name = hidden(url), name
        _check(url)
        self._heartbeat = heartbeat
        try:
            self._join(url)
        except ImportError as error:
            raise AutotuneError(
                f"the storage {self.url} needs more: pip install 'wgsl-autotune[distributed]' ({error})"
            ) from error
        except Exception as error:
            raise AutotuneError(f"cannot use the storage {self.url}: {_line(error)}") from error
        self._mine: dict[int, int] = {}  # the trial's id by its number, while it runs
        self._seen: set[int] = set()
        self._swept = 0.0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._beat, daemon=True).start()

    def _join(self, url: str) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._storage = _storage(url, self._heartbeat)
                self._study = optuna.create_study(
                    storage=self._storage, study_name=self.name, load_if_exists=True
                )
                break
            except (AutotuneError, ImportError, TimeoutError):
                raise
            except Exception:  # two workers that make the tables of an empty database get in each other's way
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(random.uniform(0.2, 0.6))
        self._id = self._storage.get_study_id_from_name(self.name)
        names = [study.study_name for study in self._storage.get_all_studies()]
        alike = self.name.rpartition("#")[0]
        self.others = tuple(n for n in names if n != self.name and n.rpartition("#")[0] == alike)

    def claim(self, params: dict[str, Any], distributions: Distributions, budget: int) -> int | None:
        """Number of a new running trial with these parameters; None where another worker was first, or where
        `budget` trials run or have a time already."""
        template = optuna.trial.create_trial(
            state=TrialState.RUNNING, params=params, distributions=distributions
        )
        with self._guard():
            trial_id = self._storage.create_new_trial(self._id, template_trial=template)
            number = self._storage.get_trial_number_from_id(trial_id)
            with self._lock:
                self._mine[number] = trial_id
            self._send(trial_id)
            before = [t for t in self._trials() if t.number < number and _WITHDRAWN not in t.user_attrs]
            places = sum(t.state in (TrialState.RUNNING, TrialState.COMPLETE) for t in before)
            if places >= budget or any(trial.params == params for trial in before):
                self._storage.set_trial_user_attr(trial_id, _WITHDRAWN, True)
                self._finish(number, TrialState.FAIL, None)
                self._seen.add(number)
                return None
            return number

    def settle(self, number: int, seconds: float | None, outcome: str) -> bool:
        """Tell how a claimed trial ended; False where it had been given up for dead."""
        with self._guard():
            self._seen.add(number)
            self._storage.set_trial_user_attr(self._mine[number], _OUTCOME, outcome)
            state = TrialState.FAIL if seconds is None else TrialState.COMPLETE
            return self._finish(number, state, seconds)

    def news(self) -> tuple[list[Ended], list[Mapping[str, Any]]]:
        """Trials of other workers: those that ended since the last call, and parameters of those that run."""
        with self._guard():
            if time.monotonic() - self._swept > self._heartbeat:
                self._swept = time.monotonic()
                with suppress(optuna.exceptions.UpdateFinishedTrialError):
                    optuna.storages.fail_stale_trials(self._study)
            ended: list[Ended] = []
            running: list[Mapping[str, Any]] = []
            for trial in self._trials():
                if trial.number in self._seen or trial.number in self._mine:
                    continue
                if trial.state in _OVER:
                    self._seen.add(trial.number)
                if _WITHDRAWN in trial.user_attrs:
                    continue
                if trial.state in _OVER:
                    value = trial.value if trial.state == TrialState.COMPLETE else None
                    ended.append(Ended(trial.params, value, trial.user_attrs.get(_OUTCOME)))
                else:
                    running.append(trial.params)
            return ended, running

    def close(self) -> None:
        """Send no more heartbeats. Trials of ours that still run are withdrawn: they were interrupted."""
        self._stop.set()
        with suppress(StorageLost), self._guard():
            for number, trial_id in list(self._mine.items()):
                self._storage.set_trial_user_attr(trial_id, _WITHDRAWN, True)
                self._finish(number, TrialState.FAIL, None)

    def _trials(self) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._id, deepcopy=False)

    def _finish(self, number: int, state: TrialState, seconds: float | None) -> bool:
        with self._lock:
            trial_id = self._mine.pop(number)
        values = None if seconds is None else [seconds]
        try:
            return self._storage.set_trial_state_values(trial_id, state, values)
        except (optuna.exceptions.UpdateFinishedTrialError, RuntimeError):
            return False

    def _beat(self) -> None:
        while not self._stop.wait(self._heartbeat / 3):
            with self._lock:
                running = list(self._mine.values())
            for trial_id in running:
                with suppress(Exception):  # the next claim says what is wrong with the storage
                    self._send(trial_id)

    def _send(self, trial_id: int) -> None:
        if isinstance(self._storage, optuna.storages.RDBStorage):
            self._storage.record_heartbeat(trial_id)

    def _guard(self) -> "_Guard":
        return _Guard(self.url)


class _Guard:
    """Turns whatever a storage raises into one line."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, AutotuneError):
            raise StorageLost(f"the storage {self._url} failed: {_line(error)}") from error


def _storage(url: str, heartbeat: int) -> BaseStorage:
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise AutotuneError("it is no URL, such as postgresql://user@host/database or grpc://host:13000")
    if scheme == "grpc":
        host, _, port = rest.rstrip("/").rpartition(":") if ":" in rest else (rest.rstrip("/"), "", "")
        if not host or not (port or "0").isdecimal():
            raise AutotuneError("it is not grpc://host:port, such as grpc://host:13000")
        proxy = optuna.storages.GrpcStorageProxy(host=host, port=int(port or 13000))
        try:
            proxy.wait_server_ready(timeout=_ANSWER_SECONDS)
        except ConnectionError:
            proxy.close()
            raise TimeoutError(f"nothing answers there within {_ANSWER_SECONDS} s") from None
        return proxy
    driver = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}
    return optuna.storages.RDBStorage(
        f"{driver.get(scheme, scheme)}://{rest}",
        engine_kwargs={"pool_pre_ping": True},
        heartbeat_interval=heartbeat,
        grace_period=3 * heartbeat,
    )


def hidden(url: str) -> str:
    """The URL without its password, and without values of its query, which may hold one."""
    scheme, separator, rest = url.partition("://")
    account, at, place = rest.rpartition("@")
    place, mark, query = place.partition("?")
    names = "&".join(f"{part.partition('=')[0]}=…" for part in query.split("&")) if mark else ""
    return f"{scheme}{separator}{account.partition(':')[0]}{at}{place}{mark}{names}"


def _check(url: str) -> None:
    """Raise AutotuneError for what drivers would read otherwise than meant, and then tell to everybody."""
    if "@" in url.partition("://")[2].partition("?")[0].rpartition("@")[0]:
        raise AutotuneError(f"cannot use the storage {hidden(url)}: write an @ of the password as %40")


def _line(error: BaseException) -> str:
    """The innermost reason, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split("\n")[0].split())
