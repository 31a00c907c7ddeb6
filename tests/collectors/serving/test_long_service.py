"""A service of days on a virtual clock: its server and its meter are killed again and again.

`scripts/check --clusters` runs thirty of them.
"""

from __future__ import annotations

import os
from random import Random
from typing import NamedTuple

import pytest

from gramwatt.collectors.meter import job_meter
from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.figures.document import JobDoc, ServiceRowDoc
from gramwatt.sci.figures.quantity import Quantity
from tests.collectors.rig import Rig, gpu
from tests.collectors.serving.scripted import (
    PERIOD_S,
    PREFILL_SHARE,
    PROMPT_PER_S,
    WORKS_S,
    ScriptedServer,
)
from tests.collectors.virtual_clock import VirtualClock
from tests.documents import scored

MONTH = "GRAMWATT_CLUSTERS" in os.environ
DAY_S = 86_400
DAYS, EARLY_DAYS, DEATHS, KILLS = (30, 11, 12, 8) if MONTH else (4, 2, 3, 2)
MIDNIGHT_S = 1_700_006_400.0
STEP_S, SAVED_S = 1_200, 3_600
IDLE_W, WORK_W = 100.0, 500.0
TOKENS_PER_S = 40.0
SERVERS = {"addresses": ["http://127.0.0.1:1/metrics=llamacpp"], "metrics": []}
WAVE = {
    "type": "square",
    "low_w": IDLE_W,
    "high_w": WORK_W,
    "period_s": PERIOD_S,
    "duty": WORKS_S / PERIOD_S,
    "phase_s": -1_000.0,  # the virtual machine is 1 000 s old when the job begins
}


class Served(NamedTuple):
    rig: Rig
    server: ScriptedServer
    deaths: int
    early: JobDoc
    final: JobDoc


def document(rig: Rig) -> JobDoc:
    return scored(rig.records())


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            job_meter, "OPEN_EVERY_NS", 3_600 * NS_PER_S
        )  # a kill takes more than it would
        yield serve(
            Rig(tmp_path_factory.mktemp("service"), gpu(WAVE), clock=VirtualClock(MIDNIGHT_S))
        )


