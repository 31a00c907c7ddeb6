"""The market-based memo of a month: energy of a zone at a factor of the settings, in no score."""

import re

import msgspec
import pytest

from gramwatt.sci.month.documents import MarketFactor
from gramwatt.service.app import create_app
from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import keep_month, month_report
from gramwatt.service.status import value_text
from tests.blocks import plain
from tests.journals import START, Writer, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, with_settings

KWH = 600 * 3 / 60 / 1000
"""A job of 3 minutes at 600 W."""
SOURCE = "statement of the supplier for 2026"


def with_factors(service, **factors):
    stated = {zone: MarketFactor(g_per_kwh, SOURCE) for zone, g_per_kwh in factors.items()}
    return with_settings(service, reports={"market_factors": stated})


def test_the_energy_of_a_zone_times_its_factor(light):
    for name, zone, pue in (("a", "DE", 1.5), ("b", "DE", 1.25), ("c", "FR", 1.0)):
        add(light, name, zone=zone, pue=pue)
    plain_month = month_report(light, "2026-05")
    assert plain_month.market_based == []
    found = month_report(with_factors(light, DE=400.0, SE=10.0), "2026-05")
    [row] = found.market_based
    energy, factor, grams = row.energy_kwh, row.factor_g_per_kwh, row.market_g
    assert (row.zone, energy.unit, grams.unit) == ("DE", "kWh", "gCO2e")
    assert energy.value == pytest.approx(KWH * (1.5 + 1.25), rel=1e-12)
    assert (factor.value, factor.unit, factor.source) == (400.0, "gCO2e/kWh", SOURCE)
    for end in ("value", "low", "high"):
        assert getattr(grams, end) == pytest.approx(400 * getattr(energy, end), rel=1e-9)
    assert energy.low < energy.value < energy.high
    # Nothing else of the month depends on it.
    assert msgspec.structs.replace(found, market_based=[]) == plain_month


def test_the_memo_is_one_line_of_the_report_and_rows_of_the_csv(light):
    add(light, "a", zone="DE", pue=1.5)
    add(light, "b", zone="FR", pue=1.0)
    client = create_app(service=with_factors(light, DE=400.0, FR=0.0)).test_client()
    page = plain(client.get("/v1/reports/monthly/2026-05.html").text)
    [line] = [text.partition("</p>")[0] for text in page.split("<p") if "Memo, in no" in text]
    line = re.sub(r"<[^>]*>", "", line)
    assert page.index("Emission factors") < page.index("Memo, in no")
    # With 5 % either way, as the meter has.
    assert line.endswith(
        "Memo, in no score and no total: market-based, energy with PUE. "
        f"DE 45.0 Wh (42.7 to 47.3) x 400 gCO2e/kWh ({SOURCE}) = 18.0 g CO2e (17.1 to 18.9); "
        f"FR 30.0 Wh (28.5 to 31.5) x 0 gCO2e/kWh ({SOURCE}) = 0 g CO2e."
    )


def test_of_a_job_in_two_zones_each_has_what_was_drawn_there(light):
    records = []
    for node, zone, joules in (("n1", "DE", 3.6e6), ("n2", "FR", 7.2e6)):
        writer = Writer(f"w-{node}", node, "both", t0=START)
        records += [
            writer.job(zone=zone, pue=1.0),
            writer.device(f"GPU-{node}"),
            writer.interval(0, 3600, joules, f"GPU-{node}"),
            writer.end(3600),
        ]
    ingest(light, "both", lines(records))
    found = month_report(with_factors(light, DE=100.0, FR=50.0), "2026-05")
    drawn = {row.zone: row.energy_kwh.value for row in found.market_based}
    assert drawn == pytest.approx({"DE": 1.0, "FR": 2.0}, rel=1e-6)


def test_another_factor_is_no_other_revision_and_a_kept_one_has_that_of_its_time(light):
    add(light, "a", zone="DE")
    keep_month(with_factors(light, DE=400.0), "2026-05")
    now = with_factors(light, DE=200.0)
    keep_month(now, "2026-05")
    newest = month_report(now, "2026-05")
    kept = month_report(now, "2026-05", revision=1)
    assert newest.revision == kept.revision == 1
    stated = [row.market_based[0].factor_g_per_kwh.value for row in (newest, kept)]
    assert stated == [200.0, 400.0]


def test_factors_are_read_of_the_settings():
    text = f"DE=400 {SOURCE}; fr = 0 guarantees of origin, cancelled;"
    found = from_environment({"GRAMWATT_MARKET_FACTORS": text}).reports.market_factors
    assert found == {
        "DE": MarketFactor(400.0, SOURCE),
        "FR": MarketFactor(0.0, "guarantees of origin, cancelled"),
    }
    shown = value_text("GRAMWATT_MARKET_FACTORS", found)
    assert from_environment({"GRAMWATT_MARKET_FACTORS": shown}).reports.market_factors == found


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("DE=400", "write ZONE=G SOURCE"),
        ("=400 us", "write ZONE=G SOURCE"),
        ("DE=green us", "write ZONE=G SOURCE"),
        ("DE=nan us", "write ZONE=G SOURCE"),
        ("DE=-1 us", "write ZONE=G SOURCE"),
        ("DE=5001 us", "write ZONE=G SOURCE"),
        ("DE=1 us; de=2 us", "names DE twice"),
    ],
)
def test_a_factor_that_cannot_be_used_is_refused(text, refusal):
    with pytest.raises(ConfigError, match=refusal):
        from_environment({"GRAMWATT_MARKET_FACTORS": text})


def test_a_factor_of_an_unknown_zone_is_refused(light, tmp_path, monkeypatch):
    config = with_factors(light, XX=1.0).config
    with pytest.raises(ConfigError, match="GRAMWATT_MARKET_FACTORS: .*'XX'"):
        Service.open(config)
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    monkeypatch.setenv("GRAMWATT_MARKET_FACTORS", "XX=1 us")
    code, _, err = gramwatt("jobs")
    assert (code, err.count("\n")) == (2, 1)
    assert "GRAMWATT_MARKET_FACTORS" in err
