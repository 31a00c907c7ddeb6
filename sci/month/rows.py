"""What a scored job adds to each of its months, as rows of plain tables.

A row of `job_months` has the figures of a job in a month, one of `month_effects` says how far one
input moves them. So the sums of a month are GROUP BY, on SQLite, PostgreSQL, DuckDB or Spark
(`service/months/statements.py`), and their ranges those of `sci/figures/quantity.py`: an input that
jobs share counts once.

A change is absolute, in the unit of its figure, so that the changes of jobs add up. Inputs of one
job alone are folded into one, whose changes stand in `job_months` as `own`: of several jobs their
squares add up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from hashlib import blake2b
from typing import Any
from zoneinfo import ZoneInfo

from gramwatt.sci.figures.days import DAY, midnight, month_span
from gramwatt.sci.figures.document import DayDoc, IntensityUsedDoc, JobDoc
from gramwatt.sci.figures.errors import QuantityError
from gramwatt.sci.figures.quantity import KINDS, Effect, Quantity, ends_of, kind_of_sum
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.month.breakdown import breakdown, components, hardware_of
from gramwatt.sci.month.columns import ENDS, JOB_TERMS, QUALITIES, TABLES, TERMS, TIERS, TRAITS
from gramwatt.sci.month.compare import is_synthetic
from gramwatt.sci.month.model_totals import OTHER, SWEEP
from gramwatt.sci.month.month import Part, months_of
from gramwatt.sci.records.records import ACCELERATORS
from gramwatt.sci.score.sci_for_ai import persona

Row = dict[str, Any]
"""A row of a table by column."""

IDLE_LEAST = 0.1
"""Fraction of a job's carbon from which on its idle time counts as wasted: each job starts."""
MOST = 1e100
"""A figure or count beyond this is not a job's: the sum of many would not be finite."""


def rows_of(job: JobDoc, work: str | None) -> dict[str, list[Row]]:
    """Return the rows of a job by table, over all its months; `work` is the class of its work.

    An excluded job has rows of `job_months` alone, without a figure. Raises QuantityError for
    figures that no sum can hold.
    """
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    method, texts = _method(job)
    rows["month_methods"], rows["month_method_texts"] = [method], texts
    for month, part in months_of(job).items():
        of_job = {"month": month, "project": job.project, "job_id": job.job_id}
        row = {**of_job, **_attributes(job, work, method["method"]), **_figures(job, part)}
        row["traits"] = number_of([row[name] for name in TRAITS] + [row["total_g"] is None])
        rows["job_months"].append(row)
        if job.excluded is not None:
            row |= _without_figures()
            continue
        shared = {**of_job, "traits": row["traits"]}
        rows["month_effects"] += [{**shared, **effect} for effect in _effects(job, part)]
        rows["month_days"] += [{**of_job, **day} for day in _days(job, part)]
        rows["month_counts"] += [
            {**shared, "unit": unit, "amount": part.count(unit)} for unit in _units(job)
        ]
        rows["month_components"] += [{**of_job, **of} for of in _components(job, part)]
        rows["month_factors"] += [{**shared, **factor} for factor in _factors(job, part)]
    _require_finite(rows)
    return rows


def _require_finite(rows: Mapping[str, Iterable[Row]]) -> None:
    for row in (row for of_table in rows.values() for row in of_table):
        for value in row.values():
            if isinstance(value, float) and not abs(value) <= MOST:
                raise QuantityError(f"a figure of {value:g} is beyond what months can add")


def number_of(values: Collection[Any]) -> int:
    """Return 63 bits that differ for other values, but for one pair in 10^18."""
    text = json.dumps(list(values), separators=(",", ":"))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _units(job: JobDoc) -> list[str]:
    return list(dict.fromkeys(row.unit for row in job.sci))


