"""The demo: its scripts, what it refuses, its summary, and one whole run."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gramwatt.service.demo import flow
from gramwatt.service.demo.flow import Settings, Training
from tests.journals import figure

COMMAND = [sys.executable, "-m", "gramwatt", "demo"]


def job_document(**changes: Any) -> dict[str, Any]:
    return {
        "zone": "DE",
        "conformance": "conforming",
        "energy_kwh": figure(2.5e-4, 1.5e-4, 3.5e-4, "kWh"),
        "operational_g": figure(0.0855, 0.03, 0.16, "gCO2e"),
        "embodied_g": None,
        "sci": [
            {
                "unit": "image",
                "count": 4e5,
                "g_per_unit": figure(2.14e-7, 1e-7, 4e-7, "gCO2e/image"),
            }
        ],
        "data_quality": {"grade": "D", "energy": {"estimated": 0.997, "measured": 0.003}},
        "method": {"intensity_g_per_kwh": figure(341.6, 222, 461, "gCO2e/kWh")},
    } | changes


def test_the_tracked_script_is_the_plain_one_with_track_added():
    plain, tracked = (
        path.read_text("utf-8").splitlines() for path in (flow.SCRIPT, flow.TRACKED_SCRIPT)
    )
    changes = list(difflib.ndiff(plain[1:], tracked[1:]))
    assert [line for line in changes if line.startswith("- ")] == []
    added = [line[2:].strip() for line in changes if line.startswith("+ ")]
    assert len(added) <= 6
    assert all("track" in line or "job.count" in line for line in added if line)
    assert "gramwatt" not in flow.SCRIPT.read_text("utf-8")


def test_the_plain_script_trains_to_a_stated_accuracy(tmp_path):
    line = [sys.executable, str(flow.SCRIPT), "--seconds", "3"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    # Ten spirals: guessing gives 0.1.
    assert float(done.stdout.rpartition(" ")[2]) > 0.5


def test_the_summary_shows_terms_ranges_and_what_is_unknown():
    jobs = [Training("@track", job_document(), (Path("d/a.html"), Path("d/a.pdf")))]
    lines = flow.summary(jobs, 1.0).splitlines()
    # No total without the hardware: the first line says what is known of it.
    assert lines[0].endswith(": 86 mg CO2e (30 to 160) from electricity, 0.25 Wh.")
    told = {line[:13].strip(): line[13:].strip() for line in lines[2:]}
    # 0.00025 kWh is 0.25 Wh; 0.0855 g is 86 mg at two digits; 2.14e-7 g is 210 ng.
    assert told["energy"] == "0.25 Wh (0.15 to 0.35)"
    assert told["electricity"] == "86 mg CO2e (30 to 160)"
    assert told["hardware"] == "not known"
    assert told["work"] == "400 000 images"
    assert told["SCI"] == "210 ng CO2e/image (100 to 400)"
    assert told["quality"] == "D (energy 99.7 % estimated, <1 % measured)"
    assert told["report"] == "a.html, .pdf"
    assert lines[-4] == "Zone DE, 342 gCO2e/kWh: an SCI score"
    assert re.match(r"The reports are in d\S* The pages of all jobs: \S*gramwatt serve$", lines[-2])
    assert re.match(r"Your own: \S*gramwatt run --zone DE -- python train.py$", lines[-1])
    assert len(lines) <= 15


def test_without_a_zone_the_summary_says_so():
    document = job_document(zone=None, conformance="not-sci")
    lines = flow.summary([Training("run", document, ())], 1.0).splitlines()
    assert (
        "Without a zone the world average (342 gCO2e/kWh): not an SCI score; say --zone DE" in lines
    )


def test_a_declared_pue_is_not_given_the_demos_reason():
    lines = flow.summary([Training("run", job_document(), ())], 1.4).splitlines()
    assert "PUE 1.4, as declared by you" in lines


def test_each_training_gets_a_job_of_its_own_on_this_machine(tmp_path):
    outer = {
        "PATH": "/bin",
        "SLURM_JOB_ID": "7",
        "GRAMWATT_SERVER": "http://x",
        "GRAMWATT_REGION": "aws:eu-west-1",
    }
    environ = flow.environment(outer, Settings("DE", 1.2, 20.0, tmp_path), "demo-run-1")
    assert environ["GRAMWATT_JOB_ID"] == "demo-run-1"
    assert environ["GRAMWATT_ZONE"] == "DE"
    assert environ["GRAMWATT_PUE"] == "1.2"
    assert "GRAMWATT_SERVER" not in environ
    assert "GRAMWATT_REGION" not in environ
    kept = flow.environment(outer, Settings(None, 1.2, 20.0, tmp_path), "demo-run-1")
    assert kept["GRAMWATT_REGION"] == "aws:eu-west-1"


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "said"),
    [
        (["--zone", "GERMANY-XX"], {}, 2, "unknown zone 'GERMANY-XX'"),
        (["--pue", "0.5"], {}, 2, "Invalid value for '--pue'"),
        ([], {"GRAMWATT_OFF": "1"}, 2, "GRAMWATT_OFF is set"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(tmp_path, arguments, environ, code, said):
    line = [*COMMAND, *arguments]
    done = subprocess.run(
        line, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **environ}
    )
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_zone_of_the_users_overlay_is_known(monkeypatch, tmp_path):
    zone = '[zones.OUR-ROOF]\ng_per_kwh = 41\nyear = 2025\nsource = "our own supply"\n'
    file = tmp_path / "own.toml"
    monkeypatch.setenv("GRAMWATT_OVERLAY", str(file))
    file.write_text(zone)
    flow.check(Settings("OUR-ROOF", 1.0, 1.0, tmp_path))
    file.write_text("not toml")
    with pytest.raises(flow.DemoError, match="own.toml"):
        flow.check(Settings("DE", 1.0, 1.0, tmp_path))


def test_the_whole_demo(tmp_path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # else lines name where it is
    line = [*COMMAND, "--zone", "DE", "--seconds", "2", "-o", "out"]
    environ = {**os.environ, "PATH": path}
    done = subprocess.run(
        line, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("A training of ")
    assert sum("CO2e/point" in line for line in lines) == 1
    (second,) = (line.index("@track") for line in lines if "@track" in line)
    (report,) = (line for line in lines if line.startswith("report "))
    assert report[second - 2 :].startswith("  track-")
    assert max(map(len, lines)) <= 80
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [
        ".html",
        ".html",
        ".pdf",
        ".pdf",
    ]
