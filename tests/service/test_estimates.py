"""Estimates and the catalog over HTTP."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

QUESTION = {"hardware": "nvidia-l4", "hours": 10, "zone": "SE", "pue": 1.2, "host": False}


def test_an_estimate_by_hand(client: FlaskClient) -> None:
    answer = client.post("/v1/estimates", json=QUESTION)
    assert answer.status_code == 200
    # 72 W for 10 h, at 0.70 of the rated power.
    assert answer.json["energy_kwh"]["value"] == pytest.approx(0.072 * 10 * 0.7)
    assert answer.json["pue"]["value"] == 1.2


def test_an_ambiguous_name_answers_with_its_choices(client: FlaskClient) -> None:
    answer = client.post("/v1/estimates", json={**QUESTION, "hardware": "A100"})
    assert (answer.status_code, answer.json["code"]) == (422, "unanswerable")
    assert answer.json["reason"] == "ambiguous-hardware"
    assert "nvidia-a100-sxm4-80" in answer.json["choices"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"colour": "red"}, "invalid"),
        ({"hours": "10"}, "invalid"),
        ({"hours": -1}, "invalid"),
        ({"zone": "ATLANTIS"}, "unanswerable"),
        ({"hours": None}, "unanswerable"),
    ],
)
def test_a_wrong_question_is_refused(
    client: FlaskClient, change: dict[str, object], code: str
) -> None:
    answer = client.post("/v1/estimates", json={**QUESTION, **change})
    assert (answer.status_code, answer.json["code"]) == (422, code)


def test_the_catalog_lists_and_finds(client: FlaskClient) -> None:
    every = client.get("/v1/catalog/hardware").json["matches"]
    assert len(every) == len({row["id"] for row in every}) >= 68
    [one] = client.get("/v1/catalog/hardware?name=NVIDIA L4").json["matches"]
    assert one["id"] == "nvidia-l4"
    several = client.get("/v1/catalog/hardware?name=A100").json["matches"]
    assert len(several) == 4


def test_the_catalog_does_not_guess(client: FlaskClient) -> None:
    answer = client.get("/v1/catalog/hardware?name=nvidia-l44")
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-name")
    assert "nvidia-l4" in answer.json["close"]
    assert client.get("/v1/catalog/colours").status_code == 422
