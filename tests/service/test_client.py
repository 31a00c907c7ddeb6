"""The client library against the real application, over HTTP."""

from __future__ import annotations

import json
import os

import pytest
import requests

from gramwatt.client import (
    Client,
    ConflictError,
    InvalidError,
    NotAllowedError,
    NotFoundError,
    UnavailableError,
)
from gramwatt.collectors.settings.config import user_file
from gramwatt.collectors.settings.keys import store_key
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from tests.journals import body, journal
from tests.packages import ROOT
from tests.service.listening import listening
from tests.test_docs import blocks


@pytest.fixture
def client(light):
    key = create_key(light, "tool", "admin").key
    with listening(create_app(light)) as url, Client(url, key, timeout_s=20) as found:
        yield found


def records(job_id: str, **options) -> list[dict]:
    return [json.loads(line) for line in body(journal(job_id, **options)).splitlines()]


def test_a_job_is_uploaded_waited_for_listed_corrected_and_deleted(client):
    sent = records("job-1")
    assert client.upload("job-1", sent) == {"accepted": len(sent), "duplicate": 0, "rejected": []}
    assert client.upload("job-1", sent)["duplicate"] == len(sent)
    document = client.wait("job-1", timeout_s=30)
    assert document["job_id"] == "job-1"
    assert document == client.report("job-1", revision=1)
    assert client.job("job-1")["state"] == "completed"
    changed = client.correct("job-1", zone="DE", reason="it was forgotten")
    assert changed["zone"] == "DE"
    assert client.report("job-1")["revision"] == 2
    assert client.rescore("job-1")["changed"] is False
    assert client.delete("job-1", reason="a trial")["reason"] == "a trial"
    with pytest.raises(NotFoundError) as gone:
        client.job("job-1")
    assert (gone.value.status, gone.value.code) == (410, "deleted-job")


def test_the_recipes_of_the_documents_do_what_they_say(client, monkeypatch, capsys):
    """Block after block, as a reader would paste them."""
    client.upload("job-1", records("job-1"))
    client.wait("job-1")
    monkeypatch.setattr("gramwatt.client.Client", lambda url, api_key: client)
    names: dict = {}
    for block in blocks("python client", ROOT / "docs" / "client.md"):
        exec(block, names)
    assert client.report("etl-7")["energy_kwh"]["value"] == pytest.approx(0.2)
    assert client.report("etl-7")["sci"][0]["count"] == 12
    assert names["spent"] == []
    assert {row["zone"] for row in names["plan"]["plan"]} == {"DE"}
    assert capsys.readouterr().out.splitlines()[-1] == "['EE', 'DE']"


def test_lists_page_by_themselves_and_filter(client):
    for number in range(5):
        client.upload(f"job-{number}", records(f"job-{number}"))
    assert len({job["job_id"] for job in client.jobs(limit=2)}) == 5
    assert [job["job_id"] for job in client.jobs(name="absent")] == []
    assert len(list(client.jobs(project="vision", state="completed"))) == 5


def test_a_line_that_is_refused_is_named_by_its_number_over_all_requests(client, monkeypatch):
    monkeypatch.setattr("gramwatt.collectors.client.api.LINES_MAX", 2)
    sent = records("job-1")
    answer = client.upload("job-1", [*sent[:3], {"v": 1, "type": "water"}, *sent[3:]])
    assert [item["line"] for item in answer["rejected"]] == [4]
    assert answer["accepted"] == len(sent)


