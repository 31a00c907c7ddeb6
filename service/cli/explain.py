"""How a figure of a job came to be: its formula, inputs and sources, from the document."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec import Struct

from gramwatt.sci.figures.document import (
    CorrectionDoc,
    DeviceDoc,
    EmbodiedTermDoc,
    IntensityUsedDoc,
    JobDoc,
    SourceDoc,
)
from gramwatt.sci.figures.formatting import (
    UNKNOWN,
    count_text,
    minute_text,
    plain,
    text,
    value_text,
)
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import J_PER_KWH


class Explanation(Struct):
    """A figure with its formula, inputs, corrections and notices, and all of it as text."""

    field: str
    formula: str
    figures: dict[str, Quantity | None]
    inputs: list[SourceDoc]
    intensity: list[IntensityUsedDoc]
    corrections: list[CorrectionDoc]
    notices: list[Notice]
    standard: str
    engine_version: str
    catalog_version: str
    text: str


class UnknownFieldError(LookupError):
    """A name that is no figure of the job; the message lists those that are."""


FORMULAS = {
    "energy_kwh": "energy E = sum over devices and intervals of energy_j / 3 600 000",
    "operational_g": "electricity O = sum over intervals of E_k x I(zone, t_k) x PUE",
    "embodied_g": "making the hardware M = sum over devices and hosts of TE x TiR/EL x RR/ToR",
    "total_g": "total C = electricity O + making the hardware M",
    "sci": "SCI = total C / units of work R = (O + M) / R",
    "pue": "PUE = energy of the facility / energy of the IT equipment; multiplies E x I once",
    "intensity_g_per_kwh": "I = sum over intervals of E_k x I(zone, t_k) / E",
    "lifetime_years": "EL, how long the hardware is expected to be installed",
}
LETTERS = {
    "E": "energy E",
    "O": "electricity O",
    "M": "making the hardware M",
    "C": "total C",
    "I, energy-weighted mean": "grid intensity I, energy-weighted mean",
}
"""Names of the standard's letters, for people."""
DEVICE_FORMULAS = {
    "energy_j": "E of a device = sum over its intervals of the energy read",
    "embodied_g": "M of a device = TE x TiR/EL x RR/ToR",
}
LEAST_CERTAIN, INPUTS_SHOWN = 2, 4
"""Inputs that are named above all, and that are printed with their sources."""
PREFIX = "devices."
GRID_FIELDS = ("operational_g", "intensity_g_per_kwh")
INPUTS: dict[str, tuple[str, ...]] = {
    "energy_kwh": ("E",),
    "intensity_g_per_kwh": ("I",),
    "pue": ("PUE",),
    "operational_g": ("E", "I", "PUE"),
    "lifetime_years": ("EL",),
    "embodied_g": ("TE", "RR/ToR", "EL", "TiR"),
}
"""Symbols of the inputs of a figure; all inputs go into one that is not listed."""


def check_field(field: str) -> None:
    """Raise UnknownFieldError for a name that no job has."""
    _, _, figure = field.removeprefix(PREFIX).rpartition(".")
    if field in FORMULAS or (field.startswith(PREFIX) and figure in DEVICE_FORMULAS):
        return
    of_devices = " and ".join(f"devices.ID.{name}" for name in DEVICE_FORMULAS)
    names = f"{', '.join(FORMULAS)}, {of_devices}"
    raise UnknownFieldError(f"cannot explain {field!r}; known: {names}")


def explain(document: JobDoc, field: str) -> Explanation:
    """Return the explanation of a figure; raises UnknownFieldError for another name or device."""
    check_field(field)
    method = document.method
    if field.startswith(PREFIX):
        formula = DEVICE_FORMULAS[field.rpartition(".")[2]]
        figures = _of_device(document, field)
    else:
        formula = FORMULAS[field]
        figures = _FIGURES[field](document)
    answer: Explanation = Explanation(
        field=field,
        formula=formula,
        figures=figures,
        inputs=_inputs(document, field),
        intensity=document.intensity if field in GRID_FIELDS else [],
        corrections=document.corrections,
        notices=[n for n in document.notices if _concerns(n, field)],
        standard=method.standard,
        engine_version=method.engine_version,
        catalog_version=method.catalog_version,
        text="",
    )
    answer.text = "\n".join(lines(document, answer))
    return answer


