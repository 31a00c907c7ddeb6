"""How often the product's ranges hold a known truth; eight times in ten is what they promise.

    python -m benchmarks.calibration [--traces DIR] [--write]

Jobs: kinds of them, scored as in production, against truths drawn from the ranges of their inputs.
Intensity, with --traces: annual values against hourly traces, by zone and length of time, for jobs
of the same hours every day, and by months of jobs; then years and zones that the fit did not have.
--write puts the fitted tables into the catalog, and ends. Last, how far later editions of a year
moved, beside the range of a value by the hour. Exit code 1 where a coverage is out of bounds: 76 to
88 % for jobs (hours that usually lie far from the annual value have a range that holds it too); for
intensity 70 to 90 % in every zone, 65 % and more in every zone left out and in the mean of
the years left out; 70 to 95 % for months in the mean of the zones.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from benchmarks.calibration import fitting, intensity, jobs
from gramwatt.sci.grid.zones import HOURLY_SPREAD

JOBS = (0.76, 0.88)
GRIDS = (0.7, 0.9)
YEARS, ZONES, REVISED = 0.65, 0.65, 0.76
MONTHS = (0.7, 0.95)
DATA = Path(__file__).parents[2] / "sci/catalog/data/odbl"


def main() -> int:
    """Print the tables; 1 where a range holds the truth too seldom or too often."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--traces", type=Path, help="folder of ZONE_YEAR_hourly.csv")
    parser.add_argument("--write", action="store_true", help="write the fitted tables")
    asked = parser.parse_args()
    if asked.write:
        spreads, shapes = fitting.tables(intensity.read(asked.traces))
        (DATA / "intensity_spread.csv").write_text("\n".join(spreads) + "\n", encoding="utf-8")
        (DATA / "intensity_hours.csv").write_text("\n".join(shapes) + "\n", encoding="utf-8")
        return 0
    wrong = _jobs()
    if asked.traces:
        wrong += _grids(asked.traces)
        wrong += _months(asked.traces)
        wrong += _revisions(asked.traces)
    for text in wrong:
        print(f"out of bounds: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _jobs() -> list[str]:
    print(f"{'job':34}" + "".join(f"{term:>15}" for term in (*jobs.TERMS, "range of sci")))
    rows = []
    for row in jobs.report():
        rows.append(row)
        shares = "".join(f"{_percent(row[term]):>15}" for term in jobs.TERMS)
        width = " to ".join(f"{end - 1:+.0%}" for end in row["width"])
        print(f"{row['job']:34}{shares}{width:>15}")
    print("\nboards of a type each with an error of its own, for half of the variance of a counter")
    for row in jobs.report(apart=True):
        shares = "".join(f"{_percent(row[term]):>15}" for term in jobs.TERMS)
        print(f"{row['job']:34}{shares}")
    return jobs.outside(rows, *JOBS)


def _grids(folder: Path) -> list[str]:
    """Annual values by zone; a mean over zones would hide the zone that a job runs in."""
    traces = intensity.read(folder)
    zones = intensity.by_zone(traces).items()
    shipped = [(zone, intensity.covered(own)) for zone, own in zones]
    wrong = _table("zones", shipped, *GRIDS)
    left_out = list(intensity.years_left_out(traces))
    _table("years left out of the fit", left_out, 0.0, 1.0)
    for length in left_out[0][1]:
        mean = sum(row[length] for _, row in left_out) / len(left_out)
        if not length.startswith("fixed") and mean < YEARS:
            wrong.append(f"years left out, {length}: {_percent(mean)}")
    rows = list(intensity.zones_left_out(traces))
    return wrong + _table("zones left out of the fit", rows, ZONES, 1.0)


def _table(
    title: str, rows: list[tuple[str, dict[str, float]]], low: float, high: float
) -> list[str]:
    """Print coverage by row and in the mean; return what lies out of bounds."""
    lengths = tuple(rows[0][1])
    print(f"\n{title:28}" + "".join(f"{length:>14}" for length in lengths))
    for name, row in [*rows, ("mean", _means([row for _, row in rows]))]:
        print(f"{name:28}" + "".join(f"{_percent(row[length]):>14}" for length in lengths))
    return [
        f"{title}: {name}, {length}: {_percent(row[length])}"
        for name, row in rows
        for length in lengths
        if not low <= row[length] <= high
    ]


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {length: sum(row[length] for row in rows) / len(rows) for length in rows[0]}


def _months(folder: Path) -> list[str]:
    """Months of jobs that annual values stand for: those at the same hours err together."""
    rows = [(row.pop("zone"), row) for row in intensity.months(intensity.read(folder))]
    _table("months of jobs", rows, 0.0, 1.0)
    return [
        f"months, {plan}: {_percent(mean)}"
        for plan, mean in _means([row for _, row in rows]).items()
        if not MONTHS[0] <= mean <= MONTHS[1]
    ]


def _revisions(folder: Path) -> list[str]:
    """Revisions of years against the range of values by the hour, which they may not exceed."""
    found = sorted(abs(change) for _, _, change in intensity.revisions(intensity.read(folder)))
    within = sum(change <= HOURLY_SPREAD for change in found) / len(found)
    eight_in_ten = found[math.ceil(0.8 * len(found)) - 1]
    print(
        f"\nrevised later: {len(found)} years of zones, eight in ten by at most "
        f"{eight_in_ten:.1%}, at most {found[-1]:.1%}; within -+ {HOURLY_SPREAD:.0%}: {within:.1%}"
    )
    return [] if within >= REVISED else [f"revisions: {within:.1%}"]


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.1%}"


if __name__ == "__main__":
    sys.exit(main())
