"""Suggestions for measured jobs: what the meter saw becomes the request."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.estimate.request import Parameters
from gramwatt.sci.figures.checks import TEXT_MOST, Amount, checked
from gramwatt.sci.figures.document import DeviceDoc, JobDoc
from gramwatt.sci.figures.errors import GramwattError, LookupFailed
from gramwatt.sci.figures.quantity import EIGHT_IN_TEN, METERED, Quantity, total
from gramwatt.sci.figures.units import gib_from_bytes, h_from_s
from gramwatt.sci.month.breakdown import hardware_of
from gramwatt.sci.month.compare import is_synthetic
from gramwatt.sci.month.documents import AdviceRow, NamedJob, SavingDoc
from gramwatt.sci.planning.usual import odds_text, usual_saving
from gramwatt.sci.records.records import ACCELERATORS, JobKind
from gramwatt.sci.suggest.documents import AnswerDoc, SuggestDoc
from gramwatt.sci.suggest.evidence import OwnRow
from gramwatt.sci.suggest.places import LONGEST_H, WAIT_H
from gramwatt.sci.suggest.request import (
    CLASSES,
    METHODS,
    PRECISIONS,
    SuggestRequest,
    WorkloadClass,
    parse_suggest_request,
)
from gramwatt.sci.suggest.suggest import suggest
from gramwatt.sci.suggest.work import classify

TOP = 3
"""Rows that a report shows."""
JOBS_EXAMINED = 20
"""Jobs of a month that are examined, those with the most carbon."""
ONE_WORK_MOST = 5
EXAMPLES = 3
"""Jobs named for each row of grouped suggestions."""
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
NOT_APPLICABLE = "{hour} Hardware is not compared: {why}. Other places: gramwatt plan --like {job}"


def for_job(
    document: JobDoc,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    repeats: Quantity | None = None,
) -> SuggestDoc:
    """Return suggestions for a scored job; no rows where it ran on no accelerator of one kind.

    `repeats` is how often the job runs [1/year], see `runs_a_year`. Another catalog may have scored
    it: a region that this one does not know leaves the zone.
    """
    request = request_of(document)
    if request is None or not _knows(catalog.hardware, request.hardware):
        text = NOT_APPLICABLE.format(
            hour=_better_hour(document, catalog), why=_why_not(document), job=document.job_id
        )
        return SuggestDoc(summary=text)
    if request.region and not _knows(catalog.region, request.region):
        request = msgspec.structs.replace(request, region=None, zone=document.zone)
    if request.lifetime_years == catalog.lifetime(request.hardware).value:
        # The catalog's has its range.
        request = msgspec.structs.replace(request, lifetime_years=None)
    workload = workload_of(document)
    return suggest(request, catalog, own, workload, repeats=repeats, measured=document)


def _better_hour(document: JobDoc, catalog: Catalog) -> str:
    """Return what another start within a day would have emitted, by the usual hours of its zone."""
    if not document.zone:
        return f"For a better hour name its zone: gramwatt job {document.job_id} --set zone=DE."
    if not document.duration_s or not _knows(catalog.zone, document.zone):
        return "Whether another hour emits less is not known."
    start, hours = datetime.fromisoformat(document.started_at), h_from_s(document.duration_s)
    zone = catalog.zone(document.zone).zone
    waiting = usual_saving(zone, hours, WAIT_H, start) if hours <= LONGEST_H else None
    if waiting is None:
        return f"Whether another hour of {zone} emits less is not known."
    saved = round(100 * waiting.saving.value)
    if saved < 1:
        return f"No start within a day emits less in {zone}, as far as its usual hours tell."
    when = f"Starting at {waiting.start:%H:%M} UTC, not {start.astimezone(UTC):%H:%M}"
    return f"{when}, usually emits {saved} % less ({odds_text(waiting.odds)})."


def _why_not(document: JobDoc) -> str:
    parts = {device.hardware for device in accelerators_of(document)}
    if not parts:
        return "it ran on processors alone"
    if len(parts) > 1:
        return "it ran on several kinds of devices"
    return "the catalog lacks its device"


def runs_a_year(runs: int, days: float, name: str) -> Quantity | None:
    """Return how often a job runs [1/year], by its runs in the last days; None for too few.

    Counts of independent events: 80 % within 1.28 roots of the count.
    """
    if runs < RUNS_LEAST or days < DAYS_LEAST:
        return None
    spread = EIGHT_IN_TEN / math.sqrt(runs)
    text = f"{runs} runs of {name} in {days:.0f} days"
    return Quantity.around(runs * DAYS_PER_YEAR / days, spread, "1/year", "estimated", text)


def _knows(find: Callable[[str], object], name: str | None) -> bool:
    try:
        find(name or "")
    except LookupFailed:
        return False
    return True


def request_of(document: JobDoc) -> SuggestRequest | None:
    """Return the request that a job document makes; None without accelerators of one part."""
    part, devices = only_part(document), accelerators_of(document)
    if part is None:
        return None
    body: dict[str, Any] = {
        "hardware": part,
        "count": len(devices),
        "kind": document.kind,
        "hours": h_from_s(document.duration_s) if document.duration_s else None,
        "mean_power_w": mean_power_w(document) or None,
        "peak_memory_gb": _peak_memory_gib(document),
        "utilisation": _mean([device.mean_utilisation for device in devices]),
        "host_power_w": _host_power_w(document),
        "pue": None if document.method.pue.kind == "estimated" else document.method.pue.value,
        "lifetime_years": _lifetime_years(document),
        "units": {score.unit: score.count for score in document.sci if score.count > 0},
        "zone": document.zone,
        **tagged(document),
        **software_of(document),
    }
    if document.region and ":" in document.region:
        body |= {"region": document.region, "zone": None}
    return parse_suggest_request(body)


def own_rows(documents: Iterable[JobDoc]) -> list[OwnRow]:
    """Return the organisation's own rows: those of its jobs that can be one."""
    rows = (own_row(document, class_of(document)) for document in documents)
    return [row for row in rows if row is not None]


