"""Options of a tuning run that say how it searches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from autotune.cli_options import Command, not_empty
from autotune.results import Options

SAMPLER_NAMES = ("default", "random", "exhaustive", "local", "tpe", "cmaes")
"""The keys of `search.SAMPLERS`, which are costly to import."""


EFFORT_NAMES = ("quick", "normal", "thorough")
"""The keys of `efforts.EFFORTS`."""


MOST_WORKERS = 64
"""Adapters; each takes a process."""


class Workers(click.ParamType):  # type: ignore[type-arg]
    """A number of adapters, or `all`."""

    name = "all|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """0 stands for all."""
        if value == "all":
            return 0
        try:
            count = int(value)
        except ValueError:
            count = 0
        if count < 1:
            self.fail(f"{value!r} is neither 'all' nor a number above 0", param, ctx)
        if count > MOST_WORKERS:
            self.fail(f"{count} adapters are more than the {MOST_WORKERS} that are used at once", param, ctx)
        return count


class Restriction(click.ParamType):  # type: ignore[type-arg]
    """NAME=VALUE[,VALUE…]"""

    name = "NAME=VALUE,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        """The name and the values as texts."""
        if isinstance(value, tuple):
            return value
        name, sign, values = str(value).partition("=")
        texts = tuple(text.strip() for text in values.split(",") if text.strip())
        if not sign or not name.strip() or not texts:
            self.fail(f"{value!r} is not NAME=VALUE or NAME=VALUE,VALUE", param, ctx)
        return name.strip(), texts


def _storage_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    value = not_empty(ctx, param, value)
    if value is not None and "://" not in value:  # not printed, as it may hold a password
        raise click.BadParameter("it is no URL, such as postgresql://user@host/database or grpc://host:13000")
    return value


_HOW = (
    click.option(
        "--sampler",
        type=click.Choice(SAMPLER_NAMES),
        default="default",
        show_default=True,
        help="How the next config is chosen.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1, max=64),
        help="Candidates in work at once on an adapter: one runs, the others compile (default: up to 4 on a "
        "GPU, as cores and the size of the data allow; 1 on a software adapter). With 1, what is tried next "
        "depends on the seed and on results; with more, on the order in which these come too.",
    ),
    click.option("--workers", type=Workers(), default="1", help="Adapters of one model here to use at once."),
    click.option(
        "--storage",
        callback=_storage_url,
        metavar="URL",
        help="Share the search with all workers that name this database: postgresql://…, mysql://… or "
        "grpc://host:port (Optuna's storage proxy).",
    ),
)


def effort_options(effort: str) -> Callable[[Command], Command]:
    """A decorator that gives a command the options of any search, with this effort by default."""
    efforts = click.option(
        "--effort",
        type=click.Choice(EFFORT_NAMES),
        default=effort,
        show_default=True,
        help="How long to search where neither --trials nor --time-limit says: on a GPU up to 15 s, 32 s or "
        "10 min, on a software adapter 40 s, 90 s or 15 min.",
    )

    def decorate(command: Command) -> Command:
        for option in reversed((efforts, *_HOW)):
            command = option(command)
        return command

    return decorate


def search_options(command: Command) -> Command:
    """A decorator that gives a command the options of the search of one problem."""
    only = click.option(
        "--only",
        type=Restriction(),
        callback=_each_once,
        multiple=True,
        help="Search only these values of a parameter, as in --only variant=blocked; variants that lack the "
        "parameter stay, unless --only variant=… is given too.",
    )
    record = click.option(
        "--record",
        callback=_record_path,
        metavar="FILE",
        help="Keep every trial in a file for `autotune replay`; goes on with what it holds.",
    )
    return effort_options("normal")(only(record(command)))


def taken_options(values: dict[str, Any]) -> Options:
    """The search options among a command's values; they are taken out of `values`."""
    return Options(
        effort=values.pop("effort"),
        sampler=values.pop("sampler"),
        jobs=values.pop("jobs"),
        workers=values.pop("workers"),
        only=dict(values.pop("only", ())),
        record=values.pop("record", None),
        storage=values.pop("storage"),
    )


def _each_once(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
    names = [name for name, _ in value]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice} is given twice; several values are {twice}=VALUE,VALUE")
    return value


def _record_path(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    from autotune import paths

    value = not_empty(ctx, param, value)
    if value is None:
        return None
    path = Path(paths.expanded(value, "--record"))
    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder")
    return path
