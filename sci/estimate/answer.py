"""The answer to a request for estimates: one sentence, the rows, and what would narrow them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.estimate.estimate import EstimateDoc, Estimates, LeftOutDoc, compare
from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.sci.figures.formatting import all_digits, number, text

CLOSE = (0.4, 0.6)
"""Odds between which two rows are too close to call."""
UNMETERED = "power-unpublished"
"""The notice that no power of a device under load was published."""
SHORT = ((1e12, "T"), (1e9, "B"), (1e6, "M"))


class EstimatesDoc(Struct):
    """One sentence, then an estimate for each device that is named, the least carbon first.

    `left_out` has what cannot be estimated. `surer` names fields of the request that would narrow
    the ranges most.
    """

    summary: str
    answers: list[EstimateDoc]
    left_out: list[LeftOutDoc]
    surer: list[str]


def estimates(request: EstimateRequest, catalog: Catalog) -> EstimatesDoc:
    """Answer a request for each device or instance that it names.

    Raises LookupFailed for unknown names, ScoreError for an impossible request.
    """
    compared = compare(request, catalog)
    summary = " ".join(_sentences(compared))
    return EstimatesDoc(summary, compared.rows, compared.left_out, list(_surer(compared)))


def short(value: float) -> str:
    """Return a number of parameters or tokens as people say it: 7e9 as "7B"."""
    for size, letter in SHORT:
        if value >= size:
            return f"{value / size:.4g}{letter}"
    return all_digits(value)


def _sentences(compared: Estimates) -> Iterator[str]:
    """Yield the answer, and what it is not."""
    rows, request = compared.rows, compared.request
    if not rows:
        failed = compared.left_out[0]
        more = len(compared.left_out) - 1
        others = f"; nor {more} more" if more else ""
        yield f"No answer: {failed.label}: {failed.word}, {failed.reason}{others}."
    elif len(rows) > 1:
        yield from _least(compared)
        yield from _not_compared(compared)
    elif rows[0].carbon_g is None:
        yield f"Not known: {'; '.join(rows[0].missing)}."
    else:
        row, of = rows[0], ""
        if row.total_g is None:
            of = " from electricity" if row.operational_g else " from making the hardware"
        yield f"{text(row.carbon_g)}{of} for {_work(request, row, several=False)}."
        if row.missing:
            yield f"Not the total: {'; '.join(row.missing)}."
        yield from _not_compared(compared)


def _least(compared: Estimates) -> Iterator[str]:
    rows, request = compared.rows, compared.request
    first, second, most = rows[0], rows[1], rows[-1]
    what, odds = _work(request, first), first.odds or 0.5
    least = f"{first.label}, {text(first.carbon_g)}"
    if len(_names(request)) < 2:
        yield (
            f"{_names(request)[0]} may be {len(rows)} devices, for {what}: {least}, to "
            f"{most.label}, {text(most.carbon_g)}."
        )
    elif CLOSE[0] <= odds <= CLOSE[1]:
        yield f"Too close to call: {first.label} or {second.label}, {text(first.carbon_g)}, {what}."
    else:
        unmetered = any(notice.code == UNMETERED for row in rows[:2] for notice in row.notices)
        yield f"Least carbon{', by rated power alone' if unmetered else ''}: {least}, for {what}."
    if first.work is None and request.energy_kwh is None and len(_names(request)) > 1:
        yield "The same time on each, not the same work."


def _not_compared(compared: Estimates) -> Iterator[str]:
    """Yield which of the names have no figure to compare."""
    if compared.left_out:
        yield f"Not compared: {', '.join(row.label for row in compared.left_out)}."


def _work(request: EstimateRequest, row: EstimateDoc, several: bool = True) -> str:
    """Return what is estimated: a training, serving, or a time, on what."""
    size = f" {_an(short(request.model_parameters))} model" if request.model_parameters else ""
    if row.work == "training":
        what = f"training{size} on {short(request.tokens or 0.0)} tokens"
    elif row.work == "serving" and request.requests is not None:
        what = f"serving {short(request.requests)} requests by{size}"
    elif row.work == "serving":
        what = f"serving {short(request.tokens or 0.0)} tokens by{size}"
    elif request.energy_kwh is not None:
        return f"{all_digits(request.energy_kwh)} kWh"
    elif request.hours is None and request.device_hours is None:
        what = "one hour (no time is given)"
    else:
        hours = request.hours or request.device_hours or 0.0
        what = f"{number(hours, 4)} {'h' if request.hours else 'device hours'}"
        what = f"{what} of serving" if request.work == "serving" else what
    return what if several else f"{what} on {row.label}"


def _an(number: str) -> str:
    vowel = number.startswith("8") or number[:-1].split(".")[0] in ("11", "18")
    return f"{'an' if vowel else 'a'} {number}"


def _names(request: EstimateRequest) -> tuple[str, ...]:
    names = request.hardware or request.instance or ()
    return (names,) if isinstance(names, str) else names


def _surer(compared: Estimates) -> Iterator[str]:
    """Yield fields that would narrow the ranges, the widest assumption first."""
    request, rows = compared.request, compared.rows
    if rows and rows[0].work == "serving":
        if request.batch_size is None:
            yield "batch_size"
        if request.requests is not None and request.tokens_per_request is None:
            yield "tokens_per_request"
    if rows and rows[0].work == "training" and request.model_flop_utilisation is None:
        yield "model_flop_utilisation"
    if request.zone is None and request.region is None and request.intensity_g_per_kwh is None:
        yield "zone"
    if request.power_w is None and request.energy_kwh is None:
        yield "power_w"
    if request.pue is None:
        yield "pue"
