"""What the monthly report says, before any renderer."""

import io
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader

from gramwatt.reports import html, month, pdf
from gramwatt.reports.model import Chart, Facts, Figures, Heading, Links, NoticeBlock
from gramwatt.reports.month_sections import NO_DIFFERENCE, adding_up, change
from gramwatt.reports.sections import saving_span
from gramwatt.sci.figures.formatting import UNKNOWN, against, percent, text, value_text
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.documents import BudgetUse
from tests.blocks import blocks, cells, headings, plain, table, words
from tests.documents import changed, full_month, month_of, steady_job, unread_job, varied_job

SECTIONS = [
    "Summary",
    "Annex A: accounts",
    "Where the carbon comes from",
    "Day by day",
    "Against the month before",
    "Carbon per unit of work",
    "Projects and owners",
    "Jobs with the most carbon",
    "What became of the work",
    "More on actions",
    "Annex B: for the auditor",
    "Statement",
    "Emission factors",
    "How the figures are known",
    "Notices",
    "Method and boundary",
    "Inside the boundary",
    "Outside the boundary",
    "Ranges and digits",
    "Sources",
]


def figure(value, low, high):
    return Quantity(value, low, high, "gCO2e", "measured", "x")


@pytest.fixture(scope="module")
def full():
    return full_month()


def test_a_month_has_every_section_in_order(full):
    assert headings(month.build(full)) == SECTIONS


def test_the_first_page_answers(full):
    """The month in a sentence, totals, trend, what changed and what to do."""
    built = month.build(full)
    first = built.blocks[: built.blocks.index(Heading("Annex A: accounts"))]
    kinds = ["Heading", "Text", "Figures", "Chart", "Chart", "Table", "Table"]
    assert [type(block).__name__ for block in first] == kinds
    answer, causes = plain(first[1].text).split(". ", 1)
    assert answer == plain(f"{text(full.totals.total_g)}, 34 times as much as in April 2026")
    assert causes.startswith("More work added ")
    whole, energy, *_, state = first[2].items
    assert [item.label for item in first[2].items if item.lead] == ["Total carbon"]
    read = percent(full.data_quality.energy["measured"])
    assert (whole.note, whole.estimated) == (f"{read} metered energy", False)
    assert energy.note == f"{read} metered; {value_text(full.boundary.full_kwh)} with cooling"
    assert (state.value, state.span, state.note) == ("final", "mostly measured (grade B)", "")


def test_sums_that_no_meter_read_are_called_estimated():
    made = month_of([steady_job()])
    modelled = changed(made, data_quality=changed(made.data_quality, energy={"estimated": 1.0}))
    built = month.build(modelled)
    whole, *_ = blocks(built, Figures)[0].items
    assert (whole.note, whole.estimated) == ("estimated", True)
    assert _striped_of_days(built) == {"electricity", "hardware"}


def _striped_of_days(built):
    chart = next(b for b in blocks(built, Chart) if b.caption.startswith("Carbon by day"))
    return {row["part"] for row in chart.spec["data"]["values"] if row["estimated"]}


@pytest.mark.parametrize(
    ("spent", "limit", "verdict"),
    [
        # The tenth below 280 is 1.28 standard deviations of 78 kg below 380: 300 is 1.03 below it.
        ((380, 280, 430), 300, "over budget by about 80 kg CO2e (likely)"),
        ((380, 350, 430), 300, "over budget by about 80 kg CO2e"),
        ((21, 16, 24.5), 25, "within budget, about 4.0 kg CO2e left"),
        ((21, 16, 26), 24, "within budget, about 3.0 kg CO2e left (likely)"),
        ((21, 16, 26), 21.5, "within budget, about 500 g CO2e left (too close to call)"),
        ((21, 21, 21), 21, "within budget, about 0 g CO2e left"),
        (None, 5, "not known: a term of some job is not known"),
    ],
)
def test_a_budget_says_how_it_stands_and_how_sure_that_is(spent, limit, verdict):
    spent_kg = spent and Quantity(*spent, "kgCO2e", "derived", "x")
    use = BudgetUse("p", limit, spent_kg, None, "within", False)
    assert plain(month.budget_verdict(use)) == verdict


