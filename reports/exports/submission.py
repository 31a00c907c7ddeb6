"""The submission form of SCI self-certification for many runs: of a model, or of a month.

It has the fields of `certification.of_job`. A tag counts where every run has it with the same text;
where runs differ, the field is open. The score is that of the sums: sum(C) / sum(R).
"""

from __future__ import annotations

from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from gramwatt.reports.exports.certification import to_sign, with_year
from gramwatt.reports.exports.common import PROVISIONAL, formula_text
from gramwatt.reports.exports.imp import EMBODIED_METHOD
from gramwatt.sci.analysis.breakdown import hardware_of
from gramwatt.sci.analysis.documents import ModelDoc, ModelPartDoc, MonthDoc, ProjectRow
from gramwatt.sci.analysis.month import months_of
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.quantity import QuantityDoc, sources_of
from gramwatt.sci.score.method import OTHER_RUNS
from gramwatt.sci.score.sci_for_ai import BILLION_PARAMETERS, persona, rationale

TAGS = (
    "organization",
    "contact_name",
    "contact_email",
    "software_version",
    "software_url",
    "software_description",
    "baseline",
)
WORLD = "world average"
OTHER = "other"
JOB = "job"
"""The unit of a job that counted nothing."""
LESS = JOB, BILLION_PARAMETERS
"""Units that are the score's only where there is no other."""


@dataclass
class _Sums:
    """Figures of one kind of hardware: IT energy [kWh] and embodied carbon [gCO2e] of each run."""

    energy_kwh: list[float] = field(default_factory=list)
    embodied_g: list[float] = field(default_factory=list)
    meters: dict[str, None] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)


@dataclass
class _Runs:
    """What a form needs of runs, without the runs."""

    energy_kwh: list[float] = field(default_factory=list)
    facility_kwh: list[float] = field(default_factory=list)
    operational_g: list[float] = field(default_factory=list)
    embodied_g: list[float] = field(default_factory=list)
    hardware: dict[str, _Sums] = field(default_factory=lambda: defaultdict(_Sums))
    zones: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    in_zones: int = 0
    zone_sources: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    texts: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    tags: dict[str, set[str | None]] = field(default_factory=lambda: defaultdict(set))
    devices: dict[tuple[str, str], None] = field(default_factory=dict)
    excluded: dict[tuple[str, str | None], None] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    pues: set[float] = field(default_factory=set)
    lives: set[float] = field(default_factory=set)
    days: set[str] = field(default_factory=set)

    def add(self, job: JobDoc, unit: str | None, month: str | None) -> None:
        """Add a run, or its part of a month; one with an unknown term is in no sum."""
        days = job["days"] if month is None else months_of(job)[month].days
        energy, operational, embodied = (
            [known["value"] for day in days if (known := day[term]) is not None]
            for term in ("energy_kwh", "operational_g", "embodied_g")
        )
        if job["total_g"] is None or not (energy and operational and embodied):
            return
        kwh, method = fsum(energy), job["method"]
        facility = kwh * method["pue"]["value"]
        for target, amount in (
            (self.energy_kwh, kwh),
            (self.facility_kwh, facility),
            (self.operational_g, fsum(operational)),
            (self.embodied_g, fsum(embodied)),
        ):
            target.append(amount)
        zones = method["zones"] or [job["zone"] or WORLD]
        self.in_zones += len(zones) == 1
        for zone in zones:
            self.zones[zone].append((facility, fsum(operational)))
        used = [(row["zone"], row["source"]) for row in job["intensity"]]
        if len(zones) == 1:
            used = [(zones[0], text) for text in sources_of(method["intensity_g_per_kwh"])]
        for zone, source in used:
            self.zone_sources[zone][source] = None
        self.pues.add(method["pue"]["value"])
        self.lives.add(method["lifetime_years"]["value"])
        self.days |= {days[0]["day"], days[-1]["day"]}
        self._add_hardware(job, kwh, fsum(embodied))
        self._add_texts(job, unit)

    def _add_hardware(self, job: JobDoc, kwh: float, grams: float) -> None:
        sums = self.hardware[hardware_of(job)]
        sums.energy_kwh.append(kwh)
        sums.embodied_g.append(grams)
        for device in job["devices"]:
            self.devices[device["class"], device["name"]] = None
            if device["energy_j"] is not None:
                sums.meters[f"{device['meter']} ({device['energy_j']['kind']})"] = None
        for term in job["embodied_terms"]:
            sums.sources[f"{term['te_g']['source']} (tier {term['tier']})"] = None
            if term["resources_reserved"] < term["resources_total"]:
                share = 100 * term["resources_reserved"] / term["resources_total"]
                self.shares[term["label"]].append(share)

    def _add_texts(self, job: JobDoc, unit: str | None) -> None:
        method = job["method"]
        for tag in TAGS:
            self.tags[tag].add(job["tags"].get(tag))
        self.tags["rationale"].add(rationale(unit, job["kind"], job["tags"]) if unit else None)
        for name, found in (
            ("formula", [method["formula"]]),
            ("intensity", sources_of(method["intensity_g_per_kwh"])),
            ("pue", [method["pue"]["source"]]),
            ("life", [method["lifetime_years"]["source"]]),
            ("deviations", [*job["deviations"], *([PROVISIONAL] if job["provisional"] else [])]),
            ("notices", [f"{row['code']}: {row['message']}" for row in job["notices"]]),
            ("sources", [row["figure"]["source"] for row in method["inputs"]]),
        ):
            self.texts[name].update(dict.fromkeys(found))
        for row in method["exclusions"]:
            self.excluded[row["component"], row["reason"]] = None

    def tag(self, name: str) -> str | None:
        """Return what all runs say; None where one says nothing, or another thing."""
        found = self.tags[name]
        return next(iter(found)) if len(found) == 1 else None