def serve(rig: Rig) -> Served:
    draw = Random(28)
    deaths = sorted(draw.uniform(1_000, DAYS * DAY_S) for _ in range(DEATHS))
    # Killed in the hour of the server's death, a meter would also take what it had not saved.
    dead = {int(death // SAVED_S) for death in deaths}
    steps = [n for n in range(20, DAYS * DAY_S // STEP_S) if n * STEP_S // SAVED_S not in dead]
    kills = set(draw.sample(steps, KILLS))
    server = ScriptedServer(rig.clock, deaths, down_s=40.0)
    rig.polls = lambda _servers: server
    rig.clients[100] = 1
    meter = start(rig)
    early: JobDoc | None = None
    for step in range(1, DAYS * DAY_S // STEP_S + 1):
        rig.clock.sleep(STEP_S)  # one reading in 20 minutes stands in for one a second
        if step in kills:
            rig.kill(meter)
            server.skip()
            meter = start(rig)
        meter.due_ns()  # as the loop asks before each tick
        meter.tick()
        if step == EARLY_DAYS * DAY_S // STEP_S + 30:
            early = document(rig)
    rig.stop(meter)
    assert early is not None
    return Served(rig, server, len(deaths), early, document(rig))


def start(rig: Rig) -> JobMeter:
    config = {"zone": "FR", "tags": {"serving": "llamacpp"}, "kind": "inference"}
    return rig.start(servers=SERVERS, config=config)


def rows(document: JobDoc) -> list[ServiceRowDoc]:
    assert document.service is not None
    return document.service.days


def known(figure: Quantity | None) -> float:
    assert figure is not None
    return figure.value


def parts(row: ServiceRowDoc) -> dict[str, float]:
    return {part.part: known(part.energy_j) for part in row.parts}


def test_no_token_is_counted_twice_and_lost_is_what_a_death_takes(served):
    counts = {row.unit: row.count for row in served.final.sci}
    done = TOKENS_PER_S * served.server.work_s(DAYS * DAY_S)
    lost = done - counts["token"]
    # Each death of the server takes what it did since its last reading, 100 s before at most here.
    assert 0 <= lost <= served.deaths * 100 * TOKENS_PER_S
    assert lost < 1e-3 * done
    assert sum(row.counts["token"] for row in rows(served.final)) == pytest.approx(
        counts["token"], rel=1e-9
    )
    said = [n.message for n in served.final.notices if n.code == "server-counts"]
    assert len(said) == 2  # each once, though the meter that said it was killed
    assert "was running before" in said[1]  # its first reading is 100 s after the job's begin here
    assert "restarted its counters" in said[0]


def test_no_joule_is_lost_and_the_parts_add_up_to_the_devices_energy(served):
    total = served.final.service
    assert total is not None
    truth_j = served.rig.truth_j(1_000 * NS_PER_S, (1_000 + DAYS * DAY_S) * NS_PER_S)
    own = [d for d in served.final.devices if d.device_class == "gpu"]
    assert sum(known(d.energy_j) for d in own) == pytest.approx(truth_j, rel=1e-3)
    whole_j = known(served.final.energy_kwh) * 3.6e6
    for row in [total.total, *total.days, *total.hours]:
        assert sum(parts(row).values()) == pytest.approx(known(row.energy_j), rel=1e-3)
        carbon = sum(known(part.total_g) for part in row.parts)
        assert carbon == pytest.approx(known(row.total_g), rel=1e-3)
    assert known(total.total.energy_j) == pytest.approx(whole_j, rel=1e-6)
    assert sum(known(row.energy_j) for row in total.days) == pytest.approx(whole_j, rel=1e-6)


def test_parts_are_those_of_the_script_and_within_their_ranges(served):
    total = served.final.service
    assert total is not None
    found = {part.part: part for part in total.total.parts}
    work_s = DAYS * 24 * WORKS_S
    host_w = (known(total.total.energy_j) - _gpu_j(served)) / (DAYS * DAY_S)
    work_j = work_s * (WORK_W + host_w)
    assert parts(total.total)["prefill"] == pytest.approx(PREFILL_SHARE * work_j, rel=0.01)
    assert parts(total.total)["decode"] == pytest.approx((1 - PREFILL_SHARE) * work_j, rel=0.01)
    idle_j = (DAYS * DAY_S - work_s) * (IDLE_W + host_w)
    assert parts(total.total)["idle"] == pytest.approx(idle_j, rel=0.01)
    kinds = {name: part.energy_j.kind for name, part in found.items() if part.energy_j}
    assert kinds == dict.fromkeys(["prefill", "decode", "idle"], "estimated")
    for part in found.values():
        figure = part.energy_j
        assert figure is not None
        assert figure.low < figure.value < figure.high
    per_token = found["prefill"].energy_j_per_token
    tokens = found["prefill"].tokens
    assert tokens == pytest.approx(PROMPT_PER_S * served.server.work_s(DAYS * DAY_S), rel=2e-3)
    assert known(per_token) == pytest.approx(known(found["prefill"].energy_j) / tokens, rel=1e-3)


def _gpu_j(served: Served) -> float:
    own = [d for d in served.final.devices if d.device_class == "gpu"]
    return sum(known(d.energy_j) for d in own)


def test_a_day_that_is_over_stays_as_it_was_while_the_service_runs(served):
    before, after = rows(served.early), rows(served.final)
    assert served.early.state == "running"
    assert [row.closed for row in before] == [True] * EARLY_DAYS + [False]
    assert len(after) == DAYS
    for early, final in zip(before[:EARLY_DAYS], after, strict=False):
        assert early.day == final.day
        assert early.counts == pytest.approx(final.counts, rel=1e-9)
        assert early.known_s == pytest.approx(final.known_s, rel=1e-9)
        assert known(early.energy_j) == pytest.approx(known(final.energy_j), rel=1e-9)
        assert known(early.total_g) == pytest.approx(known(final.total_g), rel=1e-9)
        assert parts(early) == pytest.approx(parts(final), rel=1e-9)
    months = [day.day[:7] for day in served.final.days]
    assert months.count("2023-11") == min(DAYS, 16)


def test_the_journal_of_a_service_stays_small(served):
    per_day = served.rig.folder().size_b() / DAYS
    assert per_day < 82_000 * 3 + 6 * 288 * 220  # devices, and a line of each unit every 5 minutes
