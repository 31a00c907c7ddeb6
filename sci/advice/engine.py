"""The suggestion engine: one question in, ranked suggestions with their evidence out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from gramwatt.sci.advice.actions.regions import other_regions
from gramwatt.sci.advice.actions.running import checkpoint, fewer_nodes, power_cap, spot
from gramwatt.sci.advice.actions.sharing import share, stop_idle
from gramwatt.sci.advice.actions.swap import compared
from gramwatt.sci.advice.actions.tuning import batching, mixed_precision, quantise
from gramwatt.sci.advice.actions.warnings import flags
from gramwatt.sci.advice.constraints.availability import in_house, rented_only
from gramwatt.sci.advice.constraints.memory_fit import listed, told
from gramwatt.sci.advice.constraints.present import disagreement, keep, lacking
from gramwatt.sci.advice.documents import AdviceDoc, Suggestion
from gramwatt.sci.advice.prediction.calibration import OwnRow
from gramwatt.sci.advice.request import SuggestQuestion
from gramwatt.sci.advice.rules import policies
from gramwatt.sci.advice.work import Work, full_region, resolve
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.estimate.request import EstimateQuestion
from gramwatt.sci.grid.zones import AnnualIntensity

SHOWN_CERTAIN = 10
"""Certain savings that are listed when nobody asked for certain parts."""
SHOWN_UNDECIDED = 5
"""Parts without a reliable difference that are listed when nobody asked for certain parts."""
WAYS: tuple[Callable[[Work], Suggestion | None], ...] = (
    stop_idle,
    batching,
    mixed_precision,
    quantise,
    share,
    fewer_nodes,
    power_cap,
    checkpoint,
    spot,
)
_ORDER = ("lower", "no-reliable-difference", "unknown", "higher", "not-feasible")


def suggest(
    question: SuggestQuestion,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    workload: str | None = None,
    *,
    ran: bool = False,
) -> AdviceDoc:
    """The answer to a question.

    `own` are the organisation's calibration rows, used before the public table; `workload` names
    the job's work in them; `ran` says that a measured job asks. Raises LookupFailed for unknown
    names, ScoreError for what means nothing.
    """
    work = resolve(question, catalog, own, workload, ran=ran)
    guess = _estimate(work)
    swaps = [compared(work, part) for part in _candidates(work)]
    found = [*_shown(work, swaps), *_ways(work), *keep(work, swaps)]
    found.sort(key=_rank)
    about = [*_class_notices(work), *disagreement(work)]
    notices = [*work.notices, *flags(work), *about]
    notices += [Notice("advice-policy", text) for text in policies(work.question)]
    return {
        "suggestions": [suggestion.to_doc() for suggestion in found],
        "estimate": guess,
        "notices": [notice.to_doc() for notice in notices],
    }


def _rank(found: Suggestion) -> tuple[int, float]:
    """Certain savings first, by expected grams, then by ratio; the rest by verdict."""
    saved = found.saved_g.value if found.saved_g else 0.0
    gain = 1 - found.carbon_ratio.value if found.carbon_ratio else 0.0
    # Without hours no grams are known, and the ratio tells the order alone.
    if found.action == "keep" and found.verdict == "not-feasible":
        return -1, 0.0  # said first: there is nothing to compare the rest with
    return _ORDER.index(found.verdict), -(saved or gain)


def _candidates(work: Work) -> list[Hardware]:
    names = work.question.candidates
    if names is None:
        every = work.catalog.all_hardware()
        return [part for part in every if part is work.part or _looked_at(work, part)]
    parts = (work.catalog.hardware(name) for name in names)
    return list({part.id: part for part in parts}.values())


def _looked_at(work: Work, part: Hardware) -> bool:
    """Legacy parts only when they are named; parts that cannot be bought only for who rents."""
    if part.status.startswith("legacy") or in_house(part):
        return False
    return work.part is None or work.rented or not rented_only(part)


def _comparable(work: Work) -> bool:
    """Whether there is a present run, and one that can be."""
    return work.part is not None and not lacking(work)


def _shown(work: Work, swaps: list[Suggestion]) -> list[Suggestion]:
    named = work.question.candidates is not None
    if not _comparable(work):
        return told(work, swaps) if named else listed(work, swaps)
    return swaps if named else _shortened(work, swaps)


def _shortened(work: Work, swaps: list[Suggestion]) -> list[Suggestion]:
    """The best certain savings and undecided parts; a notice says how many were compared."""
    assert work.part is not None
    lower = [found for found in swaps if found.verdict == "lower"]
    others = [found for found in swaps if found.verdict == "no-reliable-difference"]
    others = [found for found in others if found.target != work.part.id]
    for found in (lower, others):
        found.sort(key=lambda one: one.carbon_ratio.value if one.carbon_ratio else 1.0)
    shown = lower[:SHOWN_CERTAIN] + others[:SHOWN_UNDECIDED]
    counts = {name: sum(found.verdict == name for found in swaps) for name in _ORDER}
    sums = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    text = f"{len(swaps)} parts compared ({sums}); {len(shown)} shown. Name candidates to see them."
    if not shown and counts["unknown"]:
        why = Counter(one.reasons[0] for one in swaps if one.verdict == "unknown" and one.reasons)
        text += f" Most often not known: {why.most_common(1)[0][0]}."
    if not work.rented:
        text += " Parts that can only be rented were left out: name provider to compare them."
    work.notices.append(Notice("candidates-shortened", text, "suggestions"))
    return shown


def _ways(work: Work) -> list[Suggestion]:
    if not _comparable(work):
        return []
    found = [way(work) for way in WAYS]
    known = [suggestion for suggestion in found if suggestion is not None]
    return [*known, *other_regions(work)]


def _class_notices(work: Work) -> list[Notice]:
    if work.part is None:
        text = (
            "No present hardware was named, so no parts can be compared: only where the job fits "
            "and roughly what a training takes can be told. For verdicts add hardware (or "
            "instance) and count of the run you have or plan, hours or tokens, zone or region."
        )
        return [Notice("hardware-unstated", text, "hardware")]
    classified = work.classified
    if classified.name is None:
        text = f"The class of work is not known ({classified.reason}): ranges cover all classes."
        return [Notice("class-unknown", text, "workload_class")]
    if work.question.workload_class:
        return []
    text = f"Taken for class {classified.name}: {classified.reason}."
    return [Notice("class-inferred", text, "workload_class")]


def _estimate(work: Work) -> EstimateDoc | None:
    """The score of the present run, where the question says enough; its hours serve the advice."""
    question = work.question
    training = question.model_parameters is not None and question.tokens is not None
    if work.part is None or (question.hours is None and not training):
        return None
    asked = EstimateQuestion(
        hardware=work.part.id,
        count=work.count,
        hours=question.hours,
        power_w=question.mean_power_w,
        zone=question.zone,
        region=full_region(question),
        lifetime_years=question.lifetime_years,
        units=question.units,
        model_parameters=question.model_parameters if training else None,
        tokens=question.tokens if training else None,
        precision=None if question.precision == "int4" else question.precision,
    )
    try:
        answer = estimate(asked, work.catalog, AnnualIntensity(work.catalog))
    except ScoreError as error:
        work.notices.append(Notice("estimate-unavailable", error.message, "estimate"))
        return None
    hours = answer["device_hours"]
    if work.hours is None and hours is not None:
        work.hours = hours["value"] / work.count
    return answer