def own_row(document: JobDoc, workload_class: str | None) -> OwnRow | None:
    """Return the row of a job document; None where the job cannot be one.

    It must have ended well, counted a declared unit, run on devices of one part and measured their
    energy with a real meter.
    """
    devices, name = accelerators_of(document), only_part(document)
    counted = [score for score in document.sci if score.count > 0 and score.unit != "job"]
    seconds, power = document.duration_s, mean_power_w(document)
    energies = [device.energy_j for device in devices]
    if any(energy.kind not in METERED for energy in energies if energy):
        return None
    if document.state != "completed" or is_synthetic(document) or not counted:
        return None
    if name is None or not power or not seconds:
        return None
    return OwnRow(
        job_id=document.job_id,
        workload=workload_of(document),
        workload_class=workload_class,
        hardware=name,
        count=len(devices),
        unit=counted[0].unit,
        units_per_s=counted[0].count / seconds / len(devices),
        power_w=power,
    )


def workload_of(document: JobDoc) -> str:
    """Return what names the same work in jobs: the model if known, else project and name."""
    return document.model_id or f"{document.project}/{document.name}"


def tagged(document: JobDoc) -> dict[str, Any]:
    """Return what tags say of the run, by field of a request; meaningless ones are left out."""
    tags = document.tags
    fields: dict[str, Any] = {
        name: tags[name]
        for name, choices in (("method", METHODS), ("workload_class", CLASSES))
        if tags.get(name) in choices
    }
    for name, kind in (("batch_size", Amount), ("model_parameters", Parameters)):
        try:
            fields[name] = checked(kind, tags.get(name, ""), strict=False)
        except ValueError:
            continue
    if SuggestRequest(kind=cast(JobKind, document.kind), **fields).contradiction:
        return {name: fields[name] for name in fields if name not in ("method", "workload_class")}
    return fields


def accelerators_of(document: JobDoc) -> list[DeviceDoc]:
    """Return the accelerators among a job's devices."""
    return [device for device in document.devices if device.device_class in ACCELERATORS]


def only_part(document: JobDoc) -> str | None:
    """Return the catalog id of a job's accelerators; None where unknown, or of several kinds."""
    names = {device.hardware for device in accelerators_of(document)}
    return names.pop() if len(names) == 1 else None


def mean_power_w(document: JobDoc) -> float | None:
    """Return the mean power of an accelerator over the job [W]; None if an energy is unknown."""
    devices, seconds = accelerators_of(document), document.duration_s
    energies = [device.energy_j.value for device in devices if device.energy_j is not None]
    if not devices or not seconds or len(energies) != len(devices):
        return None
    return sum(energies) / len(devices) / seconds


def class_of(document: JobDoc) -> WorkloadClass | None:
    """Return the class of a job's work by its kind and tags; None where they do not give it."""
    kind = cast(JobKind, document.kind)
    return classify(SuggestRequest(kind=kind, **tagged(document)), None).name


def work_of(document: JobDoc) -> Work:
    """Return the hardware of a job and its class of work, else its kind."""
    return hardware_of(document), class_of(document) or document.kind


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
    rest = set(chosen)
    chosen += [place for place in order if place not in rest]
    return chosen[:most]


def for_month(
    documents: Iterable[JobDoc], catalog: Catalog, own: Sequence[OwnRow] = ()
) -> list[SavingDoc]:
    """Return the largest advised savings of a month's jobs, one a job, best first.

    `JOBS_EXAMINED` jobs are `examined`; a job that only a synthetic meter saw is not.
    """
    real = [document for document in documents if not is_synthetic(document)]
    keys = [
        (job.total_g.value if job.total_g else 0.0, job.job_id, " on ".join(work_of(job)))
        for job in real
    ]
    best = (_saving(real[place], catalog, own) for place in examined(keys, JOBS_EXAMINED))
    savings = [saving for saving in best if saving is not None]
    savings.sort(key=lambda saving: (-saving.saved_g.value, saving.job_id))
    return savings


