"""The report of one job: its score, why, what to do, what is uncertain, and where from.

The short report is about two pages; the full one has every figure behind the score
(`job_sections.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gramwatt.reports import job_sections as details
from gramwatt.reports.charts import bar, tip, waterfall, waterfall_total
from gramwatt.reports.model import (
    Block,
    Cell,
    Chart,
    Document,
    Facts,
    Figure,
    Figures,
    Heading,
    Listing,
    NoticeBlock,
    Pair,
    Table,
    Text,
)
from gramwatt.reports.sections import (
    GRADES,
    WARNING_CODES,
    Field,
    Section,
    capitalised,
    contents,
    data_table,
    declared,
    first_of,
    headline,
    notice_blocks,
    reference,
    saving,
    table,
)
from gramwatt.reports.timeseries import timeseries_blocks
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.document import DeviceDoc, JobDoc, WindowDoc
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.formatting import (
    GRADE_WORDS,
    UNKNOWN,
    change_range,
    change_text,
    count_text,
    duration,
    percent,
    prefix,
    shown,
    text,
    value_text,
)
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import METERED, Quantity, is_estimate, total
from gramwatt.sci.records.corrections import declared_counts
from gramwatt.sci.records.records import SERVING, parse_time
from gramwatt.sci.suggest.documents import BASES, HARDWARE, SuggestDoc
from gramwatt.sci.suggest.jobs import TOP, advised, for_job, software_of

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
EXCLUDED = "This job is left out of monthly reports"
MORE = (
    "The full report has the calculation, every device, notice, input and source, and "
    "the method: gramwatt report job {job_id} --full"
)
PLACE = (
    "Say where the job ran, so that its score can be an SCI: gramwatt job {job_id} --set zone=DE"
)
NOTHING = "No change is known that would probably emit less."
SHORT = "below resolution"
MAX_ROWS, MAX_NOTICES, MAX_SOURCES, MAX_WINDOWS = 6, 3, 2, 6
"""Rows of the short report's tables, its warnings, sources of a figure, and windows."""
FULL_WINDOWS = 50
TITLE_MOST = 90
"""Characters of a name in the title; the full report has all of it."""
TERMS_OF_TOTAL = (
    ("Electricity", "operational_g"),
    ("Making the hardware", "embodied_g"),
    ("Total", "total_g"),
)


class JobData(NamedTuple):
    """What the report of a job is made of; no suggestions where there can be none."""

    document: JobDoc
    advice: SuggestDoc | None
    full: bool


def build(document: JobDoc, advice: SuggestDoc | None = None, *, full: bool = False) -> Document:
    """Return the report of a job document on about two pages, with `full` of every figure behind
    it.

    Without `advice`, the suggestions are those of the packaged catalog.
    """
    data = JobData(document, advice or packaged_advice(document), full)
    names = {
        *(row.unit for row in document.sci),
        *(device.node for device in document.devices),
        *(window.name for window in document.windows),
    }
    sections = [section for section in SECTIONS if full or section.short]
    more = [] if full else [Text(MORE.format(job_id=document.job_id))]
    return Document(
        f"Energy and carbon of {_title(document.name)}",
        _subtitle(document),
        (document.ended_at or document.started_at)[:10],
        (*_warnings(document), *contents(sections, data), *more),
        reference(
            document if advice is None else [document, advice],
            f"job {document.job_id}, revision {document.revision}",
        ),
        glossary=full,
        names=tuple(names),
    )


def packaged_advice(document: JobDoc) -> SuggestDoc | None:
    """Return the suggestions by the packaged catalog alone; None where there can be none."""
    try:
        return for_job(document, load_catalog())
    except GramwattError:
        return None


def _title(name: str) -> str:
    return isolated(name if len(name) <= TITLE_MOST else f"{name[:TITLE_MOST]}…")


def _subtitle(document: JobDoc) -> str:
    state, start = document.state, document.started_at
    if document.exit_code:
        state = f"{state} with exit code {document.exit_code}"
    status = "provisional" if document.provisional else "final"
    kind = "Service" if _serves(document) else "Job"
    took = "running for" if document.state == "running" else "took"
    return (
        f"{kind} {document.job_id} in project {_title(document.project)}, {state}; started "
        f"{start[:10]} {start[11:16]} UTC, {took} {duration(document.duration_s)}. "
        f"Revision {document.revision}, {status}."
    )


