"""The audit log: a chain of hashes that shows a change or a gap, and what stands in it."""

import json

import pytest
import sqlalchemy as sa

from gramwatt.service.access import audit
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.config import from_environment
from gramwatt.service.container import Service
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.store.access import audit_unlocked
from tests.journals import journal, lines
from tests.service.cli.command import gramwatt


def url_of(service):
    return service.store.url.render_as_string(hide_password=False)


def tamper(service, statement):
    with service.store.write() as session, audit_unlocked(session.connection()):
        session.execute(sa.text(statement))


@pytest.fixture
def logged(service):
    """A service with four entries in the log."""
    for name in "abcd":
        create_key(service, name, "read")
    return service


@pytest.mark.parametrize(
    ("statement", "entry"),
    [
        ("UPDATE audit SET actor = 'somebody' WHERE id = 2", 2),
        ("UPDATE audit SET cut_hash = 'x' WHERE id = 4", 1),
        ("DELETE FROM audit WHERE id = 3", 4),
    ],
)
def test_a_change_or_a_gap_is_found(logged, statement, entry):
    check = ("key", "check-log", "--database-url", url_of(logged))
    code, out, err = gramwatt(*check)
    assert (code, err, out.startswith("4 entries hold, up to number 4, ")) == (0, "", True)
    tamper(logged, statement)
    code, out, err = gramwatt(*check)
    assert (code, out) == (1, "")
    assert f"entry {entry} was changed, or one before it is missing" in err


def test_a_copy_kept_elsewhere_shows_what_the_chain_alone_does_not(logged, tmp_path, monkeypatch):
    written = tmp_path / "audit.ndjson"

    def pause(_seconds):
        if logged_more:
            raise KeyboardInterrupt
        logged_more.append(create_key(logged, "e", "read"))

    logged_more = []
    monkeypatch.setattr("time.sleep", pause)
    follow = ("key", "log", "--follow", "--json", "--limit", "2")
    code, out, _ = gramwatt(*follow, "--database-url", url_of(logged))
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, [line["subject"][0] for line in lines]) == (0, ["c", "d", "e"])
    written.write_text(out)
    check = ("key", "check-log", str(written), "--database-url", url_of(logged))
    assert gramwatt(*check)[0] == 0
    tamper(logged, "DELETE FROM audit WHERE id = 5")
    assert gramwatt("key", "check-log", "--database-url", url_of(logged))[0] == 0
    assert "entry 5 was kept and is missing" in gramwatt(*check)[2]
    create_key(logged, "f", "read")  # PostgreSQL goes on with 6, SQLite takes 5 again
    assert "entry 5 " in gramwatt(*check)[2]


def test_after_a_cut_the_rest_of_the_chain_holds(logged):
    """As erasure does: the entries before are changed, and the log says up to which."""
    with logged.store.write() as session:
        cut = audit.newest_hash(session)
        audit.record(session, logged, "erased", "somebody", cut_hash=cut)
    tamper(logged, "UPDATE audit SET actor = 'erased' WHERE id < 5")
    create_key(logged, "e", "read")
    found = audit.check_chain(logged)
    assert (found.entries, found.problem) == (2, None)
    tamper(logged, "UPDATE audit SET actor = 'x' WHERE id = 5")
    assert audit.check_chain(logged).problem is not None


def test_what_takes_data_out_or_brings_it_back_is_an_entry(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    gramwatt("db", "upgrade")
    service = Service.open(from_environment())
    ingest(service, "job-1", lines(journal()))
    client = create_app(service).test_client()
    assert client.post("/v1/jobs/job-1/rescore", json={"reason": "why not"}).status_code == 200
    for command in (
        ("export", "pack", "job-1", "-o", "job-1.zip"),
        ("export", "journals", "journals"),
        ("db", "backup", "backup.db"),
    ):
        assert gramwatt(*command)[0] == 0, command
    service.store.close()
    kept = gramwatt("key", "log", "--json")[1]
    assert gramwatt("db", "restore", "backup.db", "--replace")[0] == 0
    after = json.loads(gramwatt("key", "log", "--json")[1])["entries"]
    found = [(row["action"], row["subject"]) for row in json.loads(kept)["entries"]]
    assert found[::-1] == [
        ("key-created", "api (admin)"),
        ("job-rescored", "job-1, revision 1: why not"),
        ("exported", "pack of job-1"),
        ("exported", "1 journals, to journals"),
        ("backup", "backup.db"),
    ]
    # The entry of the backup came after it.
    assert [row["action"] for row in after[:2]] == ["restored", "exported"]
    assert gramwatt("key", "check-log")[0] == 0
