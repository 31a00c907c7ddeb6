"""Journals written by one store and read into another: the same jobs and figures."""

import json

import pytest
import sqlalchemy as sa

from gramwatt.service.config import ServiceConfig, from_environment
from gramwatt.service.container import Service
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import export_journals, import_journals, ingest
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.store.models import Job
from tests.journals import body, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import add

NAMES = ["job-1", "job-2", "job-3"]


@pytest.fixture
def target(service, tmp_path):
    """Another, empty store."""
    store = Store(f"sqlite:///{tmp_path}/other.db")
    upgrade(store)
    yield Service(ServiceConfig(home=tmp_path, database_url="", clock=service.config.clock), store)
    store.close()


def test_a_store_made_of_exported_journals_has_the_same_figures(service, target, tmp_path):
    for name in NAMES[:2]:
        add(service, name)
    newer = [{**json.loads(line), "cooling": 5} for line in lines(journal(NAMES[2]))]
    ingest(service, NAMES[2], [json.dumps(line).encode() for line in newer])
    folder = tmp_path / "journals"
    assert export_journals(service, folder).written == NAMES
    answers = [dict(import_journals(target, folder)) for _ in range(2)]
    assert [answer.accepted for answer in answers[0].values()] == [9, 9, 9]
    assert [answer.duplicate for answer in answers[1].values()] == [9, 9, 9]
    for name in NAMES:
        one, two = (job_document(where, name).document for where in (service, target))
        for term in ("energy_kwh", "sci", "devices", "started_at", "ended_at", "state"):
            assert getattr(one, term) == getattr(two, term), term
    again = tmp_path / "again"
    export_journals(target, again)
    for name in NAMES:
        texts = [(one / f"{name}.jsonl").read_text("utf-8") for one in (folder, again)]
        assert sorted(texts[0].splitlines()) == sorted(texts[1].splitlines())
    assert "cooling" in texts[0]


def test_what_has_no_journal_any_more_is_said_and_left_out(light, tmp_path):
    for name in NAMES:
        add(light, name)
    folder = tmp_path / "journals"
    export_journals(light, folder)
    delete_job(light, "job-1", by="test")
    with light.store.write() as session:
        session.execute(sa.update(Job).where(Job.job_id == "job-2").values(intervals_deleted_us=1))
    found = export_journals(light, tmp_path / "rest")
    assert (found.written, found.left_out) == (["job-3"], ["job-2"])
    answers = dict(import_journals(light, folder))
    assert "was deleted" in answers["job-1"]
    assert answers["job-3"].duplicate == 9


def test_the_commands_write_and_read_a_folder(home, tmp_path):
    service = Service.open(from_environment())
    upgrade(service.store)
    add(service)
    service.store.close()
    code, out, err = gramwatt("export", "journals", "here")
    assert (code, out, err) == (0, "1 job written to here\n", "")
    (tmp_path / "here" / "bad.jsonl").write_bytes(b"{}\n" + body(journal("bad")))
    code, out, err = gramwatt("import", "journals", "here")
    assert (code, out) == (1, "2 jobs read: 9 lines new, 9 known, 1 refused\n")
    assert "bad, line 1: " in err
    assert gramwatt("import", "journals", "nowhere")[0] == 2
