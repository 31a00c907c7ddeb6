"""Requests to the engine and figures of the measurements, for the tests of advice."""

from __future__ import annotations

from typing import Any

from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.prediction.measurements import Measurement, measurements
from gramwatt.sci.advice.suggest_request import parse_suggest_request
from gramwatt.sci.catalog.catalog import load_catalog

CATALOG = load_catalog()
H100, A100, V100 = "nvidia-h100-sxm5-80", "nvidia-a100-sxm4-80", "nvidia-v100-sxm2-16"
L4, L40S, T4, B200, MI300X = (
    "nvidia-l4",
    "nvidia-l40s",
    "nvidia-t4",
    "nvidia-b200",
    "amd-mi300x",
)


def ask(**request: Any) -> AdviceDoc:
    """The answer to a request."""
    return suggest(parse_suggest_request(request), CATALOG)


def judged(target: str, **request: Any) -> SuggestionDoc:
    """What is said of one part."""
    [found] = [
        one
        for one in ask(candidates=[target], **request).suggestions
        if one.action == "change-hardware"
    ]
    return found


def action(name: str, **request: Any) -> SuggestionDoc | None:
    """The suggestion of one action other than a change of hardware; None where not suggested."""
    found = ask(candidates=[], **request).suggestions
    return next((one for one in found if one.action == name), None)


def codes(**request: Any) -> set[str]:
    """The codes of the notices."""
    return {notice.code for notice in ask(**request).notices}


def row(workload: str, hardware: str, **cells: Any) -> Measurement:
    """The one measurement of that workload on that part with those cells."""
    found = [
        one
        for one in measurements()
        if (one.workload, one.hardware) == (workload, hardware)
        and one.source != "mlperf-inference-earlier"
        and all(getattr(one, name) == cell for name, cell in cells.items())
    ]
    assert len(found) == 1, found
    return found[0]


def rate(workload: str, hardware: str, **cells: Any) -> float:
    """Units a second of one device."""
    return row(workload, hardware, **cells).units_per_s


def fits(target: str, **request: Any) -> bool:
    """Whether a part is feasible."""
    return judged(target, **request).verdict != "not-feasible"
