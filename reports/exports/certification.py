"""The submission form of GSF's SCI self-certification, in its twelve parts.

Filled as far as a job or the runs of a model are known. What they do not know is left open and
named by the programme's completeness check (`completeness`), which is run on the form. Nothing is
signed. Source of the parts: Green Software Foundation, certification, the example submission
submissions/example-greentech-inventory-api (2026).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gramwatt.reports.exports.completeness import YEAR, ItemDoc, check
from gramwatt.reports.exports.imp import form as imp_form
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.formatting import all_digits
from gramwatt.sci.score.method import NOT_JUDGED

PARTS = (
    "About you and your software",
    "Measurement period and score",
    "Software boundary",
    "Functional unit (R)",
    "Energy (E)",
    "Carbon intensity (I)",
    "Embodied emissions (M)",
    "Methodology, assumptions and limitations",
    "Calculation",
    "Comparison with a baseline",
    "Supporting materials",
    "Attestation",
)
ATTESTATION = (
    "The calculation conforms to ISO/IEC 21031:2024.",
    "It was made in good faith, with methods and data that the standard allows.",
    "This is a self-certification under ISO/IEC 17050, not one by a third party.",
    "Supporting records are kept for 3 years and given on reasonable request.",
    "The submitter is responsible for accuracy, completeness and conformity.",
    "Errors that are found will be corrected promptly.",
    "GSF checks that the disclosure is complete, not that the figures are right.",
    "Certificate and badge are used as GSF allows, always with the word self-certified.",
    "False statements may lead to revocation, public notice and legal consequences.",
    "What is submitted may be published.",
)
"""What the ten points of the attestation are about, in our words."""
SUPPORTING = "a pack that recomputes every figure: gramwatt verify"
OPEN = "**missing**"


def of_job(document: JobDoc) -> dict[str, Any]:
    """The form of a job, as plain data."""
    known: Any = imp_form(document)
    calculation, unit = known["calculation"], known["functional_unit"]
    energy, score = calculation["energy"], calculation["score"]
    intensity, embodied = calculation["carbon_intensity"], calculation["embodied_emissions"]
    period = known["submission"]["measurement_period"]
    return {
        "about": _about(document, known["submission"]),
        "score": {
            "value": score["value"],
            "low": score.get("low"),
            "high": score.get("high"),
            "unit": score["unit"],
            "start_date": period["start_date"],
            "end_date": period["end_date"],
            "summary": known["description"],
        },
        "boundary": _boundary(known["boundary"]),
        "functional_unit": {
            "unit": unit["unit"],
            "rationale": unit["rationale"],
            "counting": unit["measurement_method"],
            "total": unit["total_units"],
        },
        "energy": _energy(energy),
        "intensity": _intensity(document, intensity),
        "embodied": _embodied(embodied),
        "methodology": _methodology(known["methodology"]),
        "calculation": {
            "energy_kwh": energy["value"],
            "intensity_g_per_kwh": intensity["value"],
            "embodied_g": embodied["value"],
            "total_units": unit["total_units"],
            "score": score["value"],
            "text": score["formula"],
        },
        "baseline": document["tags"].get("baseline"),
        "supporting": [SUPPORTING],
        "attestation": {
            "points": list(ATTESTATION),
            "signed_by": None,
            "organization": document["tags"].get("organization"),
            "date": None,
        },
    }


def _about(document: JobDoc, known: Any) -> dict[str, Any]:
    software = known["software"]
    return {
        **known["applicant"],
        "software_name": software["name"],
        "software_version": software["version"],
        "software_url": document["tags"].get("software_url"),
        "software_description": software["description"],
    }


def _energy(known: Any) -> dict[str, Any]:
    """E with its PUE, and the IT energy of each device."""
    return {
        "total_kwh": known["value"],
        "pue": known["pue"],
        "pue_source": known["pue_source"],
        "description": known["methodology"],
        "components": [
            {"name": c["name"], "energy_kwh": c["energy_kwh"], "source": c["data_source"]}
            for c in known["components"]
        ],
    }


def _embodied(known: Any) -> dict[str, Any]:
    """M, and the share of each device and host."""
    return {
        "total_g": known["value"],
        "reason_for_zero": None,
        "description": known["methodology"],
        "components": [
            {
                "name": c["name"],
                "allocated_g": c["allocated_emissions"],
                "allocation": c["calculation"],
                "source": c["data_source"],
            }
            for c in known["hardware_components"]
        ],
    }


def _methodology(known: Any) -> dict[str, Any]:
    return {
        "approach": known["approach"],
        "description": f"{known['measurement_details']} {known['calculation_details']}",
        "assumptions": known["assumptions"],
        "limitations": [{"limitation": row["limitation"]} for row in known["limitations"]],
        "sources": [row["name"] for row in known["data_sources"]],
    }


def _boundary(known: Any) -> dict[str, Any]:
    """Components and reasons; what nobody judged has no reason."""
    return {
        "included": [
            {
                "component": r["component"],
                "description": r["description"],
                "reason": r["justification"],
            }
            for r in known["included"]
        ],
        "excluded": [
            {
                "component": r["component"],
                "reason": None if r["rationale"] == NOT_JUDGED else r["rationale"],
            }
            for r in known["excluded"]
        ],
        "shared_infrastructure": [
            {
                "component": r["component"],
                "allocation": f"{r['allocation_percentage']:g} %: {r['allocation_method']}",
            }
            for r in known["shared_infrastructure"]
        ],
    }


def _intensity(document: JobDoc, known: Any) -> dict[str, Any]:
    """I, with the weight of each zone by energy where a job has several."""
    source = "; ".join(row["name"] for row in known["data_sources"])
    if not YEAR.search(source):  # annual values state theirs, values over time are of the job's
        source = f"{source}, {document['started_at'][:4]}"
    return {
        "g_per_kwh": known["value"],
        "location": known["location"],
        "approach": known["approach"],
        "source": source,
        "regions": [
            {
                "region": row["region"],
                "percentage": row["percentage"],
                "g_per_kwh": row["carbon_intensity"],
                "source": row["source"],
            }
            for row in known["regional_breakdown"]
        ],
    }


def as_json(form: Mapping[str, Any]) -> str:
    """The form with the completeness check as JSON."""
    whole = {"form": form, "check": check(form)}
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(form: Mapping[str, Any]) -> str:
    """The form as the twelve parts in Markdown, with the completeness check before them."""
    items = check(form)
    lines = ["# SCI self-certification: submission", "", *_checklist(items)]
    for number, title in enumerate(PARTS, 1):
        lines += ["", f"## Part {number}: {title}", "", *_part(number, form)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _checklist(items: Sequence[ItemDoc]) -> Iterator[str]:
    """The check as a list; each thing that is missing with what to give."""
    passed = sum(item["passed"] for item in items)
    yield f"Completeness check: {passed} of {len(items)} items pass."
    yield ""
    for item in items:
        yield f"- [{'x' if item['passed'] else ' '}] {item['item']}. {item['title']}"
        yield from (f"  - `{row['field']}`: {row['give']}" for row in item["missing"])


def _part(number: int, form: Mapping[str, Any]) -> Iterator[str]:
    simple = {1: "about", 2: "score", 4: "functional_unit", 9: "calculation"}
    tables = {
        3: [("boundary", name) for name in ("included", "excluded", "shared_infrastructure")],
        5: [("energy", "components")],
        6: [("intensity", "regions")],
        7: [("embodied", "components")],
        8: [("methodology", "assumptions"), ("methodology", "limitations")],
    }
    if number in simple:
        yield from _fields(form[simple[number]])
    for where, name in tables.get(number, []):
        if name == tables[number][0][1]:
            yield from _fields(form[where])
        yield from ("", f"### {name.replace('_', ' ')}", "", *_table(form[where][name]))
    if number == 10:
        yield _shown(form["baseline"] or "No baseline is stated.")
    elif number == 11:
        yield from (f"- {_shown(text)}" for text in form["supporting"])
    elif number == 12:
        yield "What its ten points are about; sign the programme's own wording, not this list."
        yield ""
        points = form["attestation"]["points"]
        yield from (f"{n}. {_shown(text)}" for n, text in enumerate(points, 1))
        yield ""
        yield from _fields(form["attestation"])


def _fields(part: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a part that are no tables."""
    for name, value in part.items():
        if not isinstance(value, list):
            yield f"- {name.replace('_', ' ')}: {_shown(value)}"
        elif name == "sources":
            yield from (f"- source: {_shown(text)}" for text in value)


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        yield "None."
        return
    yield f"| {' | '.join(name.replace('_', ' ') for name in rows[0])} |"
    yield f"|{'---|' * len(rows[0])}"
    for row in rows:
        yield f"| {' | '.join(_shown(value) for value in row.values())} |"


def _shown(value: Any) -> str:
    """A value as text that stays text in Markdown."""
    if value is None:
        return OPEN
    if isinstance(value, float):
        return all_digits(value) if abs(value) >= 1e5 else f"{value:.6g}"
    text = " ".join(str(value).split())
    for sign in "\\`*_{}[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return text
