"""Erasing a project or a person: the name is nowhere any more."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from gramwatt.service.app import create_app
from gramwatt.service.container import Service
from gramwatt.service.erasure.people import PERSON_COLUMNS
from gramwatt.service.erasure.projects import OWN
from gramwatt.service.store.models import Base
from gramwatt.service.tasks.table import TASKS
from tests.journals import body, journal
from tests.service.cli.command import gramwatt

NDJSON = "application/x-ndjson"
MAY, START = "/v1/reports/monthly/2026-05", datetime(2026, 5, 4, 8, tzinfo=UTC)
SECRET = "zeppelin-7"
"""The project that is deleted; so its jobs, names and model begin too."""


def post(client, job_id, days=0, **about):
    start = START + timedelta(days=days)
    sent = body(journal(job_id, start=start, zone="FR", **about))
    answer = client.post(f"/v1/jobs/{job_id}/records", data=sent, content_type=NDJSON)
    assert answer.status_code == 200, answer.json


def names_left(service, name):
    """Every table and column that has a text with the name in it."""
    found = set()
    with service.store.engine.connect() as connection:
        for table in Base.metadata.tables.values():
            for row in connection.execute(sa.select(table)).mappings():
                found |= {(table.name, key) for key, cell in row.items() if name in str(cell)}
    if service.store.path is not None:
        connection.close()
        for end in ("", "-wal"):
            path = service.store.path.with_name(service.store.path.name + end)
            if path.exists() and name.encode() in path.read_bytes():
                found.add(("file", path.name))
    return found


@pytest.fixture
def client(service):
    return create_app(service=service).test_client()


@pytest.fixture
def two(client, service):
    """May is reported with jobs of two projects; June has another one of the first."""
    about = {"project": SECRET, "model_id": f"{SECRET}-model", "tags": {"user": f"{SECRET}-ada"}}
    post(client, f"{SECRET}-1", name=f"{SECRET} first", **about)
    post(client, "job-2", 1, project="vision", tags={"user": "bob"})
    post(client, f"{SECRET}-gone", 2, **about)
    client.delete(f"/v1/jobs/{SECRET}-gone?reason={SECRET}+was+wrong")
    for name in ("rescore-factors", "monthly-reports"):
        TASKS[name].action(service)
    post(client, f"{SECRET}-3", 28, **about)
    client.patch(f"/v1/jobs/{SECRET}-1", json={"name": f"{SECRET} anew", "reason": SECRET})
    client.get(f"{MAY}.csv?project={SECRET}")
    client.post("/v1/budgets", json={"project": SECRET, "limit_kg": 5})
    client.post("/v1/keys", json={"name": "own", "scope": "read", "projects": [SECRET]})
    both = {"name": "both", "scope": "read", "projects": [SECRET, "vision"]}
    client.post("/v1/keys", json=both)
    client.post("/v1/budgets", json={"project": "g", "limit_kg": 5, "projects": [SECRET, "b"]})
    TASKS["monthly-reports"].action(service)
    return client


def test_a_deleted_project_goes_whole_and_its_name_is_nowhere(two, service):
    client = two
    before = client.get(MAY).json
    assert SECRET in {row["project"] for row in before["by_project"]}
    answer = client.delete(f"/v1/projects/{SECRET}")
    assert answer.status_code == 200, answer.json
    assert answer.json["jobs_deleted"] == 2
    after = client.get(MAY).json
    own = client.get("/v1/jobs/job-2/report").json["total_g"]["value"]
    assert after["totals"]["total_g"]["value"] == pytest.approx(own)
    # Nothing says it: not a revision, a score, the log, or a page of the file.
    assert names_left(service, SECRET) == set()
    assert [job["job_id"] for job in client.get("/v1/jobs").json["jobs"]] == ["job-2"]
    for address in (f"{MAY}.html", f"{MAY}.pdf", f"{MAY}?revision=1"):
        assert client.get(address).status_code == 200, address
    assert client.get("/v1/jobs/job-2").json["tags"] == {"user": "bob"}
    keys = {row["name"]: row["projects"] for row in client.get("/v1/keys").json["keys"]}
    assert keys == {"api": [], "both": ["vision"]}
    # The log says who and when, and its chain holds from there.
    (entry,) = [e for e in client.get("/v1/audit").json["entries"] if "deleted" in e["action"]][:1]
    assert (entry["actor"], entry["action"]) == ("api", "project-deleted")
    (record,) = client.get("/v1/erasures").json["erasures"]
    assert (record["kind"], record["erased_by"]) == ("project", "api")


def test_lines_and_people_do_not_bring_a_deleted_project_back(two):
    client = two
    client.delete(f"/v1/projects/{SECRET}")
    sent = body(journal(f"{SECRET}-1", start=START, project=SECRET))
    again = client.post(f"/v1/jobs/{SECRET}-1/records", data=sent, content_type=NDJSON)
    assert (again.status_code, again.json["code"]) == (410, "deleted-job")
    for answer in (
        client.delete(f"/v1/projects/{SECRET}"),
        client.post("/v1/projects", json={"project": SECRET}),
        client.patch("/v1/jobs/job-2", json={"project": SECRET}),
    ):
        assert (answer.status_code, answer.json["code"]) == (410, "deleted-project")
        assert answer.json["deleted_by"] == "api"
    assert client.delete("/v1/projects/no-such").json["code"] == "unknown-project"


def test_a_persons_name_gives_way_to_one_alias_everywhere(client, service):
    ada = "ada.lovelace@example.org"
    post(client, "job-1", tags={"user": ada, "team": "x"})
    post(client, "job-2", 1, tags={"user": "bob"})
    TASKS["rescore-factors"].action(service)
    TASKS["monthly-reports"].action(service)
    key = client.post("/v1/keys", json={"name": ada, "scope": "admin"}).json["key"]
    by_ada = {"headers": {"Authorization": f"Bearer {key}"}}
    change = {"name": "other", "reason": f"{ada} says so"}
    assert client.patch("/v1/jobs/job-2", json=change, **by_ada).status_code == 200
    budget = {"project": "vision", "limit_kg": 5, "email": ada}
    assert client.post("/v1/budgets", json=budget, **by_ada).status_code == 200
    before = client.get(MAY).json
    erased = client.delete(f"/v1/people/{ada}").json
    assert names_left(service, ada) == set()
    after, alias = client.get(MAY).json, erased["alias"]
    assert after["totals"] == before["totals"]
    assert {row["owner"] for row in after["chargeback"]} == {alias, "bob"}
    assert client.get("/v1/jobs/job-1").json["tags"] == {"user": alias, "team": "x"}
    assert len(client.get(f"/v1/jobs?user={alias}").json["jobs"]) == 1
    # A score that is made anew is made of lines without the name.
    client.patch("/v1/jobs/job-1", json={"pue": 1.3})
    assert client.get("/v1/jobs/job-1").json["tags"]["user"] == alias
    (correction,) = client.get("/v1/jobs/job-2/report").json["corrections"]
    assert (correction["by"], correction["reason"]) == (alias, f"{alias} says so")
    actors = {e["actor"] for e in client.get("/v1/audit").json["entries"]}
    assert actors == {"gramwatt", "api", alias}
    assert client.delete("/v1/people/nobody").json["code"] == "unknown-person"


def test_one_persons_jobs_are_exported_and_deleted_by_command_with_a_record(service, tmp_path):
    client = create_app(service=service).test_client()
    post(client, "job-1", tags={"user": "ada"})
    post(client, "job-2", 1, tags={"user": "bob"})
    url = ("--database-url", service.store.url.render_as_string(hide_password=False))
    code, out, _ = gramwatt("export", "journals", str(tmp_path / "out"), "--user", "ada", *url)
    assert (code, [path.name for path in (tmp_path / "out").iterdir()]) == (0, ["job-1.jsonl"])
    code, _, err = gramwatt("erase", "person", "ada", "--jobs", *url, input="n\n")
    assert (code, "nothing was erased" in err) == (1, True)
    code, out, err = gramwatt("erase", "person", "ada", "--jobs", "--yes", *url)
    assert (code, "1 jobs deleted" in out, err) == (0, True, "")
    assert [job["job_id"] for job in client.get("/v1/jobs").json["jobs"]] == ["job-2"]
    found = json.loads(gramwatt("erase", "list", "--json", *url)[1])["erasures"]
    acts = [entry["action"] for entry in client.get("/v1/audit").json["entries"]]
    assert acts[:3] == ["person-erased", "job-deleted", "exported"]
    assert [row["kind"] for row in found] == ["person"]


def test_a_restore_drill_brings_all_back_but_what_was_erased(service, database_url, tmp_path):
    """The store is lost; the daily backup and the note beside it are all there is."""
    kept = Service(replace(service.config, backup_dir=tmp_path / "backups"), service.store)
    client = create_app(service=kept).test_client()
    for number, (job_id, project, user) in enumerate(
        [("job-1", "vision", "bob"), ("job-2", SECRET, "bob"), ("job-3", "vision", SECRET)]
    ):
        post(client, job_id, number, project=project, tags={"user": user})
    for name in ("rescore-factors", "monthly-reports"):
        TASKS[name].action(kept)
    client.post("/v1/budgets", json={"project": "vision", "limit_kg": 5})
    TASKS["backup"].action(kept)
    client.delete(f"/v1/projects/{SECRET}")
    client.delete(f"/v1/people/{SECRET}")
    wanted = ["/v1/jobs/job-1/report", MAY, "/v1/budgets", "/v1/erasures"]
    before = [client.get(address).json for address in wanted]
    alias = client.get("/v1/jobs/job-3").json["tags"]["user"]
    service.store.close()
    if service.store.path is not None:
        service.store.path.unlink()

    (backup,) = (tmp_path / "backups").glob("*.db")
    assert SECRET.encode() in backup.read_bytes()
    code, _, err = gramwatt("db", "restore", str(backup), "--database-url", database_url)
    assert (code, err) == (0, "")
    again = Service.open(replace(kept.config, database_url=database_url))
    client = create_app(service=again).test_client()
    assert client.get("/readyz").status_code == 200
    after = [client.get(address).json for address in wanted]
    assert after[0] == before[0]
    assert after[1]["totals"] == before[1]["totals"]
    assert after[2:3] == before[2:3]
    names = [[row["name_sha256"] for row in one["erasures"]] for one in (before[3], after[3])]
    assert sorted(names[0]) == sorted(names[1])
    assert names_left(again, SECRET) == set()
    assert client.get("/v1/jobs/job-3").json["tags"]["user"] == alias
    # A sender that was not told in time sends again, and nothing is counted twice.
    post(client, "job-1", project="vision", tags={"user": "bob"})
    assert client.get("/v1/jobs/job-1/report").json == before[0]
    again.store.close()


def test_every_table_and_column_that_names_somebody_is_erased():
    """A new `..._by` has to be told to `people`, a new table of a project to `projects`."""
    known = {(column.class_.__tablename__, column.key) for column in PERSON_COLUMNS}
    named = {
        (table.name, column.name)
        for table in Base.metadata.tables.values()
        for column in table.columns
        if column.name.endswith("_by") or column.name in ("actor", "caller")
    }
    assert named - known == {("audit", "actor")}
    of_projects = {name for name, table in Base.metadata.tables.items() if "project" in table.c}
    of_jobs = {"jobs", "job_months", "month_versions", "deletions"}
    assert of_projects - of_jobs == {model.__tablename__ for model in OWN}
