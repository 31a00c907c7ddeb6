"""`gramwatt demo`: its steps, all of which run the product's commands, and what it prints."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gramwatt.collectors.settings.config import PUE_MAX
from gramwatt.sci.figures import formatting
from gramwatt.sci.figures.formatting import plain
from gramwatt.sci.figures.quantity import Quantity, figure_of

SCRIPT = Path(__file__).with_name("train_spirals.py")
TRACKED_SCRIPT = Path(__file__).with_name("train_spirals_tracked.py")
GRAMWATT = (sys.executable, "-P", "-m", "gramwatt")
"""The command, whatever is or is not on the PATH; -P keeps the current folder's modules out."""
FAILED, USAGE = 1, 2
REDRAW_EVERY_S = 0.2


class DemoError(Exception):
    """The demo cannot go on; the message is for people, `exit_code` for the shell."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command was given: `seconds` is the length of one training [s]."""

    zone: str | None
    pue: float
    seconds: float
    output: Path


@dataclass(frozen=True, slots=True)
class Training:
    """One measured training: its job document and the report files written for it."""

    label: str
    document: Mapping[str, Any]
    reports: tuple[Path, ...]


def check(settings: Settings) -> None:
    """Raise DemoError, before anything runs, for what would make the demo fail half way."""
    from gramwatt.collectors.settings.catalogs import user_catalog
    from gramwatt.sci.catalog.overlay import OverlayError
    from gramwatt.sci.figures.errors import LookupFailed

    if os.environ.get("GRAMWATT_OFF", "").lower() not in ("", "0", "false", "no", "off"):
        raise DemoError("GRAMWATT_OFF is set, so nothing would be measured; unset it", USAGE)
    try:
        if settings.zone is not None:
            user_catalog().zone(settings.zone)
        settings.output.mkdir(parents=True, exist_ok=True)
    except (LookupFailed, OverlayError) as error:
        raise DemoError(error.message, USAGE) from None
    except OSError as error:
        raise DemoError(f"{settings.output} cannot be made: {error.strerror}", USAGE) from None


def measure_both(settings: Settings) -> list[Training]:
    """Train once under `gramwatt run` and once with the decorator; raises DemoError."""
    length = ("--seconds", str(settings.seconds))
    suffix = secrets.token_hex(3)  # their reports' names fit into a column of the summary
    command = (*GRAMWATT, "run", "--project", "demo", "--name", "spirals, unchanged script", "--")
    under_run = (*command, sys.executable, str(SCRIPT), *length)
    decorated = (sys.executable, str(TRACKED_SCRIPT), *length)
    steps = (("gramwatt run", f"run-{suffix}", under_run), ("@track", f"track-{suffix}", decorated))
    printed: set[str] = set()
    return [_measure(label, job_id, line, settings, printed) for label, job_id, line in steps]


def _measure(
    label: str, job_id: str, line: Sequence[str], settings: Settings, printed: set[str]
) -> Training:
    environ = environment(os.environ, settings, job_id)
    out, err = _run(line, environ, f"training with {label}", settings.seconds)
    for text in err.splitlines():
        if text not in printed:  # both trainings miss the same meters
            print(text, file=sys.stderr)
    printed.update(err.splitlines())
    print(f"{label}: {out.strip()}", file=sys.stderr)
    document = json.loads(_run((*GRAMWATT, "job", job_id, "--json"), environ, "scoring")[0])
    report = (*GRAMWATT, "report", "job", job_id, "--format", "html,pdf", "-o", settings.output)
    written, _ = _run([str(part) for part in report], environ, "writing the report")
    return Training(label, document, tuple(Path(path) for path in written.splitlines()))


def environment(base: Mapping[str, str], settings: Settings, job_id: str) -> dict[str, str]:
    """`base` with the demo's own job id, place and PUE, kept on this machine.

    The job id is given because a scheduler's would make one job of the two.
    """
    environ = {key: text for key, text in base.items() if key != "GRAMWATT_SERVER"}
    if settings.zone is not None:
        environ.pop("GRAMWATT_REGION", None)
        environ["GRAMWATT_ZONE"] = settings.zone
    settings_of_job = {
        "GRAMWATT_JOB_ID": job_id,
        "GRAMWATT_PUE": str(settings.pue),
        "GRAMWATT_QUIET": "1",
    }
    return environ | settings_of_job


