"""The five record types of the journal, which meters write and the service reads.

A journal line is one JSON object with `v`, `type`, `job_id`, `node`, `writer` and `seq` (from 1,
never reused by a writer), and the fields of its type below. Times are UTC, RFC 3339 with a
trailing Z. docs/journal.md describes the format; only `encode` writes it. `decode` reads it in two
steps, `parse_line` and `to_record`; a faster parser may take the place of the first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.base.quantity import KINDS
from gramwatt.sci.base.request_fields import RepeatedName, once
from gramwatt.sci.journal.bounds import MOST, PROFILE_MOST, check_energy
from gramwatt.sci.journal.field_checks import flag, number, one_of, sequence, whole

VERSION = 1
LONGEST_S = 86_400.0
"""The longest interval [s]: a day."""
NESTED_MOST = 16
"""How deep an unknown field may be nested."""
LINE_MAX_B = 2**20
"""The longest line [B]: a `job` line has 0.8 MB with every tag full of the longest escapes."""
INTERVAL_BEGINS = b'{"v":1,"type":"interval",'
"""How `encode` begins the line of an interval that this release knows whole: most of a journal."""
ID_MOST = 128
"""Characters of an identifier."""
ID_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:\-]{{0,{ID_MOST - 1}}}")
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
UNIT_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9 _.\-]{0,63}")

WINDOW_UNIT = "window"
"""Unit in the line of a window in which nothing was counted (docs/journal.md, "Windows")."""
SERVERS = "-servers"  # how a writer of counts of servers ends: CLIENT.METER-servers-count
SERVING = "serving"  # tag of a job that is a service: the preset of its server
SERVICE = "service."
"""How units begin that are no part of R, but say how a server worked (docs/journal.md,
"Servers")."""
SERVICE_CACHED = f"{SERVICE}cached_token"
SERVICE_KNOWN_S, SERVICE_BUSY_S = f"{SERVICE}known_s", f"{SERVICE}busy_s"
SERVICE_PREFILL_S, SERVICE_DECODE_S = f"{SERVICE}prefill_s", f"{SERVICE}decode_s"

JobKind = Literal["training", "fine-tuning", "inference", "evaluation", "data-prep", "other"]
JOB_KINDS: tuple[str, ...] = get_args(JobKind)
DeviceClass = Literal["gpu", "cpu", "ram", "accelerator", "module"]
DEVICE_CLASSES: tuple[str, ...] = get_args(DeviceClass)
ACCELERATORS, HOST_CLASSES = ("gpu", "accelerator", "module"), ("cpu", "ram")
Role = Literal["command", "track", "recovery"]
ROLES: tuple[str, ...] = get_args(Role)
EndState = Literal["completed", "failed", "killed", "lost"]
END_STATES: tuple[str, ...] = get_args(EndState)
REPORTERS = ("meter", "node", "prometheus")
"""Who reports a job, the best first: a device's time counts for the first of them only."""

SYNTHETIC_METERS = frozenset({"nvml-synthetic"})
"""Values of a device's `meter` that do not read hardware; their results are marked everywhere."""


def format_time(when: datetime) -> str:
    """Return a time as in records: RFC 3339 in UTC with Z; raises RecordError for a naive one."""
    if when.tzinfo is None:
        raise RecordError("a time without a zone has no meaning; give UTC", code="naive-time")
    when = when if when.tzinfo is UTC else when.astimezone(UTC)
    return when.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def parse_time(text: str) -> datetime:
    """Return the UTC time in an RFC 3339 text with Z or an offset; raises RecordError otherwise."""
    try:
        when = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise RecordError(f"not an RFC 3339 time: {text!r}", code="bad-time") from None
    if when.tzinfo is UTC:
        return when
    if when.tzinfo is None:
        raise RecordError(f"time {text!r} has no zone; write UTC with Z", code="naive-time")
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise RecordError(f"time {text!r} has no UTC year", code="bad-time") from None


