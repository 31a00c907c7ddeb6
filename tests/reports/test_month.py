"""What the monthly report says, before any renderer."""

import pytest

from gramwatt.reports import month
from gramwatt.reports.model import Chart, Facts, Figures, PageBreak, Pair
from gramwatt.reports.sections.change import NO_DIFFERENCE, against, change
from gramwatt.sci.base.formatting import UNKNOWN
from tests.blocks import blocks, cells, headings, plain, table, words
from tests.documents import full_month, month_of, steady_job, unread_job, varied_job

SECTIONS = [
    "Summary",
    "Jobs with the most carbon",
    "Day by day",
    "How the jobs ended and how they score",
    "Data quality",
    "Notices",
    "Method and boundary",
    "Inside the boundary",
    "Outside the boundary",
    "Ranges and digits",
    "Sources",
    "Statement",
]


def figure(value, low, high):
    return {
        "value": value,
        "low": low,
        "high": high,
        "unit": "gCO2e",
        "kind": "measured",
        "source": "x",
    }


@pytest.fixture(scope="module")
def full():
    return full_month()


def test_a_month_has_every_section_in_order(full):
    assert headings(month.build(full)) == SECTIONS


def test_the_first_page_has_figures_change_and_scores(full):
    built = month.build(full)
    first = built.blocks[: [isinstance(b, PageBreak) for b in built.blocks].index(True)]
    names = [type(block).__name__ for block in first]
    assert names == ["Heading", "Figures", "Table", "Table"]
    lead = first[1].items[-2]
    assert (lead.label, lead.lead) == ("Total carbon (O + M)", True)
    assert lead.note.endswith("against the previous month")


def test_a_month_adds_its_jobs_and_names_the_dearest_first():
    jobs = [steady_job("a", watts=300), steady_job("b", watts=600)]
    built = month.build(month_of(jobs))
    assert [cells(row)[0] for row in table(built, "Top jobs").rows] == ["b", "a"]
    [row] = table(built, "SCI by project and unit").rows
    assert cells(row)[:3] == ["vision", "2", "2 562 334"]
    assert row[2].below == "image"


def test_many_projects_are_cut_on_the_first_page_and_whole_behind_it():
    jobs = [steady_job(f"j{n}", project=f"p{n}", hours=1, watts=100 + n) for n in range(11)]
    built = month.build(month_of(jobs))
    first = table(built, "SCI by project and unit")
    assert [cells(row)[0] for row in first.rows] == [f"p{n}" for n in range(10, 2, -1)]
    assert len(table(built, "All projects and units").rows) == 11


def test_what_failed_and_killed_jobs_used_is_shown(full):
    rows = {cells(row)[0]: row for row in table(month.build(full), "Jobs, energy").rows}
    assert list(rows) == ["completed", "failed", "killed"]
    assert [rows[state][1] for state in rows] == ["22", "1", "1"]
    whole = full["totals"]["energy_kwh"]["value"]
    parts = [full["by_state"][state]["energy_kwh"]["value"] for state in rows]
    assert sum(parts) == pytest.approx(whole)


def test_a_change_whose_range_holds_none_is_no_reliable_difference():
    none = change(figure(100, 80, 120), figure(110, 90, 130), figure(0.91, 0.8, 1.04))
    assert (none.text, plain(none.below)) == (NO_DIFFERENCE, "\N{MINUS SIGN}20 % to +4.0 %")
    fell = change(figure(50, 40, 60), figure(100, 90, 130), figure(0.5, 0.4, 0.62))
    assert plain(fell.text) == "\N{MINUS SIGN}50 %"
    assert plain(fell.below) == "\N{MINUS SIGN}60 % to \N{MINUS SIGN}38 %"
    rose = change(figure(345, 340, 350), figure(100, 99, 101), figure(3.45, 3.45, 3.45))
    assert plain(rose.text) == "+250 %"


def test_an_unknown_or_empty_month_before_gives_no_share():
    assert change(None, figure(100, 90, 130), None) == Pair(UNKNOWN, "")
    assert change(figure(5, 4, 6), figure(0, 0, 0), None).text == "from nothing"
    assert against(None, None, None) == "change against the previous month not known"


def test_one_meter_and_one_grid_value_tell_a_small_change():
    """The same work with 2 % more energy a month later, on the same meters, parts and grid."""
    now, before = steady_job("a", watts=510), steady_job("b", watts=500)
    before = {**before, "days": [{**day, "day": "2026-04-01"} for day in before["days"]]}
    changes = month_of([now], [before])["changes"]
    # 4 x 510 W and 200 W against 4 x 500 W and 200 W.
    assert changes["energy_kwh"]["value"] == pytest.approx(2240 / 2200)
    for term in ("energy_kwh", "operational_g", "total_g"):
        assert 1 < changes[term]["low"] <= changes[term]["high"] < 1.04
    assert changes["embodied_g"]["low"] == changes["embodied_g"]["high"] == 1.0


