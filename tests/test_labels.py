"""One problem, one label and one file: for every family, whatever its fields are."""

import math
from pathlib import Path

import msgspec
import pytest
from fake_family import device
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from autotune.errors import InvalidProblem
from autotune.kernels import KERNELS
from autotune.kernels.attention import AttentionProblem
from autotune.kernels.gemm import GemmProblem
from autotune.kernels.sizes import number
from autotune.layout import entry_path
from autotune.slug import slug

FRACTIONS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1234567, 0.12345671, 1e6, 1000001.0, 123456789.0, 1e22, 1e-5]),
    st.floats(-1e30, 1e30),
    st.floats(1e-4, 1e4),
    st.integers(0, 2**60),
)


def values(kind):
    """Values of a field of this type, those that other fields get along with among them."""
    match kind:
        case msgspec.inspect.IntType():
            return st.sampled_from([0, 1, 2, 8, 16, 64, 96, 128, 512])
        case msgspec.inspect.FloatType():
            return FRACTIONS
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.LiteralType():
            return st.sampled_from(kind.values)
        case msgspec.inspect.UnionType():
            return st.one_of(*map(values, kind.types))
        case msgspec.inspect.NoneType():
            return st.none()
    raise NotImplementedError(f"say here what fields of type {kind} may hold")


FIELDS = {
    name: {field.name: values(field.type) for field in msgspec.inspect.type_info(family.problem_type).fields}
    for name, family in KERNELS.items()
}


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_different_problems_have_different_labels_and_files(name, data):
    family, fields = KERNELS[name], FIELDS[name]
    base = data.draw(st.sampled_from(list(family.samples.values())))

    def other():
        changed = data.draw(st.sets(st.sampled_from(list(fields)), max_size=2))
        try:
            return structs.replace(base, **{field: data.draw(fields[field]) for field in changed})
        except InvalidProblem:
            assume(False)

    one, another = other(), other()
    paths = [entry_path(Path(), family, problem, device()) for problem in (one, another)]
    assert (family.label(one) == family.label(another)) == (one == another)
    assert (paths[0] == paths[1]) == (one == another)


@given(FRACTIONS)
def test_numbers_that_differ_in_the_last_digit_have_different_texts(value):
    near = math.nextafter(float(value), math.inf)
    assert float(number(value)) == float(value)
    assert number(near) != number(value)


@pytest.mark.parametrize(
    ("value", "text"), [(2.0, "2"), (0.5, "0.5"), (1073741823, "1073741823"), (1e30, "1e+30"), (-3, "-3")]
)
def test_numbers_are_short_and_whole_ones_whole(value, text):
    assert number(value) == text


@pytest.mark.parametrize("field", ["alpha", "beta"])
def test_gemms_whose_factors_differ_in_the_seventh_digit_are_filed_apart(field):
    labels = {
        KERNELS["gemm"].label(GemmProblem(m=16, n=16, k=16, **{field: value}))
        for value in (0.1234567, 0.12345671, 1e6, 1e6 + 1)
    }
    assert len(set(map(slug, labels))) == 4


def test_one_gemm_has_one_spelling():
    plain = GemmProblem(m=16, n=16, k=16, alpha=0.0)
    assert GemmProblem(m=16, n=16, k=16, alpha=-0.0, beta=-0.0, out_dtype="f32") == plain
    spelled = GemmProblem(m=16, n=16, k=16, alpha=-0.0, beta=-0, out_dtype="f32")
    assert KERNELS["gemm"].label(spelled) == KERNELS["gemm"].label(plain) == "16x16x16-f32-alpha0"
    assert repr(spelled.beta) == "0.0"


def test_attention_with_whole_factors_is_the_one_with_fractions():
    one, other = (AttentionProblem(heads=1, seq=4, head_dim=4, scale=f, softcap=f) for f in (2, 2.0))
    assert one == other
    assert KERNELS["attention"].label(one).endswith("-scale2-softcap2")
    assert repr(one.softcap) == "2.0"


@pytest.mark.parametrize("name", KERNELS)
def test_shipped_entries_lie_where_their_labels_say(name):
    family = KERNELS[name]
    for path in (Path(__file__).parents[1] / "cache" / name).rglob("*.json"):
        problem = msgspec.convert(msgspec.json.decode(path.read_bytes())["problem"], family.problem_type)
        assert path.stem == slug(family.label(problem)) == family.label(problem)
