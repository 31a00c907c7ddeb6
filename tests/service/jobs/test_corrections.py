"""Corrections over HTTP: what a person declares after the job counts, and stays on record."""

import pytest

from gramwatt.service.jobs import corrections
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.ingest import ingest
from tests.journals import journal, lines
from tests.service.keyed import add
from tests.tables import tables_of

BARE = {"zone": None, "units": (), "name": "python"}
"""What a job is that was started without any option."""


def document(client, job_id="job-1"):
    return client.get(f"/v1/jobs/{job_id}/report").json


@pytest.fixture
def bare(light):
    add(light, "job-1", **BARE)
    return light


def test_a_zone_declared_afterwards_makes_the_score_an_sci(client, bare):
    before = document(client)
    assert (before["conformance"], before["zone"], before["revision"]) == ("not-sci", None, 1)
    answer = client.patch("/v1/jobs/job-1", json={"zone": "DE", "pue": 1.2})
    assert (answer.status_code, answer.json["revision"], answer.json["zone"]) == (200, 2, "DE")
    assert answer.json["conformance"] == "conforming"
    after = document(client)
    assert after["energy_kwh"] == before["energy_kwh"]
    # O = E x I x PUE: 0.03 kWh at Germany's intensity and a PUE of 1.2.
    intensity = after["method"]["intensity_g_per_kwh"]["value"]
    assert after["operational_g"]["value"] == pytest.approx(0.03 * intensity * 1.2)
    assert after["method"]["pue"]["kind"] == "declared"
    assert "zone-unknown" not in {notice["code"] for notice in after["notices"]}


def test_a_correction_says_what_was_before_by_whom_and_when(client, bare, clock):
    clock.turn(days=1)
    client.patch("/v1/jobs/job-1", json={"zone": "DE", "name": "resnet", "reason": "forgotten"})
    client.patch("/v1/jobs/job-1", json={"zone": "FR", "unit": "image", "tags": {"team": "a"}})
    common = {"kind": "declared", "by": "api", "at": "2026-06-03T12:00:00.000000Z"}
    first, second = common | {"reason": "forgotten"}, common | {"reason": None}
    assert document(client)["corrections"] == [
        {"field": "zone", "value": "DE", "old": None, **first},
        {"field": "name", "value": "resnet", "old": "python", **first},
        {"field": "zone", "value": "FR", "old": "DE", **second},
        {"field": "unit", "value": ["image"], "old": None, **second},
        {"field": "tags.team", "value": "a", "old": None, **second},
    ]
    rows = client.get("/v1/jobs/job-1/revisions").json["revisions"]
    assert [(row["revision"], row["reason"]) for row in rows] == [
        (3, "corrected"),
        (2, "corrected"),
        (1, "ended"),
    ]
    old = client.get("/v1/jobs/job-1/report?revision=1").json
    assert (old["zone"], old["name"], old["corrections"]) == (None, "python", [])
    assert "Declared afterwards" in client.get("/v1/jobs/job-1/report.html").text
    page = client.get("/v1/jobs/job-1/report.html?full=1").text
    for text in ("Corrections", "forgotten", "2026-06-03 12:00", "not declared", "team"):
        assert text in page


def test_a_job_that_is_deleted_while_it_is_corrected_is_gone(client, bare, monkeypatch):
    monkeypatch.setattr(
        corrections, "score_job", lambda *_: delete_job(bare, "job-1", by="somebody else")
    )
    answer = client.patch("/v1/jobs/job-1", json={"zone": "DE"})
    assert (answer.status_code, answer.json["code"]) == (410, "deleted-job")


def test_corrections_outlive_lines_that_are_sent_again_or_late(client, bare):
    client.patch("/v1/jobs/job-1", json={"zone": "DE", "name": "resnet", "project": "papers"})
    add(bare, "job-1", **BARE)
    late = journal(writer="w2", node="n2", **BARE)
    ingest(bare, "job-1", lines(late))
    found = document(client)
    # Two nodes of 108 000 J each.
    assert found["energy_kwh"]["value"] == pytest.approx(0.06)
    assert (found["zone"], found["name"], found["project"]) == ("DE", "resnet", "papers")
    assert found["method"]["zones"] == ["DE"]
    listed = client.get("/v1/jobs?project=papers").json["jobs"]
    assert [job["job_id"] for job in listed] == ["job-1"]


