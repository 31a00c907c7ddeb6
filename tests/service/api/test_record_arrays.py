"""Records as a JSON array, as generated clients send them: the same as their lines."""

import gzip
import json

from gramwatt.service.access.keys import create_key
from gramwatt.service.api import jobs
from tests.journals import body, journal
from tests.service.keyed import NDJSON, bearer

ADDRESS = "/v1/jobs/job-1/records"


def records():
    return [json.loads(line) for line in body(journal()).splitlines()]


def test_an_array_is_taken_in_as_its_lines_are(client):
    answer = client.post(ADDRESS, json=records())
    assert answer.status_code == 200
    assert (answer.json["accepted"], answer.json["rejected"]) == (len(records()), [])
    assert client.get("/v1/jobs/job-1").json["state"] == "completed"
    again = client.post(ADDRESS, data=body(journal()), content_type=NDJSON)
    assert again.json["duplicate"] == len(records())


def test_an_array_may_be_indented_and_compressed(client):
    sent = gzip.compress(json.dumps(records(), indent=2).encode())
    headers = {"Content-Encoding": "gzip"}
    answer = client.post(ADDRESS, data=sent, content_type="application/json", headers=headers)
    assert answer.json["accepted"] == len(records())


def test_a_bad_item_is_rejected_alone_by_its_number(client):
    answer = client.post(ADDRESS, json=[*records()[:2], 7, {"type": "end"}, *records()[2:]])
    assert answer.json["accepted"] == len(records())
    assert [row["line"] for row in answer.json["rejected"]] == [3, 4]


def test_what_is_no_array_is_refused(client):
    for sent in [b"{}", b"", b"[1", b'[{"a":1}] x', b"\xff", b"7", b"[" * 99_999]:
        answer = client.post(ADDRESS, data=sent, content_type="application/json")
        assert (answer.status_code, answer.json["code"]) == (400, "bad-json")


def test_an_array_of_too_many_items_is_refused(client, monkeypatch):
    monkeypatch.setattr(jobs, "COMMAS_MOST", 3)
    assert client.post(ADDRESS, json=[0, 0, 0, 0]).status_code == 200
    assert client.post(ADDRESS, json=[0, 0, 0, 0, 0]).status_code == 413


def test_a_key_of_a_project_sends_its_own_alone(client, light):
    key = create_key(light, "k", "ingest", ("other",)).key
    answer = client.post(ADDRESS, json=records(), headers=bearer(key))
    assert answer.status_code == 403


def test_a_device_without_a_class_is_told_the_field_s_name(client):
    found = records()
    device = next(record for record in found if record["type"] == "device")
    device["device_class"] = device.pop("class")
    [row] = client.post(ADDRESS, json=[device]).json["rejected"]
    assert (row["code"], row["message"]) == ("missing-field", "device record lacks 'class'")
    schema = client.get("/openapi.json").json["components"]["schemas"]["DeviceLine"]
    assert "class" in schema["required"]
    assert "device_class" not in schema["properties"]