def test_months_advice_plans_budgets_and_keys(client, light):
    client.upload("job-1", records("job-1", start=light.config.clock()))
    client.wait("job-1")
    month = client.months(f"{light.config.clock():%Y-%m}", project="vision")
    assert (month["month"], month["project"]) == ("2026-06", "vision")
    assert "answers" in client.suggest("job-1")
    asked = {"hardware": "H100 SXM", "hours": 1, "zone": "FR"}
    assert client.estimate(**asked)["answers"][0]["total_g"]["unit"] == "gCO2e"
    assert client.set_budget("vision", 50)["limit_kg"] == 50
    assert [item["project"] for item in client.budgets(project="vision")] == ["vision"]
    assert client.create_key("ci", "ingest")["key"].startswith("gw_")
    listed = client.keys()
    assert {item["name"] for item in listed} == {"tool", "ci"}
    with pytest.raises(InvalidError):
        client.plan()


def test_errors_carry_the_problem_document(client, light):
    with pytest.raises(NotFoundError) as unknown:
        client.job("absent")
    assert unknown.value.code == "unknown-job"
    client.upload("job-1", records("job-1"))
    with pytest.raises(InvalidError) as wrong:
        client.correct("job-1", zone="DEE")
    assert "DE" in wrong.value.problem["close"]
    client.upload("job-2", records("job-2", end_state=None))
    with pytest.raises(ConflictError):
        client.rescore("job-2")
    with pytest.raises(UnavailableError, match="still runs after"):
        client.wait("job-2", timeout_s=0)
    weak = create_key(light, "weak", "ingest").key
    with pytest.raises(NotAllowedError) as refused:
        Client(client.url, weak).months("2026-06")
    assert refused.value.status == 403


def test_nobody_who_answers_and_no_server_are_told_apart(monkeypatch):
    with pytest.raises(UnavailableError) as away:
        Client("http://user:secret@127.0.0.1:9", timeout_s=5).job("job-1")
    assert away.value.status is None
    assert "secret" not in str(away.value)
    with pytest.raises(ValueError, match="GRAMWATT_SERVER"):
        Client()
    monkeypatch.setenv("GRAMWATT_SERVER", "http://127.0.0.1:9/")
    monkeypatch.setenv("GRAMWATT_API_KEY", "gw_00000000_x")
    assert Client().url == "http://127.0.0.1:9"


def sent_key(client: Client) -> str | None:
    """Return the key that a request of this client to its server carries."""
    request = requests.Request("GET", client.url, auth=client._session.auth)
    header = client._session.prepare_request(request).headers.get("Authorization")
    return None if header is None else header.removeprefix("Bearer ")


def test_settings_stand_in_for_what_is_not_given(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAMWATT_API_KEY", "gw_00000000_env")
    assert sent_key(Client("https://a.example")) == "gw_00000000_env"
    assert sent_key(Client("https://a.example", "gw_00000000_own")) == "gw_00000000_own"
    assert sent_key(Client("https://a.example", "")) is None
    monkeypatch.setenv("GRAMWATT_SERVER", "https://b.example")
    assert (Client().url, sent_key(Client())) == ("https://b.example", "gw_00000000_env")
    assert sent_key(Client(api_key="gw_00000000_own")) == "gw_00000000_own"
    with pytest.raises(ValueError, match="server is ignored"):
        Client("a.example")  # no scheme: never the server of the environment in its place


def test_the_file_of_a_repository_gets_no_key_of_the_user(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gramwatt.toml").write_text('server = "https://evil.example"\n', "utf-8")
    with pytest.raises(ValueError, match=r"no key is set for https://evil\.example"):
        Client()
    with pytest.raises(ValueError, match=r"is not for https://evil\.example"):
        Client(api_key="gw_00000000_own")
    monkeypatch.setenv("GRAMWATT_API_KEY", "gw_00000000_env")
    with pytest.raises(ValueError, match=r"is not for https://evil\.example"):
        Client()
    store_key(user_file(os.environ).parent, "https://c.example", "gw_00000000_c")
    assert sent_key(Client("https://c.example")) == "gw_00000000_env"
    monkeypatch.delenv("GRAMWATT_API_KEY")
    assert sent_key(Client("https://c.example")) == "gw_00000000_c"
    assert sent_key(Client("https://d.example")) is None
