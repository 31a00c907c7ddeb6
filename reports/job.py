"""The report of one job: its score, the figures behind it, data quality and method."""

from __future__ import annotations

from gramwatt.reports.model import (
    Block,
    Document,
    Facts,
    Heading,
    NoticeBlock,
    Text,
)
from gramwatt.reports.sections.advice import advice_blocks, packaged_advice, saving_sentence
from gramwatt.reports.sections.common import (
    method_blocks,
    notice_blocks,
    quality_blocks,
    reference,
    source_table,
)
from gramwatt.reports.sections.corrections import correction_blocks
from gramwatt.reports.sections.devices import device_blocks
from gramwatt.reports.sections.overview import (
    energy_blocks,
    obtained_blocks,
    summary_blocks,
    uncertain_blocks,
    why_blocks,
)
from gramwatt.reports.sections.scoring import score_blocks
from gramwatt.reports.sections.service import service_blocks
from gramwatt.reports.sections.supplementary import ai_facts
from gramwatt.reports.sections.timeseries import timeseries_blocks
from gramwatt.reports.sections.windows import window_blocks
from gramwatt.sci.advice.documents import AdviceDoc
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.formatting import UNKNOWN, duration, number, percent, text
from gramwatt.sci.base.units import mib_from_bytes
from gramwatt.sci.journal.records import SERVING

WORLD = (
    "The grid zone of this job is not known, so the world average intensity is used. The "
    "figures below are not an SCI score: name the zone or cloud region to get one."
)
PROVISIONAL = "The job had not ended when this was made: every figure is provisional."
SERVES = (
    "The service was running when this was made: its days that are over get no more requests or "
    "energy; those of today and in all are as of now."
)
NOT_FINAL = (
    "Provisional: grid intensity of the job's hours is partly estimated or annual, and is asked "
    "for again until 7 days after its end. A score that changes is a new revision."
)
SYNTHETIC = (
    "Readings of this job come from a synthetic meter, not from hardware. The figures "
    "below are not an SCI score."
)

MORE = (
    "The full report has the calculation, every device, notice, input and source, and "
    "the method: gramwatt report job {job_id} --full"
)
MAX_WINDOWS = 6
"""Windows of the short report."""
TITLE_MOST = 90
"""Characters of a name in the title; the full report has all of it."""
EXCLUDED = "This job is left out of monthly reports"


def build(document: JobDoc, advice: AdviceDoc | None = None, *, full: bool = False) -> Document:
    """Return the report of a job document on about two pages, with `full` of every figure behind
    it.

    Without `advice`, the suggestions are those of the packaged catalog.
    """
    data = document if advice is None else [document, advice]
    found = advice or packaged_advice(document)
    blocks = [
        *_warnings(document),
        *summary_blocks(document, saving_sentence(found)),
        *service_blocks(document.service, full=full),
        *why_blocks(document),
        *advice_blocks(document, found),
        *uncertain_blocks(document, full=full),
        Heading("Where the energy went"),
        *timeseries_blocks(
            document.series,
            document.windows,
        ),
        *energy_blocks(document.devices),
        *window_blocks(document.windows, None if full else MAX_WINDOWS),
        *obtained_blocks(document),
        *(_details(document) if full else _more(document)),
    ]
    return Document(
        f"Energy and carbon of {_short(document.name)}",
        _subtitle(document),
        (document.ended_at or document.started_at)[:10],
        tuple(blocks),
        reference(data, f"job {document.job_id}, revision {document.revision}"),
        glossary=full,
        names=tuple(
            {
                *(row.unit for row in document.sci),
                *(device.node for device in document.devices),
                *(window.name for window in document.windows),
            }
        ),
    )


def _more(document: JobDoc) -> list[Block]:
    """Return what the full report has beside this, and how to get it."""
    return [Text(MORE.format(job_id=document.job_id))]


def _details(document: JobDoc) -> list[Block]:
    """Return what only the full report has."""
    return [
        *_facts(document),
        *score_blocks(document),
        *device_blocks(document.devices),
        *quality_blocks(document.data_quality, whole=document.energy_kwh is not None),
        *correction_blocks(document.corrections),
        Heading("Notices"),
        *(notice_blocks(document.notices) or [Text("There are none.")]),
        Heading("Sources"),
        source_table((row.what, row.figure) for row in document.method.inputs),
        *method_blocks(document.method),
        *_meter_cost(document),
    ]


def _short(name: str) -> str:
    return name if len(name) <= TITLE_MOST else f"{name[:TITLE_MOST]}…"


def _subtitle(document: JobDoc) -> str:
    state = document.state
    if document.exit_code:
        state = f"{state} with exit code {document.exit_code}"
    status = "provisional" if document.provisional else "final"
    what = "Service" if _serves(document) else "Job"
    took = "running for" if document.state == "running" else "took"
    return (
        f"{what} {document.job_id} in project {_short(document.project)}, {state}; started "
        f"{_moment(document.started_at)}, {took} {duration(document.duration_s)}. "
        f"Revision {document.revision}, {status}."
    )


def _serves(document: JobDoc) -> bool:
    """Return whether the job is a service, also before its server has counted anything."""
    return document.service is not None or SERVING in document.tags


def _moment(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def _warnings(document: JobDoc) -> list[Block]:
    blocks: list[Block] = []
    if document.zone is None:
        blocks.append(NoticeBlock("warning", "zone-unknown", WORLD))
    if document.provisional:
        running = SERVES if _serves(document) else PROVISIONAL
        text = running if document.state == "running" else NOT_FINAL
        blocks.append(NoticeBlock("warning", "", text))
    if any(notice.code == "meter-synthetic" for notice in document.notices):
        blocks.append(NoticeBlock("warning", "meter-synthetic", SYNTHETIC))
    if document.excluded is not None:
        blocks.append(NoticeBlock("warning", "", f"{EXCLUDED}: {document.excluded}"))
    return blocks


def _zones(document: JobDoc) -> str:
    """Return the grid zone of the job, or the zones of its nodes."""
    zones = document.method.zones
    if len(zones) > 1:
        return f"{', '.join(zones)}: each node in its own"
    return document.zone or f"{UNKNOWN}; the world average is used"


def _facts(document: JobDoc) -> list[Block]:
    facts = (
        ("Name", document.name),
        ("Project", document.project),
        ("Grid zone", _zones(document)),
        ("Cloud region", document.region or "none given"),
        ("Kind of work", document.kind),
        ("Model", document.model_id or "none given"),
        *ai_facts(document),
        *_tags(document),
    )
    return [Heading("The job"), Facts(facts, quoted=True)]


def _tags(document: JobDoc) -> list[tuple[str, str]]:
    tags = ", ".join(f"{name} = {value}" for name, value in sorted(document.tags.items()))
    return [("Tags", tags)] if tags else []


def _meter_cost(document: JobDoc) -> list[Block]:
    method, duration_s = document.method, document.duration_s
    cpu_s, rss_b, energy_j = method.meter_cpu_s, method.meter_rss_b, method.meter_energy_j
    if cpu_s is None:
        return []
    share = f", {percent(cpu_s / duration_s)} of one core over the job" if duration_s else ""
    memory = f" and at most {number(mib_from_bytes(rss_b), 3)} MiB of memory" if rss_b else ""
    sentence = f"Measuring took {number(cpu_s, 2)} s of processor time{share}{memory}."
    if energy_j is not None:
        sentence += f" That is about {text(energy_j)} of the host's energy, by a model."
    return [Heading("What measuring cost"), Text(sentence)]
