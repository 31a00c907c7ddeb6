"""The audit log: what stands in it, and how it is followed."""

import json

import pytest

from gramwatt.service.access.keys import create_key
from gramwatt.service.config import from_environment
from gramwatt.service.container import Service
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, client_of


@pytest.fixture
def logged(service):
    """A service with four entries in the log."""
    for name in "abcd":
        create_key(service, name, "read")
    return service


def test_who_follows_the_log_gets_every_entry_once_and_in_order(logged, monkeypatch):
    later = []

    def pause(_seconds):
        if later:
            raise KeyboardInterrupt
        later.append(create_key(logged, "e", "read"))

    monkeypatch.setattr("time.sleep", pause)
    url = logged.store.url.render_as_string(hide_password=False)
    follow = ("admin", "log", "--follow", "--json", "--database-url", url)
    code, out, _ = gramwatt(*follow, "--limit", "2")
    subjects = [json.loads(line)["subject"][0] for line in out.splitlines()]
    assert (code, subjects) == (0, ["c", "d", "e"])
    out = gramwatt(*follow, "--after", "3")[1]
    assert [json.loads(line)["number"] for line in out.splitlines()] == [4, 5]


def test_what_takes_data_out_or_brings_it_back_is_an_entry(home):
    gramwatt("admin", "db", "upgrade")
    service = Service.open(from_environment())
    add(service)
    client = client_of(service)
    assert client.post("/v1/jobs/job-1/rescore", json={"reason": "why not"}).status_code == 200
    for command in (
        ("evidence", "export", "job-1", "-o", "job-1.zip"),
        ("export", "journals", "journals"),
        ("admin", "db", "backup", "backup.db"),
    ):
        assert gramwatt(*command)[0] == 0, command
    service.store.close()
    kept = gramwatt("admin", "log", "--json")[1]
    assert gramwatt("admin", "db", "restore", "backup.db", "--replace")[0] == 0
    after = json.loads(gramwatt("admin", "log", "--json")[1])["entries"]
    found = [(row["action"], row["subject"]) for row in json.loads(kept)["entries"]]
    assert found[::-1] == [
        ("key-created", "api (admin)"),
        ("job-rescored", "job-1, revision 1: why not"),
        ("exported", "evidence of job-1"),
        ("exported", "1 journals, to journals"),
        ("backup", "backup.db"),
    ]
    # The entry of the backup came after it.
    assert [row["action"] for row in after[:2]] == ["restored", "exported"]
