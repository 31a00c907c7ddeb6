"""The ledger of contracts over HTTP: market-based figures, and each energy counted once."""

from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.cli.common import open_service
from gramwatt.service.jobs.intake.ingest import ingest
from tests.journals import H100, Writer, lines
from tests.service.cli.command import gramwatt

KWH = 3.6e6
DAY = datetime(2026, 3, 10, 8, tzinfo=UTC)


def measured(service, name, kwh, *, start=DAY, hours=1.0, **about):
    """Store a job of one H100 that used so much energy evenly over its hours."""
    writer = Writer("w1", "n1", name, t0=start)
    steps = round(hours * 12)
    given = {"project": "vision", "zone": "DE", "pue": 1.0, **about}
    records = [writer.job(**given), writer.device("GPU-1", **H100)]
    records += [
        writer.interval(300 * n, 300 * (n + 1), kwh * KWH / steps, "GPU-1") for n in range(steps)
    ]
    ingest(service, name, lines([*records, writer.end(300 * steps, "completed", exit_code=0)]))


def add(client, *rows, status=200):
    answer = client.post("/v1/contracts", json={"contracts": list(rows)})
    assert answer.status_code == status, answer.json
    return answer.json


def instrument(vintage, mwh, cancelled, zone="DE", g=0.0):
    named = {"issuer": "UBA", "cancellation_id": cancelled, "factor_g_per_kwh": g}
    return {"zone": zone, "vintage": vintage, "volume_mwh": mwh, **named}


def residual(zone, g, vintage="2025"):
    about = {"zone": zone, "vintage": vintage, "factor_g_per_kwh": g, "issuer": "AIB"}
    return {"kind": "residual-mix", **about}


def account(client, month="2026-03", **query):
    return client.get(f"/v1/reports/monthly/{month}", query_string=query).json["scope_2"]


def test_instruments_cover_energy_of_their_zone_and_period_once(service):
    """A year's 5 kWh: 3 of March's 4, of which 1 is a month's, then 2 of April's 6."""
    client = create_app(service=service).test_client()
    measured(service, "march", 3.2, pue=1.25)
    measured(service, "april", 6.0, start=DAY + timedelta(days=31))
    measured(service, "away", 1.0, zone="FR")
    measured(service, "cloud", 9.0, zone=None, region="aws:eu-central-1", pue=1.0)
    march = account(client)
    assert march["market_g"]["value"] == march["location_g"]["value"]
    assert "stand-in" in march["market_g"]["source"]
    rows = (
        instrument("2026", 0.005, "GO-1", g=10.0),
        instrument("2026-03", 0.001, "GO-2"),
        instrument("2026-04", 0.5, "GO-3", zone="FR"),
        instrument("2025", 7.0, "GO-4"),
        residual("DE", 700.0),
        residual("DE", 600.0, "2024"),
    )
    assert add(client, *rows) == {"new": 6, "known": 0}
    assert add(client, *rows) == {"new": 0, "known": 6}
    march, april = account(client), account(client, "2026-04")
    german, french = march["zones"]
    used = [(row["cancellation_id"], row["used_kwh"]) for row in march["instruments"]]
    assert used == [("GO-1", pytest.approx(3.0)), ("GO-2", pytest.approx(1.0))]
    assert german["energy_kwh"]["value"] == pytest.approx(4.0)
    assert german["market_g"]["value"] == pytest.approx(3.0 * 10)
    assert (french["zone"], french["rest_by"]) == ("FR", "grid-average")
    assert french["market_g"]["value"] == pytest.approx(french["location_g"]["value"])
    assert "stand-in" in french["rest_g_per_kwh"]["source"]
    whole = german["market_g"]["value"] + french["market_g"]["value"]
    assert march["market_g"]["value"] == pytest.approx(whole)
    (left,) = april["instruments"]
    assert (left["available_kwh"], left["used_kwh"]) == (pytest.approx(2.0), pytest.approx(2.0))
    (german,) = april["zones"]
    assert (german["rest_kwh"], german["rest_by"]) == (pytest.approx(4.0), "residual-mix")
    assert german["market_g"]["value"] == pytest.approx(2.0 * 10 + 4.0 * 700)
    assert german["market_g"]["low"] < german["market_g"]["value"] < german["market_g"]["high"]
    # More energy in March takes from April what its instrument had.
    measured(service, "late", 1.5, start=DAY + timedelta(days=1))
    (left,) = account(client, "2026-04")["instruments"]
    assert left["used_kwh"] == pytest.approx(0.5)
    months = [account(client, month)["market_g"]["value"] for month in ("2026-03", "2026-04")]
    rows = client.get("/v1/reports/yearly/2026").json["frameworks"]
    (market,) = [row["figure"] for row in rows if row["item"] == "Scope 2, market-based"]
    assert market["value"] == pytest.approx(sum(months) / 1e6)
    numbers = {r["cancellation_id"]: r["id"] for r in ledger(client)}
    assert client.delete(f"/v1/contracts?id={numbers['GO-1']}").status_code == 200
    assert account(client, "2026-04")["instruments"] == []
    gone = client.delete(f"/v1/contracts?id={numbers['GO-1']}")
    assert (gone.status_code, gone.json["code"]) == (404, "unknown-contract")


