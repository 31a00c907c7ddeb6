"""Jobs of several nodes over HTTP: when they end, how, and what each node adds to the figures."""

import shutil
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.records.records import JobRecord
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.tasks.upkeep import close_silent
from tests.journals import H100, START, Writer
from tests.service.keyed import client_of

CATALOG = load_catalog()
S_PER_YEAR = 8760 * 3600
WATTS = 100.0


class Node(Writer):
    """A writer on a node with one GPU of 100 W, in seconds after START."""

    def __init__(self, node, name=None, **more):
        super().__init__(name or f"w-{node}", node=node, t0=START, **more)
        self.gpu = f"GPU-{node}"

    def opens(self, start=0.0, **about):
        given = {"role": "command", "zone": "FR", "pue": 1.1, "started_at": self.at(start), **about}
        return [self.job(**given), self.device(self.gpu, name=H100["name"], units_total=8.0)]

    def draws(self, seconds, start=0.0, device_id=None, watts=WATTS):
        return [self.interval(start, seconds, watts * (seconds - start), device_id or self.gpu)]

    def lost(self, writer, seconds):
        """The records of a recovery that closes `writer` at `seconds`."""
        return [
            self.job(role="recovery", resumes=writer, started_at=self.t0),
            self.end(seconds, "lost"),
        ]


def whole(node, seconds, state="completed", exit_code=0, **about):
    writer = Node(node)
    return [
        *writer.opens(**about),
        *writer.draws(seconds),
        writer.end(seconds, state, exit_code=exit_code),
    ]


def report(client):
    return client.get("/v1/jobs/job-1/report").json


def texts(document, code):
    return [row["message"] for row in document["notices"] if row["code"] == code]


def ended(document):
    return document["state"], document["exit_code"], document["duration_s"]


def reserved_s(document):
    """TiR [s] of accelerators and hosts, by node."""
    return {(t["node"], t["device_id"]): t["time_reserved_s"] for t in document["embodied_terms"]}


@pytest.mark.parametrize("first", [0, 1])
def test_the_job_runs_until_every_node_has_ended_and_a_failed_one_decides(client, first):
    failing, going = whole("n-a", 60, "failed", 7), whole("n-b", 100)
    early, late = (failing, going) if first == 0 else (going, failing)
    client.take(late[:-1])
    client.take(early)
    running = report(client)
    assert (running["state"], running["provisional"], running["exit_code"]) == (
        "running",
        True,
        None,
    )
    assert client.get("/v1/jobs/job-1/revisions").json["revisions"] == []
    client.take(late[-1:])
    final = report(client)
    assert ended(final) == ("failed", 7, 100)
    assert (final["provisional"], final["revision"]) == (False, 1)
    (said,) = texts(final, "node-failed")
    assert "n-a failed with exit code 7" in said
    head = client.get("/v1/jobs/job-1").json
    assert (head["state"], head["exit_code"]) == ("failed", 7)


def test_of_several_bad_ends_the_first_seen_one_decides_and_all_are_named(client):
    client.take(whole("n-a", 50, "lost", None))
    client.take(whole("n-b", 70, "killed", 137))
    client.take(whole("n-c", 60, "failed", 3))
    client.take(whole("n-d", 90))
    final = report(client)
    assert ended(final) == ("failed", 3, 90)
    (said,) = texts(final, "node-failed")
    assert said.index("n-c failed with exit code 3") < said.index("n-b was killed")
    assert "n-a was lost" in said
    assert "n-d" not in said


def test_each_node_is_reserved_for_its_own_time_and_the_job_for_all_of_it(client):
    dead = Node("n-a")
    client.take([*dead.opens(), *dead.draws(100), *Node("n-a", "r-1").lost("w-n-a", 100)])
    client.take(whole("n-b", 3600))
    final = report(client)
    # 100 W for 100 s and for 3 600 s.
    assert final["energy_kwh"]["value"] == pytest.approx((10_000 + 360_000) / 3.6e6)
    assert final["duration_s"] == 3600
    assert reserved_s(final) == {
        ("n-a", "GPU-n-a"): 100,
        ("n-a", "n-a-host"): 100,
        ("n-b", "GPU-n-b"): 3600,
        ("n-b", "n-b-host"): 3600,
    }
    te = {(t["node"], t["device_id"]): t["te_g"]["value"] for t in final["embodied_terms"]}
    share = {"GPU": 1.0, "host": 1 / 8}
    by_hand = sum(
        te[node, device] * seconds / (4 * S_PER_YEAR) * share["host" if "host" in device else "GPU"]
        for (node, device), seconds in reserved_s(final).items()
    )
    assert final["embodied_g"]["value"] == pytest.approx(by_hand, rel=1e-9)


