"""The final round: the best few and the default against each other, then proof at other sizes."""

from collections.abc import Sequence

from msgspec import Struct

from autotune import measure
from autotune.candidate import Bench
from autotune.errors import TuningFailed
from autotune.model import Config, Measurement, Rejection
from autotune.runtime.base import CandidateFailed

FINALISTS = 5
"""How many of the fastest candidates are re-measured against each other, besides the default."""


class Decision(Struct, frozen=True):
    """Who won the final round."""

    config: Config
    measurement: Measurement
    default: Measurement | None
    """The portable default in the same round."""
    dropped: tuple[str, ...]
    """Faster finalists that were wrong at another size, and how."""


def final_round(
    bench: Bench, ranked: Sequence[tuple[Config, Measurement]], *, seed: int
) -> list[tuple[Config, Measurement]]:
    """Re-measure the fastest of `ranked`, and the default, in turns. Fastest first."""
    default = bench.family.default(bench.problem, bench.runtime.profile)
    finalists = [pair for rank, pair in enumerate(ranked) if rank < FINALISTS or pair[0] == default]
    estimates = [(config, measurement.seconds) for config, measurement in finalists]
    finals = bench.interleave(estimates, seed=seed, budget=12.0 if bench.runtime.profile.is_cpu else 6.0)
    measured = [
        (config, final) for (config, _), final in zip(finalists, finals, strict=True) if final is not None
    ]
    return sorted(measured, key=lambda pair: pair[1].seconds)


def decide(bench: Bench, finals: Sequence[tuple[Config, Measurement]], *, seed: int) -> Decision:
    """The fastest finalist that is right at ragged neighbours of the problem too.

    Replaces the runtime's data buffers. Raises TuningFailed when there is none.
    """
    default_config = bench.family.default(bench.problem, bench.runtime.profile)
    default = next((final for config, final in finals if config == default_config), None)
    dropped: list[str] = []
    for config, measurement in finals:
        wrong = _wrong_nearby(bench, config, seed)
        if wrong is None:
            return Decision(config, measurement, default, tuple(dropped))
        dropped.append(f"a faster finalist ({config.variant}) was wrong at another size: {wrong}")
    raise TuningFailed(
        "every finalist failed in the final round or at other sizes, nothing was stored; "
        + "; ".join(dropped)
    )


def baseline(bench: Bench, best: float) -> Measurement | Rejection:
    """The naive kernel's time; `bench` must hold the problem's data."""
    config = bench.family.baseline(bench.problem, bench.runtime.profile)
    return bench.evaluate(config, best, measure.Effort(hopeless=float("inf")))


def _wrong_nearby(bench: Bench, config: Config, seed: int) -> str | None:
    """What is wrong with a config at ragged neighbours, with whole numbers, whose sums are exact."""
    for neighbour in bench.family.neighbours(bench.problem, config):
        try:
            nearby = Bench(bench.family, neighbour, bench.runtime, seed=seed, integers=True)
            wrong = nearby.complaint(config)
        except CandidateFailed as error:  # the data does not even fit
            wrong = f"{error.stage}: {error.reason}"
        if wrong is not None:
            return f"{bench.family.label(neighbour)}: {wrong}"
    return None
