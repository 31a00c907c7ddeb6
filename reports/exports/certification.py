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
from dataclasses import dataclass
from typing import Any

from gramwatt.reports.exports.completeness import YEAR, ItemDoc, check
from gramwatt.reports.exports.imp import form as imp_form
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.formatting import all_digits
from gramwatt.sci.score.method import NOT_JUDGED


@dataclass(frozen=True)
class Part:
    """A part of the form: its title, where its answers stand, and those that are tables."""

    title: str
    key: str
    tables: tuple[str, ...] = ()


PARTS = (
    Part("About you and your software", "about"),
    Part("Measurement period and score", "score"),
    Part("Software boundary", "boundary", ("included", "excluded", "shared_infrastructure")),
    Part("Functional unit (R)", "functional_unit"),
    Part("Energy (E)", "energy", ("components",)),
    Part("Carbon intensity (I)", "intensity", ("regions",)),
    Part("Embodied emissions (M)", "embodied", ("components",)),
    Part("Methodology, assumptions and limitations", "methodology", ("assumptions", "limitations")),
    Part("Calculation", "calculation"),
    Part("Comparison with a baseline", "baseline"),
    Part("Supporting materials", "supporting"),
    Part("Attestation", "attestation"),
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
TERMS = {
    "energy_kwh": "energy",
    "intensity_g_per_kwh": "carbon_intensity",
    "embodied_g": "embodied_emissions",
}
"""The terms of the calculation, as `imp.form` calls them."""


def of_job(document: JobDoc) -> dict[str, Any]:
    """Return the form of a job, as plain data: the answers of `imp.form` under this form's names.

    Raises what `imp.form` raises.
    """
    known: Any = imp_form(document)
    sent, score = known["submission"], known["calculation"]["score"]
    period, tags = sent["measurement_period"], document["tags"]
    parts = {
        "about": {
            **sent["applicant"],
            **_renamed(sent["software"], software_name="name", software_version="version"),
            "software_url": tags.get("software_url"),
            "software_description": sent["software"]["description"],
        },
        "score": {
            **_renamed(score, value="value", low="low", high="high", unit="unit"),
            **_renamed(period, start_date="start_date", end_date="end_date"),
            "summary": known["description"],
        },
        "boundary": _boundary(known["boundary"]),
        "functional_unit": _renamed(
            known["functional_unit"],
            unit="unit",
            rationale="rationale",
            counting="measurement_method",
            total="total_units",
        ),
        **_terms(known["calculation"], document["started_at"]),
        "methodology": _methodology(known["methodology"]),
        "calculation": {
            **{name: known["calculation"][term]["value"] for name, term in TERMS.items()},
            "total_units": known["functional_unit"]["total_units"],
            "score": score["value"],
            "text": score["formula"],
        },
    }
    return to_sign(parts, tags.get("baseline"), tags.get("organization"))


def to_sign(parts: Mapping[str, Any], baseline: str | None, signer: str | None) -> dict[str, Any]:
    """Return the form of these nine parts with the last three, which nobody has signed."""
    attestation = {
        "points": list(ATTESTATION),
        "signed_by": None,
        "organization": signer,
        "date": None,
    }
    last = {"baseline": baseline, "supporting": [SUPPORTING], "attestation": attestation}
    return {**parts, **last}


def with_year(source: str, day: str) -> str:
    """Return a source of intensities with the day's year, unless it states one itself.

    Annual values state theirs; values over time are of the job's time.
    """
    return source if YEAR.search(source) else f"{source}, {day[:4]}"


def _terms(known: Any, day: str) -> dict[str, Any]:
    """Return E, I and M, each with its rows: devices, zones by energy, devices and hosts."""
    energy, grid, embodied = (known[term] for term in TERMS.values())
    summed = {"pue": "pue", "pue_source": "pue_source", "description": "methodology"}
    metered = {"name": "name", "energy_kwh": "energy_kwh", "source": "data_source"}
    regions = {"region": "region", "percentage": "percentage", "g_per_kwh": "carbon_intensity"}
    shares = {"allocated_g": "allocated_emissions", "allocation": "calculation"}
    return {
        "energy": {
            **_renamed(energy, total_kwh="value", **summed),
            "components": _rows(energy["components"], **metered),
        },
        "intensity": {
            **_renamed(grid, g_per_kwh="value", location="location", approach="approach"),
            "source": with_year("; ".join(row["name"] for row in grid["data_sources"]), day),
            "regions": _rows(grid["regional_breakdown"], **regions, source="source"),
        },
        "embodied": {
            "total_g": embodied["value"],
            "reason_for_zero": None,
            "description": embodied["methodology"],
            "components": _rows(
                embodied["hardware_components"], name="name", **shares, source="data_source"
            ),
        },
    }


def _methodology(known: Any) -> dict[str, Any]:
    return {
        "approach": known["approach"],
        "description": f"{known['measurement_details']} {known['calculation_details']}",
        "assumptions": known["assumptions"],
        "limitations": _rows(known["limitations"], limitation="limitation"),
        "sources": [row["name"] for row in known["data_sources"]],
    }


def _boundary(known: Any) -> dict[str, Any]:
    """Return components and reasons; what nobody judged has no reason."""
    columns = {"component": "component", "description": "description", "reason": "justification"}
    excluded = _rows(known["excluded"], component="component", reason="rationale")
    for row in excluded:
        row["reason"] = None if row["reason"] == NOT_JUDGED else row["reason"]
    return {
        "included": _rows(known["included"], **columns),
        "excluded": excluded,
        "shared_infrastructure": [
            {
                "component": r["component"],
                "allocation": f"{r['allocation_percentage']:g} %: {r['allocation_method']}",
            }
            for r in known["shared_infrastructure"]
        ],
    }


def _renamed(known: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Return the values of a part under our names; None where the part does not have one."""
    return {ours: known.get(theirs) for ours, theirs in names.items()}


def _rows(rows: Sequence[Mapping[str, Any]], **names: str) -> list[dict[str, Any]]:
    return [_renamed(row, **names) for row in rows]


def as_json(form: Mapping[str, Any]) -> str:
    """Return the form with the completeness check as JSON."""
    whole = {"form": form, "check": check(form)}
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(form: Mapping[str, Any]) -> str:
    """Return the form as the twelve parts in Markdown, with the completeness check before them."""
    items = check(form)
    lines = ["# SCI self-certification: submission", "", *_checklist(items)]
    for number, part in enumerate(PARTS, 1):
        lines += ["", f"## Part {number}: {part.title}", "", *_part(part, form)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _checklist(items: Sequence[ItemDoc]) -> Iterator[str]:
    """Yield the check as a list; each thing that is missing with what to give."""
    passed = sum(item["passed"] for item in items)
    yield f"Completeness check: {passed} of {len(items)} items pass."
    yield ""
    for item in items:
        yield f"- [{'x' if item['passed'] else ' '}] {item['item']}. {item['title']}"
        yield from (f"  - `{row['field']}`: {row['give']}" for row in item["missing"])


def _part(part: Part, form: Mapping[str, Any]) -> Iterator[str]:
    answers = form[part.key]
    if isinstance(answers, list):
        yield from (f"- {_shown(text)}" for text in answers)
    elif not isinstance(answers, Mapping):
        yield _shown(answers or "No baseline is stated.")
    else:
        if "points" in answers:
            yield "What its ten points are about; sign the programme's own wording, not this list."
            yield ""
            yield from (f"{n}. {_shown(text)}" for n, text in enumerate(answers["points"], 1))
            yield ""
        yield from _fields(answers)
        for name in part.tables:
            yield from ("", f"### {name.replace('_', ' ')}", "", *_table(answers[name]))


def _fields(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a part that are no tables."""
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
    """Return a value as text that stays text in Markdown."""
    if value is None:
        return OPEN
    if isinstance(value, float):
        return all_digits(value) if abs(value) >= 1e5 else f"{value:.6g}"
    text = " ".join(str(value).split())
    for sign in "\\`*_{}[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return text
