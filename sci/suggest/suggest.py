"""The engine: one request in, one list of changes out, with the sentence that answers it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.formatting import value_text
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.suggest.change import Change
from gramwatt.sci.suggest.documents import ADVISED, HARDWARE, AnswerDoc, LeftOutDoc, SuggestDoc
from gramwatt.sci.suggest.evidence import OwnRow
from gramwatt.sci.suggest.hardware import METERED_VENDORS, Ranked, order, rank, slices
from gramwatt.sci.suggest.places import later, regions
from gramwatt.sci.suggest.request import SuggestRequest
from gramwatt.sci.suggest.rules import notices
from gramwatt.sci.suggest.settings import needs_no_device, settings
from gramwatt.sci.suggest.work import Emitted, Work, resolve

KIND = "kind: training, fine-tuning or inference."
PROMISING = 0.6
"""A change that is not advised is named first from this probability on."""


def suggest(
    request: SuggestRequest,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    workload: str | None = None,
    *,
    repeats: Quantity | None = None,
    measured: JobDoc | None = None,
    now: datetime | None = None,
) -> SuggestDoc:
    """Return the answer to a request.

    `own` are the organisation's runs, which lead; `workload` names the job's work in `own`;
    `measured` is the document of the job that ran, whose carbon is saved; `repeats` is how often it
    runs [1/year], where the request does not say; a described job may start at `now` or later.
    Raises LookupFailed for unknown names, ScoreError for what means nothing.
    """
    work = resolve(request, catalog, own, workload, repeats=repeats, measured=measured)
    remarks = [*([work.remark] if work.remark else []), *work.place.notices]
    score: EstimateDoc | None = None
    try:
        score = _estimate(work)
    except ScoreError as error:
        remarks.append(Notice("estimate-unavailable", error.message, "estimate"))
    if score is not None:
        codes = ("input-implausible", "lifetime-exceeded")
        remarks += [notice for notice in score.notices if notice.code in codes]
        if work.hours is None and score.device_hours is not None:
            work = replace(work, hours=score.device_hours.value / work.count)
        if work.emitted is None and not work.misfit:
            work = replace(work, emitted=Emitted.of(score))
    refused = work.refusal
    started = datetime.fromisoformat(measured.started_at) if measured else now
    ranked = Ranked([], []) if refused or _stays(work) else rank(work)
    changes = [*ranked.rows, *settings(work), *regions(work), *later(work, started)]
    if not refused and work.pace.waits and request.candidates is None:
        changes += slices(work)
    changes.sort(key=order)
    answers = [change.to_doc(work) for change in changes]
    by_hosts = {change.id for change in changes if change.condition == "host"}
    return SuggestDoc(
        summary=_summary(work, answers, ranked.left_out, by_hosts),
        compared_with=_compared_with(work, measured),
        ownership=request.ownership or "rented",
        refused=refused,
        answers=answers,
        left_out=_shown(work, ranked.left_out),
        surer=_surer(work, answers, by_hosts) if ranked.rows else [],
        reasons=_reasons(work, changes, ranked.worse),
        estimate=score,
        notices=[*remarks, *notices(work)],
    )


def _stays(work: Work) -> bool:
    """Tell whether hardware is no question, because the library computes on processors."""
    return work.request.candidates is None and needs_no_device(work)


def _estimate(work: Work) -> EstimateDoc | None:
    """Return the score of the present run, if the request says enough; its hours are used too."""
    request, device = work.request, work.device
    timed = request.hours is not None or (request.model_parameters and request.tokens)
    if device is None or device.piece is not None or not timed:
        return None
    body = request.estimate(
        hardware=device.part.id,
        count=work.count,
        hours=request.hours,
        power_w=request.mean_power_w,
        units=request.units,
    )
    return estimate(body, work.catalog)


def _compared_with(work: Work, measured: JobDoc | None) -> str | None:
    if work.device is None or work.misfit:
        return None
    return f"{measured.name}, {work.label}" if measured else work.label


def _shown(work: Work, rows: Sequence[LeftOutDoc]) -> list[LeftOutDoc]:
    """Return what is left out: what was named, else only what more bits or devices would mend."""
    if work.request.candidates is not None:
        return list(rows)
    return [row for row in rows if row.word == "does not fit"]


def _surer(work: Work, answers: Sequence[AnswerDoc], by_hosts: AbstractSet[str]) -> list[str]:
    """Return the fields of a request that would make the answer surer, the most useful first.

    The rows `by_hosts` save by the estimated power of hosts alone.
    """
    request, served = work.request, not work.request.trains
    present, lead = work.device is not None, _lead(answers)
    missing = (
        ("host_power_w", present and lead is not None and lead.id in by_hosts),
        ("workload_class", work.classified.name is None),
        ("precision", request.precision is None),
        ("mean_power_w", present and request.mean_power_w is None),
        ("peak_memory_gb", present and work.need is None),
        ("model_parameters", not present and request.model_parameters is None),
        ("batch_size", served and request.batch_size is None),
        ("hours", present and work.hours is None),
        ("zone", work.place.zone is None),
        ("framework", request.framework is None),
    )
    return [name for name, lacks in missing if lacks]


def _reasons(work: Work, changes: Sequence[Change], worse: int) -> list[str]:
    """Return what holds for all rows."""
    reasons = []
    if work.classified.name and not work.request.workload_class:
        reasons.append(f"taken for {work.classified.name} work: {work.classified.reason}")
    hardware = [row for row in changes if row.action in HARDWARE]
    if hardware and work.request.ownership is None:
        reasons.append("making counts by hours of use, as if rented: say ownership for another way")
    if hardware and work.device is None and work.classified.name == "llm-serving":
        reasons.append("compared as if each is kept full: few requests suit small devices")
    if hardware and work.need is None:
        reasons.append("whether it fits their memory is not known: give peak_memory_gb")
    if worse:
        reasons.append(f"{worse} other families would probably emit more: name them to see them")
    return reasons


def _summary(
    work: Work,
    answers: Sequence[AnswerDoc],
    out: Sequence[LeftOutDoc],
    by_hosts: AbstractSet[str],
) -> str:
    """Return the answer in one sentence, with its odds where it is not sure."""
    if work.misfit:
        return _not_fitting(work, answers)
    if work.device is None:
        return work.refusal or _first_of(answers, out)
    lead = _lead(answers)
    refusal = f" {work.refusal}" if work.refusal else ""
    unclassified = work.classified.name is None and not refusal
    if lead is None:
        if refusal or unclassified:
            return work.refusal or f"Say {KIND}"
        return _nearest(work, answers, out)
    if unclassified:
        refusal = f" To be surer, say {KIND}"
    if work.classified.name is None and lead.action in HARDWARE:
        ratio = _less(lead.carbon_ratio, 1.0) if lead.carbon_ratio else ""
        busy = f"{100 * work.request.utilisation:.0f} % " if work.request.utilisation else ""
        return f"If it keeps {work.label} {busy}busy, best guess: {_of(lead)}: {ratio}.{refusal}"
    if lead.odds is None or lead.odds < ADVISED:
        start = "No change is clearly better; the best guess is" if not refusal else "Best guess:"
    else:
        start = "What would help most:" if lead.odds >= 0.9 else "What would probably help most:"
    text = f"{start} {_of(lead)}: {_gain(lead)}."
    if lead.id in by_hosts:
        text += " It saves by its host, whose power is an estimate."
    return f"{text}{refusal}"


def _lead(answers: Sequence[AnswerDoc]) -> AnswerDoc | None:
    """Return the row that is named first: the least carbon that is advised, else promising."""
    for least in (ADVISED, PROMISING):
        for row in answers:
            shared = row.action == "slice" and least < ADVISED  # only if others use the rest
            if row.odds is not None and row.odds >= least and row.carbon_ratio and not shared:
                return row
    return None


def _of(row: AnswerDoc) -> str:
    return f"change to {row.label}" if row.action in HARDWARE else row.label


def _gain(row: AnswerDoc) -> str:
    """Return what a row saves in words: percent with its range, time, grams, odds."""
    assert row.carbon_ratio is not None
    assert row.odds is not None
    text = _less(row.carbon_ratio, row.odds)
    if row.time_ratio is not None and abs(math.log(row.time_ratio.value)) > math.log(1.1):
        text += f" in {_times(row.time_ratio.value)} the time"
    if row.saved_g is not None and row.saved_g.value > 0:
        text += f", {value_text(row.saved_g)} saved"
    return text


def odds_text(odds: float) -> str:
    """Return a probability in words of ten cases: "better in 8 of 10 such cases"."""
    return f"better in {round(odds * 10)} of 10 such cases"


def _less(ratio: Quantity, odds: float) -> str:
    """Return a carbon ratio as percent less, with its range and odds: the range holds 8 in 10."""
    value, low, high = (round(100 * (1 - end)) for end in (ratio.value, ratio.high, ratio.low))
    text = f"{value} % less carbon"
    if low == high:
        return text
    if low >= 0:
        span = f"{low} to {high} %"
    else:
        span = f"8 in 10 lie between {high} % less and {-low} % more"
    return f"{text} ({span})" if odds >= 0.9 else f"{text} ({odds_text(odds)}; {span})"


def _times(ratio: float) -> str:
    return f"{100 * ratio:.0f} % of" if ratio < 1 else f"{ratio:.2g} times"


def _nearest(work: Work, answers: Sequence[AnswerDoc], out: Sequence[LeftOutDoc]) -> str:
    """Return that nothing is better than now, and how near the next best is."""
    if work.now.board.vendor not in METERED_VENDORS:
        text = f"Hardware is not ranked: no published power of {work.label} under load was found"
        return f"{text}, so that devices are compared by time alone."
    row = next((row for row in answers if row.odds is not None), None)
    if row is not None and row.odds is not None:
        text = f"Keep {work.label}: nothing is likely to emit less. Nearest is {row.label}"
        return f"{text} ({odds_text(row.odds)})."
    if out and work.request.candidates is not None:
        return f"Nothing to compare with: {out[0].label} is left out, because {out[0].reason}."
    return f"Keep {work.label}: nothing is likely to emit less."


def _first_of(answers: Sequence[AnswerDoc], out: Sequence[LeftOutDoc]) -> str:
    """Return the order of hardware for work that does not run yet."""
    rows = [row for row in answers if row.carbon_ratio is not None and row.action in HARDWARE]
    if not rows:
        reason = f" {out[0].label} is left out, because {out[0].reason}." if out else ""
        return f"None of the devices can be ranked for this work.{reason}"
    first = rows[0]
    text = f"Least carbon: {first.label}"
    if first.carbon_g is not None:
        text += f", about {value_text(first.carbon_g)}"
    if len(rows) > 1:
        odds = f" ({odds_text(first.odds)})" if first.odds is not None else ""
        then = ", ".join(row.label for row in rows[1:3])
        text += f"{odds}; then {then}"
    return f"{text}."


def _not_fitting(work: Work, answers: Sequence[AnswerDoc]) -> str:
    """Return that the present devices cannot hold the job, and the cheapest way to fit."""
    text = f"It {work.misfit}."
    if work.remedy:
        text += f" Cheapest change: {work.remedy}."
    first = next((row for row in answers if row.carbon_ratio is not None), None)
    if first is not None:
        text += f" Of other devices {first.label} would emit least."
    return text
