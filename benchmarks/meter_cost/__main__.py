"""What measuring costs, ours and the peers', in one run.

    python benchmarks/meter_cost [--seconds 30] [--runs 5] [--tools NAME ...]

Every tool measures a sleeping process whose GPUs are those of benchmarks/meter_accuracy's stand-in
libnvidia-ml, from the same environments. First the times, one tool after the other, with 8 GPUs:
import, start, mark, stop and the peak memory added to the process. Then, some tools at a time, what
they use while nothing happens: processor time, wake-ups (voluntary context switches) and memory of
their other processes, with 1 and 8 GPUs at 1 and 10 readings a second. Ours runs without its
codecarbon process, and has no setting for 10 readings a second: boards without an energy counter
make it read 10 to 15 times. Some 12 minutes on 2 processors. Exit code 1 when ours misses a limit.
Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).parent.with_name("meter_accuracy")))

import peers
import standin
from waves import PUBLISHED

COSTS = Path(__file__).with_name("costs.py")
NO_RATE = ("Zeus ZeusMonitor",)
"""It reads when it is asked and not between."""
IDLE = ((1, 1.0), (8, 1.0), (1, 10.0), (8, 10.0))
"""GPUs and readings a second."""
AT_ONCE = 4
SLACK_S = 160.0
LIMITS = {"import_s": 0.025, "start_s": 0.005, "mark_s": 0.000003, "peak_mb": 4.0}
"""In the training process (docs/python-api.md)."""
HELPERS_MB = 30.0
"""Of the meter, with 8 GPUs at one reading a second."""
LIGHTEST, CPU_RATIO = "carbontracker", 3.0
"""The peer that uses least of those that read all the time, and how many times as much the meter,
which writes a journal too, may use beside it in the same run: a loaded machine slows both."""
SHOWN = {
    "import_s": ("import", 1e3, "ms"),
    "start_s": ("start", 1e3, "ms"),
    "ready_s": ("first reading", 1e3, "ms"),
    "mark_s": ("mark", 1e3, "ms"),
    "stop_s": ("stop", 1e3, "ms"),
    "peak_mb": ("memory added", 1.0, "MB"),
}
Figures = dict[str, float]


class Bench(NamedTuple):
    """The tools that can run (name -> interpreter), the library, and how long to watch [s]."""

    pythons: dict[str, str]
    library: Path
    watch_s: float

    def run(self, name: str, gpus: int, hz: float, watch_s: float) -> tuple[Figures, str]:
        """One tool once: its figures, or why there are none."""
        tool = next(tool for tool in peers.TOOLS if tool.name == name)
        home = Path(tempfile.mkdtemp(dir=self.library))
        counter = hz < 10 or bool(tool.packages)
        wave, sensor = PUBLISHED[0]
        environ = standin.environment(self.library, wave, sensor, home, gpus, counter)
        asked = [tool.driver, str(gpus), str(hz), str(watch_s)]
        command = [self.pythons[name], str(COSTS), *asked]
        return peers.ask(command, environ, watch_s + SLACK_S)

    def times(self, name: str, runs: int) -> tuple[Figures, str]:
        """The medians of several runs with 8 GPUs, after one that fills the disk cache."""
        found, reasons = [], set()
        for _ in range(runs + 1):
            figures, reason = self.run(name, 8, 1.0, 0.0)
            found.append(figures)
            reasons.add(reason)
        if reasons != {""}:
            return {}, max(reasons)
        names = found[0].keys()
        return {key: statistics.median(run[key] for run in found[1:]) for key in names}, ""

    def idle(self) -> dict[tuple[str, int, float], tuple[Figures, str]]:
        """Every tool in every case."""
        cases = [
            (name, gpus, hz)
            for gpus, hz in IDLE
            for name in self.pythons
            if hz < 10 or name not in NO_RATE
        ]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(lambda case: self.run(*case, self.watch_s), cases)
            return dict(zip(cases, answers, strict=True))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="watched time of each process")
    parser.add_argument("--runs", type=int, default=5, help="runs of each tool that is timed")
    parser.add_argument("--tools", nargs="*", help="the peers beside ours (default: all)")
    parser.add_argument("--environments", type=Path, default=Path("build/meter_accuracy"))
    given = parser.parse_args()
    say = lambda text: print(text, file=sys.stderr)  # noqa: E731
    began = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d', time.gmtime())}, {peers.machine()}")
    names = None if given.tools is None else {"gramwatt", *given.tools}
    tools = peers.prepare(given.environments.resolve(), say, names)
    with tempfile.TemporaryDirectory(prefix="cost-") as name:
        pythons = {tool: python for tool, (python, _) in tools.items() if python}
        bench = Bench(pythons, standin.build(Path(name)), given.seconds)
        timed = {}
        for tool in pythons:
            say(f"timing {tool}")
            timed[tool] = bench.times(tool, given.runs)
        say(f"watching, {AT_ONCE} at a time")
        watched = bench.idle()
    print_times(tools, timed)
    print_idle(list(pythons), watched)
    print_reasons(tools, timed, watched)
    lightest = watched.get((LIGHTEST, 8, 1.0), ({}, ""))[0]
    missed = misses(timed["gramwatt"][0], watched["gramwatt", 8, 1.0][0], lightest.get("cpu"))
    print(f"\n{time.monotonic() - began:.0f} s, load now {os.getloadavg()[0]:.1f}")
    print(f"limits missed: {', '.join(missed)}" if missed else "limits kept")
    return 1 if missed else 0


def misses(times: Figures, idle: Figures, peer_cpu: float | None) -> list[str]:
    """The limits that ours misses; a figure that is not there is a miss, but for the peer's."""
    idle_limits = {"helpers_mb": HELPERS_MB}
    if peer_cpu is not None:
        idle_limits["cpu"] = peer_cpu * CPU_RATIO
    return [
        name
        for limits, figures in ((LIMITS, times), (idle_limits, idle))
        for name, limit in limits.items()
        if not figures.get(name, float("inf")) <= limit
    ]


