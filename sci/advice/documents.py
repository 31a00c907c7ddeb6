"""The answer to a request for suggestions: its words, and the shape of its JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from gramwatt.sci.base.notices import NoticeDoc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc
from gramwatt.sci.estimate.estimate import EstimateDoc

Action = Literal[
    "change-hardware",
    "shift-time",
    "shift-region",
    "mixed-precision",
    "batching",
    "quantise",
    "consolidate",
    "share",
    "fewer-nodes",
    "power-cap",
    "stop-idle",
    "checkpoint",
    "spot",
    "keep",
]
Verdict = Literal["lower", "higher", "no-reliable-difference", "not-feasible", "unknown"]
Basis = Literal["direct", "calibrated", "class-model", "rule", "none"]


class SuggestionDoc(TypedDict):
    """One suggestion. Ratios are new over present, for the same work; null where not known."""

    action: str
    target: str | None
    count: int
    verdict: str
    time_ratio: QuantityDoc | None
    energy_ratio: QuantityDoc | None
    carbon_ratio: QuantityDoc | None
    saved_g: QuantityDoc | None
    break_even_hours: QuantityDoc | None
    basis: str
    operating_point: str
    reasons: list[str]
    sources: list[str]


class AdviceDoc(TypedDict):
    """The answer: suggestions by expected saving, an estimate where the request allows one."""

    suggestions: list[SuggestionDoc]
    estimate: EstimateDoc | None
    notices: list[NoticeDoc]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One suggestion before it is written; see `SuggestionDoc`."""

    action: Action
    verdict: Verdict
    basis: Basis
    count: float
    target: str | None = None
    time_ratio: Quantity | None = None
    energy_ratio: Quantity | None = None
    carbon_ratio: Quantity | None = None
    saved_g: Quantity | None = None
    break_even_hours: Quantity | None = None
    operating_point: str = ""
    reasons: Sequence[str] = ()
    sources: Sequence[str] = ()

    def to_doc(self) -> SuggestionDoc:
        """This suggestion as JSON-ready data."""
        return {
            "action": self.action,
            "target": self.target,
            "count": int(self.count),
            "verdict": self.verdict,
            "time_ratio": _doc(self.time_ratio),
            "energy_ratio": _doc(self.energy_ratio),
            "carbon_ratio": _doc(self.carbon_ratio),
            "saved_g": _doc(self.saved_g),
            "break_even_hours": _doc(self.break_even_hours),
            "basis": self.basis,
            "operating_point": self.operating_point,
            "reasons": list(self.reasons),
            "sources": list(dict.fromkeys(self.sources)),
        }


def verdict_of(carbon_ratio: Quantity | None) -> Verdict:
    """`lower` if the whole range is below 1, `higher` if above, `no-reliable-difference` if it
    contains 1, `unknown` without a ratio.
    """
    if carbon_ratio is None:
        return "unknown"
    if carbon_ratio.high < 1:
        return "lower"
    return "higher" if carbon_ratio.low > 1 else "no-reliable-difference"


def _doc(figure: Quantity | None) -> QuantityDoc | None:
    return figure.to_doc() if figure else None
