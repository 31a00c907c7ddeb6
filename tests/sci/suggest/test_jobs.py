"""Suggestions for measured jobs, and what measured jobs teach."""

from __future__ import annotations

import math
import re

import msgspec
import pytest

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.suggest import jobs
from gramwatt.sci.suggest.evidence import OwnRow, own_witness
from gramwatt.sci.suggest.jobs import (
    advised,
    for_job,
    for_month,
    own_rows,
    request_of,
    runs_a_year,
)
from gramwatt.sci.suggest.request import parse_suggest_request
from gramwatt.sci.suggest.suggest import suggest
from tests.documents import changed, steady_job, unread_job
from tests.sci.suggest.requests import A100, CATALOG, H100, V100, ask

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


def own_row(document):
    """The row of a job; None where it cannot be one."""
    return next(iter(own_rows([document])), None)


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
    assert request_of(steady_job(tags={"model_parameters": "8"})).model_parameters is None


def test_names_this_catalog_does_not_know_do_not_cost_the_advice():
    for region in ("aws:moon-1", "eu-west-1"):
        answer = for_job(
            msgspec.structs.replace(steady_job(kind="training"), region=region), CATALOG
        )
        assert "power-cap" in [row.action for row in advised(answer)]
        assert answer.estimate.intensity_g_per_kwh.source.count("DE") >= 1
    gone = steady_job()
    for device in gone.devices[:4]:
        device.hardware = "own-part-1"
    assert "not compared: the catalog lacks its device." in for_job(gone, CATALOG).summary


def test_a_job_gets_the_rows_that_a_report_shows():
    job = steady_job("net", kind="training")
    answer = for_job(job, CATALOG)
    assert answer.compared_with == "net, 4 x NVIDIA H100 SXM5 80GB"
    shown = advised(answer)
    assert {row.verdict for row in shown} <= {"sure", "likely"}
    (cap,) = [row for row in shown if row.action == "power-cap"]
    assert cap.saved_g.value == pytest.approx(job.total_g.value * (1 - cap.carbon_ratio.value))
    assert answer.estimate.energy_kwh.value == pytest.approx(4 * 2 * 0.5 * 1.45)


def test_a_job_without_accelerator_has_nothing_to_change():
    """But an hour: what the usual hours of its zone say of another start within a day."""
    answer = for_job(unread_job(), CATALOG)
    assert answer.answers == []
    assert answer.summary.startswith(
        "For a better hour name its zone: gramwatt job unread --set zone=DE. Hardware is"
    )
    job = msgspec.structs.replace(
        unread_job(zone="US-CAL-CISO"), started_at="2026-11-29T04:30:00Z", duration_s=4 * 3600.0
    )
    summary = for_job(job, CATALOG).summary
    assert re.match(r"Starting at 1\d:00 UTC, not 04:30, usually emits (3|4)\d % less ", summary)
    assert f"it ran on processors alone. Other places: gramwatt plan --like {job.job_id}" in summary


def test_a_month_shows_the_largest_advised_savings_first():
    measured = [
        steady_job("short", hours=1, kind="inference", tags=served()),
        steady_job("long", hours=3, kind="inference", tags=served()),
        steady_job("kept", hours=3, kind="other"),
    ]
    savings = for_month(measured, CATALOG)
    assert [(saving.job_id, saving.action) for saving in savings] == [
        ("long", "batching"),
        ("short", "batching"),
        ("kept", "time"),
    ]
    savings.pop()
    assert {saving.verdict for saving in savings} == {"likely"}
    saved = [saving.saved_g.value for saving in savings]
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

    two = own_witness(rows("batch-inference"), V100, A100, "batch-inference", "new")
    assert math.exp(two.time.value) == pytest.approx(0.25)
    assert two.reason == "own runs of 2 other workloads of class batch-inference on both"
    assert own_witness(rows("llm-serving"), V100, A100, "llm-serving", "new") is None
    assert own_witness(rows("llm-serving"), V100, A100, "llm-serving", "a") is not None


def test_only_complete_measured_jobs_with_units_teach():
    assert own_row(unread_job()) is None
    uncounted = [{"unit": "job", "count": 1.0, "g_per_unit": None}]
    assert own_row(changed(steady_job(), sci=uncounted)) is None
    document = steady_job()
    assert own_row(changed(document, state="killed")) is None
    document.devices[0].energy_j = document.devices[0].energy_j.of_kind("estimated")
    assert own_row(document) is None


