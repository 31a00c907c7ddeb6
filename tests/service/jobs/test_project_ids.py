"""Ids of jobs belong to projects: the same id in two, which one a caller means, and what waits."""

import pytest
import sqlalchemy as sa

from gramwatt.service.app import create_app
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.journals import export_journals, import_journals
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.store.models import Deletion, WaitingLine
from tests.journals import T0, Writer, body, lines
from tests.service.access.test_keys import NDJSON, code, with_key

ID = "slurm-prod-4711"


def of(project, *, node="n-1", joules=3600.0):
    """A whole journal of the id: a job of this project and node."""
    w = Writer("w-" + node, node, ID)
    return [
        w.job(project=project, name=f"of-{project}"),
        w.device(),
        w.interval(0, 60, joules),
        w.end(60),
    ]


@pytest.fixture
def client(service):
    """A client of the application over either database."""
    return create_app(service=service).test_client()


@pytest.fixture
def keys(service):
    """Headers of the keys of team A and B, and of one that sees both."""
    return {
        name: with_key(service, name, "admin", *projects)
        for name, projects in {"a": ["team-a"], "b": ["team-b"], "ab": ["team-a", "team-b"]}.items()
    }


def send(client, headers, records, **more):
    return client.post(
        f"/v1/jobs/{ID}/records", data=body(records), content_type=NDJSON, headers=headers, **more
    )


def energy(client, headers, **query):
    answer = client.get(f"/v1/jobs/{ID}", headers=headers, query_string=query)
    assert answer.status_code == 200, answer.json
    return answer.json["energy_kwh"]["value"]


def test_an_id_that_another_project_has_taken_is_free(client, keys):
    """Team A opens team B's next id and deletes it: B's upload is taken in, A learns nothing."""
    opened = client.put(f"/v1/jobs/{ID}", json={"project": "team-a"}, headers=keys["a"])
    assert opened.status_code == 201
    assert client.delete(f"/v1/jobs/{ID}", headers=keys["a"]).status_code == 200
    assert code(client.get(f"/v1/jobs/{ID}", headers=keys["b"])) == (404, "unknown-job")
    sent = send(client, keys["b"], of("team-b"))
    assert (sent.status_code, sent.json["accepted"]) == (200, 4)
    assert energy(client, keys["b"]) == pytest.approx(0.001)
    # What A hears of the id is about its own job.
    assert code(client.get(f"/v1/jobs/{ID}", headers=keys["a"])) == (410, "deleted-job")
    other = f"/v1/jobs/{ID}-2"
    taken = body([*map(_renamed, of("team-b"))])
    client.post(f"{other}/records", data=taken, content_type=NDJSON, headers=keys["b"])
    assert code(client.get(other, headers=keys["a"])) == (404, "unknown-job")
    assert client.put(other, json={"project": "team-a"}, headers=keys["a"]).status_code == 201


def _renamed(record):
    record.job_id = f"{ID}-2"
    return record


ROUTES = [
    ("GET", "", None),
    ("GET", "/report.json", None),
    ("GET", "/report", None),
    ("GET", "/revisions", None),
    ("GET", "/intervals", None),
    ("GET", "/suggestions", None),
    ("POST", "/rescore", {}),
    ("PATCH", "", {"name": "renamed"}),
    ("DELETE", "", None),
]


@pytest.mark.parametrize(("method", "rest", "given"), ROUTES)
def test_a_key_of_both_says_which_it_means(client, keys, method, rest, given):
    for project in ("team-a", "team-b"):
        send(client, keys["ab"], of(project))
    asked = {"method": method, "headers": keys["ab"], "json": given}
    if given is None:
        del asked["json"]
    refused = client.open(f"/v1/jobs/{ID}{rest}", **asked)
    assert code(refused) == (409, "ambiguous")
    assert refused.json["choices"] == ["team-a", "team-b"]
    answered = client.open(f"/v1/jobs/{ID}{rest}", query_string={"project": "team-b"}, **asked)
    assert answered.status_code == 200, answered.json
    if method == "DELETE":  # the other is the only one now
        left = client.get(f"/v1/jobs/{ID}", headers=keys["ab"])
        assert left.json["project"] == "team-a"
    elif "project" in answered.json:
        assert answered.json["project"] == "team-b"


def test_the_page_of_an_id_of_two_projects_links_both(client, keys):
    for project in ("team-a", "team-b"):
        send(client, keys["ab"], of(project))
    html = {"Accept": "text/html"}
    page = client.get(f"/jobs/{ID}", headers=keys["ab"] | html)
    assert page.status_code == 409
    assert f'href="/jobs/{ID}?project=team-b"' in page.text
    shown = client.get(f"/jobs/{ID}?project=team-b", headers=keys["ab"] | html)
    assert shown.status_code == 200
    assert f"/v1/jobs/{ID}/report.pdf?project=team-b" in shown.text


