"""The form: complete by its own schema once the applicant's part is given, honest where not."""

import re

import pytest
import yaml
from jsonschema import Draft7Validator

from gramwatt.reports.exports.imp import imp
from gramwatt.reports.exports.impact_framework import digest, manifest
from gramwatt.sci.grid.zones import AnnualIntensity
from tests.documents import CATALOG, cluster_job

APPLICANT = {
    "organization": "Example Lab",
    "contact_name": "A. Person",
    "contact_email": "a.person@example.org",
    "software_version": "1.2.3",
    "software_description": "An image classifier for tests.",
}
TEXT = {"type": "string", "minLength": 1}
NUMBER = {"type": "number"}


def rows(*required, **more):
    return {
        "type": "array",
        "minItems": 1,
        "items": {"required": list(required), "properties": dict.fromkeys(required, more or TEXT)},
    }


# What schema 1.0 of the form requires, as documented by GSF in 2026.
SCHEMA = {
    "required": [
        "name",
        "description",
        "tags",
        "submission",
        "boundary",
        "functional_unit",
        "calculation",
        "methodology",
    ],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9-]{3,100}$"},
        "description": {"type": "string", "minLength": 50},
        "tags": {
            "required": ["kind", "category"],
            "properties": {
                "kind": {"const": "sci"},
                "category": {
                    "enum": [
                        "api-service",
                        "web-application",
                        "mobile-app",
                        "ml-training",
                        "ml-inference",
                        "data-processing",
                        "streaming",
                        "database",
                        "cdn",
                        "other",
                    ]
                },
            },
        },
        "submission": {
            "required": ["applicant", "software", "measurement_period"],
            "properties": {
                "applicant": {
                    "required": ["organization", "contact_name", "contact_email"],
                    "additionalProperties": TEXT,
                },
                "software": {
                    "required": ["name", "version", "description"],
                    "properties": {"description": {"type": "string", "minLength": 10}},
                    "additionalProperties": TEXT,
                },
                "measurement_period": {
                    "required": ["start_date", "end_date", "duration_hours"],
                    "properties": {
                        "start_date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
                        "end_date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
                        "duration_hours": {"type": "number", "minimum": 0},
                    },
                },
            },
        },
        "boundary": {
            "required": ["included", "excluded"],
            "properties": {
                "included": rows("component", "description", "justification"),
                "excluded": rows("component", "description", "rationale"),
            },
        },
        "functional_unit": {
            "required": ["unit", "unit_symbol", "rationale", "measurement_method", "total_units"],
            "properties": {
                "unit": TEXT,
                "rationale": TEXT,
                "measurement_method": TEXT,
                "total_units": {"type": "number", "exclusiveMinimum": 0},
            },
        },
        "calculation": {
            "required": ["score", "energy", "carbon_intensity", "embodied_emissions"],
            "properties": {
                "score": {
                    "required": ["value", "unit", "formula"],
                    "properties": {"value": NUMBER, "unit": TEXT, "formula": TEXT},
                },
                "energy": {
                    "required": ["value", "unit", "methodology", "components", "data_sources"],
                    "properties": {
                        "value": NUMBER,
                        "unit": {"const": "kWh"},
                        "pue": {"type": "number", "minimum": 1},
                        "components": rows("name", "calculation", "data_source"),
                        "data_sources": rows("name", "type"),
                    },
                },
                "carbon_intensity": {
                    "required": ["value", "unit", "location", "approach", "data_sources"],
                    "properties": {
                        "value": {"type": "number", "exclusiveMinimum": 0, "maximum": 2000},
                        "unit": {"const": "gCO2eq/kWh"},
                        "location": TEXT,
                        "approach": {"const": "location-based"},
                        "data_sources": rows("name", "type"),
                    },
                },
                "embodied_emissions": {
                    "required": [
                        "value",
                        "unit",
                        "methodology",
                        "hardware_components",
                        "data_sources",
                    ],
                    "properties": {
                        "value": {"type": "number", "minimum": 0},
                        "unit": {"const": "gCO2eq"},
                        "hardware_components": rows("name", "type", "calculation", "data_source"),
                    },
                },
            },
        },
        "methodology": {
            "required": ["approach", "assumptions", "limitations", "data_sources"],
            "properties": {
                "approach": {"enum": ["measurement", "calculation", "hybrid"]},
                "assumptions": rows("assumption", "justification", "impact"),
                "limitations": rows("limitation", "severity"),
                "data_sources": rows("name", "type", "description"),
            },
        },
    },
}


