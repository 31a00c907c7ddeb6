"""`gramwatt estimate`: a score without measuring."""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.cli.options import request_command
from gramwatt.collectors.cli.summary import quantity_text, significant
from gramwatt.collectors.settings.catalogs import user_catalog
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.estimate.request import EstimateRequest, parse_estimate_request
from gramwatt.sci.figures.document import SourceDoc

HELPS = {
    "hardware": "Catalog id or name.",
    "instance": "Cloud instance: aws:p4d.24xlarge.",
    "count": "Devices, as the driver lists them.",
    "hours": "Wall time (h).",
    "device_hours": "Instead of count x hours (h).",
    "power_w": "Mean power of a device (W); or LOW,VALUE,HIGH.",
    "energy_kwh": "Energy of all IT equipment (kWh).",
    "utilisation": "0 to 1.",
    "zone": "Grid zone: FR, DE, US-CAL-CISO.",
    "region": "Cloud region: aws:eu-west-1.",
    "intensity_g_per_kwh": "Wins over the zone.",
    "pue": "The facility's PUE, 1 to 5.",
    "lifetime_years": "Hardware life (years).",
    "embodied_kg_per_device": "Wins over the catalog (kg CO2e).",
    "host": "Count the host (default).",
    "units": "Such as token=1e9; may be repeated.",
    "model_parameters": "All parameters: N of 6 x N x D.",
    "activated_parameters": "Of a mixture of experts: N of 6 x N x D.",
    "tokens": "D of 6 x N x D.",
    "model_flop_utilisation": "0 to 1.",
}


def answer(document: dict[str, Any]) -> EstimateDoc:
    """Score hardware, time and place without measuring.

    Example: gramwatt estimate --hardware nvidia-l4 --hours 10 --zone FR --pue 1.2
    """
    catalog = user_catalog()
    return estimate(parse_estimate_request(document), catalog)


def lines(answer: EstimateDoc) -> list[str]:
    """Return the answer as aligned lines for a terminal."""
    hours = answer.device_hours
    rows = [
        ("Device hours", f"{significant(hours.value, 3)} h" if hours else "unknown"),
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
    unit = "" if figure.unit == "1" else f" {figure.unit}"
    text = f"{row.what}: {significant(figure.value, 4)}{unit}"
    return f"{text}, {figure.source}" if figure.unit == "gCO2e/kWh" else text


command = request_command(EstimateRequest, HELPS, answer, lines)
