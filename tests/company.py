"""A company of four months, and its carbon in plain arithmetic.

Nothing here is the product's: it writes journal lines, reads them back as JSON, and adds up their
energy with the values of the catalog's CSV files.
"""

from __future__ import annotations

import csv
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

DATA = Path(__file__).parent.parent / "sci" / "catalog" / "data"
HOUR = timedelta(hours=1)
ZONE = ZoneInfo("America/St_Johns")
"""Whose days and months the company reports: three hours and a half behind, in summer two and a
half.
"""
MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04")
PROJECTS = ("vision", "language", "search")
HOURLY_FROM = datetime(2026, 3, 12, 5, tzinfo=UTC)
"""From when on the intensity of Germany is known by the hour."""
HOURLY_TO = datetime(2026, 5, 3, tzinfo=UTC)
ZONES = ("DE", "FR", "SE")
REGION, REGION_PUE = "aws:eu-central-1", ("aws", "eu-central-1")


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a file of the catalog."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _only(name: str, **wanted: str) -> dict[str, str]:
    [found] = [row for row in rows(name) if all(row[k] == v for k, v in wanted.items())]
    return found


@cache
def annual(zone: str) -> float:
    """The catalog's newest annual intensity of a zone [gCO2e/kWh]."""
    years = [row for row in rows("odbl/zones.csv") if row["zone"] == zone]
    return float(max(years, key=lambda row: row["year"])["g_per_kwh"])


@cache
def region_pue() -> float:
    """The PUE that the catalog has of the cloud region."""
    provider, name = REGION_PUE
    return float(_only("regions.csv", provider=provider, region=name)["pue"])


@cache
def embodied_per_board_hour() -> float:
    """Embodied carbon of a board and its eighth of a host for an hour [gCO2e]."""
    board = _only("embodied_studies.csv", hardware="nvidia-h100-sxm5-80", role="chosen")
    model = {row["key"]: float(row["value"]) for row in rows("embodied_model.csv") if row["value"]}
    kg = float(board["kg_co2e"]) / float(board["devices"])
    kg += model["gpu_host"] / model["gpu_host_devices"]
    return kg * 1000 / (model["lifetime"] * 365 * 24)


