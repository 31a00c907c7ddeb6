"""Repeated runs: sums that split without a remainder, and ranges that hold what they promise."""

import copy
import math
import random
import statistics

import pytest
from msgspec.structs import replace

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.compare import Side
from gramwatt.sci.month.repeated import RUNS_MOST, compare_runs, repetition
from tests.documents import cluster_job

DOCUMENT = cluster_job(gpus=1)


def run(job_id, *, energy=1.0, units=1.0):
    """The document as another run with its energy and its count multiplied, all else equal."""
    doc = copy.deepcopy(DOCUMENT)
    doc.job_id = job_id
    for term in ("energy_kwh", "operational_g"):
        whole = getattr(DOCUMENT, term)
        ends = {end: getattr(whole, end) * energy for end in ("value", "low", "high")}
        setattr(doc, term, replace(whole, **ends))
    doc.sci[0].count *= units
    return doc


def c_per_r(*documents):
    """sum(C) / sum(R) [g/unit], by hand."""
    carbon = sum(d.operational_g.value + d.embodied_g.value for d in documents)
    return carbon / sum(d.sci[0].count for d in documents)


def counting(document, unit):
    """The document as one that counted another unit."""
    document.sci[0].unit = unit
    return document


def test_runs_without_the_unit_are_left_out_and_of_none_whole_jobs_are_compared():
    unit = DOCUMENT.sci[0].unit
    after = [run("b1", energy=0.5), counting(run("b2", energy=9.0), "job")]
    answer = compare_runs([counting(run("a1"), "job"), run("a2")], after)
    assert answer.unit == unit
    assert [side.runs[0].job_id for side in (answer.before, answer.after)] == ["a2", "b1"]
    assert [len(side.runs) for side in (answer.before, answer.after)] == [1, 1]
    plain = counting(run("a1", units=1 / DOCUMENT.sci[0].count), "job")
    whole = compare_runs([plain], [run("b1", energy=0.5)])
    assert (whole.unit, whole.after.count) == ("job", 1.0)
    assert whole.after.g_per_unit.value == pytest.approx(
        c_per_r(run("b1", energy=0.5)) * run("b1").sci[0].count
    )
    with pytest.raises(ScoreError, match="--unit job compares whole jobs"):
        compare_runs([run("a1")], [counting(run("b1"), "picture")])


def test_several_runs_are_their_sums_and_the_effects_add_up_to_the_change():
    before = [run("a1"), run("a2", energy=1.1, units=1.2)]
    after = [run("b1", energy=0.6), run("b2", energy=0.7), run("b3", energy=0.65, units=0.9)]
    found = compare_runs(before, after)
    assert found.before.g_per_unit.value == pytest.approx(c_per_r(*before))
    assert found.after.g_per_unit.value == pytest.approx(c_per_r(*after))
    change = c_per_r(*after) - c_per_r(*before)
    assert found.change_g_per_unit == pytest.approx(change)
    assert sum(found.effects_g_per_unit.values()) == pytest.approx(change)
    scores = [c_per_r(document) for document in after]
    scatter = statistics.stdev(scores) / statistics.mean(scores)
    assert found.after.scatter == pytest.approx(scatter)
    assert (found.verdict, found.moved) == ("lower", "energy per unit")


def test_how_many_runs_a_side_has_is_no_effect():
    several = [run("a1"), run("a2"), run("a3")]
    effects = compare_runs(several, [run("b", energy=0.5)]).effects_g_per_unit
    change = -0.5 * DOCUMENT.operational_g.value / DOCUMENT.sci[0].count
    assert effects == {"energy": pytest.approx(change), "intensity": 0, "pue": 0, "embodied": 0}


def test_the_same_runs_give_the_same_answer_and_one_run_a_side_says_what_is_not_known():
    sides = [run("a1"), run("a2", energy=1.02)], [run("b1", energy=0.9), run("b2", energy=0.93)]
    assert compare_runs(*sides) == compare_runs(*sides)
    single = compare_runs(sides[0][:1], sides[1][:1])
    assert single.repetition_ratio is None
    assert single.ratio == single.measurement_ratio
    assert (single.verdict, single.ratio.high < 1) == ("unknown", True)
    assert "run each side again" in single.text


