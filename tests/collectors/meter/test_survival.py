"""What the collector must survive: every row of the design's table, and the test that shows it.

Job killed, out of memory (SIGKILL both)
    collectors/track/test_end_to_end.py::test_a_killed_job_is_closed_by_its_meter
    collectors/meter/test_kills_real.py::test_kills_lose_and_double_nothing
Forgotten stop
    collectors/track/test_track.py::test_a_forgotten_stop_completes_at_exit
    collectors/track/test_track.py::test_a_forgotten_stop_fails_when_the_script_does
Meter killed
    collectors/track/test_end_to_end.py::test_a_killed_meter_loses_no_energy
    collectors/track/test_end_to_end.py::test_killed_meters_lose_no_count
    collectors/spool/test_recovery.py::test_a_meter_brought_back_spans_the_gap_and_answers_for_the_dead
    collectors/spool/test_recovery.py::test_counts_survive_the_meter_once_each
    collectors/meter/test_windows.py::test_a_meter_that_came_in_between_knows_the_window_and_no_count_is_lost
Both killed, closed by sync, by the next run of the node, by the server
    collectors/track/test_end_to_end.py::test_killing_both_is_closed_by_sync_at_the_last_journaled_state
    collectors/spool/test_recovery.py::test_killing_meter_and_job_loses_at_most_ten_seconds
    collectors/meter/test_life.py::test_the_next_jobs_sync_closes_what_others_have_left
    service/tasks/test_scheduler.py::test_the_scheduler_closes_a_silent_job_by_its_own_clock
Power cut
    collectors/spool/test_recovery.py::test_a_kill_between_the_two_writes_of_a_cut_counts_once
    collectors/spool/test_recovery.py::test_after_a_reboot_nothing_is_resumed
    collectors/spool/test_recovery.py::test_the_state_of_a_torn_open_file_is_not_trusted
Container or cgroup ended
    collectors/meter/test_survival.py::test_a_container_may_end_the_moment_stop_has_returned
    collectors/meter/test_survival.py::test_a_cgroup_that_is_killed_at_once_is_closed_later
SIGTERM to the wrapper
    collectors/track/test_end_to_end.py::test_sigterm_to_the_wrapper_reaches_the_command_and_the_job_is_closed
    collectors/cli/test_run.py::test_a_command_that_dies_of_the_forwarded_signal_gives_143
    collectors/cli/test_run.py::test_the_exit_code_is_the_commands_own
Ranks on one node
    collectors/track/test_end_to_end.py::test_four_ranks_are_one_set_of_energy_and_four_sets_of_counts
    collectors/spool/test_recovery.py::test_ranks_that_see_one_gpu_each_are_measured_together
    collectors/settings/test_launches.py::test_ranks_of_a_launch_are_one_job
    collectors/meter/test_survival.py::test_processes_of_a_pool_join_the_job_that_started_them
Jobs over nodes
    collectors/settings/test_launches.py::test_nodes_of_a_launch_are_one_job
    sci/records/test_merge.py::test_order_and_duplicates_change_nothing
    sci/records/test_merge.py::test_two_containers_of_one_host_count_a_gpu_once
    collectors/spool/test_spool.py::test_a_foreign_nodes_folder_is_live_while_it_was_written_lately
Visible devices
    collectors/devices/test_visibility.py::test_cuda_visible_devices
    collectors/devices/test_visibility.py::test_a_mig_id_is_its_share_of_the_board
    collectors/devices/test_visibility.py::test_nvidia_visible_devices
    collectors/devices/test_visibility.py::test_cuda_decides_before_slurm_and_the_container_runtime
    collectors/devices/test_visibility.py::test_slurm_numbers_beyond_the_list_are_said_and_not_billed
    collectors/meter/test_job_meter.py::test_an_empty_visible_list_bills_no_gpu_and_asks_none
    collectors/meter/test_survival.py::test_what_a_kubernetes_device_plugin_hands_over_is_billed
No counter; frozen, backwards, reset, spike
    collectors/meter/test_job_meter.py::test_without_a_counter_power_is_integrated_ten_times_a_second
    collectors/meter/test_job_meter.py::test_a_counter_that_lies_is_replaced_by_power_for_that_span_only
GPU lost, NotSupported per call
    collectors/meter/test_job_meter.py::test_a_lost_gpu_is_estimated_and_the_others_go_on
    collectors/meter/test_job_meter.py::test_calls_that_are_not_supported_are_told_apart
    collectors/spool/test_recovery.py::test_a_driver_reloaded_during_the_gap_is_an_estimate_not_a_measurement
MIG, shared GPU
    collectors/devices/test_attribution.py::test_the_parts_are_at_most_the_whole_and_none_is_negative
    collectors/devices/test_attribution.py::test_slices_of_one_board_are_read_once_and_add_up_with_the_rest
    collectors/devices/test_attribution.py::test_a_time_shared_board_is_billed_by_use_and_memory
    collectors/devices/test_attribution.py::test_two_jobs_of_one_home_see_each_other_by_their_locks
Grace-Hopper
    collectors/meter/test_job_meter.py::test_grace_hopper_has_no_host_energy_on_top
No GPU, no NVML, no RAPL, no network, no home that can be written
    collectors/track/test_end_to_end.py::test_a_broken_driver_never_changes_the_exit_code
    collectors/devices/test_nvml.py::test_a_machine_without_a_driver_says_so
    collectors/meter/test_job_meter.py::test_a_device_nothing_can_be_read_of_has_no_energy_rather_than_zero
    collectors/meter/test_job_meter.py::test_the_host_without_codecarbon_is_modelled_from_load_and_size
    collectors/cli/test_app.py::test_sync_fails_and_keeps_the_journal_when_the_server_is_away
    collectors/cli/test_run.py::test_a_home_that_cannot_be_written_does_not_stop_the_command
    collectors/meter/test_life.py::test_a_home_without_locks_is_reported_at_once_and_its_ended_jobs_are_closed
    service/store/test_store.py::test_no_wal_where_the_file_system_is_not_known_to_be_local
Fork (data loaders)
    collectors/track/test_track.py::test_forked_children_count_and_end_nothing
    collectors/track/test_track.py::test_a_forked_child_starts_a_meter_only_when_the_job_has_ended
    collectors/track/test_children.py::test_what_a_fork_has_counted_is_kept_however_it_ends
Notebooks
    collectors/meter/test_survival.py::test_a_notebook_ends_by_its_own_cell_or_with_its_kernel
Re-entry
    collectors/track/test_track.py::test_nested_tracking_is_one_job_and_counts_its_own_unit
    collectors/track/test_track.py::test_two_blocks_are_two_jobs_and_the_environment_is_put_back
Nested windows
    collectors/meter/test_windows.py::test_windows_one_after_the_other_share_every_edge_and_lose_nothing
    collectors/track/test_track.py::test_windows_may_overlap
    sci/score/test_windows.py::test_nested_and_overlapping_windows_are_each_whole
Async and generator functions
    collectors/track/test_track.py::test_coroutines_stay_coroutines
    collectors/track/test_track.py::test_generators_run_inside_and_pass_everything_through
    collectors/track/test_track.py::test_async_generators_run_inside_and_pass_everything_through
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gramwatt.collectors.devices.board import Board, MigSlice
from gramwatt.collectors.devices.nvml import visible
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import CountRecord, IntervalRecord, JobRecord
from tests.collectors.track.test_end_to_end import (
    EDGES_J,
    POWER_W,
    environ,
    gpu_intervals,
    home,
    meters,
    records,
    seconds,
    start_script,
    states,
    synced,
    wait_until,
)

__all__ = ["environ"]
TESTS = Path(__file__).parents[2]


def test_every_row_of_the_table_has_its_tests() -> None:
    named = re.findall(r"^    (\S+\.py)::(\w+)$", __doc__, re.MULTILINE)
    rows = re.findall(r"^[A-Z].*$", __doc__, re.MULTILINE)[1:]
    assert len(rows) == 20
    assert len(named) >= 50
    missing = [
        f"{name}::{test}"
        for name, test in named
        if f"def {test}(" not in (TESTS / name).read_text(encoding="utf-8")
    ]
    assert missing == []


KILL_ALL = """
import signal
def kill_the_meters():
    mine = os.environ["GRAMWATT_HOME"].encode()
    for name in os.listdir("/proc"):
        try:
            command = open(f"/proc/{name}/cmdline", "rb").read()
            environ = open(f"/proc/{name}/environ", "rb").read()
            if b"collectors.meter" in command and mine in environ:
                os.kill(int(name), signal.SIGKILL)
        except (OSError, ValueError):
            pass
