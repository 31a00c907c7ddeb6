"""The short report of a job: its score, why, what to do, what is uncertain, and where from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gramwatt.reports.charts import data_table, tip
from gramwatt.reports.charts_job import bar, waterfall
from gramwatt.reports.model import (
    Block,
    Cell,
    Chart,
    Column,
    Facts,
    Figure,
    Figures,
    Heading,
    Listing,
    Pair,
    Table,
    Text,
)
from gramwatt.reports.sections.common import (
    GRADES,
    WARNING_CODES,
    cell,
    declared,
    headline,
    notice_blocks,
)
from gramwatt.sci.base.document import DeviceDoc, JobDoc
from gramwatt.sci.base.formatting import (
    UNKNOWN,
    count_text,
    percent,
    prefix,
    shown,
    text,
    value_text,
)
from gramwatt.sci.base.quantity import (
    METERED,
    Quantity,
    QuantityDoc,
    is_estimate,
    sources_of,
    total,
)
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.journal.corrections import declared_counts

MAX_ROWS = 6
"""Rows of a table of the short report."""
MAX_NOTICES, MAX_SOURCES = 3, 2
TERMS_OF_TOTAL = (
    ("Electricity (O)", "operational_g"),
    ("Making the hardware (M)", "embodied_g"),
    ("Total (C = O + M)", "total_g"),
)


def summary_blocks(document: JobDoc, saving: str) -> list[Block]:
    """Return the score and the total, what they are made of in a sentence, and `saving`."""
    score = "Carbon" if document.conformance == "not-sci" else "SCI"
    scores = [
        headline(
            f"{score} per {row.unit}",
            row.g_per_unit,
            f"R = {count_text(row.count)} {row.unit}",
            lead=True,
        )
        for row in document.sci
    ]
    whole = headline("Total carbon (O + M)", document.total_g, lead=True)
    sentences = " ".join(words for words in (_halves(document), saving) if words)
    return [
        Heading("Summary"),
        Figures((*scores, whole)),
        Text(sentences, strong=True),
        Figures(_factors(document)),
    ]


def _halves(document: JobDoc) -> str:
    """Return how much of the total is electricity."""
    whole, operational = document.total_g, document.operational_g
    if whole is None or operational is None:
        missing = [name for name, term in TERMS_OF_TOTAL[:2] if getattr(document, term) is None]
        return f"The total is not known, because a term is not: {', '.join(missing)}."
    if not whole["value"]:
        return "No carbon was emitted, as far as is known."
    share = operational["value"] / whole["value"]
    made = "making the hardware that it used"
    return f"{percent(share)} comes from electricity, {percent(1 - share)} from {made}."


def _factors(document: JobDoc) -> tuple[Figure, ...]:
    method = document.method
    intensity = None if document.energy_kwh is None else method.intensity_g_per_kwh
    return (
        headline("Energy (E)", document.energy_kwh),
        headline("Grid intensity (I)", intensity),
        headline("Site overhead (PUE)", method.pue),
        headline("Embodied carbon (M)", document.embodied_g),
    )


def why_blocks(document: JobDoc) -> list[Block]:
    """Return the total as a waterfall of its terms, with their ranges; empty where none is
    known.
    """
    known = [(name, getattr(document, term)) for name, term in TERMS_OF_TOTAL]
    if any(figure is None for _, figure in known) or not known[-1][1]["value"]:
        return []
    size, unit = prefix(known[-1][1]["value"], "gCO2e")
    (operational_name, operational), (embodied_name, embodied), (total_name, whole) = known
    metered = sum(document.data_quality.energy.get(kind, 0.0) for kind in METERED)
    read_g = operational["value"] * metered
    ends = operational["value"], whole["value"]
    tips = [tip(name, figure) for name, figure in known]
    read = [*tips[0], f"{percent(metered)} of the energy metered"]
    bars = [
        bar(operational_name, 0.0, read_g, size, read, estimated=False),
        bar(operational_name, read_g, ends[0], size, read, estimated=True),
        bar(embodied_name, *ends, size, tips[1], estimated=is_estimate(embodied)),
        bar(total_name, 0.0, ends[1], size, tips[2], estimated=is_estimate(whole)),
    ]
    rows = [
        _total(operational_name, operational, 0.0, size),
        _total(embodied_name, embodied, operational["value"], size),
        _total(total_name, whole, 0.0, size),
    ]
    caption = (
        f"From electricity and hardware to the total, in {unit}. Lines are ranges; striped bars "
        "are estimated, not metered."
    )
    lines = [
        (name, Pair(value_text(doc), "", is_estimate(doc)), shown(doc).span, doc["kind"])
        for name, doc in known
    ]
    table = data_table(caption, ("Term", "Value", "Range", "Kind"), lines)
    alt = "; ".join(f"{name} {row['label']}" for (name, _), row in zip(known, rows, strict=True))
    bars = [part for part in bars if part["x"] != part["x2"]]
    return [Heading("Why"), Chart(caption, f"Waterfall: {alt}.", waterfall(bars, rows), table)]


def _total(name: str, figure: QuantityDoc, before_g: float, size: float) -> dict[str, object]:
    """Return a row of the waterfall: the range where its bar ends, and the figure as text."""
    low, high = ((before_g + figure[end]) / size for end in ("low", "high"))
    printed = shown(figure)
    span = f" ({printed.span})" if printed.span else ""
    label = f"{printed.with_unit(printed.value)}{span}"
    return {"name": name, "low": low, "high": high, "end": high, "label": label}


def uncertain_blocks(document: JobDoc, *, full: bool) -> list[Block]:
    """Return what limits the score: grade, widest uncertainty, conformance, deviations, warnings.

    The `full` report has all notices further below.
    """
    grade = document.data_quality.grade
    facts = [
        ("Data quality", f"grade {grade} of A to D: {GRADES.get(grade, 'no description')}"),
        ("Widest uncertainty", document.method.largest_uncertainty or UNKNOWN),
        ("Conformance", declared(document.conformance)),
    ]
    if document.corrections:
        fields = dict.fromkeys(row.field for row in document.corrections)
        facts.append(("Declared afterwards", ", ".join(fields)))
    blocks: list[Block] = [Heading("What is uncertain"), Facts(tuple(facts))]
    if document.deviations:
        blocks += [Heading("Deviations", 2), Listing(tuple(document.deviations))]
    warnings = [n for n in document.notices if n.code in WARNING_CODES]
    blocks += notice_blocks(warnings[:MAX_NOTICES])
    left = 0 if full else len(document.notices) - len(warnings[:MAX_NOTICES])
    return [*blocks, *([Text(f"{left} more notices are in the full report.")] if left else [])]


def energy_blocks(devices: Sequence[DeviceDoc]) -> list[Block]:
    """Energy and embodied carbon by kind of device, and of several nodes by node."""
    kinds: dict[str, list[DeviceDoc]] = defaultdict(list)
    nodes: dict[str, list[DeviceDoc]] = defaultdict(list)
    for device in devices:
        kinds[f"{device.device_class} {device.name}"].append(device)
        nodes[device.node].append(device)
    if not kinds:
        return []
    note = "CPU and memory share the embodied carbon of their host."
    columns = (
        Column("Devices", weight=2.4),
        Column("Energy", "right", 1.2),
        Column("Kind", weight=0.9),
        Column("Mean use", "right", 0.7),
        Column("Embodied", "right", 1.2),
    )
    ordered = sorted(kinds.values(), key=lambda found: -_joules(found))
    rows = tuple(map(_alike, ordered[:MAX_ROWS]))
    left = len(ordered) - len(rows)
    note = f"{left} more kinds are in the full report. " if left else ""
    note += "The energy of a host is that of its CPU and memory; its embodied carbon is theirs too."
    table = Table("Energy and embodied carbon by kind of device", columns, rows, note)
    return [table, *_nodes(list(nodes.items()))]


def _nodes(nodes: Sequence[tuple[str, list[DeviceDoc]]]) -> list[Block]:
    """Return the energy of each of several nodes, as a sentence."""
    if len(nodes) < 2:
        return []
    named = [f"{name} {text(_energy(devices))}" for name, devices in nodes[:MAX_ROWS]]
    left = len(nodes) - len(named)
    more = f", and {left} more in the full report" if left else ""
    return [Text(f"By node: {', '.join(named)}{more}.")]


def _energy(devices: Sequence[DeviceDoc]) -> QuantityDoc | None:
    """Return the sum [kWh]; the errors of meters are each one's own."""
    figures = [device.energy_j for device in devices if device.device_class != "host"]
    known = [Quantity.from_doc(figure) for figure in figures if figure is not None]
    whole = total(figure.as_input(f"meter {n}") for n, figure in enumerate(known))
    if whole is None or len(known) < len(figures):
        return None
    return whole.scaled(1 / J_PER_KWH, "kWh").to_doc()