def test_the_month_before_stands_beside_this_one():
    now, before = steady_job("a"), steady_job("b")
    before = {**before, "days": [{**day, "day": "2026-04-01"} for day in before["days"]]}
    compared = table(month.build(month_of([now], [before])), "Against the previous month")
    assert cells(compared.rows[-1]) == ["Jobs", "1", "1", "0"]
    assert {cells(row)[3] for row in compared.rows[:-1]} == {NO_DIFFERENCE}


def test_the_days_chart_holds_the_month(full):
    [chart] = [b for b in blocks(month.build(full), Chart) if b.caption.startswith("Carbon by day")]
    rows = chart.spec["data"]["values"]
    # The chart is in kilograms; every day of May is on its axis.
    assert sum(row["value"] for row in rows) * 1000 == pytest.approx(
        full["totals"]["total_g"]["value"]
    )
    assert chart.spec["encoding"]["y"]["title"] == "kg\u00a0CO2e"
    assert chart.spec["encoding"]["x"]["scale"]["domain"] == [str(n) for n in range(1, 32)]


def test_an_empty_month_says_so():
    built = month.build(month_of([]))
    assert "No job of this month is scored." in words(built)
    assert headings(built) == ["Summary", "Statement"]
    assert blocks(built, Figures) == []


def test_a_month_warns_of_jobs_without_zone_and_of_unknown_terms():
    printed = words(month.build(month_of([steady_job("a", zone=None), unread_job()])))
    assert "2 of 2 jobs have no known grid zone" in printed
    assert "1 of 2 jobs have a term that is not known" in printed


def test_an_unfinished_month_says_so():
    printed = words(month.build(month_of([steady_job()], ended=False)))
    assert "The month is not over" in printed


def test_the_statement_claims_no_assurance(full):
    statement = blocks(month.build(full), Facts)[-1]
    printed = dict(statement.rows)
    assert printed["Assurance"] == "none: not assured by a third party"
    assert "self-declared, computed to ISO/IEC 21031:2024" in printed["Scores"]
    assert "certified" not in words(month.build(full)).lower()


def test_models_have_a_table_with_their_unfinished_runs():
    jobs = [steady_job(name, watts=500) for name in ("a", "b", "c")]
    for job in jobs:
        job["model_id"] = "m-1"
    jobs[1]["state"] = "failed"
    jobs[2]["kind"] = "inference"
    built = month.build(month_of(jobs))
    rows = [cells(row)[:4] for row in table(built, "Runs by model").rows]
    assert rows == [["m-1", "consumer", "1", "0"], ["m-1", "provider", "2", "1"]]


def saving(job_id="b", target="nvidia-l4"):
    ratio = {**figure(0.4, 0.3, 0.5), "unit": "1"}
    return {
        "job_id": job_id,
        "name": "train",
        "project": "vision",
        "action": "change-hardware",
        "target": target,
        "saved_g": figure(1200, 1000, 1400),
        "carbon_ratio": ratio,
        "reason": "measured on both parts",
    }


def test_what_would_help_most_is_a_table_of_certain_savings():
    document = month_of([steady_job()], advise=lambda jobs: [saving(), saving("c", None)])
    built = month.build(document)
    assert "What would help most" in headings(built)
    first, second = (cells(row) for row in table(built, "The largest certain savings").rows)
    assert first[0] == "train"
    assert first[1:3] == ["Change hardware to nvidia-l4", "0.40"]
    assert (plain(first[3]), first[4]) == ("1.2 kg CO2e", "measured on both parts")
    assert second[1] == "Change hardware"


def test_the_adviser_sees_the_jobs_of_the_month_and_project_only():
    asked = []
    jobs = [steady_job("a"), steady_job("b", project="speech")]
    month_of(jobs, project="speech", advise=lambda found: asked.extend(found) or [])
    assert [job["job_id"] for job in asked] == ["b"]


def test_jobs_that_go_on_after_the_month_are_told_from_those_that_ended():
    # From 31 May 08:00 to 1 June 08:00.
    built = month.build(month_of([steady_job("a"), varied_job("b", start=30 * 86_400, hours=24)]))
    assert built.subtitle == "All projects; 2 jobs, of which 1 ended in this month; times are UTC."
