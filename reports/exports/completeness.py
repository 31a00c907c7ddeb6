"""The completeness check of GSF's SCI self-certification, run on a filled form.

The programme's reviewers ask seven questions of a submission; each here is a list of fields that
must be there and be specific. They judge whether a disclosure is complete, not whether its
arithmetic is right, except that the calculation shown must give the score. Source: Green Software
Foundation, repository certification, reviewer guide (2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, TypedDict

ITEMS = (
    "Identity and scope",
    "Score and period",
    "Functional unit (R)",
    "Energy and carbon intensity (E, I)",
    "Embodied emissions (M)",
    "Methodology and transparency",
    "Attestation",
)
ATTESTATIONS = 10
"""Points of the attestation that the person who submits makes."""
SCORE_TOLERANCE = 0.01
PERCENT_TOLERANCE = 0.1
APPROACHES = ("location-based", "market-based")
WAYS = ("measurement", "calculation", "hybrid")
VAGUE = (
    "",
    "n/a",
    "na",
    "none",
    "not included",
    "out of scope",
    "not applicable",
    "unknown",
    "tbd",
)
YEAR = re.compile(r"\b(19|20)\d\d\b")
"""A year in the name of a source."""
_WORD = re.compile(r"[a-z0-9]+")
_FILLER = frozenset(
    _WORD.findall(
        "a an and are as because by choose chose chosen for in is it measure measured of our per "
        "so that the this to unit units use used was we"
    )
)
"""Words that give no reason."""
Form = Mapping[str, Any]
Missing = tuple[str, str]
"""A field, and what to give."""


class ItemDoc(TypedDict):
    """One item of the check: whether it passes, and what is missing."""

    item: int
    title: str
    passed: bool
    missing: list[dict[str, str]]


def check(form: Form, today: date | None = None) -> list[ItemDoc]:
    """Return the seven items for a form of `certification`; without `today` its end may be any
    day.
    """
    found: list[Callable[[], Iterator[Missing]]] = [
        lambda: _identity(form),
        lambda: _score(form, today),
        lambda: _functional_unit(form["functional_unit"]),
        lambda: _energy_and_intensity(form),
        lambda: _embodied(form["embodied"]),
        lambda: _methodology(form),
        lambda: _attestation(form["attestation"]),
    ]
    rows: list[ItemDoc] = []
    for number, (title, ask) in enumerate(zip(ITEMS, found, strict=True), 1):
        missing = [{"field": name, "give": what} for name, what in ask()]
        rows.append({"item": number, "title": title, "passed": not missing, "missing": missing})
    return rows


def _identity(form: Form) -> Iterator[Missing]:
    wanted = {
        "organization": "who submits: set the tag organization",
        "contact_name": "an accountable person: set the tag contact_name",
        "contact_email": "their address: set the tag contact_email",
        "software_name": "the name of the software",
        "software_version": "version or commit: set the tag software_version",
        "software_description": "what it does: set the tag software_description",
    }
    yield from _texts("about", form["about"], wanted)
    boundary = form["boundary"]
    columns = {"component": "its name", "description": "what it is", "reason": "why it is included"}
    yield from _rows("boundary.included", boundary["included"], columns)
    reason = {"component": "its name", "reason": "why this system leaves it out"}
    yield from _rows("boundary.excluded", boundary["excluded"], reason)
    shares = boundary["shared_infrastructure"]
    if shares is None:
        yield "boundary.shared_infrastructure", "how shared parts are allocated, or an empty list"
    elif shares:
        columns = {"component": "its name", "allocation": "how its share is found"}
        yield from _rows("boundary.shared_infrastructure", shares, columns)


def _score(form: Form, today: date | None) -> Iterator[Missing]:
    part = form["score"]
    if not _is_number(part["value"]):
        yield "score.value", "the score: energy, embodied carbon and R must be known"
    unit = form["functional_unit"]["unit"]
    if _is_vague(part["unit"]) or (not _is_vague(unit) and unit not in part["unit"]):
        yield "score.unit", "gCO2eq per functional unit"
    days = [_day(part[name]) for name in ("start_date", "end_date")]
    for name, day in zip(("start_date", "end_date"), days, strict=True):
        if day is None:
            yield f"score.{name}", "a day as YYYY-MM-DD"
    start, end = days
    if start and end and start > end:
        yield "score.end_date", "a day that does not come before the start"
    if end and today and end > today:
        yield "score.end_date", "a day that has passed"


def _functional_unit(part: Form) -> Iterator[Missing]:
    yield from _texts("functional_unit", part, {"unit": "R", "counting": "how R was counted"})
    if _is_vague(part["rationale"]) or _is_circular(part["rationale"], part["unit"] or ""):
        text = "why this unit is what the work delivers: set the tag unit_rationale"
        yield "functional_unit.rationale", text
    if not _is_number(part["total"], above=True):
        yield "functional_unit.total", "how many units the period has"


def _energy_and_intensity(form: Form) -> Iterator[Missing]:
    energy, intensity = form["energy"], form["intensity"]
    if not _is_number(energy["total_kwh"]):
        yield "energy.total_kwh", "the energy of every device"
    pue = energy["pue"]
    if not (_is_number(pue, above=True) or (isinstance(pue, str) and _is_reasoned(pue))):
        yield "energy.pue", "the PUE, or why none applies"
    yield from _rows("energy.components", energy["components"], {"name": "", "source": "its meter"})
    yield from _numbers("energy.components", energy["components"], "energy_kwh", "its energy")
    if not _is_number(intensity["g_per_kwh"]):
        yield "intensity.g_per_kwh", "the carbon intensity of the electricity"
    yield from _texts("intensity", intensity, {"location": "the grid's zone: set the zone"})
    if intensity["approach"] not in APPROACHES:
        yield "intensity.approach", "location-based"
    if _is_vague(intensity["source"]) or not YEAR.search(intensity["source"]):
        yield "intensity.source", "the source of the intensity, with its year"
    yield from _regions(intensity["regions"])


def _regions(regions: Sequence[Form]) -> Iterator[Missing]:
    """Weights of regions, where there are several: each with its figure, in all 100 %."""
    if len(regions) < 2:
        return
    columns = {"region": "its name", "source": "its source"}
    yield from _rows("intensity.regions", regions, columns)
    yield from _numbers("intensity.regions", regions, "g_per_kwh", "its intensity")
    shares = [row["percentage"] for row in regions]
    if not all(map(_is_number, shares)) or abs(sum(shares) - 100) > PERCENT_TOLERANCE:
        yield "intensity.regions", "weights by energy that add up to 100 %"


def _embodied(part: Form) -> Iterator[Missing]:
    if not _is_number(part["total_g"]):
        yield "embodied.total_g", "the embodied carbon of every device"
    elif part["total_g"] == 0:
        if not _is_reasoned(part["reason_for_zero"]):
            yield "embodied.reason_for_zero", "why no hardware is counted"
        return
    columns = {"name": "", "source": "its source", "allocation": "how its share is found"}
    yield from _rows("embodied.components", part["components"], columns)
    yield from _numbers("embodied.components", part["components"], "allocated_g", "its share")


def _methodology(form: Form) -> Iterator[Missing]:
    part = form["methodology"]
    if part["approach"] not in WAYS:
        yield "methodology.approach", "measurement, calculation or hybrid"
    yield from _texts("methodology", part, {"description": "how the score was calculated"})
    columns = {"assumption": "a specific assumption", "justification": "its reason"}
    yield from _rows("methodology.assumptions", part["assumptions"], columns)
    yield from _rows("methodology.limitations", part["limitations"], {"limitation": "a limitation"})
    numbers = form["calculation"]
    names = ("energy_kwh", "intensity_g_per_kwh", "embodied_g", "total_units", "score")
    unknown = [name for name in names if not _is_number(numbers[name])]
    yield from ((f"calculation.{name}", "the number in the formula") for name in unknown)
    if unknown or not numbers["total_units"]:
        return
    operational = numbers["energy_kwh"] * numbers["intensity_g_per_kwh"]
    made = (operational + numbers["embodied_g"]) / numbers["total_units"]
    stated = form["score"]["value"]
    both = [numbers["score"], *([stated] if _is_number(stated) else [])]
    if any(abs(made - value) > SCORE_TOLERANCE * abs(value) for value in both):
        yield "calculation.score", f"(E x I + M) / R gives {made:.6g}, not the stated score"


def _attestation(part: Form) -> Iterator[Missing]:
    points = part["points"]
    if len(points) != ATTESTATIONS or any(map(_is_vague, points)):
        yield "attestation.points", f"all {ATTESTATIONS} points of the programme's attestation"
    for name in ("signed_by", "organization"):
        if _is_vague(part[name]):
            yield f"attestation.{name}", "read the attestation and sign it yourself"
    if _day(part["date"]) is None:
        yield "attestation.date", "the day of the signature"


def _texts(where: str, part: Form, wanted: Mapping[str, str]) -> Iterator[Missing]:
    yield from ((f"{where}.{name}", what) for name, what in wanted.items() if _is_vague(part[name]))


def _rows(where: str, rows: Sequence[Form], columns: Mapping[str, str]) -> Iterator[Missing]:
    """Yield what is missing: each row must have each column, and there must be a row."""
    if not rows:
        yield where, "at least one row"
    for number, row in enumerate(rows):
        for name, what in columns.items():
            if _is_vague(row[name]):
                yield f"{where}.{number}.{name}", what or "its name"


def _numbers(where: str, rows: Sequence[Form], column: str, what: str) -> Iterator[Missing]:
    for number, row in enumerate(rows):
        if not _is_number(row[column]):
            yield f"{where}.{number}.{column}", what


def _is_vague(text: Any) -> bool:
    return not isinstance(text, str) or text.strip().strip(".").lower() in VAGUE


def _is_reasoned(text: Any) -> bool:
    """Return whether a text says more than that something does not apply."""
    return isinstance(text, str) and len(set(_WORD.findall(text.lower())) - _FILLER) >= 4


def _is_circular(rationale: str, unit: str) -> bool:
    """Return whether a reason for a unit says little but the unit's own words."""
    own = {stem for word in _WORD.findall(unit.lower()) for stem in (word, word.rstrip("s"))}
    words = {word for word in _WORD.findall(rationale.lower()) if word.rstrip("s") not in own}
    return len(words - _FILLER) < 3


def _is_number(value: Any, *, above: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value > 0 if above else value >= 0


def _day(text: Any) -> date | None:
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        return None
