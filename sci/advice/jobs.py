"""Suggestions for measured jobs: what the meter saw becomes the request."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from statistics import NormalDist
from typing import Any

import msgspec

from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.prediction.own_runs import (
    OwnRow,
    accelerators_of,
    class_of,
    mean_power_w,
    only_part,
    tagged,
    workload_of,
)
from gramwatt.sci.advice.suggest_request import (
    PRECISIONS,
    SuggestRequest,
    parse_suggest_request,
)
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.figures.checks import TEXT_MOST
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import GramwattError, LookupFailed
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, total
from gramwatt.sci.figures.units import gib_from_bytes, h_from_s
from gramwatt.sci.month.breakdown import hardware_of
from gramwatt.sci.month.compare import is_synthetic
from gramwatt.sci.month.documents import SavingDoc
from gramwatt.sci.month.month_rows import (
    AdviceRow,
    NamedJob,
)

TOP = 3
"""Suggestions shown in reports."""
JOBS_EXAMINED = 20
"""Jobs of a month that are examined, those with the most carbon: each takes some 20 ms."""
ONE_WORK_MOST = 5
EXAMPLES = 3
"""Jobs named for each row of grouped advice."""
LEVELS = ("high", "medium", "low")
CONFIDENCE = {
    "direct": "high",
    "calibrated": "high",
    "class-model": "medium",
    "rule": "low",
    "none": "low",
}
"""Confidence by what a prediction rests on: measurements of both parts, a model, or a rule."""
Work = tuple[str, str]
"""Hardware and class of work (`work_of`)."""
RUNS_LEAST, DAYS_LEAST, DAYS_PER_YEAR = 3, 7.0, 365.0
"""Runs and days from which on a job counts as one that is repeated (a choice)."""
PRECISION_ALIASES = {
    "float32": "fp32",
    "single": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
}
"""Other names of precisions, as frameworks write them."""


def for_job(
    document: JobDoc,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    repeats: Quantity | None = None,
) -> AdviceDoc:
    """Return suggestions for a scored job; an empty answer with a notice where no accelerator ran.

    `repeats` is how often the job runs [1/year], see `runs_a_year`.

    Another catalog may have scored it: a region that this one does not know leaves the zone.
    """
    request = request_of(document)
    if request is None or not _knows(catalog.hardware, request.hardware):
        text = "The job ran on no accelerator of the catalog, or on several kinds of them."
        notice = Notice("advice-not-applicable", text, "suggestions")
        return AdviceDoc(suggestions=[], estimate=None, notices=[notice])
    if request.region and not _knows(catalog.region, request.region):
        request = msgspec.structs.replace(request, region=None, zone=document.zone)
    if request.lifetime_years == catalog.lifetime(request.hardware).value:
        request = msgspec.structs.replace(
            request, lifetime_years=None
        )  # the catalog's has its range
    workload = workload_of(document)
    return suggest(request, catalog, own, workload, repeats=repeats, measured=document)


def runs_a_year(runs: int, days: float, name: str) -> Quantity | None:
    """Return how often a job runs [1/year], by its runs in the last days; None for too few.

    Counts of independent events: 80 % within 1.28 roots of the count.
    """
    if runs < RUNS_LEAST or days < DAYS_LEAST:
        return None
    scale = DAYS_PER_YEAR / days
    spread = NormalDist().inv_cdf(0.9) / math.sqrt(runs)
    text = f"{runs} runs of {name} in {days:.0f} days"
    return Quantity.around(runs * scale, spread, "1/year", "estimated", text)


def _knows(find: Callable[[str], object], name: str | None) -> bool:
    try:
        find(name or "")
    except LookupFailed:
        return False
    return True


def request_of(document: JobDoc) -> SuggestRequest | None:
    """Return the request that a job document makes; None without accelerators of one known part."""
    part, devices = only_part(document), accelerators_of(document)
    if part is None:
        return None
    asked: dict[str, Any] = {
        "hardware": part,
        "count": len(devices),
        "kind": document.kind,
        "hours": h_from_s(document.duration_s) if document.duration_s else None,
        "mean_power_w": mean_power_w(document) or None,
        "peak_memory_gb": _peak_memory_gib(document),
        "utilisation": _mean_share([device.mean_utilisation for device in devices]),
        "memory_bandwidth_utilisation": _mean_share(
            [device.profile.get("memory_busy") for device in devices]
        ),
        "host_power_w": _host_power_w(document),
        "pue": _pue(document),
        "lifetime_years": _lifetime_years(document),
        "units": {s.unit: s.count for s in document.sci if s.count > 0},
        "zone": document.zone,
        **tagged(document),
        **software_of(document),
    }
    region = document.region
    if region and ":" in region:
        asked |= {"region": region, "zone": None}
    return parse_suggest_request(asked)


def examined(jobs: Sequence[tuple[float, str, str]], most: int) -> list[int]:
    """Return which jobs of a month to examine, at most so many: places of (carbon [g], id, work).

    They are those with the most carbon, but at most `ONE_WORK_MOST` of one work on one hardware
    as long as there is other work.
    """
    order = sorted(range(len(jobs)), key=lambda n: (-jobs[n][0], jobs[n][1]))
    taken: Counter[str] = Counter()
    chosen: list[int] = []
    for place in order:
        work = jobs[place][2]
        taken[work] += 1
        if taken[work] <= ONE_WORK_MOST:
            chosen.append(place)
    left = set(chosen)
    chosen += [place for place in order if place not in left]
    return chosen[:most]


def work_of(document: JobDoc) -> tuple[str, str]:
    """Return the hardware of a job and its class of work, else its kind."""
    return hardware_of(document), class_of(document) or document.kind


def for_month(
    documents: Iterable[JobDoc], catalog: Catalog, own: Sequence[OwnRow] = ()
) -> list[SavingDoc]:
    """Return the largest certain savings of a month's jobs, one a job, best first.

    `JOBS_EXAMINED` jobs are `examined`; a job that only a synthetic meter saw is not.
    """
    real = [document for document in documents if not is_synthetic(document)]
    rows = [(_grams(job), job.job_id, " on ".join(work_of(job))) for job in real]
    best = (_saving(real[place], catalog, own) for place in examined(rows, JOBS_EXAMINED))
    savings = [saving for saving in best if saving is not None]
    savings.sort(key=lambda saving: (-saving.saved_g.value, saving.job_id))
    return savings


def grouped(
    savings: Sequence[SavingDoc], parts: Mapping[str, float], jobs_of_work: Mapping[Work, int]
) -> list[AdviceRow]:
    """Return savings by hardware, class of work and action, those that save most first.

    `parts` is the share of each job's carbon that lies in the month; `jobs_of_work` counts all jobs
    of each work on each hardware.
    """
    groups: dict[tuple[Any, ...], list[SavingDoc]] = defaultdict(list)
    for saving in savings:
        key = (saving.hardware, saving.work, saving.action, saving.target)
        groups[key].append(saving)
    rows = [_advice_row(members, parts, jobs_of_work) for members in groups.values()]
    return sorted(rows, key=lambda row: (-row.saved_g.value, row.hardware, row.work))


def _advice_row(
    members: Sequence[SavingDoc], parts: Mapping[str, float], jobs_of_work: Mapping[Work, int]
) -> AdviceRow:
    first = members[0]
    saved = total(one.saved_g.scaled(parts.get(one.job_id, 1.0)) for one in members)
    assert saved is not None  # a group has members
    ratios = [one.carbon_ratio for one in members if one.carbon_ratio is not None]
    return AdviceRow(
        hardware=first.hardware,
        work=first.work,
        action=first.action,
        target=first.target,
        jobs=len(members),
        jobs_of_work=jobs_of_work.get((first.hardware, first.work), len(members)),
        saved_g=saved.bare(),
        carbon_ratio=_spanning(ratios),
        confidence=max((CONFIDENCE[one.basis] for one in members), key=LEVELS.index),
        reason=first.reason,
        examples=[one.job_id for one in members[:EXAMPLES]],
        named=[
            NamedJob(job_id=one.job_id, name=one.name, project=one.project)
            for one in members[:EXAMPLES]
        ],
        basis="examined",
    )


def _spanning(ratios: Sequence[Quantity]) -> Quantity | None:
    """Return the middle ratio, with a range that holds those of all."""
    if not ratios:
        return None
    middle = sorted(ratios, key=lambda ratio: ratio.value)[len(ratios) // 2]
    low, high = min(r.low for r in ratios), max(r.high for r in ratios)
    return middle.between(low, high)


def _grams(document: JobDoc) -> float:
    return document.total_g.value if document.total_g else 0.0


def _saving(document: JobDoc, catalog: Catalog, own: Sequence[OwnRow]) -> SavingDoc | None:
    """Return the best certain saving of a job; None where there is none, or no advice."""
    try:
        answer = for_job(document, catalog, own)
    except GramwattError:
        return None
    hardware, work = work_of(document)
    for one in certain(answer):
        if one.saved_g is not None:
            return SavingDoc(
                job_id=document.job_id,
                name=document.name,
                project=document.project,
                action=one.action,
                target=one.target,
                saved_g=one.saved_g,
                carbon_ratio=one.carbon_ratio,
                reason=one.reasons[0] if one.reasons else one.operating_point,
                basis=one.basis,
                hardware=hardware,
                work=work,
            )
    return None


def report_lines(advice: AdviceDoc) -> list[SuggestionDoc]:
    """Return what a report shows: certain savings, else that the job should stay."""
    keep = [one for one in advice.suggestions if one.action == "keep"]
    return certain(advice)[:TOP] or keep[:1]


def certain(advice: AdviceDoc) -> list[SuggestionDoc]:
    """Return certain savings, without those after "keep", whose part the job would not repay."""
    before = takewhile(lambda one: one.action != "keep", advice.suggestions)
    return [one for one in before if one.verdict == "lower"]


def software_of(document: JobDoc) -> dict[str, str]:
    """Return framework and precision of the job: tags of these names, else what its record says.

    A tag is the user's own word; the record's may be what the meter's client found loaded.
    """
    software = {}
    for name, known in (("framework", _framework), ("precision", _precision)):
        value = known(document.tags.get(name)) or known(getattr(document, name))
        if value:
            software[name] = value
    return software


def _framework(text: object) -> str | None:
    return text if isinstance(text, str) and text.strip() and len(text) <= TEXT_MOST else None


def _precision(text: object) -> str | None:
    name = text.lower() if isinstance(text, str) else ""
    name = PRECISION_ALIASES.get(name, name)
    return name if name in PRECISIONS else None


def _peak_memory_gib(document: JobDoc) -> float | None:
    peaks = [device.peak_memory_b for device in accelerators_of(document)]
    known = [peak for peak in peaks if peak]
    return gib_from_bytes(max(known)) if known else None


def _host_power_w(document: JobDoc) -> float | None:
    """Return the mean power of processors and memory of all hosts [W]; None unless all is known."""
    hosts = [device for device in document.devices if device.device_class in ("cpu", "ram")]
    energies = [device.energy_j for device in hosts]
    known = [energy.value for energy in energies if energy is not None]
    seconds = document.duration_s
    if not known or not seconds or len(known) != len(energies):
        return None
    return sum(known) / seconds or None


def _pue(document: JobDoc) -> float | None:
    """Return the PUE of the score; None where it was assumed, so that its range stays."""
    pue = document.method.pue
    return None if pue.kind == "estimated" else pue.value


def _lifetime_years(document: JobDoc) -> float | None:
    """Return EL of the accelerators in the score [years]; None where unknown, or several."""
    ids = {device.device_id for device in accelerators_of(document)}
    terms = (term for term in document.embodied_terms if term.device_id in ids)
    lives = {term.lifetime_years for term in terms}
    return lives.pop() if len(lives) == 1 else None


def _mean_share(shares: Sequence[float | None]) -> float | None:
    """Return the mean of shares; None where one is not known."""
    known = [share for share in shares if share is not None]
    return min(1.0, sum(known) / len(known)) if known and len(known) == len(shares) else None
