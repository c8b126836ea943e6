"""The command line: one command a kernel family, made from KERNELS, and the look-up, export and cache."""

import io
import os
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click

from autotune.cli_cache import add_show, cache
from autotune.cli_options import (
    INTERRUPTED,
    Folder,
    adapter_option,
    cache_dir_option,
    device_option,
    json_option,
    problem_of,
    problem_options,
    register,
    runtime_option,
    seed_option,
    seen_through_option,
    time_limit_option,
    trials_option,
)
from autotune.cli_replay import replay
from autotune.cli_search import search_options, taken_options
from autotune.cli_transfer import suite
from autotune.errors import AutotuneError, RuntimeMissing, TuningFailed, WorkerError
from autotune.kernels import KERNELS
from autotune.kernels.base import Family
from autotune.levels import Answer
from autotune.model import DeviceProfile
from autotune.results import EARLY
from autotune.runtime import DEFAULT_RUNTIME, RUNTIMES

_AGAIN = "the same command goes on from here"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wgsl-autotune", prog_name="autotune")
def cli() -> None:
    """Generate WGSL kernels and tune them on the GPU at hand."""


def _add_tune(family: Family) -> None:
    @click.command(
        family.name, help=f"Tune {family.name} for a problem on an adapter, or answer from the cache."
    )
    @problem_options(family)
    @trials_option
    @time_limit_option
    @click.option("--force", is_flag=True, help="Tune even if the cache has an answer, and retry what hung.")
    @adapter_option
    @runtime_option
    @seed_option
    @search_options
    @cache_dir_option
    def tune_command(
        trials: int | None,
        time_limit: float | None,
        force: bool,
        adapter: str | None,
        runtime: str,
        seed: int,
        cache_dir: Path | None,
        **values: Any,
    ) -> None:
        options = taken_options(values)
        problem = problem_of(family, values)
        from autotune import console, space
        from autotune.lookup import cached, cached_on

        if options.only:
            space.restricted(space.load_axes(family), options.only)  # raises, where there is no such value
        asks_cache = not force and options.record is None

        def answered(found: Answer | None, profile: DeviceProfile, how: str) -> bool:
            if found is None or not space.within(found.config, options.only):
                return False
            console.answered(problem, profile, found)
            console.note(f"answered from the cache{how}; --force tunes again")
            return True

        found = cached(problem, adapter=adapter, cache_dir=cache_dir, runtime=runtime) if asks_cache else None
        if found is not None and answered(*found, ", no device was opened"):
            return
        from autotune.runtime.process import WorkerRuntime
        from autotune.tuner import tune

        with (
            console.ProgressLine(problem) as progress,
            closing(WorkerRuntime(adapter, runtime=runtime)) as device,
        ):
            known = cached_on(device.profile, problem, cache_dir=cache_dir) if asks_cache else None
            if answered(known, device.profile, ""):  # the device was selected otherwise before
                return
            result = tune(
                problem,
                trials=trials,
                time_limit=time_limit,
                seed=seed,
                adapter=adapter,
                cache_dir=cache_dir,
                retry=force,
                runtime=device,
                observe=progress,
                options=options,
            )
        console.tuned(result)
        if result.ended == "interrupted":
            console.note(f"interrupted: the best so far was kept; {_AGAIN}")
            sys.exit(INTERRUPTED)
        if result.ended in EARLY:
            console.note(f"{console.ENDED[result.ended]}: the best so far was kept; {_AGAIN}")
            sys.exit(1)

    register(cli, tune_command)


@cli.group()
def best() -> None:
    """Look the best known config of a problem up, without opening a device."""


def _add_best(family: Family) -> None:
    @click.command(
        family.name, help=f"The best known config for a problem of {family.name}, and where it comes from."
    )
    @problem_options(family)
    @device_option
    @seen_through_option
    @cache_dir_option
    @json_option
    def best_command(
        device: str | None, runtime: str | None, cache_dir: Path | None, as_json: bool, **values: Any
    ) -> None:
        problem = problem_of(family, values)
        from autotune.lookup import asked_device, best_config

        answer = best_config(problem, device=device, cache_dir=cache_dir, runtime=runtime)
        from autotune import console

        if as_json:
            console.data(answer)
        else:
            asked = asked_device(problem, device=device, cache_dir=cache_dir, runtime=runtime)
            console.answered(problem, asked, answer)

    register(best, best_command)