def _saving(document: JobDoc, catalog: Catalog, own: Sequence[OwnRow]) -> SavingDoc | None:
    """Return the best advised saving of a job; None where there is none, or no answer."""
    try:
        answer = for_job(document, catalog, own)
    except GramwattError:
        return None
    hardware, work = work_of(document)
    for row in answer.answers:
        if row.advised and row.saved_g is not None and row.verdict is not None:
            return SavingDoc(
                job_id=document.job_id,
                name=document.name,
                project=document.project,
                action=row.action,
                target=row.target,
                saved_g=row.saved_g,
                carbon_ratio=row.carbon_ratio,
                verdict=row.verdict,
                reason=row.reasons[0] if row.reasons else row.label,
                basis=row.basis,
                hardware=hardware,
                work=work,
            )
    return None


def advised(answer: SuggestDoc) -> list[AnswerDoc]:
    """Return the rows that are sure or likely to emit less: what the sentence names, then the
    least carbon.
    """
    rows = [row for row in answer.answers if row.advised]
    return sorted(rows, key=lambda row: row.id != answer.lead)


def grouped(
    savings: Sequence[SavingDoc], fractions: Mapping[str, float], jobs_of_work: Mapping[Work, int]
) -> list[AdviceRow]:
    """Return savings by hardware, class of work and action, those that save most first.

    `fractions` are of each job's carbon in the month; `jobs_of_work` counts all jobs of each work
    on each hardware.
    """
    groups: dict[tuple[Any, ...], list[SavingDoc]] = defaultdict(list)
    for saving in savings:
        groups[saving.hardware, saving.work, saving.action, saving.target].append(saving)
    rows = [_advice_row(members, fractions, jobs_of_work) for members in groups.values()]
    return sorted(rows, key=lambda row: (-row.saved_g.value, row.hardware, row.work))


def _advice_row(
    members: Sequence[SavingDoc], fractions: Mapping[str, float], jobs_of_work: Mapping[Work, int]
) -> AdviceRow:
    first = members[0]
    saved = total(row.saved_g.scaled(fractions.get(row.job_id, 1.0)) for row in members)
    assert saved is not None  # a group has members
    ratios = [row.carbon_ratio for row in members if row.carbon_ratio is not None]
    return AdviceRow(
        hardware=first.hardware,
        work=first.work,
        action=first.action,
        target=first.target,
        jobs=len(members),
        jobs_of_work=jobs_of_work.get((first.hardware, first.work), len(members)),
        saved_g=saved.bare(),
        carbon_ratio=_spanning(ratios),
        confidence=max((row.verdict for row in members), key=("sure", "likely").index),
        reason=first.reason,
        examples=[row.job_id for row in members[:EXAMPLES]],
        named=[
            NamedJob(job_id=row.job_id, name=row.name, project=row.project)
            for row in members[:EXAMPLES]
        ],
        basis="examined",
    )


def _spanning(ratios: Sequence[Quantity]) -> Quantity | None:
    """Return the middle ratio, with a range that holds those of all."""
    if not ratios:
        return None
    middle = sorted(ratios, key=lambda ratio: ratio.value)[len(ratios) // 2]
    return middle.between(min(r.low for r in ratios), max(r.high for r in ratios))


def software_of(document: JobDoc) -> dict[str, str]:
    """Return framework and precision of the job: tags of these names, else what its record says.

    A tag is the user's own word; the record's may be what the meter's client saw loaded.
    """
    software = {}
    for name, read in (("framework", _framework), ("precision", _precision)):
        value = read(document.tags.get(name)) or read(getattr(document, name))
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
    read = [peak for peak in peaks if peak]
    return gib_from_bytes(max(read)) if read else None


def _host_power_w(document: JobDoc) -> float | None:
    """Return the mean power of processors and memory of all hosts [W]; None unless all is known."""
    hosts = [device for device in document.devices if device.device_class in ("cpu", "ram")]
    energies = [device.energy_j.value for device in hosts if device.energy_j is not None]
    seconds = document.duration_s
    if not energies or not seconds or len(energies) != len(hosts):
        return None
    return sum(energies) / seconds or None


def _lifetime_years(document: JobDoc) -> float | None:
    """Return EL of the accelerators in the score [years]; None where unknown, or several."""
    ids = {device.device_id for device in accelerators_of(document)}
    terms = (term for term in document.embodied_terms if term.device_id in ids)
    lives = {term.lifetime_years for term in terms}
    return lives.pop() if len(lives) == 1 else None


def _mean(fractions: Sequence[float | None]) -> float | None:
    """Return the mean of fractions; None where one is not known."""
    read = [fraction for fraction in fractions if fraction is not None]
    return min(1.0, sum(read) / len(read)) if read and len(read) == len(fractions) else None
