"""The `cache` commands that move results between machines, and `suite`, which makes many of them."""

import sys
from pathlib import Path
from typing import Any

import click

from autotune.cli_cache import cache
from autotune.cli_options import (
    INTERRUPTED,
    Folder,
    adapter_option,
    cache_dir_option,
    not_empty,
    runtime_option,
    seed_option,
    time_limit_option,
    trials_option,
)
from autotune.cli_search import effort_options, taken_options
from autotune.errors import AutotuneError
from autotune.kernels import KERNELS

File = click.Path(dir_okay=False, path_type=Path)


@cache.command("export")
@click.argument("file", type=File)
@click.option("--kernel", type=click.Choice(list(KERNELS)), help="Only this kernel family.")
@click.option("--device", callback=not_empty, help="Only this device id or vendor.")
@cache_dir_option
def cache_export(file: Path, kernel: str | None, device: str | None, cache_dir: Path | None) -> None:
    """Pack the results into one file, for `cache import` on another machine."""
    from autotune import console, paths, transfer

    notes: list[str] = []
    root = paths.user_cache_dir(cache_dir)
    count = transfer.pack(root, file.absolute(), notes, kernel=kernel, device=device)
    console.say(f"{count} results in {file}")
    for note in notes:
        console.note(note)


@cache.command("import")
@click.argument("file", type=File)
@cache_dir_option
def cache_import(file: Path, cache_dir: Path | None) -> None:
    """Take results from a file of `cache export`; better ones that are here stay."""
    from autotune import paths, transfer

    _tell(transfer.unpack(file, paths.user_cache_dir(cache_dir)))


@cache.command("merge")
@click.argument("folder", type=Folder(file_okay=False, path_type=Path))
@cache_dir_option
def cache_merge(folder: Path, cache_dir: Path | None) -> None:
    """Take results from another cache folder; better ones that are here stay."""
    from autotune import paths, transfer

    _tell(transfer.merge(folder, paths.user_cache_dir(cache_dir)))


@cache.command("portable")
@click.argument("files", nargs=-1, required=True, type=File)
@click.option("--most", type=click.IntRange(min=1), default=5, show_default=True, help="Configs to show.")
def cache_portable(files: tuple[Path, ...], most: int) -> None:
    """The config with the best worst case over recordings of several devices, as a [[start]] table.

    Only configs count that run within WebGPU's base limits and that every recording has. Put the table into
    the kernel's file in search_spaces/, and every search begins with it.
    """
    from autotune import console, portable

    found = portable.compare(files)
    for place, header in enumerate(found.headers, start=1):
        problem = found.family.problem_type(**header.problem)
        console.say(f"{place}: {found.family.label(problem)} on {header.device.name} ({header.device.id})")
    console.say(
        f"{len(found.ranked)} configs were measured on all and run within WebGPU's base limits; share of the "
        "best speed on each:"
    )
    for one in found.ranked[:most]:
        shares = " ".join(f"{share:.3f}" for share in one.shares)
        console.say(f"  worst {one.worst:.3f} ({shares})  {console.describe(one.config)}")
    console.say(portable.start_table(found.ranked[0].config))


def _tell(taken: Any) -> None:
    from autotune import console

    console.say(f"{taken.stored} results taken, {taken.kept} kept as they were")
    for line in taken.refused:
        console.note(f"refused: {line}")
    if taken.refused and not taken.stored and not taken.kept:
        sys.exit(1)


@click.command()
@click.argument("file", type=File)
@trials_option
@time_limit_option
@click.option("--force", is_flag=True, help="Tune also what the cache has an answer for.")
@adapter_option
@runtime_option
@seed_option
@click.option("--out", type=File, help="Write the report as JSON too.")
@effort_options("quick")
@cache_dir_option
def suite(
    file: Path,
    trials: int | None,
    time_limit: float | None,
    force: bool,
    adapter: str | None,
    runtime: str,
    seed: int,
    out: Path | None,
    cache_dir: Path | None,
    **values: Any,
) -> None:
    """Tune the problems of a TOML file: [[problem]] tables, each a kernel and its options.

    They are ordered so that each winner seeds the next search. What has an answer is not tuned again, so the
    same command goes on after an interruption.
    """
    options = taken_options(values)
    from autotune import suite as suites

    problems = suites.ordered(suites.read(file))
    from autotune import console, console_reports
    from autotune.results import EARLY
    from autotune.runtime.process import WorkerRuntime

    outcomes: list[suites.Outcome] = []
    interrupted = False
    failure: AutotuneError | None = None
    if out is not None:
        console_reports.check_target(out)
    device = WorkerRuntime(adapter, runtime=runtime)
    try:
        with console_reports.SuiteProgress(len(problems)) as progress:
            for outcome in suites.run(
                problems,
                device,
                options=options,
                cache_dir=cache_dir,
                adapter=adapter,
                trials=trials,
                time_limit=time_limit,
                seed=seed,
                force=force,
                observer=progress.of,
            ):
                outcomes.append(outcome)
    except KeyboardInterrupt:  # between two problems, or before the first candidate of one
        interrupted = True
    except AutotuneError as error:
        failure = error
    finally:
        device.close()
    if outcomes:
        console_reports.suite(outcomes, device.profile)
    if out is not None:
        console_reports.written(out, outcomes)
    if failure is not None:
        raise failure
    ended = {outcome.result.ended for outcome in outcomes if outcome.result is not None}
    if interrupted or "interrupted" in ended:
        console.note("interrupted: what is done is kept; the same command goes on from here")
        sys.exit(INTERRUPTED)
    if ended & set(EARLY) or any(outcome.error for outcome in outcomes):
        sys.exit(1)
