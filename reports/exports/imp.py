"""A job in the form of GSF's SCI self-certification (Impact Manifest Protocol, schema 1.0).

Whatever the job does not know is null and listed under `missing` with what to give; nothing is
invented and nothing is signed. People who submit the form do so in their own name. The manifest
beside it (`export if`) is named by its hash, with the totals that a run of it must reach.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from gramwatt.reports.exports.common import category, kebab, scored_unit
from gramwatt.reports.exports.imp_terms import (
    carbon_intensity,
    embodied_emissions,
    energy,
    score,
    shared_infrastructure,
)
from gramwatt.reports.exports.imp_words import conversion_factors, methodology, unit_rationale
from gramwatt.reports.exports.impact_framework import RELATIVE_TOLERANCE, digest, expected, manifest
from gramwatt.reports.exports.yaml import Data, to_yaml
from gramwatt.sci.analysis.audit import AuditDoc, self_audit
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.units import h_from_s

SCHEMA_VERSION = "1.0.0"
SPECIFICATION = "SCI specification v1.1.0 (ISO/IEC 21031:2024)"
KEEP_RECORDS_YEARS = 3
"""How long the form asks that supporting records be kept."""
NAMESPACE = uuid.UUID("5f0e7a52-7d0a-5a7e-9a77-3a3f3f2d8c11")
"""Name space of the GUIDs made from a job's id and revision."""

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
    "calculation.carbon_intensity.location": "no zone is known, so the world average stands in",
    "calculation.embodied_emissions.value": "embodied carbon is not known",
    "attestation.signed_by": "read the form's statements and sign them yourself",
}
"""Fields that a job cannot always fill, with what to do about each."""


def imp(document: JobDoc) -> str:
    """The form as YAML, with `missing`, `self_audit` and, where it can be made, `manifest`."""
    form = imp_data(document)
    form["missing"] = missing(form)
    return to_yaml(form)


def imp_data(document: JobDoc) -> dict[str, Data]:
    """The form as plain data, before the list of what is missing."""
    return {
        "name": kebab(f"{document['project']}-{document['name']}-sci"),
        "description": _description(document),
        "tags": _tags(document),
        "submission": _submission(document),
        "boundary": _boundary(document),
        "functional_unit": _functional_unit(document),
        "calculation": {
            "score": score(document),
            "energy": energy(document),
            "carbon_intensity": carbon_intensity(document),
            "embodied_emissions": embodied_emissions(document),
        },
        "methodology": methodology(document),
        "disclosure": _disclosure(document),
        "self_audit": [_check(row) for row in self_audit(document)],
        "manifest": _manifest(document),
        "attestation": {"signed_by": None, "keep_records_years": KEEP_RECORDS_YEARS},
    }


def missing(form: Mapping[str, Data]) -> list[Data]:
    """Every asked field that is null, with what to give, and every check that failed."""
    rows: list[Data] = [
        {"field": path, "give": what} for path, what in ASKED.items() if _at(form, path) is None
    ]
    audit = form["self_audit"]
    assert isinstance(audit, list)
    rows += [
        {"field": "self_audit", "give": f"this check does not hold: {row['check']}"}
        for row in audit
        if not row["passed"]
    ]
    return rows


def _at(form: Data, path: str) -> Data:
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
    excluded: list[Data] = []
    for text in document["method"]["boundary_excluded"]:
        component, _, rationale = text.partition(": ")
        row = {"component": component, "description": component, "rationale": rationale or None}
        excluded.append(row)
    return {
        "included": included,
        "excluded": excluded,
        "shared_infrastructure": shared_infrastructure(document),
    }


def _functional_unit(document: JobDoc) -> dict[str, Data]:
    row = scored_unit(document)
    others: Iterable[str] = (f"{r['unit']}: {r['count']:g}" for r in document["sci"][1:])
    return {
        "unit": row["unit"],
        "unit_symbol": row["unit"],
        "rationale": unit_rationale(document),
        "measurement_method": "counted by the job itself while it ran; all ranks add up",
        "total_units": row["count"],
        "conversion_factors": conversion_factors(document),
        "also_counted": list(others),
    }


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


def _check(row: AuditDoc) -> dict[str, Data]:
    return {
        "check": row["check"],
        "expected": row["expected"],
        "found": row["found"],
        "limit": row["limit"],
        "passed": row["passed"],
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
