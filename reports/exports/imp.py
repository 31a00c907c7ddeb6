"""A job in the form of GSF's SCI self-certification (Impact Manifest Protocol, schema 1.0).

A field that the job cannot fill is null and listed under `missing`, with what to add. The form is
not signed: the person who submits it does so in their own name. `manifest` holds the SHA-256 of the
Impact Framework manifest of the same job and the totals that a run of it must reach.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import cast

from gramwatt.reports.exports.common import (
    PROVISIONAL,
    category,
    formula_text,
    kebab,
    scored_unit,
)
from gramwatt.reports.exports.impact_framework import RELATIVE_TOLERANCE, digest, expected, manifest
from gramwatt.reports.exports.yaml import Data, to_yaml
from gramwatt.sci.analysis.audit import self_audit
from gramwatt.sci.base.document import EmbodiedTermDoc, JobDoc
from gramwatt.sci.base.formatting import all_digits
from gramwatt.sci.base.quantity import QuantityDoc, sources_of
from gramwatt.sci.base.units import HOURS_PER_YEAR, h_from_s, kwh_from_j
from gramwatt.sci.journal.corrections import declared_counts
from gramwatt.sci.score.method import reason_of
from gramwatt.sci.score.sci_for_ai import rationale

SCHEMA_VERSION = "1.0.0"
SPECIFICATION = "SCI specification v1.1.0 (ISO/IEC 21031:2024)"
KEEP_RECORDS_YEARS = 3
"""How long the form asks to keep supporting records [years]."""
NAMESPACE = uuid.UUID("5f0e7a52-7d0a-5a7e-9a77-3a3f3f2d8c11")
"""Namespace of the GUIDs made from a job's id and revision (RFC 9562, version 5)."""

EMBODIED_METHOD = "M = TE x TiR/EL x RR/ToR for each device and host, use phase excluded from TE"
INTENSITY_METHOD = (
    "Each step's energy is multiplied by the intensity of that step and zone; the value here is "
    "their energy-weighted mean. Market-based instruments are not part of it."
)
RANGE_WORDS = "8 times in 10"

ASKED = {
    "submission.applicant.organization": "who submits: set the tag organization",
    "submission.applicant.contact_name": "an accountable person: set the tag contact_name",
    "submission.applicant.contact_email": "their address: set the tag contact_email",
    "submission.software.version": "version or commit: set the tag software_version",
    "submission.software.description": "what it does: set the tag software_description",
    "submission.measurement_period.end_date": "the job has not ended",
    "submission.measurement_period.submission_date": "the day you submit",
    "functional_unit.rationale": "why this unit: set the tag unit_rationale",
    "calculation.score.value": "energy, embodied carbon and R must be known",
    "calculation.energy.value": "a device's energy is not known",
    "calculation.carbon_intensity.location": "no zone is known, so the world average is used",
    "calculation.embodied_emissions.value": "embodied carbon is not known",
    "attestation.signed_by": "read the form's statements and sign them yourself",
}
"""Fields that may be null, each with what to add or the reason."""


def imp(document: JobDoc) -> str:
    """Return the form as YAML, with `missing`, `self_audit` and, where it can be made,
    `manifest`.
    """
    filled = form(document)
    filled["missing"] = _missing(filled)
    return to_yaml(filled)


def form(document: JobDoc) -> dict[str, Data]:
    """Return the form as plain data, without the list of what is missing."""
    return {
        "name": kebab(f"{document['project']}-{document['name']}-sci"),
        "description": _description(document),
        "tags": _tags(document),
        "submission": _submission(document),
        "boundary": _boundary(document),
        "functional_unit": _functional_unit(document),
        "calculation": {
            "score": _score(document),
            "energy": _energy(document),
            "carbon_intensity": _carbon_intensity(document),
            "embodied_emissions": _embodied_emissions(document),
        },
        "methodology": _methodology(document),
        "disclosure": _disclosure(document),
        "self_audit": [cast(Data, row) for row in self_audit(document)],
        "manifest": _manifest(document),
        "attestation": {"signed_by": None, "keep_records_years": KEEP_RECORDS_YEARS},
    }