def _method(job: JobDoc) -> tuple[Row, list[Row]]:
    """Return by what a job is scored, with its number, and the texts that belong to it."""
    method, life = job.method, job.method.lifetime_years
    kinds = {
        f"{name}_kind": figure.kind if figure else ""
        for name, figure in (
            ("operational", job.operational_g),
            ("embodied", job.embodied_g),
            ("pue", method.pue),
        )
    }
    row = {
        "engine_version": method.engine_version,
        "catalog_version": method.catalog_version,
        "intensity_signal": method.intensity_signal,
        "intensity_basis": method.intensity_basis,
        "time_zone": method.time_zone,
        "supply": method.supply,
        "lifetime_years": life.value,
        "lifetime_years_low": life.low,
        "lifetime_years_high": life.high,
        "lifetime_kind": life.kind,
        "lifetime_source": life.source,
        **kinds,
    }
    texts = {
        "energy": list(job.energy_kwh.sources) if job.energy_kwh else [],
        "operational": list(job.operational_g.sources) if job.operational_g else [],
        "embodied": list(job.embodied_g.sources) if job.embodied_g else [],
        "pue": [of.figure.source for of in method.inputs if of.symbol == "PUE"],
        "source": [source for of in method.inputs for source in of.figure.sources],
        "zone": method.zones,
        "excluded": method.boundary_excluded,
        "notice": [notice.code for notice in job.notices],
    }
    pairs = sorted({(what, text) for what, several in texts.items() for text in several})
    number = number_of([*row.values(), *pairs])
    rows = [{"method": number, "what": what, "text": text} for what, text in pairs]
    return {"method": number, **row}, rows


def _attributes(job: JobDoc, work: str | None, method: int) -> Row:
    return {
        "method": method,
        "revision": job.revision,
        "name": job.name,
        "model_id": job.model_id,
        "persona": persona(job.kind) or OTHER,
        "kind": job.kind,
        "state": job.state,
        "owner": job.tags.get("user", ""),
        "hardware": hardware_of(job),
        "work": work or job.kind,
        "region": job.region,
        "units": ",".join(_units(job)),
        "conformance": job.conformance,
        "grade": job.data_quality.grade,
        "excluded": job.excluded,
        "sweep": int(SWEEP in job.tags),
        "synthetic": int(is_synthetic(job)),
        "provisional": int(job.provisional),
    }


def _figures(job: JobDoc, part: Part) -> Row:
    """Return the figures of a job in a month."""
    row: Row = {"ended": int(part.ended), "duration_s": job.duration_s, **_hours(job, part)}
    for term, figure in _terms(job, part).items():
        low, high = _own(figure, job.job_id) if figure else (0.0, 0.0)
        row |= _ends(term, figure)
        row[f"{term}_own_low"] = figure.value * math.expm1(low) if figure else 0.0
        row[f"{term}_own_high"] = figure.value * math.expm1(high) if figure else 0.0
    row |= _ends("total_g", part.sums.total_g)
    energy_kwh, operational_g, embodied_g = (row[term] or 0.0 for term in JOB_TERMS)
    for kind, fraction in _kinds(job, part).items():
        row[f"energy_kwh_{kind}"] = fraction * energy_kwh
    for quality in QUALITIES:
        row[f"intensity_kwh_{quality}"] = job.data_quality.intensity.get(quality, 0.0) * energy_kwh
    for tier in TIERS:
        fraction = job.data_quality.embodied.get(tier, 0.0)
        row[f"embodied_g_tier_{tier.lower()}"] = fraction * embodied_g
    divided = breakdown(job)
    idle, boundary = divided["idle"], divided.get("boundary", {})
    row["accelerators_kwh"] = boundary.get("accelerators", 0.0) * energy_kwh
    row["idle_kwh"] = idle.get("energy", 0.0) * energy_kwh
    row["idle_not_seen_kwh"] = idle.get("not seen", 0.0) * energy_kwh
    row["idle_g"] = (
        idle.get("operational", 0.0) * operational_g + idle.get("embodied", 0.0) * embodied_g
    )
    wasted_g = idle.get("time operational", 0.0) * operational_g
    wasted_g += idle.get("time embodied", 0.0) * embodied_g
    enough = wasted_g > 0 and wasted_g >= IDLE_LEAST * (operational_g + embodied_g)
    row["wasted_g"] = wasted_g if enough else 0.0
    return row


