"""What a user reads, and waits for, when a measured job ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.packages import ROOT
from tests.patient import within_one_day
from tests.service.processes import eventually

RUN = [sys.executable, "-m", "gramwatt", "run"]
CARBON = r"[\d. ]+ [mµun]?g CO2e \([\d. ]+ to [\d. ]+\)"
LINE = re.compile(
    rf"gramwatt: [\d.]+ µ?Wh, {CARBON}; (?:estimated|half measured). More: `gramwatt job ([\w-]+)`"
)


@pytest.fixture
def environ(tmp_path):
    """A home of its own, a known zone, the host by model, the embedded store."""
    ours = ("GRAMWATT_", "SLURM_", "CUDA_")
    names = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return names | {
        "GRAMWATT_HOME": str(tmp_path / "home"),
        "GRAMWATT_HOST_SOURCE": "model",
        "GRAMWATT_ZONE": "FR",
    }


def ran(environ: dict[str, str], *words: str, line: list[str] = RUN) -> tuple[int, list[str]]:
    """Exit code of a command, and the lines on its stderr."""
    done = subprocess.run([*line, *words], capture_output=True, text=True, env=environ, timeout=120)
    return done.returncode, done.stderr.splitlines()


def scored_behind(environ: dict[str, str]) -> bool:
    """Whether the spool is emptied into the store by itself."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if not list(Path(environ["GRAMWATT_HOME"], "spool").glob("*/*/*.jsonl")):
            return True
        time.sleep(0.1)
    return False


def test_a_job_ends_with_one_line_and_is_scored_behind_it(environ):
    code, (line,) = ran(environ, "--", "sh", "-c", "sleep 0.5")
    found = LINE.fullmatch(line)
    assert (code, bool(found)) == (0, True), line
    assert scored_behind(environ)
    show = [sys.executable, "-m", "gramwatt", "job", found[1] if found else "", "--json"]

    def scored() -> dict[str, Any] | None:
        """The document; nothing while the score of what left the spool is being written."""
        shown = subprocess.run(show, env=environ, capture_output=True, text=True)
        document: dict[str, Any] = json.loads(shown.stdout)
        return document if document["revision"] else None

    document = eventually(scored, 60)
    energy_wh = document["energy_kwh"]["value"] * 1e3
    shown = re.match(r"gramwatt: ([\d.]+) (µ?)Wh, ", line)
    assert shown is not None
    unit = 1e-6 if shown[2] else 1.0
    assert float(shown[1]) * unit == pytest.approx(energy_wh, rel=0.05)  # two digits of it
    assert document["revision"] == 1


def test_six_jobs_at_once_print_six_lines(environ):
    runs = [
        subprocess.Popen([*RUN, "--", "true"], env=environ, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    lines = [line for run in runs for line in run.communicate(timeout=120)[1].splitlines()]
    assert len(lines) == 6
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert scored_behind(environ)


def test_tasks_of_one_step_that_end_together_print_one_line(environ, tmp_path):
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3"}
    wait = "touch began-$0; while [ ! -e over ]; do sleep 0.01; done"
    tasks = [
        subprocess.Popen(
            [*RUN, "--", "sh", "-c", wait, rank],
            env=environ | step | {"SLURM_PROCID": rank},
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "012"
    ]
    eventually(lambda: len(list(tmp_path.glob("began-*"))) == 3, 60)
    (tmp_path / "over").touch()
    lines = [line for task in tasks for line in task.communicate(timeout=120)[1].splitlines()]
    assert len(lines) == 1, lines
    assert LINE.fullmatch(lines[0])


def test_warnings_are_printed_once_a_day(environ):
    within_one_day()
    del environ["GRAMWATT_ZONE"]
    environ["GRAMWATT_PUE"] = "0.5"
    _, first = ran(environ, "--", "true")
    _, again = ran(environ, "--", "true")
    assert sum("pue is ignored: PUE 0.5 is outside 1 to 5" in line for line in first) == 1
    assert sum("no grid zone is set" in line and "--set zone=DE" in line for line in first) == 1
    assert len(first) == 3
    (line,) = again
    late = "is being scored" in line  # on a machine under load
    assert late or "; estimated, at the world's mean grid. More: " in line


def test_nothing_but_the_error_for_a_command_that_is_not_found(environ):
    code, lines = ran(environ, "--", "no-such-command-anywhere")
    assert code == 127
    assert lines == ["gramwatt: cannot run 'no-such-command-anywhere': command not found"]
    assert not Path(environ["GRAMWATT_HOME"], "spool").exists()


def test_a_job_that_fails_says_so(environ):
    code, (line,) = ran(environ, "--", "sh", "-c", "exit 3")
    assert code == 3
    assert re.match(r"gramwatt: failed after [\d.]+ s: [\d.]+ µ?Wh, ", line)


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(60)
    os._exit(0)
os.wait()
time.sleep(0.3)
"""


def test_a_daemon_that_outlives_the_command_leaves_a_notice(environ, tmp_path):
    script = tmp_path / "daemon.py"
    script.write_text(DAEMON)
    summary = tmp_path / "job.json"
    code, (said, _line) = ran(
        environ, "--json-summary", str(summary), "--", sys.executable, str(script)
    )
    assert code == 0
    assert "the command has left python" in said
    assert "running; what keeps running is not counted" in said
    notices = json.loads(summary.read_text())["notices"]
    assert [n["code"] for n in notices].count("processes-left") == 1


def test_work_that_a_command_has_done_elsewhere_is_reported(environ, tmp_path):
    (tmp_path / "docker").symlink_to("/bin/true")
    names = {**environ, "PATH": f"{tmp_path}:{environ.get('PATH', os.defpath)}"}
    code, said = ran(names, "--", "env", "A=b", "docker", "run", "image")
    assert code == 0
    assert [line for line in said if "docker has the work done by processes" in line]
    assert not [line for line in ran(environ, "--", "true")[1] if "work-elsewhere" in line]


def test_an_exported_job_id_does_not_make_the_meter_a_process_left_behind(environ):
    names = {**environ, "GRAMWATT_JOB_ID": "given"}
    code, said = ran(names, "--zone", "DE", "--", "sleep", "1")
    assert code == 0
    assert [line for line in said if "processes-left" in line] == []


def test_verbose_prints_every_notice_and_the_whole_summary(environ):
    _, lines = ran(environ, "-v", "--", "true")
    assert any("unit-undeclared" in line for line in lines)
    labels = [line.split("  ")[1] for line in lines if line.startswith("  ")]
    wanted = ["Energy", "Electricity", "Making the hardware", "Total", "SCI per job"]
    assert labels == [*wanted, "Data quality", "Conformance", "Notices", "Report"]


def test_a_job_whose_server_is_down_ends_with_its_line_however_often_it_is_run(environ):
    nobody = {**environ, "GRAMWATT_SERVER": "http://127.0.0.1:9"}
    see = r"http://127\.0\.0\.1:9/jobs/([\w-]+)"
    said = r" \(scored here; the server's score counts\)\. More: "
    line = re.compile(LINE.pattern.split(". More: ")[0] + said + see)
    ended = [ran(nobody, *words)[1] for words in (["--", "true"], ["-v", "--", "true"])]
    assert [sum(bool(line.fullmatch(text)) for text in lines) for lines in ended] == [1, 1]
    (first,) = (found[1] for text in ended[0] if (found := line.fullmatch(text)))
    assert ended[0][-1].startswith(f"gramwatt: {first} is not on its server yet: http://")
    assert len(ended[0]) == 2


def test_quiet_prints_nothing_at_the_end(environ):
    assert ran({**environ, "GRAMWATT_QUIET": "1"}, "--", "true") == (0, [])


def test_a_job_does_not_wait_for_the_store(environ: dict[str, str], tmp_path: Path) -> None:
    # `gramwatt sync` waits for the end of this test; neither the job nor one beside it does.
    over = tmp_path / "over"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "ends = time.monotonic() + 300\n"
        "while 'sync' in sys.orig_argv and time.monotonic() < ends:\n"
        f"    if os.path.exists({str(over)!r}): break\n"
        "    time.sleep(0.1)\n"
    )
    code, (line,) = ran({**environ, "PYTHONPATH": str(tmp_path)}, "--", "true")
    assert (code, bool(LINE.fullmatch(line))) == (0, True), line
    assert list(Path(environ["GRAMWATT_HOME"], "spool").glob("*/*/*.jsonl"))  # it waits still
    over.touch()
    assert scored_behind(environ)


def test_a_tracked_function_ends_with_the_same_line(
    environ: dict[str, str], tmp_path: Path
) -> None:
    # The figures may come too late on a machine under load: then the line has none.
    script = tmp_path / "job.py"
    script.write_text(
        "import time\nfrom gramwatt import track\n"
        "@track\ndef train():\n    time.sleep(2.5)\n"
        "train()\n"
    )
    for _ in range(5):
        _, (line,) = ran(environ, str(script), line=[sys.executable])
        if LINE.fullmatch(line):
            return
        late = r"gramwatt: [\w-]+ has ended and is being scored\. More: `gramwatt job [\w-]+`"
        assert re.fullmatch(late, line)
    pytest.fail(f"no figures in five jobs: {line}")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("zone='Germny'", ["unknown zone 'Germny'", "DE"]),
        ("region='aws:eu-west-11'", ["unknown region 'aws:eu-west-11'", "aws:eu-west-1"]),
        (
            "zone='FR', region='aws:us-east-1'",
            ["aws:us-east-1 lies in zone US-MIDA-PJM, and zone FR was given"],
        ),
    ],
)
def test_a_wrong_place_of_track_is_said_and_reported(environ, tmp_path, setting, words):
    del environ["GRAMWATT_ZONE"]
    script, facts = tmp_path / "job.py", tmp_path / "facts"
    script.write_text(
        "import json, time\nfrom gramwatt import track\n"
        "from gramwatt.collectors.track import track as module\n"
        "module.RESULT_TIMEOUT_S = 60.0\n"
        f"with track({setting}) as job:\n    time.sleep(0.3)\n"
        f"open({str(facts)!r}, 'w').write(json.dumps(job.result))\n"
    )
    _, lines = ran(environ, str(script), line=[sys.executable])
    (said,) = [line for line in lines if line.endswith("[argument-ignored]")]
    assert [word for word in words if word not in said] == []
    notices = json.loads(facts.read_text())["notices"]
    reported = " ".join(n["message"] for n in notices if n["code"] == "argument-ignored")
    assert [word for word in words if word not in reported] == []


@pytest.fixture
def bare(environ, tmp_path):
    """An installation without the extras, made of this one's other packages."""
    return without(environ, tmp_path / "site", "flask", "sqlalchemy", "codecarbon")


def without(environ: dict[str, str], site: Path, *packages: str) -> dict[str, str]:
    """The variables of an installation without some of this one's packages."""
    site.mkdir()
    mine = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    for path in mine.iterdir():
        if not path.name.lower().startswith(packages):
            (site / path.name).symlink_to(path)
    return {**environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{site}"}


BASE = [getattr(sys, "_base_executable", sys.executable), "-m", "gramwatt"]


def test_a_command_of_an_extra_names_the_extra_and_a_command_that_installs_it(bare):
    code, (what, how) = ran(bare, "jobs", line=BASE)
    assert code == 2
    assert what == "gramwatt: `jobs` needs the extra `service`; to install it:"
    assert how.endswith(f" install -e '{ROOT}[service]'")


def test_without_the_store_the_line_has_the_figures_and_the_journals_place(bare, tmp_path):
    within_one_day()
    summary = tmp_path / "job.json"
    _, (line, hint) = ran(bare, "run", "--json-summary", str(summary), "--", "true", line=BASE)
    document = json.loads(summary.read_text())
    spool = Path(bare["GRAMWATT_HOME"], "spool")
    assert " CO2e (" in line
    assert line.endswith(f"; estimated. More: {spool / document['job_id']}")
    assert f"journals wait in {spool}: set GRAMWATT_SERVER, or score them here after `" in hint
    # Once a day, also where the interpreter goes by another name.
    alias = tmp_path / "another-python"
    alias.symlink_to(Path(BASE[0]).resolve())
    assert len(ran(bare, "run", "--", "true", line=[str(alias), *BASE[1:]])[1]) == 1


def test_doctor_does_not_promise_a_score_where_nothing_scores(bare):
    done = subprocess.run([*BASE, "doctor", "--json"], capture_output=True, env=bare, timeout=60)
    found = {row["what"]: row["detail"] for row in json.loads(done.stdout)["findings"]}
    assert found["service extra"] == "not installed: jobs are spooled but not scored here"
    assert found["server"] == "none is set: jobs are spooled on this machine"


def test_doctor_names_each_package_of_the_extra_that_is_missing(environ, tmp_path):
    incomplete = without(environ, tmp_path / "site", "waitress", "vl_convert")
    line = [*BASE, "doctor", "--json"]
    done = subprocess.run(line, capture_output=True, env=incomplete, timeout=60)
    found = {row["what"]: row for row in json.loads(done.stdout)["findings"]}["service extra"]
    said = "installed without vl-convert-python, waitress: what needs that fails here"
    assert (found["state"], found["detail"]) == ("limited", said)


FULL_B = 16 * 2**20


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a disk without room: needs the right to mount."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL_B}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a file system here")
    yield folder
    # The sync behind a job may still look into it.
    unmount = ["umount", str(folder)]
    eventually(lambda: subprocess.run(unmount, capture_output=True).returncode == 0, 30)


def fill(folder: Path) -> None:
    with open(folder / "filler", "wb", buffering=0) as stream:
        try:
            while stream.write(b"x" * 4096):
                pass
        except OSError:
            return


def test_a_job_on_a_full_disk_is_journaled_elsewhere_until_its_home_has_room(
    environ, full_disk, tmp_path
):
    fill(full_disk)
    names = {**environ, "GRAMWATT_HOME": str(full_disk / "h"), "TMPDIR": str(tmp_path)}
    code, (said, line) = ran(names, "--", "sh", "-c", "exit 4")
    assert code == 4
    place = re.escape(f"{tmp_path}/gramwatt-{os.getuid()}.")
    assert re.search(
        rf"h/spool cannot be written \(No space left on device\); the job is journaled in {place}",
        said,
    )
    shown = re.search(r"More: `gramwatt (job [\w-]+)`, once \S+/h/spool can be written", line)
    assert shown, line
    done = gramwatt(names, "doctor", "--json")
    (spool,) = [f for f in json.loads(done.stdout)["findings"] if f["what"] == "spool"]
    assert (spool["state"], "No space left" in spool["detail"]) == ("limited", True)
    (full_disk / "filler").unlink()
    assert "exit code 4" in gramwatt(names, *shown[1].split()).stdout


def gramwatt(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "gramwatt", *words]
    return subprocess.run(line, env=environ, capture_output=True, text=True)


def test_a_summary_that_cannot_be_written_in_the_end_keeps_the_exit_code(environ):
    """A device cannot be tried without writing to it."""
    code, lines = ran(environ, "--json-summary", "/dev/full", "--", "sh", "-c", "exit 5")
    assert code == 5
    assert re.fullmatch(
        r"gramwatt: cannot write /dev/full: No space left on device; "
        r"see `gramwatt report job [\w-]+`",
        lines[-1],
    )


def test_a_summary_on_a_full_disk_is_refused_before_the_command_starts(
    environ, full_disk, tmp_path
):
    fill(full_disk)
    started = tmp_path / "started"
    options = ("--json-summary", str(full_disk / "job.json"))
    code, (line,) = ran(environ, *options, "--", "touch", str(started))
    said = f"gramwatt: --json-summary: {full_disk} cannot be written: No space left on device"
    assert (code, line, started.exists()) == (2, said, False)


def test_sync_says_in_one_line_that_a_summary_cannot_be_written(environ):
    """The file was asked for at the end of a job, when its disk had become full."""
    names = {**environ, "GRAMWATT_JOB_ID": "job-1"}
    assert ran(names, "--", "true")[0] == 0
    assert scored_behind(environ)
    sync = [sys.executable, "-m", "gramwatt", "sync", "--job", "job-1", "--quiet"]
    code, (line,) = ran(environ, "--summary-json", "/dev/full", line=sync)
    said = "cannot write /dev/full: No space left on device; see `gramwatt job job-1`"
    assert (code, line) == (1, f"gramwatt: {said}")


def test_a_disk_that_fills_up_during_the_job_is_said(environ, full_disk, tmp_path):
    subprocess.run(["mount", "-o", "remount,size=4m", str(full_disk)], check=True)
    script = tmp_path / "job.py"
    script.write_text(
        "import time\nfrom gramwatt import track\n"
        "with track() as job:\n"
        "    assert job._session.client.wait_ready(60)\n"
        "    time.sleep(1)\n"
        "    try:\n"
        f"        f = open({str(full_disk / 'filler')!r}, 'wb', buffering=0)\n"
        "        while f.write(b'x' * 4096): pass\n"
        "    except OSError: pass\n"
        "    for number in range(30):\n"  # a page of the journal's file has room left
        "        with job.window('w' * 400 + str(number)): pass\n"
    )
    names = {**environ, "GRAMWATT_HOME": str(full_disk / "h")}
    _, lines = ran(names, str(script), line=[sys.executable])
    (line,) = [line for line in lines if "the disk does not take the journal" in line]
    assert "No space left on device" in line or "a part of the lines" in line
    assert line.endswith("are lost, or not whole")


@pytest.mark.parametrize(
    ("driver", "ends_after_s", "text"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", 15.0, "NVML crashes when it is asked (SIGSEGV)"),
        ("time.sleep(60)", 15.0, "NVML has not answered within 5 s"),
    ],
)
def test_a_driver_that_crashes_or_hangs_costs_its_own_energy_alone(
    driver, ends_after_s, text, environ, tmp_path
):
    begin = "import os, signal, time\nclass NVMLError(Exception): pass\ndef nvmlInit(): "
    (tmp_path / "pynvml.py").write_text(begin + driver)
    environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{ROOT}"
    began = time.monotonic()
    code, lines = ran(environ, "--", "sleep", "1")
    assert (code, time.monotonic() - began < ends_after_s) == (0, True)
    assert any(text in line for line in lines)
    assert "energy not known" in lines[-1]


def test_the_run_of_mlflow_gets_the_figures_of_gramwatt_run_from_the_first_rank(environ, tmp_path):
    package = tmp_path / "fake" / "mlflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("active_run = last_active_run = lambda: None\n")
    (package / "entities.py").write_text("Metric = RunTag = lambda *fields: fields\n")
    (package / "tracking.py").write_text(
        "class MlflowClient:\n"
        "    def log_batch(self, run, metrics, tags):\n"
        "        print('logged', run, sorted(name for name, *_ in metrics)[0], flush=True)\n"
    )
    environ |= {"PYTHONPATH": str(package.parent), "MLFLOW_RUN_ID": "r1", "GRAMWATT_MLFLOW": "1"}
    address = {"MLFLOW_TRACKING_URI": "http://h"}
    for more, logged in (({}, ""), (address, "logged r1"), (address | {"RANK": "1"}, "")):
        line = [*RUN, "--", "true"]
        done = subprocess.run(line, env=environ | more, capture_output=True, text=True, timeout=60)
        assert done.stdout.startswith(logged), done.stderr
        assert bool(done.stdout) == bool(logged)
        assert ("set MLFLOW_TRACKING_URI" in done.stderr) == (not more)
