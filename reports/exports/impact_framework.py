"""A job as a manifest of Impact Framework (@grnsft/if 1.1.0), which runs to the same total.

The manifest uses the built-in plugins Multiply, Divide, Sum and Sci only: TimeSync drops samples
when it averages, TimeConverter rounds to six decimals, and the constants of SciEmbodied do not fit
accelerators. Energy is therefore given in kWh on one grid of whole seconds for all components, with
R of the whole job on every row, so that the scores of the rows add up to C / R. docs/exports.md
explains each rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gramwatt.reports.exports.common import Data, ExportError, caution, to_yaml
from gramwatt.sci.figures.document import DeviceStepsDoc, EmbodiedTermDoc, JobDoc
from gramwatt.sci.figures.units import kwh_from_j, s_from_years
from gramwatt.sci.records.records import parse_time

CATEGORIES = {
    "training": "ml-training",
    "fine-tuning": "ml-training",
    "inference": "ml-inference",
    "data-prep": "data-processing",
}
"""Category in the manifest by kind of job; any other kind is `other`."""
METRICS = ("energy", "carbon-operational", "carbon-embodied", "carbon", "sci")
PIPELINE = ["operational", "time-share", "resource-share", "embodied", "sum-carbon", "sci"]
_SUM = {"time": "sum", "component": "sum"}
_COPY = {"time": "copy", "component": "copy"}


class _Row(NamedTuple):
    """A row of whole seconds, with the indices of the document's steps that it holds."""

    start: datetime
    duration_s: int
    steps: list[int]


def manifest(document: JobDoc) -> str:
    """Return the manifest as YAML.

    Raises ExportError for a job without energy, embodied carbon or stored terms.
    """
    _require_terms(document)
    unit = document.sci[0]
    category = CATEGORIES.get(document.kind, "other")
    head: dict[str, Data] = {
        "name": _kebab(f"{document.project}-{document.name}-sci"),
        "description": _description(document),
        "tags": {"kind": "sci", "complexity": "moderate", "category": category},
        "aggregation": {"metrics": list(METRICS), "type": "both"},
        "initialize": {"plugins": _plugins(unit.unit)},
        "tree": {"children": _tree(document)},
    }
    return to_yaml(head)


