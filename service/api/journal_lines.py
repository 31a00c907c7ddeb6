"""JSON Schema of the journal's lines, from the records' own fields, with what each of them is."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, fields
from datetime import datetime
from typing import Any, get_type_hints

from gramwatt.sci.base.quantity import KINDS
from gramwatt.sci.journal.bounds import MOST, PROFILE_MOST
from gramwatt.sci.journal.records import (
    DEVICE_CLASSES,
    END_STATES,
    ID_PATTERN,
    JOB_KINDS,
    REPORTERS,
    ROLES,
    TYPES,
    UNIT_PATTERN,
    VERSION,
    AnyRecord,
)
from gramwatt.sci.journal.telemetry import NAMES

LINE = "JournalLine"
_TEXTS_MOST = 64
_IDENTIFIER = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$"}
_UNIT = {"type": "string", "pattern": f"^{UNIT_PATTERN.pattern}$"}

DESCRIPTIONS = {
    "v": "The version of the line's form.",
    "type": "What the line says.",
    "job_id": "The job; the same as in the address.",
    "node": "The machine that the writer sees.",
    "writer": "Who wrote the line: one meter of one job on one node.",
    "seq": "The number of the line, from 1; a writer never uses one twice.",
    "started_at": "When the job started for this writer, RFC 3339 with a zone.",
    "role": "Whether the writer measures a command, processes that track, or a writer that died.",
    "reporter": "Who reports the job, where that is not gramwatt's own meter.",
    "resumes": "The writer that this one replaces.",
    "project": "The project whose sums hold the job.",
    "name": "A name for people: of the job, or of the device as its driver reports it.",
    "units": "Of a job: functional units to be counted. Of a device: how many it stands for.",
    "zone": "Grid zone, such as DE.",
    "region": "Cloud region, such as aws:eu-west-1.",
    "pue": "Power usage effectiveness of the site [1], 1 to 5.",
    "model_id": "The model that the job makes or uses.",
    "framework": "The framework of the work, such as pytorch.",
    "precision": "The number format of the work, such as bf16.",
    "rank": "The rank of the process among those of the job.",
    "tags": "Free texts by name, for filters and reports.",
    "versions": "Versions of software by name.",
    "scheduler": "The scheduler's own ids of the job.",
    "notices": "Sentences for the report, each with its code before a colon.",
    "device_id": "The device; of one board in the world where its driver has such an id.",
    "class": "What the device is.",
    "meter": "The source of the readings.",
    "share": "The part of the device that was reserved [1], above 0 and up to 1.",
    "memory_b": "Memory of the device [B].",
    "power_limit_w": "Power limit of the device [W].",
    "units_total": "How many such devices the host has.",
    "includes_host": "Whether the energy is that of the whole host.",
    "virtual": "Whether the processor is a virtual machine's.",
    "update_period_s": "How often the counter is updated [s].",
    "elsewhere": "Spans that count in jobs of better reporters: start, end, part [1].",
    "start": "Start of the interval, RFC 3339 with a zone.",
    "end": "End of the interval, exclusive; at most a day after its start.",
    "energy_j": "Energy of the device over [start, end) [J].",
    "kind": "Of a job: what it does. Of a device or interval: how its energy is known.",
    "utilisation_mean": "Mean utilisation [1].",
    "utilisation_max": "Highest utilisation [1].",
    "memory_peak_b": "Highest memory in use [B].",
    "power_max_w": "Highest power [W].",
    "profile": "How the device ran: shares of the time [1], and the highest temperature [degC].",
    "at": "When the units were counted, RFC 3339 with a zone.",
    "unit": "The functional unit.",
    "amount": "Units since the writer's last count of the same unit and phase.",
    "phase": "The part of the job in which they were counted, or the window's name.",
    "since": "Start of the window over [since, at); the line is then no part of R.",
    "ended_at": "When the job ended for this writer, RFC 3339 with a zone.",
    "state": "How the job ended.",
    "exit_code": "Exit code of the command.",
    "signal": "The signal that killed it.",
    "meter_cpu_s": "Processor time that the meter itself used [s].",
    "meter_rss_b": "Highest memory of the meter itself [B].",
}
"""Every field of a line, by its name in the line, with its unit in brackets."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "role": ROLES,
    "reporter": REPORTERS,
    "state": END_STATES,
    "class": DEVICE_CLASSES,
}
_IDENTIFIERS = ("job_id", "node", "writer", "resumes", "device_id")
_ABOVE_0 = ("share", "units", "units_total", "update_period_s")
_EXAMPLE = (
    '{"v":1,"type":"job","job_id":"job-1","node":"n-1","writer":"w-1","seq":1,'
    '"started_at":"2026-05-10T08:00:00Z","project":"vision","units":["image"],"zone":"FR"}\n'
    '{"v":1,"type":"device","job_id":"job-1","node":"n-1","writer":"w-1","seq":2,'
    '"device_id":"GPU-0","class":"gpu","name":"NVIDIA H100 80GB HBM3","meter":"nvml-counter",'
    '"kind":"measured"}\n'
    '{"v":1,"type":"interval","job_id":"job-1","node":"n-1","writer":"w-1","seq":3,'
    '"device_id":"GPU-0","start":"2026-05-10T08:00:00Z","end":"2026-05-10T08:01:00Z",'
    '"energy_j":36000,"kind":"measured"}\n'
    '{"v":1,"type":"count","job_id":"job-1","node":"n-1","writer":"w-1","seq":4,'
    '"at":"2026-05-10T08:01:00Z","unit":"image","amount":640}\n'
    '{"v":1,"type":"end","job_id":"job-1","node":"n-1","writer":"w-1","seq":5,'
    '"ended_at":"2026-05-10T08:01:00Z","state":"completed","exit_code":0}\n'
)