def print_times(tools: dict[str, tuple[str, str]], timed: dict[str, tuple[Figures, str]]) -> None:
    """One row a tool; in brackets how many times ours it is."""
    print("\nIn the training process, 8 GPUs: medians, and how many times ours\n")
    heads = [f"{label} [{unit}]" for label, _, unit in SHOWN.values()]
    rule("tool", "version", *heads)
    limits = [shown(LIMITS[key] * SHOWN[key][1]) if key in LIMITS else "" for key in SHOWN]
    row("limit of ours", "", *limits)
    ours = timed["gramwatt"][0]
    for tool, (_, version) in tools.items():
        figures = timed.get(tool, ({}, ""))[0]
        cells = [
            ratio(figures.get(key), ours.get(key), SHOWN[key][1], tool == "gramwatt")
            for key in SHOWN
        ]
        row(tool, version, *cells)


def print_idle(
    names: list[str], watched: dict[tuple[str, int, float], tuple[Figures, str]]
) -> None:
    """One row a tool, one column a case; then the helpers' memory."""
    print("\nWhile nothing happens: % of a core (times ours), wake-ups a second\n")
    rule("tool", *(f"{gpus} GPU, {hz:.0f} Hz" for gpus, hz in IDLE), "other processes [MB]")
    row("limit of ours", "", f"{CPU_RATIO:g} x {LIGHTEST}", "", "", f"{HELPERS_MB:g}")
    for name in names:
        cells = []
        for case in IDLE:
            figures, ours = (watched.get((tool, *case), ({}, ""))[0] for tool in (name, "gramwatt"))
            part = ratio(figures.get("cpu"), ours.get("cpu"), 100, name == "gramwatt")
            wakeups = figures.get("wakeups_per_s")
            cells.append(part if wakeups is None else f"{part}, {wakeups:.1f}/s")
        memory = watched[name, 8, 1.0][0].get("helpers_mb")
        row(name, *cells, "" if memory is None else f"{memory:.0f}")


def print_reasons(*found: dict[Any, tuple[Any, str]]) -> None:
    """Why there is no figure where there is none."""
    tools, *answers = found
    reasons = {(tool, text) for tool, (python, text) in tools.items() if not python}
    for many in answers:
        for key, (_, reason) in many.items():
            if reason:
                reasons.add((key if isinstance(key, str) else key[0], reason))
    for tool, reason in sorted(reasons):
        print(f"\n{tool}: {reason}")


def ratio(value: float | None, ours: float | None, factor: float, is_ours: bool) -> str:
    """A figure, and how many times ours it is."""
    if value is None:
        return ""
    if is_ours or not ours:
        return shown(value * factor)
    return f"{shown(value * factor)} ({shown(value / ours, 2)}x)"


def shown(value: float, digits: int = 3) -> str:
    """So many digits, never an exponent."""
    return f"{value:.0f}" if value >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def rule(*heads: str) -> None:
    """The head of a table."""
    row(*heads)
    print("|" + "---|" * len(heads))


def row(*cells: str) -> None:
    """One row of a table."""
    print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    sys.exit(main())
