"""The report of one job: what it cost, how that is known, and what stands against it."""

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
    known_or,
    method_blocks,
    notice_blocks,
    quality_blocks,
    reference,
    source_table,
    terms,
)
from gramwatt.reports.sections.devices import device_blocks
from gramwatt.reports.sections.scoring import score_blocks
from gramwatt.reports.sections.supplementary import ai_facts, gap_blocks, memo_blocks
from gramwatt.reports.sections.timeseries import over_time
from gramwatt.reports.sections.windows import window_blocks
from gramwatt.sci.advice.documents import AdviceDoc
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.formatting import UNKNOWN, count_text, duration, number, percent, text
from gramwatt.sci.base.units import mib_from_bytes

WORLD = (
    "The grid zone of this job is not known, so the world average intensity stands in for it. The "
    "figures below are not an SCI score: name the zone or cloud region to get one."
)


def build(document: JobDoc, advice: AdviceDoc | None = None) -> Document:
    """The report of a job document, with this advice or that of the packaged catalog."""
    data = document if advice is None else [document, advice]
    blocks = [
        *_warnings(document),
        *_summary(document),
        *score_blocks(document),
        *over_time(document["series"]),
        *device_blocks(document["devices"]),
        *window_blocks(document["windows"]),
        *quality_blocks(document["data_quality"], whole=document["energy_kwh"] is not None),
        *advice_blocks(document, advice),
        Heading("Notices"),
        *(notice_blocks(document["notices"]) or [Text("There are none.")]),
        Heading("Sources"),
        source_table((row["what"], row["figure"]) for row in document["method"]["inputs"]),
        *gap_blocks(document),
        *method_blocks(document["method"]),
        *memo_blocks(document["memo"]),
        *audit_blocks(document),
        *_own_cost(document),
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
        said = "The job had not ended when this was made: every figure is provisional."
        blocks.append(NoticeBlock("warning", "", said))
    if any(notice["code"] == "meter-synthetic" for notice in document["notices"]):
        said = (
            "Readings of this job come from a synthetic or replayed meter, not from hardware. The "
            "figures below are not an SCI score."
        )
        blocks.append(NoticeBlock("warning", "meter-synthetic", said))
    return blocks


def _zones(document: JobDoc) -> str:
    """The grid zones of the job: one, or those of its nodes."""
    zones = document["method"].get("zones") or []  # documents of earlier revisions have none
    if len(zones) > 1:
        return f"{', '.join(zones)}: each node in its own"
    return known_or(document["zone"], f"{UNKNOWN}; the world average is used")


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
        ("Widest uncertainty", known_or(document["method"]["largest_uncertainty"])),
        ("Grid zone", _zones(document)),
        ("Cloud region", known_or(document["region"], "none given")),
        ("Kind of work", document["kind"]),
        ("Model", known_or(document["model_id"], "none given")),
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
    said = ", ".join(f"{name} = {value}" for name, value in sorted(document["tags"].items()))
    return [("Tags", said)] if said else []


def _deviations(document: JobDoc) -> list[Block]:
    if document["deviations"]:
        return [Listing(tuple(document["deviations"]))]
    return [Text("No deviation from the standard is known.")]


def _own_cost(document: JobDoc) -> list[Block]:
    spent, memory = document["method"]["meter_cpu_s"], document["method"]["meter_rss_b"]
    if spent is None:
        return []
    held = f" and at most {number(mib_from_bytes(memory), 3)} MiB of memory" if memory else ""
    length = document["duration_s"]
    share = f", {percent(spent / length)} of one core over the job" if length else ""
    said = f"Measuring took {number(spent, 2)} s of processor time{share}{held}."
    energy = document["method"]["meter_energy_j"]
    if energy is not None:
        said += f" That is about {text(energy)} of the host's energy, by a model."
    return [Heading("What measuring cost"), Text(said)]
