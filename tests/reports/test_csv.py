"""The month as CSV: every figure in full, nothing that a spreadsheet would run."""

import csv
import io

import pytest

from gramwatt.reports.csv import month_csv
from tests.documents import (
    HOSTILE,
    full_month,
    hostile_job,
    month_of,
    steady_job,
    unread_job,
)


def lines(text):
    return list(csv.DictReader(io.StringIO(text)))


def values(text, section, name=None):
    """Value by figure of one section and name."""
    rows = [row for row in lines(text) if row["section"] == section]
    return {row["figure"]: row["value"] for row in rows if name in (None, row["name"])}


def test_csv_keeps_full_precision():
    document = month_of([steady_job()])
    text = month_csv(document)
    assert text.splitlines()[0] == "section,name,figure,value,low,high,unit,kind,source"
    found = values(text, "total")
    for term in ("energy_kwh", "operational_g", "embodied_g", "total_g"):
        assert float(found[term]) == getattr(document.totals, term)["value"]
    assert float(values(text, "project", "vision/image")["count"]) == 1_281_167


def test_the_days_add_up_to_the_month():
    document = full_month()
    rows = [row for row in lines(month_csv(document)) if row["section"] == "day"]
    kwh = sum(float(row["value"]) for row in rows if row["figure"] == "energy_kwh")
    assert kwh == pytest.approx(document.totals.energy_kwh["value"])


def test_an_unknown_figure_is_left_empty():
    text = month_csv(month_of([unread_job()]))
    assert "total,2026-05,energy_kwh,,,,,unknown,\n" in text


def test_the_month_has_states_and_units():
    document = full_month()
    text = month_csv(document)
    assert values(text, "state", "killed")["jobs"] == "1.0"
    assert float(values(text, "project", "speech/second of audio")["count"]) == pytest.approx(
        sum(1_281_167 * (1 + n % 5) for n in range(1, 24, 3))
    )
    assert values(text, "conformance", "conforming") == {"jobs": "24.0"}


def test_the_months_savings_are_in_the_table():
    ends = {"value": 0.5, "low": 0.4, "high": 0.6, "unit": "1", "kind": "estimated", "source": "x"}
    saving = {"job_id": "a", "name": "n", "project": "p", "action": "share", "target": None}
    saving |= {"saved_g": {**ends, "unit": "gCO2e"}, "carbon_ratio": ends, "reason": "y"}
    saving |= {"basis": "rule", "hardware": "nvidia-l4", "work": "training"}
    text = month_csv(month_of([steady_job()], advise=lambda _: [saving]))
    assert values(text, "suggestion", "a/share") == {"saved_g": "0.5", "carbon_ratio": "0.5"}
    grouped = values(text, "advice", "nvidia-l4/training/share")
    assert grouped == {"jobs": "1.0", "saved_g": "0.5", "carbon_ratio": "0.5"}


def test_every_account_of_the_table_adds_up_to_the_total():
    document = full_month()
    text = month_csv(document)
    whole = document.totals.total_g["value"]
    for section, figure in (("component", "g"), ("ledger", "total_g"), ("chargeback", "total_g")):
        rows = [row for row in lines(text) if row["section"] == section]
        summed = sum(float(row["value"]) for row in rows if row["figure"] == figure)
        assert summed == pytest.approx(whole, rel=1e-9), section
    effects = values(text, "change")
    change = float(effects.pop("change_g"))
    assert sum(map(float, effects.values())) == pytest.approx(change, rel=1e-9)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_in_their_field(text):
    made = month_csv(month_of([hostile_job(text)]))
    sections = {"total", "project", "day", "job", "state", "conformance", "notice", "quality"}
    sections |= {"deleted", "trend", "component", "boundary", "ledger", "chargeback", "work"}
    sections |= {"model", "project_total", "method"}
    assert {row["section"] for row in lines(made)} == sections
    assert made.encode("utf-8")
