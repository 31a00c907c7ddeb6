"""Supplementary tables of a job report: factors, lifetimes, SCI for AI."""

from functools import partial

from gramwatt.reports import job
from gramwatt.reports.model import Facts, NoticeBlock
from tests.blocks import blocks, headings, plain, table
from tests.documents import cluster_job

TAGS = {
    "convert.token": "1e-6 million tokens; by definition; 2026",
    "unit_values": "gross",
}
FACTORS = "Conversion of units"
full = partial(job.build, full=True)


def test_a_plain_job_has_no_factors():
    found = headings(full(cluster_job()))
    assert FACTORS not in found


def test_factors_are_printed_with_source_and_date():
    doc = cluster_job(tags=TAGS)
    built = full(doc)
    assert FACTORS in headings(built)
    [row] = table(built, "Factors between functional units").rows
    assert plain(str(row[0])) == "1 token = 0.000001 million tokens"
    assert plain(str(row[1])) == "48 234 496 token"
    assert str(row[2]) == "by definition (2026)"


def test_the_sensitivity_table_has_the_score_of_each_lifetime():
    doc = cluster_job()
    rows = table(full(doc), "Embodied carbon, total and SCI by expected lifetime (EL)").rows
    assert [row[0] for row in rows] == ["3 years", "4 years", "5 years", "6 years"]
    kept = doc.embodied_g["value"]
    at_three = f"{kept * 4 / 3:.3g}"
    assert plain(str(rows[0][1])).startswith(at_three)


def test_the_facts_of_the_job_say_persona_and_values():
    [facts] = [b for b in blocks(full(cluster_job(tags=TAGS)), Facts) if b.rows[0][0] == "Name"]
    printed = dict(facts.rows)
    assert printed["SCI for AI"].startswith("A provider score of SCI for AI in training token")
    assert printed["Values"] == "gross"


def test_a_synthetic_meter_is_the_first_block_and_no_sci():
    first = full(cluster_job(notices=("meter-synthetic: read from nvml-synthetic.",))).blocks[0]
    assert isinstance(first, NoticeBlock)
    assert first.severity == "warning"
    assert "not an SCI score" in first.text