def test_a_zone_replaces_the_region_and_the_region_the_zone(client, light):
    add(light, "job-1", zone=None, region="aws:us-east-1")
    client.patch("/v1/jobs/job-1", json={"zone": "FR"})
    found = document(client)
    assert (found["zone"], found["region"]) == ("FR", None)
    assert [row["field"] for row in found["corrections"]] == ["zone", "region"]
    assert [row["old"] for row in found["corrections"]] == [None, "aws:us-east-1"]
    client.patch("/v1/jobs/job-1", json={"region": "aws:eu-central-1"})
    found = document(client)
    assert (found["zone"], found["region"]) == ("DE", "aws:eu-central-1")


def test_null_makes_a_value_undeclared(client, light):
    add(light, "job-1", pue=1.5, tags={"team": "a", "run": "1"})
    client.patch("/v1/jobs/job-1", json={"pue": None, "tags": {"team": None}})
    found = document(client)
    assert found["tags"] == {"run": "1"}
    assert "pue-undeclared" in {notice["code"] for notice in found["notices"]}


def test_what_changes_nothing_makes_no_revision(client, light):
    add(light, "job-1", zone="FR", pue=1.5)
    for sent in ({}, {"zone": "FR"}, {"pue": 1.5, "name": "resnet"}, {"tags": {"none": None}}):
        answer = client.patch("/v1/jobs/job-1", json=sent)
        assert (answer.status_code, answer.json["revision"]) == (200, 1)
    assert document(client)["corrections"] == []


def test_a_value_without_a_meaning_is_refused_with_what_to_do(client, bare):
    for sent, where, words in [
        ({"zone": "Germny"}, "body.zone", "close matches: DE"),
        ({"zone": "florida"}, "body.zone", "US-FLA-FPL"),
        ({"region": "aws:eu-wst-1"}, "body.region", "aws:eu-west-1"),
        ({"zone": "DE", "region": "aws:eu-west-1"}, "body.region", "not both"),
        ({"pue": 0.9}, "body.pue", "a PUE from 1 to 5"),
        ({"pue": 5.1}, "body.pue", "a PUE from 1 to 5"),
        ({"unit": "1image"}, "body.unit", "a letter"),
        ({"unit": ""}, "body.unit", "a text of 1 to 512 characters"),
        ({"name": None}, "body.name", "is null, not a text"),
        ({"zone": 5}, "body.zone", "is 5, not a text"),
        ({"region": {}}, "body.region", "not a text"),
        ({"project": ["a"]}, "body.project", "not a text"),
        ({"pue": "1.2"}, "body.pue", "not a PUE"),
        ({"pue": True}, "body.pue", "is True, not a PUE"),
        ({"tags": ["a=b"]}, "body.tags", "an object of names"),
        ({"tags": {"a": 1}}, "body.tags", "got `int`"),
        ({"excluded": 1}, "body.excluded", "is 1, not true or false"),
        ({"reason": {}}, "body.reason", "not a text"),
        ({"unit": [5]}, "body.unit.0", "not a text of 1 to 512 characters"),
        ({"unit": []}, "body.unit", "not a text of 1 to 512 characters or a list, each a text"),
        ({"unit": {}}, "body.unit", "not a text of 1 to 512 characters or a list, each a text"),
        ({"excluded": True}, "body.reason", "reason"),
        ({"tags": {"": "x"}}, "body.tags", "an object of names"),
        ({"colour": "red"}, "body.colour", "is not known"),
    ]:
        answer = client.patch("/v1/jobs/job-1", json=sent)
        assert (answer.status_code, answer.json["code"]) == (422, "invalid")
        errors = [error for error in answer.json["errors"] if error["where"].startswith(where)]
        assert errors, answer.json
        assert words in errors[0]["message"]
        assert "DE" in client.patch("/v1/jobs/job-1", json={"zone": "Germny"}).json["close"]
    assert document(client)["corrections"] == []


def test_a_running_job_is_corrected_before_it_ends(client, light, clock):
    records = lines(journal(end_state=None, **BARE))
    ingest(light, "job-1", records)
    assert document(client)["conformance"] == "not-sci"
    answer = client.patch("/v1/jobs/job-1", json={"zone": "DE", "pue": 1.1})
    assert (answer.json["provisional"], answer.json["zone"]) == (True, "DE")
    assert answer.json["conformance"] == "conforming"
    assert client.get("/v1/jobs/job-1/revisions").json["revisions"] == []
    add(light, "job-1", **BARE)
    found = document(client)
    assert (found["revision"], found["zone"], found["provisional"]) == (1, "DE", False)


