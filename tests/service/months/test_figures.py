"""Figures of a month's document that a reader would take for the month's own, and are."""

from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.reports import month as report
from gramwatt.reports.model import Facts
from gramwatt.reports.month_sections import change
from gramwatt.sci.figures.formatting import value_text
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.service.intensity.csv_import import import_csv
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from tests.blocks import blocks, cells, plain, table, words
from tests.journals import H100, Writer, lines

MAY = datetime(2026, 5, 10, 8, tzinfo=UTC)
KWH = 3.6e6


def measured(name, kwh=1.0, *, day=10, model_kwh=0.0, month=5, hours=1, **head):
    """One H100 that a counter read for some hours, and memory of which a model knows the energy."""
    writer = Writer("w1", "n1", name, t0=datetime(2026, month, day, 8, tzinfo=UTC))
    seconds = 3600 * hours
    busy, board = head.pop("utilisation", 0.9), head.pop("board", "GPU-1")
    state = head.pop("state", "completed")
    given = {"project": "vision", "units": ("image",), "zone": "DE", "pue": 1.0, **head}
    records = [
        writer.job(**{"name": name, **given}),
        writer.device(board, **H100, memory_b=80 * 2.0**30),
        writer.interval(0, seconds, kwh * KWH, board, utilisation_mean=busy),
    ]
    if model_kwh:
        memory = {"device_class": "ram", "name": "memory", "meter": "codecarbon"}
        records.append(writer.device("ram-0", kind="estimated", memory_b=2.0**40, **memory))
        records.append(writer.interval(0, seconds, model_kwh * KWH, "ram-0", kind="estimated"))
    records.append(writer.count(100, seconds=60))
    code = 0 if state == "completed" else 1
    return [*records, writer.end(seconds, state, exit_code=code)]


def store(service, *journals):
    for records in journals:
        ingest(service, records[0].job_id, lines(records))


def test_intensity_and_pue_are_the_months_own_means(light):
    """3 kWh at PUE 1.2 in Germany, then 1 kWh at 1.0 in France: not those of the last job."""
    store(light, measured("a", 3.0, pue=1.2), measured("b", 1.0, day=11, pue=1.0, zone="FR"))
    document = month_report(light, "2026-05")
    method = document.method
    assert method.pue.value == pytest.approx((3 * 1.2 + 1) / 4)
    one, other = (light.catalog.zone(zone).intensity.value for zone in ("DE", "FR"))
    mean = (3.6 * one + other) / 4.6
    found = method.intensity_g_per_kwh
    assert found.value == pytest.approx(mean)
    assert found.low < mean < found.high
    grams = document.totals.operational_g.value
    energy = document.totals.energy_kwh.value
    assert energy * found.value * method.pue.value == pytest.approx(grams)
    assert method.zones == ["DE", "FR"]
    printed = dict(report_facts(document, "Standard"))
    assert plain(printed["Grid intensity"]).startswith(short(found))


def report_facts(document, first):
    return next(b.rows for b in blocks(report.build(document), Facts) if b.rows[0][0] == first)


def test_the_range_of_an_assumed_pue_is_in_that_of_the_building(light):
    store(light, measured("a", 2.0, pue=None, scheduler={"slurm_job_id": "7"}))
    document = month_report(light, "2026-05")
    pue, full = document.method.pue, document.boundary.full_kwh
    assert (pue.value, pue.low, pue.high) == pytest.approx((1.56, 1.1, 2.19), rel=1e-5)
    assert full.value == pytest.approx(2 * 1.56)
    assert full.high / full.value > 2.19 / 1.56
    # The intensity has its own range, without that of the PUE.
    annual = light.catalog.zone("DE").over(1.0, datetime(2026, 5, 10, 8, tzinfo=UTC))
    found = document.method.intensity_g_per_kwh
    ends = [getattr(found, end) / found.value for end in ("low", "high")]
    assert ends == pytest.approx([annual.low / annual.value, annual.high / annual.value], rel=1e-4)


def test_a_models_energy_is_that_of_the_facility(light):
    store(
        light,
        measured("own", 2.0, pue=1.5),
        measured("model", 1.0, pue=1.5, kind="training", model_id="m-1"),
    )
    (model,) = month_report(light, "2026-05").models
    assert model.facility_kwh.value == pytest.approx(1.5)


def short(figure):
    return plain(value_text(figure))


def test_each_component_has_its_own_range(light):
    """A counter's 5 % for the board, a model's 40 % for the memory; the intensity is of both."""
    store(light, measured("a", 9.5, model_kwh=0.5))
    document = month_report(light, "2026-05")
    rows = {(row.part, row.component): row.g for row in document.components}
    gpu, ram = rows["operational", "gpu"], rows["operational", "ram"]
    whole = document.totals.operational_g
    assert gpu.value + ram.value == pytest.approx(whole.value)

    def width(figure):
        return (figure.high - figure.low) / figure.value

    assert width(ram) > 1.2 * width(whole)
    assert width(gpu) == pytest.approx(width(whole), rel=0.05)


