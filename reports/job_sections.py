"""The sections of a job's full report: the service, the score in numbers, devices, corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gramwatt.reports.model import Block, Cell, Facts, Formula, Heading, Pair, Table, Text
from gramwatt.reports.sections import (
    TIERS,
    Field,
    method_blocks,
    notice_blocks,
    quality_blocks,
    table,
)
from gramwatt.sci.figures.document import (
    ConversionDoc,
    CorrectionDoc,
    DeviceDoc,
    EmbodiedTermDoc,
    JobDoc,
    SciDoc,
    SensitivityDoc,
    ServicePartDoc,
    ServiceRowDoc,
)
from gramwatt.sci.figures.formatting import (
    UNKNOWN,
    count_text,
    duration,
    minute_text,
    number,
    percent,
    prefix,
    shown,
    text,
    value_text,
)
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import Quantity, is_estimate, total
from gramwatt.sci.figures.units import J_PER_KWH, gib_from_bytes, mib_from_bytes
from gramwatt.sci.records.records import parse_time

SHOWN_DAYS, SHOWN_HOURS = 7, 24
"""Rows of a service in the short report, the newest."""
MODEL_DIGITS = 3
"""Significant digits of figures without a range, which show a direction only."""
SYMBOLS = "SCI = ((E × I) + M) per R, with E × I summed over every interval, times PUE once"
PARTS = {
    "prefill": "Prefill (prompt tokens computed)",
    "decode": "Decode (tokens generated)",
    "work": "Requests (not split)",
    "idle": "Idle (no request)",
}
EXPLAINED = (
    "Counted by the server itself. A token of R is a prompt token that the server computed or a "
    "token that it generated; cached prompt tokens are not in R. Prefill and decode are divided in "
    "proportion to the times of requests, which overlap in a batch: hence their wide ranges."
)
HOLDS = {
    "power_capped": "power limit",
    "thermally_slowed": "heat",
    "hardware_slowed": "board protection",
}
PROFILE_NOTE = (
    "Read every 5 to 10 s. Held back: the part of the readings in which the driver named this "
    "reason for lower clocks. The device does not report what is empty."
)


# The service


def service(document: JobDoc, *, full: bool = False) -> list[Block]:
    """Return the tables of a service.

    Of days the newest week, and hours of a service that is younger than that; with `full` all that
    the document has.
    """
    of = document.service
    if of is None:
        return []
    blocks: list[Block] = [Text(f"{EXPLAINED} {_known(of.total)}")]
    if of.total.energy_j_per_unit:
        blocks.append(_per_unit(of.total))
    blocks.append(_parts(of.total.parts))
    days, hours = of.days, of.hours
    blocks.append(_over_time("By day", "Day", days if full else days[-SHOWN_DAYS:], len(days)))
    if len(hours) > 1 and (full or len(days) <= SHOWN_DAYS):
        newest = hours if full else hours[-SHOWN_HOURS:]
        blocks.append(_over_time("By hour (UTC)", "Hour", newest, len(hours)))
    return blocks


def _known(row: ServiceRowDoc) -> str:
    length_s = (parse_time(row.end) - parse_time(row.start)).total_seconds()
    share = percent(min(1.0, row.known_s / length_s)) if length_s else UNKNOWN
    cached = count_text(row.cached_tokens)
    return f"Its counters are known for {share} of the time; {cached} prompt tokens were cached."


def _per_unit(row: ServiceRowDoc) -> Table:
    return table(
        "Per request and token, idle time included",
        row.energy_j_per_unit.items(),
        Field("Per", lambda item: item[0]),
        Field("Count", lambda item: row.counts[item[0]], align="right"),
        Field("Energy", lambda item: item[1], 1.4, "right"),
        Field("Carbon", lambda item: row.total_g_per_unit[item[0]], 1.4, "right"),
    )


def _parts(parts: Sequence[ServicePartDoc]) -> Table:
    return table(
        "What the energy was for",
        parts,
        Field("For", lambda part: PARTS[part.part], 1.6),
        Field("Energy", lambda part: kwh(part.energy_j), 1.3, "right"),
        Field("Carbon", lambda part: part.total_g, 1.3, "right"),
        Field("Energy per token", lambda part: part.energy_j_per_token or "", 1.3, "right"),
        Field("Known by", _known_by, 1.8),
        note="The parts add up to the energy of all devices of the job.",
    )


def _known_by(part: ServicePartDoc) -> str:
    energy = part.energy_j
    return f"{energy.kind}: {energy.source}" if energy else UNKNOWN


def _over_time(caption: str, first: str, rows: Sequence[ServiceRowDoc], of: int) -> Table:
    return table(
        caption,
        reversed(rows),
        Field(first, _when, 1.3),
        Field("Requests", lambda row: row.counts.get("request", ""), 0.9, "right"),
        Field("Tokens", lambda row: row.counts.get("token", ""), 0.9, "right"),
        Field("Energy", lambda row: kwh(row.energy_j), 1.2, "right"),
        Field("Idle", _idle, 0.7, "right"),
        Field("Carbon", lambda row: row.total_g, 1.2, "right"),
        Field(
            "Energy per token", lambda row: row.energy_j_per_unit.get("token") or "", 1.2, "right"
        ),
        note=f"The newest {len(rows)} of {of}; the job's JSON has all." if len(rows) < of else "",
    )


def _when(row: ServiceRowDoc) -> str:
    name = row.day or f"{row.start[:10]} {row.start[11:16]}"
    return name if row.closed else f"{name}, so far"


def _idle(row: ServiceRowDoc) -> str:
    idle = next((part.energy_j for part in row.parts if part.part == "idle"), None)
    whole = row.energy_j
    return percent(idle.value / whole.value) if idle and whole and whole.value else ""


def kwh(joules: Quantity | None) -> Quantity | None:
    """Return a figure in joules in kWh."""
    return joules.scaled(1 / J_PER_KWH, "kWh").bare() if joules else None


# The job and its score


def facts(document: JobDoc) -> list[Block]:
    """Return what the job says of itself."""
    ai, zones = document.method.sci_for_ai, document.method.zones
    zone = document.zone or f"{UNKNOWN}; the world average is used"
    if len(zones) > 1:
        zone = f"{', '.join(zones)}: each node in its own"
    optional = (
        ("SCI for AI", ai.statement),
        ("Why this unit", ai.unit_rationale),
        ("Values", ai.unit_values),
        ("Tokeniser", ai.tokeniser),
        (
            "Tags",
            ", ".join(
                f"{isolated(name)} = {isolated(value)}"
                for name, value in sorted(document.tags.items())
            ),
        ),
    )
    rows = (
        ("Name", document.name),
        ("Project", document.project),
        ("Grid zone", zone),
        ("Cloud region", document.region or "none given"),
        ("Kind of work", document.kind),
        ("Model", document.model_id or "none given"),
        *((name, value) for name, value in optional if value),
    )
    return [Facts(rows, quoted=True)]


def score(document: JobDoc) -> list[Block]:
    """Return the calculation of the score, from the formula to the result."""
    lines = (SYMBOLS, *(line for row in document.sci for line in _in_numbers(document, row)))
    widest = document.method.largest_uncertainty
    sentence = f"What widens the range most: {widest}."
    if widest is None:
        sentence = "What widens the range is not known, because a term is not known."
    return [
        Formula(lines),
        _terms(document),
        Text(sentence),
        *_conversions(document.method.conversions),
        *_embodied(document.embodied_terms),
        *_sensitivity(document.lifetime_sensitivity),
    ]


def _in_numbers(document: JobDoc, row: SciDoc) -> list[str]:
    """Return the formula with numbers, and the result, for one functional unit."""
    method, result = document.method, row.g_per_unit
    energy, embodied = value_text(document.energy_kwh), value_text(document.embodied_g)
    intensity, pue = value_text(method.intensity_g_per_kwh), value_text(method.pue)
    count = f"{count_text(row.count)} {isolated(row.unit)}"
    numbers = f"= ({energy} × {intensity} × {pue} + {embodied}) / {count}"
    if result is None:
        return [numbers, f"= {UNKNOWN}: a term is missing"]
    words = shown(result)
    ends = f" (range {words.span})" if words.span else ""
    unit, _, per = words.unit.partition("/")
    return [numbers, f"= {words.value} {unit} per {isolated(per)}{ends}"]


def _terms(document: JobDoc) -> Table:
    method = document.method
    rows: list[tuple[str, str, Quantity | str | None]] = [
        ("E", "energy of the IT equipment", document.energy_kwh),
        ("I", "grid intensity, the mean weighted by energy", method.intensity_g_per_kwh),
        ("PUE", "facility over IT energy, applied once", method.pue),
        ("O", "operational: sum of E × I, times PUE", document.operational_g),
        ("M", "embodied: sum of TE × TiR/EL × RR/ToR", document.embodied_g),
        ("C", "O + M", document.total_g),
    ]
    symbol = "C / R" if document.conformance == "not-sci" else "SCI"
    for row in document.sci:
        rows.append(("R", f"{row.unit}: how many", count_text(row.count)))
        rows.append((symbol, f"carbon per {row.unit}", row.g_per_unit))
    return table(
        "Terms of this job",
        rows,
        Field("Term", lambda row: row[0], 0.5),
        Field("What", lambda row: row[1], 2.2),
        Field("Value", lambda row: _value(row[2]), 1.2, "right"),
        Field("Range", lambda row: _range(row[2]), 1.1, "right"),
    )


def _value(figure: Quantity | str | None) -> Cell:
    if isinstance(figure, str):
        return figure
    return Pair(value_text(figure), "", is_estimate(figure))


def _range(figure: Quantity | str | None) -> str:
    if isinstance(figure, str):
        return "exact"
    return "" if figure is None else shown(figure).span or "exact"


def _conversions(rows: Sequence[ConversionDoc]) -> list[Block]:
    """Return the declared factors between units, with source and date; empty if none was used."""
    if not rows:
        return []
    factors = table(
        "Factors between functional units",
        rows,
        Field(
            "Factor",
            lambda row: f"1 {isolated(row.unit)} = {number(row.factor, 6)} {isolated(row.to)}",
            1.6,
        ),
        Field("Counted", lambda row: f"{count_text(row.counted)} {row.unit}", align="right"),
        Field("Source", lambda row: Pair(row.source, row.date), 2),
        note="Declared with the job. Amounts in these units are counted in the other unit, once.",
    )
    return [Heading("Conversion of units", 2), factors]


def _embodied(rows: Sequence[EmbodiedTermDoc]) -> list[Block]:
    """Embodied carbon by part, with equal devices in one row."""
    groups: dict[tuple[object, ...], list[EmbodiedTermDoc]] = {}
    for row in rows:
        te = row.te_g
        likeness = (
            *(row.label, row.tier, te.value, te.source, row.time_reserved_s),
            *(row.lifetime_years, row.resources_reserved, row.resources_total),
        )
        groups.setdefault(likeness, []).append(row)
    if not groups:
        return []
    parts = table(
        "M = TE × TiR/EL × RR/ToR, summed",
        groups.values(),
        Field("Hardware", _hardware, 2.2),
        Field("TE", lambda alike: alike[0].te_g, 1.2, "right"),
        Field("Tier", lambda alike: alike[0].tier, 0.5),
        Field("TiR / EL", _time_share, 1.1, "right"),
        Field("RR / ToR", _resource_share, 0.9, "right"),
        Field("M", _together, 1.2, "right"),
        note="TE and the shares are per piece, M is that of all alike. TE leaves the use phase "
        f"out. {TIERS}",
    )
    return [Heading("Embodied carbon in parts", 2), parts]


def _hardware(alike: Sequence[EmbodiedTermDoc]) -> Pair:
    first, n = alike[0], len(alike)
    return Pair(first.label if n == 1 else f"{first.label} ({n} alike)", first.stages)


def _time_share(alike: Sequence[EmbodiedTermDoc]) -> Pair:
    years = number(alike[0].lifetime_years, 4)
    return Pair(duration(alike[0].time_reserved_s), f"of {years} years")


def _resource_share(alike: Sequence[EmbodiedTermDoc]) -> str:
    first = alike[0]
    return f"{number(first.resources_reserved, 4)} / {number(first.resources_total, 4)}"


def _together(alike: Sequence[EmbodiedTermDoc]) -> Quantity | None:
    whole = total(row.embodied_g for row in alike)
    return whole.bare() if whole else None


def _sensitivity(rows: Sequence[SensitivityDoc]) -> list[Block]:
    """M, C and C per R for other lifetimes of the hardware."""
    if not rows:
        return []
    lifetimes = table(
        "Embodied carbon, total and SCI by expected lifetime (EL)",
        rows,
        Field("EL", lambda row: f"{row.lifetime_years:g} years", 0.8, "right"),
        Field("M", lambda row: _grams(row.embodied_g), align="right"),
        Field("C = O + M", lambda row: _grams(row.total_g), align="right"),
        *map(_sci_of, rows[0].g_per_unit),
        note="All hardware with the same lifetime; everything else as above. Middle values only.",
    )
    return [Heading("Sensitivity to hardware lifetime", 2), lifetimes]


def _sci_of(unit: str) -> Field[SensitivityDoc]:
    return Field(
        f"SCI per {unit}", lambda row: _grams(row.g_per_unit[unit], f"/{unit}"), 1.4, "right"
    )


def _grams(grams: float | None, per: str = "") -> str:
    if grams is None:
        return UNKNOWN
    size, unit = prefix(grams, f"gCO2e{per}")
    return f"{number(grams / size, MODEL_DIGITS)} {unit}"


# Devices


def devices(rows: Sequence[DeviceDoc]) -> list[Block]:
    """Return tables of the devices, and of how they ran."""
    whole_j = sum(device.energy_j.value for device in rows if device.energy_j)
    energy = table(
        "Energy and embodied carbon by device",
        rows,
        Field("Device", lambda row: Pair(row.name, f"{row.device_class} on {row.node}"), 2.2),
        Field("Share", lambda row: percent(row.share), 0.7, "right"),
        Field(
            "Energy",
            lambda row: "see CPU and memory" if row.device_class == "host" else row.energy_j,
            1.2,
            "right",
        ),
        Field(
            "Of total",
            lambda row: percent(row.energy_j.value / whole_j) if row.energy_j and whole_j else "",
            0.7,
            "right",
        ),
        Field("Kind", _kinds, 1.3),
        Field(
            "Embodied",
            lambda row: (
                "in the host's row" if row.device_class in ("cpu", "ram") else row.embodied_g
            ),
            1.2,
            "right",
        ),
        note="CPU and memory share the host's embodied carbon, which has its own row.",
    )
    blocks: list[Block] = [energy]
    ran = [row for row in rows if _has_run(row)]
    if ran:
        profile = table(
            "How the devices ran",
            ran,
            Field("Device", lambda row: Pair(row.name, row.device_id), 2.0),
            Field("Mean use", _mean_use, 0.8, "right"),
            Field("Peak memory", _peak_memory, align="right"),
            Field("Memory busy", lambda row: _profile(row, "memory_busy"), 0.9, "right"),
            Field("Peak power", _peak_power, 0.9, "right"),
            Field("Hottest", _hottest, 0.8, "right"),
            Field("Held back by", lambda row: _held_back(row.profile), 1.4),
            note=PROFILE_NOTE if any(device.profile for device in rows) else "",
        )
        blocks.append(profile)
    return blocks


def _kinds(device: DeviceDoc) -> Cell:
    kinds = [(kind, joules) for kind, joules in device.kinds.items() if joules]
    if not kinds:
        return device.meter
    read = sum(joules for _, joules in kinds)
    shares = ", ".join(f"{kind} {percent(joules / read)}" for kind, joules in kinds)
    return Pair(kinds[0][0] if len(kinds) == 1 else shares, device.meter)


def _has_run(device: DeviceDoc) -> bool:
    figures = device.mean_utilisation, device.peak_memory_b, device.max_power_w
    return bool(device.profile) or any(figure is not None for figure in figures)


def _mean_use(device: DeviceDoc) -> Cell:
    use = "" if device.mean_utilisation is None else percent(device.mean_utilisation)
    encoder = device.profile.get("encoder_busy")
    return Pair(use, f"encoder {percent(encoder)}") if encoder else use


def _peak_memory(device: DeviceDoc) -> str:
    memory_b = device.peak_memory_b
    return "" if memory_b is None else f"{number(gib_from_bytes(memory_b), 3)} GiB"


def _peak_power(device: DeviceDoc) -> str:
    return "" if device.max_power_w is None else f"{number(device.max_power_w, 3)} W"


def _profile(device: DeviceDoc, name: str) -> str:
    return percent(device.profile[name]) if name in device.profile else ""


def _hottest(device: DeviceDoc) -> str:
    profile = device.profile
    return f"{profile['temperature_c']:.0f} °C" if "temperature_c" in profile else ""


def _held_back(profile: Mapping[str, float]) -> str:
    """Reasons for lower clocks, each with its share of the readings; empty if not reported."""
    shares = [(words, profile[name]) for name, words in HOLDS.items() if name in profile]
    reasons = [f"{words} {percent(share)}" for words, share in shares if share]
    return ", ".join(reasons) if reasons else ("nothing" if shares else "")


# What the figures rest on


def quality(document: JobDoc) -> list[Block]:
    """Return the grade and the shares of what is measured."""
    return quality_blocks(document.data_quality, whole=document.energy_kwh is not None)


def corrections(rows: Sequence[CorrectionDoc]) -> list[Block]:
    """Return what people declared of the job after it was measured, oldest first."""
    declared = table(
        "What was declared afterwards",
        rows,
        Field("Field", lambda row: row.field, 0.9),
        Field("Declared", lambda row: value_of(row, "value"), 1.3),
        Field("Before", lambda row: value_of(row, "old"), 1.3),
        Field("By", lambda row: row.by, 1.1),
        Field("When, UTC", lambda row: minute_text(row.at), 1.1),
        Field("Reason", lambda row: row.reason or "", 1.3),
        note="A declared value stands in place of the journal's, which is kept. The figures of "
        "this revision are computed with the newest value of each field.",
    )
    return [declared]


def value_of(correction: CorrectionDoc, which: str) -> str:
    """Return the `value` or the `old` value of a correction as text."""
    value = correction.value if which == "value" else correction.old
    if value is None:
        return "no" if correction.field == "excluded" else "not declared"
    return ", ".join(value) if isinstance(value, list) else str(value)


def notices(document: JobDoc) -> list[Block]:
    """Return every notice, warnings first."""
    return notice_blocks(document.notices) or [Text("There are none.")]


def sources(document: JobDoc) -> list[Block]:
    """Return a table of every input figure with its range, kind and source."""
    inputs = table(
        "Inputs of the score",
        document.method.inputs,
        Field("Input", lambda row: row.what, 1.7),
        Field(
            "Value",
            lambda row: Pair(
                value_text(row.figure), shown(row.figure).span or "exact", is_estimate(row.figure)
            ),
            1.3,
            "right",
        ),
        Field("Kind", lambda row: row.figure.kind, 0.9),
        Field("Source", lambda row: row.figure.source, 2.6),
    )
    return [inputs]


def method(document: JobDoc) -> list[Block]:
    """Return the standard, the method and the boundary."""
    return method_blocks(document.method)


def meter_cost(document: JobDoc) -> list[Block]:
    """Return what measuring took of the machine."""
    of, duration_s = document.method, document.duration_s
    cpu_s, rss_b, energy_j = of.meter_cpu_s, of.meter_rss_b, of.meter_energy_j
    if cpu_s is None:
        return []
    share = f", {percent(cpu_s / duration_s)} of one core over the job" if duration_s else ""
    memory = f" and at most {number(mib_from_bytes(rss_b), 3)} MiB of memory" if rss_b else ""
    sentence = f"Measuring took {number(cpu_s, 2)} s of processor time{share}{memory}."
    if energy_j is not None:
        sentence += f" That is about {text(energy_j)} of the host's energy, by a model."
    return [Text(sentence)]
