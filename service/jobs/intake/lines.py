"""Journal lines to records, in batches: by compiled parsers, with the journal's own verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import (
    INTERVAL_BEGINS,
    LINE_MAX_B,
    AnyRecord,
    IntervalRecord,
    parse_line,
    to_record,
)
from gramwatt.service.jobs.intake.intervals import Intervals, count_of, read_intervals
from gramwatt.service.jobs.intake.tally import Tally
from gramwatt.service.turns import UPLOADS

BATCH_LINES = 5_000
"""Records of one transaction: they bound the memory of an upload and the wait of other writers."""
PORTION_B = 2**18
"""Lines are read together until they have this size [B]."""

_UNREAD = RecordError("not read: too many lines before it were refused", code="too-many-refused")
_parse = msgspec.json.Decoder(dict[str, Any]).decode
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

    Each of `lines` is a line, or several with the ends between them. `check` raises RecordError for
    a record that this store refuses. The caller adds each batch to `tally` before it asks for the
    next.
    """
    batch, first, rest = Batch(), 1, iter(lines)
    while portion := _portion(rest):
        text = b"\n".join(portion)
        others = _add_usual(batch, job_id, text, first)
        hopeless = _add_each(batch, job_id, others, check, tally)
        if hopeless is not None:
            unread = chain(
                (line for _, line in others),
                chain.from_iterable(more.split(b"\n") for more in rest),
            )
            tally.refuse(hopeless, _UNREAD, 1 + sum(1 for line in unread if line.strip()))
            break
        first += count_of(text, b"\n") + 1
        if len(batch) >= BATCH_LINES:
            yield batch
            batch = Batch()
    if len(batch):
        yield batch


def _portion(lines: Iterator[bytes]) -> list[bytes]:
    """The next lines, as many as are read together."""
    found: list[bytes] = []
    size_b = 0
    for line in lines:
        found.append(line)
        size_b += len(line) + 1
        if size_b >= PORTION_B:
            break
    return found


def _add_usual(batch: Batch, job_id: str, text: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """Add the intervals in lines that can be read together; the other lines, with their numbers.

    `first` is the number of the first line.
    """
    if _add_together(batch, job_id, text):
        return iter(())
    lines = text.split(b"\n")
    usual = [line for line in lines if line.startswith(INTERVAL_BEGINS)]
    numbered = enumerate(lines, first)
    if len(usual) < len(lines) and _add_together(batch, job_id, b"\n".join(usual)):
        return ((number, line) for number, line in numbered if not line.startswith(INTERVAL_BEGINS))
    return numbered


def _add_together(batch: Batch, job_id: str, text: bytes) -> bool:
    """Add the intervals in lines that all begin as intervals; False where they cannot be read."""
    with UPLOADS.taken():
        columns = read_intervals(job_id, text)
    if columns is not None:
        batch.intervals.extend(columns)
    return columns is not None


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
    if len(line) > LINE_MAX_B or not _has_plain_names(line):
        return parse_line(line)
    try:
        doc = _parse(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return parse_line(line)
    named = len(doc) + sum([len(value) for value in doc.values() if type(value) is dict])
    return doc if line.count(b'":') == named else parse_line(line)


def _has_plain_names(line: bytes) -> bool:
    """Whether every name in JSON is followed by `":`, and so can be counted."""
    return not (b" :" in line or b"\t:" in line or b"\r:" in line)