def test_a_job_is_not_moved_onto_a_taken_id(client, keys):
    send(client, keys["a"], of("team-a"))
    send(client, keys["b"], of("team-b"))
    moved = client.patch(
        f"/v1/jobs/{ID}?project=team-a", json={"project": "team-b"}, headers=keys["ab"]
    )
    assert code(moved) == (409, "conflict")
    # Who does not own the other project learns nothing of it.
    foreign = client.patch(f"/v1/jobs/{ID}", json={"project": "team-b"}, headers=keys["a"])
    free = client.patch(f"/v1/jobs/{ID}", json={"project": "team-c"}, headers=keys["a"])
    assert code(foreign) == code(free) == (403, "forbidden")


def test_lines_sent_again_follow_a_job_that_was_moved(client, keys):
    send(client, keys["ab"], of("team-a"))
    client.patch(f"/v1/jobs/{ID}", json={"project": "team-b"}, headers=keys["ab"])
    again = send(client, keys["ab"], of("team-a"))
    assert (again.json["accepted"], again.json["duplicate"]) == (0, 4)
    assert code(send(client, keys["a"], of("team-a"))) == (404, "unknown-job")
    client.delete(f"/v1/jobs/{ID}", headers=keys["ab"])
    assert code(send(client, keys["ab"], of("team-a"))) == (410, "deleted-job")
    assert code(send(client, keys["a"], of("team-a"))) == (404, "unknown-job")


def test_lines_before_their_job_line_wait_and_go_to_no_other_job(client, keys, service):
    send(client, keys["ab"], of("team-a"))
    head, *rest = of("team-b", node="n-2", joules=7200.0)
    early = send(client, keys["ab"], rest)
    assert (early.status_code, early.json["accepted"]) == (200, 3)
    assert send(client, keys["ab"], rest).json["duplicate"] == 3
    assert energy(client, keys["a"]) == pytest.approx(0.001)
    assert code(client.get(f"/v1/jobs/{ID}", headers=keys["b"])) == (404, "unknown-job")
    late = send(client, keys["ab"], [head])
    assert late.json["accepted"] == 1
    assert [row["seq"] for row in late.json["acknowledged"]] == [4]
    assert energy(client, keys["b"]) == pytest.approx(0.002)
    with service.store.read() as session:
        assert session.query(WaitingLine).count() == 0


def test_nodes_and_tracks_of_one_job_stay_one_job(client, keys):
    """Another node without a project, and a `track` that names another one than its command."""
    w = Writer("command", "n-1", ID)
    send(client, keys["ab"], [w.job(project="team-a", role="command"), w.device()])
    t = Writer("track", "n-1", ID)
    send(client, keys["ab"], [t.job(project="team-b", role="track"), t.count(5), t.end(30)])
    send(client, keys["ab"], [w.interval(0, 60, 3600.0), w.end(60)])
    assert energy(client, keys["ab"]) == pytest.approx(0.001)
    n = Writer("other", "n-2", ID)
    other = [n.job(), n.device("B-1"), n.interval(0, 60, 3600.0, "B-1"), n.end(60)]
    send(client, keys["ab"], other)
    assert energy(client, keys["ab"]) == pytest.approx(0.002)


def test_journals_of_both_are_exported_and_imported_again(service, tmp_path):
    for project in ("default", "team-b"):
        ingest(service, ID, lines(of(project)), project=project)
    assert len(export_journals(service, tmp_path).written) == 2
    for project in ("default", "team-b"):
        delete_job(service.of_project(project), ID, by="test")
    with service.store.write() as session:
        session.execute(sa.delete(Deletion))
    told = list(import_journals(service, tmp_path))
    assert [answer.accepted for _, answer in told] == [4, 4]
    assert {row.head.project for row in list_jobs(service, 9, None)[0]} == {"default", "team-b"}


def test_months_and_lists_hold_both(client, keys):
    for project, joules in (("team-a", 3600.0), ("team-b", 7200.0)):
        send(client, keys["ab"], of(project, joules=joules))
    listed = client.get("/v1/jobs").json["jobs"]
    assert sorted(job["project"] for job in listed if job["job_id"] == ID) == ["team-a", "team-b"]
    month = client.get(f"/v1/reports/monthly/{T0:%Y-%m}").json
    assert month["totals"]["energy_kwh"]["value"] == pytest.approx(0.003)
