"""How far off energy meters are, against loads whose energy is known exactly.

    python benchmarks/meter_accuracy [--quick] [--no-peers]

First our meter on a virtual clock: 29 waves on 6 kinds of board, windows of 10 and 60 s, many
phases. Then real processes for some 15 s a wave: our meter, and codecarbon, Zeus, carbontracker,
perun and eco2AI as their users install them, all reading a stand-in libnvidia-ml compiled from
standin.c. Environments are made once under build/ and kept. Exit code 1 when ours misses a limit.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import peers
import virtual

SECONDS, QUICK_SECONDS = 15.3, 10.3
"""No period of a wave divides them, and no second does."""
PHASES, QUICK_PHASES = 12, 3


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer phases, shorter jobs")
    parser.add_argument("--no-peers", action="store_true", help="only our meter, virtual clock")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each tool and wave")
    parser.add_argument("--environments", type=Path, default=Path("build/meter_accuracy"))
    given = parser.parse_args()
    began = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d', time.gmtime())}, {machine()}")
    results = virtual.run(QUICK_PHASES if given.quick else PHASES, os.cpu_count() or 1)
    print_virtual(results)
    if not given.no_peers:
        seconds = QUICK_SECONDS if given.quick else SECONDS
        say = lambda text: print(text, file=sys.stderr)  # noqa: E731
        versions, outcomes = peers.compare(given.environments.resolve(), seconds, given.repeat, say)
        print_peers(versions, outcomes, seconds)
    print(f"\n{time.monotonic() - began:.0f} s")
    return 0 if all(result.kept for result in results) else 1


def machine() -> str:
    """This machine in a few words."""
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, load {load:.1f}, "
        f"Python {platform.python_version()}"
    )


def print_virtual(results: list[virtual.Result]) -> None:
    """Worst and median by board and window, and the worst wave of each."""
    rows: dict[tuple[str, float], list[virtual.Result]] = defaultdict(list)
    for result in results:
        rows[result.case.sensor.name, result.case.window_s].append(result)
    phases, waves = results[0].case.phases, len({result.case.wave.name for result in results})
    print(f"\ngramwatt on a virtual clock: {waves} waves, {phases} phases of each, from the first")
    print("reading on\n")
    print("| board | window | limit | worst | median | worst in joules | worst wave |")
    print("|---|---|---|---|---|---|---|")
    for (board, window_s), found in rows.items():
        worst = max(found, key=lambda result: result.worst)
        median = statistics.median(result.median for result in found)
        missed = sum(not result.kept for result in found)
        limit = f"{virtual.LIMITS[window_s]:.1%}" + (f", missed by {missed}" if missed else "")
        most_j = max(result.worst_j for result in found)
        print(
            f"| {board} | {window_s:.0f} s | {limit} | {worst.worst:.2%} | {median:.3%} "
            f"| {most_j:.0f} J | {worst.case.wave.name} |"
        )


def print_peers(versions: dict[str, str], outcomes: list[peers.Outcome], seconds: float) -> None:
    """One row a tool, one column a wave; of several runs the worst."""
    keys = [load.key for load in peers.loads()]
    print(f"\nReal processes, one GPU of a stand-in library, jobs of {seconds} s\n")
    for load in peers.loads():
        print(f"- {load.key}: {load.wave.name}, {load.sensor.name}")
    print("\n| tool | version | " + " | ".join(keys) + " |")
    print("|---|---|" + "---|" * len(keys))
    for tool in dict.fromkeys([*(outcome.tool for outcome in outcomes), *versions]):
        mine = [outcome for outcome in outcomes if outcome.tool == tool]
        cells = (cell([out for out in mine if out.load == key]) for key in keys)
        known = versions.get(tool, versions["gramwatt"])
        print(f"| {tool} | {known} | " + " | ".join(cells) + " |")
    reasons = {(out.tool, out.reason) for out in outcomes if out.reason}
    for tool, reason in sorted(reasons):
        print(f"\n{tool}: {reason}")


def cell(outcomes: list[peers.Outcome]) -> str:
    """The worst error of a tool on a wave."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not errors:
        return "no figure"
    return f"{max(errors, key=abs):+.2%}"


if __name__ == "__main__":
    sys.exit(main())
