from itertools import count, pairwise
from math import floor, inf, nan

import msgspec
import pytest

from autotune import measure
from autotune.measure import COARSEST_STEP, FINAL, MAX_BATCH, Effort
from autotune.model import Measurement, Rejection


class Gpu:
    """A kernel of a known time on a GPU clock with a step. Readings of zero steps are left out,
    as runtimes do."""

    def __init__(self, seconds, *, step=1e-9, start=0.0, idle=1.234e-5, clock="gpu"):
        self.seconds, self.step, self.now, self.idle, self.clock = seconds, step, start, idle, clock
        self.calls: list[tuple[int, int]] = []

    def __call__(self, batch, samples):
        self.calls.append((batch, samples))
        readings = (self._reading(batch) for _ in range(samples))
        return [value for value in readings if value > 0], self.clock

    def _reading(self, batch):
        begin, self.now = self.now, self.now + batch * self.seconds
        steps = floor(self.now / self.step) - floor(begin / self.step)
        self.now += self.idle
        return steps * self.step / batch


def broken(*readings):
    """A clock that tells these, whatever runs."""
    return lambda _batch, samples: (list(readings)[:samples], "gpu")


def script(*times):
    """A timer that reads these one after the other, and nothing after the last."""
    left = list(times)
    return lambda _batch, samples: ([left.pop(0) for _ in range(min(samples, len(left)))], "gpu")


# -- readings that cannot be true --------------------------------------------------------------------


@pytest.mark.parametrize("impossible", [0.0, -1e-3, inf, nan])
def test_an_impossible_reading_is_discarded(impossible):
    reading = measure.summary([1e-3, impossible, 3e-3], 1, "gpu")
    assert (reading.seconds, reading.samples) == (2e-3, 2)


@pytest.mark.parametrize("readings", [(), (0.0,), (-1e-3,), (0.0, 0.0, 0.0), (nan,), (inf,)])
def test_a_candidate_whose_clock_never_reads_is_rejected_and_has_no_time(readings):
    outcome = measure.measure(broken(*readings), None)
    assert isinstance(outcome, Rejection)
    assert outcome.stage == "time"
    assert "clock" in outcome.reason


def test_a_clock_that_never_reads_is_not_asked_for_ever():
    gpu = Gpu(0.0)
    measure.measure(gpu, None)
    assert len(gpu.calls) < 10
    assert max(batch for batch, _ in gpu.calls) <= MAX_BATCH


def test_a_clock_that_stops_reading_leaves_what_it_read_first():
    outcome = measure.measure(script(0.1, 0.1), None)
    assert (outcome.seconds, outcome.samples) == (0.1, 1)


def test_a_time_of_zero_is_not_a_measurement():
    assert measure.summary([0.0], 1, "gpu") is None
    with pytest.raises(ValueError, match="seconds"):
        msgspec.convert(
            {"seconds": 0.0, "low": 0, "high": 0, "samples": 1, "batch": 1, "clock": "gpu"}, Measurement
        )


# -- coarse clocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [0.0, 0.35, 0.999])
@pytest.mark.parametrize("seconds", [4e-7, 2e-6, 1e-5, 6e-5, 3e-4, 2e-3, 5e-3])
def test_a_sample_on_a_coarse_clock_lasts_fifty_steps(seconds, phase):
    gpu = Gpu(seconds, step=COARSEST_STEP, start=phase * COARSEST_STEP)
    outcome = measure.measure(gpu, None)
    assert outcome.batch * seconds >= 49 * COARSEST_STEP
    assert outcome.seconds == pytest.approx(seconds, rel=0.02)


def test_a_lucky_step_of_a_coarse_clock_does_not_make_a_fast_candidate_look_hopeless():
    # one dispatch of 10 µs that crosses a step reads 65 µs, six times the best
    gpu = Gpu(1e-5, step=COARSEST_STEP, start=0.9 * COARSEST_STEP)
    outcome = measure.measure(gpu, 1.1e-5)
    assert outcome.seconds == pytest.approx(1e-5, rel=0.02)
    assert outcome.samples == measure.SCREEN.samples


def test_a_long_dispatch_is_not_batched():
    gpu = Gpu(5e-3)
    assert measure.measure(gpu, None).batch == 1
    assert {batch for batch, _ in gpu.calls} == {1}


def test_batches_have_an_end_even_for_a_clock_that_always_reads_the_same():
    batches = []

    def time(batch, samples):
        batches.append(batch)
        return [1e-6 / batch] * samples, "wall"

    assert isinstance(measure.measure(time, None), Measurement)
    assert max(batches) <= MAX_BATCH
    assert all(a < b for a, b in pairwise(batches[:-1]))


# -- effort ------------------------------------------------------------------------------------------


def test_a_candidate_a_hundred_times_slower_than_the_best_gets_one_sample():
    gpu = Gpu(0.1)
    outcome = measure.measure(gpu, 1e-3)
    assert gpu.calls == [(1, 1)]
    assert (outcome.samples, outcome.seconds) == (1, pytest.approx(0.1))


def test_a_candidate_as_fast_as_the_best_gets_every_sample():
    gpu = Gpu(1e-3)
    assert measure.measure(gpu, 1e-3).samples == measure.SCREEN.samples


