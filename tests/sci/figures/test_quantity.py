"""Quantity: the arithmetic of ranges, checked by properties and by hand."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.figures.errors import QuantityError
from gramwatt.sci.figures.quantity import KINDS, Quantity, join_sources, kind_of_sum, total, weakest

FIGURES = st.floats(min_value=0, max_value=1e9, allow_nan=False)


@st.composite
def quantities(draw, unit="kWh", low=0.0):
    ends = sorted(draw(st.tuples(*[st.floats(low, 1e6)] * 3)))
    kind = draw(st.sampled_from(KINDS))
    return Quantity(ends[1], ends[0], ends[2], unit, kind, draw(st.sampled_from("abc")))


def holds(quantity, value):
    slack = 1e-9 * max(1.0, abs(value))
    return quantity.low - slack <= value <= quantity.high + slack


@given(quantities(), quantities(low=0.5))
def test_a_result_has_its_own_value_in_its_range(a, b):
    assert holds(a + b, a.value + b.value)
    assert holds(a.times(b, "g"), a.value * b.value)
    assert holds(a.over(b, "1"), a.value / b.value)


@given(st.floats(0.1, 1.0), st.floats(1.0, 10.0), quantities(low=0.5))
def test_dividing_by_a_factor_undoes_multiplying_by_it(low, high, b):
    a = Quantity(1.0, low, high, "kWh", "catalog", "another")
    factor = b.sourced("factor")
    back = a.times(factor, "g").over(factor, "kWh")
    if factor.high < 1e3 * factor.value:
        assert (back.value, back.low, back.high) == pytest.approx((1.0, low, high), rel=1e-6)


@given(quantities(), st.floats(0.001, 1000))
def test_scaling_is_linear_and_undone_by_its_inverse(a, factor):
    there = a.scaled(factor)
    assert there.value == pytest.approx(a.value * factor)
    back = there.scaled(1 / factor)
    assert back.low == pytest.approx(a.low)
    assert back.high == pytest.approx(a.high)


@given(st.lists(quantities(), min_size=1, max_size=8))
def test_total_does_not_depend_on_order(parts):
    one, other = total(parts), total(reversed(parts))
    assert (one.value, one.kind) == (other.value, other.kind)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-6)
    assert one.value == pytest.approx(math.fsum(part.value for part in parts))


def test_eight_over_two_to_four():
    # A peer's range arithmetic gives 0.25 to 0.5 here.
    eight = Quantity.exact(8, "g", "declared", "x")
    spread = Quantity(3, 2, 4, "h", "declared", "y")
    answer = eight.over(spread, "g/h")
    assert (answer.low, answer.value, answer.high) == (2, 8 / 3, 4)


def test_a_figure_of_nothing_has_no_effect_of_its_logarithm():
    for value, low, high in ((0.0, 0.0, 5.0), (0.0, -1.0, 5.0), (-1.0, -2.0, 0.0), (2.0, 2.0, 2.0)):
        figure = Quantity(value, low, high, "g", "measured", "x").as_input("id")
        assert (figure.inputs, figure.low, figure.high) == ({}, low, high)


def test_a_negative_factor_swaps_the_ends():
    answer = Quantity(2, 1, 4, "g", "measured", "x").scaled(-1)
    assert (answer.low, answer.value, answer.high) == (-4, -2, -1)


def test_what_a_ratio_saves_is_one_less_it_with_its_ends_swapped():
    saved = Quantity(0.75, 0.5, 1.25, "ratio", "estimated", "x").complement("share")
    assert (saved.low, saved.value, saved.high, saved.unit) == (-0.25, 0.25, 0.5, "share")


def test_spread_never_crosses_zero():
    assert Quantity.around(10, 1.5, "g", "estimated", "x").low == 0
    assert Quantity.around(10, 0.4, "g", "estimated", "x").high == 14


@pytest.mark.parametrize(
    "bad",
    [
        (math.nan, 0, 1, "g", "measured", "x"),
        (math.inf, 0, math.inf, "g", "measured", "x"),
        (2, 3, 4, "g", "measured", "x"),
        (5, 3, 4, "g", "measured", "x"),
        (3, 3, 4, "", "measured", "x"),
        (3, 3, 4, "g", "measured", ""),
        (3, 3, 4, "g", "guessed", "x"),
    ],
)
def test_impossible_figures_are_refused(bad):
    with pytest.raises(QuantityError):
        Quantity(*bad)


def test_units_do_not_mix():
    with pytest.raises(QuantityError, match="g and kWh"):
        total([Quantity.exact(1, "g", "measured", "x"), Quantity.exact(1, "kWh", "measured", "x")])
    with pytest.raises(QuantityError):
        _ = Quantity.exact(1, "g", "measured", "x") + Quantity.exact(1, "kg", "measured", "x")


def test_division_by_a_range_with_zero_is_refused():
    with pytest.raises(QuantityError, match="holds zero"):
        Quantity.exact(1, "g", "measured", "x").over(Quantity(1, 0, 2, "h", "measured", "y"), "g/h")


def test_nothing_known_is_not_zero():
    assert total([]) is None


def test_the_weakest_kind_and_each_source_once():
    mixed = Quantity.exact(1, "J", "measured", "nvml") + Quantity.exact(
        1, "J", "estimated", "model"
    )
    assert mixed.kind == "estimated"
    assert (mixed + mixed).source == "nvml; model"
    assert weakest(["catalog", "measured"]) == "catalog"
    assert join_sources([mixed, Quantity.exact(1, "J", "measured", "a; b"), mixed]) == [
        "nvml",
        "model",
        "a; b",
    ]


def test_a_document_names_several_sources_one_by_one():
    one = Quantity.exact(1, "J", "measured", "NVML (a; b)")
    both = one + Quantity.exact(1, "J", "estimated", "model")
    assert b"sources" not in msgspec.json.encode(one)
    assert msgspec.to_builtins(both)["sources"] == ("NVML (a; b)", "model")
    assert one.bare().sources == ("NVML (a; b)",)
    assert both.bare().sources == ("NVML (a; b)", "model")
    assert (both.bare() + one).source == "NVML (a; b); model"


def test_a_sum_is_called_by_the_kind_that_nine_tenths_of_it_reach():
    assert kind_of_sum({"measured": 96, "estimated": 4}) == "measured"
    assert kind_of_sum({"measured": 85, "integrated": 8, "estimated": 7}) == "integrated"
    assert kind_of_sum({"measured": 85, "estimated": 15}) == "estimated"
    with pytest.raises(QuantityError):
        kind_of_sum({})


@given(quantities())
def test_json_round_trip(a):
    assert a.bare() == a
