"""The list of jobs: filters, orders and pages, over both databases."""

import itertools
from datetime import timedelta

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.jobs import lists
from gramwatt.service.jobs.deletion import delete_job
from tests.journals import START, journal
from tests.service.keyed import add, bearer, client_of

H100 = "nvidia-h100-sxm5-80"
JOBS = {
    # power and minutes: 600 W over 3 min are 0.03 kWh.
    "a": {"minutes": 3, "tags": {"team": "vision", "user": "ann"}, "name": "resnet"},
    "b": {
        "minutes": 1,
        "tags": {"team": "vision", "run": "a:b"},
        "zone": "DE",
        "kind": "inference",
    },
    "c": {"minutes": 9, "tags": {"team": "text"}, "end_state": "failed", "project": "odd"},
    "d": {"minutes": 5, "end_state": None, "name": "at work", "model_id": "m-1"},
    "e": {"minutes": 3, "power_w": 60.0, "tags": {"t" * 500: "ü" * 512}},
}


def fill(service):
    for number, (job_id, about) in enumerate(JOBS.items()):
        start = START + timedelta(hours=number)
        add(service, job_id, start=start, **about)
    return service


@pytest.fixture(scope="module")
def filled(shared):
    return fill(shared)


@pytest.fixture
def listed(filled):
    """A client of a store that no test changes."""
    return client_of(filled)


@pytest.fixture
def changing(service):
    return create_app(service=fill(service)).test_client()


def ids(client, **query):
    answer = client.get("/v1/jobs", query_string=query)
    assert answer.status_code == 200, answer.text
    return "".join(job["job_id"] for job in answer.json["jobs"])


def test_each_filter_and_several_at_once(listed, monkeypatch):
    """Also where so many have the labels or the text that the list is read in order."""
    assert "effects" not in listed.get("/v1/jobs").text  # figures without what moves them
    expected = [
        ({"kind": "inference"}, "b"),
        ({"state": "running"}, "d"),
        ({"project": "odd"}, "c"),
        ({"name": "resnet"}, "ecba"),
        ({"zone": "DE"}, "b"),
        ({"user": "ann"}, "a"),
        ({"model_id": "m-1"}, "d"),
        ({"hardware": H100}, "ecba"),
        ({"hardware": "nvidia-l4"}, ""),
        ({"since": "2026-05-10T09:00:00Z", "until": "2026-05-10T11:00:00Z"}, "cb"),
        ({"since": "2026-05-10T11:00:00+02:00"}, "edcb"),
        ({"until": "2026-05-10"}, ""),
        ({"since": "2026-05-10"}, "edcba"),
        ({"tag": "team:vision"}, "ba"),
        ({"tag": ["team:vision", "user:ann"]}, "a"),
        ({"tag": "run:a:b"}, "b"),
        ({"tag": ["run=a:b", "team=vision"]}, "b"),
        ({"tag": f"{'t' * 500}:{'ü' * 512}"}, "e"),
        ({"tag": "team:vision", "state": "failed"}, ""),
        ({"q": "RESN"}, "ecba"),
        ({"q": "t w"}, "d"),
        ({"q": "M-1"}, "d"),
        ({"q": "vis"}, "ba"),
        ({"q": "user:Ann"}, "a"),
        ({"q": "c"}, "c"),
        ({"q": "C"}, ""),
        ({"q": "te%t"}, ""),
        ({"q": "te_t"}, ""),
        ({"q": "Ü"}, ""),  # only in a tag that is too long for an index
        ({"q": "nvidia"}, ""),
        ({"q": "vision", "zone": "DE"}, "b"),
    ]
    for few, values in ((lists.FEW, lists.VALUES_MOST), (0, lists.VALUES_MOST), (0, 0)):
        monkeypatch.setattr(lists, "FEW", few)
        monkeypatch.setattr(lists, "FEW_MATCHES", few)
        monkeypatch.setattr(lists, "VALUES_MOST", values)
        assert [(query, ids(listed, **query)) for query, _ in expected] == expected


NAMES = ("aBÉ*", "b/1", "1%é[", "_aé", "Bb1", "aab%", "B_1/a", None)
MODELS = ("a/B-1", None, "b%")


@pytest.fixture
def named(service):
    """Jobs of all these names, models and tags, and what is searched of each."""
    texts = {}
    for number in range(12):
        job_id, name, model_id = str(number), NAMES[number % 8], MODELS[number % 3]
        tags = {"k": NAMES[(number + 3) % 7], "b": "1"} if number % 2 else {}
        about = {"name": name, "model_id": model_id, "tags": tags, "project": "pq"[number % 2]}
        start = START + timedelta(hours=number)
        add(service, job_id, start=start, **about)
        within = [name or "", model_id or "", *(f"{key}:{text}" for key, text in tags.items())]
        texts[job_id] = [one.lower() for one in within]
    keys = [create_key(service, "all", "read"), create_key(service, "p", "read", ["p"])]
    return client_of(service), texts, [key.key for key in keys]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text("aAbB1%_/:k-éÉ*[", min_size=1, max_size=4),
    values=st.sampled_from([0, 4, 500]),
    few=st.sampled_from([0, 3, 1000]),
    bound=st.booleans(),
)
def test_a_search_finds_what_a_look_at_every_job_finds(named, text, values, few, bound):
    """Every job that the caller sees: a key that is bound sees every second."""
    client, texts, keys = named
    own_key = bearer(keys[bound])
    found = [
        job_id
        for job_id, within in texts.items()
        if job_id.startswith(text) or any(text.lower() in one for one in within)
        if not bound or int(job_id) % 2 == 0
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "VALUES_MOST", values)
        patch.setattr(lists, "FEW_MATCHES", few)
        answer = client.get("/v1/jobs", query_string={"q": text}, headers=own_key).json
        assert [job["job_id"] for job in answer["jobs"]] == found[::-1]


