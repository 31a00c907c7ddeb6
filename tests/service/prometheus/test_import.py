"""`gramwatt import prometheus`: jobs of boards and pods, each joule once."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from gramwatt.sci.records.merge import MergedJob, merge
from gramwatt.sci.records.records import AnyRecord, encode
from gramwatt.service.container import Service
from gramwatt.service.imports.prometheus import (
    ImportAnswer,
    MappingError,
    Prometheus,
    import_range,
    named,
    read_mapping,
)
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.journal import journal_of
from gramwatt.service.store.models import Job
from tests.service.cli.command import gramwatt
from tests.service.prometheus.scripted import Scripted, scripted

BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z
BOARD = "GPU-6c2a6bd0-5d1f-4f7e-9d27-b8b6a6c6a001"
ENERGY, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"
WATTS = 300.0
MAP = """
zone = "FR"
[[job]]
match = {namespace = "team-.*"}
by = ["namespace", "pod"]
project = "{namespace}"
name = "{pod}"
"""


@pytest.fixture
def prometheus():
    with scripted() as found:
        yield found


def labels(pod: str = "", uuid: str = BOARD, **more: str) -> dict[str, str]:
    where = {"pod": pod, "namespace": "team-a", "container": "c"} if pod else {}
    return {"UUID": uuid, "gpu": "0", "modelName": "NVIDIA H100", "Hostname": "n1", **where, **more}


def counter(start_s: float, end_s: float, step_s: float = 15, *, watts: float = WATTS) -> dict:
    """A counter [mJ] that began at BEGIN, sampled from start to end after BEGIN [s]."""
    count = round((end_s - start_s) / step_s)
    times = [start_s + number * step_s for number in range(count + 1)]
    return {BEGIN + t: 5e9 + watts * t * 1000 for t in times}


def load(
    service: Service, prometheus: Scripted, tmp_path: Path, until_s: int = 3600, text: str = MAP
) -> ImportAnswer:
    path = tmp_path / "map.toml"
    path.write_text(text)
    span = BEGIN, BEGIN + until_s
    return import_range(service, Prometheus(prometheus.url), span, read_mapping(path))


def stored(service: Service, job_id: str) -> list[AnyRecord]:
    with service.store.read() as session:
        job = session.scalars(sa.select(Job).where(Job.job_id == job_id)).one()
        return list(journal_of(session, job))


def jobs(service: Service, answer: ImportAnswer) -> dict[str, MergedJob]:
    found = [merge(stored(service, name)) for name in answer.imported]
    return {job.head.name: job for job in found}


def energy_j(job: MergedJob, *kinds: str) -> float:
    spans = [i for device in job.devices for i in device.intervals]
    return sum(i.energy_j for i in spans if not kinds or i.kind in kinds)


def test_a_pods_board_is_measured_and_what_nobody_has_is_left_out(light, prometheus, tmp_path):
    prometheus.add(ENERGY, labels(), counter(0, 600))
    prometheus.add(ENERGY, labels("train-0"), counter(615, 2400))
    prometheus.add(ENERGY, labels(), counter(2415, 3000))
    prometheus.add(POWER, labels("train-0"), {BEGIN + 700: 999.0, BEGIN + 800: 999.0})
    answer = load(light, prometheus, tmp_path)
    (job,) = jobs(light, answer).values()
    assert energy_j(job) == pytest.approx(WATTS * 1800)
    assert energy_j(job, "measured") == pytest.approx(WATTS * 1785)
    assert energy_j(job, "estimated") == pytest.approx(WATTS * 15)  # the halves at both ends
    (cut,) = [text for text in job.head.notices if text.startswith("meter-gap")]
    assert f"{WATTS * 15:.3g} J are half of" in cut
    assert cut.endswith(f"it is 0 to {WATTS * 30:.3g} J.")
    assert answer.nobody_j == pytest.approx(WATTS * (3000 - 1800))
    head, (device,) = job.head, job.devices
    assert (head.reporter, head.project, head.zone) == ("prometheus", "team-a", "FR")
    assert head.tags == {"namespace": "team-a", "pod_name": "train-0"}
    assert (device.record.name, device.record.share) == ("NVIDIA H100", 1.0)
    assert device.record.update_period_s == 15
    document = job_document(light, answer.imported[0]).document
    assert document.energy_kwh.value == pytest.approx(WATTS * 1800 / 3.6e6)


def test_importing_again_changes_nothing_and_a_longer_span_adds(light, prometheus, tmp_path):
    prometheus.add(ENERGY, labels("train-0"), counter(0, 7005))
    first = load(light, prometheus, tmp_path, 2000)
    assert energy_j(jobs(light, first)["train-0"]) == pytest.approx(WATTS * 2100)
    again = load(light, prometheus, tmp_path, 2000)
    assert (again.imported, again.duplicate) == ([], 1)
    longer = load(light, prometheus, tmp_path, 7200)
    assert longer.imported == first.imported
    job = jobs(light, longer)["train-0"]
    assert energy_j(job) == pytest.approx(WATTS * 7005)
    assert [query for query in prometheus.asked if ENERGY in query][-2:] == [f"{ENERGY}[3600s]"] * 2


def test_slices_repeat_the_boards_counter_and_have_their_part_of_it(light, prometheus, tmp_path):
    for number, (pod, profile) in enumerate([("a", "3g.40gb"), ("b", "1g.10gb"), ("", "3g.40gb")]):
        more = {"GPU_I_ID": str(number), "GPU_I_PROFILE": profile}
        prometheus.add(ENERGY, labels(pod, **more), counter(0, 3000))
    answer = load(light, prometheus, tmp_path)
    found = jobs(light, answer)
    assert energy_j(found["a"], "attributed") == pytest.approx(WATTS * 3000 * 3 / 7)
    assert energy_j(found["b"]) == pytest.approx(WATTS * 3000 / 7)
    assert found["a"].devices[0].record.share == pytest.approx(3 / 7)
    assert answer.nobody_j == pytest.approx(WATTS * 3000 * 3 / 7)


def test_tenants_of_one_board_have_equal_parts(light, prometheus, tmp_path):
    for pod in ("a", "b"):
        prometheus.add(ENERGY, labels(f"{pod}"), counter(0, 1500))
    found = jobs(light, load(light, prometheus, tmp_path))
    assert energy_j(found["a"], "attributed") == pytest.approx(WATTS * 750)
    assert energy_j(found["b"], "attributed") == pytest.approx(WATTS * 750)


def test_a_gap_a_reset_and_power_alone_are_told_apart(light, prometheus, tmp_path):
    samples = {**counter(0, 600), **counter(1200, 1800)}
    reset = {BEGIN + t: (t - 1800) * WATTS * 1000 for t in range(1815, 2401, 15)}
    prometheus.add(ENERGY, labels("a"), samples | reset)
    other = BOARD.replace("a001", "a002")
    power = {BEGIN + t: WATTS + t % 2 for t in range(0, 1801, 15)}
    prometheus.add(POWER, labels("a", other, hostname="n1"), power)
    (job,) = jobs(light, load(light, prometheus, tmp_path)).values()
    counted, integrated = sorted(job.devices, key=lambda device: device.record.device_id)
    kinds = {
        kind: sum(i.energy_j for i in counted.intervals if i.kind == kind)
        for kind in ("measured", "attributed")
    }
    assert kinds["attributed"] == pytest.approx(WATTS * 600)  # across the gap
    assert kinds["measured"] == pytest.approx(WATTS * (600 + 600 + 585))
    assert {i.kind for i in integrated.intervals} == {"integrated"}
    assert sum(i.energy_j for i in integrated.intervals) == pytest.approx(1800 * (WATTS + 0.5))
    texts = {notice.code: notice.message for notice in job.notices}
    assert texts["meter-gap"].endswith(
        f"1 gaps between scrapes, which come every 15 s, hold {WATTS * 600:.3g} J; it is 0 to "
        f"{WATTS * 600:.3g} J, as another job may have had the board."
    )
    assert "1 steps of its readings are below 0" in texts["meter-counter-reset"]


def test_keplers_zones_are_not_summed_and_a_pod_has_its_part_of_the_host(
    light, prometheus, tmp_path
):
    pod = {"pod_name": "web", "pod_namespace": "team-b", "pod_id": "0f8f5a52", "node_name": "n1"}
    for zone, watts in (("package", 40.0), ("dram", 5.0), ("core", 30.0), ("psys", 90.0)):
        values = {BEGIN + t: watts * t for t in range(0, 3001, 30)}
        prometheus.add("kepler_pod_cpu_joules_total", {**pod, "zone": zone}, values)
        whole = {t: 4 * value for t, value in values.items()}
        node = {"node_name": "n1", "zone": zone}
        prometheus.add("kepler_node_cpu_joules_total", node, whole)
    (job,) = jobs(light, load(light, prometheus, tmp_path)).values()
    found = {device.record.device_class: device for device in job.devices}
    assert set(found) == {"cpu", "ram"}
    for name, watts in (("cpu", 40.0), ("ram", 5.0)):
        assert sum(i.energy_j for i in found[name].intervals) == pytest.approx(watts * 3000)
        assert found[name].record.share == pytest.approx(0.25)
    assert energy_j(job) == energy_j(job, "attributed")
    assert job.head.tags["pod"] == "0f8f5a52"


def test_keplers_gaps_and_resets_are_notices_of_the_jobs_that_have_them(
    light, prometheus, tmp_path
):
    ways = {"gap": (range(0, 600, 30), range(1800, 3001, 30)), "whole": (range(0, 3001, 30),)}
    for name, spans in ways.items():
        pod = {"pod_name": name, "pod_namespace": "team-b", "pod_id": name, "node_name": "n1"}
        values = {BEGIN + t: 40.0 * t for span in spans for t in span}
        prometheus.add("kepler_pod_cpu_joules_total", {**pod, "zone": "package"}, values)
        new = {BEGIN + t: 5.0 * (t % 1500) for t in range(0, 3000, 30)}
        prometheus.add("kepler_pod_cpu_joules_total", {**pod, "zone": "dram"}, new)
    found = jobs(light, load(light, prometheus, tmp_path))
    assert energy_j(found["gap"]) == pytest.approx(40 * 3000 + 5 * 2 * 1470)
    texts = [notice.message for notice in found["gap"].notices if notice.code == "meter-gap"]
    assert [text.partition(": ")[2] for text in texts] == [
        "1 gaps between scrapes, which come every 30 s, hold 4.92e+04 J; the counter is the pod's "
        "own, but each hour may have 0 to 4.92e+04 J of it."
    ]
    assert [notice.code for notice in found["whole"].notices if notice.code == "meter-gap"] == []
    for job in found.values():
        (text,) = [one.message for one in job.notices if one.code == "meter-counter-reset"]
        assert "-ram: 1 steps of its readings" in text


def test_a_gap_of_one_of_a_jobs_pods_loses_no_energy_of_the_others(light, prometheus, tmp_path):
    ways = {"gap": (range(0, 3000, 30), range(4500, 7201, 30)), "whole": (range(0, 7201, 30),)}
    for name, spans in ways.items():  # the gap lies over the end of an hour that is asked for
        pod = {"pod_name": name, "pod_namespace": "team-b", "pod_id": name, "node_name": "n1"}
        values = {BEGIN + t: 40.0 * t for span in spans for t in span}
        prometheus.add("kepler_pod_cpu_joules_total", {**pod, "zone": "package"}, values)
    answer = load(light, prometheus, tmp_path, 7200, text="[[job]]\nby = ['namespace']")
    document = job_document(light, answer.imported[0]).document
    assert document.energy_kwh.value * 3.6e6 == pytest.approx(2 * 40 * 7200)
    assert "clock-set-back" not in {notice.code for notice in document.notices}


def test_what_a_meter_measured_counts_there(light, prometheus, tmp_path):
    prometheus.add(ENERGY, labels("a"), counter(0, 3600))
    answer = load(light, prometheus, tmp_path)
    mine = stored(light, answer.imported[0])
    kept = [record for record in mine if getattr(record, "device_id", BOARD) == BOARD]
    for record in kept:
        record.job_id, record.node, record.writer = "own", "n-own", "w"
        if hasattr(record, "reporter"):
            record.reporter = None
    ingest(light, "own", [encode(record).encode() for record in kept])
    names = ("own", answer.imported[0])
    own, theirs = (job_document(light, name).document for name in names)
    assert own.energy_kwh.value == pytest.approx(WATTS / 1000, rel=1e-3)
    assert theirs.energy_kwh is None or theirs.energy_kwh.value == 0
    assert "counted-elsewhere" in {notice.code for notice in theirs.notices}


def test_a_scrapes_own_names_give_way_to_the_exporters():
    found = named({"pod": "dcgm-x", "exported_pod": "train", "Hostname": "n1:9400", "hpc_job": "7"})
    assert (found["pod"], found["host"], found["slurm"]) == ("train", "n1", "7")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no [[job]]"),
        ("[[job]]\nproject = 'a'", "by lists the labels"),
        ("[[job]]\nby = ['pod']\nprojekt = 'a'", "close matches: project"),
        ("[[job]]\nby = ['pod']\nmatch = {pod = '('}", "number 1"),
        ("[[job]]\nby = ['pod']\nname = '{pod'", "brace"),
        ("[[job]]\nby = ['pod']\nname = '{pod.x}'", "in braces only"),
        ("pue = 9\n[[job]]\nby = ['pod']", "from 1 to 5"),
        ("[[job]", "line 1"),
    ],
)
def test_a_mapping_that_cannot_be_used_says_where(tmp_path, text, said):
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(MappingError) as error:
        read_mapping(path)
    assert said in str(error.value)


def test_the_command_imports_and_says_what_is_wrong(prometheus, home, tmp_path):
    prometheus.add(ENERGY, labels("a"), counter(0, 3600))
    (tmp_path / "map.toml").write_text(MAP)
    (tmp_path / "token").write_text("secret\n")
    line = ["import", "prometheus", "--url", prometheus.url, "--map", str(tmp_path / "map.toml")]
    span = ["--from", "2026-01-01", "--to", "2026-01-01T01:00"]
    code, out, _ = gramwatt(*line, *span, "--token-file", str(tmp_path / "token"))
    assert (code, out) == (
        0,
        "imported 1 job: 0.3 kWh of 1 boards and their hosts; 0 kWh of the boards is nobody's\n",
    )
    assert set(prometheus.shown) == {"Bearer secret"}
    prometheus.refusal = "query processing would load too many samples"
    code, _, said = gramwatt(*line, *span)
    assert code == 1
    assert "too many samples" in said
    code, _, said = gramwatt(*line, "--from", "2026-01-02", "--to", "2026-01-01")
    assert (code, "is not before" in said) == (2, True)
    code, _, said = gramwatt(*line, "--from", "soon", "--to", "2026-01-01")
    assert (code, "is not a time" in said) == (2, True)
    line[line.index("--url") + 1] = "prometheus:9090"
    code, _, said = gramwatt(*line, *span)
    assert (code, "write it as http://prometheus:9090" in said) == (2, True)
    line[line.index("--url") + 1] = "http://me:secret@127.0.0.1:1"
    code, _, said = gramwatt(*line, *span)
    assert (code, "http://127.0.0.1:1 cannot be reached" in said) == (1, True)
    assert "secret" not in said


@pytest.mark.parametrize("odd", [9.2e18, float("nan"), float("inf"), 0.0])
def test_an_odd_sample_takes_no_more_than_its_steps(light, prometheus, tmp_path, odd):
    prometheus.add(ENERGY, labels("a"), counter(0, 600) | {BEGIN + 300: odd})
    answer = load(light, prometheus, tmp_path)
    (job,) = jobs(light, answer).values()
    lost_s = 30 if odd == 9.2e18 else 0
    assert energy_j(job) == answer.energy_j == pytest.approx(WATTS * (600 - lost_s))
    assert not answer.rejected
    notices = [text for text in job.head.notices if text.startswith("meter-counter-reset")]
    assert bool(notices) == bool(lost_s)


def test_a_counter_of_zeros_gives_way_to_power_and_zeros_alone_are_named(
    light, prometheus, tmp_path
):
    times = range(0, 601, 15)
    prometheus.add(ENERGY, labels("a"), {BEGIN + t: 0.0 for t in times})
    prometheus.add(POWER, labels("a"), {BEGIN + t: WATTS for t in times})
    prometheus.add(ENERGY, labels("b", "GPU-idle"), {BEGIN + t: 0.0 for t in times})
    prometheus.add(POWER, labels("b", "GPU-idle"), {BEGIN + t: 0.0 for t in times})
    answer = load(light, prometheus, tmp_path)
    (job,) = jobs(light, answer).values()
    assert energy_j(job, "integrated") == pytest.approx(WATTS * 600)
    assert answer.unread == ["GPU-idle"]
