"""The report's audit section: every check in the table, failed ones named in words."""

from gramwatt.reports.sections.audit import audit_blocks
from gramwatt.sci.analysis.audit import self_audit
from tests.documents import cluster_job


def test_an_honest_document_holds():
    doc = cluster_job()
    _, printed, table = audit_blocks(doc)
    assert printed.text == "Every check holds."
    assert [row[0] for row in table.rows] == [row["check"] for row in self_audit(doc)]
    assert {row[-1] for row in table.rows} == {"yes"}


def test_a_slip_is_named():
    doc = cluster_job()
    doc["total_g"] = {**doc["total_g"], "value": doc["total_g"]["value"] * 1.1}
    _, printed, table = audit_blocks(doc)
    assert printed.text == "These checks do not hold: C = O + M; SCI = C / R per token."
    (row,) = [row for row in table.rows if row[0] == "C = O + M"]
    assert row[-1] == "no"
    assert row[1] != row[2]


def test_an_unknown_figure_fails():
    _, _, table = audit_blocks({**cluster_job(), "total_g": None})
    (row,) = [row for row in table.rows if row[0] == "C = O + M"]
    assert row[2] == "not known"
    assert row[-1] == "no"