def test_energy_is_what_nine_tenths_of_it_are(light):
    """Half of it wholly measured, half to 86 %: 93 % of the sum is."""
    store(light, measured("a", 10.0), measured("b", 8.6, model_kwh=1.4))
    document = month_report(light, "2026-05")
    assert document.data_quality.energy["measured"] == pytest.approx(0.93)
    assert document.totals.energy_kwh.kind == "measured"
    store(light, measured("c", 0.1, model_kwh=2.0))
    document = month_report(light, "2026-05")
    assert document.data_quality.energy["measured"] < 0.9
    assert document.totals.energy_kwh.kind == "estimated"


def test_the_grade_follows_shares_of_energy_and_names_the_jobs_that_cost_it(light):
    """0.15 % of the energy lacks a zone: grade B, as 99.85 % have one; half of it is not B."""
    store(light, measured("a", 1.0), measured("lab", 0.0015, zone=None, project="lab"))
    document = month_report(light, "2026-05")
    assert document.data_quality.grade == "B"
    store(light, measured("notebook", 1.0, zone=None, project="lab"))
    document = month_report(light, "2026-05")
    assert document.data_quality.grade == "C"
    (limit,) = document.grade_limits
    assert (limit.grade, limit.block, limit.needed) == ("B", "intensity", 0.9)
    assert limit.share == pytest.approx(1 / 2.0015)
    rows = [(row.job_id, row.name, row.project) for row in limit.jobs]
    assert rows == [("notebook", "notebook", "lab"), ("lab", "lab", "lab")]
    printed = words(report.build(document))
    assert "Most is lacking for notebook (lab) 49.9" in printed


def test_jobs_that_moved_to_the_suggested_region_followed(light):
    """Three jobs in Frankfurt, then two in Stockholm; one more in Frankfurt is partly."""

    def cloud(name, region, month, day):
        given = {"zone": None, "pue": None, "kind": "training", "region": region}
        return measured(name, 2.0, month=month, day=day, hours=4, **given)

    here, there = "aws:eu-central-1", "aws:eu-north-1"
    store(light, *(cloud(f"april-{n}", here, 4, 10 + n) for n in range(3)))
    (row,) = [
        row
        for row in month_report(light, "2026-04").advice
        if row.action == "region" and row.target == there
    ]
    store(light, *(cloud(f"may-{n}", there, 5, 10 + n) for n in range(2)))
    (found,) = [row for row in month_report(light, "2026-05").followed if row.target == there]
    counts = ("jobs_before", "jobs_now", "target_before", "target_now")
    assert [getattr(found, name) for name in counts] == [row.jobs_of_work, 0, 0, 2]
    assert found.outcome == "followed"
    store(light, cloud("left", here, 5, 20))
    (found,) = [row for row in month_report(light, "2026-05").followed if row.target == there]
    assert (found.jobs_now, found.target_now, found.outcome) == (1, 2, "partly")


def test_another_publisher_or_resolution_is_method_and_no_grid(light, tmp_path):
    """Germany goes from annual to hourly values of 100 g/kWh; France stays."""
    store(light, measured("one", month=4), measured("fr", month=4, project="fr", zone="FR"))
    file = tmp_path / "de.csv"
    rows = [f"2026-05-10T{hour:02d}:00:00Z,100" for hour in range(24)]
    file.write_text("\n".join(["start_utc,g_per_kwh", *rows]) + "\n")
    import_csv(light, file, "DE", "lifecycle", "average")
    store(light, measured("two"), measured("fr-2", project="fr", zone="FR"))
    document = month_report(light, "2026-05")
    parts = document.change_parts
    assert parts.grid_g.value == pytest.approx(0.0, abs=1e-9)
    assert parts.method_g.value == pytest.approx(parts.change_g.value)
    assert parts.method_g.value < -100
    assert [row.method_break for row in document.trend] == [False, True]
    moved = {row.project: row for row in document.project_changes}
    assert list(moved) == ["vision", "fr"]
    assert moved["vision"].change.high < 1


def test_a_projects_move_is_on_page_one_where_the_sum_shows_nothing(light):
    """One project leaves Germany for France; one 25 times as large varies by its own."""
    big = {"project": "large", "hours": 8}
    store(light, measured("b-4", 5.0, month=4, board="GPU-4", **big), measured("v-4", 0.2, month=4))
    store(light, measured("b-5", 5.1, board="GPU-5", **big), measured("v-5", 0.2, zone="FR"))
    document = month_report(light, "2026-05")
    said = plain(words(report.build(document)))
    assert "no reliable difference from April 2026; by project: vision \N{MINUS SIGN}" in said
    against = {
        cells(row)[0]: cells(row)[-1] for row in table(report.build(document), "Projects").rows
    }
    assert against["large"].startswith("no reliable difference")
    assert against["vision"].startswith("\N{MINUS SIGN}")


