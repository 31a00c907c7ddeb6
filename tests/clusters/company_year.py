"""A year of a small company: jobs in three zones, one of them known by the hour."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gramwatt.sci.journal.records import AnyRecord
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.intensity.csv_import import import_csv
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.store.migrate import upgrade
from tests.journals import H100, Load, Writer, lines, metered

NOW = datetime(2027, 2, 1, 12, tzinfo=UTC)
MONTHS = [f"2026-{month:02d}" for month in range(1, 13)]
HOUR = timedelta(hours=1)
REGION = "aws:eu-central-1"


def opened(folder: Path, **more: object) -> Service:
    """A service over an SQLite file in a folder, with tables."""
    url = sqlite_url(folder / "gramwatt.db")
    config = ServiceConfig(home=folder, database_url=url, clock=lambda: NOW)
    service = Service.open(replace(config, **more))  # type: ignore[arg-type]
    upgrade(service.store)
    return service


def job(job_id: str, start: datetime, *, step_s: float = 300, **about: object) -> list[AnyRecord]:
    """Two boards for three hours and twenty minutes, whose power is in whole mW."""
    power = random.Random(job_id)
    writer = Writer("w1", "n-1", job_id, t0=start)
    loads = [
        Load(f"GPU-{n}", lambda _: round(300 + 50 * power.random(), 3), H100) for n in range(2)
    ]
    records: list[AnyRecord] = [writer.job(**about)]
    records += metered(writer, loads, seconds=12_000, step_s=step_s)
    return [*records, writer.count(1000.0, seconds=11_990), writer.end(12_000)]


def year() -> Iterator[list[AnyRecord]]:
    """Four jobs a month; every last one goes on into the month after."""
    for number in range(1, 13):
        places = ({"region": REGION}, {"zone": "FR"}, {"zone": "SE"}, {"region": REGION})
        ends = datetime(2026 + number // 12, number % 12 + 1, 1, tzinfo=UTC)
        for n, place in enumerate(places):
            within = datetime(2026, number, 4 + 5 * n, 7, 30, tzinfo=UTC)
            start = ends - 1.5 * HOUR if n == 3 else within
            project = ("blue-whale", "humpback")[n % 2]
            yield job(
                f"job-{number}-{n}", start, step_s=1200, project=project, units=("image",), **place
            )


def hours(low: float) -> Iterator[tuple[datetime, float]]:
    """An intensity for every hour of the year [gCO2e/kWh]."""
    for n in range(8760):
        yield datetime(2026, 1, 1, tzinfo=UTC) + n * HOUR, round(low + 10 * ((n * 7) % 24), 3)


def import_hours(service: Service, folder: Path, low: float) -> None:
    """Have the hours of Sweden in the store."""
    path = folder / f"hours-{low:g}.csv"
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["start_utc", "g_per_kwh"])
        table.writerows((f"{hour:%Y-%m-%dT%H:%MZ}", value) for hour, value in hours(low))
    import_csv(service, path, "SE", "lifecycle", "average")


def fill(service: Service, folder: Path) -> None:
    """Store the year."""
    import_hours(service, folder, 20.0)
    for records in year():
        ingest(service, records[0].job_id, lines(records))
