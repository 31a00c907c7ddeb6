"""The answer to a request for suggestions: its words, and the shape of its JSON document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from msgspec import Struct

from gramwatt.sci.advice.suggest_request import OWNERSHIPS, Ownership
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.catalog.slices import Slice
from gramwatt.sci.estimate.estimate import EstimateDoc
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, bare

Action = Literal[
    "change-hardware",
    "shift-region",
    "mixed-precision",
    "batching",
    "quantise",
    "consolidate",
    "share",
    "fewer-nodes",
    "power-cap",
    "stop-idle",
    "leave-device",
    "checkpoint",
    "spot",
    "keep",
]
Verdict = Literal["lower", "higher", "no-reliable-difference", "not-feasible", "unknown"]
Basis = Literal["direct", "calibrated", "class-model", "rule", "none"]


LIKELY_DEVIATIONS = NormalDist().inv_cdf(0.8) / NormalDist().inv_cdf(0.9)
"""Distance of 1 from the value, over that of the range's upper end, at a probability of 0.8."""


EffortLevel = Literal["low", "medium", "high"]


class EffortDoc(Struct):
    """How much work a change is, and what has to be done."""

    level: EffortLevel
    reason: str


class SuggestionDoc(Struct):
    """One suggestion. Ratios are new over present, for the same work; null where not known.

    `yearly_kg` is what the change saves in a year [kgCO2e], null where it is not known how often
    the job runs. `likely` says that carbon is lower with a probability of 0.8, which is no promise;
    `by_ownership` has the verdict for hardware that is owned, rented, or would be bought.
    """

    action: str
    target: str | None
    count: int
    verdict: str
    time_ratio: Quantity | None
    energy_ratio: Quantity | None
    carbon_ratio: Quantity | None
    saved_g: Quantity | None
    yearly_kg: Quantity | None
    effort: EffortDoc | None
    break_even_hours: Quantity | None
    likely: bool
    by_ownership: dict[Ownership, Verdict]
    basis: str
    operating_point: str
    reasons: list[str]
    sources: list[str]


class AdviceDoc(Struct):
    """The answer: suggestions by expected saving, an estimate where the request allows one."""

    suggestions: list[SuggestionDoc]
    estimate: EstimateDoc | None
    notices: list[Notice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One suggestion before it is written; see `SuggestionDoc`.

    Without `by_ownership` the verdict is the same however the hardware is had. `on` is the part or
    slice of `target`, `board_energy` the ratio of the devices alone, for further suggestions.
    """

    action: Action
    verdict: Verdict
    basis: Basis
    count: float
    target: str | None = None
    on: Hardware | Slice | None = None
    time_ratio: Quantity | None = None
    energy_ratio: Quantity | None = None
    carbon_ratio: Quantity | None = None
    saved_g: Quantity | None = None
    yearly_kg: Quantity | None = None
    effort: EffortDoc | None = None
    break_even_hours: Quantity | None = None
    by_ownership: Mapping[Ownership, Verdict] | None = None
    board_energy: Quantity | None = None
    operating_point: str = ""
    reasons: Sequence[str] = ()
    sources: Sequence[str] = ()

    @property
    def board(self) -> Hardware | None:
        """Return the part that it is about: of a slice its board."""
        return self.on.board if isinstance(self.on, Slice) else self.on

    def to_doc(self) -> SuggestionDoc:
        """Return this suggestion as JSON-ready data."""
        return SuggestionDoc(
            action=self.action,
            target=self.target,
            count=int(self.count),
            verdict=self.verdict,
            time_ratio=bare(self.time_ratio),
            energy_ratio=bare(self.energy_ratio),
            carbon_ratio=bare(self.carbon_ratio),
            saved_g=bare(self.saved_g),
            yearly_kg=bare(self.yearly_kg),
            effort=self.effort,
            break_even_hours=bare(self.break_even_hours),
            likely=self.verdict not in UNJUDGED and is_likely(self.carbon_ratio),
            by_ownership=dict(self.by_ownership or dict.fromkeys(OWNERSHIPS, self.verdict)),
            basis=self.basis,
            operating_point=self.operating_point,
            reasons=list(self.reasons),
            sources=list(dict.fromkeys(self.sources)),
        )


UNJUDGED: tuple[Verdict, ...] = ("unknown", "not-feasible")
"""Verdicts beside which a ratio says nothing of the job."""


def verdict_of(carbon_ratio: Quantity | None) -> Verdict:
    """Return `lower` if the whole range is below 1, `higher` if above, `unknown` without a ratio.

    It is `no-reliable-difference` if the range contains 1.
    """
    if carbon_ratio is None:
        return "unknown"
    if carbon_ratio.high < 1:
        return "lower"
    return "higher" if carbon_ratio.low > 1 else "no-reliable-difference"


def is_likely(carbon_ratio: Quantity | None) -> bool:
    """Tell whether the ratio is below 1 with a probability of at least 0.8.

    Logarithms are taken as normal: half the range holds 40 % of it.
    """
    if carbon_ratio is None or carbon_ratio.value >= 1:
        return False
    if carbon_ratio.high < 1:
        return True
    distance = math.log(1 / carbon_ratio.value)
    return distance >= LIKELY_DEVIATIONS * math.log(carbon_ratio.high / carbon_ratio.value)