def _missing(form: Mapping[str, Data]) -> list[Data]:
    """Return every field of `ASKED` that is null, and every check of the self-audit that failed."""
    rows: list[Data] = [
        {"field": path, "give": what}
        for path, what in ASKED.items()
        if _value_at(form, path) is None
    ]
    audit = form["self_audit"]
    assert isinstance(audit, list)
    rows += [
        {"field": "self_audit", "give": f"this check does not hold: {row['check']}"}
        for row in audit
        if not row["passed"]
    ]
    return rows


def _value_at(form: Data, path: str) -> Data:
    value: Data = form
    for key in path.split("."):
        value = value[key] if isinstance(value, Mapping) else None
    return value


def _description(document: JobDoc) -> str:
    ended = document["ended_at"] or "now, still running"
    return (
        f"SCI of the {document['kind']} job {document['name']} of project {document['project']}, "
        f"{document['started_at']} to {ended}, {document['method']['standard']}."
    )


def _tags(document: JobDoc) -> dict[str, Data]:
    provider = (document["region"] or "").partition(":")[0]
    optional = {"cloud_provider": provider, "region": document["region"] or document["zone"]}
    return {
        "kind": "sci",
        "category": category(document),
        "domain": document["kind"],
        **{key: value for key, value in optional.items() if value},
    }


def _submission(document: JobDoc) -> dict[str, Data]:
    tags, ended = document["tags"], document["ended_at"]
    duration = document["duration_s"]
    return {
        "applicant": {k: tags.get(k) for k in ("organization", "contact_name", "contact_email")},
        "software": {
            "name": document["model_id"] or document["project"],
            "version": tags.get("software_version"),
            "description": tags.get("software_description"),
        },
        "measurement_period": {
            "start_date": document["started_at"][:10],
            "end_date": ended[:10] if ended else None,
            "duration_hours": h_from_s(duration) if duration is not None else None,
            "submission_date": None,
        },
    }


def _boundary(document: JobDoc) -> dict[str, Data]:
    included: list[Data] = [
        {
            "component": f"{device['name']} ({device['device_id']})",
            "description": f"{device['class']} of node {device['node']}",
            "justification": "reserved for the job",
        }
        for device in document["devices"]
    ]
    return {
        "included": included,
        "excluded": [
            {
                "component": row["component"],
                "description": row["component"],
                "rationale": reason_of(row),
            }
            for row in document["method"]["exclusions"]
        ],
        "shared_infrastructure": _shared_infrastructure(document),
    }


def _functional_unit(document: JobDoc) -> dict[str, Data]:
    row = scored_unit(document)
    stated = declared_counts((c["field"], c["value"]) for c in document["corrections"])
    others: Iterable[str] = (f"{r['unit']}: {all_digits(r['count'])}" for r in document["sci"][1:])
    return {
        "unit": row["unit"],
        "unit_symbol": row["unit"],
        "rationale": rationale(row["unit"], document["kind"], document["tags"]),
        "measurement_method": "declared after the job by a person"
        if row["unit"] in stated
        else "counted by the job itself while it ran; all ranks add up",
        "total_units": row["count"],
        "conversion_factors": _conversion_factors(document),
        "also_counted": list(others),
    }


def _score(document: JobDoc) -> dict[str, Data]:
    """Return the SCI score with its formula in numbers."""
    row = scored_unit(document)
    operational, embodied = document["operational_g"], document["embodied_g"]
    formula = formula_text(
        operational and operational["value"], embodied and embodied["value"], row["count"]
    )
    return {
        **_ranged(row["g_per_unit"]),
        "unit": f"gCO2eq per {row['unit']}",
        "formula": formula,
    }


