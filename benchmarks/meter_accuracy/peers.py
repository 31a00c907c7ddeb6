"""The other tools, unmodified, each in an environment of its own, around the same known loads."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import standin
from waves import HOPPER, PUBLISHED, Sensor, Wave, random_waves

from gramwatt.collectors.testing.waveforms import waveform
from gramwatt.sci.merge import merge
from gramwatt.sci.records import decode

DRIVERS = Path(__file__).with_name("drivers.py")
INSTALL_TIMEOUT_S, RUN_SLACK_S = 400.0, 120.0
Say = Callable[[str], None]


class Tool(NamedTuple):
    """A tool: its row's name, its driver, and what is installed for it (nothing: our own)."""

    name: str
    driver: str
    packages: tuple[str, ...] = ()


TOOLS = (
    Tool("gramwatt", "gramwatt"),
    Tool("Zeus ZeusMonitor", "zeus", ("zeus",)),
    Tool("Zeus PowerMonitor", "zeus_power", ("zeus",)),
    Tool("codecarbon", "codecarbon", ("codecarbon",)),
    Tool("carbontracker", "carbontracker", ("carbontracker",)),
    Tool("perun", "perun", ("perun[nvidia]",)),
    Tool("eco2AI", "eco2ai", ("eco2ai", "pandas<3")),
)
"""eco2AI 0.3.12 raises TypeError in stop() with pandas 3, so that it is given pandas 2."""


class Load(NamedTuple):
    """A wave on a board, and a short name for its column."""

    key: str
    wave: Wave
    sensor: Sensor


def loads() -> list[Load]:
    """The published waves on their boards, and two random ones."""
    drawn = random_waves()
    pairs = [*PUBLISHED, (drawn[2], HOPPER), (drawn[5], HOPPER)]
    return [Load(f"w{place}", wave, sensor) for place, (wave, sensor) in enumerate(pairs, start=1)]


class Outcome(NamedTuple):
    """One run: error without unit, or why there is none."""

    tool: str
    load: str
    error: float | None
    reason: str = ""


def prepare(folder: Path, say: Say) -> dict[str, tuple[str, str]]:
    """Make the environments that are missing: tool -> (interpreter, version or why it cannot)."""
    found = {}
    for tool in TOOLS:
        if not tool.packages:
            found[tool.name] = (sys.executable, version(sys.executable, "gramwatt"))
            continue
        package = tool.packages[0].partition("[")[0]
        python = folder / package / "bin" / "python"
        failed = "" if python.exists() else install(folder / package, tool.packages, say)
        known = "" if failed else version(str(python), package)
        found[tool.name] = (str(python) if known else "", known or failed or "does not import")
    return found


def install(target: Path, packages: Iterable[str], say: Say) -> str:
    """Make one environment; why it could not be, or nothing."""
    say(f"installing {', '.join(packages)}")
    venv.create(target, with_pip=True)
    command = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "installing it took too long"
    return "" if done.returncode == 0 else f"cannot be installed: {last_line(done.stderr)}"


def version(python: str, package: str) -> str:
    """The installed version of a package; empty when it is not there."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def compare(folder: Path, seconds: float, repeat: int, say: Say) -> tuple[Any, list[Outcome]]:
    """Every tool around every load: versions, and outcomes."""
    tools = prepare(folder, say)
    with tempfile.TemporaryDirectory(prefix="accuracy-") as name:
        library = standin.build(Path(name))
        jobs = [
            (tool, tools[tool.name][0], load, library)
            for _ in range(repeat)
            for load in loads()
            for tool in TOOLS
            if tools[tool.name][0]
        ]
        say(f"{len(jobs)} jobs of {seconds} s, five at a time")
        with ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(lambda job: one(*job, seconds), jobs))
        for place, job in enumerate(jobs):
            if answers[place][0].reason:  # once more by itself, should the crowd have been too much
                say(f"again: {job[0].name}, {job[2].key}: {answers[place][0].reason}")
                answers[place] = one(*job, seconds)
    outcomes = [outcome for answer in answers for outcome in answer]
    return {tool: text for tool, (_, text) in tools.items()}, outcomes


def one(tool: Tool, python: str, load: Load, library: Path, seconds: float) -> list[Outcome]:
    """One tool around one load, in a home of its own."""
    home = Path(tempfile.mkdtemp(dir=library))
    environ = standin.environment(library, load.wave, load.sensor, home)
    environ |= {"GRAMWATT_HOME": str(home / "home"), "GRAMWATT_HOST_SOURCE": "model"}
    try:
        done = subprocess.run(
            [python, str(DRIVERS), tool.driver, str(seconds)],
            cwd=home,
            env=environ,
            capture_output=True,
            text=True,
            timeout=seconds + RUN_SLACK_S,
        )
    except subprocess.TimeoutExpired:
        return [Outcome(tool.name, load.key, None, "did not end")]
    if done.returncode:
        return [Outcome(tool.name, load.key, None, last_line(done.stderr))]
    answer = json.loads(done.stdout.splitlines()[-1])
    if "journal" in answer:
        return ours(load, answer["journal"])
    if answer.get("energy_j") is None:
        return [Outcome(tool.name, load.key, None, "says nothing of the GPU")]
    error = relative(load, answer["energy_j"], answer["start_s"], answer["stop_s"])
    return [Outcome(tool.name, load.key, error)]


def ours(load: Load, journal: list[dict[str, Any]]) -> list[Outcome]:
    """Our two rows: from the first reading on, and from the start mark on."""
    job = merge(decode(json.dumps(line)) for line in journal)
    gpu = next(d for d in job.devices if d.record.device_class == "gpu")
    shift_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.time()
    rows = []
    for name, spans in (
        ("gramwatt", [i for i in gpu.intervals if i.kind != "estimated"]),
        ("gramwatt, with its start", list(gpu.intervals)),
    ):
        energy_j = sum(interval.energy_j for interval in spans)
        start_s, end_s = spans[0].start.timestamp() + shift_s, spans[-1].end.timestamp() + shift_s
        rows.append(Outcome(name, load.key, relative(load, energy_j, start_s, end_s)))
    return rows


def relative(load: Load, energy_j: float, start_s: float, end_s: float) -> float:
    """The error against the exact integral."""
    wave = waveform(load.wave.spec)
    truth_j = wave.energy_j(end_s) - wave.energy_j(start_s)
    return energy_j / truth_j - 1


def last_line(text: str) -> str:
    """The last line of what a program said, shortened."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:120] if lines else "no word"