@dataclass(slots=True, kw_only=True)
class Record:
    """The fields of every journal line; nothing changes a record once it is made.

    It is not frozen, because making a frozen one takes three times as long, and jobs have millions.

    `extra` holds fields that this release does not know, from a newer meter: kept, not used.
    """

    TYPE: ClassVar[str] = ""
    job_id: str
    node: str
    writer: str
    seq: int
    extra: dict[str, Any] = field(default_factory=dict)


class Elsewhere(NamedTuple):
    """A span in which a part (0, 1] of a device counts in a job of a better reporter."""

    start: datetime
    end: datetime
    part: float


@dataclass(slots=True, kw_only=True)
class JobRecord(Record):
    """What a writer knows of the job at its start; `resumes` names the writer it replaces.

    `reporter` is one of REPORTERS, None for gramwatt's own meter.
    """

    TYPE: ClassVar[str] = "job"
    started_at: datetime
    role: str = "command"
    reporter: str | None = None
    resumes: str | None = None
    project: str = "default"
    name: str = ""
    kind: str = "training"
    units: tuple[str, ...] = ()
    zone: str | None = None
    region: str | None = None
    pue: float | None = None
    model_id: str | None = None
    framework: str | None = None
    precision: str | None = None
    rank: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    scheduler: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class DeviceRecord(Record):
    """One device of the job; `share` (0, 1] is the part of it that was reserved.

    `meter` names the source of its readings, `kind` how its energy is known. `units_total` is how
    many such devices (gpu: devices of boards; cpu: threads) the host has, `units` how many of them
    this record stands for. `update_period_s` is the observed update period of its counter [s].
    `virtual` says that a processor is a virtual machine's, so that its host is not known.
    `elsewhere` no meter writes: the store says there what counts in other jobs.
    """

    TYPE: ClassVar[str] = "device"
    device_id: str
    device_class: str
    name: str
    meter: str
    kind: str
    share: float = 1.0
    memory_b: float | None = None
    power_limit_w: float | None = None
    units: float | None = None
    units_total: float | None = None
    includes_host: bool = False
    update_period_s: float | None = None
    virtual: bool = False
    elsewhere: tuple[Elsewhere, ...] = ()


@dataclass(slots=True, kw_only=True)
class IntervalRecord(Record):
    """Energy [J] of one device over [start, end); identified by (job, node, device, start).

    `profile` holds its telemetry by the names of sci/journal/telemetry.py, or newer ones.
    """

    TYPE: ClassVar[str] = "interval"
    device_id: str
    start: datetime
    end: datetime
    energy_j: float
    kind: str
    utilisation_mean: float | None = None
    utilisation_max: float | None = None
    memory_peak_b: float | None = None
    power_max_w: float | None = None
    profile: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class CountRecord(Record):
    """Functional units counted since the writer's last record of the same unit.

    A record with `since` repeats amounts of others: those counted in the window `phase` over
    [since, at). It is no part of R; see docs/journal.md, "Windows".
    """

    TYPE: ClassVar[str] = "count"
    at: datetime
    unit: str
    amount: float
    phase: str | None = None
    since: datetime | None = None


@dataclass(slots=True, kw_only=True)
class EndRecord(Record):
    """How the job ended for a writer, and what its meter used: CPU time [s], peak memory [B]."""

    TYPE: ClassVar[str] = "end"
    ended_at: datetime
    state: str
    exit_code: int | None = None
    signal: int | None = None
    meter_cpu_s: float | None = None
    meter_rss_b: float | None = None
    notices: tuple[str, ...] = ()


AnyRecord = JobRecord | DeviceRecord | IntervalRecord | CountRecord | EndRecord
TYPES: dict[str, type[AnyRecord]] = {
    cls.TYPE: cls for cls in (JobRecord, DeviceRecord, IntervalRecord, CountRecord, EndRecord)
}


