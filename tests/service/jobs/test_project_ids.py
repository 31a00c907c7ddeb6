"""An id is that of one job in the store: who does not see the job learns nothing of it."""

import pytest

from gramwatt.collectors.settings.identity import bound_id, new_job_id
from gramwatt.service.common.errors import AmbiguousIdError
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import whole_id
from gramwatt.service.jobs.ingest import export_journals, import_journals, ingest
from gramwatt.service.store.models import Deletion, Job
from tests.journals import Writer, lines
from tests.service.access.test_keys import code
from tests.service.keyed import with_key

CHOSEN = "4711"
OF_A, OF_B = (bound_id(CHOSEN, project) for project in ("team-a", "team-b"))
UNKNOWN = (404, "unknown-job")


def of(project, name, *, node="n-1", joules=3600.0):
    """A whole journal of a job of this project and node."""
    w = Writer("w-" + node, node, name)
    return [
        w.job(project=project, name=f"of-{project}", tags={"job": CHOSEN}),
        w.device(f"GPU-{node}"),
        w.interval(0, 60, joules, f"GPU-{node}"),
        w.end(60),
    ]


@pytest.fixture
def keys(light):
    """Headers of the keys of team A and B, and of one that sees both."""
    return {
        name: with_key(light, name, "admin", *projects)
        for name, projects in {"a": ["team-a"], "b": ["team-b"], "ab": ["team-a", "team-b"]}.items()
    }


def send(client, headers, name, records):
    return client.send(name, records, headers=headers)


def energy(client, headers, name):
    answer = client.get(f"/v1/jobs/{name}", headers=headers)
    assert answer.status_code == 200, answer.json
    return answer.json["energy_kwh"]["value"]


def test_two_projects_that_choose_one_id_have_two_jobs(client, keys, light):
    for name, project, joules in ((OF_A, "team-a", 3600.0), (OF_B, "team-b", 7200.0)):
        assert send(client, keys["ab"], name, of(project, name, joules=joules)).status_code == 200
    assert energy(client, keys["a"], OF_A) == pytest.approx(0.001)
    assert energy(client, keys["b"], OF_B) == pytest.approx(0.002)
    listed = client.get("/v1/jobs?tag=job:4711", headers=keys["ab"]).json["jobs"]
    assert {job["job_id"] for job in listed} == {OF_A, OF_B}
    # A person types what was chosen, where only one of their projects has it.
    assert whole_id(light.for_caller(caller("team-b")), CHOSEN) == OF_B
    with pytest.raises(AmbiguousIdError, match="fits 2 jobs"):
        whole_id(light, CHOSEN)


def caller(project):
    from gramwatt.service.container import Caller

    return Caller("reader", projects=frozenset({project}))


@pytest.mark.parametrize("exists", [True, False])
def test_nobody_takes_the_id_of_another_project_nor_learns_whether_it_is_there(
    client, keys, exists
):
    if exists:
        send(client, keys["b"], OF_B, of("team-b", OF_B))
    assert code(send(client, keys["a"], OF_B, of("team-a", OF_B))) == UNKNOWN
    assert code(send(client, keys["a"], OF_B, of("team-a", OF_B)[1:])) == UNKNOWN
    opened = client.put(f"/v1/jobs/{OF_B}", json={"project": "team-a"}, headers=keys["a"])
    assert code(opened) == UNKNOWN
    assert code(send(client, keys["a"], OF_B, of("team-b", OF_B))) == (403, "forbidden")
    for method, rest, given in ROUTES:
        asked = client.open(f"/v1/jobs/{OF_B}{rest}", method=method, headers=keys["a"], json=given)
        assert code(asked) == UNKNOWN, rest
    again = send(client, keys["b"], OF_B, of("team-b", OF_B))
    assert again.json["duplicate" if exists else "accepted"] == 4


ROUTES = [
    ("GET", "", None),
    ("GET", "/report.json", None),
    ("GET", "/revisions", None),
    ("GET", "/intervals", None),
    ("GET", "/suggestions", None),
    ("POST", "/rescore", {}),
    ("PATCH", "", {"name": "renamed"}),
    ("DELETE", "", None),
]


