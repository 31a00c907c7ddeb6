"""Journal lines to records: by a compiled parser, with the journal's own rules and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import LINE_MAX_B, AnyRecord, parse_line, to_record
from gramwatt.service.usecases.intake.tally import REFUSED_MOST, Tally

BATCH_LINES = 5_000
"""Records of one transaction: they bound the memory of an upload and the wait of other writers."""

_UNREAD = RecordError("not read: too many lines before it were refused", code="too-many-refused")
_parse = msgspec.json.Decoder(dict[str, Any]).decode


def checked(
    job_id: str, lines: Iterable[bytes], check: Callable[[AnyRecord], None], tally: Tally
) -> Iterator[list[AnyRecord]]:
    """The records of the job in batches; what may not be stored is counted in `tally`.

    `check` raises RecordError for a record that this store refuses.
    """
    batch: list[AnyRecord] = []
    kept, rest_of = 0, iter(lines)
    for number, line in enumerate(rest_of, start=1):
        if _is_blank(line):
            continue
        if tally.rejected >= max(REFUSED_MOST, kept):
            tally.refuse(number, _UNREAD, 1 + sum(1 for rest in rest_of if not _is_blank(rest)))
            break
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
            kept += 1
        if len(batch) >= BATCH_LINES:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_blank(line: bytes) -> bool:
    return not line or line.isspace()


def parsed(line: bytes) -> dict[str, Any]:
    """As `parse_line`, and several times as fast for what meters write.

    What the compiled parser refuses, and what may name a field twice, `parse_line` decides: every
    name is followed by `":`, so as many of these as fields are no more names than fields.
    """
    if len(line) > LINE_MAX_B or b" :" in line or b"\t:" in line or b"\r:" in line:
        return parse_line(line)
    try:
        doc = _parse(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return parse_line(line)
    named = len(doc) + sum([len(value) for value in doc.values() if type(value) is dict])
    return doc if line.count(b'":') == named else parse_line(line)
