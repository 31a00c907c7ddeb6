"""Intensity over time that is sent to the server: checked as a file's, all of it stored or none."""

import pytest

from gramwatt.service.access.keys import create_key
from gramwatt.service.jobs.documents import job_document
from tests.journals import START
from tests.service.keyed import add, bearer


def points(*values, minutes=60, **change):
    """Points of one step after the other from 00:00 on the day of the journals."""
    day = f"{START:%Y-%m-%dT}"

    def at(number):
        return f"{day}{number * minutes // 60:02d}:{number * minutes % 60:02d}:00Z"

    found = [
        {"start": at(n), "end": at(n + 1), "g_per_kwh": value} for n, value in enumerate(values)
    ]
    for number, fields in change.items():
        found[int(number[1:])] |= fields
    return found


def body(found, **more):
    return {"zone": "FR", "source": "our utility", "points": found, **more}


def test_points_that_are_sent_make_scores(client, light):
    answer = client.post("/v1/intensity", json=body(points(*[100.0] * 23)))
    assert answer.status_code == 200
    assert (answer.json["points"], answer.json["days_new"], answer.json["used"]) == (23, 1, True)
    assert client.post("/v1/intensity", json=body(points(*[100.0] * 23))).json["days_new"] == 0
    add(light, "job-1", zone="FR")
    document = job_document(light, "job-1").document
    found = document.method.intensity_g_per_kwh
    assert found.value == pytest.approx(100)
    assert "our utility" in found.source
    entry = client.get("/v1/audit").json["entries"][0]
    assert (entry["action"], entry["subject"]) == (
        "intensity-imported",
        "FR, 23 points of our utility",
    )


def test_another_basis_and_signal_are_kept_beside(client):
    sent = body(points(50.0, None, 70.0), basis="direct", signal="marginal")
    answer = client.post("/v1/intensity", json=sent).json
    assert (answer["used"], answer["unknown"], answer["points"]) == (False, 1, 3)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (points(1.0, 2.0, p1={"start": f"{START:%Y-%m-%d}T03:00Z"}), "points[1]: starts at"),
        (points(1.0, 2.0, p1={"end": f"{START:%Y-%m-%d}T03:00Z"}), "points[1]: ends at"),
        (points(1.0, -2.0), "points[1]: '-2.0' is not an intensity"),
        (points(1.0, 5001.0), "points[1]: "),
        (points(1.0, minutes=7), "points[0]: a step of 7 minutes"),
        (points(1.0, p0={"start": "9999-12-31T23:00Z", "end": "9999-12-31T23:30Z"}), "points[0]"),
        (points(1.0, p0={"start": "yesterday"}), "points[0]: 'yesterday' is not a time"),
    ],
)
def test_a_point_that_cannot_be_used_is_named_and_none_is_stored(client, sent, said):
    answer = client.post("/v1/intensity", json=body(sent))
    assert answer.status_code == 422
    assert answer.json["errors"][0]["message"].startswith(said), answer.json
    span = f"from={START:%Y-%m-%d}T00:00Z&to={START:%Y-%m-%d}T02:00Z"
    stored = client.get(f"/v1/intensity/FR?{span}").json["points"]
    assert {point["quality"] for point in stored} == {"annual"}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"zone": "XX"}, 404),
        ({"source": "entsoe"}, 422),
        ({"source": "\u202eutility"}, 422),
        ({"points": []}, 422),
        ({"basis": "green"}, 422),
        ({"unit": "kg"}, 422),
    ],
)
def test_what_is_no_import_is_refused(client, change, status):
    assert client.post("/v1/intensity", json=body(points(1.0)) | change).status_code == status


@pytest.mark.parametrize(
    ("scope", "projects"), [("read", ()), ("ingest", ()), ("admin", ("vision",))]
)
def test_only_an_admin_of_every_project_imports(client, light, scope, projects):
    key = create_key(light, "k", scope, projects).key
    shown = bearer(key)
    answer = client.post("/v1/intensity", json=body(points(1.0)), headers=shown)
    assert answer.status_code == 403