def _energy(document: JobDoc) -> dict[str, Data]:
    """E as facility energy [kWh], with IT energy by component and the PUE."""
    pue = document["method"]["pue"]
    components: list[Data] = [
        {
            "name": f"{device['name']} ({device['device_id']})",
            "energy_kwh": kwh_from_j(device["energy_j"]["value"]),
            "calculation": f"{device['energy_j']['value']:.6g} J / 3.6e6 J per kWh",
            "data_source": f"{device['meter']} ({device['energy_j']['kind']})",
        }
        for device in document["devices"]
        if device["energy_j"] is not None
    ]
    it_energy = document["energy_kwh"]
    meters = dict.fromkeys(d["meter"] for d in document["devices"] if d["energy_j"] is not None)
    return {
        "value": it_energy["value"] * pue["value"] if it_energy else None,
        "unit": "kWh",
        "methodology": "Meters read while the job ran; PUE is applied once, to the sum.",
        "it_energy_kwh": it_energy["value"] if it_energy else None,
        "pue": pue["value"],
        "pue_source": pue["source"],
        "components": components,
        "data_sources": _named(meters, "measurement", "energy of a device"),
    }


def _carbon_intensity(document: JobDoc) -> dict[str, Data]:
    """I, location-based, with signal, basis, resolution and source."""
    method = document["method"]
    figure, place = method["intensity_g_per_kwh"], document["zone"] or "world average"
    qualities = document["data_quality"]["intensity"]
    resolution = ", ".join(f"{share:.0%} {name}" for name, share in qualities.items())
    return {
        **_ranged(figure),
        "unit": "gCO2eq/kWh",
        "location": document["zone"],
        "approach": "location-based",
        "methodology": INTENSITY_METHOD,
        "signal": method["intensity_signal"],
        "basis": method["intensity_basis"],
        "resolution_by_energy": resolution or None,
        "data_sources": _named(sources_of(figure), "grid-data", f"intensity of {place}"),
        "regional_breakdown": [
            {
                "region": place,
                "percentage": 100,
                "carbon_intensity": figure["value"],
                "source": figure["source"],
            }
        ],
    }


def _embodied_emissions(document: JobDoc) -> dict[str, Data]:
    """M with TE, EL, TiR and the resource share of each device and host."""
    figure = document["embodied_g"]
    terms = document["embodied_terms"]
    sources = dict.fromkeys(source for term in terms for source in sources_of(term["te_g"]))
    return {
        **_ranged(figure),
        "unit": "gCO2eq",
        "methodology": EMBODIED_METHOD,
        "hardware_components": [_hardware(term) for term in terms],
        "data_sources": _named(sources, "database", "embodied carbon of hardware"),
    }


def _shared_infrastructure(document: JobDoc) -> list[Data]:
    """Devices and hosts of which only a part was reserved for the job."""
    return [
        {
            "component": term["label"],
            "allocation_method": "resources reserved over resources in total, for the job's time",
            "allocation_percentage": 100 * term["resources_reserved"] / term["resources_total"],
        }
        for term in document["embodied_terms"]
        if term["resources_reserved"] < term["resources_total"]
    ]


def _hardware(term: EmbodiedTermDoc) -> dict[str, Data]:
    life_h = term["lifetime_years"] * HOURS_PER_YEAR
    reserved_h = h_from_s(term["time_reserved_s"])
    share = term["resources_reserved"] / term["resources_total"]
    te = term["te_g"]
    return {
        "name": f"{term['label']} ({term['device_id']})",
        "type": term["stages"],
        "embodied_total": te["value"],
        "expected_lifespan_hours": life_h,
        "time_reserved_hours": reserved_h,
        "resource_share": share,
        "allocated_emissions": term["embodied_g"]["value"],
        "calculation": f"{te['value']:.6g} x ({reserved_h:.6g} / {life_h:.6g}) x {share:.6g}",
        "data_source": f"{te['source']} (tier {term['tier']})",
    }


def _named(names: Iterable[str], kind: str, description: str) -> list[Data]:
    """Return sources as the form lists them."""
    return [{"name": name, "type": kind, "description": description} for name in names]


