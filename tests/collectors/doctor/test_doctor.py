"""`gramwatt doctor` on machines it has never seen: what it says, and the fix it names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gramwatt.collectors.cli import run
from gramwatt.collectors.devices.board import Board, Place, Refused
from gramwatt.collectors.doctor import accelerators, host, places
from gramwatt.collectors.doctor.diagnosis import answer, examine, lines, outlook
from gramwatt.collectors.doctor.finding import Finding, Target
from gramwatt.collectors.settings.config import Config, resolve
from gramwatt.collectors.spool.spool import SpoolFolder, reject, remember_server
from gramwatt.collectors.track import session
from gramwatt.sci.score.assess import grade as grade_of
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.oddserver import OddServer
from tests.collectors.rig import gpu
from tests.collectors.vendor_fakes import write
from tests.collectors.virtual_clock import VirtualClock

WHATS = {
    *("system", "measuring", "settings", "NVML", "other vendors", "RAPL", "codecarbon"),
    *("host share", "locks", "spool", "service extra", "server", "grid zone"),
}


class Nvml(SyntheticNvml):
    """A stand-in that passes for the real library."""

    meter = "nvml"


def nvml(*boards: dict[str, Any], **spec: Any) -> Nvml:
    return Nvml({"gpus": list(boards), **spec}, VirtualClock())


def linux(root: Path, port: Any = None, **environ: str) -> Target:
    return Target(Place(root, environ, "linux", "x86_64"), port)


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_every_gpu_is_named_with_the_calls_that_do_not_answer(tmp_path):
    silent = [{"type": "unsupported", "call": "utilisation"}]
    port = nvml(gpu(name="Whole"), gpu(name="Mute", faults=silent))
    library, first, second, billed = accelerators.nvidia(linux(tmp_path, port))
    assert (library.state, library.detail) == ("ok", "driver synthetic, 2 GPUs")
    assert (first.what, first.state, first.kind, first.spread) == ("GPU 0", "ok", "measured", 0.05)
    assert first.detail.startswith("Whole GPU-0000")
    assert second.state == "limited"
    assert "no answer from nvmlDeviceGetUtilizationRates (not-supported)" in second.detail
    assert billed.detail == "no variable names any: a job here has GPU 0, GPU 1 of 2"


def test_a_gpu_without_a_counter_is_integrated_and_one_without_power_is_unknown(tmp_path):
    calls = ("energy", "power", "fields")
    dead = [{"type": "unsupported", "call": call} for call in calls]
    port = nvml(gpu(counter=False), gpu(faults=dead))
    _, first, second, _ = accelerators.nvidia(linux(tmp_path, port))
    assert (first.state, first.kind, first.spread) == ("limited", "integrated", 0.15)
    assert (second.state, second.kind) == ("missing", None)
    assert "its energy stays unknown" in second.detail


@pytest.mark.parametrize(
    ("environ", "detail", "state"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1"}, "CUDA_VISIBLE_DEVICES=1: a job here has GPU 1 of 2", "ok"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES=: a job here has no GPU of 2", "ok"),
        ({"CUDA_VISIBLE_DEVICES": "7"}, "which is not one device here", "limited"),
        ({"NVIDIA_VISIBLE_DEVICES": "0"}, "names 1 of the 2 GPUs here", "limited"),
    ],
)
def test_the_devices_of_a_job_and_what_says_so(tmp_path, environ, detail, state):
    result = accelerators.nvidia(linux(tmp_path, nvml(gpu(), gpu()), **environ))[-1]
    assert (result.what, result.state) == ("visible GPUs", state)
    assert detail in result.detail


def test_gpus_that_this_user_may_not_open_are_not_said_to_be_missing(tmp_path, monkeypatch):
    def refuse(index: int) -> Board:
        raise Refused("Insufficient Permissions")

    port = nvml(gpu(), gpu())
    monkeypatch.setattr(port, "board", refuse)
    (result,) = accelerators.nvidia(linux(tmp_path, port))
    assert result.detail == "this user may open none of 2 GPUs, so a job here has none"
    assert result.fix == "let the user read /dev/nvidia*"


def test_why_nvml_is_missing_decides_the_fix(tmp_path):
    port = nvml(absent="libnvidia-ml.so.1 not found")
    vendor = {"sys__bus__pci__devices__0000:00:04.0__vendor": "0x8086\n"}
    write(tmp_path, **vendor)
    result = only(accelerators.nvidia(linux(tmp_path, port)))
    assert (result.state, result.fix) == ("absent", None)
    write(tmp_path, **{"sys__bus__pci__devices__0000:41:00.0__vendor": "0x10de\n"})
    result = only(accelerators.nvidia(linux(tmp_path, port)))
    assert result.state == "missing"
    assert result.fix == "install NVIDIA's driver, then `nvidia-smi` must list the GPU"
    write(tmp_path, **{".dockerenv": ""})
    result = only(accelerators.nvidia(linux(tmp_path, port)))
    assert result.fix is not None
    assert "--gpus all" in result.fix
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in result.fix


def test_other_vendors_are_looked_at_with_each_device(tmp_path):
    write(tmp_path, dev__kfd="", dev__neuron0="")
    base = "sys__devices__virtual__neuron_device__neuron0__"
    write(tmp_path, **{f"{base}info__architecture__device_name": "Inferentia2\n"})
    amd, neuron, rest = accelerators.others(linux(tmp_path))
    assert (amd.what, amd.state) == ("AMD GPU", "missing")
    assert amd.fix is not None
    assert "--device=/dev/kfd" in amd.fix
    assert "its energy stays unknown" in amd.detail
    assert (neuron.what, neuron.state, neuron.kind) == ("AWS Neuron 0", "missing", None)
    assert "AWS does not publish" in neuron.detail
    assert rest.detail.startswith("no device here of: Intel Gaudi, Apple silicon")


def test_a_jetson_is_integrated_and_says_that_it_was_never_run(tmp_path):
    write(tmp_path, **{"proc__device-tree__compatible": "nvidia,tegra234\0"})
    chip = "sys__bus__i2c__drivers__ina3221__1-0040__hwmon__hwmon1__"
    rail = {"in1_label": "VDD_IN", "in1_input": "5000", "curr1_input": "1000"}
    write(tmp_path, **{chip + name: text for name, text in rail.items()})
    result = accelerators.others(linux(tmp_path))[0]
    assert (result.what, result.kind) == ("NVIDIA Jetson 0", "integrated")
    assert "never run on its hardware" in result.detail
    assert "the host is inside this figure" in result.detail


def powercap(root: Path, value: str | None = "1000000") -> None:
    zone = "sys__class__powercap__intel-rapl:0__"
    write(root, **{f"{zone}name": "package-0", f"{zone}max_energy_range_uj": "262143328850"})
    if value is not None:
        write(root, **{f"{zone}energy_uj": value})


def test_rapl_that_moves_is_measured(tmp_path):
    powercap(tmp_path)
    result = host.rapl(linux(tmp_path), lambda _: powercap(tmp_path, "1004000"))
    assert (result.state, result.kind, result.spread) == ("ok", "measured", 0.05)
    assert result.detail.startswith("package-0 readable")


def test_rapl_for_root_only_gets_the_permission_line(tmp_path):
    powercap(tmp_path, None)
    result = host.rapl(linux(tmp_path))
    assert (result.state, result.kind, result.spread) == ("limited", "estimated", 0.75)
    assert result.fix is not None
    root = tmp_path / "sys/class/powercap"
    assert result.fix.splitlines()[0] == f"sudo chmod a+r {root}/*/energy_uj"
    write(tmp_path, **{"run__.containerenv": ""})
    inside = host.rapl(linux(tmp_path))
    assert inside.fix is not None
    assert "--security-opt systempaths=unconfined" in inside.fix
    assert "chmod" in inside.fix


def test_codecarbon_is_for_counters_that_gramwatt_does_not_read(tmp_path, monkeypatch):
    asked = {"GRAMWATT_HOST_SOURCE": "codecarbon"}
    assert "no counter of CPU and memory" in host.codecarbon(linux(tmp_path, **asked)).detail
    (line,) = lines([replace(host.codecarbon(linux(tmp_path)), detail="here")], 80)
    assert line.endswith("here [estimated, x 0.42 to 1.75]")
    powercap(tmp_path)
    assert "no counter of memory" in host.codecarbon(linux(tmp_path)).detail
    assert "its counters are used" in host.codecarbon(linux(tmp_path, **asked)).detail
    zone = "sys__class__powercap__intel-rapl:0:0__"
    values = {"name": "dram", "max_energy_range_uj": "65712999613", "energy_uj": "5"}
    write(tmp_path, **{zone + name: text for name, text in values.items()})
    assert "RAPL gives CPU and memory" in host.codecarbon(linux(tmp_path)).detail
    wrong = host.codecarbon(linux(tmp_path, GRAMWATT_HOST_SOURCE="rapl"))
    assert (wrong.state, "rapl is not a valid GRAMWATT_HOST_SOURCE" in wrong.detail) == (
        "limited",
        True,
    )
    off = host.codecarbon(linux(tmp_path, GRAMWATT_HOST_SOURCE="model"))
    assert (off.state, off.fix) == ("off", "unset GRAMWATT_HOST_SOURCE")
    monkeypatch.setattr(host, "find_spec", lambda _: None)
    assert host.codecarbon(linux(tmp_path)).state == "ok"
    write(tmp_path, usr__bin__vcgencmd="")
    gone = host.codecarbon(linux(tmp_path))
    assert gone.state == "missing"
    assert "pip install -e" in str(gone.fix)  # the command of this checkout
    assert "[host]" in str(gone.fix)


def test_a_trainer_that_would_start_codecarbon_by_itself_is_told(monkeypatch):
    for installed in (set(), {"transformers", "comet_ml"}, {"codecarbon"}):
        monkeypatch.setattr(host, "find_spec", lambda name, known=installed: name in known or None)
        assert host.trackers() == []
    monkeypatch.setattr(host, "find_spec", lambda name: name)
    result, comet = host.trackers()
    assert comet.detail.startswith("Comet starts codecarbon")
    assert (result.state, 'report_to="all"' in result.detail) == ("limited", True)
    assert 'report_to="none"' in str(result.fix)


def test_the_containers_share_of_the_host_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    write(tmp_path, proc__meminfo=f"MemTotal: {1024 * 2**20} kB\n", proc__self__cgroup="0::/\n")
    whole = host.cgroup(linux(tmp_path))
    assert (whole.kind, "its own processor time" in whole.detail) == (None, True)
    limits = {"cpu.max": "400000 100000\n", "memory.max": f"{64 * 2**30}\n"}
    write(tmp_path, **{f"sys__fs__cgroup__{name}": text for name, text in limits.items()})
    part = host.cgroup(linux(tmp_path))
    assert part.detail.startswith("4 of 16 threads and 64.0 of 1024.0 GiB: the limits")
    assert part.kind == "attributed"


def test_the_spool_says_where_and_how_full(tmp_path):
    home = tmp_path / "home"
    journal = home / "spool" / "job-1" / "n-1"
    journal.mkdir(parents=True)
    (journal / "aaaaaaaaaaaa.jsonl").write_bytes(b"{}\n" * 500_000)
    os.utime(journal / "aaaaaaaaaaaa.jsonl", (1, 1))
    config = Config(home=home, spool_limit_mb=10.0)
    result = places.spool(config)
    assert result.state == "ok"
    assert result.detail.startswith(f"{home}, 1.5 of 10 MB, 1 closed or dead journals wait for")
    full = places.spool(Config(home=home, spool_limit_mb=1.0))
    assert (full.state, full.fix) == ("limited", "gramwatt sync")


UNKNOWN = b'{"code": "unauthorised", "detail": "the key is unknown, revoked or expired"}'
TAKEN = b'{"accepted": 0, "duplicate": 0, "rejected": [], "acknowledged": []}'


@pytest.mark.parametrize(
    ("head", "body", "state", "text"),
    [
        (b"200 OK", TAKEN, "ok", "takes journals"),
        (b"401 Unauthorized", UNKNOWN, "limited", "the key is unknown, revoked or expired"),
        (b"403 Forbidden", b'{"detail": "this needs ingest"}', "limited", "this needs ingest"),
        (b"200 OK", b"<html>Sign in</html>", "missing", "not as gramwatt does; check the address"),
        (b"302 Found\r\nLocation: http://sign.in/", b"", "missing", "redirects to http://sign.in/"),
        (b"500 Oops", b"{}", "limited", "answers 500"),
    ],
)
def test_the_doctor_hears_of_a_server_what_a_journal_would(tmp_path, head, body, state, text):
    lines = b"HTTP/1.1 " + head, b"Content-Length: %d" % len(body), b"Connection: close", b"", body
    other = OddServer(b"\r\n".join(lines))
    try:
        result = places.server(Config(server=other.url, api_key="gw_x", home=tmp_path))
    finally:
        other.stop()
    assert (result.state, text in result.detail) == (state, True), result.detail
    assert f"{other.url} " in result.detail
    assert (result.fix is None) == (state == "ok")


def test_journals_that_a_server_has_not_taken_are_not_well(tmp_path):
    journal = tmp_path / "spool" / "job-1" / "n-1"
    remember_server(journal, "https://gramwatt.example")
    (journal / "aaaaaaaaaaaa.jsonl").write_bytes(b"{}\n")
    os.utime(journal / "aaaaaaaaaaaa.jsonl", (1, 1))
    (journal / "server.json").touch()
    result = places.spool(Config(home=tmp_path))
    assert (result.state, result.fix) == ("limited", "gramwatt sync")
    rejected = reject(SpoolFolder(journal))
    result = places.spool(Config(home=tmp_path))
    assert (result.state, str(tmp_path / "rejected") in result.detail) == ("limited", True)
    shutil.rmtree(rejected.parents[1])
    assert places.spool(Config(home=tmp_path)).state == "ok"


def test_every_wrong_setting_is_told(home, monkeypatch):
    monkeypatch.setenv("GRAMWATT_PUE", "many")
    monkeypatch.setenv("GRAMWATT_ZONE", "XX")
    result = places.settings(resolve())
    assert {finding.state for finding in result} == {"limited"}
    assert any("pue" in finding.detail.lower() for finding in result)
    assert any("XX" in finding.detail for finding in result)
    assert places.zone(resolve()).state == "missing"


def test_a_check_that_fails_is_one_finding_and_the_rest_goes_on(tmp_path):
    class Broken(Nvml):
        def count(self) -> int:
            raise RuntimeError("driver gone")

    port = Broken({"gpus": []}, VirtualClock())
    findings = examine(Config(home=tmp_path), linux(tmp_path, port))
    failed = [finding for finding in findings if "driver gone" in finding.detail]
    assert [finding.what for finding in failed] == ["NVML"]
    assert {finding.what for finding in findings} == WHATS


NOT_ON_WINDOWS = """
import os, signal, sys, time
for name in ("fcntl", "pwd", "resource", "termios"):
    sys.modules[name] = None
