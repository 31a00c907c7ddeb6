"""JSON Schema of the journal's lines, from the records' own fields, with what each of them is."""

from __future__ import annotations

from typing import Any

import msgspec

from gramwatt.sci.records.records import TYPES, VERSION

LINE = "JournalLine"

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
    "released": "Whether the device turned out to be none of the job's, so that it does not count.",
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
    "amount": "Units since the writer's last count of the same unit and phase; all of `counter`.",
    "phase": "The part of the job in which they were counted, or the window's name.",
    "counter": "What counts the units; the amount is then all that it has of the unit and phase.",
    "since": "Start of the window over [since, at); the line is then no part of R.",
    "ended_at": "When the job ended for this writer, RFC 3339 with a zone.",
    "state": "How the job ended.",
    "exit_code": "Exit code of the command.",
    "signal": "The signal that killed it.",
    "meter_cpu_s": "Processor time that the meter itself used [s].",
    "meter_rss_b": "Highest memory of the meter itself [B].",
}
"""Every field of a line, by its name in the line, with its unit in brackets."""

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
    """Return the schemas of a line, which is one of its types, and of its parts, by name."""
    _, shapes = msgspec.json.schema_components(
        list(TYPES.values()), ref_template=ref.replace("{model}", "{name}")
    )
    # As JSON has them: a default that is a tuple is an array.
    components: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shapes))
    names = {kind: record.__name__ for kind, record in TYPES.items()}
    refs = {kind: ref.format(model=_line(name)) for kind, name in names.items()}
    line = {
        "title": LINE,
        "description": "One line of a journal. Fields that this release does not know are kept.",
        "oneOf": [{"$ref": target} for target in refs.values()],
        "discriminator": {"propertyName": "type", "mapping": refs},
    }
    records = {_line(name): _record(kind, components.pop(name)) for kind, name in names.items()}
    return {LINE: line, **records, **components}


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


def _line(record: str) -> str:
    return f"{record.removesuffix('Record')}Line"


def _record(kind: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record with `v`, and with what each of its fields is."""
    properties = {"v": {"const": VERSION}, **shape["properties"], "type": {"const": kind}}
    del properties["extra"]
    return {
        "title": _line(shape["title"]),
        "description": " ".join(shape["description"].split()),
        "type": "object",
        "required": ["v", *shape["required"]],
        "properties": {
            name: {**schema, "description": DESCRIPTIONS[name]}
            for name, schema in properties.items()
        },
    }
