"""The check that every candidate has to pass, tried on outputs that NumPy made: right ones and wrong ones."""

import numpy as np
import pytest
from msgspec import structs

from autotune import verify
from autotune.kernels.gemm import GEMM, GemmProblem, Naive
from autotune.limits import base_profile

SHAPES = [(33, 31, 9), (64, 64, 64), (1, 7, 3), (5, 1, 4096), (17, 19, 1)]
TYPES = [("f32", "f32"), ("f16", "f32"), ("f16", "f16")]
FLOATS = {"f32": np.float32, "f16": np.float16}


class Case:
    """A problem, its check, and its operands as the kernel sees them."""

    def __init__(self, m, n, k, dtype="f32", accumulate="f32", *, profile=None, integers=False):
        self.problem = GemmProblem(m=m, n=n, k=k, dtype=dtype, accumulate=accumulate)
        plan = GEMM.plan(self.problem, Naive(workgroup_x=8, workgroup_y=8), specialize=False)
        profile = profile or base_profile()
        self.check = verify.prepare(GEMM, self.problem, plan, profile, seed=1, integers=integers)
        self.kind = FLOATS[dtype]
        self.a = self.operand("a", m, k)
        self.b = self.operand("b", k, n)

    def operand(self, name, rows, cols):
        raw = self.check.contents[name]
        return np.frombuffer(raw, dtype=self.kind)[: rows * cols].reshape(rows, cols)

    def right(self):
        return (self.a.astype(np.float64) @ self.b.astype(np.float64)).astype(self.kind)

    def blank(self):
        """The output before anything was written to it."""
        return self.start()[: self.problem.m * self.problem.n].reshape(self.problem.m, self.problem.n)

    def start(self):
        return np.frombuffer(self.check.contents["c"], dtype=self.kind).copy()

    def complaint(self, c):
        """The verdict on a result, which is written over the start of the buffer."""
        buffer = self.start()
        buffer[: c.size] = np.asarray(c).ravel()
        return self.check.complaint({"c": buffer.tobytes()})


@pytest.fixture(params=TYPES, ids="-".join)
def case(request):
    return Case(33, 31, 9, *request.param)


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_rounded_exact_result_passes(shape, types):
    case = Case(*shape, *types)
    assert case.complaint(case.right()) is None


@pytest.mark.parametrize("k", [1, 3, 4, 7, 100, 1024, 4096])
def test_f32_sums_in_other_orders_pass(k):
    case = Case(48, 40, k)
    a, b = case.a, case.b
    terms = a[:, :, None] * b[None, :, :]
    forwards = np.zeros((48, 40), np.float32)
    backwards = np.zeros((48, 40), np.float32)
    for i in range(k):
        forwards += terms[:, i]
        backwards += terms[:, k - 1 - i]
    assert case.complaint(a @ b) is None
    assert case.complaint(forwards) is None
    assert case.complaint(backwards) is None
    assert case.complaint(terms[:, 0::2].sum(axis=1) + terms[:, 1::2].sum(axis=1)) is None


@pytest.mark.parametrize("k", [1, 7, 256, 2048])
def test_f16_results_of_sums_in_the_accumulator_type_pass(k):
    for accumulate in ("f32", "f16"):
        case = Case(24, 20, k, "f16", accumulate)
        kind = FLOATS[accumulate]
        total = np.zeros((24, 20), kind)
        for i in range(k):
            total += case.a[:, i, None].astype(kind) * case.b[None, i].astype(kind)
        assert case.complaint(total.astype(np.float16)) is None


@pytest.mark.parametrize("k", [5, 511, 4096])
def test_whole_numbers_have_one_right_answer(k):
    case = Case(20, 24, k, integers=True)
    assert case.complaint(case.right()) is None
    for step in (-1, 1):
        off = case.right()
        off[19, 23] += step
        assert "1 of 480 elements are wrong, first at [19, 23]" in case.complaint(off)


def test_an_output_nobody_wrote_is_told_from_a_wrong_one(case):
    assert case.complaint(case.blank()) == "c: 1023 of 1023 elements were never written"


def test_unwritten_rows_past_the_last_full_tile_are_caught(case):
    c = case.right()
    c[32:] = case.blank()[32:]
    assert case.complaint(c) == "c: 31 of 1023 elements were never written"


def test_only_even_rows_written_is_caught(case):
    c = case.right()
    c[1::2] = case.blank()[1::2]
    assert "496 of 1023 elements were never written" in case.complaint(c)


def test_a_single_unwritten_element_is_caught(case):
    c = case.right()
    c[-1, -1] = case.blank()[-1, -1]
    assert "1 of 1023 elements were never written" in case.complaint(c)


def test_rows_of_zeros_are_caught(case):
    c = case.right()
    c[32:] = 0
    assert "first at [32, 0]: 0 instead of" in case.complaint(c)


@pytest.mark.parametrize(("k", "types"), [(9, TYPES[0]), (4096, TYPES[0]), (4096, TYPES[1]), (64, TYPES[2])])
def test_one_missing_term_is_caught(k, types):
    case = Case(33, 31, k, *types)
    c = case.a[:, :-1].astype(np.float64) @ case.b[:-1].astype(np.float64)
    assert "elements are wrong" in case.complaint(c.astype(case.kind))


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_one_missing_term_in_whole_numbers_is_caught_at_any_depth(types):
    case = Case(33, 31, 440, *types, integers=True)
    c = case.a[:, :-1].astype(np.float64) @ case.b[:-1].astype(np.float64)
    assert "elements are wrong" in case.complaint(c.astype(case.kind))