def test_large_changes_are_multiples(light):
    def grams(value):
        return Quantity.exact(value, "gCO2e", "measured", "test")

    ratio = Quantity(36001.0, 30000.0, 40000.0, "1", "measured", "test")
    assert plain(change(grams(36001.0), grams(1.0), ratio).text) == "36 000 times as much"
    ratio = Quantity(3.45, 3.4, 3.5, "1", "measured", "test")
    assert plain(change(grams(345.0), grams(100.0), ratio).text) == "+250 %"


def test_the_parts_of_a_machine_do_not_decide_its_assumed_pue(light):
    """With and without accelerators, jobs of one server have one assumed PUE: a data centre's."""
    writer = Writer("w1", "n1", "cpu", t0=MAY)
    cpu = {"device_class": "cpu", "name": "AMD EPYC 7513 32-Core Processor", "units": 64}
    records = [
        writer.job(project="vision", zone="DE"),
        writer.device("cpu-0", **cpu),
        writer.interval(0, 3600, KWH, "cpu-0"),
        writer.end(3600, exit_code=0),
    ]
    store(light, records, measured("gpu", pue=None))
    pue = month_report(light, "2026-05").method.pue
    assert (pue.value, pue.kind) == (pytest.approx(1.56), "estimated")


def actions(document):
    return {row.action: row for row in document.advice if row.basis == "all"}


def test_idle_time_of_all_jobs_and_runs_without_a_result_are_actions(light):
    """Of 30 runs four idle three quarters of their time; one failed, one was killed."""
    busy = [measured(f"large-{n}", 3.0, hours=5, day=1 + n) for n in range(24)]
    store(light, *busy)
    for n in range(4):
        writer = Writer("w1", "n1", f"idle-{n}", t0=MAY + timedelta(days=n))
        records = [
            writer.job(project="lab", name=f"notebook {n}", zone="DE", pue=1.0),
            writer.device("GPU-1", **H100, memory_b=80 * 2.0**30),
            *(
                writer.interval(
                    600 * k, 600 * k + 600, 6e4, "GPU-1", utilisation_mean=0.8 if k < 6 else 0.0
                )
                for k in range(24)
            ),
            writer.end(14_400, exit_code=0),
        ]
        store(light, records)
    store(light, measured("bad", state="failed"), measured("stopped", state="killed"))
    document = month_report(light, "2026-05")
    found = actions(document)
    idle = found["release-idle"]
    assert (idle.jobs, [row.project for row in idle.named]) == (4, ["lab"] * 3)
    assert idle.named[0].name.startswith("notebook ")
    # Three quarters of the board's energy and of its own embodied carbon.
    jobs = [row for row in document.chargeback if row.project == "lab"]
    electricity = 0.75 * jobs[0].operational_g.value
    assert electricity < idle.saved_g.value < 0.75 * jobs[0].total_g.value
    used = {state: document.by_state[state].total_g.value for state in document.by_state}
    assert found["avoid-failed"].saved_g.value == pytest.approx(used["failed"])
    assert found["avoid-killed"].saved_g.value == pytest.approx(used["killed"])
    assert found["avoid-failed"].saved_g.low == 0.0
    rows = table(report.build(document), "What to do: the actions that save most").rows
    jobs = {cells(row)[0]: cells(row)[1] for row in rows}
    assert jobs["Find out why runs failed"] == "vision: bad"
    assert jobs["Release idle accelerators"].startswith("lab: notebook ")


def test_what_a_suggestion_saves_is_divided_among_the_months_of_its_job(light):
    """Twenty hours of an A100, four of them in April; the months add up to the whole job."""
    writer = Writer("w1", "n1", "across", t0=datetime(2026, 4, 30, 20, tzinfo=UTC))
    board = {"name": "Tesla V100-SXM2-32GB", "meter": "nvml-counter", "units_total": 8.0}
    records = [
        writer.job(project="vision", units=("image",), zone="DE", pue=1.0, kind="training"),
        writer.device("GPU-1", **board),
        *(
            writer.interval(3600 * n, 3600 * (n + 1), KWH / 4, "GPU-1", utilisation_mean=0.95)
            for n in range(20)
        ),
        writer.count(100, seconds=60),
        writer.end(20 * 3600),
    ]
    store(light, records)
    april, may = (month_report(light, month) for month in ("2026-04", "2026-05"))
    (first,), (second,), (whole,) = april.advice, may.advice, may.suggestions
    assert first.saved_g.value + second.saved_g.value == pytest.approx(whole.saved_g.value)
    of_april = april.totals.total_g.value / (april.totals.total_g.value + may.totals.total_g.value)
    assert first.saved_g.value == pytest.approx(of_april * whole.saved_g.value)
    assert 0.15 < of_april < 0.25
