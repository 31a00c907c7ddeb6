"""codecarbon's emissions.csv as ordinary journal records, so that months, reports and corrections
work as for measured jobs: every run becomes a job.

A row is the state of a run at a time, with sums since its start, so of several rows of one run the
longest counts. Importing again changes nothing; a longer row of a run replaces the shorter.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

import sqlalchemy as sa
from msgspec import Struct

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.figures.errors import LookupFailed, RecordError
from gramwatt.sci.figures.units import j_from_kwh
from gramwatt.sci.records.records import (
    ID_PATTERN,
    AnyRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    check_energy,
    decode,
    encode,
)
from gramwatt.service.common.answers import Rejected
from gramwatt.service.common.errors import ServiceError
from gramwatt.service.common.requests import TableError, open_table
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.columns import from_us
from gramwatt.service.store.models import Job

NODE = "codecarbon"
"""Node of every run: codecarbon names no host."""
Part = Literal["gpu", "cpu", "ram"]
PARTS: tuple[Part, ...] = get_args(Part)
LONGEST = timedelta(days=1)
"""The longest interval of a journal."""
FALLBACK_PLACE = ("CAN", 46.8, -71.2)
"""Country, latitude and longitude that codecarbon states when it cannot look up where it is, with
the region Quebec (codecarbon/external/geography.py of 3.3.2)."""
GPUS_MOST = 1024
CPU_TEXT = (
    "it does not say whether the processor's energy was read or modelled, so it counts as estimated"
)
GPU_TEXT = "the energy of several GPUs comes as a sum, which is divided equally among them"
_GROUP = re.compile(r"(\d) x ")


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware of a run as codecarbon states it; `memory_b` is the machine's memory [B]."""

    version: str
    cpu_model: str
    threads: float | None
    gpus: tuple[str, ...]
    memory_b: float | None

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Machine:
        """Return the machine in codecarbon's own field names; what is missing there is unknown."""
        threads, memory_gib = fields.get("cpu_count"), fields.get("ram_total_size")
        return cls(
            version=str(fields.get("codecarbon_version") or "of unknown version"),
            cpu_model=str(fields.get("cpu_model") or "unknown CPU"),
            threads=threads if threads and threads > 0 else None,
            gpus=boards(fields.get("gpu_model") or "", int(fields.get("gpu_count") or 0)),
            memory_b=memory_gib * 2**30 if memory_gib and memory_gib > 0 else None,
        )

    def notices(self) -> tuple[str, ...]:
        """Return what codecarbon leaves out, as journaled notices."""
        texts = [CPU_TEXT, *([GPU_TEXT] if len(self.gpus) > 1 else [])]
        return tuple(notice(text) for text in texts)

    def devices(self, who: Mapping[str, Any], seq: int) -> list[DeviceRecord]:
        """Records of processor, memory and every GPU, numbered from `seq`.

        GPU energy is the driver's; memory is a model of codecarbon.
        """
        source = f"codecarbon {self.version}"[:200]
        rows: list[dict[str, Any]] = [
            {
                "device_id": "cpu",
                "device_class": "cpu",
                "name": self.cpu_model,
                "meter": f"{source}, RAPL or model",
                "kind": "estimated",
                "units": self.threads,
                "units_total": self.threads,
            },
            {
                "device_id": "ram",
                "device_class": "ram",
                "name": "memory",
                "meter": f"{source}, model of memory",
                "kind": "estimated",
                "memory_b": self.memory_b,
            },
        ]
        rows += [
            {
                "device_id": f"gpu-{number}",
                "device_class": "gpu",
                "name": name,
                "meter": f"{source}, GPU driver",
                "kind": "measured",
                "units_total": float(len(self.gpus)),
            }
            for number, name in enumerate(self.gpus)
        ]
        return [DeviceRecord(**who, seq=seq + at, **row) for at, row in enumerate(rows)]

    def intervals(
        self,
        who: Mapping[str, Any],
        seq: int,
        span: tuple[datetime, datetime],
        energy_kwh: Mapping[Part, float],
    ) -> list[IntervalRecord]:
        """Records of each device's energy over the span, numbered from `seq`.

        An energy of exactly 0 means that codecarbon could not measure the part, so it has none.
        """
        joules: dict[str, float] = {
            part: j_from_kwh(energy_kwh[part]) for part in ("cpu", "ram") if energy_kwh[part] > 0
        }
        if energy_kwh["gpu"] > 0:
            each = j_from_kwh(energy_kwh["gpu"]) / max(1, len(self.gpus))
            joules |= {f"gpu-{number}": each for number in range(max(1, len(self.gpus)))}
        length = span[1] - span[0]
        return [
            IntervalRecord(
                **who,
                seq=at,
                device_id=device_id,
                start=start,
                end=end,
                energy_j=joules[device_id] * ((end - start) / length),
                kind="measured" if device_id.startswith("gpu") else "estimated",
            )
            for at, ((start, end), device_id) in enumerate(product(_pieces(*span), joules), seq)
        ]