def text(moment: datetime) -> str:
    """A moment as journals write it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Grid:
    """Intensity by zone: hours where they are known, else the annual value."""

    hours: dict[str, dict[datetime, float]] = field(default_factory=lambda: defaultdict(dict))

    def grams(self, zone: str, start: datetime, end: datetime, kwh: float) -> Iterator[Any]:
        """How the energy of an interval is joined: parts of (start, source, kWh, gCO2e)."""
        at, whole = start, (end - start) / HOUR
        while at < end:
            hour = at.replace(minute=0, second=0, microsecond=0)
            until = min(end, hour + HOUR, next(_by_day(at, end))[1])
            part = kwh * ((until - at) / HOUR) / whole
            known = self.hours[zone].get(hour)
            factor = annual(zone) if known is None else known
            yield at, "annual" if known is None else "hourly", part, part * factor
            at = until

    def body(self, zone: str, source: str) -> dict[str, Any]:
        """The hours of a zone as `POST /v1/intensity` takes them."""
        points = [
            {"start": text(hour), "end": text(hour + HOUR), "g_per_kwh": value}
            for hour, value in sorted(self.hours[zone].items())
        ]
        return {"zone": zone, "source": source, "points": points}


@dataclass
class Carbon:
    """Energy [kWh], energy with PUE [kWh], O and M [gCO2e]."""

    kwh: float = 0.0
    facility: float = 0.0
    operational: float = 0.0
    embodied: float = 0.0

    @property
    def total(self) -> float:
        return self.operational + self.embodied

    def __iadd__(self, other: Carbon) -> Carbon:
        self.kwh += other.kwh
        self.facility += other.facility
        self.operational += other.operational
        self.embodied += other.embodied
        return self


class Job:
    """A job: its journal lines, and what was declared of it since."""

    def __init__(self, job_id: str, lines: list[dict[str, Any]]) -> None:
        self.job_id, self.lines = job_id, lines
        self.pue: float | None = None
        self.moved_to: str | None = None
        self.excluded = False

    @property
    def head(self) -> dict[str, Any]:
        return next(line for line in self.lines if line["type"] == "job")

    @property
    def project(self) -> str:
        return str(self.head["project"])

    @property
    def owner(self) -> str:
        return str(self.head["tags"]["user"])

    @property
    def zone(self) -> str:
        zone: str | None = self.moved_to or self.head.get("zone")
        return zone or "DE"  # the region's

    @property
    def state(self) -> str:
        state: str = next(line for line in self.lines if line["type"] == "end")["state"]
        return state

    @property
    def ended(self) -> datetime:
        return max(_moment(line["ended_at"]) for line in self.lines if line["type"] == "end")

    @property
    def pue_now(self) -> float:
        return self.pue or self.head.get("pue") or region_pue()

    @property
    def last_month(self) -> str:
        return day_of(self.ended)[:7]

    def counts(self) -> dict[str, float]:
        """R by month; a count is spread over the time since the one before it."""
        found: dict[str, float] = defaultdict(float)
        since: dict[str, datetime] = {}
        for line in self.lines:
            if line["type"] == "count":
                start, end = (
                    since.get(line["node"], _moment(self.head["started_at"])),
                    _moment(line["at"]),
                )
                since[line["node"]] = end
                for at, until in _by_day(start, end):
                    found[day_of(at)[:7]] += line["amount"] * ((until - at) / (end - start))
        return found

    def parts(self, grid: Grid) -> Iterator[tuple[str, str, Carbon]]:
        """Carbon by day (YYYY-MM-DD) and source of the intensity; M has the source ""."""
        for line in self.lines:
            if line["type"] == "interval":
                span = _moment(line["start"]), _moment(line["end"])
                for at, source, kwh, g in grid.grams(self.zone, *span, line["energy_j"] / 3.6e6):
                    facility = kwh * self.pue_now
                    yield day_of(at), source, Carbon(kwh, facility, g * self.pue_now)
        boards = [line for line in self.lines if line.get("class") == "gpu"]
        start, end = _moment(self.head["started_at"]), self.ended
        for at, until in _by_day(start, end):
            g = len(boards) * ((until - at) / HOUR) * embodied_per_board_hour()
            yield day_of(at), "", Carbon(embodied=g)

    def body(self, lines: list[dict[str, Any]] | None = None) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines or self.lines)


def day_of(moment: datetime) -> str:
    """The company's day of a moment, YYYY-MM-DD."""
    return f"{moment.astimezone(ZONE):%Y-%m-%d}"


