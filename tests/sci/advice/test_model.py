"""The time model: sanity by property, known pairs, shipped tables, held-out accuracy."""

from __future__ import annotations

import importlib.util
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.sci.advice.prediction import replay
from gramwatt.sci.advice.prediction.evidence import collected
from gramwatt.sci.advice.prediction.hard_pairs import HARD_PAIRS
from gramwatt.sci.advice.prediction.regression import fit, kept, observations
from gramwatt.sci.advice.prediction.rows import CLASSES, measurements, source_texts, table
from gramwatt.sci.advice.prediction.specs import Specs, all_specs
from gramwatt.sci.advice.prediction.time_model import Setting, shipped_model
from tests.packages import ROOT
from tests.sci.advice.asking import CATALOG, H100

SPECS = all_specs(CATALOG)
FITTED = ("training", "batch-inference", "decode", "prefill", "recsys")
SETTINGS = st.builds(
    Setting,
    st.sampled_from(FITTED),
    st.sampled_from((None, "pytorch", "tuned", "llama.cpp")),
    st.sampled_from((None, "fp16", "bf16", "tf32", "int8", "q4")),
)
PARTS = st.sampled_from(sorted(SPECS)).map(SPECS.__getitem__)
MODEL = shipped_model()


@given(SETTINGS, PARTS, PARTS, PARTS)
def test_there_and_back_is_one_and_ways_agree(setting, a, b, c):
    there, back = MODEL.log_time_ratio(setting, a, b), MODEL.log_time_ratio(setting, b, a)
    assert (there is None) == (back is None)
    if there is None:
        return
    assert there + back == pytest.approx(0, abs=1e-12)
    assert MODEL.log_time_ratio(setting, a, a) == 0
    onward = MODEL.log_time_ratio(setting, b, c)
    if onward is not None:
        assert there + onward == pytest.approx(MODEL.log_time_ratio(setting, a, c), abs=1e-9)


@given(SETTINGS, st.floats(1, 2000), st.floats(50, 10_000), st.floats(1, 10), st.floats(1, 10))
def test_a_part_with_more_of_everything_is_never_predicted_slower(setting, tflops, gbs, x, y):
    lesser = Specs("new-a", tflops, 2 * tflops, tflops / 2, gbs, 300, 80)
    greater = Specs("new-b", tflops * x, 2 * tflops * x, tflops * x / 2, gbs * y, 300, 80)
    assert MODEL.log_time_ratio(setting, lesser, greater) <= 1e-12


@settings(max_examples=40)
@given(st.floats(1e8, 1e12), st.floats(1.01, 10), st.sampled_from(("inference", "training")))
def test_a_larger_model_never_fits_where_a_smaller_does_not(size, more, kind):
    from tests.sci.advice.asking import fits

    if fits(H100, model_parameters=size * more, kind=kind):
        assert fits(H100, model_parameters=size, kind=kind)


@pytest.mark.parametrize("pair", HARD_PAIRS, ids=lambda pair: f"{pair.number}-{pair.target}")
def test_pairs_where_peaks_fail_are_inside_the_range_or_refused(pair):
    now, target = pair.rows()
    faster = target.units_per_s / now.units_per_s
    assert faster == pytest.approx(pair.published, rel=0.06)
    said = pair.said(CATALOG)
    if said.time is None:
        assert said.reasons
    else:
        assert said.time.low <= 1 / faster <= said.time.high


def test_all_sixteen_pairs_are_there():
    assert sorted({pair.number for pair in HARD_PAIRS}) == list(range(1, 17))


@pytest.mark.parametrize("number", [6, 7])
def test_a_b200_is_never_twice_as_good_at_few_sequences(number):
    [pair] = [pair for pair in HARD_PAIRS if pair.number == number]
    said = pair.said(CATALOG)
    assert (said.time, said.energy, said.basis) == (None, None, "none")


def test_the_shipped_coefficients_are_those_of_the_measurements():
    made = kept(fit(observations(measurements(), SPECS)))
    assert set(made) == set(MODEL.terms)
    for term, value in made.items():
        assert MODEL.terms[term] == pytest.approx(value, rel=1e-4, abs=1e-7)


def test_the_shipped_evidence_is_that_of_the_measurements():
    made = {(one.key, one.figure): one for one in collected(measurements(), SPECS)}
    shipped = {(row.text("key"), row.text("figure")): row for row in table("evidence.csv")}
    assert set(made) == set(shipped)
    for key, one in made.items():
        cells = [shipped[key].known(name) for name in ("low", "value", "high", "pairs")]
        assert cells == pytest.approx([one.low, one.value, one.high, one.pairs], rel=1e-4)


def test_the_range_of_decoding_is_that_of_workloads_kept_out():
    seen = observations(measurements(), SPECS)
    asked = [
        pair
        for pair in replay.pairs(one.row for one in seen)
        if pair.now.workload_class == "decode"
    ]
    found = replay.leave_out(seen, SPECS, lambda row: row.family, {"full": replay.full}, asked)[
        "full"
    ]
    offs = [one.off for one in found]
    shipped = {
        (row.text("class"), row.text("figure"), row.text("known")): row.known("factor")
        for row in table("ranges.csv")
    }
    assert shipped["decode", "time", "full"] == pytest.approx(replay.factor(offs), rel=1e-4)
    width = math.log(shipped["decode", "time", "full"])
    assert sum(abs(off) <= width for off in offs) / len(offs) == pytest.approx(0.8, abs=0.01)
    middle, tail = replay.errors(offs)
    bandwidth = [
        replay.spec_ratio(pair, SPECS, replay.RULES_OF_THUMB["bandwidth"]) - pair.log_time
        for pair in asked
    ]
    assert middle < replay.errors(bandwidth)[0]
    assert tail < replay.errors(bandwidth)[1]


def test_the_accuracy_report_meets_its_aims():
    report = (ROOT / "docs" / "suggestions-accuracy.md").read_text("utf-8")
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in report.splitlines()
        if line.startswith("| ")
    ]
    errors = {
        (c[0], c[1]): [float(x.strip("%")) for x in c[3:]]
        for c in lines
        if len(c) == 5 and "%" in c[3]
    }
    ours = errors["leave one workload out", "all"]
    assert ours[0] <= 15
    assert ours[1] <= 45
    for name in (*FITTED, "small", "all"):
        for other in ("peak ratio", "bandwidth ratio"):
            assert errors["leave one workload out", name] < errors[other, name]
    shares = {(c[0], c[1]): float(c[3].strip("%")) for c in lines if len(c) == 4 and "%" in c[3]}
    for kept_out in ("one workload", "every second workload, from fit and ranges"):
        assert 76 <= shares[kept_out, "all"] <= 90
    claims = [c for c in lines if len(c) == 6 and c[0] != "class"]
    said, right = (sum(int(c[at]) for c in claims) for at in (3, 4))
    assert right / said >= 0.9


def test_measurements_hold_what_their_columns_say():
    keys = set(source_texts())
    for row in measurements():
        assert row.workload_class in CLASSES
        assert row.hardware in SPECS
        assert row.source in keys
        assert row.units_per_s > 0
        assert row.use in ("time", "power", "none")
    ids = [row.id for row in measurements()]
    assert len(ids) == len(set(ids)) == 1056


def test_the_fit_script_names_every_table_it_makes():
    spec = importlib.util.spec_from_file_location("fit", ROOT / "scripts" / "fit_throughput.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name in ("fit.csv", "ranges.csv", "power.csv", "evidence.csv"):
        assert (script.DATA / name).is_file()
