"""Requests to the engine and published measurements, for the tests of suggestions."""

from __future__ import annotations

import csv
from functools import cache
from typing import Any

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.suggest.documents import HARDWARE, AnswerDoc, SuggestDoc
from gramwatt.sci.suggest.request import parse_suggest_request
from gramwatt.sci.suggest.suggest import suggest
from tests.packages import ROOT

CATALOG = load_catalog()
H100, A100, V100 = "nvidia-h100-sxm5-80", "nvidia-a100-sxm4-80", "nvidia-v100-sxm2-16"
L4, L40S, T4, B200, MI300X = (
    "nvidia-l4",
    "nvidia-l40s",
    "nvidia-t4",
    "nvidia-b200",
    "amd-mi300x",
)


def ask(**request: Any) -> SuggestDoc:
    """The answer to a request."""
    return suggest(parse_suggest_request(request), CATALOG)


def hardware(target: str, **request: Any) -> AnswerDoc | None:
    """The row of as many devices of one part; None where it is left out."""
    rows = ask(candidates=[target], **request).answers
    return next((row for row in rows if row.action in HARDWARE and row.id == target), None)


def ratio(target: str, figure: str, **request: Any) -> float:
    """The time, energy or carbon of one part over that of now."""
    row = hardware(target, **request)
    assert row is not None
    return float(getattr(row, f"{figure}_ratio").value)


def action(name: str, **request: Any) -> AnswerDoc | None:
    """The row of another action than a change of hardware; None where it is not suggested."""
    return next((row for row in ask(candidates=[], **request).answers if row.action == name), None)


def codes(**request: Any) -> set[str]:
    """The codes of the notices."""
    return {notice.code for notice in ask(**request).notices}


def word(target: str, **request: Any) -> str | None:
    """Why one device of a part, or as many as asked, is left out; None where it is not."""
    rows = ask(candidates=[target], **{"count": 1, **request}).left_out
    return next((row.word for row in rows if row.id == target), None)


def fits(target: str, **request: Any) -> bool:
    """Whether a part can do the work."""
    return word(target, **request) in (None, "no data sheet")


OTHER_ROUNDS = ("mlperf-inference-earlier", "mlperf-inference-5.1", "mlperf-training-5.1")
"""Sources with further results of the same workloads."""


@cache
def measurements() -> tuple[dict[str, str], ...]:
    path = ROOT / "benchmarks/suggestions/data/measurements.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def rate(workload: str, part: str, figure: str = "units_per_s", **cells: str) -> float:
    """Units a second, or another figure, of one device in the one published measurement."""
    rows = [
        row
        for row in measurements()
        if (row["workload"], row["hardware"]) == (workload, part)
        and row["source"] not in OTHER_ROUNDS
        and all(row[name] == cell for name, cell in cells.items())
    ]
    assert len(rows) == 1, rows
    return float(rows[0][figure])