def _joules(devices: Sequence[DeviceDoc]) -> float:
    return sum(device.energy_j["value"] for device in devices if device.energy_j)


def _alike(devices: Sequence[DeviceDoc]) -> tuple[Cell, ...]:
    """Return the row of devices of one name."""
    first, n = devices[0], len(devices)
    nodes = list(dict.fromkeys(device.node for device in devices))
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    energy: Cell = ""
    if first.device_class != "host":
        energy = cell(_energy(devices))
    embodied: Cell = ""
    if first.device_class not in ("cpu", "ram"):
        embodied = cell(_sum([device.embodied_g for device in devices]))
    name = f"{n} × {first.name}" if n > 1 else first.name
    return Pair(name, f"on {where}"), energy, _main_kind(devices), _mean_use(devices), embodied


def _main_kind(devices: Sequence[DeviceDoc]) -> str:
    """Return the kind of most of their energy."""
    joules: dict[str, float] = defaultdict(float)
    for device in devices:
        for kind, amount in device.kinds.items():
            joules[kind] += amount
    return max(joules, key=joules.__getitem__) if joules else ""


def _mean_use(devices: Sequence[DeviceDoc]) -> str:
    used = [d.mean_utilisation for d in devices if d.mean_utilisation is not None]
    return percent(sum(used) / len(used)) if used else ""


