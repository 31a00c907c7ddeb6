"""A model over all its runs: what failed, was cancelled or swept belongs to it too.

SCI for AI counts every run that went into a model, from data preparation to the last evaluation,
and separates making a model (provider) from using it (consumer). So a model has a part for each:
sum(C) / sum(R) over all its runs, never the mean of their ratios, and a list of what is missing.

Tags of the jobs add to it: `model_parameters` (of the model, 7e9), `sweep` (a name) and
`sweep_runs` (how many runs that sweep has).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from gramwatt.sci.base.document import JobDoc, ModelDoc, ModelPartDoc, SciDoc, Term, figure
from gramwatt.sci.base.quantity import Quantity, total
from gramwatt.sci.score.context import doc
from gramwatt.sci.score.functional_unit import per_unit
from gramwatt.sci.score.quality import worst_status
from gramwatt.sci.score.sci_for_ai import BILLION_PARAMETERS, PROVIDER, named_unit, persona

PARAMETERS, SWEEP, SWEEP_RUNS = "model_parameters", "sweep", "sweep_runs"
OTHER = "other"
ORDER = (PROVIDER, "consumer", OTHER)
PER_BILLION = 1e9
UNFINISHED = ("failed", "killed", "lost")
"""States of runs that came to no result."""


def model_totals(model_id: str, jobs: Iterable[JobDoc], *, unscored: int = 0) -> ModelDoc:
    """Sums over all runs of a model; `unscored` is the number of further runs without a score yet.

    A run with an unknown total is left out of both sums and counted in `jobs_unknown`; an excluded
    one is only counted, in `missing`. Where runs are scored with different signals or bases of
    intensity, nothing is summed.
    """
    in_order = sorted(jobs, key=lambda job: (job["started_at"], job["job_id"]))
    runs = [job for job in in_order if job["excluded"] is None]
    groups: dict[str, list[JobDoc]] = defaultdict(list)
    for job in runs:
        groups[persona(job["kind"]) or OTHER].append(job)
    missing = _missing(runs, unscored, len(in_order) - len(runs))
    return {
        "model_id": model_id,
        "jobs": len(runs) + unscored,
        "parts": [_part(name, groups[name]) for name in ORDER if groups[name]],
        "complete": not missing,
        "missing": missing,
    }


def _part(name: str, runs: Sequence[JobDoc]) -> ModelPartDoc:
    known = [] if _methods(runs) else [job for job in runs if job["total_g"] is not None]
    operational, embodied = _sum(known, "operational_g"), _sum(known, "embodied_g")
    emitted = _total(operational, embodied)
    by_kind: dict[str, list[JobDoc]] = defaultdict(list)
    for job in known:
        by_kind[job["kind"]].append(job)
    return {
        "persona": name,
        "jobs": len(runs),
        "jobs_unknown": len(runs) - len(known),
        "states": dict(Counter(job["state"] for job in runs)),
        "energy_kwh": doc(_sum(known, "energy_kwh")),
        "operational_g": doc(operational),
        "embodied_g": doc(embodied),
        "total_g": doc(emitted),
        "by_kind": {
            kind: doc(_total(_sum(members, "operational_g"), _sum(members, "embodied_g")))
            for kind, members in sorted(by_kind.items())
        },
        "sci": _scores(name, known, emitted),
        "conformance": worst_status(job["conformance"] for job in runs),
    }


def _sum(jobs: Iterable[JobDoc], term: Term) -> Quantity | None:
    """A term over jobs, in which an input that they share counts once."""
    found = (figure(job, term) for job in jobs)
    return total(known for known in found if known is not None)


def _total(operational: Quantity | None, embodied: Quantity | None) -> Quantity | None:
    return operational + embodied if operational and embodied else None


def _scores(name: str, known: Sequence[JobDoc], emitted: Quantity | None) -> list[SciDoc]:
    counts: dict[str, float] = defaultdict(float)
    for job in known:
        for row in job["sci"]:
            if named_unit(row["unit"], job["kind"]) != BILLION_PARAMETERS:
                counts[row["unit"]] += row["count"]
    if len(counts) > 1:
        counts.pop("job", None)  # runs that ended before they counted anything
    sizes = _sizes(known) if name == PROVIDER else set()
    if len(sizes) == 1:
        counts[BILLION_PARAMETERS] = sizes.pop() / PER_BILLION
    return [
        {
            "unit": unit,
            "count": count,
            "g_per_unit": doc(per_unit(emitted, count, unit)) if emitted else None,
        }
        for unit, count in sorted(counts.items())
    ]


def _sizes(runs: Iterable[JobDoc]) -> set[float]:
    """Parameters that the runs say the model has: by tag, or counted in billions."""
    found = {_number(job["tags"].get(PARAMETERS)) for job in runs}
    for job in runs:
        for row in job["sci"]:
            if named_unit(row["unit"], job["kind"]) == BILLION_PARAMETERS:
                found.add(row["count"] * PER_BILLION)
    return {size for size in found if size is not None}


def _missing(runs: Sequence[JobDoc], unscored: int, excluded: int) -> list[str]:
    """Why the sums may not be the whole of the model; empty where no reason is known."""
    found = []
    if unscored:
        found.append(f"runs without a score yet, or not ended: {unscored}")
    if excluded:
        found.append(f"runs left out by a person, in no sum: {excluded}")
    unknown = sum(job["total_g"] is None for job in runs)
    if unknown:
        found.append(f"runs with a term that is not known, in no sum: {unknown}")
    found += _methods(runs)
    sizes = _sizes(job for job in runs if persona(job["kind"]) == PROVIDER)
    if len(sizes) > 1:
        said = ", ".join(f"{size:g}" for size in sorted(sizes))
        found.append(f"the runs disagree on the model's parameters: {said}")
    return found + _sweeps(runs)


def _methods(runs: Iterable[JobDoc]) -> list[str]:
    ways = {
        (job["method"]["intensity_signal"], job["method"]["intensity_basis"])
        for job in runs
        if job["total_g"] is not None
    }
    if len(ways) < 2:
        return []
    said = " and ".join(sorted(f"{signal} {basis}" for signal, basis in ways))
    return [f"runs are scored with {said} intensity, which cannot be summed"]


def _sweeps(runs: Iterable[JobDoc]) -> list[str]:
    sizes: dict[str, float] = defaultdict(float)
    known: Counter[str] = Counter()
    for job in runs:
        name = job["tags"].get(SWEEP)
        if name:
            known[name] += 1
            sizes[name] = max(sizes[name], _number(job["tags"].get(SWEEP_RUNS)) or 0.0)
    return [
        f"sweep {name}: {known[name]} of {size:g} runs are known"
        for name, size in sorted(sizes.items())
        if known[name] < size
    ]


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
