"""Comparisons: refused unless made alike, split without a remainder, silent when ranges meet."""

import copy
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.zones import Zones
from gramwatt.sci.month.compare import TERMS, compare, compared_as, ratios, verdict
from tests.documents import cluster_job

DOCUMENT = cluster_job()


def variant(*, energy=1.0, intensity=1.0, pue=1.0, embodied=1.0, units=1.0, spread=0.01):
    """The document with its terms multiplied, all its ranges `spread` wide."""
    doc = copy.deepcopy(DOCUMENT)

    def put(owner, name, value):
        ends = {"value": value, "low": value * (1 - spread), "high": value * (1 + spread)}
        setattr(owner, name, replace(getattr(owner, name), **ends))
        return value

    method, row = doc.method, doc.sci[0]
    e = put(doc, "energy_kwh", doc.energy_kwh.value * energy)
    i = put(method, "intensity_g_per_kwh", method.intensity_g_per_kwh.value * intensity)
    p = put(method, "pue", method.pue.value * pue)
    m = put(doc, "embodied_g", doc.embodied_g.value * embodied)
    row.count *= units
    put(doc, "operational_g", e * i * p)
    put(doc, "total_g", e * i * p + m)
    put(row, "g_per_unit", (e * i * p + m) / row.count)
    return doc


def test_annual_intensity_claims_carbon_only_where_the_range_by_hour_allows_it():
    """Noon and evening of a day in California: 0.7 of the energy is not less carbon for certain."""
    zone = Zones().zone("US-CAL-CISO")
    noon, evening = (zone.over(1, datetime(2026, 6, 10, hour, tzinfo=UTC)) for hour in (19, 3))
    answers = {}
    for energy in (0.7, 0.1):
        ratio, by_hour = ratios(noon, evening.scaled(energy))
        assert verdict(ratio) == "lower"
        answers[energy] = compared_as(ratio, by_hour), ratio, by_hour
    (compares, shown, known), ratio, _ = answers[0.7]
    assert (compares, shown) == ("equal-intensity", ratio)
    assert known.low < 1 < known.high
    found, ratio, by_hour = answers[0.1]
    assert found == ("carbon", by_hour, None)
    assert by_hour.high - by_hour.low > 10 * (ratio.high - ratio.low)
    same = ratios(noon, noon.scaled(0.7))
    assert compared_as(*same) == ("carbon", same[0], None)


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"energy": 0.5}, "energy per unit"),
        ({"units": 2.0}, "energy per unit"),
        ({"intensity": 0.5}, "intensity"),
        ({"pue": 1.3}, "PUE"),
        ({"embodied": 4.0}, "embodied carbon per unit"),
        ({"energy": 2.0, "embodied": 2.0, "units": 2.0}, None),
    ],
)
def test_the_term_that_moved_is_named(change, moved):
    assert compare(variant(), variant(**change)).moved == moved


def test_the_effect_of_one_term_is_the_whole_change():
    found = compare(variant(), variant(intensity=0.25))
    before = DOCUMENT.operational_g.value / DOCUMENT.sci[0].count
    assert found.effects_g_per_unit["intensity"] == pytest.approx(-0.75 * before)
    assert found.change_g_per_unit == pytest.approx(-0.75 * before)
    others = [found.effects_g_per_unit[term] for term in TERMS if term != "intensity"]
    assert others == [0.0] * 3


factors = st.fixed_dictionaries(dict.fromkeys((*TERMS, "units"), st.floats(0.01, 100)))


@given(factors, factors)
@example({}, {"energy": 1.1, "units": 1.1})  # both halves differ by rounding only
def test_effects_sum_to_the_change_and_turn_with_it(one, other):
    found = compare(variant(**one), variant(**other))
    scale = found.before.g_per_unit.value + found.after.g_per_unit.value
    effects = found.effects_g_per_unit
    assert sum(effects.values()) == pytest.approx(found.change_g_per_unit, abs=1e-9 * scale)
    back = compare(variant(**other), variant(**one)).effects_g_per_unit
    assert back == {term: pytest.approx(-effects[term], abs=1e-9 * scale) for term in TERMS}


