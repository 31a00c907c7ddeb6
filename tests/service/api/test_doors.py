"""The same bounds at each door: what cannot be is refused wherever it comes in, in like words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from flask.testing import FlaskClient

from gramwatt.sci.catalog.overlay import parse_overlay
from gramwatt.sci.estimate.request import parse_estimate_request
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.service.intensity.csv_import import import_csv
from gramwatt.service.intensity.publishers import IntensityFileError
from tests.journals import START, Writer, body

RUN = {"hardware": "nvidia-l4", "hours": 1, "zone": "DE"}
KILOGRAMS = "like kg/kWh: multiply by 1000"
POINTS = {"zone": "DE", "source": "a study"}


def command(field: str, value: Any) -> Callable[..., str]:
    def refusal(**_doors: Any) -> str:
        with pytest.raises(GramwattError) as refused:
            parse_estimate_request({**RUN, field: value})
        return refused.value.message

    return refusal


def estimate(field: str, value: Any) -> Callable[..., str]:
    return lambda client, **_: refused(client.post("/v1/estimates", json={**RUN, field: value}))


def correction(field: str, value: Any) -> Callable[..., str]:
    return lambda client, **_: refused(client.patch("/v1/jobs/job-1", json={field: value}))


def line(**fields: Any) -> Callable[..., str]:
    def refusal(client: FlaskClient, **_: Any) -> str:
        device = {name: fields[name] for name in ("share",) if name in fields}
        job = {name: fields[name] for name in ("pue",) if name in fields}
        meter = Writer(job="job-2", t0=START)
        lines = [meter.job(zone="DE", **job), meter.device("GPU-0", **device)]
        sent = {"data": body(lines), "content_type": "application/x-ndjson"}
        [row] = client.post("/v1/jobs/job-2/records", **sent).json["rejected"]
        return str(row["message"])

    return refusal


def overlay(table: str) -> Callable[..., str]:
    def refusal(**_doors: Any) -> str:
        with pytest.raises(GramwattError) as refused:
            parse_overlay(f'{table}\nsource = "a study"\n')
        return refused.value.message

    return refusal


def points(value: float) -> Callable[..., str]:
    hours = [f"2026-05-01T0{hour}:00:00Z" for hour in range(4)]
    rows = [
        {"start": start, "end": end, "g_per_kwh": value}
        for start, end in zip(hours, hours[1:], strict=False)
    ]
    return lambda client, **_: refused(
        client.post("/v1/intensity", json={**POINTS, "points": rows})
    )


def file(value: float) -> Callable[..., str]:
    def refusal(light: Any, tmp_path: Any, **_: Any) -> str:
        path = tmp_path / "de.csv"
        rows = [f"{datetime(2026, 5, 1, n, tzinfo=UTC):%Y-%m-%dT%H:%MZ},{value}" for n in range(3)]
        path.write_text("\n".join(["start_utc,g_per_kwh", *rows]) + "\n")
        with pytest.raises(IntensityFileError) as refused:
            import_csv(light, path, "DE", "lifecycle", "average")
        return str(refused.value)

    return refusal


def refused(answer: Any) -> str:
    assert answer.status_code == 422, answer.text
    return str(answer.json["detail"])


ZONE = '[zones."MY-GRID"]\nyear = 2025\ng_per_kwh = {}'
DOORS: list[tuple[str, Callable[..., str], str]] = [
    ("intensity in kg: command", command("intensity_g_per_kwh", 0.35), KILOGRAMS),
    ("intensity in kg: API", estimate("intensity_g_per_kwh", 0.35), KILOGRAMS),
    ("intensity in kg: points", points(0.35), KILOGRAMS),
    ("intensity in kg: file", file(0.35), KILOGRAMS),
    ("intensity in kg: overlay", overlay(ZONE.format(0.35)), KILOGRAMS),
    ("intensity in mg: command", command("intensity_g_per_kwh", 350_000), "from 0 to 5000 g"),
    ("intensity in mg: API", estimate("intensity_g_per_kwh", 350_000), "from 0 to 5000 g"),
    ("intensity in mg: points", points(350_000), "from 0 to 5000 g"),
    ("intensity in mg: file", file(350_000), "from 0 to 5000 g"),
    ("intensity in mg: overlay", overlay(ZONE.format(350_000)), "at most 5000 g"),
]
for bad in (0.9, 120):
    DOORS += [
        (f"PUE {bad}: command", command("pue", bad), "a PUE from 1 to 5"),
        (f"PUE {bad}: API", estimate("pue", bad), "a PUE from 1 to 5"),
        (f"PUE {bad}: correction", correction("pue", bad), "a PUE from 1 to 5"),
        (f"PUE {bad}: journal", line(pue=bad), "a PUE from 1 to 5"),
        (f"PUE {bad}: overlay", overlay(f'[pue."lab:x"]\nvalue = {bad}'), "a PUE from 1 to 5"),
    ]
DOORS += [
    ("per cent: command", command("utilisation", 40), "write 40 % as 0.4"),
    ("per cent: API", estimate("utilisation", 40), "write 40 % as 0.4"),
    ("per cent: journal", line(share=40), "write 40 % as 0.4"),
    ("per cent: overlay", overlay('[instances."lab:a"]\nshare = 40'), "from 0.01 to 1"),
    ("energy that is none: API", estimate("energy_kwh", -1), "a number above 0"),
    ("power that is none: command", command("power_w", 0), "a number above 0"),
]


@pytest.mark.parametrize(("refusal", "words"), [d[1:] for d in DOORS], ids=[d[0] for d in DOORS])
def test_each_door_refuses_what_cannot_be(client, light, tmp_path, refusal, words):
    if "correction" in str(refusal):
        sent = {"data": body([Writer(t0=START).job()]), "content_type": "application/x-ndjson"}
        client.post("/v1/jobs/job-1/records", **sent)
    assert words in refusal(client=client, light=light, tmp_path=tmp_path)


def test_what_is_unlikely_is_taken_and_said(client):
    hours = ("2026-05-01T00:00:00Z", "2026-05-01T01:00:00Z", "2026-05-01T02:00:00Z")
    rows = [
        {"start": start, "end": end, "g_per_kwh": 4000}
        for start, end in zip(hours, hours[1:], strict=False)
    ]
    answer = client.post("/v1/intensity", json={**POINTS, "points": rows}).json
    assert [notice["code"] for notice in answer["notices"]] == ["input-implausible"]
    estimated = client.post("/v1/estimates", json={**RUN, "intensity_g_per_kwh": 4000}).json
    notices = estimated["answers"][0]["notices"]
    assert "input-implausible" in [notice["code"] for notice in notices]