def test_a_node_closed_too_early_is_reserved_until_its_last_reading(client):
    writer = Node("n-a")
    client.take([*writer.opens(), *writer.draws(100), *Node("n-a", "r-1").lost("w-n-a", 100)])
    client.take(writer.draws(3600, start=100))
    early = report(client)
    assert ended(early) == ("lost", None, 3600)
    assert set(reserved_s(early).values()) == {3600}
    client.take([writer.end(3600, exit_code=0)])
    final = report(client)
    assert ended(final) == ("completed", 0, 3600)


def test_a_node_that_falls_silent_is_lost_at_its_own_last_reading(client, light, clock):
    client.take(whole("n-a", 3600))
    dead = Node("n-b")
    client.take([*dead.opens(), *dead.draws(100)])
    assert report(client)["state"] == "running"
    clock.turn(minutes=16)
    assert close_silent(light) == ["job-1"]
    final = report(client)
    assert ended(final) == ("lost", None, 3600)
    assert {node: s for (node, _), s in reserved_s(final).items()} == {"n-a": 3600, "n-b": 100}
    client.take([*dead.draws(200, start=100), dead.end(200, exit_code=0)])
    assert ended(report(client)) == ("completed", 0, 3600)


def test_the_steps_of_one_job_on_a_node_follow_each_other(client):
    first, second = Node("n-a", "w-1"), Node("n-a", "w-2")
    client.take([*first.opens(), *first.draws(60), first.end(60, "failed", exit_code=7)])
    assert ended(report(client)) == ("failed", 7, 60)
    client.take([*second.opens(start=100), *second.draws(160, start=100)])
    assert report(client)["state"] == "running"
    client.take([second.end(160, exit_code=0)])
    final = report(client)
    assert ended(final) == ("completed", 0, 160)
    # 60 s and 60 s; the 40 s between the steps belong to no step, in energy as in M.
    assert set(reserved_s(final).values()) == {120}
    assert "an earlier run failed with exit code 7" in texts(final, "node-failed")[0]


def test_each_node_has_its_own_pue(client):
    short, long = Node("n-a"), Node("n-b")
    client.take([*short.opens(pue=1.1), *short.draws(600), short.end(600)])
    client.take([*long.opens(pue=1.5), *long.draws(1800), long.end(1800)])
    final = report(client)
    france = CATALOG.zone("FR").intensity.value
    # 60 kJ at 1.1 and 180 kJ at 1.5.
    by_hand = (60_000 * 1.1 + 180_000 * 1.5) / 3.6e6 * france
    assert final["operational_g"]["value"] == pytest.approx(by_hand, rel=1e-12)
    pue = final["method"]["pue"]
    assert pue["value"] == pytest.approx((60 * 1.1 + 180 * 1.5) / 240, rel=1e-12)
    assert pue["low"] <= pue["value"] <= pue["high"]
    assert (final["conformance"], final["deviations"]) == ("conforming", [])
    (said,) = texts(final, "pue-several")
    assert "1.1 on n-a" in said
    assert "1.5 on n-b" in said
    assert sum(day["operational_g"]["value"] for day in final["days"]) == pytest.approx(by_hand)


def test_zone_and_pue_of_a_node_belong_together(client):
    a, b = Node("n-a"), Node("n-b")
    client.take([*a.opens(zone="FR", pue=1.1), *a.draws(600), a.end(600)])
    client.take([*b.opens(zone="PL", pue=1.5), *b.draws(600), b.end(600)])
    final = report(client)
    france, poland = (CATALOG.zone(key).intensity.value for key in ("FR", "PL"))
    by_hand = 60_000 / 3.6e6 * (france * 1.1 + poland * 1.5)
    assert final["operational_g"]["value"] == pytest.approx(by_hand, rel=1e-12)
    method = final["method"]
    assert method["pue"]["value"] == pytest.approx(1.3)
    product = (
        final["energy_kwh"]["value"]
        * method["intensity_g_per_kwh"]["value"]
        * method["pue"]["value"]
    )
    assert product == pytest.approx(by_hand, rel=1e-12)


