"""The report of one job: what it cost, how that is known, and what stands against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gramwatt.reports.audit import audit_blocks
from gramwatt.reports.charts import chart, data_table, stacked_steps
from gramwatt.reports.document import (
    Block,
    Column,
    Document,
    Facts,
    Figures,
    Heading,
    NoticeBlock,
    Table,
    Text,
)
from gramwatt.reports.sections import (
    headline,
    known_or,
    listing,
    method_blocks,
    notice_blocks,
    quality_blocks,
    source_table,
    status,
    terms,
)
from gramwatt.sci.document import DeviceDoc, JobDoc, SeriesPoint
from gramwatt.sci.figures import count_text, duration, number, percent, text
from gramwatt.sci.units import gib_from_bytes, h_from_s

WORLD = (
    "The grid zone of this job is not known, so the world average intensity stands in for it. The "
    "figures below are not an SCI score: name the zone or cloud region to get one."
)
MAX_TABLE_STEPS = 60


def build(document: JobDoc) -> Document:
    """The report of a job document."""
    state = document["state"]
    if document["exit_code"]:
        state = f"{state} with exit code {document['exit_code']}"
    subtitle = (
        f"Job {document['job_id']} in project {document['project']}, {state}; started "
        f"{_moment(document['started_at'])}, took {duration(document['duration_s'])}."
    )
    blocks = [
        *_warnings(document),
        *_summary(document),
        *_terms(document),
        *_over_time(document["series"]),
        *_devices(document["devices"]),
        *quality_blocks(document["data_quality"]),
        Heading("Notices"),
        *(notice_blocks(document["notices"]) or [Text("There are none.")]),
        Heading("Sources"),
        source_table((row["what"], row["figure"]) for row in document["method"]["inputs"]),
        *method_blocks(document["method"]),
        *audit_blocks(document),
        *_own_cost(document),
    ]
    day = (document["ended_at"] or document["started_at"])[:10]
    return Document(f"Energy and carbon of {document['name']}", subtitle, day, tuple(blocks))


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
        said = "Readings of this job come from a synthetic or replayed meter, not from hardware."
        blocks.append(NoticeBlock("warning", "meter-synthetic", said))
    return blocks


def _summary(document: JobDoc) -> list[Block]:
    scores = [
        headline(f"SCI per {row['unit']}", row["g_per_unit"], f"{count_text(row['count'])} counted")
        for row in document["sci"]
    ]
    facts = (
        ("Conformance", status(document["conformance"])),
        ("Data quality", f"grade {document['data_quality']['grade']} (A best, D worst)"),
        ("Grid zone", known_or(document["zone"])),
        ("Cloud region", known_or(document["region"], "none given")),
        ("Score revision", str(document["revision"])),
        ("Widest uncertainty", known_or(document["method"]["largest_uncertainty"])),
    )
    deviations = listing(document["deviations"], "No deviation from the standard is known.")
    return [
        Heading("Summary"),
        Figures((*terms(document), *scores)),
        Facts(facts),
        Heading("Deviations", 2),
        *deviations,
    ]


def _terms(document: JobDoc) -> list[Block]:
    """The formula with the job's own numbers in it."""
    method = document["method"]
    rows = [
        ("E", "energy of the IT equipment", text(document["energy_kwh"])),
        ("I", "carbon intensity, weighted by energy", text(method["intensity_g_per_kwh"])),
        ("PUE", "facility over IT energy, applied once", text(method["pue"])),
        ("O", "operational: sum of E x I x PUE", text(document["operational_g"])),
        ("M", "embodied: TE x TiR/EL x RR/ToR", text(document["embodied_g"])),
        ("C", "O + M", text(document["total_g"])),
    ]
    for row in document["sci"]:
        rows.append(("R", f"{row['unit']}: how many", count_text(row["count"])))
        rows.append(("SCI", f"C / R, per {row['unit']}", text(row["g_per_unit"])))
    columns = (Column("Term", weight=0.5), Column("What", weight=2), Column("Figure", "right", 2))
    return [
        Heading("The score and its terms"),
        Text(method["formula"]),
        Table("Terms of this job", columns, tuple(rows)),
    ]


