"""Revisions of a score: made by a change only, which they name, and exactly repeatable."""

from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from gramwatt.service.jobs.documents import rescore
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.models import Score
from tests.journals import START, Writer, journal, lines
from tests.service.keyed import add, client_of, with_settings

OVERLAY = """\
[zones.LAB]
source = "meters of the campus power plant"
g_per_kwh = {intensity}
low = 300
high = 400
year = 2025
"""


def rows(client):
    return client.get("/v1/jobs/job-1/revisions").json["revisions"]


def test_a_rescore_that_changes_nothing_makes_no_revision_and_says_so(client, light):
    add(light)
    for _ in range(3):
        answer = client.post("/v1/jobs/job-1/rescore", json={})
        assert (answer.status_code, answer.json["changed"]) == (200, False)
        assert (answer.json["revision"], answer.json["provisional"]) == (1, False)
    assert [row["revision"] for row in rows(client)] == [1]


def test_the_stored_records_give_the_same_document_to_the_last_byte(service):
    """Several nodes, windows and units, in an order in which no meter sends them."""
    client = client_of(service)
    several = [record for node in "cab" for record in journal(node=node, writer=f"w-{node}")]
    meter = Writer("w-d", "d", "job-1", t0=START)
    odd = {"zone": "FR", "units": ("image", "token"), "project": "vision", "name": "resnet"}
    more = [meter.job(**odd), meter.device("GPU-d"), meter.interval(0, 7, 0.1 + 0.2, "GPU-d")]
    more += [meter.count(n / 7, "token", n) for n in range(1, 50)]
    ingest(service, "job-1", lines([*more, meter.end(77)]))
    ingest(service, "job-1", lines(reversed(several)))
    with service.store.write() as session:
        stored = session.execute(
            sa.select(Score.doc, Score.series).order_by(Score.revision.desc()).limit(1)
        ).one()
        # As if no score of it had been stored: the next one is made from the records alone.
        session.execute(sa.update(Score).values(doc="{}"))
    again = client.post("/v1/jobs/job-1/rescore", json={}).json["revision"]
    with service.store.read() as session:
        made = session.execute(
            sa.select(Score.doc, Score.series).where(Score.revision == again)
        ).one()
    assert made.doc.replace(f'"revision":{again}', f'"revision":{again - 1}') == stored.doc
    assert made.series == stored.series


def test_a_revision_names_what_changed_since_the_one_before(light, tmp_path):
    """The intensity of the grid falls from 380 to 364 g/kWh; M stays.

    0.03 kWh x PUE 1 x (364 - 380) = -0.48 g of C = 11.4 g + M.
    """
    client = client_of(light)
    overlay = tmp_path / "overlay.toml"
    for intensity in (380, 364):
        overlay.write_text(OVERLAY.format(intensity=intensity))
        renewed = with_settings(light, overlay=overlay)
        add(renewed, "job-1", pue=1.0, zone="LAB")
        assert rescore(renewed, "job-1", "new factors")[1] is (intensity == 364)
    newest, first = rows(client)
    assert first["change"] is None
    before = client.get("/v1/jobs/job-1/report?revision=1").json
    expected = -0.48 / (0.03 * 380 + before["embodied_g"]["value"])
    assert newest["change"]["total_change"] == pytest.approx(expected, rel=1e-9)
    assert newest["change"]["text"].startswith(f"{100 * expected:+.1f} %: ")
    assert "intensity 380 -> 364 g/kWh" in newest["change"]["text"]
    changed = {row["what"] for row in newest["change"]["inputs"]}
    assert "carbon intensity of the grid" in changed
    assert not any(what.startswith(("TE", "EL", "PUE", "energy")) for what in changed)
    assert before["method"]["intensity_g_per_kwh"]["value"] == 380


def test_a_correction_and_another_lifetime_are_named(client, light):
    add(light, "job-1", zone=None)
    client.patch("/v1/jobs/job-1", json={"zone": "FR"})
    longer = with_settings(light, lifetime_years=5.0)
    assert rescore(longer, "job-1", "new factors")[1] is True
    lifetime, zone, _ = (row["change"] for row in rows(client))
    assert "declared zone none -> FR" in zone["text"]
    assert "intensity " in zone["text"]
    assert "expected lifetime 4 -> 5 years" in lifetime["text"]
    # M over 5 instead of 4 years is a fifth less; O stays.
    first = client.get("/v1/jobs/job-1/report?revision=2").json
    share = first["embodied_g"]["value"] / first["total_g"]["value"]
    assert lifetime["total_change"] == pytest.approx(-share / 5, rel=1e-9)


def test_a_total_that_becomes_known_is_no_change_in_percent(client, light):
    records = journal()
    device = next(record for record in records if record.TYPE == "interval")
    without = [record for record in records if record is not device]
    ingest(light, "job-1", lines([r for r in without if r.TYPE != "interval"]))
    ingest(light, "job-1", lines([r for r in records if r.TYPE == "interval"]))
    newest, first = rows(client)
    assert first["total_g"] is None
    assert newest["change"]["total_change"] is None
    assert newest["change"]["text"].startswith("total now known: ")


def test_a_node_that_arrives_late_is_named_as_one_more(client, light):
    """Nodes b and c at 600 W; then a, before them in every list, at 1200 W.

    No figure of b and c changed, and no embodied carbon went away.
    """
    for node, watts in (("b", 600), ("c", 600), ("a", 1200)):
        add(light, "job-1", node=node, writer=f"w-{node}", power_w=watts)
    newest, second, _ = rows(client)
    # b's energy is 600 W x 180 s = 108 kJ; c's is the same; a's 216 kJ.
    assert "energy of NVIDIA H100 80GB HBM3 none -> 108 kJ" in second["change"]["text"]
    changed = {row["what"]: row for row in newest["change"]["inputs"]}
    energy = changed["energy of NVIDIA H100 80GB HBM3"]
    assert (energy["before"], energy["after"]["value"]) == (None, pytest.approx(216_000))
    one_more = [row["before"] for what, row in changed.items() if what.startswith("TE")]
    assert one_more == [None, None]  # of the board and of its part of the host
    assert not any("alike" in what for what in changed)


def test_the_rounding_of_a_sum_in_another_order_is_no_change_of_an_input(client, light):
    records = journal(minutes=0, end_state=None)
    meter = Writer("w1", "n1", "job-1", t0=START)
    meter.seq = len(records)
    spans = [meter.interval(5e4 * k, 5e4 * (k + 1), 1e5 / (k + 3), "GPU-n1") for k in range(60)]
    ingest(light, "job-1", lines([*records, *spans, meter.end(3e6)]))
    configured = with_settings(light, zone=ZoneInfo("America/Los_Angeles"), lifetime_years=5.0)
    assert rescore(configured, "job-1", "new factors")[1] is True
    newest, _ = rows(client)
    assert [row["what"] for row in newest["change"]["inputs"]] == [
        "days of",
        "EL, expected lifetime",
    ]
