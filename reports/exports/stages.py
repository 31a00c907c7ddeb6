"""Energy and carbon of runs by the stage of a model's life that they belong to."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gramwatt.reports.exports.common import ExportError
from gramwatt.reports.exports.imp import NAMESPACE
from gramwatt.sci.base.document import JobDoc, figure
from gramwatt.sci.base.quantity import Quantity, total


@dataclass(frozen=True)
class Stage:
    """The runs of one kind: energy with PUE [kWh] and its carbon [gCO2e]; None where unknown.

    `unknown` is how many further runs of the kind have no known energy; they are in no figure.
    """

    kind: str
    runs: Sequence[JobDoc]
    energy_kwh: Quantity
    operational_g: Quantity | None
    unknown: int

    @property
    def zones(self) -> list[str]:
        """The grid zones in which the runs ran."""
        found = (zone for run in self.runs for zone in run["method"]["zones"])
        return list(dict.fromkeys(found))


def stages(documents: Sequence[JobDoc]) -> list[Stage]:
    """Return the stages with known energy; raises ExportError where no run's energy is known."""
    by_kind: dict[str, list[JobDoc]] = defaultdict(list)
    for document in documents:
        if document["excluded"] is None:
            by_kind[document["kind"]].append(document)
    found = []
    for kind, runs in by_kind.items():
        known = [run for run in runs if run["energy_kwh"] is not None]
        energy = total(facility_kwh(run) for run in known)
        if energy is not None:
            carbon = [figure(run, "operational_g") for run in known]
            grams = total(c for c in carbon if c is not None) if all(carbon) else None
            found.append(Stage(kind, known, energy, grams, len(runs) - len(known)))
    if not found:
        raise ExportError("the energy of no run is known")
    return found


def facility_kwh(document: JobDoc) -> Quantity:
    """Return the energy of a run with the PUE of its site [kWh]; the run's energy is known."""
    energy = figure(document, "energy_kwh")
    assert energy is not None
    return energy.times(Quantity.from_doc(document["method"]["pue"]), "kWh")


def identifier(documents: Sequence[JobDoc], form: str) -> uuid.UUID:
    """Return an identifier made of the runs and their revisions, other for each form."""
    runs = sorted(f"{run['job_id']}/{run['revision']}" for run in documents)
    return uuid.uuid5(NAMESPACE, " ".join([form, *runs]))


def last_moment(documents: Sequence[JobDoc]) -> str:
    """Return when the last run ended, in whole seconds: RFC 3339 with Z."""
    latest = max(document["ended_at"] or document["started_at"] for document in documents)
    return f"{latest[:19]}Z"


def range_text(quantity: Quantity) -> str:
    """Return a figure's range and kind, as text."""
    return f"{quantity.low:.4g} to {quantity.high:.4g} {quantity.unit} ({quantity.kind})"