def test_a_node_does_not_take_the_pue_of_another_s_region(client):
    a, b = Node("n-a"), Node("n-b")
    cloud = {"zone": None, "pue": None, "region": "aws:us-east-1"}
    client.take([*a.opens(**cloud), *a.draws(600), a.end(600)])
    client.take([*b.opens(zone="PL", pue=None), *b.draws(600), b.end(600)])
    final = report(client)
    region = CATALOG.region("aws:us-east-1")
    virginia, poland = (CATALOG.zone(key).intensity.value for key in (region.zone, "PL"))
    # Its board shows that the node in Poland stands in a data centre: 1.56, and not 1.15.
    by_hand = 60_000 / 3.6e6 * (virginia * region.pue.value + poland * 1.56)
    assert final["operational_g"]["value"] == pytest.approx(by_hand, rel=1e-12)
    assert final["conformance"] == "conforming-with-deviations"
    assert "PUE not declared" in final["deviations"][0]
    assert texts(final, "pue-undeclared")


@pytest.mark.parametrize("both", [False, True])
def test_a_zone_that_contradicts_its_region_wins_and_is_no_silent_conformance(client, both):
    client.take(whole("n-a", 600, region="aws:us-east-1"))
    if both:
        client.take(whole("n-b", 600))
    final = report(client)
    # The declared zone decides the intensity: 60 kJ a node at 1.1.
    by_hand = (1 + both) * 60_000 / 3.6e6 * CATALOG.zone("FR").intensity.value * 1.1
    assert final["operational_g"]["value"] == pytest.approx(by_hand, rel=1e-12)
    assert final["conformance"] == "conforming-with-deviations"
    (deviation,) = final["deviations"]
    assert "zone FR" in deviation
    assert "aws:us-east-1" in deviation
    assert ("n-a" in deviation) is both
    assert len(texts(final, "place-conflict")) == 1


@pytest.mark.parametrize(
    ("zone", "region"), [("FR", "aws:eu-west-3"), ("FRA", "aws:eu-west-3"), ("US", "aws:us-east-1")]
)
def test_a_zone_that_holds_the_region_contradicts_nothing(client, zone, region):
    client.take(whole("n-a", 600, zone=zone, region=region))
    final = report(client)
    assert (final["conformance"], texts(final, "place-conflict")) == ("conforming", [])


@pytest.mark.parametrize("device_id", ["tpu-0", "amd-0000:03:00.0"])
def test_devices_of_two_hosts_with_one_name_are_two(client, device_id):
    a, b = Node("n-a"), Node("n-b")
    for writer, seconds in ((a, 600), (b, 1200)):
        chip = writer.device(device_id, device_class="accelerator", name=H100["name"])
        head, _ = writer.opens()
        client.take([head, chip, *writer.draws(seconds, device_id=device_id), writer.end(seconds)])
    final = report(client)
    assert final["energy_kwh"]["value"] == pytest.approx(180_000 / 3.6e6)
    chips = [row for row in final["devices"] if row["class"] == "accelerator"]
    assert [(row["node"], row["device_id"]) for row in chips] == [
        ("n-a", device_id),
        ("n-b", device_id),
    ]
    assert [row["energy_j"]["value"] for row in chips] == [60_000, 120_000]
    grams = [row["embodied_g"]["value"] for row in chips]
    assert grams[1] == pytest.approx(2 * grams[0])
    assert texts(final, "overlap-removed") == []
    steps = {(row["node"], sum(row["energy_j"])) for row in final["steps"]["devices"]}
    assert steps == {("n-a", 60_000), ("n-b", 120_000)}


@pytest.mark.parametrize(
    "uuid", ["GPU-5a1c1e2c-6f3b-4c52-9d58-0d7a3f1c9b11", "5aff74a1-0000-1000-8031-4c8e1e2fa1c1"]
)
def test_a_device_with_a_uuid_counts_once_whoever_sees_it(client, uuid):
    for node in ("n-a", "n-b"):
        writer = Node(node)
        writer.gpu = uuid
        client.take([*writer.opens(), *writer.draws(600), writer.end(600)])
    final = report(client)
    assert final["energy_kwh"]["value"] == pytest.approx(60_000 / 3.6e6)
    assert sum(row["class"] == "gpu" for row in final["devices"]) == 1


def test_nodes_that_see_one_board_only_share_its_host(client):
    # Two containers of one machine: one H100 on one eighth of one host, for as long as either ran.
    for node, seconds in (("n-a", 1200), ("n-b", 600)):
        writer = Node(node)
        writer.gpu = "GPU-5a1c1e2c-6f3b-4c52-9d58-0d7a3f1c9b11"
        client.take([*writer.opens(), *writer.draws(seconds), writer.end(seconds)])
    terms = report(client)["embodied_terms"]
    assert [term["time_reserved_s"] for term in terms] == [1200, 1200]
    assert terms[1]["label"] == "host, the share of 1 of 8 accelerators"


