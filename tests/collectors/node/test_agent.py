"""The node's meter: what jobs and the rest have is what the boards' counters say."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gramwatt.collectors.node.agent import with_digest
from gramwatt.collectors.node.owners import Owner, pod
from gramwatt.collectors.node.pods import Reservation
from gramwatt.sci.journal.merge import MergedJob
from tests.collectors.node.node_rig import NodeRig, energies
from tests.collectors.rig import gpu

SQUARE = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 8.0}
A, B = Owner("slurm-1", "one"), Owner("slurm-2", "two")
POD = pod("0f8f5a52-7f3c-4ab1-9d0e-0c7b1ff1c5aa", "team-a", "train-0")
OTHER = pod("1f8f5a52-7f3c-4ab1-9d0e-0c7b1ff1c5aa", "team-b", "serve-0")


def process(pid: int, at_s: float, until_s: float, **more: Any) -> dict[str, Any]:
    return {"pid": pid, "at_s": at_s, "until_s": until_s, "memory_b": 8 * 2**30, **more}


def board(rig: NodeRig, place: int = 0) -> str:
    return rig.nvml.gpus[place].uuid


def rest_of(jobs: dict[str, MergedJob]) -> str:
    (name,) = (name for name in jobs if name.startswith("rest-"))
    return name


def test_jobs_and_rest_are_the_counter_and_a_job_alone_has_the_board(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, gpu(SQUARE, processes=[process(7, 30, 90), process(8, 120, 150)]))
    rig.told.pids = {7: A, 8: B}
    agent = rig.start()
    rig.run(240, agent)
    rig.stop(agent)
    jobs = rig.jobs()
    found = energies(jobs, board(rig))
    assert sum(found.values()) == pytest.approx(rig.truth_j(), rel=1e-3)
    origin_s = rig.begun_ns / 1e9
    for name, start_s, end_s in (("slurm-1", 30, 90), ("slurm-2", 120, 150)):
        exact_j = rig.nvml.gpus[0].truth_j(origin_s + start_s, origin_s + end_s)
        assert found[name] == pytest.approx(exact_j, abs=800)  # seen within a second
        assert jobs[name].state == "completed"
        assert jobs[name].duration_s == pytest.approx(end_s - start_s, abs=1.1)
        assert {i.kind for d in jobs[name].devices[:1] for i in d.intervals} == {"measured"}
        assert {n.code for n in jobs[name].notices} == {"meter-synthetic", "end-unseen"}
    (mine,) = (d.record for d in jobs[rest_of(jobs)].devices if d.record.device_id == board(rig))
    assert mine.share == pytest.approx(150 / 240, abs=0.02)


def test_two_on_a_board_divide_it_by_use_and_memory(tmp_path: Path) -> None:
    both = [process(7, 10, 70, sm_percent=60), process(8, 10, 70, sm_percent=20)]
    rig = NodeRig(tmp_path, gpu({"type": "constant", "power_w": 400}, processes=both))
    rig.told.pids = {7: A, 8: B}
    agent = rig.start()
    agent._boards[0][1].idle_w = 100.0  # as after an idle night
    rig.run(70, agent)
    rig.stop(agent)
    found = energies(rig.jobs(), board(rig))
    assert sum(found.values()) == pytest.approx(rig.truth_j(), rel=1e-3)
    # Of 300 W dynamic three quarters and one; of 100 W idle a tenth each, by 8 of 80 GiB.
    assert found["slurm-1"] == pytest.approx(60 * (225 + 10), rel=0.03)
    assert found["slurm-2"] == pytest.approx(60 * (75 + 10), rel=0.03)


def test_what_a_pod_holds_is_its_whole_idle_or_not(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, gpu(), gpu(processes=[process(9, 0, 100)]))
    rig.told.held, rig.told.pids = [Reservation(POD, board(rig))], {9: A}
    agent = rig.start()
    rig.run(50, agent)
    rig.stop(agent)
    jobs = rig.jobs()
    assert energies(jobs, board(rig))[POD.job_id] == pytest.approx(rig.truth_j(), rel=1e-3)
    assert energies(jobs, board(rig, 1))["slurm-1"] == pytest.approx(rig.truth_j(1), rel=1e-3)
    head = jobs[POD.job_id].head
    uid = POD.job_id.removeprefix("pod-")
    assert (head.name, head.reporter) == ("train-0", "node")
    assert head.tags == {"namespace": "team-a", "pod": uid}
    assert head.scheduler["kubernetes_pod_uid"] == uid


def test_slices_and_replicas_are_parts_and_what_is_free_is_the_rest(tmp_path: Path) -> None:
    slices = [["MIG-1", 3 / 7], ["MIG-2", 2 / 7], ["MIG-3", 1 / 7]]
    rig = NodeRig(tmp_path, gpu(slices=slices), gpu())
    shared = board(rig, 1)
    rig.told.held = [
        *(Reservation(POD, "MIG-1"), Reservation(OTHER, "MIG-2")),
        *(Reservation(POD, f"{shared}::0"), Reservation(OTHER, f"{shared}::3")),
    ]
    agent = rig.start()
    rig.run(60, agent)
    rig.stop(agent)
    jobs = rig.jobs()
    whole_j = rig.truth_j()
    assert energies(jobs, "MIG-1")[POD.job_id] == pytest.approx(whole_j * 3 / 7, rel=1e-3)
    assert energies(jobs, "MIG-2")[OTHER.job_id] == pytest.approx(whole_j * 2 / 7, rel=1e-3)
    rest_j = energies(jobs, board(rig))[rest_of(jobs)]
    assert rest_j == pytest.approx(whole_j * 2 / 7, rel=1e-3)
    halves = energies(jobs, shared)
    assert halves[POD.job_id] == halves[OTHER.job_id] == pytest.approx(whole_j / 2, rel=1e-3)
    (part,) = (d for d in jobs[POD.job_id].devices if d.record.device_id == "MIG-1")
    assert part.record.share == pytest.approx(3 / 7)
    assert {i.kind for i in part.intervals} == {"attributed"}


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_next_agent_goes_on_and_counts_the_gap_once(tmp_path: Path, how: str) -> None:
    rig = NodeRig(tmp_path, gpu(SQUARE, processes=[process(7, 20, 200), process(8, 35, 62)]))
    rig.told.pids = {7: A, 8: B}
    for gap_s in (7, 33):
        agent = rig.start()
        rig.run(43.7, agent)
        rig.kill(agent) if how == "kill" else rig.stop(agent)
        rig.clock.sleep(gap_s)
    agent = rig.start()
    rig.run(150, agent)
    rig.stop(agent)
    jobs = rig.jobs()
    assert sum(energies(jobs, board(rig)).values()) == pytest.approx(rig.truth_j(), rel=1e-3)
    assert jobs["slurm-1"].duration_s == pytest.approx(180, abs=1.1)
    assert sum(energies(jobs, f"{agent.node}-ram").values()) == pytest.approx(
        0.19 * 64 * (2 * 43.7 + 40 + 150), rel=1e-3
    )


def test_a_driver_that_is_not_up_when_the_next_agent_starts_loses_nothing(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, gpu(SQUARE, processes=[process(7, 0, 400)]))
    rig.told.pids = {7: A}
    agent = rig.start()
    rig.run(43.7, agent)
    rig.stop(agent)
    for away_s in (12, 25):  # the second of these agents ends before the driver is back
        rig.nvml._absent = "the driver is being loaded"
        agent = rig.start()
        rig.run(away_s, agent)
        if away_s == 12:
            rig.stop(agent)
    rig.nvml._absent = None
    rig.run(120, agent)
    rig.stop(agent)
    jobs = rig.jobs()
    assert energies(jobs, board(rig))["slurm-1"] == pytest.approx(rig.truth_j(), rel=1e-3)


def of_another_release(state: dict[str, Any]) -> str:
    return with_digest({**state, "form": 0})


def changed(*place: str | int, value: object) -> Callable[[dict[str, Any]], str]:
    def change(state: dict[str, Any]) -> str:
        inside: Any = state
        for name in place[:-1]:
            inside = next(iter(inside.values())) if name == "any" else inside[name]
        inside[place[-1]] = value
        return json.dumps(state)

    return change


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda _, text=text: text for text in ("", "[]", "{", '{"boot": "boot-1"}', "\xff")),
        of_another_release,
        changed("jobs", 0, "last_ns", value="soon"),
        changed("jobs", 0, "reserved_s", value={"board": "long"}),
        changed("jobs", 0, "owner", value=["slurm-1"] * 9),
        changed("jobs", 0, "open", "any", value={"start_ns": None}),
        changed("devices", "any", "mark", value=3),
        changed("devices", "any", "counter_mj", value=[]),
        changed("host", "cpu", value=5),
        changed("boards", "any", value=True),
        changed("cgroups", value={"slurm-1": 7}),
        changed("offset_ns", value=10**30),
    ],
)
def test_a_state_that_cannot_be_read_is_set_aside_with_a_notice(
    tmp_path: Path, damage: Callable[[dict[str, Any]], str]
) -> None:
    rig = NodeRig(tmp_path, gpu(SQUARE, processes=[process(7, 0, 400)]))
    rig.told.pids = {7: A}
    agent = rig.start()
    rig.run(43.7, agent)
    rig.kill(agent)
    path = agent.state_path
    text = damage(json.loads(path.read_text()))
    path.write_bytes(text.encode("latin-1"))
    agent = rig.start()
    rig.run(60, agent)
    rig.stop(agent)
    assert path.with_suffix(".unreadable").read_bytes() == text.encode("latin-1")
    assert [line for line in rig.said if "state was damaged" in line] == [
        "meter-gap: the agent's state was damaged or of another release; what was measured since "
        "its last journal line is not known (state.unreadable)."
    ]
    own_j = energies(rig.jobs(), board(rig))["slurm-1"]
    assert 0.8 * rig.truth_j() < own_j <= rig.truth_j() * 1.001
    before = len(rig.said)
    rig.stop(rig.start())
    assert not any("state was damaged" in line for line in rig.said[before:])


def test_a_kill_between_two_files_doubles_nothing(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, gpu(processes=[process(7, 0, 500)]))
    rig.told.pids = {7: A}
    agent = rig.start()
    rig.run(35, agent)
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "spool", before)
    rig.run(10, agent)  # the state is newer now than what is put back
    rig.kill(agent)
    shutil.rmtree(tmp_path / "spool")
    before.rename(tmp_path / "spool")
    agent = rig.start()
    rig.run(60, agent)
    rig.stop(agent)
    found = sum(energies(rig.jobs(), board(rig)).values())
    assert found <= rig.truth_j() * 1.0001
    assert found >= rig.truth_j() - 10 * 250 - 1  # at most the 10 s of docs/journal.md


def test_the_host_is_divided_by_boards_and_processor_time(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, gpu(processes=[process(7, 20, 80)]), gpu(), gpu(), gpu())
    group = tmp_path / "cgroup" / "job"
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("usage_usec 0\n")
    rig.told.pids = {7: Owner("slurm-1", group="/../job")}
    agent = rig.start()
    rig.run(81, agent)
    rig.stop(agent)
    jobs = rig.jobs()
    ram = energies(jobs, f"{agent.node}-ram")
    assert ram["slurm-1"] == pytest.approx(0.19 * 64 * 60 / 4, rel=0.03)
    assert sum(ram.values()) == pytest.approx(0.19 * 64 * 81, rel=1e-3)
    cpu = energies(jobs, f"{agent.node}-cpu")
    assert 0 < cpu["slurm-1"] < sum(cpu.values()) / 4


def test_the_rest_closes_each_day_and_a_job_goes_on(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, gpu(processes=[process(7, 1000, 90_000)]))
    rig.told.pids = {7: A}
    agent = rig.start()  # at 22:13:20
    rig.run(2 * 3600, agent, least_s=60)
    jobs = rig.jobs()
    first, second = sorted(name for name in jobs if name.startswith("rest-"))
    assert (first[-8:], second[-8:]) == ("20231114", "20231115")
    assert jobs[first].state == "completed"
    assert jobs[first].ended_at is not None
    assert jobs[first].ended_at.hour == jobs[first].ended_at.minute == 0
    assert jobs["slurm-1"].ended_at is None
    rig.stop(agent)
    total_j = sum(energies(rig.jobs(), board(rig)).values())
    assert total_j == pytest.approx(rig.truth_j(), rel=1e-3)


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder whose renames do not wait for a disk: a month has fifteen thousand."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_days_with_restarts_have_every_joule_once_in_bounded_room(in_memory: Path) -> None:
    days_with_restarts(in_memory, 3)


def days_with_restarts(home: Path, days: int) -> None:
    """A service and short jobs on two boards; agents are killed and stopped in turn."""
    day_s = 86_400.0
    one = gpu(SQUARE, processes=[process(7, 3600, (days - 1) * day_s)])
    starts_s = range(40_000, int((days - 1) * day_s), 40_000)
    spans = [(float(at_s), at_s + 11_000.0) for at_s in starts_s]
    two = gpu(SQUARE, processes=[process(100 + n, *span) for n, span in enumerate(spans)])
    rig = NodeRig(home, one, two)
    rig.told.pids = {7: A, **{100 + n: Owner(f"slurm-{100 + n}") for n in range(len(spans))}}
    left_s, kills = days * day_s, 0
    while left_s > 0:
        agent = rig.start()
        for_s = min(left_s, 61_234.0)
        rig.run(for_s, agent, least_s=600)
        kills += 1
        rig.kill(agent) if kills % 2 else rig.stop(agent)
        rig.clock.sleep(240)
        left_s -= for_s + 240
    agent = rig.start()
    rig.run(300, agent)
    rig.stop(agent)
    jobs = rig.jobs()
    for place in (0, 1):
        total_j = sum(energies(jobs, board(rig, place)).values())
        assert total_j == pytest.approx(rig.truth_j(place), rel=1e-3)
    assert len([name for name in jobs if name.startswith("slurm-")]) == 1 + len(spans)
    assert len([name for name in jobs if name.startswith("rest-")]) == days + 1
    assert jobs["slurm-1"].duration_s == pytest.approx((days - 1) * day_s - 3600, abs=1300)
    assert os.stat(agent.state_path).st_size < 20_000