def of_model(totals: ModelDoc, documents: Iterable[JobDoc]) -> dict[str, dict[str, Any]]:
    """Return the forms of making a model and of using it, by persona: they are never added."""
    forms = {}
    for part in totals["parts"]:
        rows = [row for row in part["sci"] if row["unit"] not in LESS] or part["sci"]
        row = rows[0] if len(rows) == 1 else None
        unit = row["unit"] if row else None
        runs = _gathered(_of_part(documents, part), unit, None)
        # All of them are in the sums.
        runs.excluded = {row: None for row in runs.excluded if row[0] != OTHER_RUNS}
        about = {"software_name": totals["model_id"]}
        limits = [] if totals["complete"] else totals["missing"]
        score = row["g_per_unit"] if row else None
        amount = row["count"] if row else None
        forms[part["persona"]] = _form(runs, unit, amount, score, about, limits)
    return forms


def of_month(month: MonthDoc, documents: Iterable[JobDoc]) -> dict[str, Any]:
    """Return the form of a month: of the only unit that is counted; of several, R and the score are
    open.

    Runs that counted nothing beside others that did are no part of it, which it says.
    """
    counted = [row for row in month["projects"] if row["unit"] != JOB]
    rows = counted or month["projects"]
    row = rows[0] if len(rows) == 1 else None
    unit = row["unit"] if row else None
    runs = _gathered(_with_unit(documents, row), unit, month["month"])
    said = month["statement"]
    about = {
        "organization": said["organisation"],
        "contact_name": said["accountable"],
        "contact_email": said["contact"],
        "software_name": month["project"] or (row and row["project"]),
    }
    out = month["totals"]["jobs"] - len(runs.energy_kwh)
    limits = [f"{out} further jobs of the month are in no figure"] if out else []
    score, amount = (row["g_per_unit"], row["count"]) if row else (None, None)
    form = _form(runs, unit, amount, score, about, limits)
    year, number = map(int, month["month"].split("-"))
    ends = f"{month['month']}-01", f"{month['month']}-{monthrange(year, number)[1]}"
    form["score"] |= {"start_date": ends[0], "end_date": ends[1]}
    return form


def _of_part(documents: Iterable[JobDoc], part: ModelPartDoc) -> Iterable[JobDoc]:
    for job in documents:
        if job["excluded"] is None and (persona(job["kind"]) or OTHER) == part["persona"]:
            yield job


def _with_unit(documents: Iterable[JobDoc], row: ProjectRow | None) -> Iterable[JobDoc]:
    for job in documents:
        if row is None or row["unit"] in (scored["unit"] for scored in job["sci"]):
            yield job


def _gathered(documents: Iterable[JobDoc], unit: str | None, month: str | None) -> _Runs:
    runs = _Runs()
    for job in documents:
        runs.add(job, unit, month)
    return runs


def _form(
    runs: _Runs,
    unit: str | None,
    amount: float | None,
    score: QuantityDoc | None,
    about: Mapping[str, str | None],
    limits: Sequence[str],
) -> dict[str, Any]:
    """Return the form of these runs, with what is known beside them."""
    known = bool(runs.energy_kwh)
    facility, embodied = fsum(runs.facility_kwh), fsum(runs.embodied_g)
    operational = fsum(runs.operational_g)
    numbers = {
        "energy_kwh": facility if known else None,
        "intensity_g_per_kwh": operational / facility if facility > 0 else None,
        "embodied_g": embodied if known else None,
        "total_units": amount,
        "score": score["value"] if score else None,
    }
    who = _about(runs, about)
    parts = {
        "about": who,
        "score": {
            "value": numbers["score"],
            "low": score["low"] if score else None,
            "high": score["high"] if score else None,
            "unit": f"gCO2eq per {unit}" if unit else None,
            "start_date": min(runs.days, default=None),
            "end_date": max(runs.days, default=None),
            "summary": f"SCI of {len(runs.energy_kwh)} runs: sum(C) / sum(R).",
        },
        "boundary": _boundary(runs),
        "functional_unit": {
            "unit": unit,
            "rationale": runs.tag("rationale"),
            "counting": "counted by the runs themselves while they ran; added up over all runs",
            "total": amount,
        },
        "energy": _energy(runs, numbers["energy_kwh"]),
        "intensity": _intensity(runs, numbers["intensity_g_per_kwh"]),
        "embodied": _embodied(runs, numbers["embodied_g"]),
        "methodology": _methodology(runs, limits),
        "calculation": {**numbers, "text": formula_text(operational, embodied, amount)},
    }
    return to_sign(parts, runs.tag("baseline"), who["organization"])