def _serves(document: JobDoc) -> bool:
    """Return whether the job is a service, also before its server has counted anything."""
    return document.service is not None or SERVING in document.tags


def _warnings(document: JobDoc) -> list[Block]:
    blocks: list[Block] = []
    if document.zone is None:
        blocks.append(NoticeBlock("warning", "zone-unknown", WORLD))
    if document.provisional:
        running = SERVES if _serves(document) else PROVISIONAL
        sentence = running if document.state == "running" else NOT_FINAL
        blocks.append(NoticeBlock("warning", "", sentence))
    if any(notice.code == "meter-synthetic" for notice in document.notices):
        blocks.append(NoticeBlock("warning", "meter-synthetic", SYNTHETIC))
    if document.excluded is not None:
        blocks.append(NoticeBlock("warning", "", f"{EXCLUDED}: {isolated(document.excluded)}"))
    return blocks


# Summary and why


def _summary(data: JobData) -> list[Block]:
    """Return the score and the total, what they are made of in a sentence, and what would help."""
    document, method = data.document, data.document.method
    label = "Carbon" if document.conformance == "not-sci" else "SCI"
    scores = [
        headline(
            f"{label} per {isolated(row.unit)}",
            row.g_per_unit,
            f"for {count_text(row.count)} {row.unit}",
            lead=True,
        )
        for row in document.sci
    ]
    whole = headline("Total carbon", document.total_g, lead=True)
    if document.total_g is None and document.operational_g is not None:
        whole = headline("Carbon of electricity", document.operational_g, lead=True)
    intensity = None if document.energy_kwh is None else method.intensity_g_per_kwh
    factors: tuple[Figure, ...] = (
        headline("Energy", document.energy_kwh),
        headline("Grid intensity", intensity),
        headline("Site overhead (PUE)", method.pue),
        headline("Making the hardware", document.embodied_g),
    )
    sentences = f"{_halves(document)} {_helps(data.advice)}"
    return [Figures((*scores, whole)), Text(sentences, strong=True), Figures(factors)]


def _helps(advice: SuggestDoc | None) -> str:
    """Return what would help most, without the ranges that the table of suggestions has."""
    first = next(iter(advised(advice)), None) if advice else None
    if advice is None or first is None or first.saved_g is None:
        return saving_sentence(advice)
    best = next(row for row in advice.answers if row.advised)
    here = "" if first is best else " on what you have"
    saves = f"{change_text(first.carbon_ratio)} carbon, {value_text(first.saved_g)} saved"
    what = f"change to {first.label}" if first.action in HARDWARE else first.label
    return f"What would help most{here}: {what}, {saves} ({first.verdict})."


def _halves(document: JobDoc) -> str:
    """Return how much of the total is electricity."""
    whole, operational = document.total_g, document.operational_g
    if whole is None or operational is None:
        missing = [name for name, term in TERMS_OF_TOTAL[:2] if getattr(document, term) is None]
        return f"The total is not known, because this is not counted: {', '.join(missing)}."
    if not whole.value:
        return "No carbon was emitted, as far as is known."
    share = operational.value / whole.value
    hardware = "making the hardware that it used"
    return f"{percent(share)} comes from electricity, {percent(1 - share)} from {hardware}."


def _has_total(data: JobData) -> bool:
    figures = [getattr(data.document, term) for _, term in TERMS_OF_TOTAL]
    return all(figures) and bool(figures[-1].value)


