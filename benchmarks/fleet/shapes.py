"""A month of a large fleet as an archive, made by DuckDB out of shapes; nothing of it was measured.

Each device has a level of power, and each minute its own deviation of half a percent from it, in
whole mJ and mW as NVML gives them; utilisation is in whole percents, memory is constant. Eight
devices are a job. Parts of jobs are copies of those of one real job.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.fleet.archive import archive_month
from gramwatt.service.fleet.manifest import ArchivedFile, manifest_name, sha256_of
from gramwatt.service.fleet.parquet import file_sums
from gramwatt.service.fleet.places import Folder
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.store.migrate import upgrade
from tests.journals import H100, Load, Writer, lines, metered

MONTH, PROJECTS, DEVICES_OF_JOB = "2026-03", 8, 8
START = datetime(2026, 3, 2, tzinfo=UTC)
FORMAT = "FORMAT parquet, COMPRESSION zstd"


def opened(folder: Path) -> Service:
    """Return a service over a new SQLite file."""
    folder.mkdir(parents=True, exist_ok=True)
    url = sqlite_url(folder / "gramwatt.db")
    now = datetime(2026, 6, 1, tzinfo=UTC)
    service = Service.open(ServiceConfig(home=folder, database_url=url, clock=lambda: now))
    upgrade(service.store)
    return service


def store_job(service: Service, number: int, minutes: int, devices: int = DEVICES_OF_JOB) -> None:
    """Store a job of this many boards and minutes."""
    writer = Writer("w1", f"n-{number}", f"job-{number}", t0=START)
    load = [
        Load(f"GPU-{n}", lambda s, n=n: round(300 + n + (s * 7919 % 977) / 300, 3), H100)
        for n in range(devices)
    ]
    records = [writer.job(project=f"project-{number % PROJECTS}", zone="DE", units=("image",))]
    records += metered(writer, load, seconds=minutes * 60, step_s=60)
    records += [writer.count(1e6, seconds=minutes * 60 - 1), writer.end(minutes * 60)]
    ingest(service, writer.who["job_id"], lines(records))


def fleet(folder: Path, devices: int, minutes: int) -> Folder:
    """Return the archive of a fleet, each device with this many intervals of a minute."""
    place = Folder(folder / "archive")
    service = opened(folder / "real")
    store_job(service, 0, 120)
    manifest = archive_month(service, MONTH, place).manifest
    service.store.close()
    files = {file.table: place.path / file.name for file in manifest.files}
    jobs = devices // DEVICES_OF_JOB
    con = duckdb.connect()
    con.execute("SET threads = 2")
    con.execute("SET memory_limit = '4GB'")
    made: list[ArchivedFile] = []
    for project in range(PROJECTS):
        mine = f"range({project}, {jobs}, {PROJECTS}) AS of(job)"
        who = f"p-{project:020d}"
        for table, rows in _tables(files, mine, minutes, who).items():
            name = f"{table}/{MONTH}/{who}-r1.parquet"
            path = place.path / name
            con.execute(f"COPY ({rows}) TO '{path}' ({FORMAT})").fetchall()
            number, joules = file_sums(table, path)
            size = path.stat().st_size
            made.append(ArchivedFile(name, table, who, number, size, joules, sha256_of(path)))
    con.close()
    for path in files.values():
        path.unlink()
    named = place.path / manifest_name(MONTH)
    named.write_text(replace(manifest, files=tuple(made)).to_text())
    return place


def _tables(files: dict[str, Path], mine: str, minutes: int, who: str) -> dict[str, str]:
    """Return the rows of each table as SQL."""
    first_us = int(START.timestamp()) * 1_000_000
    start = f"({first_us} + minute * 60000000)::BIGINT"
    renamed = f"of.job AS job, 'job-' || of.job AS job_id, '{who}' AS project"
    hours = f"generate_series(0, {(minutes - 1) // 60}) AS hours(number)"
    return {
        "intervals": f"""
            SELECT {renamed}, 'n-' || of.job AS node, 'GPU-' || device AS device_id,
                'w1' AS writer, (minute * {DEVICES_OF_JOB} + device)::BIGINT AS seq,
                make_timestamptz({start}) AS "start",
                make_timestamptz({start} + 60000000) AS "end",
                round(60 * level * (1 + (random() - 0.5) / 100), 3) AS energy_j,
                'measured' AS kind, round(0.9 + random() / 20, 2) AS utilisation_mean,
                1.0::DOUBLE AS utilisation_max, 60 * 1073741824.0::DOUBLE AS memory_peak_b,
                round(level * 1.02, 0)::DOUBLE AS power_max_w,
                NULL::VARCHAR AS profile, NULL::VARCHAR AS extra
            FROM (SELECT job, device, 250 + (job * 7 + device * 13) % 400 AS level
                FROM {mine}, generate_series(0, {DEVICES_OF_JOB - 1}) AS boards(device)) AS of,
                generate_series(0, {minutes - 1}) AS minutes(minute)""",
        **{
            table: f"SELECT real.* REPLACE ({renamed}) "
            f"FROM {mine}, read_parquet('{files[table]}') AS real"
            for table in ("counts", "jobs", "embodied")
        },
        "energy": f"""
            SELECT {renamed}, 'DE' AS zone, 'annual' AS quality,
                ({int(START.timestamp()) // 3600} + hours.number)::BIGINT AS hour,
                {DEVICES_OF_JOB} * 60 * 60 * (300.0 + of.job % 300)::DOUBLE AS energy_j,
                300.0::DOUBLE AS intensity_g_per_kwh, 1.2::DOUBLE AS pue,
                NULL::DOUBLE AS contract_g_per_kwh
            FROM {mine}, {hours}""",
    }