def _ranged(figure: QuantityDoc | None) -> dict[str, Data]:
    if figure is None:
        return {"value": None}
    return {"value": figure["value"], "low": figure["low"], "high": figure["high"]}


def _conversion_factors(document: JobDoc) -> list[Data]:
    """Return the declared factors that convert other units to the functional unit."""
    return [
        {
            "from": row["unit"],
            "to": row["to"],
            "factor": row["factor"],
            "source": f"{row['source']}, {row['date']}",
        }
        for row in document["method"]["conversions"]
    ]


def _methodology(document: JobDoc) -> dict[str, Data]:
    """Return how the score was calculated, with assumptions, limitations and uncertainties."""
    method = document["method"]
    energy = document["data_quality"]["energy"]
    kinds = ", ".join(f"{share:.0%} {kind}" for kind, share in energy.items())
    sources = {row["what"]: row["figure"]["source"] for row in method["inputs"]}
    return {
        "approach": "hybrid",
        "measurement_details": f"Energy by how it is known: {kinds or 'nothing was read'}.",
        "calculation_details": method["formula"],
        "assumptions": _assumptions(document),
        "limitations": _limitations(document),
        "uncertainties": _uncertainties(document),
        "data_sources": [
            {"name": source, "type": "source", "description": what}
            for what, source in sources.items()
        ],
    }


def _assumptions(document: JobDoc) -> list[Data]:
    life, pue = document["method"]["lifetime_years"], document["method"]["pue"]
    declared = pue["kind"] == "declared"
    return [
        {
            "assumption": f"Hardware is used for {life['value']:g} years",
            "justification": life["source"],
            "impact": "medium",
        },
        {
            "assumption": f"PUE is {pue['value']:g}",
            "justification": pue["source"],
            "impact": "low" if declared else "medium",
        },
    ]


def _limitations(document: JobDoc) -> list[Data]:
    rows: list[Data] = [
        {"limitation": text, "severity": "medium", "mitigation": None}
        for text in document["deviations"]
    ]
    if document["provisional"]:
        rows.append({"limitation": PROVISIONAL, "severity": "medium", "mitigation": None})
    rows += [
        {"limitation": f"{notice['code']}: {notice['message']}", "severity": "low"}
        for notice in document["notices"]
    ]
    rows += [
        {"limitation": f"Not included: {text}", "severity": "low"}
        for text in document["method"]["boundary_excluded"]
    ]
    return rows


def _uncertainties(document: JobDoc) -> list[Data]:
    named = {
        "energy": document["energy_kwh"],
        "operational emissions": document["operational_g"],
        "embodied emissions": document["embodied_g"],
        "total": document["total_g"],
    }
    rows: list[Data] = [
        {
            "source": name,
            "estimated_error": f"{figure['low']:.4g} to {figure['high']:.4g} {figure['unit']}",
            "confidence_level": RANGE_WORDS,
        }
        for name, figure in named.items()
        if figure is not None
    ]
    return rows


def _disclosure(document: JobDoc) -> dict[str, Data]:
    method = document["method"]
    key = f"{document['job_id']}/{document['revision']}"
    return {
        "schema_version": SCHEMA_VERSION,
        "guid": str(uuid.uuid5(NAMESPACE, key)),
        "specification": SPECIFICATION,
        "claim": "self-declared",
        "conformance": document["conformance"],
        "deviations": list(document["deviations"]),
        "engine_version": method["engine_version"],
        "catalog_version": method["catalog_version"],
        "job_id": document["job_id"],
        "revision": document["revision"],
        "data_quality_grade": document["data_quality"]["grade"],
    }


def _manifest(document: JobDoc) -> dict[str, Data] | None:
    if document["total_g"] is None:
        return None
    text = manifest(document)
    return {
        "made_by": f"gramwatt export if {document['job_id']}",
        "sha256": digest(text),
        "runs_on": "@grnsft/if@1.1.0",
        "expected": dict(expected(document)),
        "relative_tolerance": RELATIVE_TOLERANCE,
    }