def _why(data: JobData) -> list[Block]:
    """Return the total as a waterfall of its terms, with their ranges."""
    document = data.document
    figures = [(name, getattr(document, term)) for name, term in TERMS_OF_TOTAL]
    (electricity, operational), (hardware, embodied), (both, whole) = figures
    size, unit = prefix(whole.value, "gCO2e")
    metered = sum(document.data_quality.energy.get(kind, 0.0) for kind in METERED)
    read_g, end_g, total_g = operational.value * metered, operational.value, whole.value
    words = [*tip(electricity, operational), f"{percent(metered)} of the energy metered"]
    bars = [
        bar(electricity, 0.0, read_g, size, words, estimated=False),
        bar(electricity, read_g, end_g, size, words, estimated=True),
        bar(
            hardware, end_g, total_g, size, tip(hardware, embodied), estimated=is_estimate(embodied)
        ),
        bar(both, 0.0, total_g, size, tip(both, whole), estimated=is_estimate(whole)),
    ]
    starts = (0.0, end_g, 0.0)
    rows = [_total(*figure, start, size) for figure, start in zip(figures, starts, strict=True)]
    caption = (
        f"From electricity and hardware to the total, in {unit}. Lines are ranges; striped bars "
        "are estimated, not metered."
    )
    lines = [
        (name, Pair(value_text(doc), "", is_estimate(doc)), shown(doc).span, doc.kind)
        for name, doc in figures
    ]
    data_behind = data_table(caption, ("Term", "Value", "Range", "Kind"), lines)
    alt = "; ".join(f"{row['name']} {row['label']}" for row in rows)
    drawn = [part for part in bars if part["x"] != part["x2"]]
    wide, narrow = waterfall(drawn, rows), waterfall(drawn, rows, narrow=True)
    return [Chart(caption, f"Waterfall: {alt}.", wide, data_behind, narrow=narrow)]


def _total(name: str, figure: Quantity, before_g: float, size: float) -> dict[str, float | str]:
    """Return a row of the waterfall: the range where its bar ends, and the figure as text."""
    words = shown(figure)
    span = f" ({words.span})" if words.span else ""
    label = f"{words.with_unit(words.value)}{span}"
    return waterfall_total(name, before_g + figure.low, before_g + figure.high, size, label)


# What to do


def _what_to_do(data: JobData) -> list[Block]:
    """Return the suggestions for the job, or that none is known."""
    document, advice = data.document, data.advice
    blocks: list[Block] = []
    if document.zone is None:
        blocks.append(Text(PLACE.format(job_id=document.job_id)))
    notices = advice.notices if advice else []
    flags = [notice.message for notice in notices if notice.code.startswith("flag-")]
    suggestions = advised(advice)[:TOP] if advice else []
    answer = [] if suggestions else [saving_sentence(advice)]  # else the summary has it
    blocks += [Text(line) for line in (*answer, *flags, *_software(document))]
    if not suggestions:
        return blocks
    rows = table(
        "What would emit less for the same work",
        suggestions,
        Field("Change", lambda row: capitalised(row.label), 2.0),
        Field("Carbon", lambda row: _change(row.carbon_ratio), 1.5),
        Field("Saves", saving, align="right"),
        Field("How sure", lambda row: row.verdict, 1.0),
        Field("Why", lambda row: row.reasons[0] if row.reasons else BASES[row.basis], 3.0),
        note="Sure: better in at least 9 of 10 such cases; likely: in at least 7. Ranges hold the "
        "change in 8 of 10.",
    )
    return [*blocks, rows]


def saving_sentence(advice: SuggestDoc | None) -> str:
    """Return the answer of the suggestions: what would help most, or why nothing is suggested."""
    return advice.summary if advice else NOTHING


def _software(document: JobDoc) -> list[str]:
    """Return the software that the suggestions assume, with where it is known from."""
    tags = document.tags
    names = [
        f"{name} {isolated(value)} ({'a tag' if name in tags else 'recorded by the job'})"
        for name, value in software_of(document).items()
    ]
    return [f"Suggestions for {', '.join(names)}."] if names else []


def _change(ratio: Quantity | None) -> Cell:
    """Return how much less carbon a change takes, with the range."""
    return Pair(change_text(ratio), change_range(ratio)) if ratio else UNKNOWN


# What is uncertain