def test_a_slow_candidate_gets_fewer_samples_but_at_least_one():
    assert measure.measure(Gpu(0.3), None).samples == 3
    assert measure.measure(Gpu(20.0), None).samples == 1


def test_the_reference_kernel_is_sampled_however_slow():
    outcome = measure.measure(Gpu(0.1), 1e-3, Effort(hopeless=inf))
    assert outcome.samples == measure.SCREEN.samples


def test_the_clock_of_the_runtime_is_reported():
    assert measure.measure(Gpu(1e-3, clock="wall"), None).clock == "wall"


# -- median and quartiles ----------------------------------------------------------------------------


def test_the_time_is_the_median_and_its_spread_the_quartiles():
    reading = measure.summary([5.0, 1.0, 4.0, 2.0, 3.0], 7, "gpu")
    assert (reading.low, reading.seconds, reading.high) == (2.0, 3.0, 4.0)
    assert (reading.samples, reading.batch) == (5, 7)
    assert reading.spread == pytest.approx(2 / 3)


def test_one_outlier_does_not_move_the_time():
    calm, disturbed = [1.0, 1.01, 0.99, 1.0, 1.0], [1.0, 1.01, 0.99, 1.0, 50.0]
    assert measure.summary(disturbed, 1, "gpu").seconds == measure.summary(calm, 1, "gpu").seconds


def test_a_single_reading_is_its_own_median_and_quartiles():
    reading = measure.summary([0.25], 1, "wall")
    assert (reading.low, reading.seconds, reading.high, reading.spread) == (0.25, 0.25, 0.25, 0.0)


# -- finalists in turns ------------------------------------------------------------------------------


class Turns:
    """Kernels that share one GPU, whose readings grow by a share each time one is taken."""

    def __init__(self, *seconds, drift=0.0, failing=None, clock="gpu"):
        self.order: list[int] = []
        self.estimates = list(seconds)
        self.timers = [self._timer(index, value, failing or {}, clock) for index, value in enumerate(seconds)]
        self.drift = drift

    def _timer(self, index, seconds, failing, clock):
        def time(_batch, samples):
            self.order.append(index)
            if self.order.count(index) > failing.get(index, inf):
                return [], "gpu"
            return [seconds * (1 + self.drift * len(self.order))] * samples, clock

        return time

    def measured(self, **options):
        return measure.interleave(self.timers, self.estimates, **{"seed": 0, **options})


def test_every_finalist_has_its_turn_once_a_round_and_equally_often():
    turns = Turns(1e-3, 1.1e-3, 1.2e-3, 1.3e-3)
    results = turns.measured()
    rounds = [turns.order[i : i + 4] for i in range(0, len(turns.order), 4)]
    assert all(sorted(one) == [0, 1, 2, 3] for one in rounds)
    assert {result.samples for result in results} == {len(rounds)} == {FINAL.samples}


def test_the_order_within_a_round_varies_and_depends_on_the_seed_alone():
    def orders(seed):
        turns = Turns(1e-3, 1.1e-3, 1.2e-3, 1.3e-3)
        turns.measured(seed=seed)
        return [tuple(turns.order[i : i + 4]) for i in range(0, len(turns.order), 4)]

    assert len(set(orders(1))) > 5
    assert orders(1) == orders(1) != orders(2)


@pytest.mark.parametrize("seed", range(10))
def test_a_drifting_clock_does_not_change_the_winner(seed):
    # by the end every reading is 60 % higher than at the start; the kernels differ by 5 %
    results = Turns(1.05e-3, 1e-3, 1.1e-3, drift=0.6 / 45).measured(seed=seed)
    assert min(range(3), key=lambda i: results[i].seconds) == 1


def test_a_finalist_that_stops_reading_does_not_stop_the_others():
    turns = Turns(1e-3, 1e-3, 1e-3, failing={1: 2, 2: 0})
    whole, part, nothing = turns.measured()
    assert whole.samples == FINAL.samples
    assert part.samples == 2
    assert nothing is None


def test_a_finalist_that_stops_reading_keeps_the_clock_it_was_read_with():
    _, part = Turns(1e-3, 1e-3, failing={1: 2}, clock="wall").measured()
    assert part.clock == "wall"


def test_a_small_budget_still_gives_three_rounds():
    results = Turns(1.0, 2.0).measured(budget=0.1)
    assert [result.samples for result in results] == [3, 3]


def test_finalists_are_batched_for_a_coarse_clock():
    gpus = [Gpu(seconds, step=COARSEST_STEP) for seconds in (1e-5, 2.2e-3)]
    results = measure.interleave(gpus, [1e-5, 2.2e-3], seed=0)
    for gpu, result in zip(gpus, results, strict=True):
        assert result.batch * gpu.seconds >= 50 * COARSEST_STEP
        assert result.seconds == pytest.approx(gpu.seconds, rel=0.02)


def test_each_round_is_announced():
    announced = []
    Turns(1.0, 2.0).measured(budget=0.1, on_round=lambda *at: announced.append(at))
    assert announced == list(zip(count(1), [3] * 3, strict=False))
