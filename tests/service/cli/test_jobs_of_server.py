"""Commands where a server is set: its jobs as its key may read them, in the same words."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from gramwatt.collectors.settings.config import user_file
from gramwatt.collectors.settings.keys import store_key
from gramwatt.collectors.spool.spool import remember_server
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.jobs.documents import job_document, job_head
from gramwatt.service.months.report import month_report
from gramwatt.service.store.columns import to_text
from tests.collectors.oddserver import OddServer
from tests.journals import START
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, store_of
from tests.service.listening import listening

FIRST, SECOND, SPEECH = "20260510-080000-aa11", "20260510-090000-bb22", "20260510-080000-cc33"
JOBS = {
    FIRST: {"name": "main", "tags": {"job": "chosen"}, "power_w": 300.0},
    SECOND: {"name": "change", "start": START + timedelta(hours=1)},
    SPEECH: {"name": "speech", "project": "speech"},
}


@pytest.fixture
def server(light, home, monkeypatch):
    """A server with jobs of two projects, its address set, and this machine's own store."""
    for name, about in JOBS.items():
        add(light, name, pue=1.5, **about)
    with store_of(home) as own:
        add(own, "own", name="own")
    with listening(create_app(service=light)) as address:
        monkeypatch.setenv("GRAMWATT_SERVER", address)
        yield address


@pytest.fixture
def with_key(light, server, monkeypatch):
    def use(scope="read", *projects):
        monkeypatch.setenv("GRAMWATT_API_KEY", create_key(light, f"k-{scope}", scope, projects).key)

    return use


def documents(*command):
    code, out, err = gramwatt(*command, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def ids(*command):
    return [job["job_id"] for job in documents("jobs", *command)["jobs"]]


def test_a_list_is_of_the_server_by_the_key_that_was_stored_for_it(light, server, with_key):
    store_key(
        user_file(os.environ).parent, server, create_key(light, "mine", "read", ["vision"]).key
    )
    assert ids() == [SECOND, FIRST]  # of the key's project alone
    code, out, err = gramwatt("jobs")
    assert (code, err) == (0, f"Jobs on {server}:\n")
    assert [line.split()[:2] for line in out.splitlines()[1:3]] == [
        [SECOND[:15], "change"],
        [FIRST[:15], "main"],
    ]
    assert ids("--local") == ["own"]
    assert gramwatt("job", SPEECH)[0] == 1  # of another project


def test_filters_and_pages_are_the_servers(with_key):
    with_key()
    assert ids("--project", "speech") == [SPEECH]
    assert ids("--since", "2026-05-10T08:30:00Z", "--sort", "-energy") == [SECOND]
    cursor = documents("jobs", "--limit", "1")["next_cursor"]
    assert SECOND not in ids("--cursor", cursor)
    assert gramwatt("jobs", "--cursor", "x")[0] == 2


@pytest.mark.parametrize(
    ("text", "job_id"),
    [("last", SECOND), (FIRST, FIRST), ("chosen", FIRST), ("main", FIRST), ("20260510-09", SECOND)],
)
def test_a_job_is_an_id_its_beginning_last_a_tag_or_a_name(light, with_key, text, job_id):
    with_key()
    document = documents("job", text)
    assert document == json.loads(to_text(job_document(light, job_id).document))
    assert job_id in gramwatt("job", text)[1]
    assert "compared_with" in documents("suggest", text)


def test_figures_are_explained_and_compared_and_summed(light, with_key):
    with_key("read", "vision")
    assert documents("job", "main", "--explain", "energy_kwh")["figures"]["E"]["value"] > 0
    answer = documents("compare", "main", "change")
    assert answer["ratio"]["value"] > 1.3  # at twice the power
    assert gramwatt("compare", "main", "change")[1].startswith(answer["text"][:20])
    expected = json.loads(to_text(month_report(light, "2026-05", "vision")))
    month = documents("month")
    assert (month["month"], month["project"]) == ("2026-05", "vision")
    assert month == expected
    code, out, err = gramwatt("month", "2026-05")
    assert (code, err.startswith("Jobs on http://")) == (0, True)
    assert out.splitlines()[-1].endswith("/months/2026-05")


def test_reports_are_of_the_servers_job_and_what_reads_the_own_store_says_so(
    light, with_key, tmp_path
):
    with_key()
    code, out, err = gramwatt("report", "job", "main", "--format", "json,csv", "-o", str(tmp_path))
    assert (code, err) == (0, "")
    written = tmp_path / f"{FIRST}.json"
    assert out.splitlines() == [str(written), str(tmp_path / f"{FIRST}.csv")]
    document = json.loads(written.read_text())
    assert document["total_g"] == json.loads(to_text(job_document(light, FIRST).document.total_g))
    assert FIRST in gramwatt("report", "card", "main")[1]
    assert "job own" in gramwatt("report", "card", "own", "--local")[1]
    own = "gramwatt: read from this machine's own store, not from the server\n"
    options = ("--format", "json", "-o", str(tmp_path))
    for command in (["report", "month"], ["report", "year", "2026"]):
        code, _, err = gramwatt(*command, *options)
        assert (code, err.startswith(own)) == (0, True)
    code, _, err = gramwatt("evidence", "export", "own", "-o", str(tmp_path / "own.zip"))
    assert (code, err.startswith(own)) == (0, True)


def test_what_changes_a_job_changes_the_servers(light, with_key):
    with_key("read")
    code, out, err = gramwatt("job", "main", "--set", "zone=DE")
    assert (code, out) == (1, "")
    assert "this needs admin" in err
    with_key("admin")
    assert documents("job", "main", "--set", "zone=DE", "--reason", "moved")["zone"] == "DE"
    assert job_document(light, FIRST).document.corrections[0].reason == "moved"
    assert gramwatt("job", "main", "--set", "zone=nowhere")[0] == 2
    assert gramwatt("rm", "main", input="n\n")[0] == 1
    assert gramwatt("rm", "main", "--yes") == (0, f"deleted {FIRST}\n", "")
    assert "was deleted" in gramwatt("job", FIRST)[2]
    assert job_head(light, SECOND).job_id == SECOND


@pytest.mark.parametrize("command", [("jobs",), ("job", "last"), ("month",), ("suggest", "last")])
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("no key", "gramwatt login http://127.0.0.1"),
        (
            "ingest",
            "the key's scope is ingest; this needs read; ask the server's administrator for a key",
        ),
        ("nothing sent", "no job yet that this key may read"),
        ("away", "cannot be reached (Connection refused); --local reads this machine's store"),
    ],
)
def test_a_server_without_an_answer_is_one_sentence(with_key, monkeypatch, command, case, words):
    if case == "away":
        monkeypatch.setenv("GRAMWATT_SERVER", "http://127.0.0.1:9")
    elif case == "nothing sent":
        with_key("read", "empty")
    elif case == "ingest":
        with_key("ingest")
    code, out, err = gramwatt(*command)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert words in err


