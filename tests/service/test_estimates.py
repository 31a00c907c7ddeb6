"""Estimates and the catalog over HTTP."""

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.overlay import OverlayError
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.service.config import ServiceConfig, from_environment, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.scoring import score_records
from gramwatt.service.store.migrate import upgrade
from tests.journals import Writer
from tests.service.keyed import client_of

QUESTION = {"hardware": "nvidia-l4", "hours": 10, "zone": "SE", "pue": 1.2, "host": False}


def test_an_estimate_by_hand(client):
    answer = client.post("/v1/estimates", json=QUESTION)
    assert answer.status_code == 200
    # 72 W for 10 h, at 0.70 of the rated power.
    [row] = answer.json["answers"]
    assert row["energy_kwh"]["value"] == pytest.approx(0.072 * 10 * 0.7)
    assert row["pue"]["value"] == 1.2
    assert answer.json["summary"].endswith("for 10 h on L4.")


def test_power_with_a_range_over_http(client):
    """10 h at 40 (30 to 60) W are 0.4 (0.3 to 0.6) kWh."""
    power = {"low": 30, "value": 40, "high": 60}
    energy = client.post("/v1/estimates", json={**QUESTION, "power_w": power}).json
    energy = energy["answers"][0]["energy_kwh"]
    assert [energy[end] for end in ("low", "value", "high")] == pytest.approx([0.3, 0.4, 0.6])
    wrong = {"low": 50, "value": 40, "high": 60}
    assert client.post("/v1/estimates", json={**QUESTION, "power_w": wrong}).status_code == 422


def test_a_number_beyond_any_float_is_refused_over_http(client):
    for power in (10**400, {"low": 1, "value": 2, "high": 10**400}):
        answer = client.post("/v1/estimates", json={**QUESTION, "power_w": power})
        assert answer.status_code == 422


def test_an_ambiguous_name_answers_for_each_device(client):
    answer = client.post("/v1/estimates", json={**QUESTION, "hardware": "A100"})
    assert answer.status_code == 200
    ids = {row["method"]["hardware"] for row in answer.json["answers"]}
    assert len(ids) == 4
    assert "nvidia-a100-sxm4-80" in ids


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"colour": "red"}, "invalid"),
        ({"hours": "10"}, "invalid"),
        ({"hours": -1}, "invalid"),
        ({"zone": "ATLANTIS"}, "unanswerable"),
        ({"hardware": None}, "unanswerable"),
    ],
)
def test_a_wrong_question_is_refused(client, change, code):
    answer = client.post("/v1/estimates", json={**QUESTION, **change})
    assert (answer.status_code, answer.json["code"]) == (422, code)


def test_the_catalog_lists_and_finds(client):
    every = client.get("/v1/catalog/hardware").json["matches"]
    assert [row["id"] for row in every] == [part.id for part in load_catalog().all_hardware()]
    [one] = client.get("/v1/catalog/hardware?name=NVIDIA L4").json["matches"]
    assert one["id"] == "nvidia-l4"
    several = client.get("/v1/catalog/hardware?name=A100").json["matches"]
    assert len(several) == 4
    answer = client.get("/v1/catalog/hardware?name=NVIDIA H800").json
    assert answer["matches"][0]["id"] == "nvidia-h800-sxm5-80"
    assert "the commonest, is counted" in answer["reason"]


def test_the_catalog_does_not_guess(client):
    answer = client.get("/v1/catalog/hardware?name=nvidia-l44")
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-name")
    assert "nvidia-l4" in answer.json["close"]
    assert "A job on it counts" in answer.json["detail"]
    assert client.get("/v1/catalog/colours").status_code == 404


def test_instances_and_names_of_other_kinds(client):
    every = client.get("/v1/catalog/instances").json["matches"]
    assert len(every) == len(load_catalog().all_instances())
    family = client.get("/v1/catalog/instances?name=P4").json
    assert [row["id"] for row in family["matches"]] == ["aws:p4d.24xlarge", "aws:p4de.24xlarge"]
    assert family["reason"] is None
    service = client.get("/v1/catalog/hardware?name=Colab T4").json
    assert [row["id"] for row in service["matches"]] == ["nvidia-t4"]
    assert "cloud instance" in service["reason"]
    refused = client.get("/v1/catalog/hardware?name=DeepRacer")
    assert (refused.status_code, refused.json["code"]) == (404, "unknown-name")
    assert "model car" in refused.json["detail"]


def test_an_estimate_by_instance(client):
    asked = {"hours": 10, "region": "aws:eu-west-1", "host": False}
    answer = client.post("/v1/estimates", json={**asked, "instance": "ml.p4d.24xlarge"}).json
    [answer] = answer["answers"]
    assert answer["energy_kwh"]["value"] == pytest.approx(8 * 10 * 0.4 * 0.7)
    assert answer["method"]["instance"] == "aws:p4d.24xlarge"
    family = client.post("/v1/estimates", json={**asked, "instance": "P4"})
    assert [row["label"] for row in family.json["answers"]] == [
        "aws:p4d.24xlarge",
        "aws:p4de.24xlarge",
    ]


def test_the_overlay_of_a_service(tmp_path):
    file = tmp_path / "overlay.toml"
    file.write_text('[hardware.nvidia-l4]\nsource = "our limit"\ntdp_w = 60\n')
    url = sqlite_url(tmp_path / "gramwatt.db")
    config = ServiceConfig(home=tmp_path, database_url=url, overlay=file)
    service = Service.open(config)
    upgrade(service.store)
    answer = client_of(service).post("/v1/estimates", json=QUESTION).json
    [answer] = answer["answers"]
    assert answer["energy_kwh"]["value"] == pytest.approx(0.060 * 10 * 0.7)
    assert [n["message"] for n in answer["notices"] if n["code"] == "overlay-used"] == [
        "From the overlay: power of a device (our limit)."
    ]
    writer = Writer()
    records = [
        writer.job(zone="FR", pue=1.0),
        writer.device(name="NVIDIA L4"),
        writer.interval(0, 60, 4_000),
        writer.end(60),
    ]
    assert "+overlay." in score_records(service, records, 1).method.catalog_version
    service.store.close()
    file.write_text("[hardware.nvidia-l4]\n")
    with pytest.raises(OverlayError, match="needs source"):
        Service.open(config)
    with pytest.raises(ScoreError, match="needs source"):
        score_records(service, records, 1)


def test_the_overlay_in_the_home_is_found(tmp_path):
    environ = {"GRAMWATT_HOME": str(tmp_path)}
    assert from_environment(environ).overlay is None
    (tmp_path / "overlay.toml").touch()
    assert from_environment(environ).overlay == tmp_path / "overlay.toml"
    other = {**environ, "GRAMWATT_OVERLAY": str(tmp_path / "x.toml")}
    assert from_environment(other).overlay == tmp_path / "x.toml"
