"""The other tools, unmodified, each in an environment of its own, around the same known loads."""

from __future__ import annotations

import json
import os
import platform
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

from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode
from tests.collectors.doubles.waveforms import waveform

DRIVERS = Path(__file__).with_name("drivers.py")
INSTALL_TIMEOUT_S, RUN_SLACK_S = 400.0, 120.0
Say = Callable[[str], None]


class Tool(NamedTuple):
    """A tool: its row's name, its driver, what is installed for it (nothing: our own).

    `counter`: it reads the energy counter, so that it may be right over a minute too.
    """

    name: str
    driver: str
    packages: tuple[str, ...] = ()
    counter: bool = False


TOOLS = (
    Tool("gramwatt", "gramwatt", counter=True),
    Tool("Zeus ZeusMonitor", "zeus", ("zeus",), counter=True),
    Tool("Zeus PowerMonitor", "zeus_power", ("zeus",)),
    Tool("codecarbon", "codecarbon", ("codecarbon",), counter=True),
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
    """The published waves on their boards (w1 ...), then the random ones (r1 ...)."""
    published = [Load(f"w{n}", *pair) for n, pair in enumerate(PUBLISHED, start=1)]
    return published + [Load(f"r{n}", wave, HOPPER) for n, wave in enumerate(random_waves(), 1)]


class Outcome(NamedTuple):
    """One run: error without unit, or why there is none."""

    tool: str
    load: str
    error: float | None
    reason: str = ""
    seconds: float = 0.0


class Part(NamedTuple):
    """Jobs of one length [s]: the tools around them, and how many at a time."""

    seconds: float
    tools: tuple[Tool, ...]
    at_once: int


def prepare(folder: Path, say: Say, names: set[str] | None = None) -> dict[str, tuple[str, str]]:
    """Make the environments that are missing, of these tools or all: tool -> (interpreter, version
    or why it cannot).
    """
    found = {}
    for tool in TOOLS:
        if names is not None and tool.name not in names:
            continue
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


def parts(short_s: float, long_s: float) -> list[Part]:
    """All tools around short jobs, those that read the counter around long ones too."""
    counting = tuple(tool for tool in TOOLS if tool.counter)
    return [Part(short_s, TOOLS, 8), Part(long_s, counting, 16)]


Compared = tuple[dict[str, str], list[Outcome]]


def compare(folder: Path, plan: list[Part], repeat: int, say: Say) -> Compared:
    """Every tool around every load: versions (or why there is none), and outcomes."""
    tools = prepare(folder, say)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="accuracy-", ignore_cleanup_errors=True) as name:
        library = standin.build(Path(name))
        for part in plan:
            usable = [(tool, tools[tool.name][0]) for tool in part.tools if tools[tool.name][0]]
            jobs = [
                (tool, python, load, library)
                for _ in range(repeat)
                for load in loads()
                for tool, python in usable
            ]
            found = run_all(jobs, part, say)
            outcomes += [outcome._replace(seconds=part.seconds) for outcome in found]
    return {tool: text for tool, (_, text) in tools.items()}, outcomes


def run_all(jobs: list[tuple[Tool, str, Load, Path]], part: Part, say: Say) -> list[Outcome]:
    """The jobs of one part, several at a time."""
    say(f"{len(jobs)} jobs of {part.seconds} s, {part.at_once} at a time")
    with ThreadPoolExecutor(part.at_once) as pool:
        answers = list(pool.map(lambda job: one(*job, part.seconds), jobs))
    for place, job in enumerate(jobs):
        if answers[place][0].reason:  # once more by itself, should the crowd have been too much
            say(f"again: {job[0].name}, {job[2].key}: {answers[place][0].reason}")
            answers[place] = one(*job, part.seconds)
    return [outcome for answer in answers for outcome in answer]


def one(tool: Tool, python: str, load: Load, library: Path, seconds: float) -> list[Outcome]:
    """One tool around one load, in a home of its own."""
    home = Path(tempfile.mkdtemp(dir=library))
    environ = standin.environment(library, load.wave, load.sensor, home)
    command = [python, str(DRIVERS), tool.driver, str(seconds)]
    answer, reason = ask(command, environ, seconds + RUN_SLACK_S)
    if reason:
        return [Outcome(tool.name, load.key, None, reason)]
    if "journal" in answer:
        return ours(load, answer["journal"])
    if answer.get("energy_j") is None:
        return [Outcome(tool.name, load.key, None, "says nothing of the GPU")]
    error = relative(load, answer["energy_j"], answer["start_s"], answer["stop_s"])
    return [Outcome(tool.name, load.key, error)]


def ask(command: list[str], environ: dict[str, str], timeout_s: float) -> tuple[Any, str]:
    """A driver's last line, read as JSON; or why there is none. It runs in its own home."""
    try:
        done = subprocess.run(
            command,
            cwd=environ["HOME"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return {}, "did not end"
    if done.returncode:
        return {}, last_line(done.stderr)
    return json.loads(done.stdout.splitlines()[-1]), ""


def ours(load: Load, journal: list[dict[str, Any]]) -> list[Outcome]:
    """Our two rows: from the first reading on, and from the start mark on."""
    job = merge(decode(json.dumps(line)) for line in journal)
    found = [i for d in job.devices if d.record.device_class == "gpu" for i in d.intervals]
    shift_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.time()
    rows = []
    for name, spans in (
        ("gramwatt", [i for i in found if i.kind != "estimated"]),
        ("gramwatt, with its start", found),
    ):
        energy_j = sum(interval.energy_j for interval in spans)
        if not spans:
            rows.append(Outcome(name, load.key, None, "no interval of the GPU"))
            continue
        start_s, end_s = spans[0].start.timestamp() + shift_s, spans[-1].end.timestamp() + shift_s
        rows.append(Outcome(name, load.key, relative(load, energy_j, start_s, end_s)))
    return rows


def relative(load: Load, energy_j: float, start_s: float, end_s: float) -> float:
    """The error against the exact integral."""
    wave = waveform(load.wave.spec)
    truth_j = wave.energy_j(end_s) - wave.energy_j(start_s)
    return energy_j / truth_j - 1


def machine() -> str:
    """This machine in a few words."""
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, load {load:.1f}, "
        f"Python {platform.python_version()}"
    )


def last_line(text: str) -> str:
    """The last line of what a program said, shortened."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:120] if lines else "no word"
