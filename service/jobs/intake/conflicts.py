"""Lines of an upload that contradict stored ones: kept beside them, so that scores can say so.

One that has the number of a stored line, or the device and start of a stored interval, and states
something else, is stored as a statement. The merge decides which of them counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from gramwatt.sci.records.conflicts import contradicts
from gramwatt.sci.records.records import AnyRecord, IntervalRecord, encode
from gramwatt.service.jobs.journal import intervals_at, lines_numbered
from gramwatt.service.store.models import Statement
from gramwatt.service.store.upserts import upsert

Keys = Mapping[tuple[str, str], int]
"""Keys of writers by node and name."""
_Start = tuple[str, str, datetime]
_Number = tuple[str, str, int]


def set_aside(
    session: Session, job: int, keys: Keys, new: Sequence[AnyRecord], again: Sequence[AnyRecord]
) -> tuple[list[AnyRecord], int]:
    """Store lines that contradict others of the job as statements, those of `again` negative.

    `again` are lines whose number had arrived before. Returns the new lines that contradict none,
    and how many of all are stored as statements for the first time.
    """
    intervals = [record for record in (*new, *again) if isinstance(record, IntervalRecord)]
    known = {_start(stored): stored for stored in intervals_at(session, job, intervals)}
    rest: list[AnyRecord] = []
    lines = []
    for record in new:
        if isinstance(record, IntervalRecord) and _clashes(record, known):
            writer = keys[record.node, record.writer]
            lines.append({"writer": writer, "seq": record.seq, "line": encode(record)})
        else:
            rest.append(record)
    seen: dict[_Number, list[AnyRecord]] = defaultdict(list)
    if doubtful := [record for record in again if _differs(record, known)]:
        for record in (*new, *lines_numbered(session, job, keys, doubtful)):
            seen[_number(record)].append(record)
    for record in doubtful:
        if record not in seen[_number(record)]:
            writer = keys[record.node, record.writer]
            lines.append({"writer": writer, "seq": -record.seq, "line": encode(record)})
            seen[_number(record)].append(record)
    upsert(session, Statement, lines)
    return rest, len(lines)


def _clashes(record: IntervalRecord, known: dict[_Start, IntervalRecord]) -> bool:
    """Return whether an interval contradicts the known one; else the later of both is known."""
    other = known.setdefault(_start(record), record)
    if contradicts(record, other):
        return True
    if (other.end, other.seq) < (record.end, record.seq):
        known[_start(record)] = record
    return False


def _differs(record: AnyRecord, known: Mapping[_Start, IntervalRecord]) -> bool:
    """Return whether no line of this number says what `record` does, nor one that grew from it."""
    if not isinstance(record, IntervalRecord):
        return True
    other = known.get(_start(record))
    return other is None or contradicts(record, other)


def _start(record: IntervalRecord) -> _Start:
    return record.node, record.device_id, record.start


def _number(record: AnyRecord) -> _Number:
    return record.node, record.writer, record.seq
