"""The HTTP layer and the routes: what is refused and how, pages, ETags, guards."""

import difflib
from datetime import timedelta

import msgspec
import pytest
from flask.testing import FlaskClient

from gramwatt.sci.records.records import IntervalRecord
from gramwatt.service.access.keys import create_key
from gramwatt.service.api import access
from gramwatt.service.app import create_app
from gramwatt.service.common.requests import encode_cursor
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.rendering import MEDIA
from tests.journals import START, body, journal, lines
from tests.service.keyed import NDJSON, NO_KEY, add, bearer, client_of


def problem(response):
    assert response.content_type == "application/problem+json"
    document = response.json
    assert document["status"] == response.status_code
    return response.status_code, document["code"]


@pytest.fixture
def seven(light):
    """Seven jobs, each an hour younger than the one before, two of them in one instant."""
    for number in range(7):
        start = START + timedelta(hours=min(number, 5))
        about = {"project": "odd" if number % 2 else "even", "start": start}
        add(light, f"job-{number}", **about)


def test_a_declared_project_is_listed_before_its_first_job(service):
    client = client_of(service)
    add(service, "job-1", project="b")
    made = [client.post("/v1/projects", json={"project": name}) for name in ("c", "a", "b", "a")]
    assert [answer.status_code for answer in made] == [201] * 4
    none = {"jobs": 0, "running": 0, "last_started_at": None}
    one = {"jobs": 1, "running": 0, "last_started_at": "2026-05-10T08:00:00.000000Z"}
    assert [answer.json for answer in made] == [
        {"project": "c", **none},
        {"project": "a", **none},
        {"project": "b", **one},
        {"project": "a", **none},
    ]
    listed = [{"project": "a", **none}, {"project": "b", **one}, {"project": "c", **none}]
    assert client.get("/v1/projects").json == {"projects": listed, "next_cursor": None}
    first = client.get("/v1/projects?limit=1").json
    rest = client.get(f"/v1/projects?cursor={first['next_cursor']}").json
    assert [*first["projects"], *rest["projects"]] == listed
    made = create_key(service, "of-b", "admin", ["b"]).key
    theirs = bearer(made)
    assert client.get("/v1/projects", headers=theirs).json["projects"] == [{"project": "b", **one}]
    refused = client.post("/v1/projects", json={"project": "d"}, headers=theirs)
    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")


def test_how_a_device_ran_is_kept_by_interval_and_put_together_by_device(client, light):
    ran = iter([{"power_capped": 1.0, "temperature_c": 80.0}, {"power_capped": 0.5}, {}])
    records = [
        msgspec.structs.replace(record, profile=next(ran))
        if isinstance(record, IntervalRecord)
        else record
        for record in journal()
    ]
    ingest(light, "job-1", lines(records))
    told = [row["profile"] for row in client.get("/v1/jobs/job-1/intervals").json["intervals"]]
    assert told == [{"power_capped": 1.0, "temperature_c": 80.0}, {"power_capped": 0.5}, {}]
    devices = client.get("/v1/jobs/job-1/report").json["devices"]
    assert {row["name"]: row["profile"] for row in devices} == {
        "NVIDIA H100 80GB HBM3": {"power_capped": 0.75, "temperature_c": 80.0},
        **{row["name"]: {} for row in devices if row["class"] == "host"},
    }


def test_intervals_page_in_order_of_time(client, light):
    add(light, "job-1", minutes=5)
    first = client.get("/v1/jobs/job-1/intervals?limit=3").json
    rest = client.get(f"/v1/jobs/job-1/intervals?limit=3&cursor={first['next_cursor']}").json
    starts = [row["start"][14:16] for row in first["intervals"] + rest["intervals"]]
    assert (starts, rest["next_cursor"]) == (["00", "01", "02", "03", "04"], None)
    assert {row["energy_j"] for row in first["intervals"]} == {36_000.0}


def longer_lived(light):
    """A client of the app over the same store, where hardware now counts for 5 years, not 4."""
    return client_of(light, lifetime_years=5.0)


def test_revisions_newest_first_and_the_old_ones_stay(client, light):
    add(light)
    answer = longer_lived(light).post("/v1/jobs/job-1/rescore", json={"reason": "new catalog"})
    assert (answer.status_code, answer.json["revision"], answer.json["changed"]) == (200, 2, True)
    rows = client.get("/v1/jobs/job-1/revisions").json["revisions"]
    assert [(row["revision"], row["reason"]) for row in rows] == [(2, "new catalog"), (1, "ended")]
    first = client.get("/v1/jobs/job-1/report?revision=1").json
    assert first["revision"] == 1
    assert problem(client.get("/v1/jobs/job-1/report?revision=3")) == (404, "unknown-revision")


def test_a_running_job_has_no_revision_to_ask_for(client):
    client.put("/v1/jobs/job-1", json={})
    answer = client.get("/v1/jobs/job-1/report?revision=1")
    assert problem(answer) == (404, "unknown-revision")
    assert answer.json["detail"] == "job 'job-1' has no revision yet, not 1"