def line_schemas(ref: str) -> dict[str, Any]:
    """Return the schema of a line, which is one of its types, and of each type, by component
    name.
    """
    names = {
        kind: f"{record.__name__.removesuffix('Record')}Line" for kind, record in TYPES.items()
    }
    refs = {kind: ref.format(model=name) for kind, name in names.items()}
    line = {
        "title": LINE,
        "description": "One line of a journal. Fields that this release does not know are kept.",
        "oneOf": [{"$ref": found} for found in refs.values()],
        "discriminator": {"propertyName": "type", "mapping": refs},
    }
    return {LINE: line, **{names[kind]: _record(kind, record) for kind, record in TYPES.items()}}


def line_body(ref: str) -> dict[str, Any]:
    """Return the content of a body of lines, with an example."""
    schema = {
        "type": "string",
        "description": f"Journal lines, one JSON object each: {LINE}.",
        "contentMediaType": "application/x-ndjson",
        "contentSchema": {"$ref": ref.format(model=LINE)},
    }
    return {"schema": schema, "examples": {"a job": {"value": _EXAMPLE}}}


def line_array(ref: str) -> dict[str, Any]:
    """Return the schema of a body whose lines are the items of an array."""
    return {"type": "array", "items": {"$ref": ref.format(model=LINE)}}


def _record(kind: str, record: type[AnyRecord]) -> dict[str, Any]:
    hints = get_type_hints(record)
    specs = [spec for spec in fields(record) if spec.name != "extra"]
    found: dict[str, Any] = {
        "v": {"const": VERSION, "description": DESCRIPTIONS["v"]},
        "type": {"const": kind, "description": DESCRIPTIONS["type"]},
    }
    required = ["v", "type"]
    for spec in specs:
        name = "class" if spec.name == "device_class" else spec.name
        schema = _field(kind, name, hints[spec.name])
        found[name] = {**schema, "description": DESCRIPTIONS[name]}
        if _is_required(spec):
            required.append(name)
    text = (inspect.getdoc(record) or "").replace("\n", " ")
    return {
        "title": f"{record.__name__.removesuffix('Record')}Line",
        "description": text,
        "type": "object",
        "required": required,
        "properties": found,
    }


def _is_required(spec: Field[Any]) -> bool:
    return spec.default is MISSING and spec.default_factory is MISSING


def _field(kind: str, name: str, hint: Any) -> dict[str, Any]:
    if name == "kind":
        return {"enum": [*(JOB_KINDS if kind == "job" else KINDS)]}
    if name in _CHOICES:
        return {"enum": [*_CHOICES[name]]}
    if name in _IDENTIFIERS:
        return _IDENTIFIER
    if name == "unit":
        return _UNIT
    if name == "profile":
        number = {"type": "number", "minimum": -PROFILE_MOST, "maximum": PROFILE_MOST}
        return {"type": "object", "properties": dict.fromkeys(NAMES, number)}
    if name == "elsewhere":
        time = {"type": "string", "format": "date-time"}
        part = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
        span = {"type": "array", "prefixItems": [time, time, part], "minItems": 3, "maxItems": 3}
        return {"type": "array", "items": span}
    return _by_type(name, hint)


def _by_type(name: str, hint: Any) -> dict[str, Any]:
    texts = {"type": "string", "maxLength": 512}
    if hint in (datetime, datetime | None):
        return {"type": "string", "format": "date-time"}
    if hint is bool:
        return {"type": "boolean"}
    if hint in (int, int | None):
        return {"type": "integer", **({"minimum": 1} if name == "seq" else {})}
    if hint in (float, float | None):
        return {"type": "number", **_bounds(name)}
    if hint == tuple[str, ...]:
        items = _UNIT if name == "units" else texts
        return {"type": "array", "maxItems": _TEXTS_MOST, "items": items}
    if hint == dict[str, str]:
        many = {"maxProperties": _TEXTS_MOST, "additionalProperties": texts}
        return {"type": "object", **many}
    return texts


def _bounds(name: str) -> dict[str, float]:
    if name == "pue":
        return {"minimum": 1, "maximum": 5}
    most = {"maximum": MOST[name]} if name in MOST else {}
    most |= {"maximum": 1} if name == "share" else {}
    return {"exclusiveMinimum" if name in _ABOVE_0 else "minimum": 0, **most}
