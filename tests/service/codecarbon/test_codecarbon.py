"""An unmodified codecarbon client posts to the service, over loopback only."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from statistics import median

import pytest
import sqlalchemy as sa

from gramwatt.sci.journal.records import parse_time
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.codecarbon import runs
from gramwatt.service.codecarbon.client import boards
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.lists import intervals_page
from gramwatt.service.operation.upkeep import close_silent
from gramwatt.service.store.codecarbon import CodecarbonEmission, CodecarbonRun
from gramwatt.service.store.migrate import upgrade
from tests.service.listening import listening
from tests.service.processes import eventually

KWH = 3.6e6
BASE = "/v1/compat/codecarbon"


@dataclass
class Recorded:
    """A service behind a real HTTP server, and the bodies that clients posted to it."""

    service: Service
    url: str
    key: str
    bodies: list[tuple[str, dict]] = field(default_factory=list)
    said: list[dict] = field(default_factory=list)
    killed: str = ""

    def messages(self, job_id=""):
        """What was posted of a job, or of all, each message once."""
        found = {b["timestamp"]: b for _, b in self.bodies if "run_id" in b}
        return [b for b in found.values() if job_id.endswith(b["run_id"]) or not job_id]

    def job_of(self, message):
        return f"codecarbon-{message['run_id']}"

    def runs_posting(self):
        """The jobs of the runs that have posted a message."""
        return sorted({self.job_of(message) for message in self.messages()})

    def job_on(self, zone):
        """The job of the run whose client posts to the address of a zone."""
        (found,) = {self.job_of(b) for p, b in self.bodies if f"/{zone}/e" in p}
        return found

    def intervals(self, job_id):
        return intervals_page(self.service, job_id, 500, None)["intervals"]

    def closed(self, job_id):
        """The job's document, after silence."""
        clock = lambda: datetime.now(UTC) + timedelta(minutes=16)  # noqa: E731
        later = replace(self.service.config, clock=clock)
        close_silent(Service(later, self.service.store))
        return job_document(self.service, job_id).document