def _sum(figures: Sequence[QuantityDoc | None]) -> QuantityDoc | None:
    """Return the sum; None where one is not known."""
    known = [Quantity.from_doc(figure) for figure in figures if figure is not None]
    whole = total(known) if len(known) == len(figures) else None
    return whole.to_doc() if whole else None


def obtained_blocks(document: JobDoc) -> list[Block]:
    """Return how each figure of the score was obtained: its value, kind and sources."""
    method = document.method
    columns = (
        Column("Figure", weight=1.3),
        Column("Kind", weight=0.8),
        Column("Source", weight=3.6),
    )
    figures = (
        ("E, energy", document.energy_kwh),
        ("I, grid intensity", method.intensity_g_per_kwh),
        ("PUE", method.pue),
        ("M, embodied carbon", document.embodied_g),
    )
    rows: list[tuple[Cell, ...]] = [
        (name, figure["kind"] if figure else UNKNOWN, _sources(figure)) for name, figure in figures
    ]
    stated = declared_counts((row.field, row.value) for row in document.corrections)
    for row in document.sci:
        source = "one job" if row.unit == "job" else "counted by the job"
        kind, source = ("declared", "afterwards") if row.unit in stated else ("exact", source)
        rows.append((f"R, {count_text(row.count)} {row.unit}", kind, source))
    return [Table("How each figure was obtained", columns, tuple(rows))]


def _sources(figure: QuantityDoc | None) -> str:
    if figure is None:
        return "not known: the notices say why"
    parts = sources_of(figure)
    left = len(parts) - MAX_SOURCES
    return "; ".join(parts[:MAX_SOURCES]) + (f"; and {left} more" if left > 0 else "")
