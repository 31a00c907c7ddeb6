"""The answer to a request for suggestions: the shape of its JSON document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from gramwatt.sci.estimate.estimate import EstimateDoc
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.suggest.request import Ownership

Action = Literal[
    "change-hardware",
    "fewer-devices",
    "slice",
    "instance",
    "mixed-precision",
    "batching",
    "quantise",
    "power-cap",
    "share",
    "release-idle",
    "leave-device",
    "input-pipeline",
    "fewer-nodes",
    "region",
    "time",
    "checkpoint",
    "spot",
]
HARDWARE: tuple[Action, ...] = ("change-hardware", "fewer-devices", "slice", "instance")
"""Actions that are a change of devices; of these a row has a `target` and a `count`."""
Verdict = Literal["sure", "likely", "more likely than not", "too close to call", "probably more"]
SURE = 0.9
VERDICTS: tuple[tuple[float, Verdict], ...] = (
    (SURE, "sure"),
    (0.7, "likely"),
    (0.6, "more likely than not"),
    (0.4, "too close to call"),
    (0.0, "probably more"),
)
"""The word for a probability, from each lower end on."""
ADVISED = 0.7
"""A change is advised from this probability on: with it, following advice on work that was not
seen before is worse than staying in at most one case of twenty
(docs/reference/suggestions-accuracy.md)."""
Basis = Literal["own-runs", "measured", "data-sheets", "rule-of-thumb"]
BASES: Mapping[Basis, str] = {
    "own-runs": "own runs",
    "measured": "measured",
    "data-sheets": "estimated from data sheets",
    "rule-of-thumb": "rule of thumb",
}
"""What a row rests on, for people."""
EffortLevel = Literal["low", "medium", "high"]


class EffortDoc(Struct):
    """How much work a change is, and what has to be done."""

    level: EffortLevel
    reason: str


class AnswerDoc(Struct, kw_only=True):
    """One row of the list. Ratios are new over present for the same work; null where not known.

    Without present hardware they are over the first row. `odds` is the probability that the row
    emits less carbon than the present run, or than the first row without one (of the first row:
    than the second); null where nothing tells: why hardware has none is `unknown`. `advised` says
    that it is at least 0.7. Absolute figures are those of the whole run: `time_h` [h], `energy_kwh`
    [kWh] with its share of hosts, `carbon_g` and `saved_g` [gCO2e]; `yearly_kg` [kgCO2e/year] is
    what it saves in a year, where it is known how often the job runs. `g_per_million_tokens`
    [gCO2e] is that of a served model, as an estimate gives it. `break_even_h` are the hours of this
    work after which hardware that is bought for it has repaid its making, and `buy` is the sentence
    on that.
    """

    id: str
    action: Action
    label: str
    target: str | None = None
    count: int = 1
    odds: float | None = None
    verdict: Verdict | None = None
    advised: bool = False
    time_ratio: Quantity | None = None
    energy_ratio: Quantity | None = None
    carbon_ratio: Quantity | None = None
    time_h: Quantity | None = None
    energy_kwh: Quantity | None = None
    carbon_g: Quantity | None = None
    saved_g: Quantity | None = None
    yearly_kg: Quantity | None = None
    g_per_million_tokens: Quantity | None = None
    effort: EffortDoc | None = None
    break_even_h: Quantity | None = None
    buy: str | None = None
    basis: Basis = "data-sheets"
    unknown: str | None = None
    reasons: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)


MISFIT = "does not fit"
"""The word of what has too little memory."""


class LeftOutDoc(Struct):
    """What cannot do the work, in one word with its reason, and the cheapest way to mend that."""

    id: str
    label: str
    word: str
    reason: str
    fix: str | None = None


class SuggestDoc(Struct, kw_only=True):
    """The answer: one sentence, then the rows by expected carbon, then what would make it surer.

    `lead` is the id of the row that the sentence names first, null where it names none; `named` are
    the ids of the other rows in it.
    `compared_with` names the present run ("4 x NVIDIA V100", or a job), null without one; then
    ratios are over the first row. `reasons` hold for all rows. `refused` says why hardware is not
    ranked, null where it is. `estimate` is the carbon of the present run, where enough is known.
    """

    summary: str
    lead: str | None = None
    named: list[str] = field(default_factory=list)
    compared_with: str | None = None
    ownership: Ownership = "rented"
    refused: str | None = None
    answers: list[AnswerDoc] = field(default_factory=list)
    left_out: list[LeftOutDoc] = field(default_factory=list)
    surer: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    estimate: EstimateDoc | None = None
    notices: list[Notice] = field(default_factory=list)


def verdict_of(odds: float) -> Verdict:
    """Return the word for a probability that carbon is lower."""
    return next(word for least, word in VERDICTS if odds >= least)


def tenths(odds: float) -> int:
    """Return in how many of ten cases it is so at least: no number of a word reaches the next."""
    return max(1, math.floor(odds * 10 + 1e-9))
