"""What the commands share: options, and how a family's options and commands come to be."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from autotune.errors import AutotuneError
from autotune.kernels.base import Family, Option
from autotune.model import Problem
from autotune.runtime import DEFAULT_RUNTIME, RUNTIMES

Command = Callable[..., None]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells give it: 128 and the number of the signal."""


class Folder(click.Path):
    """A folder, with `~` for the home folder. Nothing at all is no folder, though Path makes one of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The folder as a path."""
        from autotune import paths

        if not value:
            self.fail("it is empty", param, ctx)
        option = param.opts[0] if param is not None else "the folder"
        return super().convert(paths.expanded(value, option), param, ctx)


def not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A click callback: refuse an option given without anything."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty")
    return value


def _number(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    """A click callback: refuse what is not a number; no range of click's does."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("it is not a number")
    return value


def _cache_dir(_ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path | None:
    """A click callback: refuse a cache where none can be, also where the environment names it."""
    from autotune import paths

    paths.check_named(value)
    return value


trials_option = click.option(
    "--trials", type=click.IntRange(min=1), help="Configs to measure at most, for each problem."
)
time_limit_option = click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    callback=_number,
    help="Seconds to search at most, for each problem.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of search and data."
)
adapter_option = click.option(
    "--adapter", help="Index, id or part of the name of an adapter; see `autotune devices`."
)
cache_dir_option = click.option(
    "--cache-dir",
    type=Folder(file_okay=False, path_type=Path),
    callback=_cache_dir,
    help="Where results are kept (default: $AUTOTUNE_CACHE_DIR, else the user's cache folder).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
device_option = click.option(
    "--device",
    callback=not_empty,
    help="Device id, vendor, or vendor/architecture to answer for (default: the one last opened here).",
)
runtime_option = click.option(
    "--runtime",
    type=click.Choice(list(RUNTIMES)),
    default=DEFAULT_RUNTIME,
    show_default=True,
    help="What compiles and runs the kernels: wgpu-native, or Dawn, as Chrome does.",
)
seen_through_option = click.option(
    "--runtime",
    type=click.Choice(list(RUNTIMES)),
    help="The runtime that sees the device (default: wgpu for the one last opened, else either).",
)


def problem_options(family: Family) -> Callable[[Command], Command]:
    """A decorator that gives a command the options of a family's problems."""

    def decorate(command: Command) -> Command:
        for option in reversed(family.options):
            command = click.option(f"--{option.name.replace('_', '-')}", **_option_type(option))(command)
        return command

    return decorate


def _option_type(option: Option) -> dict[str, Any]:
    common: dict[str, Any] = {
        "help": option.help,
        "default": option.default,
        "show_default": option.default is not None,
    }
    if option.kind is bool:
        return common | {"is_flag": True}
    return common | {"type": click.Choice(option.kind) if isinstance(option.kind, tuple) else option.kind}


def problem_of(family: Family, values: dict[str, Any]) -> Problem:
    """The problem that a family's options describe; they are taken out of `values`."""
    return family.problem_from_options({option.name: values.pop(option.name) for option in family.options})


def register(group: click.Group, command: click.Command) -> None:
    """Add a family's command. Raises AutotuneError where a name is taken: click would hide one of the two."""
    if command.name in group.commands:
        raise AutotuneError(f"the kernel family {command.name!r} has the name of another command")
    names = Counter(name for parameter in command.params for name in _names(parameter))
    twice = [name for name, count in names.items() if count > 1 or name == "help"]
    if twice:
        raise AutotuneError(
            f"the option {twice[0]!r} of {command.name!r} has the name of one that all kernels have"
        )
    group.add_command(command)


def _names(parameter: click.Parameter) -> set[str]:
    """The names of an option on the command line and in its function."""
    return {parameter.name or "", *(option.lstrip("-").replace("-", "_") for option in parameter.opts)}
