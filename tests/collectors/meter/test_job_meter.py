"""What the meter books, against the exact integral, on a virtual clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from gramwatt.collectors.meter.job_meter import PROCESSES_MAX
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.records.records import (
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
)
from tests.collectors.rig import MACHINE, Rig, by_type, energy_j, gpu

SQUARE = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 2.0}
WAVES: list[dict[str, Any]] = [
    SQUARE,
    {**SQUARE, "period_s": 20.0},
    {"type": "square", "low_w": 100, "high_w": 400, "period_s": 0.97, "duty": 0.7},
    {"type": "square", "low_w": 100, "high_w": 700, "period_s": 0.137},
    {"type": "sine", "mean_w": 400, "amplitude_w": 300, "period_s": 3.3},
    {"type": "ramp", "low_w": 50, "high_w": 700, "period_s": 7.1},
    {"type": "steps", "low_w": 80, "high_w": 700, "step_s": 0.21, "seed": 3},
]


def test_intervals_are_contiguous_and_each_cut_is_where_the_schedule_says(tmp_path):
    rig = Rig(tmp_path, gpu())
    rig.clock.sleep(7.3)
    rig.now()
    rig.job(2 * 3600)
    intervals = rig.gpu_intervals()
    assert energy_j(intervals, "measured") == pytest.approx(250 * 7200, abs=1e-3)
    assert energy_j(intervals, "estimated", "integrated") == 0
    start = datetime.fromtimestamp(1_700_000_007.3, UTC)
    assert intervals[0].start == start
    assert all(a.end == b.start for a, b in zip(intervals, intervals[1:], strict=False))
    for interval in intervals[1:-1]:
        age_s = (interval.start - start).total_seconds()
        step_s = 10 if age_s < 300 else 60 if age_s < 3600 else 300
        assert interval.end.timestamp() % step_s == 0
        assert interval.end - interval.start <= timedelta(seconds=step_s)
    # 300 s in tens, the first one short; a minute each from there; twelve 5-minute ones an hour
    assert 31 + 55 + 12 <= len(intervals) <= 31 + 56 + 14


@pytest.mark.parametrize("wave", WAVES, ids=lambda wave: f"{wave['type']}-{wave.get('period_s')}")
@pytest.mark.parametrize(("duration_s", "bound"), [(10, 0.01), (60, 0.002)])
def test_error_against_the_exact_integral(tmp_path, wave, duration_s, bound):
    draw = Random(f"{wave}{duration_s}")
    for number in range(2):
        rig = Rig(tmp_path / str(number), gpu(wave))
        rig.clock.sleep(draw.uniform(0, 30))
        rig.now()
        start_ns = rig.clock.now_ns()
        meter = rig.start()
        rig.run(duration_s + draw.random(), meter)
        end_ns = rig.clock.now_ns()
        rig.stop(meter)
        truth_j = rig.truth_j(start_ns, end_ns)
        assert energy_j(rig.gpu_intervals()) == pytest.approx(truth_j, rel=bound)


def test_what_lies_before_the_first_reading_is_extrapolated_and_said_so(tmp_path):
    rig = Rig(tmp_path, gpu())
    rig.clock.sleep(0.2)  # the meter takes this long to come up
    rig.job(20)
    first = rig.gpu_intervals()[0]
    assert (first.kind, first.energy_j) == ("estimated", pytest.approx(250 * 0.2))
    assert first.end - first.start == timedelta(seconds=0.2)


def test_a_command_that_did_not_wait_for_a_slow_driver_is_billed_from_its_begin(
    tmp_path, monkeypatch
):
    rig = Rig(tmp_path, gpu())
    rig.enter(waits=True)

    def slow() -> None:
        rig.clock.sleep(8)
        begin = {"cmd": "begin", "pid": 100, "at_ns": rig.clock.now_ns()}
        rig.processes[rig.memory().path, 100].append(begin)
        rig.clock.sleep(2)

    monkeypatch.setattr(rig.nvml, "open", slow)
    rig.job(10)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(12 * 250, rel=1e-3)
    assert energy_j(rig.gpu_intervals(), "estimated") == pytest.approx(2 * 250, rel=1e-3)


def test_without_a_counter_power_is_integrated_ten_times_a_second(tmp_path):
    rig = Rig(tmp_path, gpu(SQUARE, counter=False))
    start_ns = rig.clock.now_ns()
    meter = rig.start()
    calls = rig.nvml.calls
    rig.run(60, meter)
    assert 600 <= rig.nvml.calls - calls <= 1_300
    end_ns = rig.clock.now_ns()
    rig.stop(meter)
    intervals = rig.gpu_intervals()
    assert {i.kind for i in intervals} == {"integrated"}
    assert energy_j(intervals) == pytest.approx(rig.truth_j(start_ns, end_ns), rel=0.01)
    device = by_type(rig.records(), DeviceRecord)[0]
    assert (device.kind, device.meter) == ("integrated", "nvml-synthetic")


@pytest.mark.parametrize(
    ("fault", "integrated_s"),
    [
        ({"type": "reset", "at_s": 30.55}, 1),
        ({"type": "backward", "at_s": 30.55, "joules": 500}, 1),
        ({"type": "spike", "at_s": 30.55, "until_s": 33.55, "joules": 1e9}, 2),
        ({"type": "frozen", "at_s": 30.55, "until_s": 60.55}, 31),
        ({"type": "frozen", "at_s": 30.55, "until_s": 60.55, "catches_up": True}, 31),
    ],
    ids=lambda value: str(value.get("type")) if isinstance(value, dict) else "",
)
def test_a_counter_that_lies_is_replaced_by_power_for_that_span_only(tmp_path, fault, integrated_s):
    rig = Rig(tmp_path, gpu(faults=[fault]))
    meter = rig.job(100)
    intervals = rig.gpu_intervals()
    # A tick that is rejected may hold or lack one update period (0.1 s x 250 W) at each side.
    assert energy_j(intervals) == pytest.approx(250 * 100, abs=55)
    spans = [(i.end - i.start).total_seconds() for i in intervals if i.kind == "integrated"]
    assert sum(spans) == pytest.approx(integrated_s, abs=1.1)
    assert any(text.startswith("meter-counter-reset: ") for text in meter.notices)


def test_calls_that_are_not_supported_are_told_apart(tmp_path):
    faults = [
        {"type": "unsupported", "call": "fields"},
        {"type": "unsupported", "call": "power"},
        {"type": "unsupported", "call": "utilisation"},
    ]
    rig = Rig(tmp_path, gpu(faults=faults))
    rig.job(30)
    intervals = rig.gpu_intervals()
    assert energy_j(intervals, "measured") == pytest.approx(7_500, rel=1e-3)
    assert {i.utilisation_mean for i in intervals} == {None}
    assert intervals[1].memory_peak_b == 40 * 2**30


def test_a_counter_that_fails_for_a_while_loses_nothing(tmp_path):
    fault = {"type": "failing", "at_s": 20.5, "until_s": 50.5}
    rig = Rig(tmp_path, gpu(faults=[fault]))
    meter = rig.job(100)
    assert energy_j(rig.gpu_intervals(), "measured") == pytest.approx(25_000, rel=1e-6)
    assert any(text.startswith("meter-gap: ") for text in meter.notices)


def test_a_lost_gpu_is_estimated_and_the_others_go_on(tmp_path):
    rig = Rig(tmp_path, gpu(faults=[{"type": "lost", "at_s": 40.5}]), gpu())
    meter = rig.job(100)
    assert energy_j(rig.gpu_intervals(0), "measured") == pytest.approx(250 * 40, abs=30)
    assert energy_j(rig.gpu_intervals(0)) == pytest.approx(25_000, rel=1e-3)
    assert energy_j(rig.gpu_intervals(1)) == pytest.approx(25_000, rel=1e-6)
    assert any("the device was lost" in text for text in meter.notices)


def test_a_device_nothing_can_be_read_of_has_no_energy_rather_than_zero(tmp_path):
    faults = [{"type": "unsupported", "call": name} for name in ("fields", "energy", "power")]
    rig = Rig(tmp_path, gpu(faults=faults))
    meter = rig.job(30)
    assert rig.gpu_intervals() == []
    assert any(text.startswith("energy-unmeasured: ") for text in meter.notices)
    assert by_type(rig.records(), DeviceRecord)[0].device_class == "gpu"


def test_a_gap_of_days_is_cut_at_days(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(50, meter)
    rig.clock.suspend(3 * 86_400)
    rig.run(50, meter)
    rig.stop(meter)
    intervals = rig.gpu_intervals()
    assert max(i.end - i.start for i in intervals) == timedelta(days=1)
    assert energy_j(intervals) == pytest.approx(250 * (3 * 86_400 + 100), rel=1e-9)


def test_a_clock_that_is_set_bends_no_duration(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(50, meter)
    rig.clock.jump_wall(-7200)
    rig.run(50, meter)
    rig.clock.jump_wall(90_000)
    rig.run(50, meter)
    rig.stop(meter)
    intervals = rig.gpu_intervals()
    assert intervals[-1].end - intervals[0].start == timedelta(seconds=150)
    assert all(a.end == b.start for a, b in zip(intervals, intervals[1:], strict=False))


def test_the_profile_is_kept_with_the_energy(tmp_path):
    rig = Rig(tmp_path, gpu(SQUARE, utilisation_percent=80))
    rig.job(60)
    second = rig.gpu_intervals()[1]
    assert (second.utilisation_mean, second.utilisation_max) == (0.8, 0.8)
    assert (second.power_max_w, second.memory_peak_b) == (700, 40 * 2**30)
    device = by_type(rig.records(), DeviceRecord)[0]
    assert (device.power_limit_w, device.memory_b) == (700, 80 * 2**30)
    assert (device.units, device.units_total, device.share) == (1, 1, 1)


def test_a_module_that_another_rank_brings_holds_the_host_from_then_on(tmp_path):
    """Rank 0 sees no GPU and measures the host; rank 1 brings a Grace-Hopper 20 s later."""
    rig = Rig(tmp_path, gpu(name="NVIDIA GH200 480GB"))
    first = rig.start(environ={"CUDA_VISIBLE_DEVICES": ""})
    rig.run(20, first)
    rig.now()
    rig.enter(101, "track", environ={"CUDA_VISIBLE_DEVICES": "0"})
    rig.run(60, first)
    rig.stop(first, pid=101)
    rig.stop(first)
    devices = {d.record.device_class: d.intervals for d in rig.merged().devices}
    assert energy_j(devices["gpu"]) == pytest.approx(250 * 60, rel=0.01)
    assert energy_j(devices["ram"]) == pytest.approx(64 * 0.19 * 20)
    assert max(i.end for i in devices["cpu"]) <= min(i.start for i in devices["gpu"])


def test_the_host_without_codecarbon_is_modelled_from_load_and_size(tmp_path):
    rig = Rig(tmp_path)
    meter = rig.job(100)
    devices = {d.record.device_class: d for d in rig.merged().devices}
    # 64 GiB x 0.19 W/GB x 100 s
    assert energy_j(devices["ram"].intervals) == pytest.approx(64 * 0.19 * 100, rel=1e-6)
    # 8 threads between 0.63 and 3.35 W
    assert 8 * 0.63 * 100 <= energy_j(devices["cpu"].intervals) <= 8 * 3.35 * 100
    assert {i.kind for d in devices.values() for i in d.intervals} == {"estimated"}
    assert devices["cpu"].record.name == MACHINE.cpu_name
    assert any(text.startswith("meter-source-absent: ") for text in meter.notices)


@pytest.mark.parametrize("unit", ["1st", "a/b", None])
def test_a_count_without_a_meaning_is_said_and_left_out(tmp_path, unit):
    rig = Rig(tmp_path)
    meter = rig.start(config={"units": ()})
    rig.count(1, unit)
    rig.run(1, meter)
    rig.stop(meter)
    assert by_type(rig.records(), CountRecord) == []
    assert any(text.startswith("argument-ignored: ") for text in meter.notices)


def test_the_records_say_who_ran_and_how_it_ended(tmp_path):
    rig = Rig(tmp_path)
    environ = {"RANK": "3", "SLURM_JOB_ID": "77", "CUDA_VISIBLE_DEVICES": ""}
    settings = {"project": "vision", "zone": "DE", "tags": {"a": "b"}}
    meter = rig.start(role="track", environ=environ, config=settings)
    rig.run(5, meter)
    rig.stop(meter, "killed", signal=15)
    job, end = by_type(rig.records(), JobRecord)[0], by_type(rig.records(), EndRecord)[0]
    assert (job.role, job.rank, job.project, job.zone) == ("track", 3, "vision", "DE")
    assert (job.units, job.tags) == (("image",), {"a": "b", "slurm": "77"})
    assert job.scheduler["slurm_job_id"] == "77"
    assert (end.state, end.signal, end.exit_code) == ("killed", 15, None)
    assert end.ended_at - job.started_at == timedelta(seconds=5)
    assert end.meter_cpu_s is not None
    assert 1e6 < (end.meter_rss_b or 0) < 1e10
    assert sorted(r.seq for r in rig.records()) == list(range(1, len(rig.records()) + 1))


@pytest.mark.parametrize("late_s", [0.0, 0.06])
def test_a_job_that_no_tick_fell_into_is_booked_once(tmp_path, late_s):
    rig = Rig(tmp_path, gpu(update_period_s=1000.0))
    rig.clock.sleep(late_s)  # the job began before its meter
    rig.job(0.04)
    written = [r for r in by_type(rig.records(), IntervalRecord) if r.device_id.startswith("GPU")]
    assert sum(r.energy_j for r in written) == pytest.approx(250 * (late_s + 0.04), rel=1e-3)
    assert all(first.end <= then.start for first, then in zip(written, written[1:], strict=False))


def test_a_reading_that_was_interrupted_is_taken_once_more(tmp_path):
    rig = Rig(tmp_path, gpu({"type": "constant", "power_w": 500}, update_period_s=0.001))
    meter = rig.start()
    rig.run(20, meter)
    fields, waits = rig.nvml.fields, [0.3]

    def interrupted(index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        answer = fields(index, ids)
        while waits:
            rig.clock.sleep(waits.pop())
        return answer

    rig.nvml.fields = interrupted  # type: ignore[method-assign]
    end_ns = rig.clock.now_ns()
    rig.stop(meter)
    # The value at the stop, read 0.3 s before the call returned, would lie in its middle: 75 J off.
    assert not waits
    assert energy_j(rig.gpu_intervals()) == pytest.approx(500 * (end_ns / NS_PER_S - 1_000), abs=5)


@pytest.mark.parametrize("open_s", [0.0, 1.0, 4.0])
def test_what_the_meter_takes_to_start_is_not_the_commands(tmp_path, open_s):
    rig = Rig(tmp_path, gpu())
    count = rig.nvml.count

    def slow() -> int:
        rig.clock.sleep(open_s)
        return count()

    rig.nvml.count = slow  # type: ignore[method-assign]
    rig.enter(100, waits=True)
    meter = rig.start(pid=100)
    began_ns = rig.clock.now_ns()
    assert meter.memory.status()["ready"]
    line = {"cmd": "begin", "pid": 100, "at_ns": began_ns}
    rig.processes[meter.memory.path, 100].append(line)
    rig.run(10, meter)
    rig.stop(meter)
    job = rig.merged()
    assert job.duration_s == pytest.approx(10, abs=0.01)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(250 * 10, rel=0.01)


def test_workers_that_end_leave_no_files_and_their_windows_are_journaled(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(12, meter)
    for pid in range(1_000, 1_000 + 2 * PROCESSES_MAX):
        rig.enter(pid, "worker")
        rig.count(1, "image", pid=pid)
        edge = {"cmd": "window", "name": "batch", "start_ns": rig.clock.now_ns() - 1}
        rig.send(None, pid, **edge, end_ns=rig.clock.now_ns(), counts=[["image", 1]])
        rig.die(pid)
    meter.wake()
    meter.tick()  # they do not wait for the next 10 s: files that may be open are few
    rig.run(0.01, meter)
    assert len(meter.memory.names()) == 1
    rig.kill(meter)
    follower = rig.start()
    rig.run(30, follower)
    rig.stop(follower)
    merged = rig.merged()
    assert [(count.unit, count.amount) for count in merged.counts] == [("image", 200)]
    assert len(merged.windows) == 200
    assert not rig.notices("spool-resolution")
