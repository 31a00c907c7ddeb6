"""What the reports say: sections, figures and first lines, before any renderer."""

import pytest

from gramwatt.reports import csvout, job, month
from gramwatt.reports.document import (
    Chart,
    Facts,
    Figures,
    Heading,
    NoticeBlock,
    Table,
    Text,
)
from gramwatt.reports.month import NO_DIFFERENCE, change
from gramwatt.sci.figures import NARROW_SPACE, UNKNOWN
from tests.reports import samples

SECTIONS = [
    "Summary",
    "Deviations",
    "The score and its terms",
    "Energy over time",
    "Devices",
    "Data quality",
    "Notices",
    "Sources",
    "Method and boundary",
    "Self-audit",
    "What measuring cost",
]


def headings(document):
    return [block.text for block in document.blocks if isinstance(block, Heading)]


def words(document):
    """Every text of a document, as one."""
    found = [document.title, document.subtitle]
    for block in document.blocks:
        if isinstance(block, Heading | Text | NoticeBlock):
            found.append(block.text)
        elif isinstance(block, Facts):
            found += [" ".join(row) for row in block.rows]
        elif isinstance(block, Figures):
            found += [f"{i.label} {i.value} {i.span} {i.note}" for i in block.items]
        elif isinstance(block, Table):
            found += [" ".join(row) for row in block.rows]
        elif isinstance(block, Chart):
            found += [block.caption, block.alt]
    return "\n".join(found).replace(NARROW_SPACE, " ").replace("\u00a0", " ")


def test_a_job_report_has_every_section_in_order():
    assert headings(job.build(samples.job())) == SECTIONS


def test_the_summary_shows_each_term_with_its_range():
    document = samples.job()
    [figures] = [b for b in job.build(document).blocks if isinstance(b, Figures)]
    shown = {item.label: item for item in figures.items}
    # 4 x 500 W and 200 W for 2 h; the range is 5 % of the counters and 40 % of the model.
    assert shown["Energy (E)"].value.replace(NARROW_SPACE, " ") == "4.4 kWh"
    assert shown["Energy (E)"].span.replace(NARROW_SPACE, " ") == "4.0 to 4.8 kWh"
    assert "1 281 167 counted" in shown["SCI per image"].note.replace(NARROW_SPACE, " ")
    assert {"Operational carbon (O)", "Embodied carbon (M)", "Total (O + M)"} < set(shown)


def test_without_a_zone_the_first_block_says_so():
    first = job.build(samples.job(zone=None)).blocks[0]
    assert isinstance(first, NoticeBlock)
    assert first.severity == "warning"
    assert "world average" in first.text
    assert "not an SCI score" in first.text


def test_an_unknown_figure_is_said_and_never_a_nought():
    [figures] = [b for b in job.build(samples.unknown_job()).blocks if isinstance(b, Figures)]
    assert [item.value for item in figures.items if "Embodied" not in item.label] == [UNKNOWN] * 4
    assert "No energy was read." in words(job.build(samples.unknown_job()))


def test_every_input_has_its_source_in_the_table():
    document = samples.job()
    [table] = [
        b
        for b in job.build(document).blocks
        if isinstance(b, Table) and b.caption.startswith("Inputs")
    ]
    listed = {row[0] for row in table.rows}
    assert listed == {row["what"] for row in document["method"]["inputs"]}
    assert all(row[-1] for row in table.rows)


def test_the_chart_holds_the_energy_of_the_job():
    document = samples.job()
    charts = [b for b in job.build(document).blocks if isinstance(b, Chart)]
    rows = charts[0].spec["data"]["values"]
    # Bars are mean watts over a step in minutes: their area is the energy.
    joules = sum(row["y"] * (row["x2"] - row["x"]) * 60 for row in rows)
    assert joules == pytest.approx(document["energy_kwh"]["value"] * 3.6e6)


def test_no_report_claims_certification():
    for document in (samples.job(), samples.job(zone=None), samples.unknown_job()):
        said = words(job.build(document)).lower()
        assert "certified" not in said
        assert "self-declared" in said


def test_a_month_adds_its_jobs_and_names_the_dearest_first():
    jobs = [samples.job("a", watts=300), samples.job("b", watts=600)]
    built = month.build(samples.month(jobs))
    tables = {b.caption: b for b in built.blocks if isinstance(b, Table)}
    assert [row[0] for row in tables["Top jobs"].rows] == ["b", "a"]
    [row] = tables["Projects and units"].rows
    assert row[:3] == ("vision", "image", "2")
    assert row[3].replace(NARROW_SPACE, "") == str(2 * 1_281_167)


def test_a_change_within_the_ranges_is_no_reliable_difference():
    def figure(value, low, high):
        return {
            "value": value,
            "low": low,
            "high": high,
            "unit": "gCO2e",
            "kind": "measured",
            "source": "x",
        }

    assert change(figure(100, 80, 120), figure(110, 90, 130)) == NO_DIFFERENCE
    assert change(figure(50, 40, 60), figure(100, 90, 130)) == f"-50{NARROW_SPACE}%"
    assert change(None, figure(100, 90, 130)) == UNKNOWN


def test_the_month_before_stands_beside_this_one():
    now, before = samples.job("a"), samples.job("b")
    before = {**before, "days": [{**day, "day": "2026-04-01"} for day in before["days"]]}
    built = month.build(samples.month([now], [before]))
    [table] = [b for b in built.blocks if isinstance(b, Table) and "before" in b.caption]
    assert table.rows[0][1:] == ("1", "1", "+0")
    assert {row[3] for row in table.rows[1:]} == {NO_DIFFERENCE}


def test_an_empty_month_says_so():
    built = month.build(samples.month([]))
    assert "No job was measured in this month." in words(built)
    assert headings(built) == ["Summary", "Statement"]


def test_a_month_warns_of_jobs_without_zone_and_of_unknown_terms():
    said = words(month.build(samples.month([samples.job("a", zone=None), samples.unknown_job()])))
    assert "2 of 2 jobs have no known grid zone" in said
    assert "1 jobs have a term that is not known" in said


def test_csv_keeps_full_precision_and_leaves_the_unknown_empty():
    document = samples.job()
    lines = csvout.job_csv(document).splitlines()
    assert lines[0] == "section,name,figure,value,low,high,unit,kind,source"
    energy = next(line for line in lines if line.startswith("total,job-1,energy_kwh"))
    assert float(energy.split(",")[3]) == document["energy_kwh"]["value"]
    unknown = csvout.month_csv(samples.month([samples.unknown_job()]))
    assert "total,2026-05,energy_kwh,,,,,unknown,\n" in unknown


def test_csv_texts_never_become_formulas():
    text = csvout.month_csv(samples.month([samples.job("a", project="=1+1")]))
    assert "'=1+1/image" in text
