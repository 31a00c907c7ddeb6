"""The report of one job: its score, the figures behind it, data quality and method."""

from __future__ import annotations

from gramwatt.reports.model import (
    Block,
    Document,
    Facts,
    Figures,
    Heading,
    Listing,
    NoticeBlock,
    Text,
)
from gramwatt.reports.sections.advice import advice_blocks
from gramwatt.reports.sections.audit import audit_blocks
from gramwatt.reports.sections.common import (
    declared,
    headline,
    method_blocks,
    notice_blocks,
    quality_blocks,
    reference,
    source_table,
    terms,
)
from gramwatt.reports.sections.corrections import correction_blocks
from gramwatt.reports.sections.devices import device_blocks
from gramwatt.reports.sections.hindsight import hindsight_blocks
from gramwatt.reports.sections.scoring import score_blocks
from gramwatt.reports.sections.supplementary import ai_facts, gap_blocks, memo_blocks
from gramwatt.reports.sections.timeseries import timeseries_blocks
from gramwatt.reports.sections.windows import window_blocks
from gramwatt.sci.advice.documents import AdviceDoc
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.formatting import UNKNOWN, count_text, duration, number, percent, text
from gramwatt.sci.base.units import mib_from_bytes

WORLD = (
    "The grid zone of this job is not known, so the world average intensity is used. The "
    "figures below are not an SCI score: name the zone or cloud region to get one."
)
PROVISIONAL = "The job had not ended when this was made: every figure is provisional."
SYNTHETIC = (
    "Readings of this job come from a synthetic or replayed meter, not from hardware. The figures "
    "below are not an SCI score."
)

EXCLUDED = "This job is left out of monthly reports"


def build(document: JobDoc, advice: AdviceDoc | None = None) -> Document:
    """The report of a job document; without `advice`, the packaged catalog's suggestions."""
    data = document if advice is None else [document, advice]
    blocks = [
        *_warnings(document),
        *_summary(document),
        *score_blocks(document),
        *timeseries_blocks(document["series"]),
        *device_blocks(document["devices"]),
        *window_blocks(document["windows"]),
        *quality_blocks(document["data_quality"], whole=document["energy_kwh"] is not None),
        *advice_blocks(document, advice),
        *hindsight_blocks(advice),
        *correction_blocks(document["corrections"]),
        Heading("Notices"),
        *(notice_blocks(document["notices"]) or [Text("There are none.")]),
        Heading("Sources"),
        source_table((row["what"], row["figure"]) for row in document["method"]["inputs"]),
        *gap_blocks(document),
        *method_blocks(document["method"]),
        *memo_blocks(document["memo"]),
        *audit_blocks(document),
        *_meter_cost(document),
    ]
    return Document(
        f"Energy and carbon of {document['name']}",
        _subtitle(document),
        (document["ended_at"] or document["started_at"])[:10],
        tuple(blocks),
        reference(data, f"job {document['job_id']}, revision {document['revision']}"),
    )


def _subtitle(document: JobDoc) -> str:
    state = document["state"]
    if document["exit_code"]:
        state = f"{state} with exit code {document['exit_code']}"
    return (
        f"Job {document['job_id']} in project {document['project']}, {state}; started "
        f"{_moment(document['started_at'])}, took {duration(document['duration_s'])}."
    )


def _moment(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def _warnings(document: JobDoc) -> list[Block]:
    blocks: list[Block] = []
    if document["zone"] is None:
        blocks.append(NoticeBlock("warning", "zone-unknown", WORLD))
    if document["provisional"]:
        blocks.append(NoticeBlock("warning", "", PROVISIONAL))
    if any(notice["code"] == "meter-synthetic" for notice in document["notices"]):
        blocks.append(NoticeBlock("warning", "meter-synthetic", SYNTHETIC))
    if document["excluded"] is not None:
        blocks.append(NoticeBlock("warning", "", f"{EXCLUDED}: {document['excluded']}"))
    return blocks


def _zones(document: JobDoc) -> str:
    """The grid zone of the job, or the zones of its nodes."""
    zones = document["method"].get("zones") or []  # missing in documents of earlier versions
    if len(zones) > 1:
        return f"{', '.join(zones)}: each node in its own"
    return document["zone"] or f"{UNKNOWN}; the world average is used"


def _summary(document: JobDoc) -> list[Block]:
    score = "Carbon" if document["conformance"] == "not-sci" else "SCI"
    scores = [
        headline(
            f"{score} per {row['unit']}",
            row["g_per_unit"],
            f"R = {count_text(row['count'])} {row['unit']}",
            lead=True,
        )
        for row in document["sci"]
    ]
    quality = document["data_quality"]["grade"]
    facts = (
        ("Conformance", declared(document["conformance"])),
        ("Data quality", f"grade {quality} (A best, D worst)"),
        ("Widest uncertainty", document["method"]["largest_uncertainty"] or UNKNOWN),
        ("Grid zone", _zones(document)),
        ("Cloud region", document["region"] or "none given"),
        ("Kind of work", document["kind"]),
        ("Model", document["model_id"] or "none given"),
        *ai_facts(document),
        *_tags(document),
    )
    return [
        Heading("Summary"),
        Figures((*scores, *terms(document).values())),
        Facts(facts),
        Heading("Deviations", 2),
        *_deviations(document),
    ]


def _tags(document: JobDoc) -> list[tuple[str, str]]:
    tags = ", ".join(f"{name} = {value}" for name, value in sorted(document["tags"].items()))
    return [("Tags", tags)] if tags else []


def _deviations(document: JobDoc) -> list[Block]:
    if document["deviations"]:
        return [Listing(tuple(document["deviations"]))]
    return [Text("No deviation from the standard is known.")]


def _meter_cost(document: JobDoc) -> list[Block]:
    method, duration_s = document["method"], document["duration_s"]
    cpu_s, rss_b, energy_j = method["meter_cpu_s"], method["meter_rss_b"], method["meter_energy_j"]
    if cpu_s is None:
        return []
    share = f", {percent(cpu_s / duration_s)} of one core over the job" if duration_s else ""
    memory = f" and at most {number(mib_from_bytes(rss_b), 3)} MiB of memory" if rss_b else ""
    sentence = f"Measuring took {number(cpu_s, 2)} s of processor time{share}{memory}."
    if energy_j is not None:
        sentence += f" That is about {text(energy_j)} of the host's energy, by a model."
    return [Heading("What measuring cost"), Text(sentence)]