@cli.group()
def export() -> None:
    """Write tuned kernels as WGSL files with a manifest, for any WebGPU host."""


def _add_export(family: Family) -> None:
    @click.command(family.name, help=f"Write the best known {family.name} kernel of a problem as WGSL.")
    @problem_options(family)
    @click.option(
        "--out",
        required=True,
        type=Folder(file_okay=False, path_type=Path),
        help="Directory to write to.",
    )
    @click.option("--specialize", is_flag=True, help="Bake the sizes in: right for these alone.")
    @click.option(
        "--portable", is_flag=True, help="The untuned default, which runs within WebGPU's base limits."
    )
    @click.option(
        "--cooperative-matrix",
        "matrix",
        type=click.Choice(("8x8", "16x16")),
        help="Experimental, gemm alone: for EXPERIMENTAL_COOPERATIVE_MATRIX of wgpu, with matrices of this "
        "size. Untuned, and never run by us.",
    )
    @device_option
    @seen_through_option
    @cache_dir_option
    def export_command(
        out: Path,
        specialize: bool,
        portable: bool,
        matrix: str | None,
        device: str | None,
        runtime: str | None,
        cache_dir: Path | None,
        **values: Any,
    ) -> None:
        problem = problem_of(family, values)
        if portable and (device, runtime) != (None, None):
            raise click.UsageError("--portable is for any device; leave --device and --runtime out")
        if matrix is not None and (portable, device, runtime) != (False, None, None):
            raise click.UsageError(
                "--cooperative-matrix is untuned; leave --portable, --device and --runtime out"
            )
        from autotune import console
        from autotune.export import export as write
        from autotune.levels import default_answer
        from autotune.limits import base_profile
        from autotune.lookup import asked_device, best_config

        asked: DeviceProfile | None
        if matrix is not None:
            answer, asked = Answer(config=family.cooperative(problem, matrix), level="default"), None
        elif portable:
            answer, asked = default_answer(family, problem, base_profile()), base_profile()
        else:
            answer = best_config(problem, device=device, cache_dir=cache_dir, runtime=runtime)
            asked = asked_device(problem, device=device, cache_dir=cache_dir, runtime=runtime)
        for path in write(family, problem, answer, out, specialize=specialize):
            console.say(str(path))
        if asked is not None:
            console.answered(problem, asked, answer)
        else:
            console.note("experimental: validated by naga's rules, never run or tuned; see docs/manifest.md")

    register(export, export_command)


@cli.command()
@click.option("--runtime", type=click.Choice(list(RUNTIMES)), help="Only as this runtime sees them.")
@json_option
def devices(runtime: str | None, as_json: bool) -> None:
    """List the adapters as each runtime sees them: what they allow, and which kernels each can run."""
    from autotune import console, space
    from autotune.runtime.process import choose, list_adapters

    found: dict[str, tuple[DeviceProfile, ...]] = {}
    for name in [runtime] if runtime else RUNTIMES:
        try:
            found[name] = list_adapters(name)
        except (RuntimeMissing, WorkerError) as error:
            if runtime or name == DEFAULT_RUNTIME:
                raise
            missing = isinstance(error, RuntimeMissing)  # says which itself
            console.note(str(error) if missing else f"{name}: {' '.join(str(error).split())}")
    choose(
        sum(found.values(), ()), None, runtime or DEFAULT_RUNTIME
    )  # says what to install where there are none
    if as_json:
        console.data(sum(found.values(), ()))
        return
    for name, profiles in found.items():
        console.devices(
            name,
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
            ],
        )


cli.add_command(cache)
cli.add_command(replay)
cli.add_command(suite)
for _family in KERNELS.values():
    _add_tune(_family)
    _add_best(_family)
    _add_export(_family)
    add_show(_family)


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
