from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from gramwatt.sci.figures.document import JobDoc, ServiceRowDoc
from gramwatt.sci.records.records import AnyRecord
from tests.documents import scored
from tests.journals import H100, T0, Writer

BUSY_W, IDLE_W = 600.0, 100.0
STEP_S = 60


def journal(
    minutes: str,
    *,
    prefill_s: float = 2.0,
    decode_s: float = 20.0,
    start: datetime = T0,
    runs: bool = False,
    **more: Any,
) -> Iterator[AnyRecord]:
    """One GPU and a minute for each letter: `w` of work, `i` without requests, `-` not known.

    In a minute of work are 100 prompt tokens, 400 more, 10 requests and 60 s that counters moved.
    """
    meter, server = Writer("c", t0=start), Writer("c.c-servers-count", t0=start)
    yield meter.job(role="command", zone="FR", **more)
    yield meter.device("GPU-1", **H100)
    for number, what in enumerate(minutes):
        start, end = STEP_S * number, STEP_S * (number + 1)
        watts = BUSY_W if what == "w" else IDLE_W
        yield meter.interval(start, end, watts * STEP_S, power_max_w=watts)
        amounts: dict[tuple[str, str | None], float] = {}
        amounts |= {("service.known_s", None): 0.0 if what == "-" else STEP_S}
        if what == "w":
            amounts |= {("token", "prefill"): 100.0, ("token", "decode"): 400.0}
            amounts |= {("request", None): 10.0, ("service.cached_token", None): 50.0}
            amounts |= {("service.busy_s", None): 60.0}
            amounts |= {("service.prefill_s", None): prefill_s}
            amounts |= {("service.decode_s", None): decode_s}
        for (unit, phase), amount in amounts.items():
            if amount:
                yield server.count(amount, unit, end - 0.25, phase=phase)
    if not runs:
        yield meter.end(STEP_S * len(minutes))


def total(document: JobDoc) -> ServiceRowDoc:
    assert document.service is not None
    return document.service.total


def joules(row: ServiceRowDoc) -> dict[str, tuple[float, float, float]]:
    found = {}
    for part in row.parts:
        figure = part.energy_j
        assert figure is not None
        found[part.part] = (figure.value, figure.low, figure.high)
    return found


def test_a_job_without_a_server_is_no_service() -> None:
    meter = Writer()
    records: list[AnyRecord] = [
        meter.job(),
        meter.device(),
        meter.interval(0, 60, 6e3),
        meter.end(60),
    ]
    assert scored(records).service is None


def test_how_a_server_worked_is_no_part_of_r() -> None:
    document = scored(journal("iwwi"))
    counted = {row.unit: row.count for row in document.sci}
    assert counted == {"token": 1_000.0, "request": 20.0}
    assert document.days[0].counts == counted
    row = total(document)
    assert (row.counts, row.cached_tokens, row.known_s) == (counted, 100.0, 240.0)
    per_token = row.energy_j_per_unit["token"]
    assert per_token is not None
    assert per_token.value == pytest.approx(2 * 60 * (BUSY_W + IDLE_W) / 1_000)


def test_busy_time_is_divided_by_the_times_of_requests() -> None:
    found = joules(total(scored(journal("iwwi", prefill_s=12.0, decode_s=108.0))))
    assert found["prefill"][0] == pytest.approx(0.1 * 120 * BUSY_W)
    assert found["decode"][0] == pytest.approx(0.9 * 120 * BUSY_W)
    assert found["idle"][0] == pytest.approx(120 * IDLE_W)
    # 24 s of requests in prefill cannot have had more than 24 s of a device at its highest power,
    # and decode, with 216 s, may have had all of it.
    assert found["prefill"][1] == 0
    assert found["prefill"][2] == pytest.approx(24 * BUSY_W, rel=0.06)
    assert found["decode"][1] == pytest.approx(96 * BUSY_W, rel=0.06)
    assert found["decode"][2] == pytest.approx(120 * BUSY_W, rel=0.06)


def test_few_requests_leave_the_rest_of_their_minutes_idle() -> None:
    row = total(scored(journal("iiww", prefill_s=2.0, decode_s=20.0)))
    found = joules(row)
    idle_at_work_j = (120 - 44) * IDLE_W
    assert found["idle"][0] == pytest.approx(120 * IDLE_W + idle_at_work_j)
    assert found["idle"][1] <= 120 * IDLE_W
    assert found["idle"][2] >= 240 * IDLE_W  # requests that overlap leave more
    assert sum(value for value, _, _ in found.values()) == pytest.approx(120 * (BUSY_W + IDLE_W))
    kinds = {part.part: part.energy_j.kind for part in row.parts if part.energy_j}
    assert kinds == {"prefill": "estimated", "decode": "estimated", "idle": "estimated"}


def test_idle_energy_that_was_seen_alone_is_attributed() -> None:
    row = total(scored(journal("iiiiw", prefill_s=30.0, decode_s=300.0)))
    (idle,) = [part for part in row.parts if part.part == "idle"]
    assert idle.energy_j is not None
    assert (idle.energy_j.kind, idle.energy_j.value) == ("attributed", 24_000.0)


def test_without_times_work_is_not_split() -> None:
    found = joules(total(scored(journal("iw", prefill_s=0.0, decode_s=0.0))))
    assert found.keys() == {"work", "idle"}
    assert found["work"][0] == pytest.approx(60 * BUSY_W)
    assert found["idle"][0] == pytest.approx(60 * IDLE_W)


def test_idle_power_that_was_never_seen_is_at_most_the_mean() -> None:
    found = joules(total(scored(journal("-ww", prefill_s=2.0, decode_s=28.0))))
    whole_j = 60 * IDLE_W + 120 * BUSY_W
    assert found["idle"][0] == pytest.approx(whole_j * (180 - 60) / 180)
    assert found["idle"][1] == 0
    assert found["idle"][2] >= whole_j


def test_hours_and_days_add_up_and_a_count_lies_in_its_own_hour() -> None:
    document = scored(journal("i" * 59 + "w" + "i" * 61))
    service = document.service
    assert service is not None
    assert [row.counts.get("token", 0.0) for row in service.hours] == [500.0, 0.0, 0.0]
    assert [row.start[11:16] for row in service.hours] == ["08:00", "09:00", "10:00"]
    assert [row.day for row in service.days] == ["2026-05-01"]
    whole = sum(row.energy_j.value for row in service.hours if row.energy_j)
    assert document.energy_kwh is not None
    assert whole == pytest.approx(document.energy_kwh.value * 3.6e6)
    for row in service.hours:
        assert row.energy_j is not None
        assert sum(value for value, _, _ in joules(row).values()) == pytest.approx(
            row.energy_j.value
        )
        assert row.closed


def test_time_that_was_wholly_idle_is_as_certain_as_its_meter() -> None:
    row = total(scored(list(journal("iii"))))
    whole = [getattr(row.energy_j, end) for end in ("value", "low", "high")]
    assert joules(row)["idle"] == pytest.approx(whole, rel=1e-9)