def test_own_runs_lead_what_data_sheets_say():
    rows = [own("a", V100, 100, 250), own("b", A100, 400, 350)]
    request = parse_suggest_request(
        {"hardware": V100, "kind": "training", "zone": "DE", "candidates": [A100]}
    )
    mine = swap(suggest(request, CATALOG, rows, "vision/resnet"))
    assert (mine.basis, mine.verdict) == ("own-runs", "sure")
    assert mine.time_ratio.value == pytest.approx(0.25, rel=0.1)
    public = swap(suggest(request, CATALOG, rows, "other/work"))
    assert public.basis == "data-sheets"
    assert (
        mine.time_ratio.high / mine.time_ratio.low < public.time_ratio.high / public.time_ratio.low
    )


def swap(answer):
    (row,) = [row for row in answer.answers if row.target]
    return row


def test_a_request_recognises_own_work_by_part_class_unit_and_rate():
    rows = [own("a", V100, 100, 250), own("b", A100, 400, 350)]
    base = {"hardware": V100, "kind": "training", "zone": "DE", "candidates": [A100], "count": 2}

    def mine(hours=1.0, images=2 * 3600 * 105.0, unit="image", more=(), **change):
        request = parse_suggest_request({**base, "hours": hours, "units": {unit: images}, **change})
        answer = suggest(request, CATALOG, [*rows, *more])
        return any(row.basis == "own-runs" for row in answer.answers)

    assert mine()
    assert not mine(images=2 * 3600 * 150.0)  # half as fast again: other work
    assert not mine(unit="step")
    assert not mine(workload_class="recsys")
    assert not mine(hours=None)
    twin = own("c", V100, 101, 250, "vision/other")
    assert not mine(more=[twin])  # two that it could be: not guessed


def test_own_ratios_err_by_what_differs_among_runs():
    rows = [own("a", V100, 100, 250), own("b", A100, 400, 350), own("c", A100, 200, 350)]
    witness = own_witness(rows, V100, A100, "training", "vision/resnet")
    assert math.exp(witness.time.value) == pytest.approx(math.sqrt(0.25 * 0.5))
    assert witness.time.spread == pytest.approx(math.log(2) / math.sqrt(2))
    assert witness.energy.value == pytest.approx(witness.time.value + math.log(1.4))
    single = own_witness(rows[:2], V100, A100, "training", "vision/resnet")
    assert math.exp(1.5332 * single.time.spread) == pytest.approx(1.1, abs=1e-4)
    assert own_witness(rows, A100, "nvidia-l4", "training", "vision/resnet") is None
    other_unit = [own("a", V100, 100, 250), own("b", A100, 400, 350, unit="step")]
    assert own_witness(other_unit, V100, A100, "training", "vision/resnet") is None


def test_a_job_that_ran_did_fit_whatever_its_tags_say():
    tags = {"model_parameters": "400e9", "method": "full"}
    job = steady_job(kind="training", tags=tags)
    request = msgspec.structs.replace(request_of(job), candidates=(A100,))
    answer = suggest(request, CATALOG, measured=job)
    assert swap(answer).target == A100


def test_runs_a_year_follow_from_counted_runs():
    """50 runs in 73 days are 250 a year; 80 % of counts lie within 1.2816 / sqrt(50) = 18.1 %."""
    runs = runs_a_year(50, 73.0, "vision/resnet")
    assert (runs.value, runs.unit) == (pytest.approx(250), "1/year")
    assert runs.low == pytest.approx(250 * 0.8188, rel=1e-3)
    assert runs.high == pytest.approx(250 * 1.1812, rel=1e-3)
    assert runs.source == "50 runs of vision/resnet in 73 days"
    assert runs_a_year(2, 73.0, "x") is None
    assert runs_a_year(50, 6.0, "x") is None


def test_reports_begin_with_the_row_that_the_sentence_names():
    wide = {"hardware": "nvidia-a100-sxm4-80", "kind": "training", "precision": "fp32"}
    answer = ask(**wide, mean_power_w=330, peak_memory_gb=30, hours=100, zone="DE")
    assert answer.summary.startswith("What would help most on what you have: train in bf16")
    first, second = advised(answer)[:2]
    assert (first.id, first.action) == (answer.lead, "mixed-precision")
    assert first.carbon_ratio.value > second.carbon_ratio.value
