"""Serving without measuring: against metered runs, by hand, and what must hold of any model."""

import csv
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.estimate.answer import estimates
from gramwatt.sci.estimate.request import parse_estimate_request
from gramwatt.sci.estimate.serving import RATE_ERROR, Model, serving_rate
from gramwatt.sci.figures.quantity import Quantity

CATALOG = load_catalog()
METERED = Path(__file__).parents[2] / "data" / "serving_rates.csv"
SERVED = {"kind": "inference", "model_parameters": 8e9, "zone": "DE", "pue": 1.2}


def answer(**question):
    return estimates(parse_estimate_request({**SERVED, **question}), CATALOG)


def exact(value):
    return Quantity.exact(value, "1", "declared", "a test")


def test_most_rates_of_other_sources_lie_in_the_range():
    """Sources that it was not fitted to: MLPerf Inference, tuned; ML.ENERGY of 2023, not tuned."""
    inside = []
    for row in csv.DictReader(METERED.read_text("utf-8").splitlines()):
        size = float(row["parameters"])
        model = Model(size, float(row["activated"]), float(row["weight_bytes"]))
        part = CATALOG.hardware(row["hardware"])
        rate = serving_rate(model, part, 1.0, float(row["devices"]), exact(float(row["sequences"])))
        inside.append(rate.low <= float(row["tokens_per_s"]) / float(row["devices"]) <= rate.high)
    assert len(inside) == 60
    assert 0.7 <= sum(inside) / len(inside) <= 0.95


def test_a_step_by_hand():
    """8B in 16 bits on an H100 SXM: 64 sequences with a cache of 1100 tokens each."""
    model, part = Model(8e9, 8e9, 2.0), CATALOG.hardware("nvidia-h100-sxm5-80")
    layers = (8e9 / (12 * 128**2)) ** (1 / 3)
    cache = 4 * layers * 128 * layers / 8 * 1100
    memory_s = (16e9 + 64 * cache) / (3350e9 * 0.8)
    arithmetic_s = 2 * 8e9 * 64 / (989e12 * 0.25)
    rate = serving_rate(model, part, 1.0, 1.0, exact(64.0))
    assert rate.value == pytest.approx(64 / (layers * 0.00015 + memory_s + arithmetic_s))
    assert (rate.value / rate.low, rate.high / rate.value) == pytest.approx((RATE_ERROR,) * 2)


@given(st.floats(1e8, 1e12), st.sampled_from([0.5, 1.0, 2.0]), st.integers(1, 8))
def test_more_sequences_make_more_tokens_and_more_devices_no_more_each(size, weight, devices):
    model = Model(size, size, weight)
    rates = [model.tokens_per_s(1e15, 3e12, devices, number) for number in (1, 4, 64, 1024)]
    assert rates == sorted(rates)
    one, several = (model.tokens_per_s(1e15, 3e12, n, 64) for n in (1, devices))
    assert one * (1 - 1e-9) <= several <= devices * one * (1 + 1e-9)


def test_tokens_and_requests_are_the_same_work():
    by_tokens = answer(hardware="L4", tokens=3e8)
    by_requests = answer(hardware="L4", requests=1e6, tokens_per_request=300)
    [first], [second] = by_tokens.answers, by_requests.answers
    assert first.work == second.work == "serving"
    assert first.total_g == second.total_g
    assert first.g_per_million_tokens.value == pytest.approx(first.total_g.value / 300)
    assert [row.unit for row in second.sci] == ["request"]
    assert "serving 300M tokens by an 8B model on L4" in by_tokens.summary


def test_ten_times_the_tokens_take_ten_times_the_carbon():
    [small], [large] = (answer(hardware="L40S", tokens=n).answers for n in (1e8, 1e9))
    assert large.total_g.value == pytest.approx(10 * small.total_g.value)
    assert large.g_per_million_tokens.value == pytest.approx(small.g_per_million_tokens.value)


def test_a_model_takes_as_many_devices_as_hold_it():
    """70e9 x 2 B x 1.1 are 143 GiB and more with caches: no card of 80 GB holds it alone."""
    row = answer(hardware="H100 SXM", model_parameters=70e9, tokens=1e9).answers[0]
    assert row.count == 3
    assert row.device_hours.value == pytest.approx(3 * row.time_h.value)
    half = answer(hardware="H100 SXM", model_parameters=70e9, tokens=1e9, precision="fp8")
    assert half.answers[0].count == 2
    refused = answer(hardware="H100 SXM", count=1, model_parameters=70e9, tokens=1e9)
    assert refused.answers == []
    assert (refused.left_out[0].word, refused.summary[:10]) == ("does not fit", "No answer:")
    assert "3 of them, not 1" in refused.left_out[0].reason


def test_an_endpoint_that_is_always_on_is_power_times_hours():
    [row] = answer(hardware="L4", hours=700).answers
    [plain] = answer(hardware="L4", hours=700, kind=None, model_parameters=None).answers
    assert row.total_g == plain.total_g
    tokens = row.total_g.value / row.g_per_million_tokens.value * 1e6
    assert 1e8 < tokens < 1e10
    assert plain.g_per_million_tokens is None
    too_many = answer(hardware="L4", hours=1, tokens=1e10).answers[0]
    assert "input-implausible" in {notice.code for notice in too_many.notices}


def test_several_are_ranked_and_what_both_rest_on_cancels():
    names = ["L4", "H100 SXM", "B200", "L40S"]
    rows = answer(hardware=names, tokens=1e9).answers
    grams = [row.total_g.value for row in rows]
    assert grams == sorted(grams)
    for row in rows[1:]:
        assert row.carbon_ratio.value == pytest.approx(row.total_g.value / grams[0])
        own = row.total_g.high / row.total_g.low
        assert row.carbon_ratio.high / row.carbon_ratio.low < own
        assert row.odds < 0.5
    assert rows[0].odds == pytest.approx(1 - rows[1].odds, abs=0.05)


def test_one_name_of_several_devices_answers_for_all():
    summary = answer(hardware="H100", tokens=1e9).summary
    assert summary.startswith("H100 may be 3 devices, for serving 1B tokens by an 8B model: ")


def test_hours_alone_say_that_they_are_not_the_same_work():
    doc = answer(hardware=["L4", "T4"], hours=10, kind=None, model_parameters=None)
    assert doc.summary.endswith("The same time on each, not the same work.")
    assert "not the same work" not in answer(hardware=["L4", "T4"], tokens=1e8).summary


def test_no_time_is_one_hour_and_energy_tells_the_hours():
    hour = answer(hardware="L4", kind=None, model_parameters=None)
    assert hour.answers[0].time_h.value == 1
    assert "one hour (no time is given)" in hour.summary
    kwh = hour.answers[0].energy_kwh.value
    [row] = answer(hardware="L4", energy_kwh=100 * kwh, kind=None, model_parameters=None).answers
    assert row.device_hours.value == pytest.approx(100)


def test_what_is_not_counted_is_named_beside_what_is():
    doc = estimates(parse_estimate_request({"energy_kwh": 120, "zone": "FR"}), CATALOG)
    [row] = doc.answers
    assert row.total_g is None
    assert row.missing == ["making the hardware is not counted; name it by hardware"]
    assert doc.summary.startswith("3.7")
    assert "from electricity" in doc.summary
    assert math.isclose(row.operational_g.value, row.carbon_g.value)