def _about(runs: _Runs, about: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return who submits what: the runs' common tags, else what is known beside them."""
    tagged = {tag: runs.tag(tag) for tag in TAGS if tag != "baseline"}
    return {**about, **{tag: text or about.get(tag) for tag, text in tagged.items()}}


def _boundary(runs: _Runs) -> dict[str, Any]:
    return {
        "included": [
            {
                "component": name,
                "description": f"{kind} of the nodes that ran them",
                "reason": "reserved for the runs",
            }
            for kind, name in runs.devices
        ],
        "excluded": [
            {"component": component, "reason": reason} for component, reason in runs.excluded
        ],
        "shared_infrastructure": [
            {"component": label, "allocation": f"{_span(shares)} %: resources reserved over total"}
            for label, shares in runs.shares.items()
        ],
    }


def _energy(runs: _Runs, total_kwh: float | None) -> dict[str, Any]:
    it_kwh = fsum(runs.energy_kwh)
    return {
        "total_kwh": total_kwh,
        "pue": total_kwh / it_kwh if total_kwh is not None and it_kwh > 0 else None,
        "pue_source": "; ".join(runs.texts["pue"]) or None,
        "description": "Meters read while the runs ran; each run's energy times its site's PUE.",
        "components": [
            {
                "name": f"runs on {name}",
                "energy_kwh": fsum(sums.energy_kwh),
                "source": "; ".join(sums.meters),
            }
            for name, sums in runs.hardware.items()
        ],
    }


def _intensity(runs: _Runs, mean: float | None) -> dict[str, Any]:
    """I as the energy-weighted mean, and each zone's share of the energy where runs have one."""
    source = _dated(runs.texts["intensity"], runs)
    whole = fsum(runs.facility_kwh)
    alone = runs.in_zones == len(runs.energy_kwh) and whole > 0
    regions = []
    for zone, parts in runs.zones.items():
        kwh, grams = (fsum(column) for column in zip(*parts, strict=True))
        regions.append(
            {
                "region": zone,
                "percentage": 100 * kwh / whole if alone else None,
                "g_per_kwh": grams / kwh if alone and kwh > 0 else None,
                "source": _dated(runs.zone_sources[zone], runs) or source,
            }
        )
    return {
        "g_per_kwh": mean,
        "location": ", ".join(runs.zones) if runs.zones and WORLD not in runs.zones else None,
        "approach": "location-based",
        "source": source or None,
        "regions": regions,
    }


def _dated(sources: Iterable[str], runs: _Runs) -> str:
    """Return sources with the year of the last run where they state none; empty for none."""
    text = "; ".join(sources)
    return with_year(text, max(runs.days)) if text else ""


def _embodied(runs: _Runs, total_g: float | None) -> dict[str, Any]:
    return {
        "total_g": total_g,
        "reason_for_zero": None,
        "description": EMBODIED_METHOD,
        "components": [
            {
                "name": f"devices and hosts of runs on {name}",
                "allocated_g": fsum(sums.embodied_g),
                "allocation": "TE x TiR/EL x RR/ToR of each run, added up",
                "source": "; ".join(sums.sources),
            }
            for name, sums in runs.hardware.items()
        ],
    }


def _methodology(runs: _Runs, limits: Sequence[str]) -> dict[str, Any]:
    formulas = " ".join(runs.texts["formula"])
    texts = [*runs.texts["deviations"], *runs.texts["notices"]]
    texts += [f"Not included: {text}" for text in runs.texts["excluded"]]
    assumed = (
        ("life", f"Hardware is used for {_span(runs.lives)} years"),
        ("pue", f"PUE is {_span(runs.pues)}"),
    )
    return {
        "approach": "hybrid",
        "description": f"The score is sum(C) / sum(R) over {len(runs.energy_kwh)} runs. {formulas}",
        "assumptions": [
            {"assumption": text, "justification": "; ".join(runs.texts[name]), "impact": "medium"}
            for name, text in assumed
            if runs.texts[name]
        ],
        "limitations": [{"limitation": text} for text in [*limits, *texts]],
        "sources": list(runs.texts["sources"]),
    }


def _span(values: Iterable[float]) -> str:
    """Return one value, or the least and the largest."""
    ends = sorted(values)
    return " to ".join(dict.fromkeys(f"{value:g}" for value in (ends[0], ends[-1]))) if ends else ""
