"""Erasing a project or a person: the name is nowhere any more."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from gramwatt.service.erasure import ACTORS, OWN
from gramwatt.service.store import months
from gramwatt.service.store.tables import METADATA
from gramwatt.service.tasks.table import TASKS
from tests.journals import journal
from tests.service.cli.command import gramwatt
from tests.service.keyed import bearer, client_of

MAY, START = "/v1/reports/monthly/2026-05", datetime(2026, 5, 4, 8, tzinfo=UTC)
SECRET = "zeppelin-7"
"""The project that is deleted; so its jobs, names and model begin too."""


def post(client, job_id, days=0, **about):
    start = START + timedelta(days=days)
    answer = client.send(job_id, journal(job_id, start=start, zone="FR", **about))
    assert answer.status_code == 200, answer.json


def names_left(service, name):
    """Every table and column that has a text with the name in it."""
    found = set()
    with service.store.engine.connect() as connection:
        for table in METADATA.tables.values():
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
    return client_of(service)


@pytest.fixture
def two(client, service):
    """Jobs of two projects in May; June has another one of the first."""
    about = {"project": SECRET, "model_id": f"{SECRET}-model", "tags": {"user": "ada"}}
    post(client, f"{SECRET}-1", name=f"{SECRET} first", **about)
    post(client, "job-2", 1, project="vision", tags={"user": "bob"})
    post(client, f"{SECRET}-gone", 2, **about)
    client.delete(f"/v1/jobs/{SECRET}-gone")
    for name in ("rescore-factors", "monthly-reports"):
        TASKS[name].action(service)
    post(client, f"{SECRET}-3", 28, **about)
    client.patch(f"/v1/jobs/{SECRET}-1", json={"name": f"{SECRET} anew", "reason": SECRET})
    client.get(f"{MAY}.xlsx?project={SECRET}")
    client.post("/v1/budgets", json={"project": SECRET, "limit_kg": 5})
    client.post("/v1/keys", json={"name": "own", "scope": "read", "projects": [SECRET]})
    both = {"name": "both", "scope": "read", "projects": [SECRET, "vision"]}
    client.post("/v1/keys", json=both)
    client.post("/v1/budgets", json={"project": "g", "limit_kg": 5, "projects": [SECRET, "b"]})
    TASKS["monthly-reports"].action(service)
    return client


def test_a_project_goes_with_all_that_is_its_own(two, service):
    client = two
    answer = client.delete(f"/v1/projects/{SECRET}").json
    assert (answer["jobs_deleted"], answer["deleted_by"]) == (2, "api")
    after = client.get(MAY).json
    own = client.get("/v1/jobs/job-2/report").json["total_g"]["value"]
    assert after["totals"]["total_g"]["value"] == pytest.approx(own)
    # What is kept: reports over all projects as they were issued, and the log as it was written.
    left = {table for table, _ in names_left(service, SECRET)} - {"file"}
    assert left <= {"monthly_reports", "audit", "kept_answers"}
    assert [job["job_id"] for job in client.get("/v1/jobs").json["jobs"]] == ["job-2"]
    assert client.get(f"/v1/jobs/{SECRET}-1").json["code"] == "unknown-job"
    for address in (f"{MAY}.html", f"{MAY}?revision=1"):
        assert client.get(address).status_code == 200, address
    assert client.get("/v1/jobs/job-2").json["tags"] == {"user": "bob"}
    keys = {row["name"]: row["projects"] for row in client.get("/v1/keys").json["keys"]}
    assert keys == {"api": [], "both": ["vision"]}
    entry = client.get("/v1/audit").json["entries"][0]
    assert (entry["actor"], entry["action"]) == ("api", "project-deleted")
    assert client.delete(f"/v1/projects/{SECRET}").json["code"] == "unknown-project"


def test_what_the_log_says_stays_when_a_project_goes_whose_name_is_a_word_in_it(client):
    """Erasing a project named `admin` once blanked "api (admin)" and every such subject."""
    client.post("/v1/keys", json={"name": "ci", "scope": "admin"})
    post(client, "job-1", project="admin")
    client.post("/v1/projects", json={"project": "admin"})
    before = client.get("/v1/audit").json["entries"]
    assert [row["subject"] for row in before] == ["admin", "ci (admin)", "api (admin)"]
    assert client.delete("/v1/projects/admin").status_code == 200
    assert client.get("/v1/audit").json["entries"][1:] == before


def test_a_persons_name_is_blanked_where_it_stands_and_the_alias_is_everywhere(client, service):
    ada = "ada.lovelace@example.org"
    post(client, "job-1", tags={"user": ada, "team": "x"})
    post(client, "job-2", 1, tags={"user": "bob"})
    TASKS["rescore-factors"].action(service)
    TASKS["monthly-reports"].action(service)
    key = client.post("/v1/keys", json={"name": ada, "scope": "admin"}).json["key"]
    by_ada = {"headers": bearer(key)}
    change = {"name": "other", "reason": "so it is called"}
    assert client.patch("/v1/jobs/job-2", json=change, **by_ada).status_code == 200
    budget = {"project": "vision", "limit_kg": 5, "email": ada}
    assert client.post("/v1/budgets", json=budget, **by_ada).status_code == 200
    before, acts = client.get(MAY).json, client.get("/v1/audit").json["entries"]
    assert {row["owner"] for row in before["chargeback"]} == {ada, "bob"}
    assert client.get("/v1/jobs/job-1").json["tags"] == {"user": ada, "team": "x"}
    for search in (f"user={ada}", f"tag=user:{ada}", "q=lovelace"):
        assert len(client.get(f"/v1/jobs?{search}").json["jobs"]) == 1, search
    assert client.get("/v1/jobs?q=person-").json["jobs"] == []
    stored = {place for place in names_left(service, ada) if place[0] != "file"}
    columns = {("people", "name"), ("audit", "actor"), ("budgets", "set_by"), ("budgets", "email")}
    assert stored == columns | {("api_keys", "name"), ("audit", "subject")}

    erased = client.delete(f"/v1/people/{ada}").json
    left = {place for place in names_left(service, ada) if place[0] != "file"}
    assert left == {("audit", "subject")}  # "key-created", of the key of that name
    after, alias = client.get(MAY).json, erased["alias"]
    assert after["totals"] == before["totals"]
    assert {row["owner"] for row in after["chargeback"]} == {alias, "bob"}
    assert client.get("/v1/jobs/job-1").json["tags"] == {"user": alias, "team": "x"}
    assert len(client.get(f"/v1/jobs?user={alias}").json["jobs"]) == 1
    # A score that is made anew is made of lines without the name.
    client.patch("/v1/jobs/job-1", json={"pue": 1.3})
    assert client.get("/v1/jobs/job-1").json["tags"]["user"] == alias
    (correction,) = client.get("/v1/jobs/job-2/report").json["corrections"]
    assert (correction["by"], correction["reason"]) == (alias, "so it is called")
    entries = client.get("/v1/audit").json["entries"]
    assert {entry["actor"] for entry in entries} == {"gramwatt", "api", alias}
    assert [row["subject"] for row in entries][-len(acts) :] == [row["subject"] for row in acts]
    assert client.delete("/v1/people/nobody").json["code"] == "unknown-person"


def test_who_deleted_a_job_is_told_by_name_until_it_is_erased(client):
    post(client, "job-1")
    key = client.post("/v1/keys", json={"name": "ada", "scope": "admin"}).json["key"]
    client.delete("/v1/jobs/job-1", headers=bearer(key))
    assert client.get("/v1/jobs/job-1").json["deleted_by"] == "ada"
    alias = client.delete("/v1/people/ada").json["alias"]
    assert client.get("/v1/jobs/job-1").json["deleted_by"] == alias


def test_one_persons_jobs_are_exported_and_deleted_by_command_with_a_record(service, tmp_path):
    client = client_of(service)
    post(client, "job-1", tags={"user": "ada"})
    post(client, "job-2", 1, tags={"user": "bob"})
    url = ("--database-url", service.store.url.render_as_string(hide_password=False))
    code, out, _ = gramwatt("export", "journals", str(tmp_path / "out"), "--user", "ada", *url)
    (written,) = (tmp_path / "out").iterdir()
    assert (code, written.name, '"user":"ada"' in written.read_text()) == (0, "job-1.jsonl", True)
    code, _, err = gramwatt("admin", "erase", "person", "ada", "--jobs", *url, input="n\n")
    assert (code, "nothing was erased" in err) == (1, True)
    code, out, err = gramwatt("admin", "erase", "person", "ada", "--jobs", "--yes", *url)
    assert (code, "1 jobs deleted" in out, err) == (0, True, "")
    assert [job["job_id"] for job in client.get("/v1/jobs").json["jobs"]] == ["job-2"]
    acts = [entry["action"] for entry in client.get("/v1/audit").json["entries"]]
    assert acts[:3] == ["person-erased", "job-deleted", "exported"]


def test_every_table_and_column_that_names_somebody_is_erased():
    """A new `..._by` is one of ACTORS or has the alias; a new table of a project is one of OWN."""
    known = {(column.class_.__tablename__, column.key) for column in ACTORS}
    named = {
        (table.name, column.name)
        for table in METADATA.tables.values()
        for column in table.columns
        if column.name.endswith("_by") or column.name == "actor"
    }
    of_aliases = {("corrections", "made_by"), ("deletions", "deleted_by")}
    of_aliases.add(("intensity_files", "imported_by"))
    assert named - known == of_aliases
    of_projects = {name for name, table in METADATA.tables.items() if "project" in table.c}
    of_jobs = {"jobs", "job_labels", *months.OF_JOB}
    assert of_projects - of_jobs == {model.__tablename__ for model in OWN}
