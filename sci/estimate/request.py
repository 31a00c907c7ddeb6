"""The request for an estimate: its fields, and what they must say together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from gramwatt.sci.figures.checks import (
    Amount,
    Counts,
    Fraction,
    Intensity,
    Pue,
    Share,
    Span,
    Text,
    Years,
    parse,
    refuse_both,
)
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.grid.plausible import wrong_unit
from gramwatt.sci.records.records import JobKind

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)[:6]
"""Precisions in which a training may be timed."""
Work = Literal["training", "serving"]
Names = Text | Annotated[tuple[Text, ...], Meta(min_length=1, max_length=40)]
"""A name, or several that are to be compared."""
Parameters = Annotated[
    float, Meta(title="a number from 1000 to 1e30 (write 8 billion as 8B or 8e9)", ge=1e3, le=1e30)
]
"""Parameters of a model; fewer are taken for a number without its unit (a choice)."""
Kilograms = Annotated[float, Meta(title="a mass above 0 and at most 1e6 kg", gt=0, le=1e6)]


class EstimateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A score without measuring. Power [W] is per device, energy [kWh] that of all IT equipment.

    Power may have a range: an object of low, value and high.

    Several names of `hardware` or `instance` are compared. `hours` is wall time, `device_hours` may
    stand for count x hours; `count` counts devices as the driver lists them. `energy_kwh` and
    `power_w` win over the catalog, `intensity_g_per_kwh` over the zone, `embodied_kg_per_device`
    over the catalog's TE. Of a mixture of experts `model_parameters` are all and
    `activated_parameters` those that one token passes.

    `tokens` are those of a training; with `kind` inference those that a server generates, which
    `requests` of `tokens_per_request` say as well. `batch_size` is the number of sequences that are
    served at a time by each copy of the model.
    """

    hardware: Names | None = None
    instance: Names | None = None
    count: Amount | None = None
    hours: Amount | None = None
    device_hours: Amount | None = None
    power_w: Amount | Span | None = None
    energy_kwh: Amount | None = None
    utilisation: Fraction | None = None
    zone: Text | None = None
    region: Text | None = None
    intensity_g_per_kwh: Intensity | None = None
    pue: Pue | None = None
    lifetime_years: Years | None = None
    embodied_kg_per_device: Kilograms | None = None
    host: bool = True
    units: Counts = msgspec.field(default_factory=dict)
    kind: JobKind | None = None
    model_parameters: Parameters | None = None
    activated_parameters: Parameters | None = None
    tokens: Amount | None = None
    requests: Amount | None = None
    tokens_per_request: Amount | None = None
    batch_size: Amount | None = None
    model_flop_utilisation: Share | None = None
    precision: Precision | None = None

    @property
    def work(self) -> Work | None:
        """Return what the model is for; None where neither a model nor a kind is given."""
        serves = (self.requests, self.tokens_per_request, self.batch_size)
        if self.kind in ("inference", "evaluation") or any(serves):
            return "serving"
        if self.kind in ("training", "fine-tuning") or (self.model_parameters and self.tokens):
            return "training"
        return None

    @property
    def timed(self) -> bool:
        """Return whether hours or energy are given."""
        return any((self.hours, self.device_hours, self.energy_kwh))

    @property
    def power_range_w(self) -> tuple[float, float, float]:
        """Return the power [W] with the ends of its range; raises ScoreError without one."""
        if isinstance(self.power_w, Span):
            return self.power_w.value, self.power_w.low, self.power_w.high
        if self.power_w is None:
            raise ScoreError("the power is not given", code="missing-field")
        return self.power_w, self.power_w, self.power_w


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
    return check_estimate_request(parse(EstimateRequest, document))


def check_estimate_request(request: EstimateRequest) -> EstimateRequest:
    """Return a request whose fields do not contradict; raises ScoreError with what to change."""
    if not (request.hardware or request.instance or request.energy_kwh is not None):
        raise ScoreError("say what ran: hardware, instance, or energy_kwh", code="missing-field")
    refuse_both(request, "hardware", "instance")
    refuse_both(request, "zone", "region")
    if text := wrong_unit([request.intensity_g_per_kwh or 0.0]):
        raise ScoreError(f"field 'intensity_g_per_kwh': {text}", code="bad-field")
    check_activated(request.model_parameters, request.activated_parameters)
    if request.work == "serving":
        refuse_both(request, "tokens", "requests")
        _check_serving(request)
    elif (request.model_parameters is None) != (request.tokens is None) and not request.timed:
        text = (
            "training needs model_parameters and tokens; serving needs kind inference, or requests"
        )
        raise ScoreError(text, code="missing-field")
    return request


def _check_serving(request: EstimateRequest) -> None:
    """Raise ScoreError where neither hours nor an amount of work on a model is given."""
    amount = request.tokens or request.requests
    if request.timed or (amount and request.model_parameters):
        return
    missing = "tokens or requests" if request.model_parameters else "model_parameters"
    text = f"serving needs {missing}, or hours for which the devices are held"
    raise ScoreError(text, code="missing-field")
