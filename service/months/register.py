"""The register of a month: its jobs out of the scores that a report was made of."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.trail import RegisterRow
from gramwatt.service.access.projects import one_project
from gramwatt.service.container import Service
from gramwatt.service.months import revisions
from gramwatt.service.months.register_row import register_row
from gramwatt.service.months.revisions import Ledger, ledger_of, unpack_ledger
from gramwatt.service.store.models import Deletion, Score

KEYS_AT_ONCE = 200
EMBEDDED_MOST = 1_000
"""Rows that the month's own document has, the largest; its register has all."""
FIGURES = (
    *("energy_kwh", "pue", "factor_g_per_kwh"),
    *("operational_g", "embodied_g", "total_g"),
)
PLAIN = (
    *("job_id", "project", "state", "started_at", "ended_at", "zone", "place"),
    *("score_revision", "counted", "corrections"),
)
ENDS = ("value", "low", "high", "kind", "source")


def register(
    service: Service, month: str, project: str | None = None, revision: int | None = None
) -> Iterator[RegisterRow]:
    """Yield a row for each scored job of a month, the largest first; none of a month without one.

    With `revision`, those of that kept report: by the scores that it was made of. Else by the
    newest scores. Excluded jobs are not `counted`.
    """
    project = one_project(service, project, month)
    service = service.for_every_project()
    with service.store.read() as session:
        ledger = _ledger(session, month, project, revision)
    return _rows(service, month, ledger)


def with_jobs(service: Service, text: str) -> str:
    """Return the document of a month, as JSON, with the largest rows of its register."""
    document = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    month, project, number = (
        msgspec.json.decode(document[name]) for name in ("month", "project", "revision")
    )
    service = service.for_every_project()
    with service.store.read() as session:
        ledger = _ledger(session, month, project, number)
    largest = dict(list(ledger.items())[:EMBEDDED_MOST])
    rows = list(_rows(service, month, largest))
    return msgspec.json.encode({**document, "jobs": rows}).decode()


def register_csv(rows: Iterator[RegisterRow]) -> Iterator[str]:
    """Yield the register as CSV, a line at a time; an unknown figure is empty.

    It begins with the mark by which spreadsheets know that it is UTF-8.
    """
    yield "\ufeff"
    columns = [f"{name}_{end}" for name in FIGURES for end in ENDS]
    yield _line([*PLAIN, *columns, "job", "journal", "revisions"])
    for row in rows:
        found: dict[str, Any] = dict(row)
        figures = [found[name][end] if found[name] else "" for name in FIGURES for end in ENDS]
        plain = ["" if found[name] is None else found[name] for name in PLAIN]
        yield _line([*plain, *figures, *found["links"].values()])


def register_json(
    month: str, project: str | None, revision: int | None, rows: Iterator[RegisterRow]
) -> Iterator[str]:
    """Yield the register as one JSON document, a row at a time."""
    head = json.dumps({"month": month, "project": project, "revision": revision})
    yield f'{head[:-1]}, "jobs": ['
    for number, row in enumerate(rows):
        yield f"{',' if number else ''}\n{json.dumps(row, allow_nan=False)}"
    yield "\n]}\n"


def _line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_inert(cell) for cell in cells])
    return out.getvalue()


def _inert(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs as a formula."""
    is_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if is_formula else cell


def _ledger(
    session: Session, month: str, project: str | None, revision: int | None
) -> dict[int, int]:
    if revision is None:
        return ledger_of(session, month, project)
    return unpack_ledger(revisions.kept_jobs(session, month, project, revision))


def _rows(service: Service, month: str, ledger: Ledger) -> Iterator[RegisterRow]:
    """Yield the rows in the order of the ledger; of a deleted job the one that was kept."""
    keys = list(ledger)
    for first in range(0, len(keys), KEYS_AT_ONCE):
        portion = keys[first : first + KEYS_AT_ONCE]
        with service.store.read() as session:
            found = _portion(session, month, portion, ledger)
        yield from (found[key] for key in portion if key in found)


def _portion(
    session: Session, month: str, keys: Sequence[int], ledger: Ledger
) -> dict[int, RegisterRow]:
    scores = sa.select(Score.job, Score.revision, Score.doc).where(Score.job.in_(keys))
    found = {
        key: register_row(msgspec.json.decode(doc), month)
        for key, revision, doc in session.execute(scores)
        if ledger[key] == revision
    }
    gone = sa.select(Deletion.job, Deletion.scores).where(Deletion.job.in_(keys))
    for key, text in session.execute(gone):
        assert key is not None  # it was asked for
        kept = json.loads(text).get(str(ledger[key]))
        if kept is not None and month in kept["rows"]:
            found[key] = kept["rows"][month]
    return found