def test_of_one_run_a_side_the_history_of_the_command_says_how_far_runs_lie_apart():
    sides = [run("a")], [run("b", energy=0.9)]
    wild = [run(f"h{n}", energy=energy) for n, energy in enumerate((0.7, 1.0, 1.3))]
    assert compare_runs(*sides, history=wild).verdict == "no-reliable-difference"
    steady = [run(f"h{n}", energy=energy) for n, energy in enumerate((0.99, 1.0, 1.01))]
    assert compare_runs(*sides, history=steady).verdict == "lower"
    other = run("o")
    other.method.intensity_basis = "direct"
    assert compare_runs(*sides, history=[steady[0], other]).verdict == "unknown"


def test_runs_that_lie_far_apart_hide_a_difference_that_the_meters_alone_would_show():
    steady = compare_runs([run("a1"), run("a2")], [run("b1", energy=0.8), run("b2", energy=0.8)])
    assert steady.verdict == "lower"
    wild = [run("a1", energy=0.7), run("a2", energy=1.3)]
    found = compare_runs(wild, [run("b1", energy=0.5), run("b2", energy=1.1)])
    assert found.measurement_ratio.high < 1 < found.ratio.high
    assert found.verdict == "no-reliable-difference"
    assert found.text.startswith("No reliable difference")


def test_a_single_run_against_several_is_taken_to_scatter_as_they_do():
    several = [run(f"a{n}", energy=energy) for n, energy in enumerate((0.9, 1.0, 1.1))]
    found = compare_runs(several, [run("b", energy=1.0)])
    low, high = found.repetition_ratio.low, found.repetition_ratio.high
    # One run of three: a tenth of the scores lies at 0.9 or 1.1 of their mean, or beyond.
    assert low < 0.95
    assert high > 1.05


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (["a", "a"], ["b"], "named twice"),
        (["a"], ["a"], "named twice"),
        (["a"], [], "1 to 50 runs"),
        ([f"r{n}" for n in range(RUNS_MOST + 1)], ["b"], "1 to 50 runs"),
    ],
)
def test_sides_that_make_no_sense_are_refused(before, after, said):
    with pytest.raises(ScoreError, match=said):
        compare_runs([run(name) for name in before], [run(name) for name in after])


def test_a_run_of_another_method_is_refused_with_the_reason():
    other = run("b2")
    other.method.intensity_basis = "direct"
    with pytest.raises(ScoreError, match="the intensity's basis"):
        compare_runs([run("a")], [run("b1"), other])


def side(score):
    figure = Quantity.exact(score, "gCO2e/image", "measured", "test")
    return Side("job", 1, 1.0, figure, {})


@pytest.mark.parametrize("runs", [(2, 2), (3, 3), (5, 2), (10, 10)])
def test_the_range_of_repetition_holds_the_truth_eight_times_in_ten(runs, monkeypatch):
    """Log-normal runs of 8 % scatter and no difference: 0.8 of 250 ranges should hold 1."""
    monkeypatch.setattr("gramwatt.sci.month.repeated.DRAWS", 400)
    source = random.Random(7)
    held = 0
    for _ in range(250):
        sides = [[side(math.exp(source.gauss(0, 0.08))) for _ in range(n)] for n in runs]
        one, other = (statistics.fmean(run.g_per_unit.value for run in runs) for runs in sides)
        ratio = Quantity.exact(other / one, "1", "measured", "test")
        found = repetition(ratio, *sides)
        held += found.low <= 1 <= found.high
    # Three standard errors of a share of 0.8 in 250 draws are 0.076; cautious is allowed.
    assert held / 250 >= 0.8 - 0.076
    assert held / 250 <= 0.95
