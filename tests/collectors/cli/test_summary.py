from __future__ import annotations

from typing import Any

import pytest

from gramwatt.collectors.cli.summary import summary_lines
from tests.journals import figure


def document(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "job_id": "j1",
        "name": "train.py",
        "project": "vision",
        "state": "completed",
        "duration_s": 42.18,
        "provisional": False,
        "energy_kwh": figure(0.0012345, 0.00122, 0.00125, "kWh"),
        "operational_g": figure(0.4321, 0.30, 0.60),
        "embodied_g": None,
        "total_g": None,
        "sci": [
            {
                "unit": "image",
                "count": 4096.0,
                "g_per_unit": figure(1e-4, 8e-5, 1.3e-4, "gCO2e/image"),
            }
        ],
        "conformance": "conforming-with-deviations",
        "deviations": ["a", "b"],
        "data_quality": {"grade": "B", "energy": {"measured": 0.971, "estimated": 0.029}},
        "notices": [{"code": "pue-undeclared", "message": "m", "field": "pue"}],
    }
    return base | changes


def test_the_whole_summary():
    assert summary_lines(document(), "gramwatt report job j1") == [
        "gramwatt: train.py (vision) completed in 42.2 s",
        "  Energy               1.23 Wh (1.22 to 1.25), 97 % measured, 3 % estimated",
        "  Electricity          430 mg CO2e (300 to 600)",
        "  Making the hardware  not known",
        "  Total                not known",
        "  SCI per image        100 µg CO2e/image (80 to 130), 4 096 counted",
        "  Data quality         B (A best, D worst)",
        "  Conformance          conforming-with-deviations (2 listed in the report)",
        "  Notices              1 (pue-undeclared)",
        "  Report               gramwatt report job j1",
    ]


def notices(*codes: str) -> list[dict[str, Any]]:
    return [{"code": code, "message": "m", "field": None} for code in codes]


@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        ({"notices": notices("zone-unknown")}, 0, "world average"),
        ({"provisional": True}, 6, "; provisional"),
        *(({"state": state}, 0, f" {state} in ") for state in ("failed", "killed", "lost")),
        ({"duration_s": 7325.0}, 0, "completed in 2 h 2 min"),
    ],
)
def test_what_differs_is_said_where_it_belongs(changes, line, words):
    assert words in summary_lines(document(**changes), "")[line]


def test_a_synthetic_meter_is_the_first_thing_said():
    codes = notices("zone-unknown", "meter-synthetic")
    first, second, _ = summary_lines(document(notices=codes), "")[:3]
    assert first.startswith("gramwatt: A synthetic meter was read, not hardware")
    assert "not an SCI score" in first
    assert "No grid zone was given" in second
