"""The final round: the best few, the default and the naive kernel against each other, then those that tie
with their sizes baked in, then proof at other sizes.
"""

import math
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from autotune import limits, measure
from autotune.cache import NOISE_FLOOR
from autotune.candidate import Bench
from autotune.errors import TuningFailed
from autotune.model import Config, Measurement, Problem, Rejection, Trial
from autotune.runtime.base import CandidateFailed

FINALISTS = 5
"""How many of the fastest candidates are re-measured against each other, besides the default."""
LEAST = 2
"""How many of them are re-measured however little time there is."""
CLOSE = 4.0
"""The naive kernel has a place too, unless its first time was this many times the best."""
TIE = NOISE_FLOOR
"""Finalists slower than the fastest by no more than this share tie with it. An entry yields only to what is
faster than that, so a tie that is told apart now one way, now the other, does not make it flip."""


class Decision(Struct, frozen=True):
    """Who won the final round."""

    config: Config
    measurement: Measurement
    default: Measurement | None = None
    """The portable default in the same round."""
    verified: bool = False
    """Whether the winner was right at other sizes too."""
    notes: tuple[str, ...] = ()
    """Finalists before it that were wrong at another size, and sizes at which nobody could be judged."""


class Proof(Struct):
    """What came of running a config at other sizes."""

    right: int = 0
    """Sizes at which it was right."""
    wrong: str | None = None
    skipped: tuple[str, ...] = ()
    """Sizes that tell nothing about it, and why."""


def final_round(
    bench: Bench,
    ranked: Sequence[tuple[Config, Measurement]],
    *,
    tried: Collection[Config],
    seed: int,
    seconds: float = math.inf,
    each: float = 0.0,
) -> list[tuple[Config, Measurement]]:
    """Re-measure the fastest of `ranked`, the default, and a naive kernel that comes near, in turns.

    A default that is none of the `tried` configs (it need not be a point of the space) is tried now.
    Fastest first. `seconds` bound the round, as far as those allow who are always in it; `each` is what it
    takes to have one candidate compiled and checked.
    """
    default = bench.family.default(bench.problem, bench.runtime.profile)
    naive = bench.family.baseline(bench.problem, bench.runtime.profile)
    finalists = admitted(ranked, default, naive, seconds=seconds, each=each)
    if default not in tried:
        late = bench.evaluate(default, ranked[0][1].seconds)
        finalists += [(default, late)] if isinstance(late, Measurement) else []
    estimates = [(config, measurement.seconds) for config, measurement in finalists]
    budget = max(seconds - each * len(finalists), 0.0)
    finals = bench.interleave(estimates, seed=seed, budget=min(budget, _longest(bench)))
    measured = [
        (config, final) for (config, _), final in zip(finalists, finals, strict=True) if final is not None
    ]
    return sorted(measured, key=lambda pair: pair[1].seconds)


def _longest(bench: Bench) -> float:
    """Seconds that measuring in turns may take, beyond the fewest rounds."""
    return 12.0 if bench.runtime.profile.is_cpu else 6.0


def admitted(
    ranked: Sequence[tuple[Config, Measurement]],
    default: Config,
    naive: Config,
    *,
    seconds: float,
    each: float,
) -> list[tuple[Config, Measurement]]:
    """Who of the ranked is in the final round: as many as there is time for, the fastest first.

    Always the fastest two, the default, and the naive kernel where it comes near: that one is run anyway.
    """
    near = CLOSE * ranked[0][1].seconds
    left = seconds - 2 * each
    found = []
    for rank, (config, first) in enumerate(ranked):
        costs = each + measure.FEWEST_ROUNDS * max(first.seconds, measure.FINAL.span)
        if config == default or (config == naive and first.seconds <= near):
            found.append((config, first))
        elif rank < LEAST or (rank < FINALISTS and costs <= left):
            found.append((config, first))
            left -= costs
    return found


def settle_ties(
    bench: Bench,
    finals: Sequence[tuple[Config, Measurement]],
    *,
    seed: int,
    seconds: float,
    each: float,
    wanted: Callable[[Config], bool] = lambda _: True,
) -> list[tuple[Config, Measurement]]:
    """The finalists, fastest first, but those wanted ones first that tie with the fastest of them, ordered by
    both texts that a winner stands for: sizes at run time, and sizes baked in.

    What a driver makes of constant sizes differs from config to config: of two `gemv` configs on an NVIDIA
    H200 that were 0.4 % apart at run time, the faster one lost 18 % by baking in, the other 4 %. One whose
    other text fails or is wrong comes last of those that tie. `seconds` and `each` as in `final_round`;
    where there is no time for two, the order stays.
    """
    able = [pair for pair in finals if wanted(pair[0])]
    fastest = able[0][1].seconds if able else 0.0
    costs = each + measure.FEWEST_ROUNDS * max(fastest, measure.FINAL.span)
    close = [pair for pair in able if pair[1].seconds <= fastest * (1 + TIE)]
    tied = [pair for place, pair in enumerate(close, start=1) if place * costs <= seconds]
    if len(tied) < 2:
        return list(finals)
    estimates = [(config, measurement.seconds) for config, measurement in tied]
    budget = min(seconds - each * len(tied), _longest(bench))
    baked = bench.baked().interleave(estimates, seed=seed, budget=budget)

    def both(timed: tuple[tuple[Config, Measurement], Measurement | None]) -> float:
        (_, run_time), other = timed
        return math.inf if other is None else run_time.seconds * other.seconds

    settled = [pair for pair, _ in sorted(zip(tied, baked, strict=True), key=both)]
    return settled + [pair for pair in finals if pair not in settled]


