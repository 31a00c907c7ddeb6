"""What a notebook does: the same cell run twice, a job left open, an experiment after another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.spool import spool
from gramwatt.collectors.track.document_text import document_line
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode
from tests.collectors.track.test_end_to_end import meters, wait_until


@pytest.fixture
def environ(tmp_path):
    names = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))}
    return names | {"GRAMWATT_HOME": str(tmp_path / "home"), "GRAMWATT_HOST_SOURCE": "model"}


def ran(environ: dict[str, str], tmp_path: Path, *cells: str) -> str:
    """Run cells one after the other in one process: its stderr."""
    script = tmp_path / "cells.py"
    script.write_text("from gramwatt import track\n" + "\n".join(cells))
    done = subprocess.run(
        [sys.executable, str(script)], env=environ, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def play(environ: dict[str, str], tmp_path: Path, *cells: str) -> tuple[list[Any], str]:
    """Run cells one after the other in one process: the jobs in order of start, and stderr."""
    # Nobody is there: else the store of this home takes the journals that are read here.
    err = ran({**environ, "GRAMWATT_SERVER": "http://127.0.0.1:9"}, tmp_path, *cells)
    wait_until(lambda: not meters(environ), "the end of all meters")
    folders = spool.folders(Path(environ["GRAMWATT_HOME"]))
    jobs = [merge(decode(line) for line in folder.lines()) for folder in folders]
    return sorted(jobs, key=lambda job: job.started_at), err


CELL = "tracker = track(name='experiment-1', unit='image')\njob = tracker.start()\njob.count(5)\n"


def test_a_cell_that_starts_twice_makes_two_jobs_and_one_stop_ends_the_second(environ, tmp_path):
    after = (
        "tracker.stop()\nwith track(name='experiment-2', unit='token') as job:\n  job.count(7)\n"
    )
    jobs, _ = play(environ, tmp_path, CELL, CELL, after)
    names = [(job.head.name, [(c.unit, c.amount) for c in job.counts]) for job in jobs]
    assert names == [
        ("experiment-1", [("image", 5.0)]),
        ("experiment-1", [("image", 5.0)]),
        ("experiment-2", [("token", 7.0)]),
    ]


def test_a_block_inside_a_job_of_other_settings_says_what_it_joins(environ, tmp_path):
    inner = "with track(name='experiment-2', unit='token') as job:\n  job.count(7)\n"
    (job,), err = play(environ, tmp_path, CELL, inner, inner)
    assert (job.head.name, len(job.counts)) == ("experiment-1", 2)
    said = f"track(name='experiment-2') joins job {job.head.job_id}, which runs already"
    assert err.count(said) == 1
    assert any("experiment-2" in notice.message for notice in job.notices)


def test_a_block_inside_a_job_without_other_settings_says_nothing(environ, tmp_path):
    (job,), err = play(
        environ, tmp_path, CELL, "with track(unit='token') as job:\n  job.count(token=7)\n"
    )
    assert "joins" not in err
    assert {count.unit: count.amount for count in job.counts} == {"image": 5.0, "token": 7.0}


def test_a_job_shows_itself_and_its_metrics(environ, tmp_path):
    cell = f"""
import json, time
from gramwatt.collectors.track import track as module
module.RESULT_TIMEOUT_S = 60.0
with track(unit='image', zone='FR') as job:
    job.count(4)
    running = repr(job)
    assert job.metrics() == {{}}
    time.sleep(0.5)
ended = repr(job)
metrics = job.metrics()
facts = [job.id, running, ended, repr(job), metrics, job.result]
open({str(tmp_path / "facts")!r}, 'w').write(json.dumps(facts))
"""
    ran(environ, tmp_path, cell)
    job_id, running, ended, known, metrics, document = json.loads((tmp_path / "facts").read_text())
    assert running == f"<gramwatt job {job_id}: running>"
    assert ended == f"<gramwatt job {job_id}: ended; .result has its figures>"
    energy, carbon = document["energy_kwh"], document["total_g"]["value"]
    assert known == f"<gramwatt job {job_id}: {document_line(document)}>"
    assert {name: value for name, value in metrics.items() if "energy" in name} == {
        "gramwatt/energy_kwh": energy["value"],
        "gramwatt/energy_kwh_low": energy["low"],
        "gramwatt/energy_kwh_high": energy["high"],
    }
    assert metrics["gramwatt/count_image"] == 4.0
    assert metrics["gramwatt/co2e_g_per_image"] == pytest.approx(carbon / 4)
    assert metrics["gramwatt/conforming"] == 1.0
    assert {type(value) for value in metrics.values()} == {float}


@pytest.mark.parametrize(
    ("energy_kwh", "total_g", "line"),
    [(2.5e-7, 2.9e-4, "250 µWh, 290 µg CO2e"), (3.8e-4, 0.32, "0.38 Wh, 320 mg CO2e")],
)
def test_a_job_reads_as_its_end_line_does(energy_kwh, total_g, line):
    figures = {"energy_kwh": (energy_kwh, "kWh"), "total_g": (total_g, "gCO2e")}
    document = {
        name: {"value": value, "low": value / 2, "high": 2 * value, "unit": unit}
        | {"kind": "estimated", "source": "test"}
        for name, (value, unit) in figures.items()
    }
    assert document_line(document) == line
    assert document_line({}) == "energy not known"
