"""How a figure of a job came to be: formula, inputs and sources, out of the stored document."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from gramwatt.sci.document import JobDoc, SourceDoc
from gramwatt.sci.figures import UNKNOWN, text
from gramwatt.sci.quantity import QuantityDoc
from gramwatt.service.pagetext import plain


class Explained(TypedDict):
    """A figure with its formula, the inputs that went in, and the same as text."""

    field: str
    formula: str
    figures: dict[str, QuantityDoc | None]
    inputs: list[SourceDoc]
    engine_version: str
    catalog_version: str
    text: str


FORMULAS = {
    "energy_kwh": "E = sum over devices and intervals of energy_j / 3 600 000",
    "operational_g": "O = sum over intervals of E_k x I(zone, t_k) x PUE",
    "embodied_g": "M = sum over devices of TE x TiR/EL x RR/ToR",
    "total_g": "C = O + M",
    "sci": "SCI = C / R = (O + M) / R",
}
FIELDS = tuple(FORMULAS)


def explained(document: JobDoc, field: str) -> Explained:
    """The explanation of one of `FIELDS`; raises KeyError for another."""
    formula = FORMULAS[field]
    method = document["method"]
    figures = _FIGURES[field](document)
    inputs = method["inputs"]
    versions = (
        f"Engine {method['engine_version']}, catalog {method['catalog_version']}, "
        f"{method['standard']}"
    )
    lines = [f"{field} of job {document['job_id']}, revision {document['revision']}", formula, ""]
    lines += [f"  {name:<32} {_shown(figure)}" for name, figure in figures.items()]
    lines += ["", "Inputs of the score:"]
    lines += [f"  {row['what']:<32} {_shown(row['figure'])}" for row in inputs]
    lines += ["", versions]
    return {
        "field": field,
        "formula": formula,
        "figures": figures,
        "inputs": inputs,
        "engine_version": method["engine_version"],
        "catalog_version": method["catalog_version"],
        "text": "\n".join(lines),
    }


_Figures = dict[str, QuantityDoc | None]


def _energy(document: JobDoc) -> _Figures:
    devices: _Figures = {
        f"{row['class']} {row['device_id']}": row["energy_j"]
        for row in document["devices"]
        if row["class"] != "host"
    }
    return {**devices, "E": document["energy_kwh"]}


def _operational(document: JobDoc) -> _Figures:
    method = document["method"]
    return {
        "E": document["energy_kwh"],
        "I, energy-weighted mean": method["intensity_g_per_kwh"],
        "PUE": method["pue"],
        "O": document["operational_g"],
    }


def _embodied(document: JobDoc) -> _Figures:
    devices: _Figures = {
        f"{row['class']} {row['device_id']}": row["embodied_g"] for row in document["devices"]
    }
    return {**devices, "EL": document["method"]["lifetime_years"], "M": document["embodied_g"]}


def _total(document: JobDoc) -> _Figures:
    return {
        "O": document["operational_g"],
        "M": document["embodied_g"],
        "C": document["total_g"],
    }


def _sci(document: JobDoc) -> _Figures:
    rows: _Figures = {
        f"SCI, R = {row['count']:g} {row['unit']}": row["g_per_unit"] for row in document["sci"]
    }
    return {"C": document["total_g"], **rows}


_FIGURES: dict[str, Callable[[JobDoc], _Figures]] = {
    "energy_kwh": _energy,
    "operational_g": _operational,
    "embodied_g": _embodied,
    "total_g": _total,
    "sci": _sci,
}


def _shown(figure: QuantityDoc | None) -> str:
    if figure is None:
        return f"{UNKNOWN}; see the notices"
    return plain(f"{text(figure)}  ({figure['kind']}; {figure['source']})")
