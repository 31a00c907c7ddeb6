"""M of one hour of a part: by its name, by an instance that holds it, and by a job's journal.

The three are answered over HTTP. They know different things of the host, so they differ, but each
value has to lie in the ranges of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest
from flask.testing import FlaskClient

from gramwatt.sci.catalog.catalog import Hardware, Instance, load_catalog
from gramwatt.service.app import create_app
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.store.migrate import upgrade
from tests.journals import Writer
from tests.service.keyed import KeyedClient

CATALOG = load_catalog()
PARTS = CATALOG.all_hardware()
GIB = 2.0**30
HOSTS = (("some CPU", 8, 32.0), ("some CPU", 32, 128.0), ("EPYC 7763", 128, 512.0))
"""Processor, threads and memory [GiB] as jobs see them, part by part in turn; None is asked of
every part: no host meter ran."""
JOBS = count()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """One app for all questions of this file."""
    home = tmp_path_factory.mktemp("home")
    made = Service.open(ServiceConfig(home=home, database_url=sqlite_url(home / "gramwatt.db")))
    upgrade(made.store)
    app = create_app(service=made)
    app.test_client_class = KeyedClient
    yield app.test_client()
    made.store.close()


class Span(NamedTuple):
    """A figure with its range."""

    value: float
    low: float
    high: float

    def holds(self, other: Span) -> bool:
        return self.low <= other.value <= self.high

    def scaled(self, factor: float) -> Span:
        return Span(*(end * factor for end in self))


def span(figure: dict[str, Any]) -> Span:
    return Span(figure["value"], figure["low"], figure["high"])


def asked(client: FlaskClient, **question: Any) -> Span:
    answer = client.post("/v1/estimates", json={"hours": 1, "zone": "FR", **question})
    assert answer.status_code == 200, answer.json
    return span(answer.json["answers"][0]["embodied_g"])


def by_journal(
    client: FlaskClient, part: Hardware, seen: Any, devices: int = 1, share: float = 1.0
) -> Span:
    """An hour of so many devices of a part, uploaded and scored."""
    job = f"job-{next(JOBS)}"
    meter = Writer(job=job)
    records: list[Any] = [meter.job(zone="FR", pue=1.0)]
    if seen:
        name, threads, memory_gib = seen
        cpu = {"device_class": "cpu", "name": name, "units": float(threads), "kind": "estimated"}
        ram = {"device_class": "ram", "name": "memory", "memory_b": memory_gib * GIB}
        records += [meter.device("n-1-cpu", **cpu), meter.device("n-1-ram", **ram)]
        records += [meter.interval(0, 3600, 36_000, f"n-1-{one}") for one in ("cpu", "ram")]
    about = {"name": part.id, "device_class": part.device_class, "units_total": float(devices)}
    for one in range(devices):
        records.append(meter.device(f"GPU-{one}", share=share, **about))
        records.append(meter.interval(0, 3600, 36_000, f"GPU-{one}"))
    sent = client.send(job, [*records, meter.end(3600)])
    assert sent.json["rejected"] == []
    figure = client.get(f"/v1/jobs/{job}/report").json["embodied_g"]
    return span(figure)


def instances(part: Hardware) -> Iterator[tuple[Instance, int]]:
    for found in CATALOG.all_instances():
        if found.hardware == part.id:
            yield found, found.count or found.count_low or 1


def agree(told: dict[str, Span]) -> None:
    for one, figure in told.items():
        for other, range_of in told.items():
            assert range_of.holds(figure), f"{one} {figure} is outside of {other} {range_of}"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.id)
def test_an_hour_of_a_part_is_one_figure_however_it_is_asked(client, part):
    boards = part.devices_per_board  # the driver lists all devices of a board
    by_part = asked(client, hardware=part.id, count=boards)
    for seen in (None, HOSTS[PARTS.index(part) % len(HOSTS)]):
        agree({"part": by_part, f"job on {seen}": by_journal(client, part, seen, boards)})


@pytest.mark.parametrize(
    "part", [part for part in PARTS if any(instances(part))], ids=lambda part: part.id
)
def test_an_hour_of_an_instance_is_that_of_its_parts(client, part):
    one = asked(client, hardware=part.id)
    for found, devices in instances(part):
        # A pod is many hosts, each with a journal of its own.
        if devices > 16:
            continue
        chosen = {} if found.count else {"count": devices}
        size = (found.cpu or "some CPU", found.vcpu, found.host_memory_gib)
        seen = size if found.vcpu and found.host_memory_gib else None
        agree(
            {
                "part": one.scaled(devices * found.share),
                found.id: asked(client, instance=found.id, **chosen),
                f"job on {found.id}": by_journal(client, part, seen, devices, found.share),
            }
        )


def test_an_hour_of_an_l4_by_hand(client):
    """57.7 kg over 4 years of 8760 h, and its share of a host: 203, 719 / 24, and what is seen.

    g2-standard-96: 96 threads of an unknown CPU are one socket of 25 kg, 384 GiB are 537.6 kg,
    case and assembly 156.7 kg: 719.3 kg; g2-standard-4 has 4 threads and 16 GiB of it. A job on 4
    threads sees a slice of a server: 25 kg, 22.4 kg of memory and a case, 204.1 kg.
    """
    l4 = CATALOG.hardware("nvidia-l4")
    assert asked(client, hardware="L4").value == pytest.approx((57.7 + 203) / 35.04)
    instance = asked(client, instance="gcp:g2-standard-4").value
    assert instance == pytest.approx((57.7 + 719.3 / 24) / 35.04)
    job = by_journal(client, l4, ("some CPU", 4, 16.0))
    assert job.value == pytest.approx((57.7 + 204.1) / 35.04, rel=1e-3)
    whole = by_journal(client, l4, ("some CPU", 96, 384.0), devices=8)
    assert whole.value / 8 == pytest.approx((57.7 + 719.3 / 8) / 35.04)
