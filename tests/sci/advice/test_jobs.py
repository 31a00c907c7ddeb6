"""Advice for measured jobs, and what measured jobs teach."""

from __future__ import annotations

import msgspec
import pytest

from gramwatt.sci.advice import jobs
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.jobs import for_job, for_month, report_lines, request_of, runs_a_year
from gramwatt.sci.advice.prediction.own_runs import OwnRow, own_ratios, own_row
from gramwatt.sci.advice.suggest_request import parse_suggest_request
from gramwatt.sci.figures.notices import Notice
from tests.documents import changed, steady_job, unread_job
from tests.sci.advice.requests import A100, CATALOG, H100, V100

NAMES = {A100: "NVIDIA A100-SXM4-80GB", H100: "NVIDIA H100 80GB HBM3"}


def own(job_id, hardware, units_per_s, power_w, workload="vision/resnet", **cells):
    return OwnRow(
        **{
            "job_id": job_id,
            "workload": workload,
            "workload_class": "training",
            "hardware": hardware,
            "count": 1,
            "unit": "image",
            "units_per_s": units_per_s,
            "power_w": power_w,
            **cells,
        }
    )


def test_a_job_document_becomes_the_request_it_asks():
    asked = request_of(steady_job(kind="training"))
    # Four H100 at 500 W for two hours.
    assert (asked.hardware, asked.count, asked.hours) == (H100, 4, 2)
    assert asked.mean_power_w == pytest.approx(500)
    assert asked.utilisation == pytest.approx(0.9)
    assert (asked.kind, asked.zone) == ("training", "DE")
    assert asked.units == {"image": 1_281_167}


def test_tags_say_what_the_meter_cannot_see():
    asked = request_of(
        steady_job(
            tags={"framework": "pytorch", "precision": "bf16", "batch_size": "64", "method": "lora"}
        )
    )
    assert (asked.framework, asked.precision) == ("pytorch", "bf16")
    assert (asked.batch_size, asked.method) == (64, "lora")


def test_a_tag_wins_over_what_the_record_says_and_the_record_over_nothing():
    tags = {"framework": "jax", "precision": "float32"}
    document = steady_job(framework="pytorch", precision="BFloat16", tags=tags)
    assert (document.framework, document.precision) == ("pytorch", "BFloat16")
    asked = request_of(document)
    assert (asked.framework, asked.precision) == ("jax", "fp32")
    asked = request_of(steady_job(framework="pytorch", precision="BFloat16"))
    assert (asked.framework, asked.precision) == ("pytorch", "bf16")
    asked = request_of(steady_job(framework="pytorch", tags={"framework": " ", "precision": "??"}))
    assert (asked.framework, asked.precision) == ("pytorch", None)
    assert request_of(steady_job(precision="posit")).precision is None


def test_tags_that_mean_nothing_here_do_not_cost_the_advice():
    tags = {"workload_class": "magic", "method": "prayer", "precision": "??", "batch_size": "many"}
    tags |= {"model_parameters": "inf", "framework": "x" * 300}
    asked = request_of(steady_job(tags=tags))
    assert (asked.workload_class, asked.method, asked.precision) == (None, None, None)
    assert (asked.batch_size, asked.model_parameters, asked.framework) == (None, None, None)


def test_names_this_catalog_does_not_know_do_not_cost_the_advice():
    for region in ("aws:moon-1", "eu-west-1"):
        answer = for_job(
            msgspec.structs.replace(steady_job(kind="training"), region=region), CATALOG
        )
        assert [one.action for one in report_lines(answer)] == ["power-cap"]
        assert answer.estimate.intensity_g_per_kwh.source.count("DE") >= 1
    gone = steady_job()
    for device in gone.devices[:4]:
        device.hardware = "own-part-1"
    assert [n.code for n in for_job(gone, CATALOG).notices] == ["advice-not-applicable"]


def test_a_job_gets_advice_and_the_report_its_lines():
    answer = for_job(steady_job(kind="training"), CATALOG)
    shown = report_lines(answer)
    assert [one.action for one in shown] == ["power-cap"]
    lighter = for_job(steady_job(kind="training", watts=300), CATALOG)
    assert [one.action for one in report_lines(lighter)] == ["keep"]
    assert answer.estimate.energy_kwh.value == pytest.approx(4 * 2 * 0.5 * 1.45)


