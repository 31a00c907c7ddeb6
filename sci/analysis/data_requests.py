"""Data to request from suppliers: figures of a score that a better-informed party could give.

SCI advises to ask for data where none are published. The list follows from the document alone and
changes no figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.score.assess import PUBLISHED_TIERS

MAKERS = {
    "amd": "AMD",
    "apple": "Apple",
    "aws": "Amazon Web Services",
    "cerebras": "Cerebras",
    "google": "Google",
    "intel": "Intel",
    "nvidia": "NVIDIA",
    "qualcomm": "Qualcomm",
}
"""Makers as their names are written, by the first word of a part's id."""
MAKER = "maker of the hardware"


class DataRequest(NamedTuple):
    """Whom to ask, for what data, and what the score uses instead until then."""

    supplier: str
    data: str
    instead: str


def data_requests(document: JobDoc) -> list[DataRequest]:
    """Return each request once, in the order of the formula."""
    found = (*_energy(document), *_intensity(document), *_pue(document), *_embodied(document))
    return list(dict.fromkeys(found))


def _energy(document: JobDoc) -> Iterator[DataRequest]:
    for device in document["devices"]:
        if device["class"] != "host" and device["energy_j"] is None:
            wanted = f"a way to read the energy of {device['name']}"
            yield DataRequest(
                _maker(device["hardware"]), wanted, "nothing: its energy is not known"
            )


def _intensity(document: JobDoc) -> Iterator[DataRequest]:
    known = document["data_quality"]["intensity"]
    if document["zone"] and known.get("annual", 0.0) > 0:
        zones = ", ".join(document["method"]["zones"])
        yield DataRequest(f"grid operator of {zones}", "hourly carbon intensity", "the annual mean")


def _pue(document: JobDoc) -> Iterator[DataRequest]:
    pue = document["method"]["pue"]
    if pue["kind"] == "estimated":
        instead = f"{pue['low']:g} to {pue['high']:g}"
        yield DataRequest("operator of the data centre", "PUE measured over a year", instead)


def _embodied(document: JobDoc) -> Iterator[DataRequest]:
    hardware = {(d["node"], d["device_id"]): d["hardware"] for d in document["devices"]}
    for term in document["embodied_terms"]:
        if term["tier"] not in PUBLISHED_TIERS:
            supplier = _maker(hardware.get((term["node"], term["device_id"])))
            wanted = f"life cycle study of {term['label']}, use excluded"
            yield DataRequest(supplier, wanted, f"a model (tier {term['tier']})")


def _maker(hardware: str | None) -> str:
    return MAKERS.get((hardware or "").partition("-")[0], MAKER)
