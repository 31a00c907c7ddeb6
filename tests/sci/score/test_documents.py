"""Whole documents of varied jobs against plain sums over their intervals, one by one."""

from collections import defaultdict
from datetime import datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.records.merge import merge
from gramwatt.sci.score.score import ScoreContext, score
from tests.journals import H100, T0, FakeGrid, Writer

CATALOG = load_catalog()
PUE = 1.3
DAY = timedelta(days=1)
KINDS = ("measured", "integrated", "estimated")
GRIDS = {
    "DE": FakeGrid(410, 380, 120, 260, 90, first=T0 - timedelta(minutes=17)),
    "FR": FakeGrid(20, 55, 31, step_s=1500, first=T0 - timedelta(minutes=40)),
}
SIZES = {"an hour": (1, 30.0), "a day": (20, 900.0), "three days": (72, 3300.0)}
"""Hours and length of an interval [s]: the chart's steps and the days differ."""


class Zones:
    """A grid of its own for each zone, which answers with more than it is asked for."""

    def points(self, zone, start, end):
        return GRIDS[zone].points(zone, start - timedelta(hours=2), end)


class Job:
    """The records of a varied job, with each interval as (device, class, node, record)."""

    def __init__(self, seed, hours, step_s, zones):
        self.random, self.seconds, self.step_s = Random(seed), hours * 3600, step_s
        self.zones, self.records, self.read = zones, [], []
        self.windows, self.counts = [], []
        for number, zone in enumerate(zones):
            self.add_node(f"n-{number}", zone)

    def add_node(self, node, zone):
        writer = Writer(node, node)
        self.records.append(writer.job(zone=zone, pue=PUE, units=("token",)))
        for name, share in ((f"{node}-a", 1.0), (f"{node}-b", 2 / 7)):
            self.records.append(writer.device(name, **H100, share=share))
            self.add_intervals(writer, name, "gpu", self.step_s, start=-5.5)
        cpu = {"device_class": "cpu", "name": "some processor", "meter": "model"}
        self.records.append(writer.device(f"{node}-cpu", **cpu, units=32.0))
        self.add_intervals(writer, f"{node}-cpu", "cpu", 7.3 * self.step_s, start=0)
        for n in range(5):
            since, until = sorted(self.random.uniform(0, self.seconds) for _ in range(2))
            window = {"since": writer.at(since), "phase": f"{node}-{n}"}
            self.counts.append(writer.count(10.0 + n, "token", seconds=until))
            self.windows.append(writer.count(n + 1, "token", seconds=until + 1, **window))
            self.records += [self.counts[-1], self.windows[-1]]
        self.records.append(writer.end(self.seconds))

    def add_intervals(self, writer, name, device_class, step_s, start):
        moment = start
        while moment < self.seconds:
            length = min(step_s * self.random.choice((1, 1, 0.37)), self.seconds - moment)
            energy_j = self.random.choice((0.0, 1e5, 1e6)) * self.random.random()
            kind = self.random.choice(KINDS)
            record = writer.interval(moment, moment + length, energy_j, name, kind=kind)
            self.records.append(record)
            self.read.append((name, device_class, writer.who["node"], record))
            moment += length
            if device_class == "gpu" and self.random.random() < 0.05:
                moment += step_s  # nothing was read for a while

    def spans(self):
        """Every count with the time of its writer's one before, or the start."""
        for number, _ in enumerate(self.zones):
            since = T0
            for count in sorted(self.counts, key=lambda count: count.at):
                if count.node == f"n-{number}":
                    yield since, count
                    since = count.at

    def document(self):
        self.random.shuffle(self.records)
        return score(merge(self.records), ScoreContext(CATALOG, Zones()))

    def grams(self, interval, node):
        """E x I of one interval [gCO2e], shared by time among the points of its node's zone."""
        points = GRIDS[self.zones[int(node.removeprefix("n-"))]]
        return sum(
            share(interval, p.start, p.end) * interval.energy_j / 3.6e6 * p.intensity.value
            for p in points.points("x", interval.start, interval.end)
        )

    def energy_j(self, start, end, wanted=lambda device, device_class: True):
        """Energy over [start, end) of the devices that are wanted [J]."""
        return sum(
            share(interval, start, end) * interval.energy_j
            for device, device_class, _, interval in self.read
            if wanted(device, device_class)
        )


def share(interval, start, end):
    """The fraction of an interval that lies in [start, end)."""
    inside = min(interval.end, end) - max(interval.start, start)
    return max(0.0, inside / (interval.end - interval.start))


def cut(interval, start, end, part):
    """The part of an interval in [start, end)."""
    start, end = max(interval.start, start), min(interval.end, end)
    return replace(interval, start=start, end=end, energy_j=interval.energy_j * part)


