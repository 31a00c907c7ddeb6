"""What became of an upload's lines: counted in full, and refusals listed up to a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gramwatt.sci.base.errors import RecordError
from gramwatt.service.common.answers import Acknowledged, IngestAnswer, Rejected

LISTED_MOST = 100
"""Refused lines that an answer lists; all are counted."""
REFUSED_MOST = 10_000
"""Refused lines after which an upload that has fewer good ones is not read on: it is no journal."""
MESSAGE_MOST = 300
"""Characters of a refusal's message."""


@dataclass(slots=True)
class Tally:
    """Counts of an upload's lines."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    listed: list[Rejected] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    arrived: dict[tuple[str, str], int] = field(default_factory=dict)

    def is_hopeless(self, waiting: int) -> bool:
        """Whether so many were refused that the rest is not worth reading.

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
            self.listed.append({"line": line, "code": error.code, "message": message})

    def add(self, accepted: int, duplicate: int, acknowledged: Iterable[Acknowledged]) -> None:
        """Count the lines of a stored batch; of each writer the latest acknowledgement stands."""
        self.accepted += accepted
        self.duplicate += duplicate
        self.arrived |= {(row["node"], row["writer"]): row["seq"] for row in acknowledged}

    def answer(self) -> IngestAnswer:
        """The counts as an answer."""
        return {
            "accepted": self.accepted,
            "duplicate": self.duplicate,
            "rejected": self.listed,
            "rejected_count": self.rejected,
            "rejected_codes": dict(self.codes),
            "acknowledged": [
                {"node": node, "writer": writer, "seq": seq}
                for (node, writer), seq in sorted(self.arrived.items())
            ],
        }
