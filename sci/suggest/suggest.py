"""The engine: one request in, one list of changes out, with the sentence that answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.formatting import value_text
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.location import in_data_centre
from gramwatt.sci.suggest.change import Change, Condition
from gramwatt.sci.suggest.documents import (
    ADVISED,
    HARDWARE,
    MISFIT,
    SURE,
    Action,
    AnswerDoc,
    LeftOutDoc,
    SuggestDoc,
    tenths,
)
from gramwatt.sci.suggest.evidence import OwnRow
from gramwatt.sci.suggest.hardware import Ranked, is_metered, order, rank, slices
from gramwatt.sci.suggest.places import later, regions
from gramwatt.sci.suggest.remarks import notices
from gramwatt.sci.suggest.request import SuggestRequest
from gramwatt.sci.suggest.settings import needs_no_device, settings
from gramwatt.sci.suggest.work import Emitted, Work, resolve

KIND = "kind: training, fine-tuning or inference."
MOST_OF_IT = 0.75
"""Fraction of what other hardware saves from which on a change of the present is named first."""
NEEDS: Mapping[Condition | None, str] = {
    "host": "It saves by its host, whose power is an estimate.",
    "requests": "Only if so many come at once.",
    "four-bits": "With 4-bit weights there: check the accuracy; in 8 bits it gains less.",
    "waits": "Only the time in which the devices are busy gets shorter: see first why they wait.",
}
UNTRIED: tuple[Action, ...] = ("batching", "quantise", "fewer-nodes", "power-cap")
"""Settings that often help, and are named without a figure where nothing better is."""
PROMISING, CLOSE = 0.6, 0.4
"""A change that is not advised is named first from this probability on; what is too close to call
begins at the other."""
CLOSE_SHOWN, SMALL_GAIN = 3, 0.1
"""Rows that are named as too close to call, and the saving below which hardware saves little."""
KEPT_FULL = ("llm-serving", "batch-inference")
"""Classes of work that small devices suit better where little comes."""
BY_TOKEN = ("llm-serving", "interactive", "decode", "prefill")
"""Classes of work that is compared by the token."""


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
        if not work.impossible:  # which is said already
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
    conditions = {change.id: change.condition for change in changes if change.condition}
    text, rows = _summary(work, answers, ranked.left_out, conditions)
    lead = rows[0] if rows else None
    return SuggestDoc(
        summary=text,
        lead=lead.id if lead else None,
        named=[row.id for row in rows[1:]],
        compared_with=_compared_with(work, measured),
        ownership=request.ownership or "rented",
        refused=refused,
        answers=answers,
        left_out=_shown(work, ranked.left_out),
        surer=_surer(work, lead, conditions) if ranked.rows else [],
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
    """Return what is left out: what was named; of others what would fit with fewer bits, where
    nothing runs yet.
    """
    if work.request.candidates is not None:
        return list(rows)
    if work.device is not None and not work.misfit:
        return []
    return [row for row in rows if row.word == MISFIT and row.fix]


def _surer(work: Work, lead: AnswerDoc | None, conditions: Mapping[str, Condition]) -> list[str]:
    """Return the fields of a request that would make the answer surer, the most useful first."""
    request, served, present = work.request, not work.request.trains, work.device is not None
    by_host = lead is not None and conditions.get(lead.id) in ("host", "partly-host")
    missing = (
        ("host_power_w", present and by_host),
        ("hours", present and work.hours is None and request.ownership == "to-buy"),
        ("workload_class", work.classified.name is None),
        ("precision", request.precision is None),
        ("mean_power_w", present and request.mean_power_w is None),
        ("peak_memory_gb", present and work.need is None),
        ("model_parameters", not present and request.model_parameters is None),
        ("batch_size", served and request.batch_size is None),
        ("hours", present and work.hours is None and request.ownership != "to-buy"),
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
    if hardware and work.device is None and work.classified.name in KEPT_FULL:
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
    conditions: Mapping[str, Condition],
) -> tuple[str, list[AnswerDoc]]:
    """Return the answer in a few sentences, the first to what was asked, and the rows they name."""
    if work.misfit:
        return _not_fitting(work, answers)
    if work.device is None:
        return _first_of(work, answers, out)
    lead = _lead(work, answers)
    untold = [work.refusal] if work.refusal else []
    unclassified = work.classified.name is None and not untold
    if lead is None:
        if work.refusal or unclassified:
            return work.refusal or f"Say {KIND}", _next(answers)
        return _nearest(work, answers, out)
    if unclassified and lead.action in HARDWARE:
        ratio = _less(lead.carbon_ratio, 1.0) if lead.carbon_ratio else ""
        busy = f"{100 * work.request.utilisation:.0f} % " if work.request.utilisation else ""
        text = f"If it keeps {work.label} {busy}busy, best guess: {_of(work, lead)}: {ratio}."
        return f"{text} To be surer, say {KIND}", [lead]
    best = _best(answers, ADVISED)
    asked, text = _asked(work, answers, out) if _asks_other(work, lead) else (None, "")
    row = f"use {lead.label} alone" if lead.target == work.now.part.id else _of(work, lead)
    sentences = [text, f"{_start(lead, best, bool(untold))} {row}: {_gain(work, lead)}."]
    sentences.append(NEEDS.get(conditions.get(lead.id), ""))
    if lead.action == "region" and lead.basis != "measured":
        offer = work.request.instance or "the hardware"
        sentences.append(f"Check first that {offer} is offered there.")
    named = [lead, *([asked] if asked else [])]
    if best is not None and best is not lead:
        sentences.append(f"Best of all: {_of(work, best)}, {100 * _saving(best):.0f} % less.")
        named.append(best)
    if tried := _tried_first(work, lead, answers):
        sentences.append(f"Cheaper to try, though no figure is known: {_list(tried)}.")
        named += tried
    sentences += untold or [f"To be surer, say {KIND}"] * unclassified
    return " ".join(filter(None, sentences)), named


def _asks_other(work: Work, lead: AnswerDoc) -> bool:
    """Tell whether devices were named to be judged, and something else is what helps most."""
    return bool(work.request.candidates) and lead.action not in HARDWARE and not work.refusal


def _asked(
    work: Work, answers: Sequence[AnswerDoc], out: Sequence[LeftOutDoc]
) -> tuple[AnswerDoc | None, str]:
    """Return the best of the devices that were named, and a sentence on it."""
    rows = [row for row in answers if row.action in HARDWARE]
    row = next((row for row in rows if row.odds is not None), None)
    if row is not None and row.odds is not None and row.carbon_ratio is not None:
        which = f"Even the best of the named, {row.label}," if len(rows) > 1 else row.label
        if row.odds < CLOSE:
            return row, f"{which} would probably emit more ({odds_text(row.odds)})."
        if row.odds < PROMISING:
            return row, f"{which} may emit more or less ({odds_text(row.odds)})."
        probably = "would emit" if row.odds >= SURE else "would probably emit"
        how = "would save little" if _saving(row) < SMALL_GAIN else f"{probably} less"
        how = "may emit less" if row.odds < ADVISED else how
        gain = f"{_less(row.carbon_ratio, row.odds)}{_in_time(work, row)}"
        return row, f"{row.label} {how}: {gain}."
    if rows:
        why = rows[0].unknown or "see --why"
        return rows[0], f"Whether {rows[0].label} emits less is not known: {why}."
    return None, f"{out[0].label} is left out: {out[0].word}." if out else ""


def _start(lead: AnswerDoc, best: AnswerDoc | None, refused: bool) -> str:
    """Return the words before the row that is named first."""
    if lead.odds is None or lead.odds < ADVISED:
        return "Best guess:" if refused else "No change is clearly better; best guess:"
    probably = "" if lead.odds >= SURE else "probably "
    return f"What would {probably}help most{'' if lead is best else ' on what you have'}:"


def _next(answers: Sequence[AnswerDoc]) -> list[AnswerDoc]:
    """Return the row of least carbon as a list; empty where none has odds."""
    return [row for row in answers if row.odds is not None][:1]


def _untried(answers: Sequence[AnswerDoc]) -> list[AnswerDoc]:
    return [row for row in answers if row.odds is None and row.action in UNTRIED]


def _tried_first(work: Work, lead: AnswerDoc, answers: Sequence[AnswerDoc]) -> Sequence[AnswerDoc]:
    """Return settings to try before what is advised: all where that is in doubt, else fewer devices
    for a served model, or what a host waits for.
    """
    tried = _untried(answers)
    if lead.odds is None or lead.odds < ADVISED:
        return tried
    if work.steps_environments:
        return [row for row in tried if row.action == "batching"]
    return [row for row in tried if row.action == "fewer-nodes" and not work.request.trains]


def _list(rows: Sequence[AnswerDoc]) -> str:
    return "; ".join(row.label for row in rows)


def _ranked_hardware(answers: Sequence[AnswerDoc]) -> list[AnswerDoc]:
    return [row for row in answers if row.carbon_ratio is not None and row.action in HARDWARE]


def _lead(work: Work, answers: Sequence[AnswerDoc]) -> AnswerDoc | None:
    """Return the row that is named first: the least carbon that is advised, else promising.

    What the present devices can do comes before others that save little more, unless these are
    what was asked for.
    """
    best = _best(answers, ADVISED)
    if best is None or best.action not in HARDWARE or work.request.candidates:
        return best or _best(answers, PROMISING)
    own = _best([row for row in answers if _on_present(work, row)], ADVISED)
    least = 0.0 if _not_repaid(work, best) else MOST_OF_IT
    return own if own and _saving(own) >= least * _saving(best) else best


def _not_repaid(work: Work, row: AnswerDoc) -> bool:
    """Tell whether a desk would have to buy the hardware, and this work does not repay it."""
    elsewhere = work.request.cloud or work.request.constraint == "edge"
    if work.request.ownership == "rented" or elsewhere or in_data_centre(work.now.board):
        return False
    return row.break_even_h is None or row.break_even_h.value > (work.hours or 0.0)


def _best(answers: Sequence[AnswerDoc], least: float) -> AnswerDoc | None:
    """Return the row of least carbon with such odds; no slice that saves if others use the rest."""
    rows = (row for row in answers if row.odds is not None and row.odds >= least)
    slices = least >= ADVISED
    return next(
        (row for row in rows if row.carbon_ratio and (slices or row.action != "slice")), None
    )


def _on_present(work: Work, row: AnswerDoc) -> bool:
    elsewhere = row.action in ("region", "time")
    return row.target == work.now.part.id or not (elsewhere or row.action in HARDWARE)


def _saving(row: AnswerDoc) -> float:
    return 1 - row.carbon_ratio.value if row.carbon_ratio else 0.0


def _of(work: Work, row: AnswerDoc) -> str:
    if row.action not in HARDWARE:
        return row.label
    return f"rent {row.label} instead" if _not_repaid(work, row) else f"change to {row.label}"


def _gain(work: Work, row: AnswerDoc) -> str:
    """Return what a row saves in words: percent with its range, time, grams, odds."""
    assert row.carbon_ratio is not None
    assert row.odds is not None
    text = f"{_less(row.carbon_ratio, row.odds)}{_in_time(work, row)}"
    if row.saved_g is not None and row.saved_g.value > 0:
        text += f", {value_text(row.saved_g)} saved"
    return text


def _in_time(work: Work, row: AnswerDoc) -> str:
    """Return in which fraction of the time; "" where that is nearly the same."""
    if row.time_ratio is None or abs(math.log(row.time_ratio.value)) <= math.log(1.1):
        return ""
    each = " a token" if work.classified.name in BY_TOKEN else ""  # an endpoint stays on
    return f" in {_times(row.time_ratio.value)} the time{each}"


def odds_text(odds: float) -> str:
    """Return a probability in words of ten cases: "better in 8 of 10 such cases"."""
    return f"better in {tenths(odds)} of 10 such cases"


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
    return f"{text} ({span})" if odds >= SURE else f"{text} ({odds_text(odds)}; {span})"


def _times(ratio: float) -> str:
    return f"{100 * ratio:.0f} % of" if ratio < 1 else f"{ratio:.2g} times"


def _nearest(
    work: Work, answers: Sequence[AnswerDoc], out: Sequence[LeftOutDoc]
) -> tuple[str, list[AnswerDoc]]:
    """Return that nothing is better than now, how near the next best is, and what to try."""
    if not is_metered(work.now.board, work.classified.name):
        text = f"Hardware is not ranked: no published power of {work.label} under load was found"
        return f"{text}, so that devices are compared by time alone.", _next(answers)
    rows, tried = _next(answers), _untried(answers)
    ends = [f"Try, though no figure is known: {_list(tried)}."] if tried else []
    if rows:
        begin = (
            f"Keep {work.label}: {'no other hardware' if tried else 'nothing'} is likely to emit"
        )
        ends.append(f"Nearest is {rows[0].label} ({odds_text(rows[0].odds or 0.0)}).")
        return " ".join((f"{begin} less.", *ends)), [*rows, *tried]
    asked, text = _asked(work, answers, out) if work.request.candidates is not None else (None, "")
    if asked is None:
        text = f"Nothing to compare with: {text}" if text else ""
        text = text or f"Keep {work.label}: nothing is likely to emit less."
    return " ".join((text, *ends)), [*([asked] if asked else []), *tried]


def _first_of(
    work: Work, answers: Sequence[AnswerDoc], out: Sequence[LeftOutDoc]
) -> tuple[str, list[AnswerDoc]]:
    """Return the order of hardware for work that does not run yet."""
    rows = _ranked_hardware(answers)
    if work.refusal:
        return work.refusal, rows[:1]
    if not rows:
        reason = f" {out[0].label} is left out: {out[0].word}." if out else ""
        return f"None of the devices can be ranked for this work.{reason}", []
    first, rest = rows[0], rows[1:]
    unknown = [row for row in answers if row.action in HARDWARE and row.carbon_ratio is None]
    others = f" Not compared: {_list(unknown)}." if unknown else ""
    if not rest and unknown:
        return f"Nothing to compare {first.label} with.{others}", [first]
    text = first.label
    if first.carbon_g is not None:
        text += f", about {value_text(first.carbon_g)}"
    close = [row for row in rest if row.odds is not None and row.odds >= CLOSE][: CLOSE_SHOWN - 1]
    if close:
        names = " or ".join((text, *(row.label for row in close)))
        return f"Least carbon{_if_full(work)}, too close to call: {names}.{others}", [first, *close]
    text = f"Least carbon{_if_full(work)}: {text}"
    if rest:
        odds = f" ({odds_text(first.odds)})" if first.odds is not None else ""
        text += f"{odds}; then {', '.join(row.label for row in rest[:2])}"
    return f"{text}.{others}", [first, *rest[:2]]


def _not_fitting(work: Work, answers: Sequence[AnswerDoc]) -> tuple[str, list[AnswerDoc]]:
    """Return that the present devices cannot hold the job, and the cheapest way to fit."""
    text, rows = f"It {work.misfit}.", _ranked_hardware(answers)[:1]
    if work.remedy:
        text += f" Cheapest change: {work.remedy}."
    if rows:
        text += f" Of other devices {rows[0].label} would emit least{_if_full(work)}."
    return text, rows


def _if_full(work: Work) -> str:
    """Return the condition under which served models are compared without a present device."""
    return " if kept full" if work.classified.name in KEPT_FULL else ""