def _without_figures() -> Row:
    columns = TABLES["job_months"].items()
    values = {"float": 0.0, "float?": None}
    return {name: values[kind] for name, kind in columns if kind in values}


def _terms(job: JobDoc, part: Part) -> dict[str, Quantity | None]:
    energy, pue = part.sums.energy_kwh, job.method.pue
    return {
        "energy_kwh": energy,
        "facility_kwh": energy.times(pue, "kWh") if energy else None,
        "operational_g": part.sums.operational_g,
        "embodied_g": part.sums.embodied_g,
    }


def _ends(name: str, figure: Quantity | None) -> Row:
    ends = (figure.value, figure.low, figure.high) if figure else (None, None, None)
    return {f"{name}{end}": value for end, value in zip(ENDS, ends, strict=True)}


def _is_own(input_id: str, job_id: str) -> bool:
    """Return whether an input moves figures of this job alone, by its id."""
    return input_id.endswith(f":{job_id}")


def _own(figure: Quantity, job_id: str) -> Effect:
    """Return the effect of all inputs of the job alone together."""
    if not figure.relative:
        return 0.0, 0.0
    return ends_of({id_: own for id_, own in figure.inputs.items() if _is_own(id_, job_id)})


def _effects(job: JobDoc, part: Part) -> list[Row]:
    """Return by how much each input that jobs may share changes the terms of a job."""
    nothing = {f"{term}_{end}": 0.0 for term in TERMS for end in ("low", "high")}
    rows: dict[str, Row] = {}
    for term, figure in _terms(job, part).items():
        if figure is None or not figure.relative:
            continue
        for id_, (low, high) in figure.inputs.items():
            if not _is_own(id_, job.job_id):
                row = rows.setdefault(id_, {"input_id": id_, **nothing})
                row[f"{term}_low"] = figure.value * math.expm1(low)
                row[f"{term}_high"] = figure.value * math.expm1(high)
    return list(rows.values())


def _kinds(job: JobDoc, part: Part) -> dict[str, float]:
    """Return the fractions of the energy by kind.

    A part of a job that is of another kind than the whole, such as its measured first day, is of
    its own.
    """
    energy, shares = part.sums.energy_kwh, job.data_quality.energy
    fractions: dict[str, float] = {kind: shares.get(kind, 0.0) for kind in KINDS}
    if energy is None or not sum(fractions.values()) > 0:
        return fractions
    if energy.kind == kind_of_sum({kind: fractions[kind] for kind in KINDS}):
        return fractions
    return {kind: float(kind == energy.kind) for kind in KINDS}


def _hours(job: JobDoc, part: Part) -> Row:
    """Return how long the job ran in the month [h], and its accelerators, each by its fraction."""
    zone, month = ZoneInfo(job.method.time_zone), part.days[0].day[:7]
    start = datetime.fromisoformat(job.started_at)
    end = datetime.fromisoformat(job.ended_at or job.started_at)
    opens, closes = month_span(month, zone)
    hours = max(min(end, closes) - max(start, opens), timedelta()) / timedelta(hours=1)
    accelerators = sum(d.share for d in job.devices if d.device_class in ACCELERATORS)
    return {"hours": hours, "accelerator_hours": hours * accelerators}


def _days(job: JobDoc, part: Part) -> list[Row]:
    unit, unknown = (_units(job) or ["job"])[0], part.sums.total_g is None
    rows = []
    for day in part.days:
        first, last = day is part.days[0], day is part.days[-1]
        row = {
            "day": day.day,
            "unit": unit,
            "amount": day.counts.get(unit, 0.0),
            "jobs": int(first),
            "jobs_ended": int(last and part.ended),
            "jobs_unknown": int(first and unknown),
        }
        sums = part.sums if first and last else Part(job, [day]).sums
        for term in JOB_TERMS:
            row |= _ends(term, getattr(sums, term))
        rows.append(row)
    return rows


