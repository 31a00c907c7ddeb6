"""What is summed over the jobs of a pack: a model, or a month beside the month before."""

from __future__ import annotations

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from gramwatt.sci.analysis.model_totals import model_totals
from gramwatt.sci.analysis.month import months_of, previous_month
from gramwatt.sci.base.document import JobDoc
from gramwatt.service.months.sums.part import PartRow, parts_of
from gramwatt.service.store.timestamps import to_us

JOB, MODEL, MONTH = "job", "model", "month"
BEFORE = "inputs/month-before.ndjson"
"""The parts of the jobs of the month before, as numbers: what `previous` and `changes` stand on."""


def file_of(kind: str) -> str:
    """Return the file with the sums of a pack of this kind."""
    return f"{kind}.json"


def model_sums(model_id: str, documents: Iterable[JobDoc], stated: Mapping[str, Any]) -> Any:
    """Return the sums over all runs of a model, beside as many unscored ones as are stated."""
    runs = list(documents)
    held = sum(job["excluded"] is None for job in runs)
    return model_totals(model_id, runs, unscored=stated["jobs"] - held)


def month_sums(
    month: str,
    documents: Sequence[JobDoc],
    before: Sequence[PartRow],
) -> dict[str, Any]:
    """Return the fields of a month's document that are sums over its jobs, and its largest jobs."""
    from gramwatt.service.months.sums.month import MonthSums

    rows = [
        row
        for number, job in enumerate(documents)
        for row in _parts(number, job)
        if row[0] == month
    ]
    sums = MonthSums(month, [[row for _, row in rows]])
    top = [months_of(documents[key])[month].head() for key in sums.top()]
    earlier = MonthSums(previous_month(month), [list(before)]).as_previous()
    fields = sums.fields(earlier)
    names = {job["job_id"]: job["name"] for job in documents}
    for row in (row for limit in fields["grade_limits"] for row in limit["jobs"]):
        row["name"] = names[row["job_id"]]
    del fields["market_based"]  # a memo by the issuer's settings
    return {**fields, "top_jobs": top}


def _parts(number: int, job: JobDoc) -> Iterable[tuple[str, PartRow]]:
    started_us = to_us(datetime.fromisoformat(job["started_at"]))
    for month, part in parts_of(job).items():
        yield month, PartRow(number, job["job_id"], started_us, part.texts, part.numbers)


def parts_text(rows: Iterable[PartRow]) -> bytes:
    """Parts of jobs as lines of JSON, in the order of their start."""
    ordered = sorted(rows, key=lambda row: (row.started_us, row.job_id))
    lines = (
        {
            "job_id": row.job_id,
            "started_us": row.started_us,
            "texts": b64encode(row.texts).decode(),
            "numbers": b64encode(row.numbers).decode(),
        }
        for row in ordered
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def read_parts_text(content: bytes) -> list[PartRow]:
    """Return what `parts_text` wrote; raises ValueError, KeyError or TypeError for anything
    else.
    """
    rows = [json.loads(line) for line in io.BytesIO(content)]
    return [
        PartRow(
            number,
            row["job_id"],
            row["started_us"],
            b64decode(row["texts"]),
            b64decode(row["numbers"]),
        )
        for number, row in enumerate(rows)
    ]
