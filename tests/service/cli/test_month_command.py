"""Reports of months by command: the same revision, the same bytes; deliveries in the outbox."""

import hashlib
import json
from datetime import UTC, datetime

import pytest

from gramwatt.service.cli.common import open_service
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.tasks.table import TASKS
from tests.journals import journal, lines
from tests.service.cli.command import gramwatt
from tests.tables import tables_of

pytestmark = pytest.mark.usefixtures("home")
MAY = datetime(2026, 5, 10, 8, tzinfo=UTC)


def run_job(name, **more):
    with open_service() as service:
        upgrade(service.store)
        ingest(service, name, lines(journal(name, start=MAY, **more)))


def written(folder, *options):
    command = (
        "report",
        "month",
        "2026-05",
        "--format",
        "html,pdf,xlsx,zip,json",
        "-o",
        str(folder),
    )
    code, out, _ = gramwatt(*command, *options)
    assert code == 0
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}, out


def test_a_revision_is_the_same_to_the_last_byte_whatever_comes_after(tmp_path):
    run_job("job-1")
    first, printed = written(tmp_path / "first")
    names = [f"2026-05.{form}" for form in ("html", "json", "pdf", "xlsx", "zip")]
    assert list(first) == names
    assert printed.count("2026-05.") == 5
    run_job("late", power_w=900.0)
    assert written(tmp_path / "now")[0]["2026-05.json"] != first["2026-05.json"]
    assert written(tmp_path / "again", "--revision", "1")[0] == first
    code, _, said = gramwatt("report", "month", "2026-05", "--revision", "9")
    assert (code, "revision 9" in said) == (1, True)


def test_the_jobs_of_two_revisions_are_tables_to_join(tmp_path):
    for name in ("job-1", "job-2"):
        run_job(name)

    def table(name, *options):
        command = ("report", "month", "2026-05", "--format", "zip", "-o", str(tmp_path / name))
        code, out, _ = gramwatt(*command, *options)
        assert (code, out.count("2026-05.zip")) == (0, 1)
        rows = tables_of((tmp_path / name / "2026-05.zip").read_bytes())["jobs"]
        return {row["Job"]: row for row in rows}

    first = table("first")
    assert gramwatt("job", "job-1", "--set", "pue=1.5", "--reason", "the hall's meter")[0] == 0
    assert gramwatt("rm", "job-2", "--yes", "--reason", "was a test")[0] == 0
    second = table("second")
    assert (sorted(first), sorted(second)) == (["job-1", "job-2"], ["job-1"])
    assert [rows["job-1"]["Revision of its score"] for rows in (first, second)] == ["1", "2"]
    assert table("again", "--revision", "1") == first


def test_a_delivery_is_in_the_outbox(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_REPORT_DIR", str(tmp_path / "out"))
    run_job("job-1")
    with open_service() as service:
        for name in ("monthly-reports", "outbox"):
            TASKS[name].action(service)
    code, out, _ = gramwatt("budget", "outbox")
    assert (code, out.count("\n")) == (0, 1)
    assert "sent" in out
    assert f"report of 2026-05, report-folder {tmp_path / 'out'}" in out


def test_an_imported_file_of_intensity_is_in_the_log_by_its_digest(tmp_path):
    file = tmp_path / "fr.csv"
    file.write_text("start_utc,g_per_kwh\n2026-05-10T08:00Z,44\n2026-05-10T09:00Z,45\n")
    options = ("--zone", "FR", "--basis", "lifecycle", "--signal", "average")
    code, out, _ = gramwatt(
        "import", "intensity", str(file), *options, "--publisher", "RTE", "--json"
    )
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (code, json.loads(out)["sha256"]) == (0, digest)
    run_job("job-1")
    found = json.loads(written(tmp_path / "out")[0]["2026-05.json"])
    (row,) = found["factors"]
    assert (row["publisher"], row["files"][0]["sha256"]) == ("RTE", digest)
    (entry,) = json.loads(gramwatt("admin", "log", "--json")[1])["entries"]
    assert entry["action"] == "intensity-imported"
    assert entry["subject"] == f"FR average lifecycle: fr.csv, sha256 {digest}"
