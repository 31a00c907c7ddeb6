"""Journal lines to records: by a compiled parser, with the journal's own rules and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.base.quantity import Kind
from gramwatt.sci.journal.bounds import LEAST_W, MOST, PROFILE_MOST
from gramwatt.sci.journal.records import (
    ID_MOST,
    LINE_MAX_B,
    LONGEST_S,
    AnyRecord,
    IntervalRecord,
    check_meaning,
    is_identifier,
    parse_line,
    profile_name,
    to_record,
)
from gramwatt.sci.journal.telemetry import NAMES
from gramwatt.service.usecases.intake.tally import REFUSED_MOST, Tally

BATCH_LINES = 5_000
"""Records of one transaction: they bound the memory of an upload and the wait of other writers."""

_UNREAD = RecordError("not read: too many lines before it were refused", code="too-many-refused")
_parse = msgspec.json.Decoder(dict[str, Any]).decode
_BEGINS = b'{"v":1,"type":"interval",'
"""How `encode` begins the line of an interval; others are read as any line is."""
_NAMED = 11
"""Fields that every interval has."""
_TELEMETRY = frozenset(NAMES)
_Identifier = Annotated[str, Meta(max_length=ID_MOST)]
_Share = Annotated[float, Meta(ge=0, le=MOST["utilisation_mean"])]
_Memory = Annotated[float, Meta(ge=0, le=MOST["memory_peak_b"])]
_Power = Annotated[float, Meta(ge=0, le=MOST["power_max_w"])]
_ProfileFigure = Annotated[float, Meta(ge=-PROFILE_MOST, le=PROFILE_MOST)]


class _Interval(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An interval's line, with the bounds that `sci/journal/records.py` sets."""

    v: Literal[1]
    type: Literal["interval"]
    job_id: _Identifier
    node: _Identifier
    writer: _Identifier
    seq: Any
    device_id: _Identifier
    start: str
    end: str
    energy_j: Annotated[float, Meta(ge=0)]
    kind: Kind
    utilisation_mean: _Share | None = None
    utilisation_max: _Share | None = None
    memory_peak_b: _Memory | None = None
    power_max_w: _Power | None = None
    profile: Annotated[dict[str, _ProfileFigure], Meta(max_length=64)] | None = None


_parse_interval = msgspec.json.Decoder(_Interval).decode


def checked(
    job_id: str, lines: Iterable[bytes], check: Callable[[AnyRecord], None], tally: Tally
) -> Iterator[list[AnyRecord]]:
    """The records of the job in batches; what may not be stored is counted in `tally`.

    `check` raises RecordError for a record that this store refuses.
    """
    batch: list[AnyRecord] = []
    kept, rest_of = 0, iter(lines)
    for number, line in enumerate(rest_of, start=1):
        if not line or line.isspace():
            continue
        if tally.rejected >= max(REFUSED_MOST, kept):
            tally.refuse(number, _UNREAD, 1 + sum(1 for rest in rest_of if rest.strip()))
            break
        try:
            record = record_of(line)
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


def record_of(line: bytes) -> AnyRecord:
    """As `decode`: intervals, of which there are millions, by a parser made for them."""
    return (_interval(line) if line.startswith(_BEGINS) else None) or to_record(parsed(line))


def _interval(line: bytes) -> IntervalRecord | None:
    """The record of an interval's line; None for one that `decode` has to judge."""
    if not _has_plain_names(line):
        return None
    try:
        found = _parse_interval(line)
        start, end = datetime.fromisoformat(found.start), datetime.fromisoformat(found.end)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    if not (start.tzinfo is UTC is end.tzinfo and 2000 <= start.year <= end.year < 2200):
        return None
    seq, profile = found.seq, found.profile
    if type(seq) is not int or not 1 <= seq < 2**53:
        return None
    if not _are_identifiers(found.job_id, found.node, found.writer, found.device_id):
        return None
    more = found.utilisation_mean, found.utilisation_max, found.memory_peak_b, found.power_max_w
    named = _NAMED + len(more) - more.count(None)
    if profile is not None:
        named += 1 + len(profile)
        if not profile.keys() <= _TELEMETRY:
            tuple(map(profile_name, profile))  # raises for a name that is none
    if line.count(b'":') != named:
        return None
    record = IntervalRecord(
        job_id=found.job_id,
        node=found.node,
        writer=found.writer,
        seq=seq,
        device_id=found.device_id,
        start=start,
        end=end,
        energy_j=found.energy_j,
        kind=found.kind,
        utilisation_mean=more[0],
        utilisation_max=more[1],
        memory_peak_b=more[2],
        power_max_w=more[3],
        profile=profile or {},
    )
    length_s = (end - start).total_seconds()
    if not (0 < length_s <= LONGEST_S and record.energy_j <= LEAST_W * length_s):
        check_meaning(record)
    return record


@lru_cache(4096)
def _are_identifiers(*texts: str) -> bool:
    """Whether all may identify something; remembered, because journals repeat theirs."""
    return all(map(is_identifier, texts))


def _has_plain_names(line: bytes) -> bool:
    """Whether every name in the line is followed by `":`, and so can be counted."""
    if len(line) > LINE_MAX_B:
        return False
    # Meters write no blanks, and one byte is found ten times as fast as two.
    return not (
        (b" " in line and b" :" in line)
        or (b"\t" in line and b"\t:" in line)
        or (b"\r" in line and b"\r:" in line)
    )


def parsed(line: bytes) -> dict[str, Any]:
    """As `parse_line`, and several times as fast for what meters write.

    What the compiled parser refuses, and what may name a field twice, `parse_line` decides: as
    many `":` as fields are no more names than fields.
    """
    if not _has_plain_names(line):
        return parse_line(line)
    try:
        doc = _parse(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return parse_line(line)
    named = len(doc) + sum([len(value) for value in doc.values() if type(value) is dict])
    return doc if line.count(b'":') == named else parse_line(line)
