"""Suggestions for a question or a stored job, and the rows that own measurements make."""

from __future__ import annotations

from typing import Literal, TypedDict

from pydantic import Field

from gramwatt.sci.advice import AdviceDoc, OwnRow, parse_suggestion
from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.api.estimates import unanswerable
from gramwatt.service.api.routing import Routes, Strict
from gramwatt.service.api.support import JobPath, service
from gramwatt.service.usecases.suggest import answer, answer_for_job, calibration_rows

routes = Routes("suggestions")
Amount = Field(None, gt=0, le=1e30)
Share = Field(None, ge=0, le=1)
Name = Field(None, min_length=1, max_length=200)


class SuggestBody(Strict):
    """The present run of a job, as far as it is known; hardware, instance or model size is needed.

    Power [W] and memory [GiB] are those of one device; `candidates` asks for certain parts.
    """

    kind: (
        Literal["training", "fine-tuning", "inference", "evaluation", "data-prep", "other"] | None
    ) = None
    method: Literal["full", "lora", "qlora"] | None = None
    model_parameters: float | None = Amount
    tokens: float | None = Amount
    precision: Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4"] | None = None
    batch_size: float | None = Amount
    framework: str | None = Name
    workload_class: (
        Literal[
            "training", "batch-inference", "decode", "prefill", "llm-serving", "recsys", "small"
        ]
        | None
    ) = None
    hardware: str | None = Name
    instance: str | None = Name
    count: float | None = Field(None, gt=0, le=1e6)
    hours: float | None = Amount
    mean_power_w: float | None = Amount
    peak_memory_gb: float | None = Amount
    utilisation: float | None = Share
    memory_bandwidth_utilisation: float | None = Share
    units: dict[str, float] | None = None
    provider: str | None = Name
    region: str | None = Name
    zone: str | None = Name
    candidates: list[str] | None = Field(None, max_length=500)
    constraint: Literal["none", "offline", "edge"] | None = None
    lifetime_years: float | None = Field(None, gt=0, le=50)


class CalibrationRow(TypedDict):
    """One measured job: work a second and power [W] of one device."""

    job_id: str
    workload: str
    workload_class: str | None
    hardware: str
    count: int
    unit: str
    units_per_s: float
    power_w: float


class CalibrationAnswer(TypedDict):
    """The organisation's own calibration rows, newest first."""

    rows: list[CalibrationRow]


@routes.post("/v1/suggestions", "unanswerable")
def make_suggestions(body: SuggestBody) -> AdviceDoc:
    """What would emit less for the same work: other hardware, or another way to run it.

    `lower` means that the whole 80 % range of the carbon ratio lies below 1.
    """
    try:
        question = parse_suggestion(body.model_dump(exclude_none=True))
        return answer(service(), question)
    except GramwattError as error:
        raise unanswerable(error) from None


@routes.get("/v1/jobs/<job_id>/suggestions", "unknown-job", "not-scorable")
def suggest_for_job(path: JobPath) -> AdviceDoc:
    """Suggestions for a job, from what was measured of it."""
    return answer_for_job(service(), path.job_id)


@routes.get("/v1/suggestions/calibration")
def list_calibration() -> CalibrationAnswer:
    """The rows that own measured jobs make; they are used before the public table."""
    return {"rows": [_row(row) for row in calibration_rows(service())]}


def _row(row: OwnRow) -> CalibrationRow:
    return {
        "job_id": row.job_id,
        "workload": row.workload,
        "workload_class": row.workload_class,
        "hardware": row.hardware,
        "count": row.count,
        "unit": row.unit,
        "units_per_s": row.units_per_s,
        "power_w": row.power_w,
    }
