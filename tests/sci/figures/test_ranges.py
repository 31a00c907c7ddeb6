"""Ranges of products, sums and quotients against known truths, which no product code draws."""

import math
from operator import mul

import pytest

from gramwatt.sci.figures.quantity import Quantity, total
from tests.truth import coverage, draws

N = 20_000


def figure(value, low, high, source, unit="g"):
    return Quantity(value, low, high, unit, "catalog", source)


METER = (1.0, 0.95, 1.05)
MODEL = (1.0, 0.6, 1.4)
ONE_SIDED = (1.0, 1.0, 1.6)
LIFE = (4.0, 3.0, 6.0)
WIDE = (100.0, 40.0, 250.0)
HOST = (70.0, 37.0, 80.0)


@pytest.mark.parametrize(
    "factors",
    [(METER, MODEL), (MODEL, ONE_SIDED), (METER, ONE_SIDED, MODEL), (WIDE, MODEL, ONE_SIDED)],
)
def test_a_product_holds_the_truth_eight_times_in_ten(factors):
    product = figure(*factors[0], "0")
    for n, factor in enumerate(factors[1:], 1):
        product = product.times(figure(*factor, str(n), "1"), "g")
    inputs = draws()
    truths = (math.prod(inputs.one(*factor) for factor in factors) for _ in range(N))
    assert 0.77 <= coverage(product.low, product.high, truths) <= 0.82


@pytest.mark.parametrize("weight", [0.05, 0.3, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("grid", [(1.0, 0.97, 1.03), (1.0, 0.5, 1.5)])
@pytest.mark.parametrize("pue", [(1.0, 1.0, 1.0), ONE_SIDED])
def test_a_score_holds_the_truth_eight_times_in_ten(weight, grid, pue):
    """O + M of one part and its host: meter x grid x PUE + (part + host) / life.

    First order misses up to five points where wide one-sided parts are summed.
    """
    operational = figure(*METER, "meter").times(figure(*grid, "grid", "1"), "g")
    operational = operational.times(figure(*pue, "pue", "1"), "g").scaled(weight * 40)
    life = figure(*LIFE, "life", "1")
    embodied = figure(*WIDE, "part").over(life, "g") + figure(*HOST, "host").over(life, "g")
    whole = operational + embodied
    inputs = draws()

    def truth():
        years = inputs.one(*LIFE)
        made = (inputs.one(*WIDE) + inputs.one(*HOST)) / years
        run = inputs.one(*METER) * inputs.one(*grid) * inputs.one(*pue)
        return weight * 40 * run + made

    assert 0.74 <= coverage(whole.low, whole.high, (truth() for _ in range(N))) <= 0.85


@pytest.mark.parametrize("ends", [(0.95, 1.05), (0.18, 1.45), (0.9, 2.0), (0.05, 20.0), (1.0, 1.0)])
@pytest.mark.parametrize("factors", [(METER, MODEL), (METER, ONE_SIDED, MODEL)])
def test_a_fitted_figure_has_the_ends_that_were_asked_for_and_the_same_inputs(factors, ends):
    product = figure(*factors[0], "0")
    for n, factor in enumerate(factors[1:], 1):
        product = product.times(figure(*factor, str(n), "1"), "g")
    fitted = product.fitted(*ends)
    assert fitted.inputs.keys() == product.inputs.keys()
    assert (fitted.low, fitted.high) == pytest.approx(ends)


def test_independent_errors_of_equal_parts_shrink_with_their_number():
    """Four meters of +-5 %: +-2.5 % of their sum; one meter read four times stays at +-5 %."""
    four = total(figure(*METER, f"meter {n}") for n in range(4))
    assert four.high / four.value == pytest.approx(1.025, abs=2e-4)
    assert four.low / four.value == pytest.approx(0.975, abs=2e-4)
    same = total(figure(*METER, "meter") for _ in range(4))
    assert (same.low, same.high) == pytest.approx((3.8, 4.2))


def test_a_quotient_cancels_what_both_sides_share():
    """60.5 kWh against 59.4 kWh of one meter: 1.0185, whatever the meter's gain."""
    before, after = (figure(v, v * 0.95, v * 1.05, "meter", "kWh") for v in (59.4, 60.5))
    ratio = after.over(before, "1")
    assert (ratio.low, ratio.high) == pytest.approx((60.5 / 59.4, 60.5 / 59.4))
    other = after.over(before.as_input("another meter"), "1")
    assert other.low < 1 < other.high


@pytest.mark.parametrize("mix", [(3, 1, 1), (1, 1, 4), (2, 3, 5)])
def test_a_quotient_of_sums_of_the_same_wide_inputs_holds_the_truth_eight_times_in_ten(mix):
    """Two months of the same three parts, each wide, in other amounts: drawn 4 000 times."""
    names = ("one", "two", "three")
    one = total(figure(*WIDE, name) for name in names)
    other = total(figure(*WIDE, name).scaled(n) for name, n in zip(names, mix, strict=True))
    inputs = draws()

    def truth(above, below):
        parts = [inputs.one(*WIDE) for _ in names]  # one draw moves both sides
        return sum(map(mul, above, parts)) / sum(map(mul, below, parts))

    for quotient, above, below in (
        (other.over(one, "1"), mix, (1, 1, 1)),
        (one.over(other, "1"), (1, 1, 1), mix),
    ):
        drawn = (truth(above, below) for _ in range(4_000))
        assert 0.77 <= coverage(quotient.low, quotient.high, drawn) <= 0.83


def test_the_same_in_eight_is_eight_times_the_same():
    life = figure(*LIFE, "life", "1")
    one = figure(*WIDE, "part").over(life, "g") + figure(*HOST, "host").over(life, "g")
    parts = [figure(*WIDE, "part").over(life, "g") for _ in range(8)]
    eight = total([*parts, figure(*HOST, "host").scaled(8).over(life, "g")])
    ends = [8 * end for end in (one.value, one.low, one.high)]
    assert (eight.value, eight.low, eight.high) == pytest.approx(ends)


def test_a_range_down_to_zero_stays_a_range():
    wide = figure(1.0, 0.0, 2.0, "guess").times(figure(*METER, "meter", "1"), "g")
    assert 0 <= wide.low < 0.2
    assert 1.9 < wide.high < 2.3


def test_zero_and_negative_figures_span_every_combination():
    zero = figure(0.0, 0.0, 3.0, "a").times(figure(2.0, 1.0, 4.0, "b", "1"), "g")
    assert (zero.low, zero.value, zero.high) == (0, 0, 12)
    saved = figure(-1.0, -2.0, 1.0, "a") + figure(2.0, 1.0, 4.0, "b")
    assert (saved.low, saved.value, saved.high) == (-1, 1, 5)