def test_refusals_are_problem_documents_with_a_stable_code(client):
    for call, expected in [
        (("get", "/healthz?x=1"), (422, "invalid")),
        (("get", "/v1/jobs/none"), (404, "unknown-job")),
        (("get", "/v1/jobs/none/report.pdf"), (404, "unknown-job")),
        (("get", "/v1/jobs/none/report.doc"), (422, "invalid")),
        (("get", "/v1/jobs/-x"), (422, "invalid")),
        (("get", "/v1/reports/monthly/2026-13"), (422, "invalid")),
        (("get", "/v1/reports/monthly/2199-05"), (404, "no-data")),
        (("get", "/v1/nothing"), (404, "not-found")),
        (("delete", "/v1/jobs"), (405, "method-not-allowed")),
        (("post", "/v1/jobs/none/rescore"), (415, "unsupported-media-type")),
        (("post", "/v1/jobs/none/records"), (415, "unsupported-media-type")),
    ]:
        method, address = call
        assert problem(getattr(client, method)(address)) == expected


def test_a_refused_method_names_those_that_are_known(client):
    refused = client.delete("/v1/jobs")
    assert "GET" in refused.headers["Allow"]
    said = refused.json["detail"]
    assert said == "DELETE does nothing here; this route knows GET, HEAD, OPTIONS"


def test_an_unknown_address_is_named_with_where_the_known_ones_are(client):
    """A slash too many is the commonest: no word of browsers and spelling to a program."""
    refused = client.get("/v1/jobs/")
    assert problem(refused) == (404, "not-found")
    assert refused.json["detail"] == "there is no /v1/jobs/ here; /docs lists the routes"


def test_unknown_and_mistyped_fields_of_a_body_are_refused(client, light):
    add(light)
    for sent in ({"colour": "red"}, {"reason": 7}, []):
        assert problem(client.post("/v1/jobs/job-1/rescore", json=sent)) == (422, "invalid")
    broken = client.post("/v1/jobs/job-1/rescore", data="{", content_type="application/json")
    assert problem(broken) == (400, "bad-json")


def test_a_body_above_the_limit_is_refused(client):
    # The fixture's limit is 1 MiB.
    sent = body(journal()) + b"\n" * 2**20
    answer = client.post("/v1/jobs/job-1/records", data=sent, content_type=NDJSON)
    assert problem(answer) == (413, "body-too-large")


def test_a_compressed_body_is_refused_but_for_records(client, light):
    add(light)
    answer = client.post("/v1/jobs/job-1/rescore", json={}, headers={"Content-Encoding": "gzip"})
    assert problem(answer) == (415, "unsupported-media-type")


def test_a_bug_is_a_problem_document_without_its_words(light, caplog):
    app = create_app(service=light)
    access.declared(app)["bug"] = access.Access.READ

    @app.get("/bug")
    def bug():
        raise RuntimeError("secret")

    answer = app.test_client().get("/bug")
    assert problem(answer) == (500, "internal")
    assert "secret" not in answer.text
    assert "secret" in caplog.text


def test_a_malformed_host_is_refused_by_open_routes_too(client):
    for host in ["", "localhost:80, evil", "localhost:x", "localhost:80:80", "a b"]:
        for path in ("/v1/jobs", "/healthz"):
            assert problem(client.get(path, headers={"Host": host})) == (400, "bad-request")


def test_callers_from_other_machines_need_a_key_too(client):
    elsewhere = {"environ_base": {"REMOTE_ADDR": "192.0.2.7"}}
    answer = client.get("/v1/jobs", headers=NO_KEY, **elsewhere)
    assert problem(answer) == (401, "unauthorised")
    assert client.get("/v1/jobs", **elsewhere).status_code == 200


def test_a_report_in_each_format_by_extension_and_by_accept(client, light):
    add(light)
    month = "/v1/reports/monthly/2026-05"
    for base, forms in (
        ("/v1/jobs/job-1/report", ("html", "pdf")),
        (month, ("html", "pdf", "xlsx", "zip")),
    ):
        for form in forms:
            media = MEDIA[form]
            by_name = client.get(f"{base}.{form}")
            by_accept = client.get(base, headers={"Accept": media})
            assert by_name.mimetype == by_accept.mimetype == media
            assert by_name.headers["ETag"] == by_accept.headers["ETag"]
            opening = {"html": b"<!doctype html>", "pdf": b"%PDF-"}.get(form, b"PK")
            assert by_name.data.lower().startswith(opening.lower())
    assert b"resnet" in client.get("/v1/jobs/job-1/report.html").data


def test_the_full_report_is_another_answer_than_the_short_one(client, light):
    add(light)
    short = client.get("/v1/jobs/job-1/report.html")
    full = client.get("/v1/jobs/job-1/report.html?full=1")
    assert "Ranges and digits" not in short.text
    assert "Ranges and digits" in full.text
    tag = {"If-None-Match": short.headers["ETag"]}
    assert client.get("/v1/jobs/job-1/report.html", headers=tag).status_code == 304
    assert client.get("/v1/jobs/job-1/report.html?full=1", headers=tag).status_code == 200
    whole = client.get("/v1/jobs/job-1/report.json?full=1")
    assert whole.json == client.get("/v1/jobs/job-1/report.json").json
    assert client.get("/v1/jobs/job-1/report.html?full=2").status_code == 422