def test_each_order_in_both_directions_unknown_last(changing):
    """Nothing is known of d, which runs, until somebody asks for its provisional score."""
    listed = changing
    orders = {
        "started_at": "abcde",
        "-started_at": "edcba",
        "ended_at": "abced",
        "-ended_at": "ecbad",
        # 3, 1, 9, unknown and 3 minutes; of equal ones the row that came first.
        "duration": "baecd",
        "-duration": "ceabd",
        # 30, 10, 90, unknown and 3 Wh.
        "energy": "ebacd",
        "-energy": "cabed",
    }
    assert {sort: ids(listed, sort=sort) for sort in orders} == orders
    listed.get("/v1/jobs/d")
    assert ids(listed, sort="-energy") == "cdabe"  # 5 minutes: 50 Wh


def test_pages_of_every_size_make_the_whole_list_and_a_cursor_is_of_its_order(listed):
    cursor = listed.get("/v1/jobs?limit=1").json["next_cursor"]
    answer = listed.get("/v1/jobs", query_string={"cursor": cursor, "sort": "energy"})
    assert (answer.status_code, answer.json["errors"][0]["where"]) == (422, "query.cursor")
    for sort, limit in itertools.product(["ended_at", "-energy", "started_at"], range(1, 6)):
        whole = ids(listed, sort=sort)
        seen, cursor = "", ""
        for _ in range(6):
            query = {"sort": sort, "limit": limit} | ({"cursor": cursor} if cursor else {})
            answer = listed.get("/v1/jobs", query_string=query).json
            seen += "".join(job["job_id"] for job in answer["jobs"])
            cursor = answer["next_cursor"]
            if cursor is None:
                break
        assert (seen, cursor) == (whole, None)


def test_a_corrected_tag_and_zone_move_a_job_between_lists(changing):
    listed = changing
    listed.patch("/v1/jobs/a", json={"tags": {"team": "text", "user": None}, "zone": "DE"})
    assert ids(listed, tag="team:text") == "ca"
    assert ids(listed, tag="team:vision") == "b"
    assert ids(listed, user="ann") == ""
    assert ids(listed, zone="DE") == "ba"
    assert ids(listed, zone="FR") == "edc"
    listed.delete("/v1/jobs/a")
    assert ids(listed, zone="DE") == "b"


def test_what_no_list_knows_is_refused(listed):
    for query in (
        *("tag=team", "tag=:x", "sort=colour", "since=yesterday", "since=2026-05-10T08:00"),
        *("kind=x", "until=2026-13-01", "since=1700000000", "since=9999-12-31T23:59:59-01:00"),
        *("state=a&state=b", "colour=red", "limit=1&limit=2", "limit=501", "limit=ten"),
        *("cursor=%00", "state=happy"),
    ):
        answer = listed.get(f"/v1/jobs?{query}")
        assert (answer.status_code, answer.json["code"]) == (422, "invalid"), query
        assert answer.json["errors"][0]["where"].startswith(f"query.{query.partition('=')[0]}")


LABELS = [
    (few, query)
    for few in (0, lists.FEW)
    for query in ({"hardware": H100}, {"zone": "FR", "hardware": H100})
]


def test_pages_by_labels_are_in_order_also_where_a_start_moves(changing, monkeypatch):
    # b ran in DE; d, which runs, has no score that knows its hardware. c began at 10, e at 12.
    times = {"since": "2026-05-10T10:00:00Z", "until": "2026-05-10T12:00:00Z"}
    for few, query in LABELS:
        monkeypatch.setattr(lists, "FEW", few)
        expected = ["e", "c", "a"] if "zone" in query else ["e", "c", "b", "a"]
        assert pages(changing, **query) == expected
        assert pages(changing, **query, sort="started_at") == expected[::-1]
        assert pages(changing, **query, **times) == ["c"]
    # A second node of e, whose upload comes late, began an hour before a.
    late = journal("e", node="n2", writer="w2", start=START - timedelta(hours=1))
    answer = changing.send("e", late)
    assert answer.status_code == 200, answer.text
    for few, query in LABELS:
        monkeypatch.setattr(lists, "FEW", few)
        assert pages(changing, **query) == ["c", *(["a"] if "zone" in query else ["b", "a"]), "e"]


def pages(client, **query):
    """The ids of a list in pages of one."""
    found, cursor = [], {}
    while True:
        answer = client.get("/v1/jobs", query_string={"limit": 1, **query, **cursor}).json
        found += [job["job_id"] for job in answer["jobs"]]
        cursor = {"cursor": answer["next_cursor"]}
        if answer["next_cursor"] is None:
            return found


def test_a_job_deleted_while_its_label_is_listed_ends_no_list(service, changing):
    """The second statement sees what the first saw."""
    listed, gone = changing, []

    @sa.event.listens_for(service.store.engine, "before_cursor_execute")
    def delete(_connection, _cursor, statement, *_):
        if not gone and "FROM jobs" in statement and "jobs.id IN" in statement:
            gone.append("b")
            delete_job(service, "b", by="test")

    answer = listed.get("/v1/jobs?tag=team:vision&limit=1").json
    assert gone == ["b"]
    assert [job["job_id"] for job in answer["jobs"]] == ["b"]
    assert ids(listed, tag="team:vision", cursor=answer["next_cursor"]) == "a"