@contextmanager
def served(folder):
    service = Service.open(ServiceConfig(home=folder, database_url=sqlite_url(folder / "g.db")))
    upgrade(service.store)
    app = create_app(service=service)
    inner = app.wsgi_app
    recorded = Recorded(service, "", create_key(service, "client", "ingest")["key"])

    def record(environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if body:
            recorded.bodies.append((environ["PATH_INFO"], json.loads(body)))
        return inner({**environ, "wsgi.input": io.BytesIO(body)}, start_response)

    app.wsgi_app = record
    try:
        with listening(app) as recorded.url:
            yield recorded
    finally:
        service.store.close()


def start_client(root, folder, kind, url, key, seconds, gpus=0):
    command = [sys.executable, str(root / "tests/codecarbon_client.py")]
    foreign = ("CODECARBON_", "GRAMWATT_", "SLURM_", "CUDA_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return subprocess.Popen(
        [*command, kind, url, str(seconds), str(gpus)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env={**env, "HOME": str(folder), "CODECARBON_API_KEY": key},
    )


@pytest.fixture(scope="module")
def story(root, tmp_path_factory):
    """Four clients: one killed after its first message, its next attempt, and two that end."""
    folder = tmp_path_factory.mktemp("codecarbon")
    with served(folder) as recorded:
        zoned, key = f"{recorded.url}{BASE}/zones/FR", recorded.key
        killed = start_client(root, folder, "offline", f"{recorded.url}{BASE}", key, 300)
        eventually(recorded.runs_posting, 120)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        (recorded.killed,) = recorded.runs_posting()
        again = start_client(root, folder, "offline", f"{recorded.url}{BASE}", key, 2.6)
        offline = start_client(root, folder, "offline", zoned, key, 4.4, 2)
        online = start_client(root, folder, "online", f"{recorded.url}{BASE}/", key, 3.4)
        outputs = [process.communicate(timeout=180)[0] for process in (offline, online, again)]
        recorded.said = [json.loads(output.splitlines()[-1]) for output in outputs]
        yield recorded


def by_part(rows):
    """Energy of intervals [kWh] by part of the machine."""
    found = {"gpu": 0.0, "cpu": 0.0, "ram": 0.0}
    for row in rows:
        found[row["device_id"].partition("-")[0]] += row["energy_j"] / KWH
    return found


def test_every_message_of_the_real_client_is_in_its_job_exactly_once(story):
    assert len(story.runs_posting()) == 4
    for job_id in story.runs_posting():
        rows, messages = story.intervals(job_id), story.messages(job_id)
        found = by_part(rows)
        for part, energy_kwh in found.items():
            posted = sum(message[f"{part}_energy"] for message in messages)
            assert energy_kwh == pytest.approx(posted, rel=1e-12), part
        assert len({row["start"] for row in rows}) == len(messages)


def test_the_job_has_the_whole_energy_and_the_true_length_of_what_the_client_measured(story):
    said = story.said[0]
    job_id = story.job_on("FR")
    rows = story.intervals(job_id)
    # What the client measured before its first message or after its last, if under 1 s, it drops.
    unsent_s = said["duration"] - sum(
        message["emissions_sum"] / message["emissions_rate"] for message in story.messages(job_id)
    )
    assert 0 <= unsent_s < 2
    spans = {(parse_time(row["start"]), parse_time(row["end"])) for row in rows}
    covered_s = sum((end - start).total_seconds() for start, end in spans)
    assert covered_s == pytest.approx(said["duration"] - unsent_s, abs=1e-4)
    truncated_s = sum(message["duration"] for message in story.messages(job_id))
    assert covered_s > truncated_s  # the seconds that it states are cut
    # Boards at 300 W; it reads their counters and its clock apart, and a busy machine in between.
    powers_w = [
        row["energy_j"] / (parse_time(row["end"]) - parse_time(row["start"])).total_seconds()
        for row in rows
        if row["device_id"].startswith("gpu")
    ]
    assert len(powers_w) == 2 * len(spans)
    assert median(powers_w) == pytest.approx(300, rel=0.3)
    document = story.closed(job_id)
    assert document["duration_s"] == pytest.approx(covered_s, abs=1e-4)
    assert document["state"] == "lost"  # the client reports no end
    assert document["energy_kwh"]["value"] == pytest.approx(sum(by_part(rows).values()), rel=1e-9)


def test_the_job_is_scored_with_our_own_intensity_hardware_and_unit(story):
    document = story.closed(story.job_on("FR"))
    assert (document["project"], document["zone"]) == ("vision", "FR")
    boards = [row for row in document["devices"] if row["class"] == "gpu"]
    assert [row["hardware"] for row in boards] == ["nvidia-h100-sxm5-80"] * 2
    assert {row["class"]: set(row["kinds"]) for row in document["devices"]} == {
        "gpu": {"measured"},
        "cpu": {"estimated"},
        "ram": {"estimated"},
        "host": set(),
    }
    assert all(row["energy_j"]["source"].startswith("codecarbon 3.3.2") for row in boards)
    assert document["embodied_g"]["value"] > 0
    assert [(row["unit"], row["count"]) for row in document["sci"]] == [("job", 1.0)]
    assert document["conformance"] == "conforming-with-deviations"
    # Ours, not theirs: France's annual mean, and 1.0, since no part is evidence of a data centre.
    from gramwatt.collectors.common.catalogs import read_catalog

    intensity = read_catalog(None).zone("FR").intensity.value
    expected = document["energy_kwh"]["value"] * intensity * 1.0
    assert document["operational_g"]["value"] == pytest.approx(expected, rel=1e-9)


def test_a_client_without_internet_is_not_put_into_quebec(story):
    assert story.said[1]["region"] == "quebec"  # what it falls back to, and reports as a fact
    unzoned = [job_id for job_id in story.runs_posting() if job_id != story.job_on("FR")]
    for job_id in unzoned:
        document = story.closed(job_id)
        assert document["zone"] is None
        assert document["conformance"] == "not-sci"
        assert "zone-unknown" in {notice["code"] for notice in document["notices"]}


def test_a_killed_client_keeps_what_it_had_sent_and_its_next_run_is_another_job(story):
    unzoned = [job_id for job_id in story.runs_posting() if job_id != story.job_on("FR")]
    assert len(unzoned) == 3
    assert story.killed in unzoned
    for job_id in unzoned:
        assert story.closed(job_id)["energy_kwh"]["value"] == pytest.approx(
            sum(m["cpu_energy"] + m["ram_energy"] for m in story.messages(job_id)), rel=1e-9
        )
    assert story.closed(story.killed)["state"] == "lost"


RUN = {
    "timestamp": "2026-06-02T12:00:00.5+00:00",
    "experiment_id": "speech",
    "os": "Linux",
    "python_version": "3.11.7",
    "codecarbon_version": "3.3.2",
    "cpu_count": 8,
    "cpu_model": "AMD EPYC 7763 64-Core Processor",
    "gpu_count": 0,
    "gpu_model": "",
    "longitude": None,
    "latitude": None,
    "region": None,
    "provider": None,
    "ram_total_size": 32.0,
    "tracking_mode": "machine",
}


def announce(client, path="/runs", **more):
    answer = client.post(f"{BASE}{path}", json={**RUN, **more})
    assert answer.status_code == 201, answer.json
    return answer.json["id"]


def message(run_id, sent_s, *, length_s=120.25, cpu_j=3600.0, rate=1e-7, **more):
    """A message sent so many seconds after noon, over a span of `length_s`."""
    when = datetime(2026, 6, 2, 12, tzinfo=UTC) + timedelta(seconds=sent_s)
    return {
        "timestamp": when.isoformat(),
        "run_id": run_id,
        "duration": int(length_s),
        "emissions_sum": rate * length_s,
        "emissions_rate": rate,
        "cpu_power": 30.0,
        "gpu_power": 0.0,
        "ram_power": 10.0,
        "cpu_energy": cpu_j / KWH,
        "gpu_energy": 0.0,
        "ram_energy": 1200 / KWH,
        "energy_consumed": (cpu_j + 1200) / KWH,
        "cpu_utilization_percent": 40.0,
        "gpu_utilization_percent": 0,
        "ram_utilization_percent": 2.5,
        "wue": 0.0,
        **more,
    }


def post(client, body):
    return client.post(f"{BASE}/emissions", json=body)


def spans(client, job_id, device="cpu"):
    """Start and length [s after noon, s] and energy [J] of a device's intervals."""
    noon = datetime(2026, 6, 2, 12, tzinfo=UTC)
    rows = client.get(f"/v1/jobs/{job_id}/intervals?limit=500").json["intervals"]
    return [
        (
            round((parse_time(row["start"]) - noon).total_seconds(), 6),
            round((parse_time(row["end"]) - parse_time(row["start"])).total_seconds(), 6),
            row["energy_j"],
        )
        for row in rows
        if row["device_id"] == device
    ]


def test_a_message_sent_again_or_late_changes_nothing_twice(client):
    run_id = announce(client)
    bodies = [message(run_id, 120.25 * n + 0.3) for n in (1, 2, 3)]
    for body in (*bodies, bodies[0], bodies[2], bodies[1]):
        answer = post(client, body)
        assert (answer.status_code, answer.json) == (201, {"job_id": f"codecarbon-{run_id}"})
    assert spans(client, f"codecarbon-{run_id}") == [
        (0.3, 120.25, 3600.0),
        (120.55, 120.25, 3600.0),
        (240.8, 120.25, 3600.0),
    ]


def test_runs_announced_again_and_again_are_one_job_or_none(client):
    for _ in range(3):  # the client got no answer within 2 s and announces itself each time
        run_id = announce(client)
    assert client.get("/v1/jobs").json["jobs"] == []
    post(client, message(run_id, 121))
    (job,) = client.get("/v1/jobs").json["jobs"]
    assert (job["job_id"], job["project"], job["state"]) == (
        f"codecarbon-{run_id}",
        "speech",
        "running",
    )


def test_of_a_first_message_by_a_clock_that_is_not_set_yet_nothing_is_kept(client):
    run_id = announce(client, "/zones/FR/runs")
    refused = post(client, message(run_id, 0) | {"timestamp": "1970-01-01T00:03:00+00:00"})
    assert (refused.status_code, refused.json["code"]) == (422, "invalid")
    assert post(client, message(run_id, 240.5)).status_code == 201
    job_id = f"codecarbon-{run_id}"
    assert spans(client, job_id) == [(120.25, 120.25, 3600.0)]
    assert client.get(f"/v1/jobs/{job_id}/report").json["zone"] == "FR"


def test_a_run_whose_first_message_met_a_failing_store_is_a_job_with_the_second(
    client, monkeypatch
):
    run_id = announce(client, "/zones/FR/runs")

    def full(*_):
        raise OSError("full")

    with monkeypatch.context() as failing:
        failing.setattr(runs, "ingest", full)
        assert post(client, message(run_id, 120.25)).status_code == 500
    assert post(client, message(run_id, 240.5)).status_code == 201
    document = client.get(f"/v1/jobs/codecarbon-{run_id}/report").json
    assert (document["project"], document["zone"]) == ("speech", "FR")


def test_a_lost_message_leaves_a_gap_and_a_notice_instead_of_a_zero(client):
    run_id = announce(client)
    post(client, message(run_id, 120.25))
    post(client, message(run_id, 360.75))
    assert spans(client, f"codecarbon-{run_id}") == [
        (0.0, 120.25, 3600.0),
        (240.5, 120.25, 3600.0),
    ]
    document = client.get(f"/v1/jobs/codecarbon-{run_id}/report").json
    assert "meter-gap" in {notice["code"] for notice in document["notices"]}


def test_without_emissions_the_length_is_the_time_between_messages(client):
    run_id = announce(client)
    post(client, message(run_id, 120.9, rate=0.0))
    post(client, message(run_id, 241.5, rate=0.0))
    # Whole seconds only for the first; the second starts where the first was sent.
    assert spans(client, f"codecarbon-{run_id}") == [(0.9, 120.0, 3600.0), (120.9, 120.6, 3600.0)]


def test_a_late_first_message_does_not_shorten_the_second(client):
    run_id = announce(client)
    post(client, message(run_id, 121.25))  # announcing the run took a second
    post(client, message(run_id, 240.5))
    assert spans(client, f"codecarbon-{run_id}") == [(1.0, 120.25, 3600.0), (121.25, 120.25, 3600)]


def test_a_slow_drift_of_the_clock_is_no_lost_message(client):
    run_id = announce(client)
    for n in range(1, 41):
        post(client, message(run_id, 120.35 * n))  # 0.1 s more than the client measures
    found = spans(client, f"codecarbon-{run_id}")
    assert sum(energy_j for _, _, energy_j in found) == pytest.approx(40 * 3600)
    assert all(
        start + length == pytest.approx(following[0], abs=1e-6)
        for (start, length, _), following in zip(found, found[1:], strict=False)
    )
    document = client.get(f"/v1/jobs/codecarbon-{run_id}/report").json
    assert "meter-gap" not in {notice["code"] for notice in document["notices"]}


def test_energy_of_zero_is_energy_that_was_not_measured(client):
    run_id = announce(client, gpu_count=1, gpu_model="1 x NVIDIA A100-SXM4-80GB")
    post(client, message(run_id, 121))  # gpu_energy 0: the client did not find the board it billed
    document = client.get(f"/v1/jobs/codecarbon-{run_id}/report").json
    (board,) = [row for row in document["devices"] if row["class"] == "gpu"]
    assert (board["hardware"], board["energy_j"]) == ("nvidia-a100-sxm4-80", None)
    codes = {notice["code"] for notice in document["notices"]}
    assert {"energy-unmeasured", "codecarbon-limits"} <= codes


def test_a_cloud_region_gives_the_zone_and_the_published_pue(client):
    run_id = announce(client, provider="gcp", region="europe-west1")
    post(client, message(run_id, 121))
    document = client.get(f"/v1/jobs/codecarbon-{run_id}/report").json
    assert (document["zone"], document["region"]) == ("BE", "gcp:europe-west1")


def test_silence_closes_the_job_and_a_later_message_opens_it_again(client, light, clock):
    run_id = announce(client)
    post(client, message(run_id, 120.25))
    clock.turn(minutes=16)
    job_id = f"codecarbon-{run_id}"
    assert close_silent(light) == [job_id]
    job = client.get(f"/v1/jobs/{job_id}").json
    assert (job["state"], job["ended_at"]) == ("lost", "2026-06-02T12:02:00.250000Z")
    totals = client.get("/v1/reports/monthly/2026-06").json["totals"]
    assert totals["energy_kwh"]["value"] == pytest.approx(4800 / KWH)
    post(client, message(run_id, 240.5))
    assert client.get(f"/v1/jobs/{job_id}").json["state"] == "running"
    clock.turn(minutes=16)
    close_silent(light)
    totals = client.get("/v1/reports/monthly/2026-06").json["totals"]
    assert totals["energy_kwh"]["value"] == pytest.approx(9600 / KWH)


def test_several_kinds_of_boards_are_told_apart():
    assert boards("2 x A1 x B", 3) == ("A", "A", "B")
    assert boards("8 x NVIDIA H100 80GB HBM3", 8) == ("NVIDIA H100 80GB HBM3",) * 8
    assert boards("16 x NVIDIA H100 80GB HBM3", 16) == ("NVIDIA H100 80GB HBM3",) * 16
    assert boards("1 x NVIDIA H100 80GB HBM31 x NVIDIA L4", 2) == (
        "NVIDIA H100 80GB HBM3",
        "NVIDIA L4",
    )
    assert boards("Apple M2", 1) == ("Apple M2",)
    assert boards("", 2) == ("unknown GPU",) * 2
    assert boards("2 x X", 5) == ("2 x X",) * 5  # it does not add up, so it is not taken apart


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"run_id": "nobody"}, 404, "unknown-run"),
        ({"timestamp": "yesterday"}, 422, "invalid"),
        ({"timestamp": "2026-06-02T12:02:00"}, 422, "invalid"),
        ({"cpu_energy": -1.0}, 422, "invalid"),
        ({"cpu_energy": 1e6}, 422, "invalid"),
        ({"duration": "2"}, 422, "invalid"),
    ],
)
def test_what_cannot_be_a_reading_is_refused(client, change, status, code):
    answer = post(client, message(announce(client), 121) | change)
    assert (answer.status_code, answer.json["code"]) == (status, code)


