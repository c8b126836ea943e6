"""Results of benchmarks as Markdown."""

import statistics
from collections.abc import Iterable
from typing import Any

from ceiling import Ceiling

from autotune import console

KINDS = ["tuned", "tuned, sizes baked in", "default", "naive"]
Row = dict[str, Any]
"""`label`, `flops`, `bytes`, and `seconds` by what was timed."""


def table(rows: list[Row], peers: list[str], multiplied: str, peaks: Ceiling) -> str:
    """One line a shape: rates in TFLOP/s, the winner's bytes a second, its shares of the peaks, ratios.

    `multiplied` is the type of the products: its peak is the one that counts.
    """
    peak = peaks.flops.get(multiplied, 0.0)
    head = ["shape", "time", *KINDS, *peers, "GB/s", "of peak", "of copy", "default / tuned"]
    head += [f"tuned / {peer}" for peer in peers]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for row in rows:
        times, tuned = row["seconds"], row["seconds"]["tuned"]
        cells = [row["label"], console.seconds(tuned)]
        cells += [
            f"{row['flops'] / times[kind] / 1e12:.3g}" if kind in times else "" for kind in [*KINDS, *peers]
        ]
        cells.append(f"{row['bytes'] / tuned / 1e9:.0f}")
        cells.append(f"{row['flops'] / tuned / peak:.2f}" if peak else "")
        cells.append(f"{row['bytes'] / tuned / peaks.copy:.2f}" if peaks.copy else "")
        cells.append(f"{tuned / times['default']:.2f}")
        cells += [f"{times[peer] / tuned:.2f}" if peer in times else "" for peer in peers]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def peaks_line(peaks: Ceiling) -> str:
    """What the device did at most, in words."""
    rates = [f"{kind} {rate / 1e12:.3g} T/s" for kind, rate in peaks.flops.items()]
    return f"Rates in TFLOP/s. Peaks: multiply-adds {', '.join(rates)}; copy {peaks.copy / 1e9:.0f} GB/s."


def means(rows: list[Row], peers: list[str]) -> str:
    """Geometric means of the ratios, a line each."""
    lines = []
    for peer in peers:
        lines.append(_mean(f"tuned / {peer}", (_ratio(row, peer, "tuned") for row in rows)))
        lines.append(_mean(f"default / {peer}", (_ratio(row, peer, "default") for row in rows)))
    lines.append(_mean("default / tuned", (_ratio(row, "tuned", "default") for row in rows)))
    lines.append(_mean("tuned / tuned with sizes baked in", (_ratio(row, KINDS[1], "tuned") for row in rows)))
    return "\n".join(lines)


def _ratio(row: Row, slower: str, faster: str) -> float | None:
    times = row["seconds"]
    return times[slower] / times[faster] if slower in times and faster in times else None


def _mean(what: str, ratios: Iterable[float | None]) -> str:
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return f"{what}: not measured"
    mean = statistics.geometric_mean(known)
    return f"{what}: geometric mean {mean:.2f}, least {min(known):.2f}, {len(known)} shapes"