def lines(document: JobDoc, answer: Explanation, most: int | None = None) -> Iterable[str]:
    """Yield the answer as text, with `most` of its inputs and their sources."""
    figures = list(answer.figures.values())
    head = f"{_figure(figures[-1])}: " if figures else ""
    yield f"{head}{answer.field} of job {document.job_id}, revision {document.revision}"
    inputs = sorted(answer.inputs, key=lambda row: -_spread(row.figure))
    if len(inputs) > 1:
        yield f"Least certain: {'; '.join(row.what for row in inputs[:LEAST_CERTAIN])}"
    yield from ("", answer.formula)
    cell = _figure if answer.inputs else _cell  # sources are printed with the inputs
    for name, figure in answer.figures.items():
        yield f"  {LETTERS.get(name, name)}: {cell(figure)}"
    yield from ("", "Inputs, the least certain first:")
    yield from (f"  {row.what}: {_cell(row.figure)}" for row in inputs[:most])
    if more := inputs[most:] if most is not None else []:
        yield f"  {len(more)} more, with their sources by --json: {'; '.join(map(_short, more))}"
    if answer.intensity:
        yield from ("", "Intensity, as used:")
        yield from map(_used, answer.intensity)
    if answer.corrections:
        yield from ("", "Declared afterwards:")
        yield from map(_correction, answer.corrections)
    if answer.notices:
        yield from ("", "Notices:")
        yield from (f"  {n.message} [{n.code}]" for n in answer.notices)
    yield ""
    yield (f"Engine {answer.engine_version}, catalog {answer.catalog_version}, {answer.standard}")


def _short(row: SourceDoc) -> str:
    return f"{row.what} {plain(value_text(row.figure))}"


def _used(row: IntensityUsedDoc) -> str:
    span = f"{minute_text(row.start)} to {minute_text(row.end)} UTC"
    kwh = row.energy_j / J_PER_KWH
    return (
        f"  {row.zone}  {span}  {row.quality}  {row.g_per_kwh:.4g} g/kWh  "
        f"{kwh:.3g} kWh  {row.source}"
    )


def _correction(row: CorrectionDoc) -> str:
    values = f"{row.field} {row.old} -> {row.value}"
    reason = f": {row.reason}" if row.reason else ""
    return plain(f"  {values}, by {row.by} on {row.at[:10]}{reason}")


def _concerns(notice: Notice, field: str) -> bool:
    about = notice.field or ""
    if field.startswith(PREFIX):
        return about == PREFIX + field.removeprefix(PREFIX).rpartition("/")[2]
    return about == field or (about.startswith(PREFIX) and about.endswith(f".{field}"))


def _inputs(document: JobDoc, field: str) -> list[SourceDoc]:
    rows = document.method.inputs
    if not field.startswith(PREFIX):
        symbols = INPUTS.get(field)
        return [row for row in rows if symbols is None or row.symbol in symbols]
    name = _device(document, field).name
    own = ("E",) if field.endswith("energy_j") else ("TE", "RR/ToR")
    of_job = () if field.endswith("energy_j") else ("EL", "TiR")
    return [
        row
        for row in rows
        if row.symbol in of_job or (row.symbol in own and (row.of or "").startswith(name))
    ]


def _device(document: JobDoc, field: str) -> DeviceDoc:
    """Return the device of a field; "NODE/ID" names one of several nodes' with the same id."""
    name = field.removeprefix(PREFIX).rpartition(".")[0]
    names = {_name(document, row.node, row.device_id): row for row in document.devices}
    full = {f"{row.node}/{row.device_id}": row for row in document.devices}
    row = {**full, **names}.get(name)
    if row is None:
        ids = ", ".join(names)
        raise UnknownFieldError(f"the job has no device {name!r}; it has {ids or 'none'}")
    return row


