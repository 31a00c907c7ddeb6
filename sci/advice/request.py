"""The suggestion's question (design section 9): checked fields, errors that say what to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gramwatt.sci.advice.prediction.rows import CLASSES
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.journal.records import JOB_KINDS

METHODS = ("full", "lora", "qlora")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4")
CONSTRAINTS = ("none", "offline", "edge")
CANDIDATES_MOST = 500
LARGEST = 1e30
"""Above every amount that means anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestQuestion:
    """A job to find something better for; every figure is that of the present run.

    `count` counts devices as the driver lists them, `mean_power_w` [W] and `peak_memory_gb` [GiB]
    are per device, `hours` [h] is wall time, `utilisation` and `memory_bandwidth_utilisation` are
    shares 0 to 1. `workload` names the work in the organisation's own measurements.
    """

    hardware: str | None = None
    instance: str | None = None
    count: float | None = None
    hours: float | None = None
    kind: str | None = None
    method: str | None = None
    model_parameters: float | None = None
    tokens: float | None = None
    precision: str | None = None
    batch_size: float | None = None
    framework: str | None = None
    workload_class: str | None = None
    mean_power_w: float | None = None
    peak_memory_gb: float | None = None
    utilisation: float | None = None
    memory_bandwidth_utilisation: float | None = None
    units: Mapping[str, float] = field(default_factory=dict)
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    candidates: tuple[str, ...] | None = None
    constraint: str = "none"
    lifetime_years: float | None = None


def parse_suggestion(document: Mapping[str, Any]) -> SuggestQuestion:
    """The question in a JSON object; raises ScoreError with a stable code and what to do."""
    known = [spec.name for spec in fields(SuggestQuestion)]
    for name in document:
        if name not in known:
            text = f"unknown field {name!r}; known: {', '.join(known)}"
            raise ScoreError(text, code="unknown-field")
    values = {name: _checked(name, value) for name, value in document.items() if value is not None}
    question = SuggestQuestion(**values)
    _check_meaning(question)
    return question


def _check_meaning(question: SuggestQuestion) -> None:
    if not (question.hardware or question.instance or question.model_parameters):
        text = "say what runs: hardware, instance or model_parameters"
        raise ScoreError(text, code="missing-field")
    for one, other in (("hardware", "instance"), ("zone", "region")):
        if getattr(question, one) and getattr(question, other):
            raise ScoreError(f"give {one} or {other}, not both", code="conflicting-fields")
    if question.region and ":" not in question.region and not question.provider:
        text = "give region as PROVIDER:REGION, such as gcp:europe-west1, or give provider too"
        raise ScoreError(text, code="missing-field")


def _checked(name: str, value: Any) -> Any:
    try:
        return _CHECKS[name](value)
    except ValueError as error:
        raise ScoreError(f"field {name!r}: {error}", code="bad-field") from None


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise ValueError("not a text of 1 to 200 characters")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"not a finite number: {str(value)[:40]!r}")
    return float(value)


def _positive(value: Any) -> float:
    number = _number(value)
    if not 0 < number <= LARGEST:
        raise ValueError(f"{number:g} is not above 0")
    return number


def _count(value: Any) -> float:
    number = _positive(value)
    if number != int(number) or number > 1e6:
        raise ValueError(f"{number:g} is not a whole number of devices")
    return number


def _share(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError(f"{number:g} is outside 0 to 1")
    return number


def _years(value: Any) -> float:
    number = _positive(value)
    if number > 50:
        raise ValueError(f"{number:g} is more than 50 years")
    return number


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(choices)}")
        return str(value)

    return check


def _units(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError("not an object of unit: count")
    return {_text(unit): _positive(count) for unit, count in value.items()}


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("not a list of hardware names")
    if len(value) > CANDIDATES_MOST:
        raise ValueError(f"more than {CANDIDATES_MOST} names")
    return tuple(_text(name) for name in value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("hardware", "instance", "framework", "provider", "region", "zone"), _text),
    **dict.fromkeys(("hours", "model_parameters", "tokens", "batch_size"), _positive),
    **dict.fromkeys(("mean_power_w", "peak_memory_gb"), _positive),
    **dict.fromkeys(("utilisation", "memory_bandwidth_utilisation"), _share),
    "count": _count,
    "kind": _one_of(JOB_KINDS),
    "method": _one_of(METHODS),
    "precision": _one_of(PRECISIONS),
    "workload_class": _one_of(CLASSES),
    "constraint": _one_of(CONSTRAINTS),
    "units": _units,
    "candidates": _names,
    "lifetime_years": _years,
}