def test_what_to_do_is_on_page_one_also_below_warnings_and_no_page_is_left_empty(full):
    budget = {"limit_kg": 1.0, "spent_kg": None, "spent_share": None, "status": "unknown"}
    budget["range_holds_limit"] = False
    total_g = full.totals.total_g
    document = changed(
        full,
        revised={"revision": 1, "jobs": 1, "total_g": total_g, "changes": []},
        totals=changed(full.totals, jobs_unknown=1),
        excluded=[{"job_id": "j", "name": "n", "project": "p", "reason": "r"}],
        budgets=[{**budget, "project": f"project {n}"} for n in range(4)],
    )
    pages = PdfReader(io.BytesIO(pdf.render(month.build(document)))).pages
    first = pages[0].extract_text()
    assert "What to do" in first
    assert [f"project {n}" in first for n in range(4)] == [True] * 4  # of the budgets
    assert len(pages[1].extract_text()) > 1000


def test_a_revision_says_what_changed(full):
    totals = full.totals
    rows = [("added", "late-records", 2, 1200.0), ("changed", "intensity", 5, -300.0)]
    changes = [
        {"change": change, "cause": cause, "detail": "DE 2025" if "int" in cause else None}
        | {"jobs": jobs, "energy_kwh": 1.0, "total_g": grams}
        for change, cause, jobs, grams in rows
    ]
    revised = {"revision": 3, "jobs": totals.jobs, "total_g": totals.total_g, "changes": changes}
    (notice,) = blocks(month.build(changed(full, revised=revised)), NoticeBlock)
    assert notice.text.startswith("This report replaces revision 3, which had ")
    assert notice.text.endswith(
        " 2 jobs added, +1.20 kg\xa0CO2e: arrived late; 5 jobs changed, -300 g\xa0CO2e: "
        "factors of DE 2025."
    )


def test_the_printed_effects_add_up_from_one_month_to_the_next(full):
    """To the last printed digit, which rounding each effect alone would not give."""
    (chart,) = [b for b in blocks(month.build(full), Chart) if b.caption.startswith("From one")]
    parts = chart.data
    titles = [column.title for column in parts.columns]
    assert titles[:3] == ["April 2026", "Amount of work", "Energy per unit"]
    assert titles[-1] == "May 2026"
    printed = [cell.text.replace("\N{MINUS SIGN}", "-") for cell in parts.rows[0]]
    *steps, end = (round(1000 * float(plain(text).replace(" ", ""))) for text in printed)
    assert sum(steps) == end
    assert parts.caption == "From one month to the next, in kg\u00a0CO2e"
    # Each effect begins where the one before ends; the totals stand on the ground.
    columns = chart.spec["layer"][0]["data"]["values"]
    assert [(row["kind"], row["start"]) for row in (columns[0], columns[-1])] == [("total", 0)] * 2
    for before, after in pairwise(columns[:-1]):
        assert after["start"] == before["end"]
    assert columns[-1]["end"] == pytest.approx(columns[-2]["end"])
    assert chart.narrow is not None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.integers(0, 3))
def test_rounded_effects_add_up_and_stay_within_one_step(values, places):
    whole, step = math.fsum(values), 10.0**-places
    found = adding_up(values, whole, places)
    assert abs(sum(found) - round(whole / step) * step) < step / 2
    assert all(abs(a - b) <= step * 1.001 for a, b in zip(found, values, strict=True))