PAGE = b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
ODD = {
    b"502 Bad Gateway": (b"<html>", "answers 502; "),
    b"200 OK": (b"<html>Sign in", "answers 200, not as gramwatt does; check the address"),
    b"302 Found\r\nLocation: http://sign.in/": (b"", "redirects to http://sign.in/; check the"),
    b"200 Fine": (b"{}", "answers in another form"),
}


@pytest.mark.parametrize("command", [("jobs",), ("job", "last"), ("top", "--once")])
@pytest.mark.parametrize("head", ODD, ids=bytes.decode)
def test_an_address_where_another_server_answers_is_one_sentence(monkeypatch, command, head):
    body, words = ODD[head]
    other = OddServer(PAGE % (head, len(body), body))
    try:
        monkeypatch.setenv("GRAMWATT_SERVER", other.url)
        at = ("--server", other.url) if command[0] == "top" else ()
        code, out, err = gramwatt(*command, *at)
    finally:
        other.stop()
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert words in err


@pytest.mark.parametrize("command", [("jobs", "--local"), ("job", "last", "--local"), ("jobs",)])
def test_jobs_that_wait_for_a_server_are_named_where_they_are_missing(home, monkeypatch, command):
    monkeypatch.setenv("GRAMWATT_SERVER", "http://127.0.0.1:9")
    journal = home / "spool" / "job-1" / "n-1"
    remember_server(journal, "http://127.0.0.1:9")
    (journal / "w.jsonl").write_bytes(b"{}\n")
    os.utime(journal / "w.jsonl", (1, 1))
    err = gramwatt(*command)[2]
    text = "gramwatt: 1 job of this machine not sent to http://127.0.0.1:9 yet; see `gramwatt sync`"
    assert err.splitlines()[-1] == text


def test_a_text_of_no_job_or_of_several_says_what_to_do(with_key):
    with_key()
    code, _, err = gramwatt("job", "absent")
    assert (code, "no job 'absent'; `gramwatt jobs` lists its jobs" in err) == (1, True)
    code, _, err = gramwatt("job", "20260510-0800")
    assert (code, f"say which: {SPEECH}, {FIRST}" in err) == (2, True)


BARE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sqlalchemy", "flask", "jinja2", "numpy", "yaml", "typst"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from gramwatt.collectors.settings import installation
installation.has_service = lambda: False
from gramwatt.__main__ import main
sys.argv = ["gramwatt", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    "command", [("jobs",), ("job", "last"), ("compare", "main", "change"), ("month",)]
)
def test_the_bare_package_shows_a_servers_jobs(with_key, command):
    with_key("read", "vision")
    done = subprocess.run([sys.executable, "-c", BARE, *command], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("\n") > 2) == (0, True), done.stderr