@pytest.mark.parametrize("term", ["energy", "intensity", "embodied"])
def test_a_term_that_falls_to_zero_explains_its_half(term):
    found = compare(variant(), variant(**{term: 0.0}))
    effects = found.effects_g_per_unit
    assert effects[term] == pytest.approx(found.change_g_per_unit)
    assert sum(effects.values()) == pytest.approx(found.change_g_per_unit)


def test_verdicts():
    def ratio(low, high):
        return Quantity((low + high) / 2, low, high, "1", "estimated", "test")

    assert verdict(ratio(0.7, 0.99)) == "lower"
    assert verdict(ratio(1.01, 1.2)) == "higher"
    assert verdict(ratio(0.9, 1.0)) == "no-reliable-difference"
    assert verdict(ratio(0.95, 1.3)) == "no-reliable-difference"


def elsewhere(document):
    """The same job with other meters, parts and grid: no input of it is shared."""
    for term in ("energy_kwh", "operational_g", "embodied_g"):
        figure = getattr(document, term)
        effects = {f"{id_}:elsewhere": ends for id_, ends in figure.effects.items()}
        setattr(document, term, replace(figure, effects=effects))
    return document


def test_what_both_jobs_share_does_not_hide_a_difference():
    """5 % less energy of the same meters, on the same parts and grid."""
    found = compare(variant(), variant(energy=0.95))
    assert found.verdict == "lower"
    assert found.ratio.low <= found.ratio.value <= found.ratio.high < 1
    apart = compare(variant(), elsewhere(variant(energy=0.95)))
    assert apart.verdict == "no-reliable-difference"
    assert compare(variant(), elsewhere(variant(energy=0.1, embodied=0.1))).verdict == "lower"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("standard", "another", "the standard"),
        ("engine_version", "1", "the engine's version"),
        ("catalog_version", "2020", "the catalog's version"),
        ("intensity_signal", "marginal", "the intensity's signal"),
        ("intensity_basis", "direct", "the intensity's basis"),
        ("boundary_included", ["less"], "the boundary"),
        ("boundary_excluded", [], "the boundary"),
        (
            "lifetime_years",
            Quantity.exact(3.0, "year", "declared", "test"),
            "the expected lifetime",
        ),
        ("pue", Quantity.exact(1.0, "1", "estimated", "test"), "the way PUE is known"),
    ],
)
def test_scores_of_different_methods_are_refused(field, value, said):
    other = variant()
    setattr(other.method, field, value)
    with pytest.raises(ScoreError, match=said) as caught:
        compare(variant(), other)
    assert caught.value.code == "not-comparable"


def test_real_and_synthetic_readings_are_not_compared():
    other = variant()
    other.notices.append(Notice("meter-synthetic", "x"))
    with pytest.raises(ScoreError, match=r"the meters \(one is synthetic\) differ"):
        compare(variant(), other)
    assert compare(other, other).ratio.value == 1


def test_every_difference_is_listed():
    other = variant()
    other.method.engine_version, other.method.intensity_signal = "1", "marginal"
    with pytest.raises(ScoreError, match="engine's version; the intensity's signal"):
        compare(variant(), other)


def test_another_unit_is_refused():
    with pytest.raises(ScoreError, match="has no 'image'; it has token"):
        compare(variant(), variant(), unit="image")


def test_an_unknown_score_is_refused():
    other = variant()
    other.sci[0].g_per_unit = None
    with pytest.raises(ScoreError, match="has no score"):
        compare(variant(), other)


def test_real_documents_compare():
    found = compare(cluster_job(), cluster_job(pue=1.5))
    assert found.moved == "PUE"
    assert found.ratio.value > 1