def form(**given):
    return yaml.safe_load(imp(cluster_job(**given)))


def asked(read):
    return {row["field"] for row in read["missing"]}


def test_a_form_with_an_applicant_meets_the_schema():
    read = form(tags=APPLICANT)
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(read)] == []
    # What is left is for the person who submits.
    assert asked(read) == {
        "submission.measurement_period.submission_date",
        "attestation.signed_by",
    }


def test_what_is_not_known_is_null_and_listed():
    read = form(units=("page",), kind="training")
    assert read["submission"]["applicant"]["organization"] is None
    assert {f"submission.applicant.{k}" for k in ("organization", "contact_name")} <= asked(read)
    assert all(row["give"] for row in read["missing"])


def test_numbers_agree_with_each_other():
    read = form(nodes=("n-a", "n-b"))
    calculation = read["calculation"]
    energy, embodied = calculation["energy"], calculation["embodied_emissions"]
    parts = sum(row["energy_kwh"] for row in energy["components"])
    assert parts * energy["pue"] == pytest.approx(energy["value"], rel=1e-9)
    allocated = sum(row["allocated_emissions"] for row in embodied["hardware_components"])
    assert allocated == pytest.approx(embodied["value"], rel=1e-9)
    for row in embodied["hardware_components"]:
        by_hand = row["embodied_total"] * row["time_reserved_hours"] * row["resource_share"]
        by_hand /= row["expected_lifespan_hours"]
        assert row["allocated_emissions"] == pytest.approx(by_hand, rel=1e-9)
    carbon = energy["value"] * calculation["carbon_intensity"]["value"] + embodied["value"]
    units = read["functional_unit"]["total_units"]
    assert calculation["score"]["value"] == pytest.approx(carbon / units, rel=1e-9)
    assert all(row["passed"] for row in read["self_audit"])


def test_the_printed_formula_has_the_numbers():
    doc = cluster_job()
    formula = form()["calculation"]["score"]["formula"]
    o, m, r = map(
        float, re.findall(r"[\d.]+(?:e[+-]\d+)?", formula.partition("= ")[2].partition("= ")[2])
    )
    assert o == pytest.approx(doc["operational_g"]["value"], rel=1e-5)
    assert (o + m) / r == pytest.approx(doc["sci"][0]["g_per_unit"]["value"], rel=1e-4)


def test_the_manifest_beside_it_is_named_by_its_hash():
    doc = cluster_job()
    assert form()["manifest"]["sha256"] == digest(manifest(doc))
    assert form()["manifest"]["expected"]["carbon"] == doc["total_g"]["value"]


def test_an_unknown_zone_is_asked_for():
    read = yaml.safe_load(imp(cluster_job(zone=None, intensity=AnnualIntensity(CATALOG))))
    assert read["disclosure"]["conformance"] == "not-sci"
    assert "calculation.carbon_intensity.location" in asked(read)


def test_a_job_without_energy_gets_a_form_that_says_so():
    doc = cluster_job()
    doc |= {"energy_kwh": None, "operational_g": None, "total_g": None}
    doc["sci"] = [{**row, "g_per_unit": None} for row in doc["sci"]]
    read = yaml.safe_load(imp(doc))
    assert {"calculation.energy.value", "calculation.score.value", "self_audit"} <= asked(read)
    assert read["manifest"] is None


def test_nothing_is_signed_or_called_certified():
    text = imp(cluster_job(tags=APPLICANT))
    assert "certified" not in text.lower()
    assert yaml.safe_load(text)["attestation"]["signed_by"] is None


def test_a_unit_of_ones_own_needs_a_reason():
    doc = cluster_job(tags=APPLICANT)
    doc["sci"][0] = {**doc["sci"][0], "unit": "widget"}
    assert "functional_unit.rationale" in asked(yaml.safe_load(imp(doc)))
    doc["tags"] = {**APPLICANT, "unit_rationale": "Widgets are what users get."}
    assert "functional_unit.rationale" not in asked(yaml.safe_load(imp(doc)))
