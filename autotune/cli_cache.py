"""The `cache` commands: the results kept on this machine."""

import sys
from pathlib import Path
from typing import Any

import click

from autotune.cli_options import (
    cache_dir_option,
    json_option,
    not_empty,
    problem_of,
    problem_options,
    register,
    seen_through_option,
)
from autotune.errors import AutotuneError
from autotune.kernels import KERNELS
from autotune.kernels.base import Family


@click.group()
def cache() -> None:
    """The results kept on this machine."""


@cache.command("path")
@cache_dir_option
def cache_path(cache_dir: Path | None) -> None:
    """Print where the results are kept."""
    from autotune import console, paths

    console.say(str(paths.user_cache_dir(cache_dir)))


@cache.command("list")
@click.option("--shipped", is_flag=True, help="List the shipped database instead.")
@click.option("--config", "configs", is_flag=True, help="Show each config too.")
@cache_dir_option
@json_option
def cache_list(shipped: bool, configs: bool, cache_dir: Path | None, as_json: bool) -> None:
    """List the results."""
    from autotune import cache as store
    from autotune import console, paths

    warnings: list[str] = []
    root = paths.shipped_cache_dir() if shipped else paths.user_cache_dir(cache_dir)
    found = [entry for _, entry in store.list_entries(root, warnings)]
    if as_json:
        console.data(found)
    else:
        console.entries(
            [
                console.Row(
                    problem=f"{entry.kernel} {KERNELS[entry.kernel].label(entry.problem)}",
                    device=entry.device.name,
                    time=console.seconds(entry.measurement.seconds),
                    rate=console.rate(KERNELS[entry.kernel].flops(entry.problem), entry.measurement.seconds),
                    config=console.describe(entry.config),
                )
                for entry in found
            ],
            configs=configs,
        )
    for warning in warnings:
        console.note(warning)


@cache.group("show")
def cache_show() -> None:
    """Show the stored entry of a problem on the device last opened here, as JSON."""


def add_show(family: Family) -> None:
    """Add the family's `cache show` command."""

    @click.command(
        family.name,
        help=f"Show what is stored for a problem of {family.name} on the device last opened, as JSON.",
    )
    @problem_options(family)
    @seen_through_option
    @cache_dir_option
    def show_command(runtime: str | None, cache_dir: Path | None, **values: Any) -> None:
        problem = problem_of(family, values)
        from autotune import console
        from autotune.lookup import best_config

        answer = best_config(problem, cache_dir=cache_dir, runtime=runtime)
        if answer.entry is None or answer.entry.problem != problem:
            raise AutotuneError(
                f"no entry for {family.name} {family.label(problem)}; `autotune {family.name}` makes one"
                + "".join(f"; {note}" for note in answer.notes if note.startswith("ignored"))
            )
        console.data(answer.entry)

    register(cache_show, show_command)


@cache.command("verify")
@cache_dir_option
def cache_verify(cache_dir: Path | None) -> None:
    """Check every stored entry; exit code 1 where one cannot be used."""
    from autotune import cache as store
    from autotune import console, paths

    root = paths.user_cache_dir(cache_dir)
    if not root.exists():
        raise AutotuneError(f"there is no cache {root}; tuning makes one, --cache-dir names another")
    checked = store.verify_all(root)
    bad = [(path, problem) for path, problem in checked if problem is not None]
    for path, problem in bad:
        console.say(f"{path}: {problem}")
    console.say(f"{len(checked) - len(bad)} of {len(checked)} entries are good")
    if bad:
        sys.exit(1)


@cache.command("clear")
@click.option("--kernel", type=click.Choice(list(KERNELS)), help="Only this kernel family.")
@click.option("--device", callback=not_empty, help="Only this device id; see `autotune devices`.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@cache_dir_option
def cache_clear(kernel: str | None, device: str | None, yes: bool, cache_dir: Path | None) -> None:
    """Remove stored results and unfinished searches."""
    from autotune import cache as store
    from autotune import console, paths

    root = paths.user_cache_dir(cache_dir)
    of = "".join(f" of {what}" for what in (kernel, device) if what)
    try:
        sure = yes or click.confirm(f"Remove the results{of} in {root}?")
    except click.Abort as error:
        raise AutotuneError("nothing was removed; --yes answers the question") from error
    if not sure:
        console.say("nothing was removed")
        return
    removed = store.clear(root, kernel=kernel, device=device)
    console.say(f"removed {len(removed)} files")
    if not removed:
        console.note(f"there are no results{of} in {root}")
