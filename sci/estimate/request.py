"""The request for an estimate: its fields, and what they must say together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.request_fields import (
    AMOUNT,
    SHARE,
    YEARS,
    Choice,
    Counts,
    Flag,
    Number,
    Ranged,
    Span,
    Text,
    parse,
    refuse_both,
    ruled,
)

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest:
    """A score without measuring. Power [W] is per device, energy [kWh] that of all IT equipment.

    Power may have a range: an object of low, value and high.

    `hours` is wall time, `device_hours` may stand for count x hours; `count` counts devices as the
    driver lists them. `energy_kwh` and `power_w` win over the catalog, `intensity_g_per_kwh` over
    the zone, `embodied_kg_per_device` over the catalog's TE. Of a mixture of experts
    `model_parameters` are all and `activated_parameters` those that one token passes.
    """

    hardware: str | None = ruled(Text())
    instance: str | None = ruled(Text())
    count: float | None = ruled(AMOUNT)
    hours: float | None = ruled(AMOUNT)
    device_hours: float | None = ruled(AMOUNT)
    power_w: Span | None = ruled(Ranged(AMOUNT))
    energy_kwh: float | None = ruled(AMOUNT)
    utilisation: float | None = ruled(SHARE)
    zone: str | None = ruled(Text())
    region: str | None = ruled(Text())
    intensity_g_per_kwh: float | None = ruled(Number(high=5000, low_included=True))
    pue: float | None = ruled(Number(low=1, high=5, low_included=True))
    lifetime_years: float | None = ruled(YEARS)
    embodied_kg_per_device: float | None = ruled(Number(high=1e6))
    host: bool = ruled(Flag(), default=True)
    units: Mapping[str, float] = ruled(Counts(), default_factory=dict)
    model_parameters: float | None = ruled(AMOUNT)
    activated_parameters: float | None = ruled(AMOUNT)
    tokens: float | None = ruled(AMOUNT)
    model_flop_utilisation: float | None = ruled(Number(high=1))
    precision: str | None = ruled(Choice(PRECISIONS))


def check_activated(whole: float | None, activated: float | None) -> None:
    """Raise ScoreError where activated parameters are not part of all."""
    if activated is None:
        return
    if whole is None:
        raise ScoreError("give model_parameters, those of all experts, too", code="missing-field")
    if activated > whole:
        text = f"activated_parameters {activated:g} are more than model_parameters {whole:g}"
        raise ScoreError(text, code="conflicting-fields")


def parse_estimate_request(document: Mapping[str, Any]) -> EstimateRequest:
    """Return the request in a JSON object; raises ScoreError with what to change."""
    request = parse(EstimateRequest, document)
    if not (request.hardware or request.instance or request.energy_kwh is not None):
        raise ScoreError("say what ran: hardware, instance, or energy_kwh", code="missing-field")
    refuse_both(request, "hardware", "instance")
    refuse_both(request, "zone", "region")
    training = request.model_parameters is not None or request.tokens is not None
    if training and (request.model_parameters is None or request.tokens is None):
        raise ScoreError("training needs model_parameters and tokens", code="missing-field")
    check_activated(request.model_parameters, request.activated_parameters)
    times = (request.hours, request.device_hours, request.energy_kwh)
    if not training and all(item is None for item in times):
        text = "say for how long: hours, device_hours, or model_parameters with tokens"
        raise ScoreError(text, code="missing-field")
    return request