def notice(text: str) -> str:
    """Return a remark on what codecarbon left out, as notices are journaled."""
    return f"codecarbon-limits: codecarbon: {text}."


def boards(model: str, count: int) -> tuple[str, ...]:
    """Return the name of each GPU in codecarbon's text, such as "2 x NVIDIA A100-SXM4-80GB".

    Names of several kinds follow each other without a mark ("1 x A1 x B"); where the numbers do not
    add up to `count`, the whole text is the name of every one.
    """
    count = min(count, GPUS_MOST)
    number, mark, name = model.partition(" x ")
    if mark and number == str(count):
        return (name.strip(),) * count
    numbers = _GROUP.findall(model)
    if sum(map(int, numbers)) == count and _GROUP.match(model):
        names = _GROUP.split(model)[2::2]
        return tuple(name for n, name in zip(numbers, names, strict=True) for _ in range(int(n)))
    return (model or "unknown GPU",) * count


def place(
    fields: Mapping[str, Any], catalog: Catalog
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Grid zone, cloud region and notices from country, region and cloud as codecarbon states them.

    A region within a country is used where its name means one grid zone there; else it is said.
    """
    country = fields.get("country_iso_code")
    provider, cloud_region = fields.get("cloud_provider"), fields.get("cloud_region")
    region = f"{provider}:{cloud_region}".lower() if provider and cloud_region else None
    if region and (not country or _is_known(region, catalog)):
        return None, region, ()
    if (country, fields.get("latitude"), fields.get("longitude")) == FALLBACK_PLACE:
        text = "it could not look up where it ran and states Quebec instead, which is not used"
        return None, region, (notice(text),)
    if not country:
        return None, region, ()
    # A region that the catalog lacks still says that the job ran in a data centre.
    zone, texts = _zone_in(str(country), str(fields.get("region") or ""), catalog)
    return zone, region, tuple(map(notice, texts))


def _is_known(region: str, catalog: Catalog) -> bool:
    try:
        catalog.region(region)
    except LookupFailed:
        return False
    return True


def _zone_in(country: str, region: str, catalog: Catalog) -> tuple[str, list[str]]:
    """Return the zone of a region of a country, the country's where it is not known, and why."""
    try:
        code = catalog.zone(country).zone
    except LookupFailed:
        return country, []  # the score says that no zone of that name is known
    within = catalog.zones_within(code, region) if region else ()
    if len(within) == 1:
        return within[0].zone, []
    parts = catalog.zones_of(code)
    if not region or not parts:
        return code, []
    if within:
        keys = ", ".join(row.zone for row in within)
        return code, [f"its region {region!r} lies in {keys}; the value of {code} is used"]
    text = f"its region {region!r} is not one of the {len(parts)} grid zones of {code} by name"
    return code, [f"{text}; the value of {code} is used"]


def _pieces(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the span in steps of LONGEST from its start, so that a longer one has the same
    steps.
    """
    while end - start > LONGEST:
        yield start, start + LONGEST
        start += LONGEST
    yield start, end


REQUIRED = ("timestamp", "duration", "cpu_energy", "gpu_energy", "ram_energy")
NUMBERS = (
    *("duration", "cpu_energy", "gpu_energy", "ram_energy", "cpu_count", "gpu_count"),
    *("ram_total_size", "latitude", "longitude", "pue"),
)
"""Columns that hold numbers; every other one is read as text."""
EMPTY = ("", "nan", "none", "null")
PUE_MOST = 5.0
YEARS = range(2000, 2200)
DEFAULT_EXPERIMENT = "5b0fa12a-3dd7-45bb-9766-cc326314d9f1"
"""The experiment of a run for which none was set."""


class ImportAnswer(Struct):
    """What became of the rows: ids of new and changed jobs, and rows that made none."""

    imported: list[str]
    updated: list[str]
    duplicate: int
    superseded: int
    rejected: list[Rejected]


class NotCodecarbonError(ValueError):
    """A file that is no emissions.csv; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One row: its line in the file, the job it belongs to, its fields and its span."""

    line: int
    job_id: str
    fields: Mapping[str, Any]
    end: datetime

    @property
    def length(self) -> timedelta:
        return timedelta(seconds=self.fields["duration"])

    @property
    def writer(self) -> str:
        """A name for the content of the row, so that the same row again is the same writer."""
        text = repr(sorted((name, value) for name, value in self.fields.items() if value))
        return f"csv-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def import_csv(
    service: Service,
    path: Path,
    zone: tzinfo | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ImportAnswer:
    """Make a job of every run in an emissions.csv; a bad row is rejected alone, by its line.

    Times without an offset are of `zone`, else of this machine. `progress` is told how many of how
    many runs are done. Raises NotCodecarbonError, or OSError for a file that cannot be read.
    """
    answer = ImportAnswer(imported=[], updated=[], duplicate=0, superseded=0, rejected=[])
    rows = _longest(_rows(path, zone, answer.rejected), answer)
    for done, row in enumerate(rows):
        progress(done, len(rows))
        try:
            _import_row(service, row, answer)
        except RecordError as error:
            answer.rejected.append(Rejected(row.line, error.code, error.message))
        except ServiceError as error:
            answer.rejected.append(Rejected(row.line, error.code, str(error)))
    progress(len(rows), len(rows))
    answer.rejected.sort(key=lambda item: item.line)
    return answer


def _rows(path: Path, zone: tzinfo | None, rejected: list[Rejected]) -> Iterable[_Row]:
    number = 1
    try:
        with open_table(path, "replace") as table:
            reader = csv.DictReader(table.lines, delimiter=table.delimiter)
            missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
            if missing:
                raise NotCodecarbonError(
                    f"{path} is not an emissions.csv of codecarbon 2 or newer: it has no column "
                    f"{missing[0]!r}"
                )
            for raw in reader:
                number = reader.line_num
                try:
                    yield _row(number, raw, zone)
                except ValueError as error:
                    rejected.append(Rejected(number, "bad-row", str(error)))
    except TableError as error:
        raise NotCodecarbonError(f"{path}: {error}") from None
    except csv.Error as error:
        raise NotCodecarbonError(f"{path}, after line {number}: {error}") from None


def _row(line: int, raw: Mapping[str | None, Any], zone: tzinfo | None) -> _Row:
    """Return the row with its figures checked; raises ValueError naming the column."""
    if None in raw or None in raw.values():
        raise ValueError("has another number of columns than the first line")
    fields: dict[str, Any] = {str(name): _value(str(name), text) for name, text in raw.items()}
    for name in REQUIRED[1:]:
        if fields[name] is None or fields[name] < 0:
            raise ValueError(f"{name} is {raw[name]!r}, not a number of 0 or more")
    if not 0 < fields["duration"] < 1e9:
        raise ValueError(f"duration is {raw['duration']!r}, not a number of seconds")
    pue = fields.get("pue")
    if pue is not None and not 1 <= pue <= PUE_MOST:
        raise ValueError(f"pue is {raw['pue']!r}, not from 1 to {PUE_MOST:g}")
    return _Row(line, _job_id(fields), fields, _time(str(fields["timestamp"]), zone))


def _value(name: str, text: str) -> Any:
    stripped = text.strip()
    if stripped.lower() in EMPTY:
        return None
    if name not in NUMBERS:
        return stripped
    try:
        number = float(stripped)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {text!r}, not a number")
    return number


def _time(text: str, zone: tzinfo | None) -> datetime:
    try:
        when = datetime.fromisoformat(text)
        # Without an offset it is what the clock on the wall showed.
        when = (when if when.tzinfo else when.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        when = None
    if when is None or when.year not in YEARS:
        raise ValueError(f"timestamp is {text[:40]!r}, not a time of a run")
    return when


def _job_id(fields: Mapping[str, Any]) -> str:
    """By the run's id, and the task's name in a file of tasks; of a run without id by its figures.

    A client that also sends to an API writes no id.
    """
    run, task = fields.get("run_id"), fields.get("task_name")
    if run is None:
        figures = [fields.get(name) for name in ("project_name", *REQUIRED)]
        return "codecarbon-row-" + hashlib.sha256(repr(figures).encode()).hexdigest()[:20]
    name = run if task is None else f"{run}-{hashlib.sha256(task.encode()).hexdigest()[:12]}"
    job_id = f"codecarbon-{name}"
    if not ID_PATTERN.fullmatch(job_id):
        raise ValueError(f"run_id is {run!r}, not an id")
    return job_id


def _longest(rows: Iterable[_Row], answer: ImportAnswer) -> Sequence[_Row]:
    """Return the row with the longest duration of each run, in the order of the file."""
    longest: dict[str, _Row] = {}
    for row in rows:
        before = longest.get(row.job_id)
        if before is not None and before.writer == row.writer:
            answer.duplicate += 1
            continue
        answer.superseded += before is not None
        if before is None or row.length > before.length:
            longest[row.job_id] = row
    return list(longest.values())


def _import_row(service: Service, row: _Row, answer: ImportAnswer) -> None:
    with service.store.read() as session:
        stored_us = session.scalar(sa.select(Job.started_us).where(Job.job_id == row.job_id))
    # The time of a row is cut to seconds, so a later row of the run would start elsewhere.
    started = row.end - row.length if stored_us is None else from_us(stored_us)
    records = _records(row, started, service.catalog)
    lines = [encode(record).encode() for record in records]
    for record in map(decode, lines):
        if isinstance(record, IntervalRecord):
            check_energy(record.energy_j, record.length_s, record.device_id.partition("-")[0])
    taken = ingest(service, row.job_id, lines)
    if taken.rejected:
        first = taken.rejected[0]
        raise RecordError(first.message, code=first.code)
    if not taken.accepted:
        answer.duplicate += 1
    else:
        (answer.imported if stored_us is None else answer.updated).append(row.job_id)


def _records(row: _Row, started: datetime, catalog: Catalog) -> list[AnyRecord]:
    """Return the journal of a run: what ran, on what, its energy, and its end when the row was
    written.
    """
    fields, machine = row.fields, Machine.from_fields(row.fields)
    who: dict[str, Any] = {"job_id": row.job_id, "node": NODE, "writer": row.writer}
    pue = fields.get("pue") or 1.0
    zone, region, notices = place(fields, catalog)
    experiment = fields.get("experiment_id")
    named = {
        "experiment": None if experiment == DEFAULT_EXPERIMENT else experiment,
        "tracking_mode": fields.get("tracking_mode"),
    }
    job = JobRecord(
        **who,
        seq=1,
        started_at=started,
        role="track",
        project=fields.get("project_name") or "default",
        name=fields.get("task_name") or fields.get("project_name") or "",
        kind="other",
        zone=zone,
        region=region,
        pue=pue if pue > 1 else None,  # 1.0 is what it has when none was set
        tags={name: value for name, value in named.items() if value},
        versions={"codecarbon": machine.version},
        notices=(*machine.notices(), *notices),
    )
    devices: list[DeviceRecord] = machine.devices(who, 2)
    end = EndRecord(**who, seq=2 + len(devices), ended_at=started + row.length, state="completed")
    # codecarbon multiplies the energy of each part by the PUE.
    energy: dict[Part, float] = {part: fields[f"{part}_energy"] / pue for part in PARTS}
    # Of two rows of a run the longer has the greater numbers, and so replaces the other.
    first = int(row.length.total_seconds() + 1) << 20
    span = (started, started + row.length)
    return [job, *devices, end, *machine.intervals(who, first, span, energy)]
