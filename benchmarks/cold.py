"""Whether searches that know nothing of a device agree, and how near to a long search's winner they end.

    python benchmarks/cold.py --size 1024 --seed 0 --seed 1 --long "--trials 2000 --time-limit 250 --jobs 12"

Each search is the command `autotune gemm --size N` in a process of its own, with an empty cache and in a copy
of the package that ships nothing of this model of GPU. Told is how long each command took from its start to
its exit, and what its winner takes when all winners are timed in turns.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from autotune import cache, console, paths
from autotune.candidate import Bench
from autotune.entry import Entry
from autotune.errors import AutotuneError
from autotune.kernels.gemm import GEMM, GemmProblem
from autotune.model import DeviceProfile
from autotune.runtime.process import WorkerRuntime, choose, list_adapters

PARTS = ("autotune", "templates", "search_spaces", "cache")


class Found(Struct, frozen=True):
    """What a search came to."""

    command: str
    seconds: float
    """Of the whole command."""
    entry: Entry


def stranger(root: Path, profile: DeviceProfile) -> Path:
    """A copy of the package below `root` that knows nothing of this model of GPU."""
    source = paths.data_root()
    if source.name == "_data":
        raise click.ClickException("this needs a checkout: an installed package cannot be copied")
    for part in PARTS:
        shutil.copytree(source / part, root / part)
    for path, entry in cache.list_entries(root / "cache"):
        if (entry.device.vendor_id, entry.device.device_id) == (profile.vendor_id, profile.device_id):
            path.unlink()
    return root


def search(package: Path, size: int, options: list[str]) -> Found:
    """Run one search in that copy of the package."""
    with tempfile.TemporaryDirectory() as folder:
        asked = ["gemm", "--size", str(size), *options]
        environment = {name: value for name, value in os.environ.items() if name != paths.VARIABLE}
        told = f"autotune {shlex.join(asked)}"
        click.echo(f"running {told}", err=True)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "autotune", *asked, "--cache-dir", folder],
            cwd=package,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.perf_counter() - start
        if done.returncode:
            raise click.ClickException(f"{told} failed: {done.stderr.strip()}")
        click.echo(f"\n{told}: {took:.1f} s\n{done.stdout}")
        ((_, entry),) = cache.list_entries(Path(folder))
        return Found(told, took, entry)


@click.command(help=__doc__)
@click.option("--size", type=click.IntRange(min=1), default=1024, show_default=True)
@click.option("--seed", "seeds", type=int, multiple=True, default=(0, 1), show_default=True)
@click.option("--long", "long_options", help="Options of one more search, to be compared with.")
@click.option("--adapter", help="As in `autotune gemm --adapter`.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JSON.")
def main(
    size: int, seeds: tuple[int, ...], long_options: str | None, adapter: str | None, out: Path | None
) -> None:
    """Search, then compare."""
    chosen = [] if adapter is None else ["--adapter", adapter]
    runs = [["--seed", str(seed), *chosen] for seed in seeds]
    if long_options is not None:
        runs.append([*shlex.split(long_options), *chosen])
    try:
        with tempfile.TemporaryDirectory() as folder:
            profiles = list_adapters()
            package = stranger(Path(folder), profiles[choose(profiles, adapter)])
            found = [search(package, size, options) for options in runs]
        runtime = WorkerRuntime(adapter)
        try:
            bench = Bench(GEMM, GemmProblem(m=size, n=size, k=size), runtime, seed=0)
            estimates = [(one.entry.config, one.entry.measurement.seconds) for one in found]
            finals = bench.interleave(estimates, seed=0, budget=20.0)
        finally:
            runtime.close()
    except AutotuneError as error:
        raise click.ClickException(str(error)) from error
    rows = []
    click.echo(f"\nwinners for {size}³ on {runtime.profile.name}, timed in turns:")
    for one, final in zip(found, finals, strict=True):
        if final is None:
            raise click.ClickException(f"the winner of {one.command} failed in the comparison")
        click.echo(f"  {console.seconds(final.seconds):>9}  {one.command} ({one.seconds:.1f} s)")
        row = {"command": one.command, "command_seconds": round(one.seconds, 1), "seconds": final.seconds}
        rows.append({**row, "config": msgspec.to_builtins(one.entry.config)})
    if out is not None:
        device = msgspec.to_builtins(runtime.profile)
        date = time.strftime("%Y-%m-%d")
        out.write_text(json.dumps({"date": date, "device": device, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