def test_the_trend_has_a_column_for_each_month_with_its_range(full):
    [chart] = [b for b in blocks(month.build(full), Chart) if "by month" in b.caption]
    names = chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert names == ["Dec 25", "Jan 26", "Feb 26", "Mar 26", "Apr 26", "May 26"]
    ranges = chart.spec["layer"][1]["data"]["values"]
    assert [row["name"] for row in ranges] == ["Apr 26", "May 26"]
    total_g = full.totals.total_g
    assert ranges[1]["high"] * 1000 == pytest.approx(total_g.high)
    assert all(row["final"] for row in chart.spec["layer"][0]["data"]["values"])


def test_a_month_that_may_change_is_drawn_unlike_one_that_cannot():
    [chart] = [
        block
        for block in blocks(month.build(month_of([steady_job()], ended=False)), Chart)
        if "by month" in block.caption
    ]
    assert "dashed bars are months that may still change" in chart.caption
    assert not any(row["final"] for row in chart.spec["layer"][0]["data"]["values"])


def test_ledger_chargeback_and_components_print_their_sum(full):
    built, whole = month.build(full), plain(cells_of_total(full))
    [chart] = [b for b in blocks(built, Chart) if b.caption.startswith("Carbon by component")]
    accounts = [table(built, name) for name in ("Carbon by outcome", "By project and owner")]
    for of in (*accounts, chart.data):
        last = [plain(text) for text in cells(of.rows[-1])]
        assert last[0] == "Total"
        assert whole in last, of.caption
        assert last[-1] == "100 %"


def cells_of_total(document):
    return value_text(document.totals.total_g)


def test_the_statement_names_who_answers_or_that_nobody_does(full):
    rows = dict(blocks(month.build(full), Facts)[0].rows)
    assert rows["Accountable"] == "nobody named: set GRAMWATT_ACCOUNTABLE"
    said = {"organisation": "Example GmbH", "accountable": "Dana", "contact": "dana@example.com"}
    revised = {"revision": 1, "jobs": 23, "total_g": full.totals.total_g, "changes": []}
    named = changed(full, statement=said, revision=2, revised=revised)
    rows = dict(blocks(month.build(named), Facts)[0].rows)
    assert (rows["Organisation"], rows["Accountable"]) == ("Example GmbH", "Dana")
    assert rows["Revision"].startswith("2; revision 1 had 23 jobs and ")
    assert "This report replaces revision 1" in words(month.build(named))


def test_a_month_adds_its_jobs_and_names_the_dearest_first():
    jobs = [steady_job("a", watts=300), steady_job("b", watts=600)]
    built = month.build(month_of(jobs))
    assert [cells(row)[0] for row in table(built, "Top jobs").rows] == ["b", "a"]
    [row] = table(built, "SCI by project and unit").rows
    assert cells(row)[:3] == ["vision", "2", "2 562 334"]
    assert row[2].below == "image"


def test_what_failed_and_stopped_jobs_used_is_shown(full):
    rows = {cells(row)[0]: row for row in table(month.build(full), "Carbon by outcome").rows}
    assert [rows[name][1] for name in ("Completed", "Failed", "Stopped", "Total")] == [
        *("22", "1", "1", "24")
    ]
    whole = full.totals.energy_kwh.value
    assert sum(row.energy_kwh.value for row in full.ledger) == pytest.approx(whole)


def test_one_meter_and_one_grid_value_tell_a_small_change():
    """The same work with 2 % more energy a month later, on the same meters, parts and grid."""
    now, before = steady_job("a", watts=510), steady_job("b", watts=500)
    before = changed(before, days=[changed(day, day="2026-04-01") for day in before.days])
    changes = month_of([now], [before]).changes
    # 4 x 510 W and 200 W against 4 x 500 W and 200 W.
    assert changes["energy_kwh"].value == pytest.approx(2240 / 2200)
    for term in ("energy_kwh", "operational_g", "total_g"):
        assert 1 < changes[term].low <= changes[term].high < 1.04
    assert changes["embodied_g"].low == changes["embodied_g"].high == 1.0