def test_a_zone_that_is_not_known_is_refused_before_the_run(client):
    answer = client.post(f"{BASE}/zones/Atlantis/runs", json=RUN)
    assert (answer.status_code, answer.json["code"]) == (422, "invalid")
    assert "Atlantis" in answer.json["detail"]


def stored(light, table):
    with light.store.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(table))


def test_messages_of_newer_clients_and_of_deleted_jobs(client, light):
    run_id = announce(client, cpu_physical_count=4)
    assert post(client, message(run_id, 121, disk_energy=1.0)).status_code == 201
    client.delete(f"/v1/jobs/codecarbon-{run_id}")
    answer = post(client, message(run_id, 241))
    assert (answer.status_code, answer.json["code"]) == (410, "deleted-job")
    assert (stored(light, CodecarbonRun), stored(light, CodecarbonEmission)) == (0, 0)


def test_a_bound_key_announces_and_sends_for_its_projects_only(client, light):
    made = create_key(light, "bound", "ingest", ("vision", "text"))["key"]
    bound = {"Authorization": f"Bearer {made}"}
    refused = client.post(f"{BASE}/runs", json=RUN, headers=bound)
    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")
    theirs = announce(client)
    refused = client.post(f"{BASE}/emissions", json=message(theirs, 121), headers=bound)
    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")
    assert (stored(light, CodecarbonRun), stored(light, CodecarbonEmission)) == (1, 0)
    own = client.post(f"{BASE}/runs", json=RUN | {"experiment_id": "text"}, headers=bound)
    sent = client.post(f"{BASE}/emissions", json=message(own.json["id"], 121), headers=bound)
    assert sent.status_code == 201
    assert client.get(f"/v1/jobs/{sent.json['job_id']}").json["project"] == "text"