def ledger(client):
    return client.get("/v1/contracts").json["contracts"]


def test_an_hours_instrument_covers_no_more_than_that_hour_used(light):
    """2 kWh from 08:30 to 10:30: 0.5 before nine, 1 until ten; a contract of a job is its own."""
    client = create_app(service=light).test_client()
    measured(light, "job", 2.0, start=DAY + timedelta(minutes=30), hours=2)
    tags = {"contract_g_per_kwh": "12", "contract_source": "statement"}
    measured(light, "tagged", 3.0, tags=tags)
    add(
        client,
        instrument("2026-03-10T08", 1.0, "H-1"),
        instrument("2026-03-10T09", 0.0004, "H-2", g=20.0),
        instrument("2026-03-10T11", 1.0, "H-3"),
        instrument("2026-03-11T09", 1.0, "H-4"),
        instrument("2026-03", 0.0001, "M-1"),
    )
    found = account(client)
    used = {row["cancellation_id"]: row["used_kwh"] for row in found["instruments"]}
    hours = {"H-1": 0.5, "H-2": 0.4, "H-3": 0.0, "H-4": 0.0, "M-1": 0.1}
    assert used == pytest.approx(hours)
    (zone,) = found["zones"]
    assert (zone["declared_kwh"], zone["rest_kwh"]) == (pytest.approx(3.0), pytest.approx(1.0))
    grid = zone["rest_g_per_kwh"]["value"]
    assert zone["market_g"]["value"] == pytest.approx(3 * 12 + 0.4 * 20 + grid)


def test_a_tag_says_whose_site_it_was_and_frameworks_follow(light):
    client = create_app(service=light).test_client()
    measured(light, "own", 2.0, pue=1.5)
    measured(light, "rented", 1.0, zone=None, region="aws:eu-central-1", pue=1.2)
    answer = client.patch("/v1/jobs/rented", json={"tags": {"boundary": "leased"}})
    assert answer.status_code == 200, answer.json
    document = client.get("/v1/reports/monthly/2026-03").json
    places = {row["boundary"]: row for row in document["by_boundary"]}
    assert sorted(places) == ["leased", "own"]
    assert {row["place"] for row in document["factors"]} == {"own", "leased"}
    assert {row["job_id"]: row["place"] for row in document["jobs"]}["rented"] == "leased"
    rows = {(row["framework"], row["item"]): row for row in document["frameworks"]}
    energy = rows["ESRS E1, Regulation (EU) 2023/2772", "E1-5 energy consumption"]["figure"]
    assert (energy["value"], energy["unit"]) == (pytest.approx((2 * 1.5 + 1.2) / 1000), "MWh")
    ghg = {item: row["figure"] for (name, item), row in rows.items() if name.startswith("GHG")}
    grams = document["scope_2"]["location_g"]
    assert ghg["Scope 2, location-based"]["value"] == pytest.approx(grams["value"] / 1e6)
    assert ghg["Category 8, leased assets"]["unit"] == "tCO2e"
    assert ghg["Category 1, purchased services: clouds"] is None
    assert ghg["Category 3, upstream of electricity"] is None
    assert all(row["lacks"] and row["as_of"] for row in rows.values())
    text = client.get("/v1/reports/monthly/2026-03.csv").text
    assert "framework,ISO 14064-1:2018,Category 2: imported energy," in text
    # The ledger is the organisation's: a project's report says nothing of the market.
    add(client, instrument("2026", 1.0, "GO-1"))
    assert account(client, project="vision")["market_g"] is None
    assert account(client)["market_g"]["value"] == 0.0
    bad = client.patch("/v1/jobs/own", json={"tags": {"boundary": "rented"}})
    said = client.get("/v1/jobs/own/report").json["notices"]
    (notice,) = [row for row in said if "boundary" in row["message"]]
    assert (bad.status_code, notice["code"]) == (200, "argument-ignored")


