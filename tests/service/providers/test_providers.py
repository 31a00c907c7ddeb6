"""Every provider behind one interface: values, gaps, errors, and nothing else than asked for."""

import json
import math
import threading
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.config import Account
from gramwatt.service.providers import http
from gramwatt.service.providers.base import AnswerError, ProviderError
from gramwatt.service.providers.uk import UkCarbonIntensity
from tests.service.providers.local import (
    GERMANY,
    HOUR,
    STEPS_S,
    T0,
    ZONES,
    Local,
    gas_share,
    provider,
    shaped,
)

NAMES = sorted(ZONES)
VALUES = [120.0, 130.0, 300.0]


@pytest.fixture
def local():
    server = Local()
    yield server
    server.close()


def serve(local, body, status=200, headers=None):
    """Answer everything with this body."""
    local.answer = lambda path, query, _headers: (status, headers or {}, body)


def ask(local, name, hours=2):
    """The provider's best kind for its zone."""
    asked = provider(local.url, name)
    kind = asked.kinds(ZONES[name])[0]
    return asked.history(ZONES[name], kind, T0, T0 + timedelta(hours=hours))


def shown(values):
    """Value and quality by start, of all steps that are known."""
    step = timedelta(seconds=values.step_s)
    return {
        values.start + number * step: (round(value, 6), quality)
        for quality, listed in values.by_quality.items()
        for number, value in enumerate(listed)
        if not math.isnan(value)
    }


@pytest.mark.parametrize("name", NAMES)
def test_values_of_the_span_in_their_steps(local, name):
    serve(local, shaped(name, VALUES))
    step = timedelta(seconds=STEPS_S.get(name, 3600))
    found = ask(local, name, hours=3 * step / HOUR)
    assert shown(found) == {T0 + n * step: (value, "measured") for n, value in enumerate(VALUES)}
    assert found.step_s == step.total_seconds()