def test_the_month_before_stands_beside_this_one():
    now, before = steady_job("a"), steady_job("b")
    before = changed(before, days=[changed(day, day="2026-04-01") for day in before.days])
    compared = table(month.build(month_of([now], [before])), "Terms of both months")
    assert cells(compared.rows[-1]) == ["Jobs", "1", "1", "0"]
    assert {cells(row)[3] for row in compared.rows[:-1]} == {NO_DIFFERENCE}


def test_the_days_chart_holds_the_month(full):
    [chart] = [b for b in blocks(month.build(full), Chart) if b.caption.startswith("Carbon by day")]
    rows = chart.spec["data"]["values"]
    # The chart is in kilograms; every day of May is on its axis.
    assert sum(row["value"] for row in rows) * 1000 == pytest.approx(full.totals.total_g.value)
    assert chart.spec["encoding"]["y"]["title"] == "kg\u00a0CO2e"
    assert chart.spec["encoding"]["x"]["scale"]["domain"] == [str(n) for n in range(1, 32)]
    # As on page one: electricity that a meter mostly read is not called estimated.
    assert _striped_of_days(month.build(full)) == {"hardware"}


def test_a_month_of_which_nothing_was_read_prints_no_zero_for_it():
    built = month.build(month_of([unread_job()]))
    [row] = table(built, "SCI by project and unit").rows
    assert cells(row)[2:6] == [UNKNOWN] * 4  # R, energy, carbon and SCI
    *_, state = blocks(built, Figures)[0].items
    assert state.span == "no energy was read"


def test_the_statement_claims_no_assurance(full):
    statement = blocks(month.build(full), Facts)[0]
    printed = dict(statement.rows)
    assert printed["Assurance"] == "none: not assured by a third party"
    assert "self-declared, computed to ISO/IEC 21031:2024" in printed["Scores"]
    assert "certified" not in words(month.build(full)).lower()


def test_models_have_a_table_with_their_unfinished_runs():
    jobs = [steady_job(name, watts=500) for name in ("a", "b", "c")]
    for job in jobs:
        job.model_id = "m-1"
    jobs[1].state = "failed"
    jobs[2].kind = "inference"
    built = month.build(month_of(jobs))
    rows = table(built, "Runs by model").rows
    assert [cells(row)[:3] for row in rows] == [["m-1", "used it", "1"], ["m-1", "made it", "2"]]
    # Half the carbon of the two alike runs of the provider failed: the row of that state.
    failed = table(built, "Carbon by outcome").rows[1][3]
    assert [str(row[5]) for row in rows] == ["no run", f"{failed.text} ({failed.below}, 1 run)"]


def saving(job_id="b", target="nvidia-l4"):
    ratio = figure(0.4, 0.3, 0.5).scaled(1.0, "1")
    return {
        "job_id": job_id,
        "name": "train",
        "project": "vision",
        "action": "change-hardware",
        "target": target,
        "saved_g": figure(1200, 1000, 1400),
        "carbon_ratio": ratio,
        "reason": "measured on both parts",
        "basis": "measured",
        "verdict": "sure",
        "hardware": "nvidia-h100-sxm5-80",
        "work": "training",
    }


def test_what_to_do_is_grouped_by_hardware_work_and_action():
    """Three jobs with one swap are one row, with their sum and how sure it is."""
    jobs = [steady_job(name) for name in ("b", "c", "d", "e")]
    found = [saving("b"), saving("c"), saving("d"), {**saving("e", None), "action": "power-cap"}]
    document = month_of(jobs, advise=lambda jobs: found)
    built = month.build(document)
    swap, cap = table(built, "What to do: the actions that save most").rows
    assert [plain(text) for text in cells(swap)[:3]] == ["Move to NVIDIA L4", "vision: train", "3"]
    assert swap[2].below == "of 4"
    # 3 x 1 200 g; the three share one source, so their ranges add up: 3 000 to 4 200 g.
    assert (plain(swap[3].text), plain(swap[3].below)) == ("3.6 kg CO2e", "3.0 to 4.2")
    assert swap[4] == "sure"
    assert cells(cap)[0] == "Cap the power"
    loss = Quantity(76e3, -21e3, 140e3, "gCO2e", "estimated", "x")
    assert plain(saving_span(loss)) == "21 more to 140 less"


