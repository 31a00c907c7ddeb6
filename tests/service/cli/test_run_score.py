"""What `gramwatt run` prints at its end, and what the store has of the job then: one score."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import msgspec
import pytest

from gramwatt.collectors.cli import run as run_command
from gramwatt.collectors.cli.measure import Outcome, Run
from gramwatt.collectors.settings.config import Config, resolve
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.score import STORE_COUNTS, Ended, result_line, scored_here
from gramwatt.collectors.spool.score import lines as end_lines
from gramwatt.service.local_store import document, ingest
from tests.journals import journal, lines
from tests.service.cli.command import gramwatt
from tests.service.processes import eventually

pytestmark = pytest.mark.usefixtures("home")

GRAMWATT = [sys.executable, "-m", "gramwatt"]
FIGURES = ("energy_kwh", "operational_g", "embodied_g", "total_g", "sci", "data_quality", "units")


@pytest.fixture
def hourly(home, tmp_path):
    """Spain with an intensity of its own for every hour around now, in the store."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    rows = ["start_utc,g_per_kwh"]
    rows += [f"{now + timedelta(hours=hour):%Y-%m-%dT%H:%MZ},{300 + hour}" for hour in range(-4, 4)]
    path = tmp_path / "es.csv"
    path.write_text("\n".join(rows))
    flags = ("--zone", "ES", "--basis", "lifecycle", "--signal", "average")
    assert gramwatt("import", "intensity", str(path), *flags)[0] == 0


def ran(home):
    """The line of a job, and its document in the store when what is spooled was ingested."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GRAMWATT_")}
    settings = {"GRAMWATT_HOME": str(home), "GRAMWATT_HOST_SOURCE": "model", "GRAMWATT_ZONE": "ES"}
    command = [*GRAMWATT, "run", "--", "sleep", "0.3"]
    settings["GRAMWATT_JOB_ID"] = "job-1"
    done = subprocess.run(
        command, env=clean | settings, capture_output=True, text=True, timeout=120, check=True
    )
    subprocess.run([*GRAMWATT, "sync"], env=clean | settings, timeout=60, check=True)
    assert eventually(lambda: not list(home.glob("spool/*/*/*.jsonl")), 60)
    code, out, _ = gramwatt("job", "job-1", "--json")
    assert code == 0
    return done.stderr, json.loads(out)


def line_of(found):
    return f"gramwatt: {result_line(found, '`gramwatt job last`')}\n"


def test_the_line_of_a_run_is_that_of_the_stored_score(home):
    line, stored = ran(home)
    assert line == line_of(stored)
    subprocess.run([*GRAMWATT, "sync"], timeout=60, check=True)
    assert json.loads(gramwatt("job", "job-1", "--json")[1])["revision"] == 1


def test_so_it_is_where_the_store_has_the_intensity_of_the_hour(home, hourly):
    line, stored = ran(home)
    assert line == line_of(stored)
    assert {row["quality"] for row in stored["intensity"]} == {"hourly"}


def test_so_it_is_for_a_job_of_which_the_store_has_lines_already(home):
    first, _ = ran(home)
    said, stored = ran(home)
    joined, line = said.splitlines(keepends=True)
    assert " joins job job-1, which GRAMWATT_JOB_ID names " in joined
    assert line == line_of(stored) != first


def test_so_it_is_for_a_journal_that_was_stored_before_its_line_was_made(home, capsys):
    _, stored = ran(home)
    answers = iter([None, stored])  # it is being scored
    store = SimpleNamespace(ingest=lambda *_: [], document=lambda *_: next(answers))
    done = Run("job-1", Outcome(0), True, home, reports=True)
    config = Config(home=home)
    run_command._report_end(done, config, None, False, lambda: store)
    assert capsys.readouterr().err == line_of(stored)


def test_a_line_out_of_the_journal_says_that_the_store_has_the_intensity_of_the_hour(home, hourly):
    """As that of `track`, whose process waits for no store."""
    spooled(home, journal("job-1"))
    config = resolve({"home": str(home)})
    found = msgspec.to_builtins(scored_here(spool.folders(home, "job-1"), config)[1])
    wanted = result_line(found, "`gramwatt job job-1`", STORE_COUNTS)
    assert end_lines(Ended("job-1", config, home))[0] == wanted
    (home / "gramwatt.db").unlink()
    assert STORE_COUNTS not in end_lines(Ended("job-1", config, home))[0]


def test_a_job_on_accelerators_ends_with_what_would_help_most(home):
    """Its line, `gramwatt job` and `gramwatt suggest` say the same."""
    path = spooled(home, journal("job-1", kind="training", minutes=2))
    config = resolve({"home": str(home)})
    advice = end_lines(Ended("job-1", config, home))[1]
    assert advice.endswith(". More: gramwatt suggest")
    sentence = " ".join(advice.removesuffix(" More: gramwatt suggest").split())
    sentence = sentence.replace("\u2212", "-")
    assert sentence.startswith(("What would help most: ", "What would probably help most: "))
    os.utime(path, (0, 0))
    assert ingest(home) == ["job-1"]
    for command in (("job", "job-1"), ("suggest",), ("suggest", "last")):
        assert sentence in " ".join(gramwatt(*command)[1].split())


def test_a_job_of_a_minute_ends_without_a_suggestion(home):
    spooled(home, journal("job-1", kind="training", minutes=1))
    shown = end_lines(Ended("job-1", resolve({"home": str(home)}), home))
    assert not any("would" in line for line in shown)


def spooled(home, records):
    """The file of a job's journal that lies in the spool."""
    folder = home / "spool" / "job-1" / "node-1"
    folder.mkdir(parents=True)
    path = folder / f"{records[0].writer}.jsonl"
    path.write_bytes(b"\n".join(lines(records)) + b"\n")
    return path


@pytest.mark.parametrize("minutes", [1, 37])
def test_the_spool_makes_the_same_score_as_the_store_to_the_last_digit(home, minutes):
    path = spooled(home, journal("job-1", minutes=minutes))
    here = msgspec.to_builtins(
        scored_here(spool.folders(home, "job-1"), resolve({"home": str(home)}))[1]
    )
    os.utime(path, (0, 0))
    assert ingest(home) == ["job-1"]
    stored = document(home, "job-1")
    assert {name: here.get(name) for name in FIGURES} == {n: stored.get(n) for n in FIGURES}


@pytest.mark.parametrize(
    ("missing", "shown"),
    [
        (("embodied_g", "total_g"), " from electricity (hardware not counted)"),
        (("operational_g", "total_g", "energy_kwh"), " from hardware (electricity not counted)"),
    ],
)
def test_the_line_has_what_is_known_and_names_what_is_not(home, missing, shown):
    spooled(home, journal("job-1"))
    config = resolve({"home": str(home)})
    found = msgspec.to_builtins(scored_here(spool.folders(home, "job-1"), config)[1])
    line = result_line({**found, **dict.fromkeys(missing)}, "gramwatt job job-1")
    assert shown in line
    assert "carbon not known" not in line
