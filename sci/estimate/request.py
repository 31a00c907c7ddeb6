"""The estimate's question (design section 9): checked fields, errors that say what to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gramwatt.sci.base.errors import ScoreError

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateQuestion:
    """A score without measuring. Power [W] is per device, energy [kWh] that of all IT equipment.

    `hours` is wall time, `device_hours` may stand for count x hours; `count` counts devices as the
    driver lists them. `energy_kwh` and `power_w` win over the catalog, `intensity_g_per_kwh` over
    the zone, `embodied_kg_per_device` over the catalog's TE.
    """

    hardware: str | None = None
    instance: str | None = None
    count: float | None = None
    hours: float | None = None
    device_hours: float | None = None
    power_w: float | None = None
    energy_kwh: float | None = None
    utilisation: float | None = None
    zone: str | None = None
    region: str | None = None
    intensity_g_per_kwh: float | None = None
    pue: float | None = None
    lifetime_years: float | None = None
    embodied_kg_per_device: float | None = None
    host: bool = True
    units: Mapping[str, float] = field(default_factory=dict)
    model_parameters: float | None = None
    tokens: float | None = None
    model_flop_utilisation: float | None = None
    precision: str | None = None


def parse_question(document: Mapping[str, Any]) -> EstimateQuestion:
    """The question in a JSON object; raises ScoreError with a stable code and what to do."""
    known = [spec.name for spec in fields(EstimateQuestion)]
    for name in document:
        if name not in known:
            raise ScoreError(
                f"unknown field {name!r}; known: {', '.join(known)}", code="unknown-field"
            )
    values = {name: _checked(name, value) for name, value in document.items() if value is not None}
    question = EstimateQuestion(**values)
    _check_meaning(question)
    return question


def _checked(name: str, value: Any) -> Any:
    try:
        return _CHECKS[name](value)
    except ValueError as error:
        raise ScoreError(f"field {name!r}: {error}", code="bad-field") from None


def _check_meaning(question: EstimateQuestion) -> None:
    if not (question.hardware or question.instance or question.energy_kwh is not None):
        raise ScoreError("say what ran: hardware, instance, or energy_kwh", code="missing-field")
    if question.hardware and question.instance:
        raise ScoreError("give hardware or instance, not both", code="conflicting-fields")
    if question.zone and question.region:
        raise ScoreError("give zone or region, not both", code="conflicting-fields")
    training = question.model_parameters is not None or question.tokens is not None
    if training and (question.model_parameters is None or question.tokens is None):
        raise ScoreError("training needs model_parameters and tokens", code="missing-field")
    times = (question.hours, question.device_hours, question.energy_kwh)
    if not training and all(item is None for item in times):
        raise ScoreError(
            "say for how long: hours, device_hours, or model_parameters with tokens",
            code="missing-field",
        )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise ValueError("not a text of 1 to 200 characters")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"not a finite number: {str(value)[:40]!r}")
    return float(value)


def _within(low: float, high: float, *, open_low: bool = False) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        number = _number(value)
        if not low <= number <= high or (open_low and number == low):
            raise ValueError(
                f"{number:g} is outside {'above ' if open_low else ''}{low:g} to {high:g}"
            )
        return number

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")
    return value


def _units(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError("not an object of unit: count")
    counts = {_text(unit): _number(count) for unit, count in value.items()}
    wrong = [unit for unit, count in counts.items() if count <= 0]
    if wrong:
        raise ValueError(f"R must be above zero; {wrong[0]!r} is {counts[wrong[0]]:g}")
    return counts


def _precision(value: Any) -> str:
    if value not in PRECISIONS:
        raise ValueError(f"{str(value)[:20]!r} is none of {', '.join(PRECISIONS)}")
    return str(value)


_positive = _within(0, 1e30, open_low=True)

_CHECKS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("hardware", "instance", "zone", "region"), _text),
    **dict.fromkeys(("count", "hours", "device_hours", "power_w", "energy_kwh"), _positive),
    **dict.fromkeys(("model_parameters", "tokens"), _positive),
    "intensity_g_per_kwh": _within(0, 5000),
    "pue": _within(1, 5),
    "lifetime_years": _within(0, 50, open_low=True),
    "embodied_kg_per_device": _within(0, 1e6, open_low=True),
    "utilisation": _within(0, 1),
    "model_flop_utilisation": _within(0, 1, open_low=True),
    "host": _flag,
    "units": _units,
    "precision": _precision,
}