def _run(
    line: Sequence[str], environ: Mapping[str, str], what: str, seconds: float | None = None
) -> tuple[str, str]:
    """Run one command; what it wrote on stdout and stderr. Raises DemoError when it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(line, env=environ, stdout=out, stderr=err)
        try:
            _watch(process, what, seconds)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        messages = err.read()
        if process.returncode:
            raise DemoError(f"{what} failed (exit {process.returncode}):\n{messages.strip()}")
        return out.read(), messages


def _watch(process: subprocess.Popen[bytes], what: str, seconds: float | None) -> None:
    if not sys.stderr.isatty():
        process.wait()
        return
    from rich.console import Console

    started = time.monotonic()
    with Console(stderr=True).status(what) as status:
        while process.poll() is None:
            time.sleep(REDRAW_EVERY_S)
            elapsed = f"{time.monotonic() - started:.0f} s"
            status.update(f"{what}: {elapsed}" + (f" of about {seconds:g} s" if seconds else ""))


LABEL_WIDTH = 13
COLUMN_WIDTH = 32
DEMO_PUE = 1.0
"""PUE that the demo declares: most machines it runs on are not in a data centre."""


def summary(jobs: Sequence[Training], pue: float) -> str:
    """Return what the demo prints in the end; `jobs` are at least one, in the order they ran."""
    declared = (
        "declared by the demo: this machine is not in a data centre (--pue)"
        if pue == DEMO_PUE
        else "as declared by you"
    )
    documents = [job.document for job in jobs]
    rows = [
        ("", [job.label for job in jobs]),
        ("energy", [_text(figure_of(doc, "energy_kwh")) for doc in documents]),
        ("electricity", [_text(figure_of(doc, "operational_g")) for doc in documents]),
        ("hardware", [_text(figure_of(doc, "embodied_g")) for doc in documents]),
        ("work", [_counts(doc) for doc in documents]),
        ("SCI", [_scores(doc) for doc in documents]),
        ("quality", [_quality(doc) for doc in documents]),
        ("report", [_names(job.reports) for job in jobs]),
    ]
    lines = [_first_line(documents[0]), ""]
    lines += [_row(label, cells) for label, cells in rows]
    folder = _short(jobs[0].reports[0].parent) if jobs[0].reports else "."
    place = f" --zone {documents[0]['zone']}" if documents[0]["zone"] else ""
    lines += [
        "",
        _grid_line(documents[0]),
        f"PUE {pue:.1f}, {declared}",
        f"The reports are in {folder}. The pages of all jobs: {_command()} serve",
        f"Your own: {_command()} run{place} -- python train.py",
    ]
    return "\n".join(lines)


def _first_line(document: Mapping[str, Any]) -> str:
    """Return what a training used and emitted."""
    carbon, energy = _text(figure_of(document, "total_g")), figure_of(document, "energy_kwh")
    seconds = document.get("duration_s")
    duration = f" of {formatting.duration(float(seconds))}" if seconds else ""
    if figure_of(document, "total_g") is None:
        carbon = f"{_text(figure_of(document, 'operational_g'))} from electricity"
    used = f", {formatting.value_text(energy)}" if energy else ""
    return plain(f"A training{duration}: {carbon}{used}.")


def _grid_line(document: Mapping[str, Any]) -> str:
    """Return which intensity was used, and whether that makes an SCI score."""
    grid = f"{document['method']['intensity_g_per_kwh']['value']:.0f} gCO2e/kWh"
    if document["zone"] is None:
        return f"Without a zone the world average ({grid}): not an SCI score; say --zone DE"
    score = "not an SCI score" if document["conformance"] == "not-sci" else "an SCI score"
    return f"Zone {document['zone']}, {grid}: {score}"


def _scores(document: Mapping[str, Any]) -> str:
    """SCI per functional unit with its range."""
    items = [_text(figure_of(item, "g_per_unit")) for item in document["sci"]]
    return ", ".join(items) or formatting.UNKNOWN


def _quality(document: Mapping[str, Any]) -> str:
    """Return the grade, with the kinds of energy and their shares."""
    doc = document["data_quality"]
    shares = [f"{formatting.percent(share)} {kind}" for kind, share in doc["energy"].items()]
    read = "energy" if document["energy_kwh"] else "of the energy read"
    return f"{doc['grade']} ({read} {plain(', '.join(shares)) or formatting.UNKNOWN})"


def _counts(document: Mapping[str, Any]) -> str:
    """Return how many functional units were done."""
    items = [
        f"{plain(formatting.number(i['count'], 6))} {i['unit']}{'s' * (i['count'] != 1)}"
        for i in document["sci"]
    ]
    return ", ".join(items) or formatting.UNKNOWN


def _text(figure: Quantity | None) -> str:
    return plain(formatting.text(figure))


def _row(label: str, cells: Sequence[str]) -> str:
    padded = "  ".join(f"{cell:<{COLUMN_WIDTH}}" for cell in cells)
    return f"{label:<{LABEL_WIDTH}}{padded}".rstrip()


def _names(paths: Sequence[Path]) -> str:
    first, *others = paths or [Path("none")]
    return ", ".join([first.name, *(path.suffix for path in others)])


def _short(path: Path) -> str:
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def _command() -> str:
    """Return how this command is called from here: by name when the PATH finds it, else by its
    path.
    """
    own = Path(sys.executable).with_name("gramwatt")
    path = shutil.which("gramwatt")
    same = path is not None and Path(path).resolve() == own.resolve()
    return "gramwatt" if same else shlex.quote(_short(own))


DEFAULT_FOLDER = Path("gramwatt-demo")


def demo(
    zone: Annotated[
        str | None, typer.Option(help="Grid zone of this machine: DE, FR, US-CAL-CISO.")
    ] = None,
    pue: Annotated[
        float, typer.Option(min=1.0, max=PUE_MAX, help="PUE of the building this machine is in.")
    ] = DEMO_PUE,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long each of the two trainings lasts (s).")
    ] = 20.0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the reports.")
    ] = DEFAULT_FOLDER,
) -> None:
    """Train the example twice under the meter and write both reports as HTML and PDF.

    Example: gramwatt demo --zone DE
    """
    settings = Settings(zone, pue, seconds, output)
    try:
        check(settings)
        jobs = measure_both(settings)
    except DemoError as error:
        print(f"gramwatt: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    print(summary(jobs, settings.pue))
