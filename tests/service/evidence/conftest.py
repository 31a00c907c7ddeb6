"""A bundle made by the command from a store with a correction and imported hourly intensity."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gramwatt.service.jobs.ingest import ingest
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, store_of


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    """A folder whose `home` has jobs of 600 W for three minutes, and the bundle of one of them.

    That of job-1 is at 100 g/kWh, with PUE 1.2 declared afterwards.
    """
    folder = tmp_path_factory.mktemp("evidence")
    with pytest.MonkeyPatch.context() as patch:
        at_home(patch, folder)
        with store_of(folder / "home") as service:
            add(service)
            add(service, "running", end_state=None)
            about = {"model_id": "org/net", "zone": "SE"}
            of_model = [
                journal("run-1", minutes=5, **about),
                journal("run-2", end_state="failed", **about),
                journal("use-1", kind="inference", start=START + timedelta(days=1), **about),
            ]
            before = journal("earlier", start=START - timedelta(days=30), project="vision")
            for records in (*of_model, before):
                ingest(service, records[0].job_id, lines(records))
        import_hours("FR", 100)
        assert gramwatt("job", "job-1", "--set", "pue=1.2")[0] == 0
        assert gramwatt("evidence", "export", "job-1", "-o", "job-1.zip")[0] == 0
    return folder, (folder / "job-1.zip").read_bytes()


@pytest.fixture
def world(made, monkeypatch):
    """The folder of `made` as the current one, with its home."""
    at_home(monkeypatch, made[0])
    return made[0]


@pytest.fixture
def bundle(made):
    """The bundle of job-1."""
    return made[1]


@pytest.fixture(scope="package")
def month(made):
    """The bundle of May."""
    with pytest.MonkeyPatch.context() as patch:
        at_home(patch, made[0])
        assert gramwatt("evidence", "export", "2026-05")[0] == 0
    return (made[0] / "2026-05.zip").read_bytes()


def at_home(patch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        patch.setenv(name, str(folder))
    patch.setenv("GRAMWATT_HOME", str(folder / "home"))
    patch.delenv("GRAMWATT_DATABASE_URL", raising=False)
    patch.chdir(folder)


def import_hours(zone: str, g_per_kwh: float, day: datetime = START) -> None:
    """Import the same intensity for every hour of a day."""
    rows = (f"{day:%Y-%m-%d}T{hour:02d}:00Z,{g_per_kwh}\n" for hour in range(24))
    Path(f"{zone}.csv").write_text("start_utc,g_per_kwh\n" + "".join(rows))
    basis = ("--basis", "lifecycle", "--signal", "average")
    assert gramwatt("import", "intensity", f"{zone}.csv", "--zone", zone, *basis)[0] == 0
