"""Boards and slices with several users: what each is billed, against the exact whole."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.collectors.devices.shared_board import SHARED_GPU, Processes, Tenant, part_j, shares
from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.sci.records.records import DeviceRecord
from tests.collectors.rig import Rig, by_type, energy_j, gpu

uses = st.one_of(st.none(), st.floats(0, 100))
parts = st.one_of(st.none(), st.floats(0, 1))
boards = st.lists(st.tuples(uses, parts), max_size=9).map(
    lambda rows: [Tenant(f"t{n}", use, part) for n, (use, part) in enumerate(rows)]
)
joules = st.floats(0, 1e9)


def split(whole_j: float, idle_j: float, tenants: list[Tenant]) -> dict[str, float]:
    return {name: part_j(whole_j, idle_j, part) for name, part in shares(tenants).items()}


@settings(max_examples=150)
@given(joules, joules, boards)
def test_the_parts_are_at_most_the_whole_and_none_is_negative(whole_j, idle_j, board):
    parts_j = split(whole_j, idle_j, board).values()
    assert min(parts_j, default=0.0) >= 0
    assert sum(parts_j) <= whole_j * (1 + 1e-9)


@settings(max_examples=150)
@given(joules, joules, boards)
def test_used_and_reserved_energy_is_billed_in_full(whole_j, idle_j, board):
    """Dynamic energy wherever somebody worked, idle energy where the reserved parts fill the board
    or are not all known.
    """
    parts = shares(board).values()
    if any(tenant.use for tenant in board):
        assert sum(part.dynamic for part in parts) == pytest.approx(1)
    known = [tenant.reserved for tenant in board if tenant.reserved is not None]
    if board and (len(known) < len(board) or sum(known) >= 1):
        assert sum(part.idle for part in parts) == pytest.approx(1)


@settings(max_examples=50)
@given(joules, joules, boards, st.randoms())
def test_the_order_of_tenants_changes_nothing(whole_j, idle_j, board, random):
    mixed = list(board)
    random.shuffle(mixed)
    assert split(whole_j, idle_j, mixed) == pytest.approx(split(whole_j, idle_j, board))


def test_where_nobody_worked_or_no_use_is_known_the_reservation_decides():
    # 2 of 7 and 1 of 7 compute slices: 4 of 7 stay unallocated
    board = [Tenant("a", 0, 2 / 7), Tenant("b", None, 1 / 7)]
    assert split(700, 140, board) == pytest.approx({"a": 200, "b": 100})


GIB = 2**30
SHARED = {SHARED_GPU: "1"}
# A board of 80 GiB that draws 100 W idle and 500 W while somebody works, half of the time each.
BUSY = {"type": "square", "low_w": 100, "high_w": 500, "period_s": 40.0}
ME = os.getpid()
SOMEBODY = 1
"""Process 1 is there, and no descendant of ours."""
HIDDEN = 4_100_000
"""Above the kernel's highest id, as if of another namespace."""


def process(pid: int, sm: float | None, memory_gib: float | None, **more: Any) -> dict[str, Any]:
    held = None if memory_gib is None else int(memory_gib * GIB)
    return {"pid": pid, "sm_percent": sm, "memory_b": held, **more}


def gpu_j(rig: Rig, job_id: str = "job", *kinds: str) -> float:
    found = [d for d in rig.merged(job_id).devices if d.record.device_class == "gpu"]
    return sum(energy_j(device.intervals, *kinds) for device in found)


def run(rig: Rig, duration_s: float, environ: dict[str, str], pid: int = ME) -> JobMeter:
    return rig.job(duration_s, pid=pid, environ=environ)


def test_a_board_of_ones_own_is_billed_whole_idle_included(tmp_path):
    rig = Rig(tmp_path, gpu(BUSY, processes=[process(ME, 60, 8)]))
    run(rig, 400, {})
    assert gpu_j(rig, "job", "measured") == pytest.approx(300 * 400, rel=1e-3)
    assert rig.notices("gpu-shared: ") == []