def test_an_excluded_job_is_left_out_of_its_month_with_its_reason(client, light, clock):
    for name in ("job-1", "job-2"):
        add(light, name)
    clock.turn(days=1)
    month = "/v1/reports/monthly/2026-05"
    # Each of the two is 0.03 kWh.
    assert client.get(month).json["totals"]["energy_kwh"]["value"] == pytest.approx(0.06)
    clock.turn(days=1)
    sent = {"excluded": True, "reason": "broken meter"}
    answer = client.patch("/v1/jobs/job-2", json=sent)
    assert answer.json["excluded"] == "broken meter"
    found = client.get(month).json
    assert found["totals"]["energy_kwh"]["value"] == pytest.approx(0.03)
    states = {state: row["jobs"] for state, row in found["by_state"].items()}
    assert (found["totals"]["jobs"], states) == (1, {"completed": 1})
    (row,) = found["excluded"]
    assert (row["job_id"], row["reason"]) == ("job-2", "broken meter")
    assert "broken meter" in client.get(f"{month}.html").text
    (outside,) = tables_of(client.get(f"{month}.zip").data)["outside"]
    assert (outside["Why"], outside["Reason"]) == ("left out", "broken meter")
    clock.turn(days=1)
    client.patch("/v1/jobs/job-2", json={"excluded": False})
    found = client.get(month).json
    assert (found["totals"]["jobs"], found["excluded"]) == (2, [])


def test_an_excluded_job_is_in_no_sum_of_its_model(client, light):
    for name in ("job-1", "job-2", "job-3"):
        add(light, name, model_id="m-1")
    client.patch("/v1/jobs/job-2", json={"excluded": True, "reason": "broken meter"})
    answer = client.get("/v1/jobs?model_id=m-1").json
    (part,) = answer["model"]["parts"]
    # Each of the three is 0.03 kWh.
    assert (part["jobs"], part["energy_kwh"]["value"]) == (2, pytest.approx(0.06))
    assert answer["model"]["missing"] == ["runs left out by a person, in no sum: 1"]
    assert len(answer["jobs"]) == 3


def test_an_excluded_running_job_is_listed_and_not_waited_for(client, light, clock):
    add(light)
    add(light, "job-2", end_state=None)
    month = "/v1/reports/monthly/2026-05"
    before = client.get(month).json
    assert (before["complete"], before["jobs_running"]["jobs"]) == (False, 1)
    client.patch("/v1/jobs/job-2", json={"excluded": True, "reason": "broken meter"})
    found = client.get(month).json
    assert (found["complete"], found["jobs_running"]["jobs"]) == (True, 0)
    assert [(row["job_id"], row["reason"]) for row in found["excluded"]] == [
        ("job-2", "broken meter")
    ]
    client.patch("/v1/jobs/job-2", json={"excluded": False})
    found = client.get(month).json
    assert (found["complete"], found["excluded"]) == (False, [])


def test_r_declared_afterwards_replaces_what_was_counted_over_http(client, bare):
    """The job counted 30 images; counts that arrive later do not undo what is declared."""
    total_g = document(client)["total_g"]["value"]
    answer = client.patch("/v1/jobs/job-1", json={"counts": {"token": 98304, "image": 64}})
    assert (answer.status_code, answer.json["revision"]) == (200, 2)
    found = {row["unit"]: row for row in answer.json["sci"]}
    assert {unit: row["count"] for unit, row in found.items()} == {"image": 64, "token": 98304}
    assert found["token"]["g_per_unit"]["value"] == pytest.approx(total_g / 98304)
    rows = document(client)["corrections"]
    assert {row["field"]: row["old"] for row in rows} == {"count.token": None, "count.image": 30}
    assert {(row["kind"], row["by"]) for row in rows} == {("declared", "api")}
    again = client.patch("/v1/jobs/job-1", json={"counts": {"image": 64}})
    assert again.json["revision"] == 2
    client.patch("/v1/jobs/job-1", json={"counts": {"token": None, "image": None}})
    assert [row["count"] for row in document(client)["sci"]] == [30]


def test_r_without_a_meaning_is_refused_with_its_field(client, bare):
    for counts, field, close in [
        ({"token": 0}, "body.counts.token", None),
        ({"token": -1}, "body.counts.token", None),
        ({"1x": 3}, "body.counts.1x", None),
        ({"tokn": 3}, "body.counts.tokn", ["token"]),
        ({"Image": 3}, "body.counts.Image", ["image"]),
    ]:
        answer = client.patch("/v1/jobs/job-1", json={"counts": counts})
        assert answer.status_code == 422
        assert field in answer.text
        assert answer.json.get("close") == close or f'"close":{close}' in answer.text.replace(
            " ", ""
        )
        assert document(client)["revision"] == 1