for module, names in {
    os: ("getuid", "fork", "posix_spawn", "uname", "setpriority", "register_at_fork", "getloadavg"),
    time: ("CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "clock_gettime_ns"),
    signal: ("pthread_sigmask", "SIGHUP", "SIGQUIT", "SIGCHLD", "SIGUSR1", "sigtimedwait"),
}.items():
    for name in names:
        delattr(module, name)
"""
DOCTOR = """
from pathlib import Path
from gramwatt.collectors import cli
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.doctor.finding import Target
from gramwatt.collectors.doctor.diagnosis import examine, lines
from gramwatt.collectors.devices.board import Place
target = Target(Place(Path("/nowhere"), {}, "win32", "AMD64"))
print("\\n".join(lines(examine(Config(home=Path("/nowhere")), target), 80)))
"""


def test_windows_is_refused_in_words_and_not_by_a_traceback():
    """In an interpreter without what Windows lacks."""
    line = [sys.executable, "-c", NOT_ON_WINDOWS + DOCTOR]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("system         missing  gramwatt measures on Linux and macOS")
    assert "fix: wsl --install" in done.stdout
    assert "RAPL" not in done.stdout
    assert "failed" not in done.stdout


def test_a_job_on_windows_runs_unmeasured_and_is_told_once(monkeypatch, capfd):
    monkeypatch.setattr(run, "refused", lambda: "not on this system")
    monkeypatch.setattr(session, "refused", lambda: "not on this system either")
    command = [sys.executable, "-c", "print('done'); raise SystemExit(3)"]
    assert run.run_command(command, {}, run.RunOptions()) == 3
    assert run.run_command(command, {}, run.RunOptions(strict=True)) == 1
    assert run.run_command(["no-such-command-here"], {}, run.RunOptions()) == 127
    assert session.open_session({}, place=None) == (None, False)
    seen = capfd.readouterr()
    assert seen.out == "done\n"
    assert "gramwatt: not on this system\n" in seen.err
    assert "gramwatt: not on this system either\n" in seen.err


AS_ON_MACOS = """
import os, signal, sys, threading, time
from gramwatt.collectors.cli import measure
del signal.sigtimedwait
os.environ["GRAMWATT_OFF"] = "1"
up = sys.argv[1]
child = f"import time; print('up', flush=True); open({up!r}, 'w').close(); time.sleep(90)"
def end():
    while not os.path.exists(up):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
signal.pthread_sigmask(signal.SIG_BLOCK, measure.FORWARDED)  # in the other thread as well
threading.Thread(target=end, daemon=True).start()
signal.pthread_sigmask(signal.SIG_SETMASK, ())
print(measure.measure([sys.executable, "-c", child], {}, False, "job").outcome)
"""


def test_run_forwards_signals_where_they_cannot_be_waited_for_with_a_limit(tmp_path):
    line = [sys.executable, "-c", AS_ON_MACOS, str(tmp_path / "up")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["up", "Outcome(exit_code=143, signal=15)"], done.stderr


def test_the_verdict_comes_first_then_what_is_not_well():
    findings = [
        Finding("system", "ok", "Linux"),
        Finding("NVML", "absent", "no GPU"),
        Finding("RAPL", "missing", "only root may read it", "sudo chmod a+r energy_uj"),
    ]
    shown = answer(findings, 80, whole=False)
    assert shown[0].startswith("Estimates only here: ")
    assert "(grade D; A best, D worst)." in " ".join(shown)
    assert "To do better: grade C needs a meter" in "\n".join(shown)
    assert [line.split()[0] for line in shown if "missing" in line] == ["RAPL"]
    assert shown[-1] == "Well: system. Not here: NVML. All: gramwatt doctor -v"
    assert len(answer(findings, 80, whole=True)) == len(shown) + len(findings) - 1 - 2
    off = answer([Finding("measuring", "off", "")], 80, whole=False)
    assert off[:2] == ["The next job will not be measured.", "To do better: unset GRAMWATT_OFF."]


@pytest.mark.parametrize(
    ("meters", "zone", "grade", "said"),
    [
        ({}, "ok", "D", "no meter can be read"),
        ({"RAPL": "measured"}, "missing", "C", "grade B needs to set the grid zone"),
        ({"RAPL": "measured"}, "ok", "B", "grade A needs hourly intensity"),
        ({"GPU 0": "measured"}, "ok", "C", "the processor's too (RAPL)"),
        ({"GPU 0": "measured", "RAPL": "measured"}, "ok", "B", "grade A needs hourly intensity"),
        ({"GPU 0": "integrated", "RAPL": "measured"}, "ok", "C", "70 % of the energy measured"),
        (
            {"GPU 0": "measured", "visible GPUs": "attributed", "RAPL": "measured"},
            "ok",
            "C",
            "a slice's energy is attributed",
        ),
    ],
)
def test_the_verdict_is_the_grade_of_the_next_job(meters, zone, grade, said):
    findings = [Finding(what, "ok", "", None, kind) for what, kind in meters.items()]
    result = outlook([*findings, Finding("grid zone", zone, "")])
    assert result.grade == grade
    assert said in f"{result.verdict}; {result.better}"
    # The grade is that of the rules: a job on a board draws 1 / 1.45 of its energy there.
    board = meters.get("visible GPUs", meters.get("GPU 0"))
    energy: Counter[str] = Counter()
    if board:
        energy[board] += 1 / 1.45
    energy[meters.get("RAPL", "estimated")] += 0.45 / 1.45 if board else 1.0
    intensity = {"annual" if zone == "ok" else "world": 1.0}
    assert grade_of(energy, intensity, {"model": 1.0}) == grade