@pytest.mark.parametrize(
    ("pids", "who"),
    [
        ([HIDDEN], None),  # in a container, and most often the job's own
        ([HIDDEN, HIDDEN + 1], "2 processes, not seen here, use it"),
        ([ME, HIDDEN], "other processes use it"),  # as with hidepid
        ([SOMEBODY], "other processes use it"),
        ([ME], None),
    ],
)
def test_a_reserved_board_that_others_may_be_on_is_named(tmp_path, pids, who):
    rig = Rig(tmp_path, gpu(processes=[process(pid, 60, 8) for pid in pids]))
    run(rig, 30, {})
    assert gpu_j(rig, "job", "measured") == pytest.approx(30 * 250, rel=1e-3)
    texts = rig.notices("gpu-shared: ")
    assert [who in text for text in texts] == ([True] if who else [])


def test_a_time_shared_board_is_billed_by_use_and_memory(tmp_path):
    users = [process(ME, 60, 20), process(SOMEBODY, 20, 40)]
    rig = Rig(tmp_path, gpu(BUSY, processes=users, memory_b=80 * GIB))
    rig.clock.sleep(20)  # begin in an idle half: what idle draws is known from then on
    rig.now()
    run(rig, 400, SHARED)
    # dynamic: 400 W in half of 400 s, three quarters ours; idle: 100 W for 400 s, 20 of 80 GiB ours
    assert gpu_j(rig) == pytest.approx(400 * 200 * 0.75 + 100 * 400 * 0.25, rel=0.01)
    assert gpu_j(rig, "job", "attributed") == pytest.approx(gpu_j(rig))
    device = rig.merged("job").devices[0].record
    assert device.kind == "attributed"
    assert device.share == pytest.approx(0.25, abs=0.01)
    assert any(
        f"{(60_000 + 10_000) / 120_000:.1%}"[:2] in text for text in rig.notices("gpu-shared: ")
    )


def test_a_windows_edge_between_two_ticks_leaves_the_idle_power(tmp_path):
    """A span of some ms may hold a hundredth of a tick's energy: that is no mean power."""
    users = [process(ME, 60, 20), process(SOMEBODY, 20, 40)]
    rig = Rig(tmp_path, gpu({"type": "constant", "power_w": 100}, processes=users))
    meter = rig.start(pid=ME, environ=SHARED)
    for edge_s in (0.099, 0.3, 0.05, 0.77):
        rig.run(20 + edge_s, meter)
        assert meter.devices is not None
        meter.devices.add_boundary(meter.timeline.now_ns())
    rig.run(320, meter)
    rig.stop(meter)
    # All of its power is idle power, of which 20 of 80 GiB are ours.
    assert gpu_j(rig) == pytest.approx(401.2 * 100 * 0.25, rel=0.02)


def test_idle_power_is_that_of_the_quietest_second_where_the_driver_gives_means(tmp_path):
    """Its counter is read every 10 s, and in none of these the board is idle."""
    users = [process(ME, 60, 20), process(SOMEBODY, 20, 40)]
    load = {"type": "square", "low_w": 100, "high_w": 500, "period_s": 8}
    rig = Rig(tmp_path, gpu(load, power="mean", processes=users, memory_b=80 * GIB))
    run(rig, 400, SHARED)
    # dynamic: 400 W in half of 400 s, three quarters ours; idle: 100 W, 20 of 80 GiB ours
    assert gpu_j(rig) == pytest.approx(400 * 200 * 0.75 + 100 * 400 * 0.25, rel=0.05)


def test_processes_of_another_namespace_cannot_be_told_apart(tmp_path):
    users = [process(HIDDEN + n, 10, 1) for n in range(4)]
    rig = Rig(tmp_path, gpu(processes=users))
    run(rig, 100, SHARED)
    assert gpu_j(rig) == pytest.approx(25_000 / 4, rel=1e-3)


def test_a_board_declared_shared_whose_processes_are_not_listed_says_so(tmp_path):
    silent = [{"type": "unsupported", "call": "users"}]
    rig = Rig(tmp_path, gpu(faults=silent))
    run(rig, 100, SHARED)
    assert gpu_j(rig) == pytest.approx(25_000, rel=1e-3)
    (text,) = rig.notices("gpu-shared: ")
    assert "does not list who uses it, so it is billed whole" in text


def test_jobs_that_measure_such_a_board_divide_it_evenly(tmp_path):
    rig = Rig(tmp_path, gpu(faults=[{"type": "unsupported", "call": "users"}]))
    first, second = (rig.start(pid=ME, job_id=name, environ=SHARED) for name in "ab")
    rig.run(100, first, second)
    rig.stop(first)
    rig.stop(second)
    assert gpu_j(rig, "a") + gpu_j(rig, "b") == pytest.approx(25_000, abs=11 * 250)