def leader(
    bench: Bench,
    finals: Sequence[tuple[Config, Measurement]],
    *,
    wanted: Callable[[Config], bool] = lambda _: True,
) -> Decision | None:
    """The first finalist that is wanted, not proved at other sizes: what stands if that cannot be done."""
    first = next((pair for pair in finals if wanted(pair[0])), None)
    return None if first is None else Decision(*first, _of_default(bench, finals))


def _of_default(bench: Bench, finals: Sequence[tuple[Config, Measurement]]) -> Measurement | None:
    default = bench.family.default(bench.problem, bench.runtime.profile)
    return next((final for config, final in finals if config == default), None)


def decide(
    bench: Bench,
    finals: Sequence[tuple[Config, Measurement]],
    *,
    seed: int,
    wanted: Callable[[Config], bool] = lambda _: True,
) -> Decision:
    """The first finalist that is wanted, and right at ragged neighbours of the problem too.

    Replaces the runtime's data buffers. Raises TuningFailed when there is none.
    """
    default = _of_default(bench, finals)
    notes: list[str] = []
    failed: Trial | None = None
    for config, measurement in finals:
        if not wanted(config):
            continue  # the default and the naive kernel are measured whatever was asked for
        proof = prove(bench, config, seed)
        if proof.wrong is None:
            notes += proof.skipped
            return Decision(config, measurement, default, verified=proof.right > 0, notes=tuple(notes))
        notes.append(f"a better finalist ({config.variant}) was wrong at another size: {proof.wrong}")
        failed = failed or Trial(config=config, outcome=Rejection(stage="verify", reason=proof.wrong))
    raise TuningFailed(
        "; ".join(["every finalist failed in the final round or at other sizes, nothing was stored", *notes]),
        failed,
    )


def baseline(
    bench: Bench, finals: Sequence[tuple[Config, Measurement]], best: float
) -> Measurement | Rejection:
    """The naive kernel's time, from the final round if it was there. `bench` must hold the problem's data."""
    naive = bench.family.baseline(bench.problem, bench.runtime.profile)
    known = next((final for config, final in finals if config == naive), None)
    return known or bench.evaluate(naive, best, measure.Effort(hopeless=float("inf")))


def with_naive(
    bench: Bench, finals: Sequence[tuple[Config, Measurement]], baseline: Measurement
) -> list[tuple[Config, Measurement]]:
    """The finalists and the naive kernel, fastest first: where little was tried, it may be that one."""
    naive = bench.family.baseline(bench.problem, bench.runtime.profile)
    others = [(config, final) for config, final in finals if config != naive]
    return sorted([*others, (naive, baseline)], key=lambda pair: pair[1].seconds)


def prove(bench: Bench, config: Config, seed: int) -> Proof:
    """Run a config at ragged neighbours, on whole numbers, whose sums are exact; ends at the first wrong one.

    A neighbour that the device cannot hold, or that the family's rules exclude, says nothing against
    the config.
    """
    proof = Proof()
    for neighbour in bench.family.neighbours(bench.problem, config):
        label = bench.family.label(neighbour)
        wrong, counts = _at(bench, neighbour, config, seed)
        if wrong is None:
            proof.right += 1
        elif counts:
            proof.wrong = f"{label}: {wrong}"
            break
        else:
            proof.skipped += (f"{config.variant} was not judged at {label}: {wrong}",)
    return proof


def _at(bench: Bench, neighbour: Problem, config: Config, seed: int) -> tuple[str | None, bool]:
    """What is wrong with a config at a neighbour, and whether that tells against the config."""
    family, profile = bench.family, bench.runtime.profile
    unfit = family.unfit(neighbour, config)
    if unfit is None:
        too_large = next(limits.refusals(family.resources(neighbour, config), profile), None)
        if too_large is not None:
            return too_large, False
    try:
        nearby = Bench(family, neighbour, bench.runtime, seed=seed, integers=True)
    except CandidateFailed as error:  # the data does not fit, whatever the config
        return f"{error.stage}: {error.reason}", False
    wrong = nearby.complaint(config)
    return (unfit, False) if wrong and unfit else (wrong, True)  # what need not be right often is
