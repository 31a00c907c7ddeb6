"""The form of the SCI self-certification, and the programme's seven questions about it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from gramwatt.reports.exports.certification import PARTS, as_json, markdown, of_job
from gramwatt.reports.exports.completeness import check
from tests.documents import HOSTILE, steady_job

CCF = "Cloud Carbon Footprint, embodied emissions of the instance type"
POWER = (
    # name, W, kWh before PUE, embodied gCO2e of 744 of 35 040 h
    ("application server 1", 15, 11.160, 23_356.16),
    ("application server 2", 15, 11.160, 23_356.16),
    ("database", 22, 16.368, 29_726.03),
    ("cache", 8, 5.952, 14_863.01),
    ("load balancer", 3, 2.232, 8_493.15),
)
REFERENCE: dict[str, Any] = {
    # The figures of the programme's reference example, "Inventory Management API", in our words:
    # Green Software Foundation, certification, submissions/example-greentech-inventory-api (2026).
    "about": {
        "organization": "GreenTech Solutions Ltd",
        "contact_name": "Sarah Chen",
        "contact_email": "sarah.chen@greentechsolutions.example.com",
        "software_name": "Inventory Management API",
        "software_version": "v3.2.1 (commit e4a7f2b)",
        "software_url": "https://example.com/inventory-api",
        "software_description": "A REST API for stocks of shops, on two m5.large in us-east-1",
    },
    "score": {
        "value": 4.85,
        "low": None,
        "high": None,
        "unit": "gCO2eq per 1,000 API requests",
        "start_date": "2026-01-01",
        "end_date": "2026-01-31",
        "summary": "January 2026, 744 hours",
    },
    "boundary": {
        "included": [
            {"component": name, "description": f"{watts} W", "reason": "reserved for this API"}
            for name, watts, *_ in POWER
        ],
        "excluded": [
            {"component": "CDN", "reason": "serves documentation pages only, no API requests"},
            {"component": "clients", "reason": "run on the customers' own infrastructure"},
        ],
        "shared_infrastructure": [],
    },
    "functional_unit": {
        "unit": "1,000 API requests",
        "rationale": "a request is a stock update for a customer, and load grows with customers",
        "counting": "access logs, which agree with the load balancer within 0.3 %",
        "total": 25_000,
    },
    "energy": {
        "total_kwh": 58.046,
        "pue": 1.2,
        "pue_source": "the provider's published value",
        "description": "average power from utilisation, times hours",
        "components": [
            {"name": name, "energy_kwh": kwh, "source": "CloudWatch, CPU utilisation"}
            for name, _, kwh, _ in POWER
        ]
        + [{"name": "network", "energy_kwh": 1.5, "source": "1 500 GB at 0.001 kWh/GB"}],
    },
    "intensity": {
        "g_per_kwh": 370,
        "location": "us-east-1, Virginia",
        "approach": "location-based",
        "source": "EPA eGRID 2023, subregion SRVC",
        "regions": [],
    },
    "embodied": {
        "total_g": 99_794.52,
        "reason_for_zero": None,
        "description": "TE x TiR/EL x RR/ToR",
        "components": [
            {"name": name, "allocated_g": grams, "allocation": "744 of 35 040 h", "source": CCF}
            for name, _, _, grams in POWER
        ],
    },
    "methodology": {
        "approach": "hybrid",
        "description": "utilisation measured every five minutes, power by a linear model",
        "assumptions": [
            {"assumption": "15 W per application server", "justification": "TDP at 35 % load"}
        ],
        "limitations": [{"limitation": "no power meter on the hardware"}],
        "sources": ["CloudWatch"],
    },
    "calculation": {
        # 48.372 kWh x 1.2 = 58.046 kWh; x 370 = 21 477 g; + 99 794.52 g = 121 271.5 g; / 25 000.
        "energy_kwh": 58.046,
        "intensity_g_per_kwh": 370,
        "embodied_g": 99_794.52,
        "total_units": 25_000,
        "score": 4.85,
        "text": "(O + M) / R",
    },
    "baseline": None,
    "supporting": [],
    "attestation": {
        "points": [f"point {n} of the attestation" for n in range(1, 11)],
        "signed_by": "Sarah Chen",
        "organization": "GreenTech Solutions Ltd",
        "date": "2026-02-02",
    },
}
ITEM = {
    "about": 1,
    "boundary": 1,
    "score": 2,
    "functional_unit": 3,
    "energy": 4,
    "intensity": 4,
    "embodied": 5,
    "methodology": 6,
    "calculation": 6,
    "attestation": 7,
}
OPTIONAL = {
    "about.software_url",
    "score.low",
    "score.high",
    "score.summary",
    "energy.pue_source",
    "energy.description",
    "embodied.reason_for_zero",
    "embodied.description",
    "methodology.sources.0",
    "calculation.text",
    "baseline",
}
TODAY = date(2026, 2, 2)


def failed(form: Any, today: date | None = TODAY) -> list[int]:
    return [row["item"] for row in check(form, today) if not row["passed"]]


def leaves(value: Any, path: str = "") -> Iterator[str]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, below in inner:
        place = f"{path}.{name}".lstrip(".")
        if isinstance(below, dict | list):
            yield from leaves(below, place)
        else:
            yield place


def changed(path: str, value: Any) -> Any:
    form = copy.deepcopy(REFERENCE)
    *above, last = path.split(".")
    place = form
    for name in above:
        place = place[int(name) if isinstance(place, list) else name]
    place[int(last) if isinstance(place, list) else last] = value
    return form


def test_the_reference_example_of_the_programme_passes() -> None:
    assert failed(REFERENCE) == []


@pytest.mark.parametrize("path", sorted(set(leaves(REFERENCE)) - OPTIONAL))
def test_a_field_left_out_fails_exactly_its_item_and_is_named(path: str) -> None:
    for nothing in (None, "", "N/A"):
        if nothing is not None and not isinstance(REFERENCE[path.split(".")[0]], dict):
            continue
        form = changed(path, nothing)
        assert failed(form) == [ITEM[path.split(".")[0]]]
        fields = [row["field"] for item in check(form, TODAY) for row in item["missing"]]
        assert any(path.startswith(field) for field in fields)


@pytest.mark.parametrize("path", sorted(OPTIONAL))
def test_a_field_that_nobody_asks_for_fails_nothing(path: str) -> None:
    assert failed(changed(path, None)) == []


TWO_REGIONS = [
    {"region": "FR", "percentage": 60, "g_per_kwh": 40, "source": "Ember 2024"},
    {"region": "DE", "percentage": 30, "g_per_kwh": 350, "source": "Ember 2024"},
]


@pytest.mark.parametrize(
    ("path", "value", "item"),
    [
        ("boundary.included", [], 1),
        ("boundary.excluded.0.reason", "Out of scope.", 1),
        ("boundary.shared_infrastructure", None, 1),
        ("boundary.shared_infrastructure", [{"component": "proxy", "allocation": ""}], 1),
        ("score.unit", "gCO2eq", 2),
        ("score.start_date", "2026-02-01", 2),
        ("score.end_date", "2026-02-03", 2),
        ("score.end_date", "31 January", 2),
        ("functional_unit.rationale", "We chose API requests because we measure requests", 3),
        ("functional_unit.total", 0, 3),
        ("energy.components", [], 4),
        ("energy.pue", "n/a", 4),
        ("energy.total_kwh", -1, 4),
        ("intensity.source", "Average grid data", 4),
        ("intensity.approach", "green", 4),
        ("intensity.regions", TWO_REGIONS, 4),
        ("embodied.components", [], 5),
        ("embodied.total_g", 0, 5),
        ("methodology.approach", "guess", 6),
        ("methodology.assumptions", [], 6),
        ("methodology.limitations", [], 6),
        ("calculation.score", 4.95, 6),
        ("calculation.embodied_g", 9_979.4, 6),
        ("attestation.points", ["DECLARE"] * 9, 7),
    ],
)
def test_a_field_without_meaning_fails_exactly_its_item(path: str, value: Any, item: int) -> None:
    assert failed(changed(path, value)) == [item]


def test_what_the_reviewers_guide_lets_pass() -> None:
    assert failed(changed("energy.pue", "none: a phone in the field has no data centre")) == []
    assert failed(changed("intensity.approach", "market-based")) == []
    whole = [{**TWO_REGIONS[0], "percentage": 70}, TWO_REGIONS[1]]
    assert failed(changed("intensity.regions", whole)) == []
    nothing = changed("embodied.total_g", 0)
    nothing["embodied"] |= {
        "components": [],
        "reason_for_zero": "serverless functions: the provider discloses no hardware",
    }
    assert failed(nothing) == []
    assert failed(changed("score.end_date", "2026-02-03"), None) == []


TAGS = {
    "organization": "Example Lab",
    "contact_name": "Ada Example",
    "contact_email": "ada@example.com",
    "software_version": "1.0",
    "software_description": "trains an image classifier",
    "unit_rationale": "images are what the classifier is trained on; cost grows with them",
    "inception": "a study of two days on a laptop, below 1 % of the energy",
    "retirement": "weights are deleted, which takes no hardware",
}


def test_a_job_with_its_tags_lacks_only_the_signature() -> None:
    form = of_job(steady_job(tags=TAGS))
    items = {item["item"]: item for item in check(form, TODAY.replace(year=2027))}
    missing = {row["field"] for item in items.values() for row in item["missing"]}
    assert missing == {"attestation.signed_by", "attestation.date"}
    # 4 x 500 W + 200 W for 2 h = 4.4 kWh; x PUE 1.1 = 4.84 kWh.
    assert form["energy"]["total_kwh"] == pytest.approx(4.84, rel=1e-12)
    assert form["functional_unit"]["total"] == 1_281_167


def test_a_job_without_tags_names_each_missing_item_and_invents_nothing() -> None:
    form = of_job(steady_job())
    missing = {row["field"] for item in check(form) for row in item["missing"]}
    assert {f"about.{name}" for name in ("organization", "contact_name", "contact_email")} < missing
    assert (
        "functional_unit.rationale" not in missing or form["functional_unit"]["rationale"] is None
    )
    assert any(field.startswith("boundary.excluded.") for field in missing)  # inception, retirement
    assert form["about"]["organization"] is None


def test_the_twelve_parts_are_shown_with_what_is_missing() -> None:
    text = markdown(of_job(steady_job()))
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [f"## Part {n}: {part.title}" for n, part in enumerate(PARTS, 1)]
    assert len(PARTS) == 12
    assert "- organization: **missing**" in text
    assert "  - `about.organization`: who submits: set the tag organization" in text
    assert "- [ ] 7. Attestation" in text


def test_hostile_texts_stay_texts() -> None:
    for text in HOSTILE:
        form = of_job(steady_job(tags={"organization": text}))
        shown = markdown(form)
        assert "<script" not in shown.replace("\\<script", "")
        assert json.loads(as_json(form))["form"]["about"]["organization"] == text
