"""Journal lines to records, in batches, and the account of what became of each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.records.records import AnyRecord, decode
from gramwatt.service.common.answers import Acknowledged, IngestAnswer, Rejected

BATCH_LINES = 5_000
"""Records of one transaction: they bound the memory of an upload and the wait of other writers."""
LISTED_MOST = 100
"""Refused lines that an answer lists; all are counted."""
REFUSED_MOST = 10_000
"""Refused lines after which an upload that has fewer good ones is not read on: it is no journal."""
MESSAGE_MOST = 300
"""Characters of a refusal's message."""

_UNREAD = RecordError("not read: too many lines before it were refused", code="too-many-refused")


@dataclass(slots=True)
class Tally:
    """What became of an upload's lines: counted in full, refusals listed up to a limit."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    listed: list[Rejected] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    arrived: dict[tuple[str, str], int] = field(default_factory=dict)

    def too_many_rejected(self, waiting: int) -> bool:
        """Return whether so many were refused that the rest is not worth reading.

        `waiting` good lines are not counted yet.
        """
        good = self.accepted + self.duplicate + waiting
        return self.rejected >= max(REFUSED_MOST, good)

    def refuse(self, line: int, error: RecordError, count: int = 1) -> None:
        """Count a refused line, or several, and list the first while there is room."""
        self.rejected += count
        self.codes[error.code] += count
        if len(self.listed) < LISTED_MOST:
            message = error.message[:MESSAGE_MOST]
            self.listed.append(Rejected(line=line, code=error.code, message=message))

    def add(self, accepted: int, duplicate: int, acknowledged: Iterable[Acknowledged]) -> None:
        """Count the lines of a stored batch; of each writer the latest acknowledgement stands."""
        self.accepted += accepted
        self.duplicate += duplicate
        self.arrived |= {(row.node, row.writer): row.seq for row in acknowledged}

    def answer(self) -> IngestAnswer:
        """Return the counts as an answer."""
        return IngestAnswer(
            accepted=self.accepted,
            duplicate=self.duplicate,
            rejected=self.listed,
            rejected_count=self.rejected,
            rejected_codes=dict(self.codes),
            acknowledged=[
                Acknowledged(node=node, writer=writer, seq=seq)
                for (node, writer), seq in sorted(self.arrived.items())
            ],
        )


def batches(
    job_id: str, lines: Iterable[bytes], check: Callable[[AnyRecord], None], tally: Tally
) -> Iterator[list[AnyRecord]]:
    """Return the records of the job in batches; what may not be stored is counted in `tally`.

    `check` raises RecordError for a record that this store refuses. The caller adds each batch to
    `tally` before it asks for the next.
    """
    batch: list[AnyRecord] = []
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        if not line or line.isspace():
            continue
        if tally.too_many_rejected(len(batch)):
            tally.refuse(number, _UNREAD, 1 + sum(1 for _, rest in numbered if rest.strip()))
            break
        try:
            record = decode(line)
            if record.job_id != job_id:
                text = f"the line is of job {record.job_id!r}, the address of {job_id!r}"
                raise RecordError(text, code="wrong-job")
            check(record)
        except RecordError as error:
            tally.refuse(number, error)
            continue
        batch.append(record)
        if len(batch) == BATCH_LINES:
            yield batch
            batch = []
    if batch:
        yield batch
