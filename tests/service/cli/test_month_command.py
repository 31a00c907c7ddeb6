"""Reports of months by command: the same revision, the same bytes; deliveries in the outbox."""

import hashlib
import json
import re
from datetime import UTC, datetime

import pytest

from gramwatt.service.cli.common import open_service
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.tasks.table import TASKS
from tests.service.cli.command import gramwatt
from tests.service.keyed import add
from tests.tables import tables_of

pytestmark = pytest.mark.usefixtures("home")
MAY = datetime(2026, 5, 10, 8, tzinfo=UTC)


def run_job(name, **more):
    with open_service() as service:
        upgrade(service.store)
        add(service, name, start=MAY, **more)


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
    # The figures stay; what says who ran a job goes with it.
    erased = {"Name": "", "Kind": "", "Started, UTC": ""}
    assert table("again", "--revision", "1") == first | {"job-2": first["job-2"] | erased}


def test_a_month_is_ten_lines_on_a_terminal_and_beside_its_files(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with open_service() as service:
        upgrade(service.store)
        for number, month in enumerate((4, 5, 5, 5)):
            about = {"start": MAY.replace(month=month), "project": "a", "zone": "FR"}
            add(service, f"job-{number}", **about)
        add(service, "other", start=MAY, project="b", zone="FR")
    assert gramwatt("budget", "set", "a", "0.001")[0] == 0
    code, out, err = gramwatt("month")
    assert (code, err) == (0, "")
    shown = out.splitlines()
    document = json.loads(gramwatt("month", "2026-05", "--json")[1])
    total, ratio = document["totals"]["total_g"]["value"], document["changes"]["total_g"]["value"]
    assert shown[0].startswith(f"May 2026: {total:.2g} g CO2e (")
    assert f"{ratio:.1f} times as much as in April 2026" in " ".join(out.split())
    assert ratio == pytest.approx(4.0)
    assert re.search(r"^Energy    120 Wh .*, 100 % metered; .*4 jobs$", out, re.M)
    spent = 0.75 * total  # three of May's four jobs, all alike
    assert re.search(rf"^Projects  a {spent:.2g} g \(\+200 %\), b", out, re.M)
    over = f"{spent / 0.01:.0f} % of 0.001 kg, over budget by about {spent - 1:.2g} g"
    assert re.search(rf"^Budget    a: {over}", out, re.M)
    assert shown[-1] == "More: gramwatt report month 2026-05"
    assert len(shown) <= 12
    assert max(map(len, shown)) <= 80
    code, files, beside = gramwatt("report", "month", "2026-05", "--format", "json")
    assert (code, files) == (0, "2026-05.json\n")
    assert beside.splitlines() == shown[:-1]


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


def test_a_year_is_answered_with_the_command_for_it(home):
    code, _, err = gramwatt("month", "2026")
    assert (code, err) == (2, "gramwatt: 2026 is a year: gramwatt report year 2026\n")