def test_a_job_without_accelerator_gets_a_notice():
    answer = for_job(unread_job(), CATALOG)
    assert answer.suggestions == []
    assert [notice.code for notice in answer.notices] == ["advice-not-applicable"]


def test_a_month_shows_the_largest_certain_savings_first():
    measured = [
        steady_job("short", hours=1, kind="inference", tags=served()),
        steady_job("long", hours=3, kind="inference", tags=served()),
        steady_job("kept", hours=3, kind="training"),
    ]
    found = for_month(measured, CATALOG)
    assert [saving.job_id for saving in found] == ["long", "short", "kept"]
    assert [saving.action for saving in found] == ["batching", "batching", "power-cap"]
    assert all(saving.carbon_ratio.high < 1 for saving in found)
    assert found[0].reason.startswith("32 concurrent sequences instead of 8")
    saved = [saving.saved_g.value for saving in found]
    assert saved[0] == pytest.approx(3 * saved[1])


def test_a_month_looks_at_the_dearest_jobs_only(monkeypatch):
    monkeypatch.setattr(jobs, "JOBS_EXAMINED", 1)
    two = [
        steady_job(name, hours=h, kind="inference", tags=served())
        for name, h in (("a", 1), ("b", 2))
    ]
    assert [saving.job_id for saving in for_month(two, CATALOG)] == ["b"]


def test_synthetic_readings_neither_teach_nor_promise():
    made_up = steady_job(kind="inference", tags=served())
    assert own_row(made_up) is not None
    notice = Notice("meter-synthetic", "x")
    made_up.notices.append(notice)
    assert own_row(made_up) is None
    assert for_month([made_up], CATALOG) == []


def served():
    return {"model_parameters": "8e9", "batch_size": "8", "precision": "bf16"}


def test_a_measured_job_with_units_is_a_row_of_own_runs():
    row = own_row(steady_job("job-7", kind="training"))
    assert (row.hardware, row.count, row.unit) == (H100, 4, "image")
    assert row.units_per_s == pytest.approx(1_281_167 / 7200 / 4)
    assert row.power_w == pytest.approx(500)
    assert row.workload == "vision/job-7"
    assert row.workload_class == "training"


@pytest.mark.parametrize(
    ("kind", "tags", "name"),
    [
        ("inference", {}, "batch-inference"),
        ("evaluation", {}, "batch-inference"),
        ("inference", {"model_parameters": "8e9", "batch_size": "64"}, "llm-serving"),
        ("inference", {"model_parameters": "8e9", "batch_size": "1"}, "decode"),
        ("inference", {"workload_class": "recsys"}, "recsys"),
        ("other", {}, None),
    ],
)
def test_a_row_of_inference_has_the_class_of_its_work(kind, tags, name):
    assert own_row(steady_job(kind=kind, tags=tags)).workload_class == name


def test_two_inference_workloads_speak_for_a_third_but_serving_never_does():
    def rows(name):
        pairs = (("a", V100, 10), ("a", A100, 40), ("b", V100, 7), ("b", A100, 28))
        return [
            msgspec.structs.replace(own(str(at), part, rate, 250, work), workload_class=name)
            for at, (work, part, rate) in enumerate(pairs)
        ]

    found = own_ratios(rows("batch-inference"), V100, A100, "batch-inference", "new")
    assert found.time.value == pytest.approx(0.25)
    assert found.point.startswith("own measurements of 2 other workloads of class batch-inference")
    assert own_ratios(rows("llm-serving"), V100, A100, "llm-serving", "new") is None
    assert own_ratios(rows("llm-serving"), V100, A100, "llm-serving", "a") is not None


def test_only_complete_measured_jobs_with_units_teach():
    assert own_row(unread_job()) is None
    uncounted = [{"unit": "job", "count": 1.0, "g_per_unit": None}]
    assert own_row(changed(steady_job(), sci=uncounted)) is None
    document = steady_job()
    assert own_row(changed(document, state="killed")) is None
    document.devices[0].energy_j = document.devices[0].energy_j.of_kind("estimated")
    assert own_row(document) is None


