"""Run the seeded simulation: `python -m benchmarks.simulation --seeds 10000 --jobs 2`.

Prints what was injected, seeds a second, and of every seed that broke something the end of its
story and the command that tells it again. `--seed N` tells one story whole. `--planted` prints
`planted.BUGS` with the first seed that finds each bug: any change of a statement or a task changes
the stories. Exit code 1 when anything broke, or a bug is not found.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from tests.simulation.planted import BUGS, Bug
from tests.simulation.runner import Outcome, run, run_many, stage
from tests.simulation.story import Stage

SEEDS_FOR_A_BUG = 150
SHOWN = 30
"""Lines of a failing story; the command shows all of it."""
FAILURES_SHOWN = 5


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="tell the story of this one seed")
    parser.add_argument("--planted", action="store_true", help="find the planted bugs")
    chosen = parser.parse_args()
    if chosen.planted:
        return _find_planted(min(chosen.seeds, SEEDS_FOR_A_BUG))
    if chosen.seed is not None:
        return _tell(chosen.seed)
    return _run_all(chosen.first, chosen.seeds, chosen.jobs)


def _tell(seed: int) -> int:
    with stage() as on:
        outcome = run(seed, on)
    print(*outcome.trace, sep="\n")
    print(f"seed {seed}: {', '.join(outcome.broken) or 'everything held'}")
    return 1 if outcome.broken else 0


def _find_planted(seeds: int) -> int:
    missed = 0
    with stage() as on:
        for bug in BUGS:
            found = next(
                (seed for seed in (bug.seed, *range(seeds)) if _finds(bug, seed, on)), None
            )
            missed += found is None
            print(f"Bug({found}, {bug.plant.__name__}),", flush=True)
    return 1 if missed else 0


def _finds(bug: Bug, seed: int, on: Stage) -> bool:
    with bug.plant():
        return bool(run(seed, on).broken)


def _run_all(first: int, seeds: int, jobs: int) -> int:
    began, done, failed = time.monotonic(), 0, 0
    faults: Counter[str] = Counter()
    for lot in run_many(range(first, first + seeds), jobs):
        done += len(lot)
        for outcome in lot:
            faults += outcome.faults
            if outcome.broken:
                failed += 1
                if failed <= FAILURES_SHOWN:
                    _show(outcome)
        if sys.stderr.isatty():
            rate = done / (time.monotonic() - began)
            print(f"\r{done} of {seeds} seeds, {rate:.1f}/s", end="", file=sys.stderr)
    took_s = time.monotonic() - began
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"{done} seeds from {first} on, {failed} broke something")
    print(f"{took_s:.0f} s with {jobs} processes: {done / took_s:.1f} seeds/s")
    print(f"10 000 seeds take {10_000 * took_s / done / 60:.1f} minutes")
    print("faults injected:")
    for kind, number in faults.most_common():
        print(f"  {kind:20} {number:>9,}")
    return 1 if failed else 0


def _show(outcome: Outcome) -> None:
    print(f"seed {outcome.seed} broke:")
    for text in outcome.broken[:5]:
        print(f"  {text}")
    print(f"  the last {SHOWN} lines of its story:")
    for line in outcome.trace[-SHOWN:]:
        print(f"    {line}")
    print(f"  repeat it with: python -m benchmarks.simulation --seed {outcome.seed}\n")


if __name__ == "__main__":
    sys.exit(main())
