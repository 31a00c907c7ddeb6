"""How often the product's ranges hold a known truth; eight times in ten is what they promise.

    python -m benchmarks.calibration [--traces DIR] [--write]

Jobs: twenty kinds, scored as in production, against truths drawn from the ranges of their inputs.
Intensity, with --traces: annual values against hourly traces, by type of grid and length of time,
and by months of jobs at the same or at other hours of the day; --write puts the fitted table into
the catalog. Last, how far later editions of a year moved, beside the range of a value by the hour.
Exit code 1 where a coverage is out of bounds: 78 to 84 % for jobs, 76 to 88 % for intensity,
70 to 95 % for months.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from benchmarks.calibration import intensity, jobs
from gramwatt.sci.grid.zones import HOURLY_SPREAD

JOBS = (0.78, 0.84)
GRIDS = (0.76, 0.88)
MONTHS = (0.7, 0.95)
TABLE = Path(__file__).parents[2] / "sci/catalog/data/odbl/intensity_spread.csv"


def main() -> int:
    """Print the tables; 1 where a range holds the truth too seldom or too often."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--traces", type=Path, help="folder of ZONE_YEAR_hourly.csv")
    parser.add_argument("--write", action="store_true", help="write the fitted table")
    asked = parser.parse_args()
    wrong = _jobs()
    if asked.traces:
        wrong += _grids(asked.traces, write=asked.write)
        wrong += _months(asked.traces)
        wrong += _revisions(asked.traces)
    for text in wrong:
        print(f"out of bounds: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _jobs() -> list[str]:
    print(f"{'job':34}" + "".join(f"{term:>15}" for term in jobs.TERMS))
    rows = []
    for row in jobs.report():
        rows.append(row)
        print(f"{row['job']:34}" + "".join(f"{_percent(row[term]):>15}" for term in jobs.TERMS))
    return jobs.outside(rows, *JOBS)


def _grids(folder: Path, *, write: bool) -> list[str]:
    traces = intensity.read(folder)
    if write:
        TABLE.write_text("\n".join(intensity.table(traces)) + "\n", encoding="utf-8")
    print(f"\n{'grids':16}{'zones':>6}{'hours':>7}{'range':>16}{'covered':>9}{'left out':>10}")
    wrong = []
    for row in intensity.report(traces):
        covered = row["covered"]
        print(
            f"{row['grids']:16}{row['zones']:>6}{row['hours']:>7}{row['range']:>16}"
            f"{_percent(covered):>9}{_percent(row['zone left out']):>10}"
        )
        # A year has one mean a trace: too few to hold against a bound.
        if row["hours"] < intensity.HOURS[-1] and not GRIDS[0] <= covered <= GRIDS[1]:
            wrong.append(f"{row['grids']}, {row['hours']} h: {_percent(covered)}")
    return wrong


def _months(folder: Path) -> list[str]:
    """Months of jobs that annual values stand for: those at the same hours err together."""
    plans = tuple(intensity.PLANS)
    print(f"\n{'months of jobs':16}" + "".join(f"{plan:>14}" for plan in plans))
    wrong = []
    for row in intensity.months(intensity.read(folder)):
        print(f"{row['grids']:16}" + "".join(f"{_percent(row[plan]):>14}" for plan in plans))
        wrong += [
            f"{row['grids']}, {plan}: {_percent(row[plan])}"
            for plan in plans
            if not MONTHS[0] <= row[plan] <= MONTHS[1]
        ]
    return wrong


def _revisions(folder: Path) -> list[str]:
    """Revisions of years against the range of values by the hour, which they may not exceed."""
    found = sorted(abs(change) for _, _, change in intensity.revisions(intensity.read(folder)))
    within = sum(change <= HOURLY_SPREAD for change in found) / len(found)
    eight_in_ten = found[math.ceil(0.8 * len(found)) - 1]
    print(
        f"\nrevised later: {len(found)} years of zones, eight in ten by at most "
        f"{eight_in_ten:.1%}, at most {found[-1]:.1%}; within -+ {HOURLY_SPREAD:.0%}: {within:.1%}"
    )
    return [] if within >= GRIDS[0] else [f"revisions: {within:.1%}"]


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.1%}"


if __name__ == "__main__":
    sys.exit(main())