def test_own_measurements_come_before_the_public_table():
    rows = [own("a", V100, 100, 250), own("b", A100, 400, 350)]
    request = parse_suggest_request(
        {"hardware": V100, "kind": "training", "zone": "DE", "candidates": [A100]}
    )
    [said] = swaps(suggest(request, CATALOG, rows, "vision/resnet"))
    assert said.basis == "direct"
    assert said.time_ratio.value == pytest.approx(0.25)
    assert said.verdict == "lower"
    [public] = swaps(suggest(request, CATALOG, rows, "other/work"))
    assert public.basis == "calibrated"


def swaps(answer):
    return [one for one in answer.suggestions if one.action == "change-hardware"]


def test_a_request_recognises_own_work_by_part_class_unit_and_rate():
    rows = [own("a", V100, 100, 250), own("b", A100, 400, 350)]
    base = {"hardware": V100, "kind": "training", "zone": "DE", "candidates": [A100], "count": 2}

    def basis(hours=1.0, images=2 * 3600 * 105.0, unit="image", more=(), **change):
        request = parse_suggest_request({**base, "hours": hours, "units": {unit: images}, **change})
        [said] = swaps(suggest(request, CATALOG, [*rows, *more]))
        return said.basis, said.operating_point

    assert basis() == ("direct", "own measurements of vision/resnet on both parts, per device")
    assert basis(images=2 * 3600 * 150.0)[0] == "calibrated"  # half as fast again: other work
    assert basis(unit="step")[0] == "calibrated"
    assert basis(workload_class="recsys")[0] != "direct"
    assert basis(hours=None)[0] == "calibrated"
    twin = own("c", V100, 101, 250, "vision/other")
    assert basis(more=[twin])[0] == "calibrated"  # two that it could be: not guessed


def test_own_ratios_hold_every_run_and_name_the_work():
    rows = [own("a", V100, 100, 250), own("b", A100, 400, 350), own("c", A100, 200, 350)]
    found = own_ratios(rows, V100, A100, "training", "vision/resnet")
    time, energy = found.time, found.energy
    assert (time.low, time.high) == (pytest.approx(0.25), pytest.approx(0.5))
    assert energy.value == pytest.approx(time.value * 1.4)
    assert own_ratios(rows, A100, "nvidia-l4", "training", "vision/resnet") is None
    other_unit = [own("a", V100, 100, 250), own("b", A100, 400, 350, unit="step")]
    assert own_ratios(other_unit, V100, A100, "training", "vision/resnet") is None


def test_several_own_workloads_speak_for_another_of_their_class():
    one = [own("a", V100, 100, 250), own("b", A100, 400, 350)]
    assert own_ratios(one, V100, A100, "training", "new/work") is None
    two = [*one, own("c", V100, 10, 250, "nlp/bert"), own("d", A100, 50, 350, "nlp/bert")]
    time = own_ratios(two, V100, A100, "training", "new/work").time
    assert time.low < 0.2 < 0.25 < time.high
    assert time.high / time.value >= 1.29
    assert own_ratios(two, V100, A100, "decode", "new/work") is None


def test_a_job_that_ran_did_fit_whatever_its_tags_say():
    tags = {"model_parameters": "400e9", "method": "full"}
    job = steady_job(kind="training", tags=tags)
    request = msgspec.structs.replace(request_of(job), candidates=(A100, H100))
    answer = suggest(request, CATALOG, measured=job)
    told = [n.message for n in answer.notices if n.code == "memory-disagrees"]
    present = [one for one in answer.suggestions if one.target == H100]
    assert present[0].time_ratio.value == 1
    assert len(told) == 1
    assert "Estimate and measurement disagree" in told[0]
    assert all(one.verdict != "not-feasible" for one in answer.suggestions)


def test_runs_a_year_follow_from_counted_runs():
    """50 runs in 73 days are 250 a year; 80 % of counts lie within 1.2816 / sqrt(50) = 18.1 %."""
    runs = runs_a_year(50, 73.0, "vision/resnet")
    assert (runs.value, runs.unit) == (pytest.approx(250), "1/year")
    assert runs.low == pytest.approx(250 * 0.8188, rel=1e-3)
    assert runs.high == pytest.approx(250 * 1.1812, rel=1e-3)
    assert runs.source == "50 runs of vision/resnet in 73 days"
    assert runs_a_year(2, 73.0, "x") is None
    assert runs_a_year(50, 6.0, "x") is None