@pytest.mark.parametrize("exists", [True, False])
def test_a_key_of_some_projects_opens_ids_that_no_other_has(client, keys, light, exists):
    """An id as somebody chose it is for who sees every project, and for jobs of none."""
    everything = with_key(light, "all", "ingest")
    if exists:
        send(client, everything, CHOSEN, of("team-b", CHOSEN))
    refused = send(client, keys["a"], CHOSEN, of("team-a", CHOSEN))
    assert (code(refused), refused.json["close"]) == (UNKNOWN, [OF_A])
    default = with_key(light, "default", "ingest", "default")
    assert send(client, default, "mine", of("default", "mine")).status_code == 200
    random = new_job_id()
    assert send(client, keys["a"], random, of("team-a", random)).status_code == 200
    assert code(send(client, keys["b"], random, of("team-b", random))) == UNKNOWN


def test_an_id_is_used_once_also_when_its_job_is_deleted(client, keys):
    name = new_job_id()
    send(client, keys["a"], name, of("team-a", name))
    client.delete(f"/v1/jobs/{name}", headers=keys["a"])
    assert code(send(client, keys["a"], name, of("team-a", name))) == (410, "deleted-job")
    assert code(send(client, keys["b"], name, of("team-b", name))) == UNKNOWN
    assert code(client.get(f"/v1/jobs/{name}", headers=keys["b"])) == UNKNOWN


def test_a_job_begins_with_its_job_line(client, keys, light):
    head, *rest = of("team-a", OF_A)
    assert code(send(client, keys["a"], OF_A, rest)) == UNKNOWN
    with light.store.read() as session:
        assert session.query(Job).count() == 0
    assert send(client, keys["a"], OF_A, [*rest, head]).json["accepted"] == 4
    # Another node's lines may come in any order then.
    other = of("team-a", OF_A, node="n-2")
    assert send(client, keys["a"], OF_A, other[1:]).json["accepted"] == 3
    assert send(client, keys["a"], OF_A, other[:1]).json["accepted"] == 1
    assert energy(client, keys["a"], OF_A) == pytest.approx(0.002)


def test_lines_sent_again_follow_a_job_that_was_moved(client, keys):
    send(client, keys["ab"], OF_A, of("team-a", OF_A))
    foreign = client.patch(f"/v1/jobs/{OF_A}", json={"project": "team-b"}, headers=keys["a"])
    assert code(foreign) == (403, "forbidden")
    client.patch(f"/v1/jobs/{OF_A}", json={"project": "team-b"}, headers=keys["ab"])
    again = send(client, keys["ab"], OF_A, of("team-a", OF_A))
    assert (again.json["accepted"], again.json["duplicate"]) == (0, 4)
    assert code(send(client, keys["a"], OF_A, of("team-a", OF_A))) == UNKNOWN
    client.delete(f"/v1/jobs/{OF_A}", headers=keys["ab"])
    assert code(send(client, keys["ab"], OF_A, of("team-a", OF_A))) == (410, "deleted-job")
    assert code(send(client, keys["a"], OF_A, of("team-a", OF_A))) == UNKNOWN


def test_nodes_and_tracks_of_one_job_stay_one_job(client, keys):
    """Another node without a project, and a `track` that names another one than its command."""
    w = Writer("command", "n-1", OF_A)
    send(client, keys["ab"], OF_A, [w.job(project="team-a", role="command"), w.device()])
    t = Writer("track", "n-1", OF_A)
    more = [t.job(project="team-b", role="track"), t.count(5), t.end(30)]
    send(client, keys["ab"], OF_A, more)
    send(client, keys["ab"], OF_A, [w.interval(0, 60, 3600.0), w.end(60)])
    assert energy(client, keys["ab"], OF_A) == pytest.approx(0.001)
    n = Writer("other", "n-2", OF_A)
    other = [n.job(), n.device("B-1"), n.interval(0, 60, 3600.0, "B-1"), n.end(60)]
    send(client, keys["ab"], OF_A, other)
    assert energy(client, keys["ab"], OF_A) == pytest.approx(0.002)


def test_journals_of_both_are_exported_and_imported_again(light, tmp_path):
    for name, project in ((OF_A, "team-a"), (OF_B, "team-b")):
        ingest(light, name, lines(of(project, name)))
    assert set(export_journals(light, tmp_path).written) == {OF_A, OF_B}
    for name in (OF_A, OF_B):
        delete_job(light, name, by="test")
    with light.store.write() as session:
        session.query(Deletion).delete()
    answers = dict(import_journals(light, tmp_path))
    assert {name: answer.accepted for name, answer in answers.items()} == {OF_A: 4, OF_B: 4}
