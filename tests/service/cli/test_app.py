"""The service's commands, run as their users run them."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from gramwatt.service.stopping import LIMIT_S
from tests.journals import journal, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, bearer, store_of


@pytest.fixture
def two_jobs(home):
    with store_of(home) as service:
        for name in ("job-1", "job-2"):
            add(service, name)


def test_jobs_as_json_and_as_a_table(two_jobs):
    code, out, err = gramwatt("jobs", "--json")
    page = json.loads(out)
    assert (code, err, page["next_cursor"]) == (0, "", None)
    assert [job["job_id"] for job in page["jobs"]] == ["job-2", "job-1"]
    assert "devices" not in page["jobs"][0]
    code, out, _ = gramwatt("jobs")
    assert code == 0
    assert "30.0 Wh" in out


def test_a_list_of_jobs_loads_neither_web_framework_nor_advice(two_jobs):
    code = (
        "import sys; sys.argv = ['gramwatt', 'jobs', '--json']\n"
        "from gramwatt.__main__ import main\n"
        "try:\n    main()\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert len(json.loads(done.stdout)["jobs"]) == 2
    heavy = {"flask", "jinja2", "alembic", "apscheduler", "typst", "gramwatt.sci.suggest.suggest"}
    assert heavy & set(done.stderr.split()) == set()
    assert "sqlalchemy" in done.stderr.split()


def test_a_job_as_json_is_the_whole_document(two_jobs):
    code, out, err = gramwatt("job", "job-1", "--json")
    document = json.loads(out)
    assert (code, err, document["energy_kwh"]["value"]) == (0, "", pytest.approx(0.03))
    assert {"devices", "data_quality", "method", "series", "days"} <= document.keys()


def test_an_unknown_job_is_exit_1_with_close_ids(two_jobs):
    code, out, err = gramwatt("job", "job-11", "--json")
    assert (code, out) == (1, "")
    assert err == "gramwatt: unknown job 'job-11'; close ids: job-1, job-2\n"


NEEDS = {
    "energy_kwh": {"energy of"},
    "operational_g": {"energy of", "carbon intensity", "PUE"},
    "embodied_g": {"TE", "RR/ToR", "EL", "TiR"},
    "total_g": {"energy of", "carbon intensity", "PUE", "TE", "RR/ToR", "EL", "TiR"},
    "sci": {"energy of", "carbon intensity", "PUE", "TE", "RR/ToR", "EL", "TiR"},
    "pue": {"PUE"},
    "intensity_g_per_kwh": {"carbon intensity"},
    "lifetime_years": {"EL"},
    "devices.GPU-n1.energy_j": {"energy of"},
    "devices.GPU-n1.embodied_g": {"TE", "RR/ToR", "EL", "TiR"},
}


@pytest.mark.parametrize("field", NEEDS)
def test_every_figure_explains_itself(two_jobs, field):
    document = json.loads(gramwatt("job", "job-1", "--json")[1])
    code, out, _ = gramwatt("job", "job-1", "--explain", field, "--json")
    found = json.loads(out)
    assert code == 0
    device = {f"devices.GPU-n1.{name}": value for name, value in document["devices"][0].items()}
    published = {
        **document["method"],
        **document,
        **device,
        "sci": document["sci"][0]["g_per_unit"],
    }
    assert list(found["figures"].values())[-1] == published[field]
    named = {
        start for start in NEEDS["sci"] for r in found["inputs"] if r["what"].startswith(start)
    }
    assert named == NEEDS[field]
    for row in found["inputs"]:
        assert row["figure"]["source"] in found["text"]
    method = document["method"]
    assert found["engine_version"] == method["engine_version"]
    versions = f"Engine {method['engine_version']}, catalog {method['catalog_version']}"
    assert found["text"].endswith(f"{versions}, {method['standard']}")
    assert found["formula"] in found["text"]


def test_a_devices_embodied_carbon_is_given_by_its_five_terms(two_jobs):
    out = gramwatt("job", "job-1", "--explain", "devices.GPU-n1.embodied_g", "--json")[1]
    te, tir, el, rr, tor, m = (f["value"] for f in json.loads(out)["figures"].values())
    assert m == pytest.approx(te * tir / (el * 8760 * 3600) * rr / tor)


def test_a_device_the_job_has_not_is_wrong_usage(two_jobs):
    code, _, err = gramwatt("job", "job-1", "--explain", "devices.GPU-9.energy_j")
    assert code == 2
    assert "no device 'GPU-9'; it has GPU-n1" in err


def test_a_figure_that_cannot_be_explained_is_wrong_usage(home):
    code, _, err = gramwatt("job", "job-1", "--explain", "colour")
    assert code == 2
    assert "energy_kwh, operational_g, embodied_g, total_g, sci" in err


def test_reports_are_written_and_named_on_stdout(two_jobs, tmp_path):
    code, out, err = gramwatt("report", "job", "job-1", "--format", "html,pdf,json", "-o", "out")
    assert (code, err) == (0, "")
    assert out.split() == ["out/job-1.html", "out/job-1.pdf", "out/job-1.json"]
    assert (tmp_path / "out/job-1.pdf").read_bytes().startswith(b"%PDF-")
    assert "Ranges and digits" not in (tmp_path / "out/job-1.html").read_text()
    assert gramwatt("report", "job", "job-1", "--full", "--format", "html") == (
        0,
        "job-1.html\n",
        "",
    )
    assert "Ranges and digits" in (tmp_path / "job-1.html").read_text()
    code, out, _ = gramwatt("report", "month", "2026-05", "--format", "xlsx,json")
    assert (code, out.split()) == (0, ["2026-05.xlsx", "2026-05.json"])
    month = json.loads((tmp_path / "2026-05.json").read_text())
    assert month["totals"]["energy_kwh"]["value"] == pytest.approx(0.06)


def test_a_job_says_what_uses_as_much(two_jobs):
    # 3 minutes at 600 W are 30 Wh.
    assert " a lamp of 10 W in 3 h" in gramwatt("job", "job-1")[1]


def test_a_month_says_what_it_lacks_on_stderr(home, two_jobs):
    with store_of(home) as service:
        add(service, "job-3", end_state=None)
    code, out, err = gramwatt("report", "month", "2026-05", "--format", "json")
    assert (code, out) == (0, "2026-05.json\n")
    # 3 minutes at 600 W are 30 Wh, with 5 % either way.
    assert err.replace("\u202f", " ").startswith(
        "gramwatt: 2026-05 is not complete. 1 job still runs (job-3) and is in no sum. "
        "Energy so far in this month: 30.0 Wh (28.5 to 31.5).\n"
    )


@pytest.mark.long
def test_a_month_is_the_same_to_the_byte_whatever_python_hashes(home, two_jobs, tmp_path):
    made = set()
    for seed in ("1", "2", "3", "4"):
        command = [sys.executable, "-m", "gramwatt", "report", "month", "2026-05"]
        command += ["--format", "json", "-o", str(tmp_path / seed)]
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, env=environ, check=True, capture_output=True, timeout=60)
        with contextlib.closing(sqlite3.connect(home / "gramwatt.db")) as store:
            store.execute("DELETE FROM monthly_reports")  # so that the next one is made anew
            store.commit()
        text = (tmp_path / seed / "2026-05.json").read_text()
        made.add(re.sub(r'"issued_at": "[^"]+"', "", text))
    document = json.loads(text)
    made.pop()
    assert made == set()
    assert list(document["notice_counts"]) == sorted(document["notice_counts"])
    assert len(document["notice_counts"]) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("report", "month", "2026-13"), 2, "write YYYY-MM"),
        (("report", "month", "2199-01"), 1, "2199-01 has not begun"),
        (("report", "job", "job-1", "--format", "doc"), 2, "known: json, html, pdf"),
        (("report", "job", "job-1", "--format", ""), 2, "no format ''; known: json, html, pdf"),
        (
            ("serve", "--link", "--url", "example.org"),
            2,
            "--url: not an http:// or https:// address",
        ),
        (("serve", "--host", "0.0.0.0"), 2, "there are no API keys yet"),
        (("serve", "--host", "example.org"), 2, "there are no API keys yet"),
        (("serve", "--database-url", "mysql://x/y"), 2, "use SQLite or PostgreSQL"),
        (("admin", "db", "check"), 1, "gramwatt admin db upgrade"),
        (("jobs", "--state", "zzz"), 2, "--state is 'zzz', not one of running, completed, failed"),
    ],
)
def test_wrong_usage_says_what_to_do(home, arguments, code, words):
    found, out, err = gramwatt(*arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


def test_a_filter_without_a_match_is_not_an_empty_store(two_jobs):
    assert gramwatt("jobs", "--state", "lost") == (0, "no job matches\n", "")
    assert gramwatt("jobs", "--project", "other") == (0, "no job matches\n", "")
    assert gramwatt("jobs", "--model-id", "none")[1].startswith("no job matches\n")


@pytest.mark.parametrize("kind", [("job", "job-1"), ("month", "2026-05")])
def test_a_report_that_cannot_be_written_is_one_line(two_jobs, tmp_path, kind):
    (tmp_path / "file").touch()
    code, out, err = gramwatt("report", *kind, "--format", "json", "-o", str(tmp_path / "file/x"))
    assert (code, out) == (1, "")
    assert err.startswith(f"gramwatt: cannot write {tmp_path}/file/x/")
    assert err.count("\n") == 1


NEWER = "the store was made by a newer gramwatt (revision 0099); upgrade gramwatt, or set"


@pytest.fixture
def newer(two_jobs, home):
    """The bytes of a store that a later release made, with a closed journal that waits."""
    from gramwatt.collectors.settings.identity import node_id

    folder = home / "spool" / "job-7" / node_id(False)
    folder.mkdir(parents=True)
    sent = lines(journal("job-7", node=folder.name))
    (folder / "w1.jsonl").write_bytes(b"\n".join(sent) + b"\n")
    with contextlib.closing(sqlite3.connect(home / "gramwatt.db")) as store, store:
        store.execute("UPDATE alembic_version SET version_num = '0099'")
    return folder / "w1.jsonl"


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs",),
        ("job", "job-1"),
        ("admin", "db", "upgrade"),
        ("admin", "db", "check"),
        ("serve", "--port", "0"),
    ],
)
def test_a_store_of_a_newer_release_is_left_alone_in_one_line(newer, arguments):
    before = newer.read_bytes()
    code, out, err = gramwatt(*arguments)
    assert (code, out) == (1, "")
    assert err == f"gramwatt: {NEWER} GRAMWATT_HOME to another folder\n"
    assert newer.read_bytes() == before


def test_sync_into_a_store_of_a_newer_release_keeps_the_journal(newer):
    line = [sys.executable, "-m", "gramwatt", "sync"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"gramwatt: {NEWER}")
    assert done.stderr.endswith("journals stay spooled\n")
    assert done.stderr.count("\n") == 1
    assert newer.exists()


def test_a_run_says_why_its_store_cannot_be_used(newer, home, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOST_SOURCE", "model")
    summary = str(tmp_path / "summary.json")  # with it, the run waits for the score for 30 s
    line = [sys.executable, "-m", "gramwatt", "run", "--json-summary", summary, "--", "true"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert f"{summary} was not written: {NEWER}" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(list((home / "spool").iterdir())) == 2


def test_a_database_that_is_none_is_said_by_sync_in_one_line(newer, home):
    for path in home.glob("gramwatt.db*"):
        path.unlink()
    (home / "gramwatt.db").write_bytes(b"not a database, " * 100)
    line = [sys.executable, "-m", "gramwatt", "sync"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("gramwatt: the database cannot be used: ")
    assert done.stderr.count("\n") == 1
    assert newer.exists()


def test_a_server_that_is_away_is_said_in_one_line(home, monkeypatch):
    monkeypatch.setenv("GRAMWATT_DATABASE_URL", "postgresql://ada@127.0.0.1:1/none")
    line = [sys.executable, "-m", "gramwatt", "jobs"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("gramwatt: the database cannot be used: connection failed")
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_full_disk_is_said_in_one_line(home):
    jobs = [sys.executable, "-m", "gramwatt", "jobs"]
    line = ["bash", "-c", 'ulimit -f 40; exec "$@"', "bash", *jobs]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "gramwatt: the database cannot be used: disk I/O error\n"


def test_db_upgrade_then_check(home):
    assert gramwatt("admin", "db", "upgrade")[:2] == (0, "upgraded\n")
    assert gramwatt("admin", "db", "upgrade")[:2] == (0, "up to date\n")
    assert gramwatt("admin", "db", "check")[:2] == (0, "up to date\n")


def test_serve_answers_takes_in_spools_and_ends_on_sigterm(home, monkeypatch):
    from gramwatt.collectors.settings.identity import node_id

    folder = home / "spool" / "job-7" / node_id(False)
    folder.mkdir(parents=True)
    sent = lines(journal("job-7", node=folder.name))
    (folder / "w1.jsonl").write_bytes(b"\n".join(sent) + b"\n")
    monkeypatch.setenv("GRAMWATT_HOST", "here.example")  # misspelt, and so it lets nobody in
    monkeypatch.setenv("GRAMWATT_SERVICE_HOST", "10.0.0.1")  # set by Kubernetes
    command = [sys.executable, "-m", "gramwatt", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        said = "WARNING GRAMWATT_HOST is not known; do you mean GRAMWATT_HOSTS?\n"
        assert process.stderr.readline().partition(" ")[2] == said
        address = process.stderr.readline().rsplit(" ", 1)[-1].strip()
        key = bearer((home / "server.key").read_text().strip())
        job = urllib.request.Request(f"{address}/v1/jobs/job-7", headers=key)
        with urllib.request.urlopen(job, timeout=30) as answer:
            assert json.load(answer)["state"] == "completed"
        evil = {"Host": "evil.example", **key}
        elsewhere = urllib.request.Request(f"{address}/v1/jobs", headers=evil)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(elsewhere, timeout=30)
        refused.value.close()
        assert refused.value.code == 403
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert time.monotonic() - begun < LIMIT_S  # nothing had to be left undone


def test_a_port_in_use_is_said_plainly(home):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # A process of its own: by then it has set up the log, which other tests would be left.
        line = [sys.executable, "-m", "gramwatt", "serve", "--port", str(port)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"cannot serve on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_figure_of_the_list_breaks_at_any_width(two_jobs, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    told = gramwatt("jobs")[1]
    heads = json.loads(gramwatt("jobs", "--json")[1])["jobs"]
    assert len(heads) == 2
    assert len(told.splitlines()) == 1 + len(heads)
    for head, line in zip(heads, told.splitlines()[1:], strict=True):
        assert line.startswith(head["job_id"])
        assert re.search(r"\d [kmun]?g/image$", line)
        assert len(line) <= columns
