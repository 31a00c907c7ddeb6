"""Jobs of a real Slurm, measured by the scripts that `gramwatt slurm install` writes."""

from __future__ import annotations

import time

import pytest

from gramwatt.sci.figures.document import JobDoc
from gramwatt.service.common.errors import UnknownJobError
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.local_spool import ingest_local_spool, open_store
from tests.clusters.conftest import Slurm

BOARD = "GPU-00000000-0000-4000-8000-000000000001"


def ended(slurm: Slurm, job: str) -> JobDoc:
    """Return a job's document once Slurm, and the meter of its last attempt, have ended it."""
    slurm.until(lambda: job not in slurm.run("squeue", "-h", "-o", "%A"), f"the end of {job}")
    runs = slurm.folder / "runs"
    slurm.until(lambda: not list(runs.glob(f"{job}.*")), f"the meter of {job}")
    found: list[JobDoc] = []

    def known() -> bool:
        service = open_store(slurm.home)
        try:
            ingest_local_spool(service)
            found[:] = [job_document(service, f"slurm-test-{job}").document]
        except UnknownJobError:
            return False
        finally:
            service.store.close()
        return found[0].state != "running"

    slurm.until(known, f"the score of {job}")
    return found[0]


def windows(document: JobDoc) -> dict[str, float]:
    return {window.name: window.energy_j.value for window in document.windows if window.energy_j}


def gpu_j(document: JobDoc) -> float:
    [board] = [device for device in document.devices if device.device_class == "gpu"]
    assert board.device_id == BOARD  # the job's board of two
    assert board.energy_j is not None
    return board.energy_j.value


def test_a_job_with_steps_is_measured_once_however_many_tasks_it_has(slurm):
    # The meter looks from a few seconds after the job's begin on, and then once a second.
    script = "sleep 10\nsrun -n 2 sleep 5\nsrun -n 1 sleep 5\nexit 3"
    document = ended(slurm, slurm.submit(script, "-n2", "--job-name=train"))
    assert (document.state, document.exit_code) == ("failed", 3)
    assert document.tags["slurm_name"] == "train"
    # 300 W of one board for as long as the job was there, whatever its tasks.
    assert gpu_j(document) == pytest.approx(300 * document.duration_s, rel=0.01)
    named = windows(document)
    assert named.keys() == {"attempt 0", "step batch", "step 0", "step 1"}
    assert named["step 0"] + named["step 1"] <= named["step batch"] <= named["attempt 0"]
    for step in ("step 0", "step 1"):
        assert 5 * 300 <= named[step] <= 9 * 300


def test_each_task_of_an_array_is_a_job_with_the_number_that_squeue_shows(slurm):
    array = slurm.submit("sleep 6", "-n1", "--array=0-1")
    slurm.until(lambda: len(slurm.run("squeue", "-h", "-t", "R").splitlines()) == 2, "both tasks")
    listed = dict(
        line.split() for line in slurm.run("squeue", "-h", "-o", "%A %K").splitlines() if line
    )
    tags = {ended(slurm, job).tags["slurm"]: number for job, number in listed.items()}
    assert tags == {f"{array}_{number}": number for number in ("0", "1")}


def test_a_requeued_job_is_one_job_with_what_each_attempt_cost(slurm):
    job = slurm.submit('[ "$SLURM_RESTART_COUNT" ] && sleep 15 || sleep 60', "-n1", "--requeue")
    names = slurm.folder / "runs" / f"{job}.0" / "names" / "names"
    slurm.until(names.exists, "the first attempt")
    time.sleep(12)
    slurm.run("scontrol", "requeue", job)

    def state() -> str:
        return slurm.run("squeue", "-h", "-j", job, "-o", "%t").strip()

    def goes_on() -> bool:
        # Slurm lets a requeued job wait two minutes.
        slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now")
        return state() not in ("PD", "CG")

    slurm.until(lambda: state() == "PD", "the end of the first attempt")
    time.sleep(2)  # within the same second Slurm 22.05 starts it again without Prolog
    slurm.until(goes_on, "the second attempt")
    # The first attempt's meter has brought its lines; the last one's may still be at its end.
    slurm.until(lambda: "attempt 1" in windows(ended(slurm, job)), "the last meter's windows")
    document = ended(slurm, job)
    named = windows(document)
    assert "attempt 0" in named
    assert document.state == "completed"
    # Between the attempts a second or two: of both, as the next begins at once here, or of none.
    assert document.energy_kwh is not None
    whole_j = document.energy_kwh.value * 3.6e6
    assert named["attempt 0"] + named["attempt 1"] == pytest.approx(whole_j, abs=3 * 300)
    assert min(named["attempt 0"], named["attempt 1"]) > 10 * 300


def test_a_script_that_cannot_work_fails_no_job_and_drains_no_node(slurm):
    settings = slurm.folder / "scripts" / "settings"
    before = settings.read_text()
    settings.write_text("if broken (\n")
    try:
        job = slurm.submit("echo done", "-n1")
        slurm.until(lambda: job not in slurm.run("squeue", "-h", "-o", "%A"), "its end")
    finally:
        settings.write_text(before)
    assert (slurm.folder / f"{job}.out").read_text() == "done\n"
    assert slurm.run("sinfo", "-h", "-o", "%T").strip() in ("idle", "mixed", "allocated")
