"""Weighted sums of many figures of one series: the same as adding them one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.base.quantity import Quantity, total, weighted

FIGURES = st.lists(
    st.tuples(
        st.floats(1e-3, 1e3),  # weight
        st.floats(1e-2, 1e3),  # value
        st.sampled_from([0.0, 0.1, 0.3]),  # relative range
        st.sampled_from(["DE", "FR"]),
        st.sampled_from(["measured", "declared"]),
    ),
    min_size=1,
    max_size=12,
)


@given(FIGURES)
def test_figures_that_err_together_may_be_added_first(rows):
    terms = [
        (weight, Quantity.around(value, spread, "g/kWh", kind, source))
        for weight, value, spread, source, kind in rows
    ]
    one_by_one = total([figure.scaled(weight, "g") for weight, figure in terms])
    found = weighted(terms, "g")
    for end in ("value", "low", "high"):
        assert getattr(found, end) == pytest.approx(getattr(one_by_one, end), rel=1e-6)
    assert (found.unit, found.kind) == ("g", one_by_one.kind)
    assert set(found.source.split("; ")) == set(one_by_one.source.split("; "))
    assert found.value == pytest.approx(sum(w * v for w, v, *_ in rows), rel=1e-12)


def test_a_series_of_one_source_keeps_its_relative_range():
    """Two hours at 10 % of one method: 2 x 100 + 3 x 300, from 990 to 1210."""
    hours = [(2.0, 100.0), (3.0, 300.0)]
    terms = [(w, Quantity.around(v, 0.1, "g/kWh", "declared", "DE")) for w, v in hours]
    found = weighted(terms, "g")
    assert (found.value, found.low, found.high) == pytest.approx((1100.0, 990.0, 1210.0), rel=1e-12)


def test_no_terms_are_unknown():
    assert weighted([], "g") is None
