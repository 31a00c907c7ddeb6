"""An upgrade under a running server, what it would change, and the way back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import sqlalchemy as sa
from msgspec import convert

from gramwatt.sci.figures.quantity import Quantity
from gramwatt.service.config import sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.tasks.rescoring import rescore_on_new_factors
from tests.journals import body, journal
from tests.service.cli.command import gramwatt
from tests.service.keyed import NDJSON, add, client_of, with_settings


def test_a_server_writes_nothing_into_tables_of_another_release_and_says_why(service):
    client = client_of(service)
    sent = {"data": body(journal()), "content_type": NDJSON}
    assert client.post("/v1/jobs/job-1/records", **sent).status_code == 200
    with service.store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'v2'"))
    for answer in (
        client.post("/v1/jobs/job-2/records", **{**sent, "data": body(journal("job-2"))}),
        client.patch("/v1/jobs/job-1", json={"name": "other"}),
        client.delete("/v1/jobs/job-1"),
    ):
        assert (answer.status_code, answer.json["code"]) == (503, "not-ready")
        assert "revision v2, and this release needs revision v1" in answer.json["detail"]
        assert "start the release that upgraded them" in answer.json["detail"]
    assert client.get("/readyz").status_code == 503
    assert [job["job_id"] for job in client.get("/v1/jobs").json["jobs"]] == ["job-1"]


def url_of(service):
    return service.store.url.render_as_string(hide_password=False)


def test_a_preview_says_what_new_factors_will_change_and_writes_nothing(service, monkeypatch):
    for name in ("job-1", "job-2"):
        add(service, name)
    url = ("--database-url", url_of(service))
    assert (
        gramwatt("admin", "db", "upgrade", "--preview", *url)[1] == "0 of 2 scores would change\n"
    )
    before = job_document(service, "job-1").document
    monkeypatch.setenv("GRAMWATT_LIFETIME_YEARS", "8")
    code, out, _ = gramwatt("admin", "db", "upgrade", "--preview", "--json", *url)
    found = json.loads(out)
    assert (code, found["jobs"], len(found["changed"])) == (0, 2, 2)
    assert job_document(service, "job-1").document == before
    says = gramwatt("admin", "db", "upgrade", "--preview", *url)[1].splitlines()[-1]

    eight = with_settings(service, lifetime_years=8.0)
    assert rescore_on_new_factors(eight) == 2
    total = 0.0
    for row in found["changed"]:
        after = job_document(service, row["job_id"]).document
        assert after.revision == 2
        assert convert(row["new_g"], Quantity) == after.total_g
        assert convert(row["old_g"], Quantity) == before.total_g
        total += row["new_g"]["value"] - row["old_g"]["value"]
    assert says == f"2 of 2 scores would change, by {total:+.6g} g in all"


@contextmanager
def back(url: str, like: Service) -> Iterator[Service]:
    service = Service.open(replace(like.config, database_url=url))
    yield service
    service.store.close()


def test_the_way_back_from_an_upgrade_loses_nothing(light, tmp_path):
    """As docs/deploy.md has it: a backup before, journals after, both into a new database."""
    new_url = sqlite_url(tmp_path / "new.db")
    url, new = ("--database-url", url_of(light)), ("--database-url", new_url)
    add(light)
    before = job_document(light, "job-1").document
    assert gramwatt("admin", "db", "backup", str(tmp_path / "before.db"), *url)[0] == 0
    add(light, "job-2")
    with light.store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'v2'"))
    assert gramwatt("export", "journals", str(tmp_path / "journals"), *url)[0] == 0
    code, _, err = gramwatt(
        "admin", "db", "restore", str(tmp_path / "before.db"), "--replace", *url
    )
    assert (code, "newer gramwatt" in err) == (1, True)
    assert gramwatt("admin", "db", "restore", str(tmp_path / "before.db"), *new)[0] == 0
    code, out, err = gramwatt("import", "journals", str(tmp_path / "journals"), *new)
    assert (code, err) == (0, "")
    with back(new_url, light) as service:
        assert job_document(service, "job-1").document == before
        assert job_document(service, "job-2").document.total_g == before.total_g
