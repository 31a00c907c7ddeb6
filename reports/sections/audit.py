"""The self-audit: whether the figures of a document agree with each other."""

from __future__ import annotations

from gramwatt.reports.model import Block, Column, Heading, Table, Text
from gramwatt.sci.analysis.audit import AuditDoc, self_audit
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.formatting import UNKNOWN, number


def audit_blocks(document: JobDoc) -> list[Block]:
    """Return a table of the checks, after a sentence that names the failed ones."""
    rows = self_audit(document)
    failed = [row["check"] for row in rows if not row["passed"]]
    result = f"These checks do not hold: {'; '.join(failed)}." if failed else "Every check holds."
    columns = (
        Column("Check", weight=2.2),
        Column("Should be", "right"),
        Column("Is", "right"),
        Column("Limit", weight=1.6),
        Column("Holds", weight=0.6),
    )
    table = Table("The figures of this report against each other", columns, tuple(map(_row, rows)))
    return [Heading("Self-audit"), Text(result), table]


def _row(row: AuditDoc) -> tuple[str, ...]:
    # Only a calculation has an expected figure; a check of a range has none.
    expected = _figure(row["expected"]) if row["calculated"] else ""
    limit = f"within {row['limit']}" if row["calculated"] else row["limit"]
    return (row["check"], expected, _figure(row["found"]), limit, "yes" if row["passed"] else "no")


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else number(value, 4)