"""


def test_a_container_may_end_the_moment_stop_has_returned(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """When process 1 of a container ends, the kernel kills the rest: the meter too."""
    body = (
        f"{KILL_ALL}\n"
        "before = time.monotonic()\n"
        "with track(unit='image') as job:\n"
        "    begun = time.monotonic()\n"
        "    time.sleep(1.3)\n"
        "    job.count(7)\n"
        "    least_s = time.monotonic() - begun\n"
        "most_s = time.monotonic() - before\n"
        f"open({str(tmp_path / 'took')!r}, 'w').write(f'{{least_s}} {{most_s}}')\n"
        "kill_the_meters()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert start_script(environ, body, tmp_path).wait(60) == -signal.SIGKILL
    found = records(environ)
    intervals = gpu_intervals(found)
    assert states(found) == [("completed", None, None)]
    least_s, most_s = map(float, (tmp_path / "took").read_text().split())
    assert least_s - 0.01 < seconds(intervals) < most_s + 0.01
    assert sum(i.energy_j for i in intervals) == pytest.approx(
        POWER_W * seconds(intervals), abs=EDGES_J
    )
    assert sum(c.amount for c in found if isinstance(c, CountRecord)) == 7


def test_a_cgroup_that_is_killed_at_once_is_closed_later(
    environ: dict[str, str], tmp_path: Path
) -> None:
    body = f"{KILL_ALL}\nwith track() as job:\n    ready(job)\n    time.sleep(1.5)\n"
    body += "    kill_the_meters()\n"
    body += "    os.kill(os.getpid(), signal.SIGKILL)\n"
    began = time.time()
    assert start_script(environ, body, tmp_path).wait(60) == -signal.SIGKILL
    wait_until(lambda: not meters(environ), "the death of the meter")
    lasted_s = time.time() - began
    synced(environ)
    found = records(environ)
    assert [state for state, _, _ in states(found)] == ["lost"]
    job = merge(found)
    assert job.duration_s <= lasted_s
    # An interval may stand in the open file and, longer, in the final lines: merged, it is one.
    spans = [i for d in job.devices for i in d.intervals if i.device_id.startswith("GPU-")]
    assert seconds(spans) <= lasted_s


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_processes_of_a_pool_join_the_job_that_started_them(
    environ: dict[str, str], tmp_path: Path, way: str
) -> None:
    body = f"""
