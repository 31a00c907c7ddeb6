"""Which sequence numbers of a writer have arrived, in a few bytes however long the job."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, field

MOST_SPANS = 256
"""Spans remembered above the first gap. A line older than what is remembered counts as new when it
is sent again, and then changes nothing, because rows are keyed by the same number."""


@dataclass(slots=True)
class Arrived:
    """Numbers 1 to `contiguous`, and spans [first, last] above the first gap, in order."""

    contiguous: int = 0
    beyond: list[list[int]] = field(default_factory=list)

    @classmethod
    def from_row(cls, contiguous: int, beyond: str) -> Arrived:
        """Return what `to_text` and `contiguous` kept."""
        return cls(contiguous, json.loads(beyond))

    def to_text(self) -> str:
        """Return the spans as JSON."""
        return json.dumps(self.beyond, separators=(",", ":"))

    def add(self, seq: int) -> bool:
        """Add a number; False when it has arrived before."""
        if seq <= self.contiguous:
            return False
        if seq == self.contiguous + 1 and not self.beyond:
            self.contiguous = seq
            return True
        at = bisect_left(self.beyond, [seq + 1])
        if at and seq <= self.beyond[at - 1][1]:
            return False
        self.beyond.insert(at, [seq, seq])
        self._join(at)
        if self.beyond[0][0] == self.contiguous + 1:
            self.contiguous = self.beyond.pop(0)[1]
        if len(self.beyond) > MOST_SPANS:
            del self.beyond[0]
        return True

    def _join(self, at: int) -> None:
        for left in (at, at - 1):
            if 0 <= left < len(self.beyond) - 1:
                first, second = self.beyond[left : left + 2]
                if first[1] + 1 == second[0]:
                    self.beyond[left : left + 2] = [[first[0], second[1]]]
