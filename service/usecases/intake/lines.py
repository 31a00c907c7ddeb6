"""Journal lines to records, in batches: by compiled parsers, with the journal's own verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from threading import Lock
from typing import Any

import msgspec

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import (
    LINE_MAX_B,
    AnyRecord,
    IntervalRecord,
    parse_line,
    to_record,
)
from gramwatt.service.usecases.intake.intervals import (
    BEGINS,
    Intervals,
    has_plain_names,
    read_intervals,
)
from gramwatt.service.usecases.intake.tally import Tally

BATCH_LINES = 5_000
"""Records of one transaction: they bound the memory of an upload and the wait of other writers."""
PORTION_LINES, PORTION_B = 1_000, 2**19
"""How many lines are read together, at most, and from which size on [B]."""

_UNREAD = RecordError("not read: too many lines before it were refused", code="too-many-refused")
_parse = msgspec.json.Decoder(dict[str, Any]).decode
_READING = Lock()
"""Held by the thread that reads. Only one can run Python at a time, and several that want to would
interrupt each other in turns, which takes a tenth more."""
Check = Callable[[AnyRecord], None]


@dataclass(slots=True)
class Batch:
    """Records of one job that are stored together, the intervals among them in columns."""

    records: list[AnyRecord] = field(default_factory=list)
    intervals: Intervals = field(default_factory=Intervals)

    def __len__(self) -> int:
        return len(self.records) + len(self.intervals)

    def append(self, record: AnyRecord) -> None:
        """Add a record of any type."""
        if isinstance(record, IntervalRecord):
            self.intervals.append(record)
        else:
            self.records.append(record)


def checked(job_id: str, lines: Iterable[bytes], check: Check, tally: Tally) -> Iterator[Batch]:
    """The records of the job in batches; what may not be stored is counted in `tally`.

    `check` raises RecordError for a record that this store refuses. The caller adds each batch to
    `tally` before it asks for the next.
    """
    batch, first, rest = Batch(), 1, iter(lines)
    while portion := _portion(rest):
        others = _add_usual(batch, job_id, portion, first)
        hopeless = _add_each(batch, job_id, others, check, tally)
        if hopeless is not None:
            unread = chain((line for _, line in others), rest)
            tally.refuse(hopeless, _UNREAD, 1 + sum(1 for line in unread if line.strip()))
            break
        first += len(portion)
        if len(batch) >= BATCH_LINES:
            yield batch
            batch = Batch()
    if len(batch):
        yield batch


def _portion(lines: Iterator[bytes]) -> list[bytes]:
    """The next lines, as many as are read together."""
    found: list[bytes] = []
    size_b = 0
    while len(found) < PORTION_LINES and size_b < PORTION_B:
        more = list(islice(lines, 50))
        if not more:
            break
        found += more
        size_b += sum(map(len, more))
    return found


def _add_usual(
    batch: Batch, job_id: str, portion: Sequence[bytes], first: int
) -> Iterator[tuple[int, bytes]]:
    """Add the intervals in lines that can be read together; the other lines, with their numbers.

    `first` is the number of the portion's first line.
    """
    numbered = enumerate(portion, first)
    usual = [line for line in portion if line.startswith(BEGINS)]
    with _READING:
        columns = read_intervals(job_id, usual) if usual else None
    if columns is None:
        return numbered
    batch.intervals.extend(columns)
    if len(usual) == len(portion):
        return iter(())
    return ((number, line) for number, line in numbered if not line.startswith(BEGINS))


def _add_each(
    batch: Batch,
    job_id: str,
    lines: Iterable[tuple[int, bytes]],
    check: Check,
    tally: Tally,
) -> int | None:
    """Add the records in numbered lines and count those that are refused.

    The number of the line at which so many were refused that this is no journal, else None.
    """
    for number, line in lines:
        if not line or line.isspace():
            continue
        if tally.is_hopeless(len(batch)):
            return number
        try:
            record = to_record(parsed(line))
            if record.job_id != job_id:
                text = f"the line is of job {record.job_id!r}, the address of {job_id!r}"
                raise RecordError(text, code="wrong-job")
            check(record)
        except RecordError as error:
            tally.refuse(number, error)
        else:
            batch.append(record)
    return None


def parsed(line: bytes) -> dict[str, Any]:
    """As `parse_line`, and several times as fast for what meters write.

    What the compiled parser refuses, and what may name a field twice, `parse_line` decides: as
    many `":` as fields are no more names than fields.
    """
    if len(line) > LINE_MAX_B or not has_plain_names(line):
        return parse_line(line)
    try:
        doc = _parse(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return parse_line(line)
    named = len(doc) + sum([len(value) for value in doc.values() if type(value) is dict])
    return doc if line.count(b'":') == named else parse_line(line)
