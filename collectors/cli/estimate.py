"""`gramwatt estimate`: a score without measuring, of one device or of several side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

import typer

from gramwatt.collectors.cli.options import flag_of, request_command
from gramwatt.collectors.cli.summary import (
    WIDTH,
    quantity_text,
    short_text,
    table,
    than_first,
    wrapped,
)
from gramwatt.collectors.settings.catalogs import user_catalog
from gramwatt.sci.estimate.answer import EstimatesDoc, estimates
from gramwatt.sci.estimate.estimate import EstimateDoc
from gramwatt.sci.estimate.request import EstimateRequest, parse_estimate_request

HELPS = {
    "hardware": "Catalog id or name; several are compared.",
    "instance": "Cloud instance: aws:p4d.24xlarge; several are compared.",
    "count": "Devices, as the driver lists them.",
    "hours": "Wall time (h).",
    "device_hours": "Instead of count x hours (h).",
    "power_w": "Mean power of a device (W); or LOW,VALUE,HIGH.",
    "energy_kwh": "Energy of all IT equipment (kWh).",
    "utilisation": "0.12, 12%.",
    "zone": "Grid zone: FR, DE, US-CAL-CISO.",
    "region": "Cloud region: aws:eu-west-1.",
    "intensity_g_per_kwh": "Wins over the zone.",
    "pue": "The facility's PUE, 1 to 5.",
    "lifetime_years": "Hardware life (years).",
    "embodied_kg_per_device": "Wins over the catalog (kg CO2e).",
    "host": "Count the host (default).",
    "units": "Such as token=1e9; may be repeated.",
    "kind": "training (default) or inference.",
    "model_parameters": "All parameters of the model: 7B.",
    "activated_parameters": "Of a mixture of experts, for one token.",
    "tokens": "To train on; of inference: that are served.",
    "requests": "That are served.",
    "tokens_per_request": "Tokens of an answer.",
    "batch_size": "Sequences served at a time.",
    "model_flop_utilisation": "Of a training, 0 to 1.",
}
ROWS = 5
"""Devices that are shown without --all."""
PRESSING = (
    "input-implausible",
    "lifetime-exceeded",
    "place-taken",
    "power-unpublished",
    "zone-unknown",
)
"""Notices that say how to read the answer."""
All = Annotated[bool, typer.Option("--all", help="Every device.")]
Why = Annotated[bool, typer.Option("--why", help="Inputs, sources, notices of the first.")]


def answer(document: dict[str, Any]) -> EstimatesDoc:
    """Energy and carbon without measuring: of hours, a training, or tokens served.

    Example: gramwatt estimate --hardware L4 --hardware H100 --model-parameters 8e9 --requests 1e6
    """
    return estimates(parse_estimate_request(document), user_catalog())


def lines(answer: EstimatesDoc, every: All = False, why: Why = False) -> list[str]:
    """Return the answer for a terminal: a sentence, a table, what would make it surer."""
    rows = answer.answers
    shown = wrapped(answer.summary)
    if len(rows) > 1:
        shown += table(list(_side_by_side(rows if every else rows[:ROWS])), (1, 2), WIDTH)
    shown += table(list(_terms(rows[0]))) if len(rows) == 1 else []
    for row in answer.left_out:
        shown += wrapped(f"{row.label}: {row.word}, {row.reason}", "  ")
    if not rows:
        return shown
    if why:
        return shown + list(_why(rows[0]))
    notices = chain.from_iterable(row.notices for row in rows)
    messages = {notice.message: None for notice in notices if notice.code in PRESSING}
    for message in messages:
        shown += wrapped(message)
    surer = [f"To be surer: {', '.join(map(flag_of, answer.surer))}."] * bool(answer.surer)
    hidden = [f"All {len(rows)}: --all."] * (len(rows) > ROWS and not every)
    return [*shown, *wrapped(" ".join((*surer, *hidden, "Inputs: --why.")))]


def _side_by_side(rows: list[EstimateDoc]) -> Iterator[tuple[str, ...]]:
    """Yield the head of a table, and a row for each device."""
    served = any(row.g_per_million_tokens for row in rows)
    tokens = ["1M tokens"] if served else []
    yield "", "time", "energy", "carbon (CO2e)", *tokens, "than first"
    for row in rows:
        tokens = [short_text(row.g_per_million_tokens)] if served else []
        carbon = quantity_text(row.carbon_g).replace(" CO2e", "")
        yield (
            row.label,
            short_text(row.time_h),
            short_text(row.energy_kwh),
            carbon,
            *tokens,
            than_first(row.carbon_ratio, row.odds),
        )


def _terms(row: EstimateDoc) -> Iterator[tuple[str, str]]:
    """Yield the figures of one device with their ranges."""
    hours = quantity_text(row.device_hours)
    if row.device_hours:
        single = row.count is None or row.count == 1
        yield "Time", hours if single else f"{quantity_text(row.time_h)}, {hours} of devices"
    yield "Energy", quantity_text(row.energy_kwh)
    yield "Electricity", quantity_text(row.operational_g)
    yield "Making the hardware", quantity_text(row.embodied_g)
    yield "Total", quantity_text(row.total_g)
    if row.g_per_million_tokens:
        yield "Per million tokens", quantity_text(row.g_per_million_tokens)
    for score in row.sci:
        if score.unit != "job":
            yield f"SCI per {score.unit}", quantity_text(score.g_per_unit)


def _why(row: EstimateDoc) -> Iterator[str]:
    """Yield what the first estimate rests on."""
    yield f"{row.label} rests on:"
    for item in row.method.inputs:
        yield from wrapped(f"{item.what}: {quantity_text(item.figure)}; {item.figure.source}", "  ")
    yield f"SCI standard: {row.conformance}"
    for remark in (*row.deviations, *(notice.message for notice in row.notices)):
        yield from wrapped(remark, "  ")


command = request_command(EstimateRequest, HELPS, answer, lines)