def test_a_page_s_policy_lets_nothing_in_from_outside(client, light):
    add(light, "job-1", name="<script>alert(1)</script>")
    for address in (
        "/",
        "/jobs",
        "/projects",
        "/months",
        "/docs",
        "/jobs/job-1",
        "/months/2026-05",
        "/v1/jobs",
    ):
        answer = client.get(address)
        assert answer.status_code == 200
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "http" not in policy
        assert "<script>alert" not in answer.text or answer.mimetype == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_metrics_count_requests_by_route_and_jobs_by_state(client, light):
    add(light)
    client.get("/v1/jobs/job-1")
    client.get("/v1/jobs/none")
    text = client.get("/metrics").text
    assert 'gramwatt_jobs{state="completed"} 1.0' in text
    for status in ("200", "404"):
        labels = f'method="GET",route="/v1/jobs/<job_id>",status="{status}"'
        assert f"gramwatt_http_requests_total{{{labels}}} 1.0" in text


def test_callers_cannot_make_series_of_metrics(client):
    """Neither by a method, nor an address, a query, a host or a header that they make up."""

    def series():
        text = client.get("/metrics").text
        return {line.rpartition(" ")[0] for line in text.splitlines() if line[:1] != "#"}

    def ask(mark):
        for headers in (NO_KEY, {}):
            client.open("/v1/jobs", method=f"FOO{mark}", headers=headers)
            client.open(f"/v1/{mark}", method="GET", headers=headers)
            client.get(f"/v1/jobs/{mark}?project={mark}", headers=headers)
            client.get("/v1/jobs", headers={**headers, "Host": f"h{mark}", "X-Mark": mark})

    series()  # a request of its own
    ask("a")
    before = series()
    ask("b")
    assert series() == before
    assert 'gramwatt_http_requests_total{method="other",route="none",status="401"}' in before


def test_not_ready_until_the_tables_are_there(tmp_path, clock):
    from gramwatt.service.config import ServiceConfig, sqlite_url
    from gramwatt.service.container import Service
    from gramwatt.service.store.migrate import upgrade

    url = sqlite_url(tmp_path / "g.db")
    service = Service.open(ServiceConfig(home=tmp_path, database_url=url, clock=clock))
    app = create_app(service)
    for path in ("/readyz", "/v1/jobs"):
        assert problem(FlaskClient(app, app.response_class).get(path)) == (503, "not-ready")
    upgrade(service.store)
    client = app.test_client()
    assert client.get("/readyz").status_code == client.get("/v1/jobs").status_code == 200
    with service.store.migrating() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'older'")
    assert problem(client.get("/readyz")) == (503, "not-ready")
    assert "gramwatt admin db upgrade" in client.get("/readyz").json["detail"]
    for headers in (NO_KEY, {"Authorization": "Bearer gw_00000000_x"}):
        told = client.get("/readyz", headers=headers)
        assert problem(told) == (503, "not-ready")
        assert told.json["detail"] == "not ready; a key is told why"
    assert client.get("/healthz").json == {"status": "ok"}
    service.store.close()


def test_a_text_that_is_no_cursor_of_the_list_is_refused(client, seven):
    for text in [
        "?",
        "e30",
        encode_cursor(5),
        encode_cursor("a/b", 5),
        encode_cursor(2**63, 1),
        "W" * 999,
    ]:
        answer = client.get("/v1/jobs", query_string={"cursor": text})
        assert problem(answer) == (422, "invalid")
        (error,) = answer.json["errors"]
        assert (error["where"], error["code"]) == ("query.cursor", "cursor")


def test_an_unknown_kind_of_the_catalog_is_not_found(client):
    answer = client.get("/v1/catalog/foo")
    assert (answer.status_code, answer.get_json()["code"]) == (404, "unknown-name")
    assert "hardware, cpus, instances, regions, intensity" in answer.get_json()["detail"]


def test_an_unknown_id_is_answered_without_comparing_it_with_a_thousand(client, light):
    """The newest fifty are compared; difflib takes up to 0.05 ms for each."""
    for number in range(60):
        ingest(light, f"run-{number:03}-alpha", lines(journal(f"run-{number:03}-alpha")[:1]))
    compared = []
    real = difflib.SequenceMatcher.set_seq1

    def counting(matcher, name):
        compared.append(name)
        real(matcher, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difflib.SequenceMatcher, "set_seq1", counting)
        answer = client.get("/v1/jobs/run-059-alfa")
        assert answer.json["close"][0] == "run-059-alpha"
        assert client.get("/v1/jobs/run-00").json["close"][0].startswith("run-00")
        assert len(compared) <= 2 * (1 + 50)  # each matcher begins with no name
        compared.clear()
        opened = client.put("/v1/jobs/run-100-alpha", json={"node": "n", "writer": "w"})
        assert opened.status_code in (200, 201)
        assert compared == []
