"""`gramwatt estimate`: a score without measuring."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from gramwatt.collectors.cli.options import (
    AsJson,
    Source,
    Units,
    counts,
    ranged,
    read_document,
    refuse_error,
    with_flags,
)
from gramwatt.collectors.cli.summary import quantity_text, significant
from gramwatt.collectors.common.catalogs import user_catalog
from gramwatt.sci.base.document import SourceDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.estimate.request import parse_estimate_request

OTHER = ("source", "intensity", "power", "unit", "as_json")
"""Parameters of the command that are no field of the request by that name."""


def command(
    source: Source = None,
    hardware: Annotated[str | None, typer.Option(help="Catalog id or name.")] = None,
    instance: Annotated[str | None, typer.Option(help="Cloud instance: aws:p4d.24xlarge.")] = None,
    count: Annotated[float | None, typer.Option(help="Devices, as the driver lists them.")] = None,
    hours: Annotated[float | None, typer.Option(help="Wall time (h).")] = None,
    device_hours: Annotated[
        float | None, typer.Option(help="Instead of count x hours (h).")
    ] = None,
    power: Annotated[
        str | None,
        typer.Option("--power-w", help="Mean power of a device (W); or LOW,VALUE,HIGH."),
    ] = None,
    energy_kwh: Annotated[
        float | None, typer.Option(help="Energy of all IT equipment (kWh).")
    ] = None,
    utilisation: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    zone: Annotated[str | None, typer.Option(help="Grid zone: FR, DE, US-CAL-CISO.")] = None,
    region: Annotated[str | None, typer.Option(help="Cloud region: aws:eu-west-1.")] = None,
    intensity: Annotated[
        float | None, typer.Option("--intensity-g-per-kwh", help="Wins over the zone.")
    ] = None,
    pue: Annotated[float | None, typer.Option(help="The facility's PUE, 1 to 5.")] = None,
    lifetime_years: Annotated[float | None, typer.Option(help="Hardware life (years).")] = None,
    host: Annotated[
        bool | None, typer.Option("--host/--no-host", help="Count the host (default).")
    ] = None,
    unit: Units = None,
    model_parameters: Annotated[
        float | None, typer.Option(help="All parameters: N of 6 x N x D.")
    ] = None,
    activated_parameters: Annotated[
        float | None, typer.Option(help="Of a mixture of experts: N of 6 x N x D.")
    ] = None,
    tokens: Annotated[float | None, typer.Option(help="D of 6 x N x D.")] = None,
    model_flop_utilisation: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="bf16, fp16, fp8, tf32, fp32, int8.")
    ] = None,
    embodied_kg_per_device: Annotated[
        float | None, typer.Option(help="Wins over the catalog (kg CO2e).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score hardware, time and place without measuring.

    Example: gramwatt estimate --hardware nvidia-l4 --hours 10 --zone FR --pue 1.2
    """
    flags = {name: value for name, value in locals().items() if name not in OTHER}
    flags |= {"intensity_g_per_kwh": intensity, "units": counts(unit)}
    flags["power_w"] = ranged("--power-w", power)
    answer = _answer(with_flags(read_document(source), flags), as_json=as_json)
    typer.echo(json.dumps(to_builtins(answer), indent=2) if as_json else "\n".join(lines(answer)))


def _answer(document: dict[str, Any], *, as_json: bool) -> EstimateDoc:
    try:
        catalog = user_catalog()
        return estimate(parse_estimate_request(document), catalog)
    except GramwattError as error:
        refuse_error(error, as_json=as_json)


def lines(answer: EstimateDoc) -> list[str]:
    """Return the answer as aligned lines for a terminal."""
    hours = answer.device_hours
    rows = [
        ("Device hours", f"{significant(hours['value'], 3)} h" if hours else "unknown"),
        ("Energy", quantity_text(answer.energy_kwh)),
        ("Operational O", quantity_text(answer.operational_g)),
        ("Embodied M", quantity_text(answer.embodied_g)),
        ("Total O + M", quantity_text(answer.total_g)),
    ]
    rows += [(f"SCI per {row.unit}", quantity_text(row.g_per_unit)) for row in answer.sci]
    rows.append(("Conformance", answer.conformance))
    rows += [("", f"- {text}") for text in answer.deviations]
    rows += [("Notice", notice.message) for notice in answer.notices]
    rows += [("From", _input(row)) for row in answer.method.inputs]
    width = max(len(label) for label, _ in rows)
    return [f"{label:<{width}}  {text}" for label, text in rows]


def _input(row: SourceDoc) -> str:
    figure = row.figure
    unit = "" if figure["unit"] == "1" else f" {figure['unit']}"
    text = f"{row.what}: {significant(figure['value'], 4)}{unit}"
    return f"{text}, {figure['source']}" if figure["unit"] == "gCO2e/kWh" else text