def by_hand(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.fixture(
    scope="module",
    params=[
        (seed, size, zones)
        for seed, size in enumerate(SIZES)
        for zones in (("DE",), ("DE", "DE"), ("DE", "FR"))
    ],
    ids=lambda given: f"{given[1]} in {'+'.join(given[2])}",
)
def made(request):
    seed, size, zones = request.param
    job = Job(seed, *SIZES[size], zones)
    return job, job.document()


def test_every_term_is_the_sum_over_intervals(made):
    job, doc = made
    kinds = defaultdict(lambda: defaultdict(float))
    for device, _, _, interval in job.read:
        kinds[device][interval.kind] += interval.energy_j
    rows = {row.device_id: row for row in doc.devices if row.device_class != "host"}
    assert {name: row.kinds for name, row in rows.items()} == {
        name: by_hand(dict(own)) for name, own in kinds.items()
    }
    for name, own in kinds.items():
        assert rows[name].energy_j.value == by_hand(sum(own.values()))
    energy_j = sum(interval.energy_j for _, _, _, interval in job.read)
    grams = sum(job.grams(interval, node) for _, _, node, interval in job.read)
    embodied_g = sum(
        term.te_g.value
        * (job.seconds / (term.lifetime_years * 8760 * 3600))
        * (term.resources_reserved / term.resources_total)
        for term in doc.embodied_terms
    )
    assert len(doc.embodied_terms) == 3 * len(job.zones)
    assert doc.energy_kwh.value == by_hand(energy_j / 3.6e6)
    assert doc.operational_g.value == by_hand(grams * PUE)
    assert doc.embodied_g.value == by_hand(embodied_g)
    assert doc.total_g.value == by_hand(grams * PUE + embodied_g)
    assert doc.method.intensity_g_per_kwh.value == by_hand(grams / energy_j * 3.6e6)
    (row,) = doc.sci
    assert row.count == by_hand(sum(count.amount for count in job.counts))
    assert row.g_per_unit.value == by_hand((grams * PUE + embodied_g) / row.count)


def test_a_day_has_what_lies_in_it_of_intervals_and_counts(made):
    job, doc = made
    for row in doc.days:
        day = datetime.fromisoformat(f"{row.day}T00:00Z")
        parts = [(node, i, share(i, day, day + DAY)) for _, _, node, i in job.read]
        energy_kwh = sum(part * i.energy_j for _, i, part in parts) / 3.6e6
        assert row.energy_kwh.value == by_hand(energy_kwh)
        grams = sum(
            job.grams(cut(i, day, day + DAY, part), node) for node, i, part in parts if part
        )
        assert row.operational_g.value == by_hand(grams * PUE)
        tokens = sum(
            count.amount
            * max(0.0, (min(count.at, day + DAY) - max(since, day)) / (count.at - since))
            for since, count in job.spans()
        )
        assert row.counts == ({"token": by_hand(tokens)} if tokens else {})
    for term in ("energy_kwh", "operational_g", "embodied_g"):
        assert sum(getattr(row, term).value for row in doc.days) == by_hand(
            getattr(doc, term).value
        )
    tokens = sum(row.counts.get("token", 0.0) for row in doc.days)
    assert tokens == by_hand(doc.sci[0].count)


def test_the_charts_points_share_intervals_by_time(made):
    job, doc = made
    for row in doc.series:
        start, end = (datetime.fromisoformat(getattr(row, name)) for name in ("start", "end"))
        wanted = row.device_class
        energy_j = job.energy_j(start, end, lambda _, of_class, wanted=wanted: of_class == wanted)
        assert row.energy_j == by_hand(energy_j)
        mean = sum(
            p.intensity.value * max(0.0, (min(end, p.end) - max(start, p.start)) / (end - start))
            for p in GRIDS["DE"].points("DE", start, end)
        )
        alone = by_hand(mean) if set(job.zones) == {"DE"} else None
        assert row.intensity_g_per_kwh == alone
    energy_j = sum(interval.energy_j for _, _, _, interval in job.read)
    assert sum(row.energy_j for row in doc.series) == by_hand(energy_j)


def test_steps_give_each_devices_energy_and_intensity(made):
    job, doc = made
    edges = [datetime.fromisoformat(edge) for edge in doc.steps.edges]
    for device in doc.steps.devices:
        name = device.device_id
        for n, (start, end) in enumerate(zip(edges, edges[1:], strict=False)):
            energy_j = job.energy_j(start, end, lambda own, _, name=name: own == name)
            assert device.energy_j[n] == by_hand(energy_j)
    kwh_grams = sum(
        joules / 3.6e6 * intensity
        for device in doc.steps.devices
        for joules, intensity in zip(device.energy_j, device.intensity_g_per_kwh, strict=True)
    )
    assert kwh_grams * PUE == by_hand(doc.operational_g.value)


def test_windows_share_intervals_by_time(made):
    job, doc = made
    rows = {row.name: row for row in doc.windows}
    assert len(rows) == len(job.windows)
    for line in job.windows:
        found = rows[line.phase].energy_j
        parts = [
            any(share(i, line.since, line.at) > 0 for own, _, _, i in job.read if own == name)
            for name in {name for name, _, _, _ in job.read}
        ]
        if all(parts):
            assert found.value == by_hand(job.energy_j(line.since, line.at))
        else:
            assert found is None


def test_one_unread_device_leaves_the_energy_unknown():
    job = Job(1, *SIZES["an hour"], ("DE",))
    before = job.document()
    writer = Writer("extra", "n-0")
    job.records += [writer.job(zone="DE", pue=PUE), writer.device("n-0-c", **H100), writer.end(60)]
    doc = job.document()
    unknown = ("energy_kwh", "operational_g", "total_g")
    assert [getattr(doc, name) for name in unknown] == [None] * 3
    assert [row.energy_kwh for row in doc.days] == [None] * len(doc.days)
    assert {row.energy_j for row in doc.windows} <= {None}
    assert doc.series == before.series
