"""Supplementary tables of a job report: factors, lifetimes, contracts, SCI for AI."""

from functools import partial

from gramwatt.reports import job
from gramwatt.reports.model import Facts, NoticeBlock
from gramwatt.sci.analysis.audit import self_audit
from tests.blocks import blocks, headings, plain, table, words
from tests.documents import cluster_job

TAGS = {
    "convert.token": "1e-6 million tokens; by definition; 2026",
    "contract_g_per_kwh": "12",
    "contract_source": "supplier's statement 2025",
    "unit_values": "gross",
}
CONTRACT = "Market-based figures, outside the score"
FACTORS = "Conversion of units"
full = partial(job.build, full=True)


def test_a_plain_job_has_neither_factors_nor_contracts():
    found = headings(full(cluster_job()))
    assert CONTRACT not in found
    assert FACTORS not in found


def test_factors_are_printed_with_source_and_date():
    doc = cluster_job(tags=TAGS)
    built = full(doc)
    assert FACTORS in headings(built)
    [row] = table(built, "Factors between functional units").rows
    assert plain(str(row[0])) == "1 token = 0.000001 million tokens"
    assert plain(str(row[1])) == "48 234 496 token"
    assert str(row[2]) == "by definition (2026)"


def test_the_contract_stands_apart():
    plain_doc, signed = cluster_job(tags={}), cluster_job(tags=TAGS)
    built = full(signed)
    assert headings(built).index(CONTRACT) > headings(built).index("Ranges and digits")
    printed = words(built)
    assert "It is no part of SCI" in printed
    assert "supplier's statement 2025" in printed
    assert [row["passed"] for row in self_audit(signed)] == [True] * len(self_audit(signed))
    figures = [
        {key: doc[key] for key in ("energy_kwh", "operational_g", "embodied_g", "total_g", "days")}
        for doc in (plain_doc, signed)
    ]
    figures = [{**row, "days": [d["operational_g"] for d in row["days"]]} for row in figures]
    assert figures[0] == figures[1]


def test_the_sensitivity_table_has_the_score_of_each_lifetime():
    doc = cluster_job()
    rows = table(full(doc), "Embodied carbon, total and SCI by expected lifetime (EL)").rows
    assert [row[0] for row in rows] == ["3 years", "4 years", "5 years", "6 years"]
    kept = doc["embodied_g"]["value"]
    at_three = f"{kept * 4 / 3:.3g}"
    assert plain(str(rows[0][1])).startswith(at_three)


def test_the_facts_of_the_job_say_persona_and_values():
    [facts] = [b for b in blocks(full(cluster_job(tags=TAGS)), Facts) if b.rows[0][0] == "Name"]
    printed = dict(facts.rows)
    assert printed["SCI for AI"].startswith("A provider score of SCI for AI in training token")
    assert printed["Values"] == "gross"


def test_a_synthetic_meter_is_the_first_block_and_no_sci():
    first = full(cluster_job(notices=("meter-synthetic: read from nvml-replay.",))).blocks[0]
    assert isinstance(first, NoticeBlock)
    assert first.severity == "warning"
    assert "not an SCI score" in first.text