def _by_day(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """A span, cut at midnight."""
    while start < end:
        following = start.astimezone(ZONE).date() + timedelta(days=1)
        midnight = datetime.combine(following, time(), ZONE).astimezone(UTC)
        yield start, (start := min(end, midnight))


def _moment(stated: str) -> datetime:
    return datetime.fromisoformat(stated)


def node_lines(
    draw: random.Random, job_id: str, node: str, start: datetime, hours: int, **head: Any
) -> list[dict[str, Any]]:
    """The lines of one node: a board, a processor and memory by meters, hour by hour."""
    end, seq = start + hours * HOUR, iter(range(1, 10_000))
    who = {"v": 1, "job_id": job_id, "node": node, "writer": f"w-{node}"}

    def line(**fields: Any) -> dict[str, Any]:
        return {**who, "seq": next(seq), **fields}

    found = [line(type="job", started_at=text(start), **head)]
    board = {"name": "NVIDIA H100 80GB HBM3", "meter": "nvml-counter", "units_total": 8}
    devices: list[tuple[str, dict[str, Any], float]] = [
        (f"GPU-{job_id}-{node}", {"class": "gpu", **board}, 600.0),
        (f"cpu-{node}", {"class": "cpu", "name": "Xeon", "meter": "rapl"}, 120.0),
        (f"ram-{node}", {"class": "ram", "name": "memory", "meter": "rapl"}, 30.0),
    ]
    for device_id, device, watts in devices:
        found.append(line(type="device", device_id=device_id, kind="measured", **device))
        for hour in range(hours):
            span = {
                "start": text(start + hour * HOUR),
                "end": text(start + (hour + 1) * HOUR),
                "energy_j": round(3600 * watts * draw.uniform(0.5, 1.1), 1),
            }
            used = {"utilisation_mean": 80.0} if device["class"] == "gpu" else {}
            found.append(
                line(type="interval", device_id=device_id, kind="measured", **span, **used)
            )
    state = head.get("tags", {}).get("ends", "completed")
    for hour in range(hours):
        at = text(start + hour * HOUR + timedelta(minutes=30))
        amount = draw.randrange(1000, 9000)
        found.append(line(type="count", unit=head["units"][0], amount=amount, at=at))
    found.append(
        line(type="end", ended_at=text(end), state=state, exit_code=int(state != "completed"))
    )
    return found


class Company:
    """All jobs and the grid; what is left out of `jobs` was deleted."""

    def __init__(self, seed: int = 24) -> None:
        self.draw, self.grid = random.Random(seed), Grid()
        self.jobs: dict[str, Job] = {}
        self._parts: dict[str, Any] = {}
        hour = HOURLY_FROM
        while hour < HOURLY_TO:
            self.grid.hours["DE"][hour] = round(self.draw.uniform(150, 600), 2)
            hour += HOUR

    def add(self, month: str, number: int) -> Job:
        """A job of a month; one in 25 goes on in the next."""
        draw, job_id = self.draw, f"{month}-{number:03d}"
        project = PROJECTS[number % 3]
        start = datetime.fromisoformat(f"{month}-01T00:00:00+00:00")
        start += timedelta(minutes=draw.randrange(27 * 24 * 60))
        if number % 25 == 7:
            following = (start.replace(day=28) + timedelta(days=4)).replace(day=1).date()
            edge = datetime.combine(following, time(), ZONE)
            start = edge.astimezone(UTC) - timedelta(hours=2, minutes=20)
        tags = {"user": f"user-{number % 4}"}
        place: dict[str, Any] = {"zone": ("DE", "FR", "SE")[number % 3], "pue": 1.2}
        if number % 5 == 0:
            place = {"region": REGION}
        if number % 11 == 3:
            tags["ends"] = "failed"
        unit = {"vision": "image", "language": "token", "search": "query"}[project]
        head = {"name": f"{project}-{number % 6}", "project": project, "kind": "training"}
        about = {**head, "units": [unit], "tags": tags, **place}
        job = Job(job_id, node_lines(draw, job_id, "n-1", start, draw.randrange(2, 9), **about))
        self.jobs[job_id] = job
        return job

    def parts(self, job: Job) -> list[tuple[str, str, Carbon]]:
        """`Job.parts`, once for each state of the job and the grid."""
        known = len(job.lines), job.pue, job.moved_to, sum(map(len, self.grid.hours.values()))
        if self._parts.get(job.job_id, (None,))[0] != known:
            self._parts[job.job_id] = known, list(job.parts(self.grid))
        return self._parts[job.job_id][1]

    def carbon(self, month: str, **traits: str) -> dict[str, Carbon]:
        """Carbon of a month by day, of the jobs with these traits."""
        found: dict[str, Carbon] = defaultdict(Carbon)
        for job in self.counted(**traits):
            for day, _, carbon in self.parts(job):
                if day.startswith(month):
                    found[day] += carbon
        return found

    def total(self, month: str, **traits: Any) -> Carbon:
        """The sums of a month, of the jobs with these traits."""
        found = Carbon()
        for carbon in self.carbon(month, **traits).values():
            found += carbon
        return found

    def counted(self, **traits: Any) -> list[Job]:
        """The jobs that sums hold, of those with these traits."""
        return [
            job
            for job in self.jobs.values()
            if not job.excluded and all(getattr(job, n) == value for n, value in traits.items())
        ]

    def of(self, month: str) -> list[Job]:
        """The counted jobs with a part in a month."""
        return [
            job
            for job in self.counted()
            if any(day.startswith(month) for day, *_ in self.parts(job))
        ]

    def factors(self, month: str) -> dict[tuple[str, float, str], Carbon]:
        """E and O by zone, PUE and source of the intensity."""
        found: dict[tuple[str, float, str], Carbon] = defaultdict(Carbon)
        for job in self.counted():
            for day, source, carbon in self.parts(job):
                if source and day.startswith(month):
                    key = (job.zone, job.pue_now, source)
                    found[key] += carbon
        return found
