"""The command line: one command a kernel family, made from KERNELS, and the look-up, export and cache."""

import io
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from autotune.errors import AutotuneError, TuningFailed
from autotune.kernels import KERNELS
from autotune.kernels.base import Family, Option
from autotune.model import Problem

INTERRUPTED = 130

Command = Callable[..., None]


class _Folder(click.Path):
    """A folder, with `~` for the home folder. Nothing at all is no folder, though Path makes one of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from autotune import paths

        if not value:
            self.fail("it is empty", param, ctx)
        option = param.opts[0] if param is not None else "the folder"
        return super().convert(paths.expanded(value, option), param, ctx)


def _not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty")
    return value


_cache_dir = click.option(
    "--cache-dir",
    type=_Folder(file_okay=False, path_type=Path),
    help="Where results are kept (default: $AUTOTUNE_CACHE_DIR, else the user's cache folder).",
)
_json = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
_device = click.option(
    "--device",
    callback=_not_empty,
    help="Device id, vendor, or vendor/architecture to answer for (default: the one last opened here).",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wgsl-autotune", prog_name="autotune")
def cli() -> None:
    """Generate WGSL kernels and tune them on the GPU at hand."""


def _problem_options(family: Family) -> Callable[[Command], Command]:
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


def _problem(family: Family, values: dict[str, Any]) -> Problem:
    return family.problem_from_options({option.name: values.pop(option.name) for option in family.options})


def _register(group: click.Group, command: click.Command) -> None:
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


def _add_tune(family: Family) -> None:
    @click.command(
        family.name, help=f"Tune {family.name} for a problem on an adapter, or answer from the cache."
    )
    @_problem_options(family)
    @click.option("--trials", type=click.IntRange(min=1), help="Configs to measure at most.")
    @click.option(
        "--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds to search at most."
    )
    @click.option("--force", is_flag=True, help="Tune even if the cache has an answer, and retry what hung.")
    @click.option("--adapter", help="Index, id or part of the name of an adapter; see `autotune devices`.")
    @click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of search and data."
    )
    @_cache_dir
    def tune_command(
        trials: int | None,
        time_limit: float | None,
        force: bool,
        adapter: str | None,
        seed: int,
        cache_dir: Path | None,
        **values: Any,
    ) -> None:
        problem = _problem(family, values)
        from autotune.lookup import cached

        found = None if force else cached(problem, adapter=adapter, cache_dir=cache_dir)
        from autotune import console

        if found is not None:
            answer, profile = found
            console.answered(problem, profile, answer)
            console.note("answered from the cache, no device was opened; --force tunes again")
            return
        from autotune.tuner import tune

        with console.ProgressLine(problem) as progress:
            result = tune(
                problem,
                trials=trials,
                time_limit=time_limit,
                seed=seed,
                adapter=adapter,
                cache_dir=cache_dir,
                retry=force,
                observe=progress,
            )
        console.tuned(result)
        if result.ended == "interrupted":
            console.note("interrupted: the best so far was kept; the same command goes on from here")
            sys.exit(INTERRUPTED)
        if result.ended == "device lost":
            console.note("the device was lost: the best so far was kept; the same command goes on from here")
            sys.exit(1)

    _register(cli, tune_command)


@cli.group()
def best() -> None:
    """Look the best known config of a problem up, without opening a device."""


def _add_best(family: Family) -> None:
    @click.command(
        family.name, help=f"The best known config for a {family.name} problem, and where it comes from."
    )
    @_problem_options(family)
    @_device
    @_cache_dir
    @_json
    def best_command(device: str | None, cache_dir: Path | None, as_json: bool, **values: Any) -> None:
        problem = _problem(family, values)
        from autotune.lookup import asked_device, best_config

        answer = best_config(problem, device=device, cache_dir=cache_dir)
        from autotune import console

        if as_json:
            console.data(answer)
        else:
            console.answered(problem, asked_device(problem, device=device, cache_dir=cache_dir), answer)

    _register(best, best_command)


@cli.group()
def export() -> None:
    """Write tuned kernels as WGSL files with a manifest, for any WebGPU host."""


def _add_export(family: Family) -> None:
    @click.command(family.name, help=f"Write the best known {family.name} kernel of a problem as WGSL.")
    @_problem_options(family)
    @click.option(
        "--out",
        required=True,
        type=_Folder(file_okay=False, path_type=Path),
        help="Directory to write to.",
    )
    @click.option("--specialize", is_flag=True, help="Bake the sizes in, for the last few percent of speed.")
    @_device
    @_cache_dir
    def export_command(
        out: Path, specialize: bool, device: str | None, cache_dir: Path | None, **values: Any
    ) -> None:
        problem = _problem(family, values)
        from autotune import console
        from autotune.export import export as write
        from autotune.lookup import asked_device, best_config

        answer = best_config(problem, device=device, cache_dir=cache_dir)
        for path in write(family, problem, answer, out, specialize=specialize):
            console.say(str(path))
        console.answered(problem, asked_device(problem, device=device, cache_dir=cache_dir), answer)

    _register(export, export_command)


@cli.command()
@_json
def devices(as_json: bool) -> None:
    """List the adapters, what they allow, and which kernels each can run."""
    from autotune import console, space
    from autotune.runtime.process import choose, list_adapters

    profiles = list_adapters()
    choose(profiles, None)  # says what to install where there are none
    if as_json:
        console.data(profiles)
        return
    console.devices(
        [
            (
                profile,
                {
                    f"{family.name} {kind}": verdict
                    for family in KERNELS.values()
                    for kind, verdict in space.runnable(family, profile).items()
                },
            )
            for profile in profiles
        ]
    )


@cli.group()
def cache() -> None:
    """The results kept on this machine."""


@cache.command("path")
@_cache_dir
def cache_path(cache_dir: Path | None) -> None:
    """Print where the results are kept."""
    from autotune import console, paths

    console.say(str(paths.user_cache_dir(cache_dir)))


@cache.command("list")
@click.option("--shipped", is_flag=True, help="List the shipped database instead.")
@click.option("--config", "configs", is_flag=True, help="Show each config too.")
@_cache_dir
@_json
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


def _add_show(family: Family) -> None:
    @click.command(
        family.name,
        help=f"Show what is stored for a {family.name} problem on the device last opened, as JSON.",
    )
    @_problem_options(family)
    @_cache_dir
    def show_command(cache_dir: Path | None, **values: Any) -> None:
        problem = _problem(family, values)
        from autotune import console
        from autotune.lookup import best_config

        answer = best_config(problem, cache_dir=cache_dir)
        if answer.entry is None or answer.entry.problem != problem:
            raise AutotuneError(
                f"no entry for {family.name} {family.label(problem)}; `autotune {family.name}` makes one"
            )
        console.data(answer.entry)

    _register(cache_show, show_command)


@cache.command("verify")
@_cache_dir
def cache_verify(cache_dir: Path | None) -> None:
    """Check every stored entry; exit code 1 where one cannot be used."""
    from autotune import cache as store
    from autotune import console, paths

    checked = store.verify_all(paths.user_cache_dir(cache_dir))
    bad = [(path, problem) for path, problem in checked if problem is not None]
    for path, problem in bad:
        console.say(f"{path}: {problem}")
    console.say(f"{len(checked) - len(bad)} of {len(checked)} entries are good")
    if bad:
        sys.exit(1)


@cache.command("clear")
@click.option("--kernel", type=click.Choice(list(KERNELS)), help="Only this kernel family.")
@click.option("--device", callback=_not_empty, help="Only this device id; see `autotune devices`.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_cache_dir
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


for _family in KERNELS.values():
    _add_tune(_family)
    _add_best(_family)
    _add_export(_family)
    _add_show(_family)


def main() -> None:
    """Entry point: errors are one line, and the exit code says what happened."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # not every terminal knows × or µ
    try:
        code = _run()
    except OSError:  # standard error is full or gone as well
        code = 1
    sys.exit(code or 0)


def _run() -> int:
    """Run the command, say what went wrong, and return the exit code."""
    code: int | None
    try:
        if sys.stdout is None:
            raise AutotuneError("standard output is closed")
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        from autotune import console

        console.error("interrupted; nothing was lost, the same command goes on from here")
        code = INTERRUPTED
    except TuningFailed as error:
        from autotune import console

        console.failed(error)
        code = 1
    except AutotuneError as error:
        from autotune import console

        console.error(" ".join(str(error).split()))
        code = 1
    except BrokenPipeError:
        _leave_output()
        code = 1
    except OSError as error:
        if os.environ.get("AUTOTUNE_DEBUG"):
            raise
        from autotune import console

        _leave_output()
        where = f" ({error.filename})" if error.filename else ""
        console.error(f"the system refuses: {error.strerror or error}{where}")
        code = 1
    except Exception as error:
        if os.environ.get("AUTOTUNE_DEBUG"):
            raise
        from autotune import console

        console.error(
            f"internal: {type(error).__name__}: {error}; AUTOTUNE_DEBUG=1 shows where. Please report it."
        )
        code = 70
    return code or 0


def _leave_output() -> None:
    """What cannot be written is not tried again at the exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