@pytest.mark.parametrize("name", NAMES)
def test_it_publishes_nothing_for_a_zone_that_is_not_its_own(local, name):
    kinds = provider(local.url, name).kinds("NZ-NZA" if name != "electricity-maps" else "DE")
    assert len(kinds) == (1 if name == "electricity-maps" else 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_value_is_a_gap_and_not_zero(local, name):
    step = timedelta(seconds=STEPS_S.get(name, 3600))
    serve(local, shaped(name, [120.0, None, 300.0]))
    found = shown(ask(local, name, hours=3 * step / HOUR))
    assert sorted(found) == [T0, T0 + 2 * step]


@pytest.mark.parametrize("name", NAMES)
def test_what_lies_outside_of_the_span_is_left_out(local, name):
    step = timedelta(seconds=STEPS_S.get(name, 3600))
    serve(local, shaped(name, [100.0, 110.0, 120.0, 130.0], start=T0 - 2 * step))
    assert sorted(shown(ask(local, name, hours=1.9 * step / HOUR))) == [T0]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("electricity-maps", "FR"),
        ("entsoe", "10YFR-RTE------C"),
        ("eia", "PJM"),
        ("energinet", "DK2"),
    ],
)
def test_an_answer_about_another_zone_is_refused(local, name, other):
    serve(local, shaped(name, VALUES, zone=other))
    with pytest.raises(AnswerError, match="the answer is about"):
        ask(local, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_refusal_is_an_error_that_names_no_key(local, name):
    for status in [401, 403, 404, 429, 500, 503]:
        http.Http._hosts.clear()  # it rests after failures
        serve(local, b"no", status)
        with pytest.raises(ProviderError) as error:
            ask(local, name)
        assert str(status) in str(error.value)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_in_another_shape_is_an_error(local, name):
    for body in [
        b"",
        b"[1",
        b"null",
        b'{"data": 7}',
        b"\xff\xfe",
        b"<html></html>",
        b"[" * 100_000,
    ]:
        http.Http._hosts.clear()  # it rests after failures
        serve(local, body)
        with pytest.raises(ProviderError) as error:
            ask(local, name)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_that_breaks_off_is_an_error(local, name):
    whole = shaped(name, VALUES)
    serve(local, whole[: len(whole) // 2], headers={"Content-Length": str(len(whole))})
    with pytest.raises(ProviderError):
        ask(local, name)


@pytest.mark.parametrize("name", ["electricity-maps", "energinet"])
def test_a_value_that_no_grid_has_is_refused(local, name):
    for value in [-1, 5001, "many", True, float("nan")]:
        body = shaped(name, [120.0, 777.25, 300.0]).decode()
        wrong = {float: "NaN", bool: "true", str: '"many"'}.get(type(value), str(value))
        assert "777.25" in body
        http.Http._hosts.clear()  # it rests after failures
        serve(local, body.replace("777.25", wrong).encode())
        with pytest.raises(AnswerError):
            ask(local, name)


@pytest.mark.parametrize("name", NAMES)
def test_the_day_on_which_clocks_change_has_every_hour_once(local, name):
    """The night of 25 October 2026 in Europe, 1 November in America: an hour comes twice there."""
    start = datetime(2026, 11, 1, 0, tzinfo=UTC) if name == "eia" else None
    start = start or datetime(2026, 10, 25, 0, tzinfo=UTC)
    step_s = STEPS_S.get(name, 3600)
    count = 86_400 // step_s
    values = [100.0 + number % 50 for number in range(count)]
    serve(local, shaped(name, values, start=start))
    asked = provider(local.url, name)
    kind = asked.kinds(ZONES[name])[0]
    found = shown(asked.history(ZONES[name], kind, start, start + timedelta(days=1)))
    assert [value for _, (value, _) in sorted(found.items())] == values


def test_of_two_values_for_one_hour_the_later_counts(local):
    rows = [json.loads(shaped("energinet", [value]))["records"][0] for value in (120.0, 99.0)]
    serve(local, json.dumps({"records": rows}).encode())
    assert shown(ask(local, "energinet", 2))[T0] == (99.0, "measured")


# What each asks with


def test_keys_go_where_the_provider_wants_them(local):
    sent = {}
    for name in NAMES:
        local.asked.clear()
        serve(local, shaped(name, VALUES))
        ask(local, name, 2)
        sent[name] = local.asked[-1]
    assert sent["electricity-maps"][2]["auth-token"] == "secret-key"
    assert sent["electricity-maps"][1]["shouldUseFallbackCallerLookup"] == "false"
    assert sent["entsoe"][1]["securityToken"] == "secret-key"
    assert sent["entsoe"][1]["periodStart"] == "202601051000"
    assert sent["entsoe"][1]["periodEnd"] == "202601051200"
    assert sent["eia"][1]["api_key"] == "secret-key"
    assert sent["uk"][0] == "/generation/2026-01-05T10:00Z/2026-01-05T12:00Z"
    assert sent["energinet"][1]["filter"] == '{"PriceArea": ["DK1"]}'


# Great Britain


def test_uk_direct_and_lifecycle_are_kept_apart(local):
    asked = UkCarbonIntensity(Account(local.url))
    derived, published = asked.kinds("GB")
    row = {"from": "2026-01-05T10:00Z", "to": "2026-01-05T10:30Z"}
    actual = [168, None]
    data = [
        {**row, "from": f"2026-01-05T10:{n}0Z", "intensity": {"forecast": 171, "actual": value}}
        for n, value in zip((0, 3), actual, strict=True)
    ]
    serve(local, json.dumps({"data": data}).encode())
    assert (published.basis, published.scope) == ("direct", "consumption")
    assert shown(asked.history("GB", published, T0, T0 + HOUR)) == {T0: (168.0, "measured")}
    ahead = asked.forecast("GB", published, T0)
    assert shown(ahead)[T0] == (171.0, "forecast")
    assert asked.forecast("GB", derived, T0) is None
    # 40 % gas, 30 % wind, 30 % imports: (0.4 x 490 + 0.3 x 11) / 0.7, with much of it imported.
    mix = [
        {"fuel": "gas", "perc": 40},
        {"fuel": "wind", "perc": 30},
        {"fuel": "imports", "perc": 30},
    ]
    serve(local, json.dumps({"data": [{**row, "generationmix": mix}]}).encode())
    by_hand = (0.4 * 490 + 0.3 * 11) / 0.7
    assert shown(asked.history("GB", derived, T0, T0 + HOUR)) == {
        T0: (pytest.approx(by_hand, abs=1e-6), "estimated")
    }


# Electricity Maps


def test_electricity_maps_marks_what_it_estimated(local):
    serve(local, shaped("electricity-maps", VALUES, estimated=(1,)))
    qualities = [
        quality
        for _, quality in dict(sorted(shown(ask(local, "electricity-maps", 3)).items())).values()
    ]
    assert qualities == ["measured", "estimated", "measured"]


def test_electricity_maps_forecasts_the_coming_hours(local):
    serve(local, shaped("electricity-maps", VALUES, field="forecast"))
    asked = provider(local.url, "electricity-maps")
    found = asked.forecast("DE", asked.kinds("DE")[0], T0)
    assert shown(found)[T0] == (120.0, "forecast")


# ENTSO-E


def entsoe(local, series, hours=2, **more):
    serve(
        local,
        shaped(
            "entsoe",
            [1.0] * (hours if "resolution" not in more else 4 * hours),
            series=series,
            **more,
        ),
    )
    return shown(ask(local, "entsoe", hours))


def test_entsoe_factors_by_hand(local):
    found = entsoe(
        local,
        [
            ("B05", [100, 0]),  # hard coal 820
            ("B04", [200, 100]),  # gas 490
            ("B14", [300, 300]),  # nuclear 12
            ("B19", [400, 600]),  # wind 11
            ("B10", [50, 900]),  # pumped storage gives back what others made
            ("B10", [70, 70], "out"),  # and takes it up
        ],
    )
    first = (100 * 820 + 200 * 490 + 300 * 12 + 400 * 11) / 1000
    second = (100 * 490 + 300 * 12 + 600 * 11) / 1000
    assert found == {
        T0: (pytest.approx(first), "measured"),
        T0 + HOUR: (pytest.approx(second), "measured"),
    }


def test_entsoe_a_position_left_out_repeats_the_one_before(local):
    found = entsoe(
        local,
        [("B04", [500, None, None, 300]), ("B19", [500, 500, None, None])],
        hours=1,
        resolution="PT15M",
        curve="A03",
    )
    shares = [500 / 1000, 500 / 1000, 500 / 1000, 300 / 800]
    expected = [490 * share + 11 * (1 - share) for share in shares]
    assert [value for _, (value, _) in sorted(found.items())] == pytest.approx(expected)


def test_entsoe_an_hour_without_one_of_the_zones_fuels_is_left_out(local):
    """Wind is published first: taken alone it would make the hour look clean."""
    body = shaped("entsoe", [1.0, 1.0], series=[("B19", [500, 500])]).decode()
    gas = shaped("entsoe", [1.0], series=[("B04", [500])]).decode()
    start = gas.index("<TimeSeries>")
    one = gas[start : gas.index("</GL_MarketDocument>")]
    serve(local, body.replace("</GL_MarketDocument>", one + "</GL_MarketDocument>").encode())
    assert list(shown(ask(local, "entsoe", 2))) == [T0]


def test_entsoe_no_data_is_no_error_and_a_refused_question_is(local):
    name = b"Acknowledgement_MarketDocument"
    said = b"<" + name + b"><Reason><text>%s</text></Reason></" + name + b">"
    for status in (200, 400):
        serve(local, said % b"No matching data found for Data item", status)
        assert shown(ask(local, "entsoe")) == {}
    serve(local, said % b"Query parameter is wrong")
    with pytest.raises(AnswerError):
        ask(local, "entsoe")


def test_entsoe_entities_are_not_expanded(local):
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><GL_MarketDocument>&a;</GL_MarketDocument>'
    serve(local, bomb)
    with pytest.raises(AnswerError, match="entities"):
        ask(local, "entsoe")


def test_entsoe_an_unknown_fuel_is_refused(local):
    with pytest.raises(ProviderError):
        entsoe(local, [("B99", [1, 1])])
    assert GERMANY in local.asked[-1][1]["in_Domain"]


# EIA-930


def test_eia_rows_that_were_not_sent_are_not_taken_for_none(local):
    serve(local, shaped("eia", VALUES).replace(b'"total": "6"', b'"total": "6000"'))
    with pytest.raises(AnswerError, match="6000 rows"):
        ask(local, "eia")


# The client they share


def test_redirects_to_other_hosts_are_refused_and_those_of_the_host_followed(local):
    other = Local()
    serve(other, shaped("uk", VALUES))

    def answer(path, query, headers):
        if path.startswith("/moved"):
            return 200, {}, shaped("uk", VALUES)
        return 302, {"Location": where[0]}, b""

    local.answer, where = answer, [f"{other.url}/generation"]
    with pytest.raises(ProviderError, match="which is not asked"):
        ask(local, "uk")
    assert other.asked == []
    where[0] = "/moved/here"
    assert len(shown(ask(local, "uk"))) == 3
    where[0] = "/generation/again"
    with pytest.raises(ProviderError, match="from one address to the next"):
        ask(local, "uk")
    other.close()


def test_an_answer_without_end_is_cut_short(local, monkeypatch):
    monkeypatch.setattr(http, "LARGEST_B", 100_000)
    serve(local, b" " * 200_000)
    with pytest.raises(ProviderError, match="more than 100000 bytes"):
        ask(local, "uk")


def test_a_packed_answer_is_bounded_as_unpacked(local, monkeypatch):
    import gzip

    monkeypatch.setattr(http, "LARGEST_B", 100_000)
    serve(local, gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"})
    with pytest.raises(ProviderError, match="more than 100000 bytes"):
        ask(local, "uk")


def test_a_slow_answer_is_given_up(local, monkeypatch):
    monkeypatch.setattr(http, "READ_S", 0.2)
    given_up = threading.Event()
    local.answer = lambda *_: (given_up.wait(9), (200, {}, b"{}"))[1]
    with pytest.raises(ProviderError, match="cannot be asked"):
        ask(local, "uk")
    given_up.set()


def test_a_host_that_fails_is_left_alone_and_asked_again_later(local):
    now = [1000.0]
    asked = http.Http(local.url, clock=lambda: now[0])
    serve(local, b"", 500)
    for _ in range(http.FAILURES + 2):
        with pytest.raises(ProviderError):
            asked.ask("x", bytes)
    assert len(local.asked) == http.FAILURES
    now[0] += http.REST_S + 1
    serve(local, b"fine")
    assert asked.ask("x", bytes) == b"fine"
    assert asked.ask("x", bytes) == b"fine"
    assert len(local.asked) == http.FAILURES + 2


@pytest.mark.parametrize(
    ("header", "wait_s"), [("120", 120), ("999999999", 86_400), ("soon", 300), (None, 300)]
)
def test_retry_after_is_kept(local, header, wait_s):
    now = [1000.0]
    asked = http.Http(local.url, clock=lambda: now[0])
    serve(local, b"", 429, {"Retry-After": header} if header else None)
    with pytest.raises(ProviderError, match="429"):
        asked.ask("x", bytes)
    serve(local, b"fine")
    now[0] += wait_s - 1
    with pytest.raises(ProviderError, match="backing off"):
        asked.ask("x", bytes)
    now[0] += 2
    assert asked.ask("x", bytes) == b"fine"
    assert len(local.asked) == 2


def test_retry_after_may_be_a_date():
    from email.utils import format_datetime

    date = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    assert http.later_s(date, 0) == pytest.approx(600, abs=60)  # a busy machine reads it late


def test_a_refused_key_is_not_tried_again_for_an_hour(local):
    now = [1000.0]
    asked = http.Http(local.url, clock=lambda: now[0])
    serve(local, b"", 401)
    with pytest.raises(ProviderError, match="the key is refused"):
        asked.ask("x", bytes)
    now[0] += 3599
    with pytest.raises(ProviderError, match="backing off"):
        asked.ask("x", bytes)
    assert len(local.asked) == 1
    serve(local, b"fine")
    assert asked.ask("y", bytes) == b"fine"  # another path, which the plan may allow


def test_nothing_is_asked_without_https_except_this_machine():
    with pytest.raises(ProviderError, match="https"):
        http.Http("http://api.example.org")
    http.Http("https://api.example.org")


def test_the_share_of_gas_that_the_shapes_use():
    assert 490 * gas_share(250.5) + 11 * (1 - gas_share(250.5)) == pytest.approx(250.5)