def test_a_device_that_moves_to_a_new_node_is_reserved_for_both_times(client):
    # A container that is started anew is a new node with the same GPU.
    uuid = "GPU-5a1c1e2c-6f3b-4c52-9d58-0d7a3f1c9b11"
    for node, start in (("n-a", 0), ("n-b", 1000)):
        writer = Node(node)
        writer.gpu = uuid
        reading = writer.draws(start + 600, start=start)
        client.take([*writer.opens(start=start), *reading, writer.end(start + 600)])
    final = report(client)
    (gpu,) = [s for (_, device), s in reserved_s(final).items() if device == uuid]
    assert gpu == 1200


def story(data):
    """The records of two or three nodes that start, read and end at drawn times."""
    records = []
    for number in range(data.draw(st.integers(2, 3))):
        node, clock = f"n-{number}", 0
        for run in range(data.draw(st.integers(1, 2))):
            writer = Node(node, f"w-{run}")
            start = clock + data.draw(st.integers(0, 100))
            length = data.draw(st.integers(1, 1000))
            clock = start + length + 1
            records += writer.opens(start=start, pue=1.1 + number / 10)
            records += writer.draws(start + length, start=start)
            records += writer.draws(start + length, start=start, device_id="tpu-0")
            state = data.draw(st.sampled_from(["completed", "failed", "killed", "recovered"]))
            if state == "recovered":
                records += Node(node, f"r-{run}").lost(f"w-{run}", start + length)
            else:
                code = data.draw(st.integers(1, 255)) if state == "failed" else 0
                records.append(writer.end(start + length, state, exit_code=code))
    return records


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_order_and_split_of_arrival_gives_the_same_job(data, tmp_path_factory, sqlite_tables):
    records = story(data)
    # A server takes nothing of a job before a job line of it.
    head = data.draw(st.sampled_from([r for r in records if isinstance(r, JobRecord)]))
    shuffled = [head, *data.draw(st.permutations([r for r in records if r is not head]))]
    cuts = sorted(data.draw(st.lists(st.integers(1, len(records) - 1), max_size=6, unique=True)))
    found = []
    for order, edges in ((records, []), (shuffled, cuts)):
        folder = tmp_path_factory.mktemp("store")
        path = shutil.copy(sqlite_tables, folder)
        service = Service.open(ServiceConfig(home=folder, database_url=sqlite_url(path)))
        client = client_of(service)
        for left, right in zip([0, *edges], [*edges, len(order)], strict=True):
            client.take(order[left:right])
        found.append({**report(client), "revision": 0})
        service.store.close()
    assert found[0] == found[1]
    assert found[0]["state"] != "running"


def test_days_have_what_each_node_was_reserved_for_in_them(client):
    # A runs for 10 minutes of the first day, and for 10 of the third; B for 20 of the first.
    first, second, other = Node("n-a", "w-1"), Node("n-a", "w-2"), Node("n-b")
    later = timedelta(days=2).total_seconds()
    client.take([*first.opens(), *first.draws(600), first.end(600)])
    client.take([*other.opens(), *other.draws(1200), other.end(1200)])
    client.take([*second.opens(start=later), *second.draws(later + 600, start=later)])
    client.take([second.end(later + 600)])
    final = report(client)
    assert final["duration_s"] == later + 600
    assert {node: s for (node, _), s in reserved_s(final).items()} == {"n-a": 1200, "n-b": 1200}
    # Both nodes have the same hardware and 1 200 s: half of A's lies in the third day.
    grams = final["embodied_g"]["value"]
    days = {row["day"][-2:]: row for row in final["days"]}
    assert [days[day]["embodied_g"]["value"] for day in ("10", "11", "12")] == pytest.approx(
        [0.75 * grams, 0, 0.25 * grams]
    )
    # The job is one job over the 20 and 10 minutes in which it ran anywhere.
    jobs = [days[day]["counts"].get("job", 0) for day in ("10", "11", "12")]
    assert jobs == pytest.approx([2 / 3, 0, 1 / 3])
    kwh = final["energy_kwh"]["value"]
    assert [days[day]["energy_kwh"]["value"] for day in ("10", "11", "12")] == pytest.approx(
        [0.75 * kwh, 0, 0.25 * kwh]
    )
