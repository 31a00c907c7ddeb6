"""How far off energy meters are, against loads whose energy is known exactly.

    python benchmarks/meter_accuracy [--quick] [--no-peers]

First our meter on a virtual clock: 29 waves on 6 kinds of board, windows of 10 and 60 s, many
phases. Then real processes, one job of 10 s a wave: our meter, and codecarbon, Zeus, carbontracker,
perun and eco2AI as their users install them, all reading a stand-in libnvidia-ml compiled from
standin.c; and one of 60 s for those that read the energy counter. Environments are made once under
build/ and kept. Some 15 minutes on 2 processors. Exit code 1 when ours misses a limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

import peers
import virtual

SHORT_S, LONG_S = 10.37, 60.73
"""No period of a published wave divides them, nor does a tick of the counter, nor a second."""
PHASES, QUICK_PHASES = 12, 3


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer phases, no long jobs")
    parser.add_argument("--no-peers", action="store_true", help="only our meter, virtual clock")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each tool and wave")
    parser.add_argument("--environments", type=Path, default=Path("build/meter_accuracy"))
    given = parser.parse_args()
    began = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d', time.gmtime())}, {peers.machine()}")
    results = virtual.run(QUICK_PHASES if given.quick else PHASES, os.cpu_count() or 1)
    print_virtual(results)
    outcomes: list[peers.Outcome] = []
    if not given.no_peers:
        plan = peers.parts(SHORT_S, LONG_S)[: 1 if given.quick else None]
        say = lambda text: print(text, file=sys.stderr)  # noqa: E731
        folder = given.environments.resolve()
        versions, outcomes = peers.compare(folder, plan, given.repeat, say)
        print_peers(versions, outcomes)
    missed = [out for out in outcomes if out.tool == "gramwatt" and not kept(out)]
    for out in missed:
        print(f"\nlimit missed in a real process: {out.load}, {out.seconds} s, {out.error}")
    print(f"\n{time.monotonic() - began:.0f} s, load now {os.getloadavg()[0]:.1f}")
    return 0 if all(result.kept for result in results) and not missed else 1


def kept(outcome: peers.Outcome) -> bool:
    """Return whether a run of ours kept the limit of the longest window that is not longer."""
    limit = virtual.LIMITS[max(length for length in virtual.LIMITS if length <= outcome.seconds)]
    return outcome.error is not None and abs(outcome.error) <= limit


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


def print_peers(versions: dict[str, str], outcomes: list[peers.Outcome]) -> None:
    """A table for each length of job: one row a tool; of several runs the worst."""
    published = [load for load in peers.loads() if load.key.startswith("w")]
    print("\nReal processes, one GPU of a stand-in library\n")
    for load in published:
        print(f"- {load.key}: {load.wave.name}, {load.sensor.name}")
    keys = [load.key for load in published]
    drawn = [load.key for load in peers.loads() if load not in published]
    for seconds in dict.fromkeys(outcome.seconds for outcome in outcomes):
        ran = [outcome for outcome in outcomes if outcome.seconds == seconds]
        heads = [f"jobs of {seconds} s", "version", *keys, f"{len(drawn)} random: median", "worst"]
        print("\n| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
        for tool in dict.fromkeys([*(out.tool for out in ran), *unable(versions)]):
            mine = [outcome for outcome in ran if outcome.tool == tool]
            cells = [cell([out for out in mine if out.load == key]) for key in keys]
            known = versions.get(tool, versions["gramwatt"])
            print(f"| {tool} | {known} | " + " | ".join([*cells, *spread(mine, drawn)]) + " |")
    for tool, reason in sorted({(out.tool, out.reason) for out in outcomes if out.reason}):
        print(f"\n{tool}: {reason}")


def unable(versions: dict[str, str]) -> list[str]:
    """Tools that could not be installed: their version is the reason."""
    return [tool for tool, text in versions.items() if not text[:1].isdigit()]


def spread(outcomes: list[peers.Outcome], keys: list[str]) -> tuple[str, str]:
    """Median and worst error, both without sign, over the waves of these keys."""
    found = [o.error for o in outcomes if o.load in keys and o.error is not None]
    if not found:
        return "no figure", "no figure"
    sizes = [abs(error) for error in found]
    few = "" if len(found) >= len(keys) else f" of {len(found)}"
    return f"{statistics.median(sizes):.2%}{few}", f"{max(sizes):.2%}"


def cell(outcomes: list[peers.Outcome]) -> str:
    """The worst error of a tool on a wave."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not errors:
        return "no figure"
    return f"{max(errors, key=abs):+.2%}"


if __name__ == "__main__":
    sys.exit(main())
