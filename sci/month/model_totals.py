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
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from gramwatt.sci.figures.document import SciDoc
from gramwatt.sci.figures.formatting import all_digits
from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.month.documents import ModelDoc, ModelPartDoc, TermsDoc
from gramwatt.sci.score.assess import worst_status
from gramwatt.sci.score.functional_unit import sci_doc
from gramwatt.sci.score.sci_for_ai import BILLION_PARAMETERS, PROVIDER, named_unit, persona

PARAMETERS, SWEEP, SWEEP_RUNS = "model_parameters", "sweep", "sweep_runs"
OTHER = "other"
ORDER = (PROVIDER, "consumer", OTHER)
PER_BILLION = 1e9
UNFINISHED = ("failed", "killed", "lost")
"""States of runs that came to no result."""


class RunHead(Struct):
    """The fields of a job's head that the sums over a model use."""

    job_id: str
    kind: str
    state: str
    started_at: str
    total_g: Quantity | None
    sci: list[SciDoc]
    conformance: str
    tags: dict[str, str]
    excluded: str | None


Method = tuple[str, str]
"""Signal and basis of the intensity that a run is scored with."""


class Summing(Struct, frozen=True):
    """How runs are added, and the method that each is scored by."""

    terms: Callable[[Sequence[RunHead]], TermsDoc]
    method: Callable[[RunHead], Method]


def totals_of_runs(
    model_id: str, jobs: Iterable[RunHead], summing: Summing, *, unscored: int = 0
) -> ModelDoc:
    """Return sums over all runs of a model; `unscored` is how many more have no score yet.

    A run with an unknown total is left out of both sums and counted in `jobs_unknown`; an excluded
    one is only counted, in `missing`. Where runs are scored with different signals or bases of
    intensity, nothing is summed.
    """
    in_order = sorted(jobs, key=lambda job: (job.started_at, job.job_id))
    runs = [job for job in in_order if job.excluded is None]
    groups: dict[str, list[RunHead]] = defaultdict(list)
    for job in runs:
        groups[persona(job.kind) or OTHER].append(job)
    missing = _missing(runs, summing, unscored, len(in_order) - len(runs))
    return ModelDoc(
        model_id=model_id,
        jobs=len(runs) + unscored,
        parts=[_part(name, groups[name], summing) for name in ORDER if groups[name]],
        complete=not missing,
        missing=missing,
    )


def _part(name: str, runs: Sequence[RunHead], summing: Summing) -> ModelPartDoc:
    scored = [] if _methods(runs, summing) else [job for job in runs if job.total_g is not None]
    sums = summing.terms(scored)
    by_kind: dict[str, list[RunHead]] = defaultdict(list)
    for job in scored:
        by_kind[job.kind].append(job)
    return ModelPartDoc(
        persona=name,
        jobs=len(runs),
        jobs_unknown=len(runs) - len(scored),
        states=dict(Counter(job.state for job in runs)),
        energy_kwh=bare(sums.energy_kwh),
        operational_g=bare(sums.operational_g),
        embodied_g=bare(sums.embodied_g),
        total_g=bare(sums.total_g),
        by_kind={
            kind: bare((sums if len(by_kind) == 1 else summing.terms(members)).total_g)
            for kind, members in sorted(by_kind.items())
        },
        sci=_scores(name, scored, sums.total_g),
        conformance=worst_status(job.conformance for job in runs),
    )


def _scores(name: str, known: Sequence[RunHead], emitted: Quantity | None) -> list[SciDoc]:
    counts: dict[str, float] = defaultdict(float)
    for job in known:
        for row in job.sci:
            if named_unit(row.unit, job.kind) != BILLION_PARAMETERS:
                counts[row.unit] += row.count
    if len(counts) > 1:
        counts.pop("job", None)  # runs that ended before they counted anything
    sizes = _sizes(known) if name == PROVIDER else set()
    if len(sizes) == 1:
        counts[BILLION_PARAMETERS] = sizes.pop() / PER_BILLION
    return [sci_doc(emitted, count, unit) for unit, count in sorted(counts.items())]


def _sizes(runs: Iterable[RunHead]) -> set[float]:
    """Return parameters that the runs say the model has: by tag, or counted in billions."""
    sizes = {_number(job.tags.get(PARAMETERS)) for job in runs}
    for job in runs:
        for row in job.sci:
            if named_unit(row.unit, job.kind) == BILLION_PARAMETERS:
                sizes.add(row.count * PER_BILLION)
    return {size for size in sizes if size is not None}


def _missing(runs: Sequence[RunHead], summing: Summing, unscored: int, excluded: int) -> list[str]:
    """Return why the sums may not be the whole of the model; empty where no reason is known."""
    gaps = []
    if unscored:
        gaps.append(f"runs without a score yet, or not ended: {unscored}")
    if excluded:
        gaps.append(f"runs left out by a person, in no sum: {excluded}")
    unknown = sum(job.total_g is None for job in runs)
    if unknown:
        gaps.append(f"runs with a term that is not known, in no sum: {unknown}")
    gaps += _methods(runs, summing)
    sizes = _sizes(job for job in runs if persona(job.kind) == PROVIDER)
    if len(sizes) > 1:
        texts = ", ".join(f"{size:g}" for size in sorted(sizes))
        gaps.append(f"the runs disagree on the model's parameters: {texts}")
    return gaps + _sweeps(runs)


def _methods(runs: Iterable[RunHead], summing: Summing) -> list[str]:
    ways = {summing.method(job) for job in runs if job.total_g is not None}
    if len(ways) < 2:
        return []
    texts = " and ".join(sorted(f"{signal} {basis}" for signal, basis in ways))
    return [f"runs are scored with {texts} intensity, which cannot be summed"]


def _sweeps(runs: Iterable[RunHead]) -> list[str]:
    sizes: dict[str, float] = defaultdict(float)
    counted: Counter[str] = Counter()
    for job in runs:
        name = job.tags.get(SWEEP)
        if name:
            counted[name] += 1
            sizes[name] = max(sizes[name], _number(job.tags.get(SWEEP_RUNS)) or 0.0)
    return [
        f"sweep {name}: {counted[name]} of {all_digits(size)} runs are known"
        for name, size in sorted(sizes.items())
        if counted[name] < size
    ]


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