def test_what_became_of_last_months_suggestions_is_said(full):
    row = {"hardware": "a100", "work": "training", "action": "change-hardware", "target": "l4"}
    row |= {"jobs_before": 5, "jobs_now": 1, "target_before": 0, "target_now": 4}
    built = month.build(changed(full, followed=[{**row, "outcome": "partly"}]))
    [line] = table(built, "What became of last month").rows
    assert cells(line) == ["Move to l4", "5, 1", "0, 4", "partly followed"]


@pytest.mark.parametrize(
    ("made", "sentences"),
    [
        (
            lambda: month_of([steady_job("a", zone=None), unread_job()]),
            (
                "No grid zone is known of 2 of 2 jobs",
                "A term of 1 of 2 jobs is not known; the sums hold the known parts only.",
            ),
        ),
        (lambda: month_of([steady_job()], ended=False), ("The month is not over",)),
        (  # the second from 31 May 08:00 to 1 June 08:00
            lambda: month_of([steady_job("a"), varied_job("b", start=30 * 86_400, hours=24)]),
            ("All projects; 2 jobs, of which 1 ended in this month; days and months in UTC.",),
        ),
        (
            lambda: month_of([]),
            ("Nil report: no job was recorded in May 2026. What ran without gramwatt's meter",),
        ),
    ],
)
def test_a_month_says_what_its_sums_lack(made, sentences):
    document = made()
    printed = words(month.build(document))
    assert all(sentence in printed for sentence in sentences)
    if not document.totals.jobs:
        assert headings(month.build(document)) == ["Summary", "Statement"]


@pytest.mark.parametrize(
    ("new", "old", "ratio", "text", "below"),
    [
        ((100, 80, 120), (110, 90, 130), (0.91, 0.8, 1.04), NO_DIFFERENCE, "-20 % to +4.0 %"),
        ((50, 40, 60), (100, 90, 130), (0.5, 0.4, 0.62), "-50 %", "-60 % to -38 %"),
        ((345, 340, 350), (100, 99, 101), (3.45, 3.45, 3.45), "+250 %", "+250 % to +250 %"),
        (None, (100, 90, 130), None, UNKNOWN, ""),
        ((5, 4, 6), (0, 0, 0), None, "from nothing", ""),
    ],
)
def test_a_change_is_said_where_its_range_leaves_out_none(new, old, ratio, text, below):
    cell = change(
        *(ends and Quantity(*ends, "gCO2e", "measured", "x") for ends in (new, old, ratio))
    )
    printed = [plain(line).replace("\N{MINUS SIGN}", "-") for line in (cell.text, cell.below)]
    assert printed == [text, below]


@pytest.mark.parametrize(
    ("ratio", "phrase"),
    [
        (0.43, "57 % less than in May"),
        (1.02, "2 % more than in May"),
        (1.0001, "the same as in May"),
        (34, "34 times as much as in May"),
    ],
)
def test_a_change_is_a_phrase(ratio, phrase):
    assert plain(against(ratio, "in May")) == phrase


def test_the_links_of_the_short_report_lead_to_sections_of_the_whole(full):
    page = html.render(month.build(full))
    (links,) = blocks(month.build_short(full, "/months/2026-05"), Links)
    assert len(links.items) > 10
    for name, address in links.items:
        path, _, fragment = address.partition("#")
        assert (path, f' id="{fragment}">{name}</h' in page) == ("/months/2026-05", True)