def _name(document: JobDoc, node: str, device_id: str) -> str:
    """Return the id of a device, with its node where others have the same id."""
    alike = [row for row in document.devices if row.device_id == device_id]
    return device_id if len(alike) < 2 else f"{node}/{device_id}"


_Figures = dict[str, Quantity | None]


def _of_device(document: JobDoc, field: str) -> _Figures:
    device = _device(document, field)
    if field.endswith("energy_j"):
        return {"E": device.energy_j}
    terms = document.embodied_terms
    key = device.node, device.device_id
    term = next((row for row in terms if (row.node, row.device_id) == key), None)
    return {**(_term(term) if term else {}), "M": device.embodied_g}


def _term(term: EmbodiedTermDoc) -> _Figures:
    rr, tor = f"reserved of {term.label}", f"in total of {term.label}"
    rest = {
        "TiR": Quantity.exact(term.time_reserved_s, "s", "measured", "job start to end"),
        "EL": Quantity.exact(term.lifetime_years, "years", "catalog", "see the inputs"),
        "RR": Quantity.exact(term.resources_reserved, "1", "declared", rr),
        "ToR": Quantity.exact(term.resources_total, "1", "declared", tor),
    }
    plain_rest: _Figures = {name: figure.bare() for name, figure in rest.items()}
    return {f"TE, tier {term.tier}": term.te_g, **plain_rest}


def _energy(document: JobDoc) -> _Figures:
    devices: _Figures = {
        f"{row.device_class} {_name(document, row.node, row.device_id)}": row.energy_j
        for row in document.devices
        if row.device_class != "host"
    }
    return {**devices, "E": document.energy_kwh}


def _operational(document: JobDoc) -> _Figures:
    method = document.method
    return {
        "E": document.energy_kwh,
        "I, energy-weighted mean": method.intensity_g_per_kwh,
        "PUE": method.pue,
        "O": document.operational_g,
    }


def _embodied(document: JobDoc) -> _Figures:
    rows: _Figures = {
        _name(document, row.node, row.device_id): row.embodied_g for row in document.embodied_terms
    }
    return {**rows, "EL": document.method.lifetime_years, "M": document.embodied_g}


def _sci(document: JobDoc) -> _Figures:
    rows: _Figures = {
        f"SCI, R = {plain(count_text(row.count))} {row.unit}": row.g_per_unit
        for row in document.sci
    }
    return {"C": document.total_g, **rows}


_FIGURES: dict[str, Callable[[JobDoc], _Figures]] = {
    "energy_kwh": _energy,
    "intensity_g_per_kwh": lambda doc: {
        "E": doc.energy_kwh,
        "I, energy-weighted mean": doc.method.intensity_g_per_kwh,
    },
    "pue": lambda doc: {"PUE": doc.method.pue},
    "operational_g": _operational,
    "lifetime_years": lambda doc: {"EL": doc.method.lifetime_years},
    "embodied_g": _embodied,
    "total_g": lambda doc: {"O": doc.operational_g, "M": doc.embodied_g, "C": doc.total_g},
    "sci": _sci,
}


def _spread(figure: Quantity | None) -> float:
    """Return how far the range of an input goes from its value at most, as a ratio."""
    if figure is None or figure.low <= 0:
        return math.inf
    return max(figure.high / figure.value, figure.value / figure.low)


def _figure(figure: Quantity | None) -> str:
    return _cell(None) if figure is None else plain(f"{text(figure)}, {figure.kind}")


def _cell(figure: Quantity | None) -> str:
    if figure is None:
        return f"{UNKNOWN}; see the notices"
    return plain(f"{text(figure)}  ({figure.kind}; {figure.source})")