def test_a_cancellation_counts_once_and_bad_entries_change_nothing(light):
    client = create_app(service=light).test_client()
    add(client, instrument("2026", 1.0, "GO-1"))
    for row, said in (
        (instrument("2026", 2.0, "GO-1"), "counts once"),
        (instrument("2026", 1.0, "GO-1", zone="FR"), "counts once"),
        (instrument("2026", 1.0, "GO-2", zone="Germania"), "Germania"),
        (instrument("2026-02-30T14", 1.0, "GO-2"), "hour"),
        ({**residual("DE", 1.0), "volume_mwh": 1.0}, "leave both empty"),
        ({**instrument("2026", 1.0, "x"), "cancellation_id": None}, "cancellation"),
    ):
        answer = add(client, instrument("2026", 3.0, "GO-9"), row, status=422)
        assert answer["errors"][0]["where"].startswith("body.contracts.1"), answer
        assert said in answer["detail"] + answer["errors"][0]["message"]
    (entry,) = ledger(client)
    assert (entry["cancellation_id"], entry["volume_mwh"]) == ("GO-1", 1.0)
    actions = [row["action"] for row in client.get("/v1/audit").json["entries"]]
    assert actions.count("contracts-added") == 1
    keys = {
        name: create_key(light, name, scope, projects)["key"]
        for name, scope, projects in (
            ("reader", "read", []),
            ("lead", "admin", ["vision"]),
            ("boss", "admin", []),
        )
    }
    status = {
        name: client.get("/v1/contracts", headers={"Authorization": f"Bearer {key}"}).status_code
        for name, key in keys.items()
    }
    assert status == {"reader": 403, "lead": 403, "boss": 200}


FILE = """zone,vintage,volume_mwh,factor_g_per_kwh,issuer,cancellation_id,kind
DE,2026-03,0.001,0,UBA,GO-1,
DE,2025,,650,AIB,,residual-mix
"""


def test_by_command_and_in_a_pack_that_verifies(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CONFIG_HOME", "GRAMWATT_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gos.csv").write_text(FILE)
    assert gramwatt("contract", "list")[1].startswith("no contract; add some")
    assert gramwatt("contract", "import", "gos.csv")[:2] == (0, "2 entries are new, 0 were known\n")
    (tmp_path / "bad.csv").write_text(FILE.replace("0.001", "much").replace("GO-1", "GO-2"))
    code, _, error = gramwatt("contract", "import", "bad.csv")
    assert code == 2
    assert "line 2, volume_mwh: 'much' is no number; nothing was imported" in error
    out = gramwatt("contract", "list")[1].splitlines()
    assert out[0].endswith("DE  2026-03  0.001 MWh  0 g/kWh  UBA  GO-1")
    assert out[1].endswith("DE  2025  residual mix  650 g/kWh  AIB")
    with open_service() as service:
        measured(service, "job", 3.0)
        assert gramwatt("job", "job", "--set", "boundary=leased")[0] == 0
    assert gramwatt("export", "pack", "2026-03", "-o", "m.zip")[0] == 0
    code, out, error = gramwatt("verify", "m.zip")
    assert code == 0, error + out
    assert "stand on the organisation's ledger as stated" in out
    assert gramwatt("contract", "rm", "1")[0] == 0
    assert gramwatt("contract", "rm", "1")[0] == 1
