"""The five record types of the journal, which meters write and the service reads.

A journal line is one JSON object with `v`, `type`, `job_id`, `node`, `writer` and `seq` (from 1,
never reused by a writer), and the fields of its type below, each with its bounds. Times are UTC,
RFC 3339 with a trailing Z. docs/journal.md describes the format; only `encode` writes it, and only
`decode` reads it.

The bounds lie far above what exists and far below what overflows: a meter that fails can report
anything. A line beyond them is refused alone, so that it spoils neither its job nor the sums over
jobs. A figure of `SIDE` is left out of its line instead.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import compress
from operator import mul
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta, field

from gramwatt.sci.figures import checks
from gramwatt.sci.figures.checks import FIRST_YEAR, LAST_YEAR, Moment, Pue, Share, in_utc
from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.figures.quantity import Kind
from gramwatt.sci.figures.structs import decoder

VERSION = 1
_NO_NUMBER = re.compile(rb"(?<=[:,\[ ])(?:NaN|-?Infinity)(?=[,}\] ])")
LONGEST_S = 86_400.0
"""The longest interval [s]: a day."""
_UNIQUE_ID = re.compile(r"(GPU|MIG)-|.*[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
"""Ids that no two hosts share: ids of NVML and HIP, and ids with a UUID."""
NESTED_MOST = 16
"""How deep an unknown field may be nested."""
LINE_MAX_B = 2**20
"""The longest line [B]: a `job` line has 0.8 MB with every tag full of the longest escapes."""
_BEGINS = b'{"v":1,'
INTERVAL_BEGINS = b'{"v":1,"type":"interval",'
"""How `encode` begins the line of an interval that this release knows whole: most of a journal."""
ID_MOST = 128
"""Characters of an identifier."""
ID_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:~\-]{{0,{ID_MOST - 1}}}")
UNIT_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9 _.\-]{0,63}")
AMOUNT_MOST = 1e30
"""The largest count; a training run counts up to 1e26 FLOP."""
MOST_W: Mapping[str, float] = {
    "gpu": 20e3,
    "module": 20e3,
    "cpu": 50e3,
    "ram": 20e3,
    "accelerator": 300e3,
}
"""Ten times what the largest device of a class draws [W]: a GPU 1.4 kW, a node's processors 4 kW,
a wafer-scale system 23 kW."""
UNKNOWN_W = 1e6
"""The same for a device whose class is not known [W]."""
LEAST_W = min(MOST_W.values())
SLACK_S = 60.0
"""A counter steps between its updates, so a short interval may hold the energy of a longer one."""

MEANS = ("memory_busy", "encoder_busy", "power_capped", "thermally_slowed", "hardware_slowed")
"""Names in `profile` of fractions of the time: memory controller busy, video encoder busy, and
clocks reduced by the power limit, by heat, or by the protection of the board."""
MAXIMA = ("temperature_c",)
"""Names in `profile` of highest readings: device temperature [degC]."""
PROFILE_NAMES = (*MEANS, *MAXIMA)
UNREAD_W = "unread_w"
"""Name in `profile` of the most that a device can have drawn [W], in an interval in which nothing
was read: its energy is that of the last power, and may be anything from nothing to that."""

WINDOW_UNIT = "window"
"""Unit in the line of a window in which nothing was counted (docs/journal.md, "Windows")."""
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
ACCELERATORS, HOST_CLASSES = ("gpu", "accelerator", "module"), ("cpu", "ram")
Role = Literal["command", "track", "recovery"]
Reporter = Literal["meter", "node", "prometheus"]
EndState = Literal["completed", "failed", "killed", "lost"]
REPORTERS: tuple[str, ...] = get_args(Reporter)
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


Identifier = Annotated[
    str,
    Meta(
        title="an identifier of at most 128 letters, digits and . _ : -",
        pattern=rf"^{ID_PATTERN.pattern}$(?!\n)",
    ),
]
Unit = Annotated[
    str,
    Meta(
        title="a unit's name: a letter, then at most 63 letters, digits, spaces and . _ -",
        pattern=rf"^{UNIT_PATTERN.pattern}$(?!\n)",
    ),
]
Text = Annotated[
    str,
    Meta(
        title="a text of at most 512 characters without NUL", max_length=512, pattern="^[^\\x00]*$"
    ),
]
Texts = Annotated[tuple[Text, ...], Meta(max_length=64)]
TextMap = Annotated[dict[Text, Text], Meta(max_length=64)]
SeqNumber = Annotated[int, Meta(title="a whole number from 1 on", ge=1, lt=2**53)]
Whole = Annotated[int, Meta(title="a whole number", gt=-(2**53), lt=2**53)]
Joules = Annotated[float, Meta(title="an energy from 0 J on", ge=0)]
Watts = Annotated[float, Meta(title="a power from 0 to 1e6 W", ge=0, le=1e6)]
Bytes = Annotated[float, Meta(title="an amount of memory from 0 to 1e18 B", ge=0, le=1e18)]
Seconds = Annotated[float, Meta(title="a time from 0 to 1e10 s", ge=0, le=1e10)]
Period = Annotated[float, Meta(title="a time above 0 and at most 1e6 s", gt=0, le=1e6)]
Units = Annotated[float, Meta(title="a number above 0 and at most 1e7", gt=0, le=1e7)]
Busy = Annotated[float, Meta(title="a utilisation from 0 to 1e4", ge=0, le=1e4)]
Amount = Annotated[float, Meta(title="a count from 0 to 1e30", ge=0, le=AMOUNT_MOST)]
Profiled = Annotated[float, Meta(title="a number from -1e6 to 1e6", ge=-1e6, le=1e6)]
Profile = Annotated[dict[Text, Profiled], Meta(max_length=64)]


def _stated(value: Any) -> Any:
    """Return a default that `encode` writes too, so that the line itself says it."""
    return field(default_factory=lambda: value)


class Record(msgspec.Struct, tag_field="type", omit_defaults=True, gc=False):
    """The fields of every journal line; nothing changes a record once it is made.

    `extra` holds what no figure uses and the line keeps: fields that this release does not know,
    from a newer meter, and figures of `SIDE` beyond their bounds.
    """

    TYPE: ClassVar[str] = ""
    job_id: Identifier
    node: Identifier
    writer: Identifier
    seq: SeqNumber
    extra: dict[str, Any] = field(default_factory=dict)


class Elsewhere(NamedTuple):
    """A span in which a part (0, 1] of a device counts in a job of a better reporter."""

    start: Moment
    end: Moment
    part: Share


class JobRecord(Record, tag="job", kw_only=True, forbid_unknown_fields=True):
    """What a writer knows of the job at its start; `resumes` names the writer it replaces.

    `reporter` is one of REPORTERS, None for gramwatt's own meter.
    """

    TYPE: ClassVar[str] = "job"
    started_at: Moment
    role: Role = _stated("command")
    reporter: Reporter | None = None
    resumes: Identifier | None = None
    project: Text = _stated("default")
    name: Text = _stated("")
    kind: JobKind = _stated("training")
    units: Annotated[tuple[Unit, ...], Meta(max_length=64)] = ()
    zone: Text | None = None
    region: Text | None = None
    pue: Pue | None = None
    model_id: Text | None = None
    framework: Text | None = None
    precision: Text | None = None
    rank: Whole | None = None
    tags: TextMap = field(default_factory=dict)
    versions: TextMap = field(default_factory=dict)
    scheduler: TextMap = field(default_factory=dict)
    notices: Texts = ()


class DeviceRecord(Record, tag="device", kw_only=True, forbid_unknown_fields=True):
    """One device of the job; `share` (0, 1] is the part of it that was reserved.

    `meter` names the source of its readings, `kind` how its energy is known. `units_total` is how
    many such devices (gpu: devices of boards; cpu: threads) the host has, `units` how many of them
    this record stands for. `update_period_s` is the observed update period of its counter [s].
    `virtual` says that a processor is a virtual machine's, so that its host is not known.
    `released` says that the device turned out to be none of the job's: nothing of it counts.
    `elsewhere` no meter writes: the store says there what counts in other jobs.
    """

    TYPE: ClassVar[str] = "device"
    device_id: Identifier
    device_class: DeviceClass = field(name="class")
    name: Text
    meter: Text
    kind: Kind
    share: Share = _stated(1.0)
    memory_b: Bytes | None = None
    power_limit_w: Watts | None = None
    units: Units | None = None
    units_total: Units | None = None
    includes_host: bool = _stated(value=False)
    update_period_s: Period | None = None
    virtual: bool = _stated(value=False)
    released: bool = False
    elsewhere: tuple[Elsewhere, ...] = ()


class IntervalRecord(Record, tag="interval", kw_only=True, forbid_unknown_fields=True):
    """Energy [J] of one device over [start, end); identified by (job, node, device, start).

    `profile` holds its telemetry by the names of MEANS and MAXIMA, or newer ones.
    """

    TYPE: ClassVar[str] = "interval"
    device_id: Identifier
    start: Moment
    end: Moment
    energy_j: Joules
    kind: Kind
    utilisation_mean: Busy | None = None
    utilisation_max: Busy | None = None
    memory_peak_b: Bytes | None = None
    power_max_w: Watts | None = None
    profile: Profile = field(default_factory=dict)

    @property
    def length_s(self) -> float:
        """Length of the interval [s]."""
        return (self.end - self.start).total_seconds()


class CountRecord(Record, tag="count", kw_only=True, forbid_unknown_fields=True):
    """Functional units counted since the writer's last record of the same unit.

    With `counter` the amount is all that this counter has of the unit in the phase so far, so that
    a record twice changes nothing (docs/journal.md, "Counts"). A record with `since` repeats
    amounts of others: those counted in the window `phase` over [since, at). It is no part of R; see
    docs/journal.md, "Windows".
    """

    TYPE: ClassVar[str] = "count"
    at: Moment
    unit: Unit
    amount: Amount
    phase: Text | None = None
    since: Moment | None = None
    counter: Identifier | None = None


class EndRecord(Record, tag="end", kw_only=True, forbid_unknown_fields=True):
    """How the job ended for a writer, and what its meter used: CPU time [s], peak memory [B]."""

    TYPE: ClassVar[str] = "end"
    ended_at: Moment
    state: EndState
    exit_code: Whole | None = None
    signal: Whole | None = None
    meter_cpu_s: Seconds | None = None
    meter_rss_b: Bytes | None = None
    notices: Texts = ()


AnyRecord = JobRecord | DeviceRecord | IntervalRecord | CountRecord | EndRecord
TYPES: dict[str, type[AnyRecord]] = {
    cls.TYPE: cls for cls in (JobRecord, DeviceRecord, IntervalRecord, CountRecord, EndRecord)
}
SIDE = frozenset(
    ("utilisation_mean", "utilisation_max", "memory_peak_b", "power_max_w", "profile")
    + ("memory_b", "power_limit_w", "units_total", "update_period_s", "meter_cpu_s", "meter_rss_b")
)
"""Figures beside the energy: one beyond its bounds goes to `extra`, its line counts without it."""
_ENCODER = msgspec.json.Encoder()
_DECODER = decoder(AnyRecord)
_TIMES = {
    JobRecord: ("started_at",),
    IntervalRecord: ("start", "end"),
    CountRecord: ("at", "since"),
    EndRecord: ("ended_at",),
}


def encode(record: AnyRecord) -> str:
    """Return the record as one line of JSON, without the newline; None fields are left out.

    Raises ValueError for a number that JSON cannot hold.
    """
    line = _ENCODER.encode(record)
    if record.extra:
        doc = msgspec.json.decode(line)
        doc = {"v": VERSION, **record.extra, **{n: doc[n] for n in doc if n != "extra"}}
        return json.dumps(doc, separators=(",", ":"), allow_nan=False)
    text = (_BEGINS + line[1:]).decode()
    if ":null" in text:  # what is written for NaN, and perhaps a part of a text
        decode(text)
    return text


def decode(line: str | bytes) -> AnyRecord:
    """Parse and check a journal line; raises RecordError with a stable `code`."""
    if len(line) > LINE_MAX_B:
        raise RecordError(f"a line has at most {LINE_MAX_B} B", code="line-too-long")
    text = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    if text.startswith(_BEGINS):
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            record: AnyRecord = _DECODER.decode(b"{" + text[len(_BEGINS) :])
            if not record.extra:
                return _meaning(record)
    return _meaning(_explained(text))


def readable(lines: Iterable[str | bytes]) -> Iterator[AnyRecord]:
    """Yield the records in journal lines without those that are torn or refused."""
    for line in lines:
        with suppress(RecordError):
            yield decode(line)


def _explained(line: bytes) -> AnyRecord:
    """Return the record of a line that has fields to set aside, or say what is wrong with it."""
    try:
        doc = msgspec.json.decode(line.removeprefix(BOM_UTF8))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = "not a JSON line (torn or foreign)"
        if number := _NO_NUMBER.search(line):
            text = f"{number[0].decode()} is not a number of JSON; leave an unknown figure out"
        raise RecordError(text, code="bad-json") from None
    if not isinstance(doc, dict):
        raise RecordError("a journal line is a JSON object", code="bad-json")
    version, kind = doc.pop("v", None), doc.pop("type", None)
    if version != VERSION:
        if isinstance(version, int) and version > VERSION:
            text = f"the line is of journal version {version}, this release reads {VERSION}"
            raise RecordError(f"{text}; upgrade gramwatt here", code="newer-version")
        raise RecordError(f"record version {version!r} is not {VERSION}", code="bad-version")
    cls = TYPES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise RecordError(f"unknown record type {kind!r}", code="unknown-type")
    types = {name: kind for name, kind in checks.types_of(cls).items() if name != "extra"}
    problems: list[checks.Problem] = []
    values = checks.read(types, doc, problems)
    for problem in problems:
        if problem.field not in SIDE:
            raise RecordError(problem.sentence, code="bad-field", field=problem.field)
    extra = {name: doc[name] for name in doc if doc[name] is not None and name not in values}
    for name, value in extra.items():
        if not _can_be_kept(name) or not _can_be_kept(value):
            text = f"field {name[:64]!r}: not a value that can be written again as it was read"
            raise RecordError(text, code="bad-field", field=name)
    if missing := checks.missing(cls, values):
        names = ", ".join(map(repr, missing))
        raise RecordError(f"{cls.TYPE} record lacks {names}", code="missing-field")
    attributes = {checks.fields_of(cls)[name].name: value for name, value in values.items()}
    return cls(**attributes, extra=extra)


def _can_be_kept(value: Any, depth: int = 0) -> bool:
    """Return whether every store can hold the value of an unknown field."""
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return True
    return depth < NESTED_MOST and all(
        _can_be_kept(item, depth + 1) for pair in value.items() for item in pair
    )


def _meaning(record: AnyRecord) -> AnyRecord:
    """Return a record with its times in UTC; raises RecordError where its fields contradict."""
    for name in _TIMES.get(type(record), ()):
        when = getattr(record, name)
        if when is not None and (
            when.tzinfo is not UTC or not FIRST_YEAR <= when.year <= LAST_YEAR
        ):
            setattr(record, name, in_utc(when))
    if isinstance(record, IntervalRecord):
        if record.length_s <= 0:
            raise RecordError("an interval ends after it starts", code="bad-interval")
        if record.length_s > LONGEST_S:
            raise RecordError("an interval is at most a day long", code="bad-interval")
        check_energy(record.energy_j, record.length_s)
    if isinstance(record, CountRecord) and record.since is not None:
        named = record.phase is not None
        if not named or record.at < record.since:
            raise RecordError("a window has a name and ends after it starts", code="bad-window")
    return record


def is_unique(device_id: str) -> bool:
    """Return whether an id belongs to one device in the world, so that containers may share it."""
    return _UNIQUE_ID.match(device_id) is not None


def check_energy(energy_j: float, length_s: float, device_class: str | None = None) -> None:
    """Raise RecordError `impossible-energy` for more than a device can draw in that time."""
    most_w = MOST_W.get(device_class or "", UNKNOWN_W)
    if energy_j > most_w * (length_s + SLACK_S):
        device = f"a {device_class} device" if device_class else "any device"
        text = (
            f"{energy_j:.3g} J in {length_s:g} s is more than {device} can draw "
            f"({most_w:,.0f} W); check its meter"
        )
        raise RecordError(text, code="impossible-energy")


def joined(profiles: Sequence[Mapping[str, float]], lengths_s: Sequence[float]) -> dict[str, float]:
    """Combine the profiles of spans of these lengths [s]: means weighted by them, maxima.

    Each name is taken over the profiles that have it; a name that none has is left out.
    """
    figures: dict[str, float] = {}
    for name in PROFILE_NAMES:
        read = [profile[name] for profile in profiles if name in profile]
        if name in MAXIMA and read:
            figures[name] = max(read)
        elif read:
            has = (name in profile for profile in profiles)
            of_read = lengths_s if len(read) == len(profiles) else list(compress(lengths_s, has))
            whole_s = sum(of_read)
            if whole_s:
                figures[name] = sum(map(mul, read, of_read)) / whole_s
    return figures