def _over_time(series: Sequence[SeriesPoint]) -> list[Block]:
    if not series:
        return [Heading("Energy over time"), Text("No energy was read.")]
    start = datetime.fromisoformat(series[0]["start"])
    start = min(start, *(datetime.fromisoformat(point["start"]) for point in series))
    length = (max(datetime.fromisoformat(p["end"]) for p in series) - start).total_seconds()
    per, unit = _axis(length)
    rows, lines = [], []
    for point in series:
        begin = (datetime.fromisoformat(point["start"]) - start).total_seconds()
        end = (datetime.fromisoformat(point["end"]) - start).total_seconds()
        watts = point["energy_j"] / (end - begin)
        rows.append({"x": begin / per, "x2": end / per, "y": watts, "class": point["class"]})
        lines.append((number(begin / per, 4), point["class"], number(watts, 3), point["kind"]))
    spec = stacked_steps(
        rows, x="quantitative", x_title=f"time since the start [{unit}]", y_title="power [W]"
    )
    caption = "Mean power by device class over the job"
    table = data_table(caption, (f"Start [{unit}]", "Class", "Power [W]", "Kind"), _few(lines))
    return [Heading("Energy over time"), chart(caption, _describe(rows), spec, table)]


def _axis(length_s: float) -> tuple[float, str]:
    if length_s <= 300:
        return 1.0, "s"
    return (60.0, "min") if length_s <= 3 * 3600 else (3600.0, "h")


def _few(lines: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    step = max(1, -(-len(lines) // MAX_TABLE_STEPS))
    return lines[::step]


def _describe(rows: Sequence[dict[str, Any]]) -> str:
    peaks: dict[str, float] = defaultdict(float)
    for row in rows:
        peaks[row["class"]] = max(peaks[row["class"]], row["y"])
    said = ", ".join(f"{name} up to {number(watts, 3)} W" for name, watts in peaks.items())
    return f"Stacked bars of mean power over time: {said}."


def _devices(devices: Sequence[DeviceDoc]) -> list[Block]:
    whole = sum(d["energy_j"]["value"] for d in devices if d["energy_j"])
    columns = (
        Column("Device", weight=2.2),
        Column("Share", "right", 0.7),
        Column("Energy", "right", 1.7),
        Column("Of all", "right", 0.7),
        Column("Known as", weight=1.4),
        Column("Embodied", "right", 1.7),
    )
    rows = tuple(_device(device, whole) for device in devices)
    note = "CPU and memory share the host's embodied carbon, which has a row of its own."
    blocks: list[Block] = [
        Heading("Devices"),
        Table("Energy and embodied carbon by device", columns, rows, note),
    ]
    profile = [row for device in devices if (row := _profile(device))]
    if profile:
        titles = (Column("Device", weight=2), *(Column(t, "right") for t in _PROFILE))
        blocks.append(Table("How busy the devices were", titles, tuple(profile)))
    return blocks


def _device(device: DeviceDoc, whole_j: float) -> tuple[str, ...]:
    energy = device["energy_j"]
    kinds = device["kinds"]
    read = sum(kinds.values())
    known = ", ".join(f"{kind} {percent(j / read)}" for kind, j in kinds.items() if read)
    hosted = device["class"] in ("cpu", "ram")
    return (
        f"{device['name']} ({device['class']})",
        percent(device["share"]),
        text(energy) if device["class"] != "host" else "see CPU and memory",
        percent(energy["value"] / whole_j) if energy and whole_j else "",
        known or device["meter"],
        "in the host's row" if hosted else text(device["embodied_g"]),
    )


_PROFILE = ("Mean use", "Peak memory", "Peak power")


def _profile(device: DeviceDoc) -> tuple[str, ...] | None:
    use, memory, power = (
        device["mean_utilisation"],
        device["peak_memory_b"],
        device["max_power_w"],
    )
    if use is None and memory is None and power is None:
        return None
    return (
        device["name"],
        "" if use is None else percent(use),
        "" if memory is None else f"{number(gib_from_bytes(memory), 3)} GiB",
        "" if power is None else f"{number(power, 3)} W",
    )


def _own_cost(document: JobDoc) -> list[Block]:
    spent, memory = document["method"]["meter_cpu_s"], document["method"]["meter_rss_b"]
    if spent is None:
        return []
    hours = h_from_s(document["duration_s"] or 0.0)
    held = f" and at most {number(memory / 2**20, 3)} MiB of memory" if memory else ""
    said = f"Measuring took {number(spent, 2)} s of processor time{held}"
    share = f" over {number(hours, 2)} h" if hours >= 1 else ""
    return [Heading("What measuring cost"), Text(f"{said}{share}.")]