def _kebab(text: str) -> str:
    """Return the text in lower-case letters, digits and single hyphens, 3 to 100 characters
    long.
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:90].strip("-")
    return name if len(name) >= 3 else f"job-{name or '0'}"


def _require_terms(document: JobDoc) -> None:
    """Raise ExportError if energy or embodied carbon is unknown."""
    unknown = [
        name
        for name, figure in (
            ("energy", document.energy_kwh),
            ("embodied carbon", document.embodied_g),
        )
        if figure is None
    ]
    if unknown:
        raise ExportError(
            f"job {document.job_id!r} has no score to export: {' and '.join(unknown)} not known"
        )


def _description(document: JobDoc) -> str:
    summary = (
        f"Job {document.job_id}, revision {document.revision}: measured components with "
        "time-matched, location-based intensity. Embodied carbon of processors and memory is in "
        "each node's host component. Energy is IT energy; PUE is applied once."
    )
    return " ".join(filter(None, (summary, caution(document))))


def _plugins(unit: str) -> dict[str, Data]:
    return {
        "operational": _operational(),
        "time-share": _divide("time-reserved", "device/expected-lifespan", "time-share"),
        "resource-share": _divide("resources-reserved", "resources-total", "resource-share"),
        "embodied": _plugin(
            "Multiply",
            _from(["device/emissions-embodied", "time-share", "resource-share"], "carbon-embodied"),
            {},
            {"carbon-embodied": _meta("gCO2eq", "M = TE x TiR/EL x RR/ToR", _SUM)},
        ),
        "sum-carbon": _plugin(
            "Sum",
            _from(["carbon-operational", "carbon-embodied"], "carbon"),
            {},
            {"carbon": _meta("gCO2eq", "C = O + M", _SUM)},
        ),
        "sci": _sci(unit),
    }


def _operational() -> dict[str, Data]:
    factors = {
        "energy": _meta("kWh", "IT energy of the step", _SUM),
        "facility/pue": _meta("ratio", "power usage effectiveness", _COPY),
        "grid/carbon-intensity": _meta("gCO2eq/kWh", "location-based, of the step", _COPY),
    }
    outputs = {"carbon-operational": _meta("gCO2eq", "O", _SUM)}
    return _plugin("Multiply", _from([*factors], "carbon-operational"), factors, outputs)


def _sci(unit: str) -> dict[str, Data]:
    inputs = {
        "carbon": _meta("gCO2eq", "C = O + M", _SUM),
        "functional-unit": _meta(unit, "R of the whole job, repeated on each row", _COPY),
    }
    outputs = {"sci": _meta(f"gCO2eq per {unit}", "this row's part of the job's SCI", _SUM)}
    return _plugin("Sci", {"functional-unit": "job/functional-units"}, inputs, outputs)


def _from(inputs: list[str], output: str) -> dict[str, Data]:
    return {"input-parameters": inputs, "output-parameter": output}


def _plugin(
    method: str, config: Mapping[str, Data], inputs: Mapping[str, Data], outputs: Mapping[str, Data]
) -> dict[str, Data]:
    metadata: dict[str, Data] = {"inputs": inputs} if inputs else {}
    return {
        "method": method,
        "path": "builtin",
        "config": config,
        "parameter-metadata": {**metadata, "outputs": outputs},
    }


def _divide(numerator: str, denominator: str, output: str) -> dict[str, Data]:
    config = {"numerator": numerator, "denominator": denominator, "output": output}
    return {"method": "Divide", "path": "builtin", "config": config}


def _meta(unit: str, description: str, aggregation: dict[str, str]) -> dict[str, Data]:
    return {"unit": unit, "description": description, "aggregation-method": aggregation}


def _tree(document: JobDoc) -> dict[str, Data]:
    steps = {(row.node, row.device_id): row for row in document.steps.devices}
    terms = {(term.node, term.device_id): term for term in document.embodied_terms}
    timeline = _timeline(document)
    nodes: dict[str, dict[str, Data]] = {}
    for device in document.devices:
        key = device.node, device.device_id
        children = nodes.setdefault(device.node, {})
        children[device.device_id] = {
            "pipeline": {"compute": PIPELINE},
            "defaults": _defaults(document, terms.get(key), steps.get(key)),
            "inputs": _inputs(document, timeline, terms.get(key), steps.get(key)),
        }
    return {node: {"children": children} for node, children in nodes.items()}


def _defaults(
    document: JobDoc, term: EmbodiedTermDoc | None, steps: DeviceStepsDoc | None
) -> dict[str, Data]:
    years = term.lifetime_years if term else document.method.lifetime_years.value
    return {
        "facility/pue": steps.pue if steps else document.method.pue.value,
        "device/emissions-embodied": term.te_g.value if term else 0.0,
        "device/expected-lifespan": s_from_years(years),
        "resources-reserved": term.resources_reserved if term else 1.0,
        "resources-total": term.resources_total if term else 1.0,
        "job/functional-units": document.sci[0].count,
    }


def _inputs(
    document: JobDoc,
    timeline: Sequence[_Row],
    term: EmbodiedTermDoc | None,
    steps: DeviceStepsDoc | None,
) -> list[Data]:
    reserved_s = document.steps.reserved_s
    # A node's own time is spread evenly over the job's: the document has only its length.
    whole_s = math.fsum(reserved_s)
    part = term.time_reserved_s / whole_s if term and whole_s else 1.0
    inputs: list[Data] = []
    for row in timeline:
        joules, intensity = _row_energy(document, steps, row.steps)
        inputs.append(
            {
                "timestamp": row.start.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                "duration": row.duration_s,
                "time-reserved": part * math.fsum(reserved_s[n] for n in row.steps),
                "energy": kwh_from_j(joules),
                "grid/carbon-intensity": intensity,
            }
        )
    return inputs


def _row_energy(
    document: JobDoc, steps: DeviceStepsDoc | None, members: Sequence[int]
) -> tuple[float, float]:
    """Energy [J] of a row and its intensity [gCO2e/kWh]; a host has embodied carbon only."""
    if steps is None:
        return 0.0, document.method.intensity_g_per_kwh.value
    energy, grams = steps.energy_j, steps.intensity_g_per_kwh
    joules = math.fsum(energy[n] for n in members)
    if not joules:
        return 0.0, grams[members[0]]
    return joules, math.fsum(energy[n] * grams[n] for n in members) / joules


def _timeline(document: JobDoc) -> list[_Row]:
    """Return the document's steps as rows of whole seconds, each at least one second long."""
    edges = [parse_time(text) for text in document.steps.edges]
    rows: list[_Row] = []
    start = _floor(edges[0])
    steps: list[int] = []
    for step, edge in enumerate(edges[1:]):
        steps.append(step)
        end = _ceil(edge) if step == len(edges) - 2 else _round(edge)
        duration_s = int((end - start).total_seconds())
        if duration_s >= 1:
            rows.append(_Row(start, duration_s, steps))
            start, steps = end, []
    if steps and rows:
        rows[-1].steps.extend(steps)
    elif steps:
        rows.append(_Row(start, 1, steps))
    return rows


def _floor(when: datetime) -> datetime:
    return when.replace(microsecond=0)


def _ceil(when: datetime) -> datetime:
    return _floor(when + timedelta(microseconds=999_999))


def _round(when: datetime) -> datetime:
    return _floor(when + timedelta(microseconds=500_000))