def _components(job: JobDoc, part: Part) -> list[Row]:
    """Return the components of O and M, as much of each as of the term lies in the month."""
    rows = []
    for (term, component), figure in components(job).items():
        whole, of_month = getattr(job, f"{term}_g"), getattr(part.sums, f"{term}_g")
        if whole is not None and of_month is not None and whole.value > 0:
            g = figure.scaled(of_month.value / whole.value)
            rows.append({"term": term, "component": component, **_ends("g", g)})
    return rows


def _factors(job: JobDoc, part: Part) -> list[Row]:
    """Return by what a job's energy was multiplied; the rows sum to E and O of the part.

    None where O is not known. Of a job that crosses the edge of a month with several sources,
    spans across the edge are divided by time.
    """
    energy, grams = part.sums.energy_kwh, part.sums.operational_g
    if energy is None or grams is None or energy.value <= 0:
        return []
    zone = ZoneInfo(job.method.time_zone)
    used = [(row, row.energy_j / J_PER_KWH * _share(part, row, zone)) for row in job.intensity]
    used = [(row, kwh) for row, kwh in used if kwh > 0] or [(_mean(job), energy.value)]
    whole_kwh = sum(kwh for _, kwh in used)
    whole_g = sum(kwh * row.g_per_kwh for row, kwh in used)
    intensity, pue = job.method.intensity_g_per_kwh, job.method.pue
    positive = intensity.value > 0
    low, high = (
        end / intensity.value if positive else 1.0 for end in (intensity.low, intensity.high)
    )
    rows: dict[tuple[str, ...], Row] = {}
    for of, kwh in used:
        key = (of.zone, of.quality, of.series, of.source)
        row = rows.setdefault(
            key,
            {
                "number": len(rows),
                **dict(zip(("zone", "quality", "series", "source"), key, strict=True)),
                **{"pue": pue.value, "pue_low": pue.low, "pue_high": pue.high},
                **{"pue_kind": pue.kind, "pue_source": pue.source},
                "energy_kwh": 0.0,
                **{f"operational_g{end}": 0.0 for end in ENDS},
            },
        )
        of_row = grams.value * kwh * of.g_per_kwh / whole_g if whole_g > 0 else 0.0
        row["energy_kwh"] += energy.value * kwh / whole_kwh
        row["operational_g"] += of_row
        row["operational_g_low"] += of_row * low
        row["operational_g_high"] += of_row * high
    return list(rows.values())


def _mean(job: JobDoc) -> IntensityUsedDoc:
    """Return the mean intensity of a job as the one that it was scored with."""
    mean = job.method.intensity_g_per_kwh
    return IntensityUsedDoc(
        zone=job.zone or "",
        start="",
        end="",
        quality="",
        points=0,
        energy_j=0.0,
        g_per_kwh=mean.value,
        series="",
        source=mean.source,
    )


def _share(part: Part, row: IntensityUsedDoc, zone: ZoneInfo) -> float:
    """Return the fraction of a span that lies in the days of the part, by time."""
    if len(part.days) == len(part.job.days):
        return 1.0
    start, end = (datetime.fromisoformat(text) for text in (row.start, row.end))
    opens, closes = _span(part.days, zone)
    if start == end:
        return float(opens <= start < closes)
    return max(min(end, closes) - max(start, opens), timedelta()) / (end - start)


def _span(days: list[DayDoc] | Any, zone: ZoneInfo) -> tuple[datetime, datetime]:
    first, last = (date.fromisoformat(days[n].day) for n in (0, -1))
    return midnight(first, zone), midnight(last + DAY, zone)
