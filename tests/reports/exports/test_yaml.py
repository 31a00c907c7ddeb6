"""What the emitter writes is read back as the same data, by a YAML 1.1 reader at least."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.reports.exports.common import to_yaml

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts
scalars |= st.floats(allow_nan=False, allow_infinity=False)
data = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)


@given(st.dictionaries(texts, data, max_size=5))
def test_round_trip(document):
    assert (yaml.safe_load(to_yaml(document)) or {}) == document


@pytest.mark.parametrize("value", [1e-05, 1e22, 5e-324, 1.5e300, -0.0, 3.0])
def test_floats_stay_floats(value):
    read = yaml.safe_load(to_yaml({"x": value}))["x"]
    assert isinstance(read, float)
    assert (read, math.copysign(1, read)) == (value, math.copysign(1, value))


@pytest.mark.parametrize("text", ["no", "null", "1e3", "2026-05-01", "0x10", "a: b", "- a", "#x"])
def test_words_that_look_like_something_else_stay_texts(text):
    assert yaml.safe_load(to_yaml({text: text})) == {text: text}


def test_infinity_is_refused():
    with pytest.raises(ValueError, match="finite"):
        to_yaml({"x": math.inf})