def test_two_jobs_of_one_home_see_each_other_by_their_locks(tmp_path):
    rig = Rig(tmp_path, gpu())
    first = rig.start(pid=ME, job_id="a")
    rig.run(100, first)
    second = rig.start(pid=ME, job_id="b", mark=(rig.clock.mono_ns(), rig.clock.wall_ns()))
    rig.run(200, first, second)
    rig.stop(second)
    rig.run(100, first)
    rig.stop(first)
    # 400 s of 250 W once in all: 10 s at most until the first sees the second, or its end
    whole_j = gpu_j(rig, "a") + gpu_j(rig, "b")
    assert whole_j == pytest.approx(400 * 250, abs=10 * 250)
    assert gpu_j(rig, "b") == pytest.approx(200 * 125, rel=0.01)
    assert gpu_j(rig, "a", "measured") == pytest.approx(200 * 250, abs=10 * 250)
    assert rig.merged("a").devices[0].record.share == pytest.approx(0.75, abs=0.02)
    assert [path for path in (tmp_path / "boards").rglob("*") if path.is_file()] == []


def test_two_jobs_on_one_slice_divide_it(tmp_path):
    rig = Rig(tmp_path, gpu(slices=[["MIG-a", 2 / 7], ["MIG-b", 1 / 7]]))
    environ = {"CUDA_VISIBLE_DEVICES": "MIG-a"}
    meters = [rig.start(pid=ME, job_id=name, environ=environ) for name in "ab"]
    rig.run(60, *meters)
    for meter in meters:
        rig.stop(meter)
    whole_j = gpu_j(rig, "a") + gpu_j(rig, "b")
    assert whole_j == pytest.approx(60 * 250 * 2 / 7, rel=0.03)
    assert rig.merged("b").devices[0].record.share == pytest.approx(1 / 7, rel=0.03)


def test_slices_of_one_board_are_read_once_and_add_up_with_the_rest(tmp_path):
    slices = [["MIG-a", 3 / 7], ["MIG-b", 2 / 7], ["MIG-c", 1 / 7]]
    rig = Rig(tmp_path, gpu(BUSY, slices=slices))
    start_ns = rig.clock.now_ns()
    first = rig.start(pid=ME, job_id="a", environ={"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-c"})
    second = rig.start(pid=ME, job_id="b", environ={"CUDA_VISIBLE_DEVICES": "MIG-b"})
    rig.run(60, first, second)
    calls = rig.nvml.calls
    rig.run(60, first)
    each_s = (rig.nvml.calls - calls) / 60
    rig.run(0.5, first, second)
    end_ns = rig.clock.now_ns()
    rig.stop(first)
    rig.stop(second)
    assert each_s < 3  # one reading a second for two slices; profiles 1.4, moments of power 0.5
    truth_j = rig.truth_j(start_ns, end_ns)
    a, b = gpu_j(rig, "a"), gpu_j(rig, "b")
    assert a == pytest.approx(truth_j * 4 / 7, rel=2e-3)
    assert b == pytest.approx(truth_j * 2 / 7, rel=2e-3)
    assert a + b + truth_j / 7 == pytest.approx(truth_j, rel=2e-3)
    shares = {d.record.device_id: d.record.share for d in rig.merged("a").devices}
    assert shares["MIG-a"] == pytest.approx(3 / 7)
    kinds = {r.kind for r in by_type(rig.records("a"), DeviceRecord)}
    assert "attributed" in kinds


def test_a_process_is_the_jobs_by_descent_or_by_the_id_it_was_given(tmp_path):
    def make(pid: int, parent: int, environ: bytes = b"") -> None:
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a b) c) S {parent} 1 1")
        (folder / "environ").write_bytes(environ)

    make(10, 1)
    make(11, 10)
    make(12, 11)
    make(20, 1, b"A=1\0GRAMWATT_JOB_ID=mine\0")
    make(30, 1, b"GRAMWATT_JOB_ID=mine-too\0")
    who = Processes(lambda: [10], "mine", str(tmp_path))
    assert [pid for pid in (10, 11, 12, 20, 30, 99) if who.ours(pid)] == [10, 11, 12, 20]
    assert [pid for pid in (10, 99) if who.visible(pid)] == [10]
    assert Processes(lambda: [1], "x", str(tmp_path)).ours(30)  # the job is a container's process 1