def test_one_wrong_element_is_caught_and_located(case):
    c = case.right()
    c[12, 30] += 0.125
    assert "1 of 1023 elements are wrong, first at [12, 30]" in case.complaint(c)


def test_a_write_past_the_end_is_caught(case):
    buffer = case.start()
    buffer[: 33 * 31] = case.right().ravel()
    buffer[33 * 31] = 0
    assert case.check.complaint({"c": buffer.tobytes()}) == "c: wrote past the end of the buffer"


def test_a_write_to_the_last_guard_element_is_caught(case):
    buffer = case.start()
    buffer[: 33 * 31] = case.right().ravel()
    buffer[-1] = 0
    assert case.check.complaint({"c": buffer.tobytes()}) == "c: wrote past the end of the buffer"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_element_that_is_no_number_is_caught(case, value):
    c = case.right()
    c[3, 4] = value
    assert f"first at [3, 4]: {value:.7g} instead of" in case.complaint(c)


def test_a_value_read_past_the_end_of_an_input_poisons_the_result(case):
    guard = np.frombuffer(case.check.contents["a"], dtype=case.kind)[33 * 9 :]
    assert np.isnan(guard).all()
    c = case.right()
    c[32, 30] += guard[0] * 0
    assert "first at [32, 30]: nan" in case.complaint(c)


def test_swapped_matrices_are_caught():
    case = Case(32, 32, 32)
    assert "elements are wrong" in case.complaint(case.b @ case.a)


@pytest.mark.parametrize("transposed", ["a", "b", "c"])
def test_a_transposed_matrix_is_caught(transposed):
    case = Case(32, 32, 32)
    a = case.a.T if transposed == "a" else case.a
    b = case.b.T if transposed == "b" else case.b
    c = (a @ b).T if transposed == "c" else a @ b
    assert "elements are wrong" in case.complaint(c)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shift", [-1, 1])
def test_rows_and_columns_off_by_one_are_caught(case, axis, shift):
    assert "elements are wrong" in case.complaint(np.roll(case.right(), shift, axis=axis))


def test_a_wrong_leading_dimension_is_caught():
    case = Case(32, 32, 16)
    b = case.b.ravel()[:496].reshape(16, 31)
    wide = np.zeros((32, 32), np.float32)
    wide[:, :31] = case.a @ b
    assert "elements are wrong" in case.complaint(wide)


def test_a_second_run_that_writes_nothing_is_caught_after_a_good_one(case):
    assert case.complaint(case.right()) is None
    assert "never written" in case.check.complaint({"c": case.check.contents["c"]})


@pytest.mark.parametrize("integers", [False, True])
def test_inputs_are_not_symmetric_and_differ_between_the_operands(integers):
    case = Case(16, 16, 16, integers=integers)
    assert not np.array_equal(case.a, case.a.T)
    assert not np.array_equal(case.b, case.b.T)
    assert not np.array_equal(case.a, case.b)
    assert len(np.unique(case.a, axis=0)) == len(np.unique(case.b, axis=1).T) == 16


def test_the_same_seed_gives_the_same_check():
    first, second = Case(9, 8, 7), Case(9, 8, 7)
    assert first.check.contents == second.check.contents


def test_every_buffer_has_a_guard_and_holds_whole_vec4s(case):
    sizes = {"a": 33 * 9, "b": 9 * 31, "c": 33 * 31}
    for name, elements in sizes.items():
        length = len(case.check.contents[name])
        assert length % 16 == 0
        assert length - elements * case.kind().itemsize >= verify.GUARD_BYTES


def test_the_guard_gives_way_where_the_binding_limit_leaves_no_room():
    tight = structs.replace(
        base_profile(), limits=base_profile().limits | {"maxStorageBufferBindingSize": 4096}
    )
    case = Case(32, 32, 8, profile=tight)
    assert len(case.check.contents["c"]) == 4096
    assert len(case.check.contents["a"]) == 1024 + verify.GUARD_BYTES
    assert case.complaint(case.right()) is None
    assert "1024 of 1024 elements were never written" in case.complaint(case.blank())


@pytest.mark.parametrize("types", TYPES[1:], ids="-".join)
def test_results_of_hardware_that_flushes_small_f16_numbers_pass(types):
    """WGSL lets a device read and write numbers below the smallest normal one as zero."""
    case = Case(64, 512, 1, *types)

    def flush(values):
        return np.where(np.abs(values) < np.finfo(np.float16).tiny, 0, values)

    c = flush(case.a).astype(np.float32) @ flush(case.b).astype(np.float32)
    assert case.complaint(flush(c.astype(np.float16))) is None


def test_where_nothing_need_be_exact_a_zero_need_not_be_either():
    asked = GemmProblem(m=4, n=4, k=4, activation="gelu")
    assert GEMM.exact_up_to(asked) == 0
    plan = GEMM.plan(asked, Naive(workgroup_x=8, workgroup_y=8), specialize=False)
    check = verify.prepare(GEMM, asked, plan, base_profile(), seed=1, integers=True)
    assert np.all(check.tolerance["c"] > 0)