def _uncertain(data: JobData) -> list[Block]:
    """Return what limits the score: grade, widest uncertainty, conformance, deviations, warnings.

    The full report has all notices further below.
    """
    document = data.document
    grade = document.data_quality.grade
    facts = [
        (
            "Data quality",
            f"{GRADE_WORDS.get(grade, UNKNOWN)} (grade {grade}): {GRADES.get(grade, '')}",
        ),
        ("Widens the range most", document.method.largest_uncertainty or UNKNOWN),
        ("Score", declared(document.conformance)),
    ]
    if document.corrections:
        fields = dict.fromkeys(row.field for row in document.corrections)
        facts.append(("Declared afterwards", ", ".join(fields)))
    blocks: list[Block] = [Facts(tuple(facts))]
    if document.deviations:
        blocks += [Heading("Remarks", 2), Listing(tuple(document.deviations))]
    warnings = [row for row in document.notices if row.code in WARNING_CODES][:MAX_NOTICES]
    blocks += notice_blocks(warnings)
    more = 0 if data.full else len(document.notices) - len(warnings)
    return [*blocks, *([Text(f"{more} more notices are in the full report.")] if more else [])]


# Where the energy went


def _energy(data: JobData) -> list[Block]:
    document = data.document
    return [
        *timeseries_blocks(document.series, document.windows),
        *_by_kind(document.devices),
        *_by_window(document.windows, FULL_WINDOWS if data.full else MAX_WINDOWS),
        _obtained(document),
    ]


def _by_kind(devices: Sequence[DeviceDoc]) -> list[Block]:
    """Energy and embodied carbon by kind of device, and of several nodes by node."""
    kinds: dict[str, list[DeviceDoc]] = defaultdict(list)
    nodes: dict[str, list[DeviceDoc]] = defaultdict(list)
    for device in devices:
        kinds[f"{device.device_class} {device.name}"].append(device)
        nodes[device.node].append(device)
    if not kinds:
        return []
    ordered = sorted(kinds.values(), key=lambda alike: -_joules(alike))
    more = max(0, len(ordered) - MAX_ROWS)
    note = f"{more} more kinds are in the full report. " if more else ""
    note += "The energy of a host is that of its CPU and memory; its embodied carbon is theirs too."
    by_kind = table(
        "Energy and embodied carbon by kind of device",
        ordered[:MAX_ROWS],
        Field("Devices", _alike, 2.4),
        Field(
            "Energy",
            lambda alike: "" if alike[0].device_class == "host" else _kwh(alike),
            1.2,
            "right",
        ),
        Field("Kind", _main_kind, 0.9),
        Field("Mean use", _mean_use, 0.7, "right"),
        Field("Embodied", _embodied, 1.2, "right"),
        note=note,
    )
    if len(nodes) < 2:
        return [by_kind]
    first = list(nodes.items())[:MAX_ROWS]
    named = ", ".join(f"{isolated(name)} {text(_kwh(of_node))}" for name, of_node in first)
    rest = len(nodes) - len(first)
    more_nodes = f", and {rest} more in the full report" if rest else ""
    return [by_kind, Text(f"By node: {named}{more_nodes}.")]


def _alike(devices: Sequence[DeviceDoc]) -> Pair:
    """Return devices of one name, with where they are."""
    first, n = devices[0], len(devices)
    nodes = list(dict.fromkeys(device.node for device in devices))
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    return Pair(f"{n} × {first.name}" if n > 1 else first.name, f"on {where}")


def _kwh(devices: Sequence[DeviceDoc]) -> Quantity | None:
    """Return the sum [kWh]; the errors of meters are each one's own."""
    figures = [device.energy_j for device in devices if device.device_class != "host"]
    read = [figure for figure in figures if figure is not None]
    whole = total(figure.as_input(f"meter {n}") for n, figure in enumerate(read))
    return details.kwh(whole) if len(read) == len(figures) else None


def _joules(devices: Iterable[DeviceDoc]) -> float:
    return sum(device.energy_j.value for device in devices if device.energy_j)


def _main_kind(devices: Sequence[DeviceDoc]) -> str:
    """Return the kind of most of their energy."""
    joules: dict[str, float] = defaultdict(float)
    for device in devices:
        for kind, amount in device.kinds.items():
            joules[kind] += amount
    return max(joules, key=joules.__getitem__) if joules else ""


def _mean_use(devices: Sequence[DeviceDoc]) -> str:
    used = [row.mean_utilisation for row in devices if row.mean_utilisation is not None]
    return percent(sum(used) / len(used)) if used else ""


