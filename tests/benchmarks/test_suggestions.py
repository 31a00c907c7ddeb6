"""The tables and the accuracy report of the suggestions: current, and within their aims."""

from __future__ import annotations

import math

import pytest

from benchmarks.suggestions import __main__ as benchmark
from benchmarks.suggestions import tables
from benchmarks.suggestions.accuracy import Replay
from benchmarks.suggestions.hard_pairs import HARD_PAIRS
from benchmarks.suggestions.replay import throughput_errors, thumb
from gramwatt.sci.advice.prediction.measurements import measurements
from gramwatt.sci.advice.prediction.specs import all_specs
from gramwatt.sci.catalog.catalog import load_catalog

CATALOG = load_catalog()


@pytest.fixture(scope="module")
def replay():
    return Replay(measurements(), all_specs(CATALOG))


def test_the_shipped_tables_and_the_report_are_those_of_the_measurements(replay):
    made = tables.files(replay)
    stale = [path.name for path in made if not tables.is_current(path.read_text(), made[path])]
    assert stale == []
    assert len(made) == 5


@pytest.mark.parametrize(
    ("shipped", "made", "current"),
    [
        ("a,1.00000\n", "a,1.00009\n", True),
        ("a,1.00000\n", "a,1.00020\n", False),
        ("a,1\n", "b,1\n", False),
        ("a,1\n", "a,1\nb,1\n", False),
        ("a,0.0046567\n", "a,0.0046545\n", True),
    ],
)
def test_a_table_is_current_but_for_rounding(shipped, made, current):
    assert tables.is_current(shipped, made) is current


def test_the_aims_are_met(replay):
    assert benchmark.missed_aims(replay) == []


def test_an_aim_that_is_missed_is_named(replay, monkeypatch):
    monkeypatch.setattr(benchmark, "P90_MOST", 0.3)
    monkeypatch.setattr(benchmark, "COVERED_MOST", 0.85)
    error, coverage = benchmark.missed_aims(replay)
    assert error == "error 12.7% and 36.5% overall"
    assert coverage == "coverage 88.8% of 4180 pairs"


def test_the_range_of_decoding_holds_four_kept_out_pairs_in_five(replay):
    [shipped] = [
        r
        for r in replay.ranges()
        if (r.workload_class, r.figure, r.known) == ("decode", "time", "full")
    ]
    errors = [r.error for r in replay.by_workload["full"] if r.workload_class == "decode"]
    inside = sum(abs(error) <= math.log(shipped.factor) for error in errors)
    assert inside / len(errors) == pytest.approx(0.8, abs=0.01)


def test_a_rule_of_thumb_by_hand(replay):
    [residual] = thumb([replay.by_workload["full"][0].pair], replay.specs, "TDP")
    now, target = residual.pair.now, residual.pair.target
    watts = [replay.specs[row.hardware].tdp_w for row in (now, target)]
    faster = watts[1] / watts[0] / (target.units_per_s / now.units_per_s)
    assert throughput_errors([residual]) == pytest.approx((abs(faster - 1),) * 2)


@pytest.mark.parametrize("pair", HARD_PAIRS, ids=lambda pair: f"{pair.number}-{pair.target}")
def test_pairs_where_peaks_fail_are_inside_the_range_or_refused(pair):
    assert 1 / pair.time_ratio() == pytest.approx(pair.published, rel=0.06)
    answer = pair.prediction(CATALOG)
    if answer.time is None:
        assert answer.reasons
    else:
        assert answer.time.low <= pair.time_ratio() <= answer.time.high


def test_all_sixteen_pairs_are_there():
    assert sorted({pair.number for pair in HARD_PAIRS}) == list(range(1, 17))


@pytest.mark.parametrize("number", [6, 7])
def test_a_b200_is_never_twice_as_good_at_few_sequences(number):
    [pair] = [pair for pair in HARD_PAIRS if pair.number == number]
    answer = pair.prediction(CATALOG)
    assert (answer.time, answer.energy, answer.basis) == (None, None, "none")