def encode(record: AnyRecord) -> str:
    """Return the record as one line of JSON, without the newline; None fields are left out."""
    doc: dict[str, Any] = {"v": VERSION, "type": record.TYPE}
    for name, (attribute, _) in _FIELDS[record.TYPE].items():
        value = getattr(record, attribute)
        if isinstance(value, datetime):
            value = format_time(value)
        if value is not None and value != () and value != {}:
            doc[name] = value
    line = {**record.extra, **doc}
    return json.dumps(line, separators=(",", ":"), allow_nan=False, default=format_time)


def decode(line: str | bytes) -> AnyRecord:
    """Parse and check a journal line; raises RecordError with a stable `code`."""
    return to_record(parse_line(line))


def parse_line(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object of a line in UTF-8; raises RecordError for anything else.

    An object that names a field twice has none, nor have NaN and infinity.
    """
    if len(line) > LINE_MAX_B:
        raise RecordError(f"a line has at most {LINE_MAX_B} B", code="line-too-long")
    try:
        text = line if isinstance(line, str) else line.decode("utf-8")
        doc = json.loads(text, object_pairs_hook=once, parse_constant=_no_constant)
    except RepeatedName as error:
        raise RecordError(str(error), code="repeated-field") from None
    except (ValueError, RecursionError):
        raise RecordError("not a JSON line (torn or foreign)", code="bad-json") from None
    if not isinstance(doc, dict):
        raise RecordError("a journal line is a JSON object", code="bad-json")
    return doc


def to_record(doc: dict[str, Any]) -> AnyRecord:
    """Return the record of a parsed line, checked; raises RecordError with a stable `code`."""
    version, kind = doc.get("v"), doc.get("type")
    if version != VERSION:
        if isinstance(version, int) and version > VERSION:
            text = f"the line is of journal version {version}, this release reads {VERSION}"
            raise RecordError(f"{text}; upgrade gramwatt here", code="newer-version")
        raise RecordError(f"record version {version!r} is not {VERSION}", code="bad-version")
    cls = TYPES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise RecordError(f"unknown record type {kind!r}", code="unknown-type")
    record = _build(cls, doc)
    check_meaning(record)
    return record


def readable(lines: Iterable[str | bytes]) -> Iterator[AnyRecord]:
    """Yield the records in journal lines without those that are torn or refused."""
    for line in lines:
        with suppress(RecordError):
            yield decode(line)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _build(cls: type[AnyRecord], doc: dict[str, Any]) -> AnyRecord:
    known = _FIELDS[cls.TYPE]
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    name = ""
    try:
        for name, value in doc.items():
            if value is None:
                continue
            field_ = known.get(name)
            if field_ is not None:
                values[field_[0]] = field_[1](value)
            elif name != "v" and name != "type":
                extra[_text(name)] = _kept(value)
    except RecordError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        text = f"field {name[:64]!r}: {error}"
        raise RecordError(text, code="bad-field", field=name) from None
    if extra:
        values["extra"] = extra
    if missing := [name for name in _REQUIRED[cls.TYPE] if name not in values]:
        text = f"{cls.TYPE} record lacks {', '.join(repr(_name(name)) for name in missing)}"
        raise RecordError(text, code="missing-field")
    return cls(**values)


def _kept(value: Any, depth: int = 0) -> Any:
    """Return the value of an unknown field, if it can be written again as it was read."""
    if depth > NESTED_MOST:
        raise ValueError(f"nested more than {NESTED_MOST} deep")
    if isinstance(value, dict):
        return {name: _kept(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_kept(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number beyond any float")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 512:
        raise ValueError(f"not a text of at most 512 characters: {str(value)[:40]!r}")
    if _UNWRITABLE.search(value):
        raise ValueError("a text may not hold NUL or half of a surrogate pair")
    return value


def _moment(value: Any) -> datetime:
    when = parse_time(value)
    if not 2000 <= when.year < 2200:
        raise RecordError(f"time {value!r} is outside 2000 to 2199", code="bad-time")
    return when


def _identifier(value: Any) -> str:
    if not isinstance(value, str) or not ID_PATTERN.fullmatch(value):
        raise ValueError(f"not an identifier (letters, digits, . _ : -): {str(value)[:40]!r}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > 64:
        raise ValueError("not a list of at most 64 texts")
    return tuple(_text(item) for item in value)


def _text_map(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > 64:
        raise ValueError("not an object of at most 64 texts")
    return {_text(key): _text(item) for key, item in value.items()}


def _profile(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > 64:
        raise ValueError("not an object of at most 64 numbers")
    return {_text(name): _PROFILE_FIGURE(item) for name, item in value.items()}


def _unit(value: Any) -> str:
    if not isinstance(value, str) or not UNIT_PATTERN.fullmatch(value):
        raise ValueError(f"not a unit name: {str(value)[:40]!r}")
    return value


def _elsewhere(value: Any) -> tuple[Elsewhere, ...]:
    return tuple(Elsewhere(_moment(a), _moment(b), _PART(part)) for a, b, part in value)


_PROFILE_FIGURE = number(-PROFILE_MOST, PROFILE_MOST)
_PART = number(0, 1, above=True)
_CHECKS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("job_id", "node", "writer", "resumes", "device_id"), _identifier),
    **dict.fromkeys(("started_at", "start", "end", "at", "since", "ended_at"), _moment),
    "energy_j": number(0),
    **{name: number(0, most) for name, most in MOST.items()},
    **{name: number(0, MOST[name], above=True) for name in ("units_total", "update_period_s")},
    **dict.fromkeys(("exit_code", "signal", "rank"), whole),
    **dict.fromkeys(("tags", "versions", "scheduler"), _text_map),
    "profile": _profile,
    "seq": sequence,
    "share": _PART,
    "elsewhere": _elsewhere,
    "reporter": one_of(*REPORTERS),
    "pue": number(0, above=True),
    "unit": _unit,
    "notices": _texts,
    "includes_host": flag,
    "virtual": flag,
    "role": one_of(*ROLES),
    "state": one_of(*END_STATES),
    "device_class": one_of(*DEVICE_CLASSES),
}

_CHECKS_BY_TYPE: dict[str, dict[str, Callable[[Any], Any]]] = {
    "job": {"kind": one_of(*JOB_KINDS), "units": lambda value: tuple(map(_unit, _texts(value)))},
    "device": {"kind": one_of(*KINDS), "units": number(0, MOST["units"], above=True)},
    "interval": {"kind": one_of(*KINDS)},
}


def _fields_of(cls: type[AnyRecord]) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """Return attribute and check of each field of a line, by its name there."""
    checks = _CHECKS | _CHECKS_BY_TYPE.get(cls.TYPE, {})
    return {
        _name(spec.name): (spec.name, checks.get(spec.name, _text))
        for spec in fields(cls)
        if spec.name != "extra"
    }


def _name(attribute: str) -> str:
    """Return the name that an attribute has in a line."""
    return "class" if attribute == "device_class" else attribute


_FIELDS = {name: _fields_of(cls) for name, cls in TYPES.items()}
_REQUIRED = {
    name: [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]
    for name, cls in TYPES.items()
}


def check_meaning(record: AnyRecord) -> None:
    """Raise RecordError for a record whose fields are each allowed, and together are not."""
    if isinstance(record, IntervalRecord):
        length_s = (record.end - record.start).total_seconds()
        if length_s <= 0:
            raise RecordError("an interval ends after it starts", code="bad-interval")
        if length_s > LONGEST_S:
            raise RecordError("an interval is at most a day long", code="bad-interval")
        check_energy(record.energy_j, length_s)
    elif isinstance(record, CountRecord):
        if record.since is not None:
            _check_window(record, record.since)
    elif isinstance(record, JobRecord) and record.pue is not None and not 1 <= record.pue <= 5:
        raise RecordError(f"PUE {record.pue} is outside 1 to 5", code="bad-pue")


def _check_window(record: CountRecord, since: datetime) -> None:
    if record.phase is None or record.at < since:
        raise RecordError("a window has a name and ends after it starts", code="bad-window")