def _embodied(devices: Sequence[DeviceDoc]) -> Quantity | str | None:
    """Return the sum; None where one is not known, and "" of what is in the row of the host."""
    if devices[0].device_class in ("cpu", "ram"):
        return ""
    figures = [row.embodied_g for row in devices if row.embodied_g is not None]
    whole = total(figures) if len(figures) == len(devices) else None
    return whole.bare() if whole else None


def _by_window(windows: Sequence[WindowDoc], most: int) -> list[Block]:
    """Return a table of the first windows in order of time; empty for a job without any."""
    if not windows:
        return []
    rows = table(
        "Energy of the job's windows",
        windows[:most],
        Field("Window", lambda window: window.name, 2.0),
        Field("Duration", _lasted, 0.8, "right"),
        Field("Energy", _window_energy, 1.2, "right"),
        Field("Count", _counts, 1.2, "right"),
        Field("Energy per unit", _per_unit, 1.4, "right"),
        note=first_of(most, len(windows)),
    )
    return [rows]


def _lasted(window: WindowDoc) -> str:
    return duration((parse_time(window.end) - parse_time(window.start)).total_seconds())


def _window_energy(window: WindowDoc) -> Quantity | str:
    if window.energy_j is None:
        return SHORT if window.below_resolution else UNKNOWN
    return window.energy_kwh or window.energy_j


def _counts(window: WindowDoc) -> str:
    return ", ".join(f"{count_text(n)} {isolated(unit)}" for unit, n in window.counts.items())


def _per_unit(window: WindowDoc) -> Quantity | str:
    if window.energy_j is None:
        return ""
    return next((figure for figure in window.energy_j_per_unit.values() if figure), "")


def _obtained(document: JobDoc) -> Table:
    """Return how each figure of the score was obtained: its value, kind and sources."""
    figures = (
        ("Energy", document.energy_kwh),
        ("Grid intensity", document.method.intensity_g_per_kwh),
        ("Site overhead (PUE)", document.method.pue),
        ("Making the hardware", document.embodied_g),
    )
    rows = [
        (name, figure.kind if figure else UNKNOWN, _sources(figure)) for name, figure in figures
    ]
    stated = declared_counts((row.field, row.value) for row in document.corrections)
    for row in document.sci:
        source = "one job" if row.unit == "job" else "counted by the job"
        kind, source = ("declared", "afterwards") if row.unit in stated else ("exact", source)
        rows.append((f"Work: {count_text(row.count)} {row.unit}", kind, source))
    return table(
        "How each figure was obtained",
        rows,
        Field("Figure", lambda row: row[0], 1.3),
        Field("Kind", lambda row: row[1], 0.8),
        Field("Source", lambda row: row[2], 3.6),
    )


def _sources(figure: Quantity | None) -> str:
    if figure is None:
        return "not known: the notices say why"
    parts = figure.sources
    more = len(parts) - MAX_SOURCES
    return "; ".join(parts[:MAX_SOURCES]) + (f"; and {more} more" if more > 0 else "")


SECTIONS: tuple[Section[JobData], ...] = (
    Section("Summary", _summary, short=True),
    Section(
        "The service",
        lambda job: details.service(job.document, full=job.full),
        lambda job: job.document.service,
        short=True,
    ),
    Section("Why", _why, _has_total, short=True),
    Section("What to do", _what_to_do, short=True),
    Section("What is uncertain", _uncertain, short=True),
    Section("Where the energy went", _energy, short=True),
    Section("The job", lambda job: details.facts(job.document)),
    Section("The score and its terms", lambda job: details.score(job.document)),
    Section("Devices", lambda job: details.devices(job.document.devices)),
    Section("Data quality", lambda job: details.quality(job.document)),
    Section(
        "Corrections",
        lambda job: details.corrections(job.document.corrections),
        lambda job: job.document.corrections,
    ),
    Section("Notices", lambda job: details.notices(job.document)),
    Section("Sources", lambda job: details.sources(job.document)),
    Section("Method and boundary", lambda job: details.method(job.document)),
    Section(
        "What measuring cost",
        lambda job: details.meter_cost(job.document),
        lambda job: job.document.method.meter_cpu_s is not None,
    ),
)
"""Every section of a job's report, in order."""
