"""The suggestion engine: one request in, ranked suggestions with their evidence out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from gramwatt.sci.advice.actions.capacity import (
    leave_device,
    needs_no_device,
    other_counts,
    other_regions,
    share,
    stop_idle,
)
from gramwatt.sci.advice.actions.hardware import compare
from gramwatt.sci.advice.actions.notices import notices
from gramwatt.sci.advice.actions.present import fitting_parts, keep, with_hours
from gramwatt.sci.advice.actions.settings import (
    batching,
    fewer_nodes,
    mixed_precision,
    power_cap,
    quantise,
)
from gramwatt.sci.advice.actions.texts import effort_of, texts
from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.documents import AdviceDoc, Suggestion, Verdict
from gramwatt.sci.advice.prediction.own_runs import OwnRow
from gramwatt.sci.advice.suggest_request import SuggestRequest
from gramwatt.sci.advice.work import Emitted, Work, resolve
from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.slices import Slice, find_part
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity

CERTAIN_SHOWN = 10
"""Certain savings that are listed when the request names no parts."""
UNDECIDED_SHOWN = 5
"""Parts without a reliable difference that are listed when the request names no parts."""
BUILDERS: tuple[Callable[[Work], Suggestion | None], ...] = (
    leave_device,
    stop_idle,
    batching,
    mixed_precision,
    quantise,
    share,
    fewer_nodes,
    power_cap,
)
"""Changes other than hardware and region; None where one does not apply."""
_ORDER: tuple[Verdict, ...] = (
    "lower",
    "no-reliable-difference",
    "unknown",
    "higher",
    "not-feasible",
)


def suggest(
    request: SuggestRequest,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    workload: str | None = None,
    *,
    repeats: Quantity | None = None,
    measured: JobDoc | None = None,
) -> AdviceDoc:
    """Return the answer to a request.

    `own` are the organisation's runs, used before the public table; `workload` names the job's work
    in `own`; `measured` is the document of the job that ran, whose carbon is saved; `repeats` is
    how often it runs [1/year], where the request does not say. Raises LookupFailed for unknown
    names, ScoreError for what means nothing.
    """
    work = resolve(request, catalog, own, workload, repeats=repeats, measured=measured)
    found = work.notices
    score: EstimateDoc | None = None
    try:
        score = _estimate(work)
    except ScoreError as error:
        found.append(Notice("estimate-unavailable", error.message, "estimate"))
    found += _implausible(score)
    if work.hours is None and score is not None and score.device_hours is not None:
        work = replace(work, hours=score.device_hours.value / work.count)
    if work.emitted is None and score is not None:
        work = replace(work, emitted=Emitted.of(score))
    compared = [compare(work, one) for one in _candidates(work)]
    shown, shortened = _shown(work, compared)
    shown = [*shown, *other_counts(work, shown, compared)]
    every = [*shown, *_actions(work), *keep(work, compared)]
    suggestions = [
        replace(one, effort=effort_of(work, one), yearly_kg=work.yearly_kg(one.saved_g))
        for one in sorted(every, key=_rank)
    ]
    found += [*shortened, *notices(work)]
    return AdviceDoc(
        suggestions=[one.to_doc() for one in suggestions],
        estimate=score,
        notices=list(found),
    )


def _implausible(score: EstimateDoc | None) -> list[Notice]:
    """Return what the estimate finds implausible in the request."""
    told = score.notices if score else []
    return [
        Notice(one.code, one.message, one.field)
        for one in told
        if one.code in ("input-implausible", "lifetime-exceeded")
    ]


def _rank(suggestion: Suggestion) -> tuple[int, float]:
    """Order certain savings first, by expected grams, then by ratio; the rest by verdict."""
    if suggestion.action == "keep" and suggestion.verdict == "not-feasible":
        return -3, 0.0  # first: there is nothing to compare the rest with
    if suggestion.action == "stop-idle" and suggestion.verdict == "unknown":
        return -2, 1.0  # a question that decides more than which part idles
    saved = suggestion.saved_g.value if suggestion.saved_g else 0.0
    gain = 1 - suggestion.carbon_ratio.value if suggestion.carbon_ratio else 0.0
    # Without hours no grams are known, so the ratio alone gives the order.
    order = -(saved or gain)
    if suggestion.verdict == "lower":
        return -2, order
    if suggestion.action == "keep":
        return -1, 0.0
    return _ORDER.index(suggestion.verdict), order


def _candidates(work: Work) -> list[Hardware | Slice]:
    """Return the parts and slices that are asked for; else all available parts but legacy ones."""
    if work.request.candidates is None:
        if needs_no_device(work):
            return []
        present, every = work.part.id if work.part else None, work.catalog.all_hardware()
        return [part for part in every if part.id == present or _is_option(work, part)]
    found: dict[str, Hardware | Slice] = {}
    for name in work.request.candidates:
        part, piece = find_part(work.catalog, name)
        one = piece or part
        found.setdefault(one.id, one)
    return list(found.values())


def _is_option(work: Work, part: Hardware) -> bool:
    """Tell whether to list a part: legacy ones only if named, rented ones only for who rents."""
    if part.market == "legacy" or part.availability == "internal":
        return False
    return work.part is None or work.rented or not rented_only(part)


def _is_comparable(work: Work) -> bool:
    """Tell whether there is a present run, and one that can be."""
    return work.part is not None and not work.misfit and work.slice is None


def _shown(work: Work, compared: list[Suggestion]) -> tuple[list[Suggestion], list[Notice]]:
    """Return the compared parts that are listed, and a notice where not all are."""
    if work.request.candidates is not None:
        return compared if _is_comparable(work) else with_hours(work, compared), []
    if needs_no_device(work):
        text = f"{work.request.framework} computes on processors: accelerators only if named."
        return [], [Notice("candidates-shortened", text, "framework")]
    listed = _best_certain if _is_comparable(work) else fitting_parts
    shown, notice = listed(work, compared)
    return shown, [notice]


def _best_certain(work: Work, compared: list[Suggestion]) -> tuple[list[Suggestion], Notice]:
    """Return the best certain savings and undecided parts, and how many were compared."""

    def by_ratio(verdict: Verdict) -> list[Suggestion]:
        others = [one for one in compared if one.verdict == verdict]
        return sorted(others, key=lambda one: one.carbon_ratio.value if one.carbon_ratio else 1.0)

    present = work.part.id if work.part else None
    undecided = [one for one in by_ratio("no-reliable-difference") if one.target != present]
    shown = by_ratio("lower")[:CERTAIN_SHOWN] + undecided[:UNDECIDED_SHOWN]
    counts = Counter(one.verdict for one in compared)
    sums = ", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name])
    text = (
        f"{len(compared)} parts compared ({sums}); {len(shown)} shown. Name candidates to see them."
    )
    if not shown and counts["unknown"]:
        why = Counter(one.reasons[0] for one in compared if one.verdict == "unknown")
        text += f" Most often not known: {why.most_common(1)[0][0]}."
    if not work.rented:
        text += " Parts that can only be rented were left out: name provider to compare them."
    return shown, Notice("candidates-shortened", text, "suggestions")


def _actions(work: Work) -> list[Suggestion]:
    """Return what else would change the present run."""
    if not _is_comparable(work):
        return []
    # Settings of a device say nothing of a job that makes no use of it.
    builders = (leave_device,) if needs_no_device(work) else BUILDERS
    built = (build(work) for build in builders)
    figures = [one for one in built if one is not None]
    return [*figures, *texts(work), *other_regions(work)]


def _estimate(work: Work) -> EstimateDoc | None:
    """Return the score of the present run, if the request says enough; its hours are used too."""
    request = work.request
    timed = request.hours is not None or (request.model_parameters and request.tokens)
    if work.part is None or work.slice or not timed:
        return None
    asked = request.estimate(
        hardware=work.part.id,
        count=work.count,
        hours=request.hours,
        power_w=request.mean_power_w,
        units=request.units,
    )
    return estimate(asked, work.catalog)
