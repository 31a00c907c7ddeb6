"""The sums over a model's runs through the API, against sums over the runs' own documents."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.documents import ModelDoc
from gramwatt.service.jobs import models
from gramwatt.service.jobs.ingest import ingest
from tests.documents import model_totals
from tests.journals import Writer, lines
from tests.service.keyed import add, client_of, statements

MONTH_END = datetime(2026, 5, 31, 22, tzinfo=UTC)
RUNS: dict[str, dict[str, Any]] = {
    "a": {"pue": 1.2},
    "b": {"pue": 1.2, "end_state": "killed", "power_w": 100.0, "zone": "SE"},
    "c": {"pue": 1.2, "kind": "inference", "power_w": 250.0},
    "d": {"kind": "fine-tuning", "tags": {"sweep": "lr", "sweep_runs": "3"}},
    "e": {"kind": "evaluation", "tags": {"model_parameters": "7e9"}, "units": ("token",)},
    "f": {"kind": "other", "end_state": "failed", "start": MONTH_END - timedelta(days=40)},
    "running": {"end_state": None},
}


@pytest.fixture
def runs(service):
    """A model's runs in one month, in another, and over the end of one."""
    for name, about in RUNS.items():
        add(service, name, model_id="m-1", **about)
    over = Writer(job="over", t0=MONTH_END)
    records = [over.job(model_id="m-1", zone="FR", pue=1.1, units=("token",)), over.device()]
    for hour in range(0, 6 * 3600, 300):
        records.append(over.interval(hour, hour + 300, 90_000 + hour))
        records.append(over.count(7.5, "token", seconds=hour + 299))
    ingest(service, "over", lines([*records, over.end(6 * 3600)]))
    return service


@pytest.fixture
def client(runs):
    return client_of(runs)


def asked(client: FlaskClient) -> ModelDoc:
    found: ModelDoc = client.get("/v1/jobs?model_id=m-1").json["model"]
    return found


def from_documents(client: FlaskClient, *, unscored: int = 1) -> ModelDoc:
    found = client.get("/v1/jobs?model_id=m-1&limit=100").json["jobs"]
    ids = [job["job_id"] for job in found if job["state"] != "running"]
    documents = [client.get(f"/v1/jobs/{name}/report.json").json for name in ids]
    jobs = msgspec.convert(documents, list[JobDoc])
    return msgspec.to_builtins(model_totals("m-1", jobs, unscored=unscored))


def leaves(found: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(found, dict):
        for name, inner in found.items():
            yield from leaves(inner, f"{at}/{name}")
    elif isinstance(found, list | tuple):
        for number, inner in enumerate(found):
            yield from leaves(inner, f"{at}/{number}")
    else:
        yield at, found


def require_same(found: ModelDoc, expected: ModelDoc) -> None:
    one, other = dict(leaves(found)), dict(leaves(expected))
    assert one.keys() == other.keys()
    for at, value in other.items():
        if at.endswith("/source"):
            assert set(one[at].split("; ")) == set(value.split("; ")), at
        if "/source" in at:  # the first run's come first there, here they are in order
            continue
        # What a run's meters err by alone is one input of it here, and several in its document.
        rel = 1e-3 if at.endswith(("/low", "/high")) else 1e-9
        same = pytest.approx(value, rel=rel) if isinstance(value, float) else value
        assert one[at] == same, at


def test_later_pages_have_no_sums_and_no_page_reads_documents(runs, client):
    with statements(runs) as sent:
        first = client.get("/v1/jobs?model_id=m-1&limit=2").json
        following = client.get(f"/v1/jobs?model_id=m-1&limit=2&cursor={first['next_cursor']}").json
    assert ("model" in first, "model" in following) == (True, False)
    assert sent
    assert [text for text in sent if "scores" in text] == []


def test_whatever_changes_a_run_changes_the_sums(runs, client):
    found = asked(client)
    assert [part["persona"] for part in found["parts"]] == ["provider", "consumer", "other"]
    assert (found["jobs"], found["missing"][0]) == (8, "runs without a score yet, or not ended: 1")
    require_same(found, from_documents(client))
    assert client.patch("/v1/jobs/a", json={"zone": "DE"}).status_code == 200
    require_same(asked(client), from_documents(client))
    left_out = {"excluded": True, "reason": "broken meter"}
    assert client.patch("/v1/jobs/b", json=left_out).status_code == 200
    require_same(asked(client), from_documents(client))
    assert client.delete("/v1/jobs/c").status_code == 200
    add(runs, "g", model_id="m-1", pue=1.2)
    require_same(asked(client), from_documents(client))
    ended = Writer(job="running", node="n1", first_seq=9)
    ingest(runs, "running", lines([ended.end(180)]))
    require_same(asked(client), from_documents(client, unscored=0))


def test_sums_of_many_runs_are_made_for_who_waits(client, monkeypatch):
    monkeypatch.setattr(models, "RUNS_AT_ONCE", 7)
    path = "/v1/jobs?model_id=m-1&limit=2"
    answer = client.get(path).json
    assert (len(answer["jobs"]), "model" in answer) == (2, False)
    made = client.get(f"{path}&wait=sums").json["model"]
    assert made["jobs"] == 8
    assert client.get(path).json["model"] == made
    assert client.patch("/v1/jobs/a", json={"zone": "DE"}).status_code == 200
    assert "model" not in client.get(path).json
    assert client.get("/models?model=m-1").status_code == 200
    assert client.get(f"{path}&wait=scored").status_code == 422