import multiprocessing
def work(number):
    with track(unit="image") as job:
        job.count(number)
        time.sleep(0.3)
    return number
if __name__ == "__main__":
    with track(unit="image") as job:
        ready(job)
        with multiprocessing.get_context({way!r}).Pool(2) as pool:
            assert pool.map(work, [1, 2, 3, 4]) == [1, 2, 3, 4]
        job.count(100)
        time.sleep(0.5)
"""
    del environ["GRAMWATT_JOB_ID"]
    assert start_script(environ, body, tmp_path).wait(60) == 0
    (job_id,) = os.listdir(home(environ) / "spool")
    wait_until(lambda: not meters(environ), "the end of all meters")
    found = records(environ, job_id)
    merged = merge(found)
    assert sum(count.amount for count in merged.counts) == 110
    spans = [i for device in merged.devices for i in device.intervals]
    board = [i for i in spans if i.device_id.startswith("GPU-")]
    assert seconds(board) == pytest.approx(merged.duration_s, abs=1)
    assert sum(i.energy_j for i in board) == pytest.approx(POWER_W * seconds(board), abs=EDGES_J)
    assert len([r for r in found if isinstance(r, JobRecord)]) == 1  # no meter of their own
    assert merged.state == "completed"


def test_what_a_kubernetes_device_plugin_hands_over_is_billed() -> None:
    """The plugin sets UUIDs, of boards or of slices, and the node may list more."""
    boards = [
        Board(0, "GPU-aaaa1111", "H100"),
        Board(1, "GPU-bbbb2222", "H100", (MigSlice("MIG-cccc3333", 1 / 7),)),
    ]
    for value, expected in (
        ("GPU-bbbb2222", [("MIG-cccc3333", 1 / 7)]),
        ("MIG-cccc3333", [("MIG-cccc3333", 1 / 7)]),
        ("void", [("GPU-aaaa1111", 1.0), ("MIG-cccc3333", 1 / 7)]),
        ("none", []),
    ):
        found = visible({"NVIDIA_VISIBLE_DEVICES": value}, boards)
        assert [(item.device_id, item.share) for item in found.billed] == expected


NOTEBOOK = """
from gramwatt import track
import time

tracker = track(unit="image")
job = tracker.start()

job.count(3)

1 / 0

time.sleep(0.6); job.count(4)

{last}
"""


@pytest.mark.parametrize("last", ["tracker.stop()", "pass"], ids=["stopped", "kernel ends"])
def test_a_notebook_ends_by_its_own_cell_or_with_its_kernel(
    environ: dict[str, str], last: str
) -> None:
    """An interactive interpreter is a kernel to us: an error in a cell ends nothing."""
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=NOTEBOOK.format(last=last),
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == ""
    found = records(environ)
    assert states(found) == [("completed", None, None)]
    assert sum(c.amount for c in found if isinstance(c, CountRecord)) == 7
    intervals = [r for r in found if isinstance(r, IntervalRecord)]
    assert max(i.end for i in intervals) > min(i.start for i in intervals)
