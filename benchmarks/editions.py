"""Check that the catalog's annual data are of a recent edition; exit 1 where one is too old.

    python -m benchmarks.editions

`sci/catalog/data/editions.csv` has the day on which each file's source was published. The release
workflow runs this, so that no release goes out with data older than MONTHS_MOST.
"""

from __future__ import annotations

import csv
import sys
from datetime import UTC, date, datetime
from pathlib import Path

MONTHS_MOST = 20
EDITIONS = Path(__file__).resolve().parents[1] / "sci" / "catalog" / "data" / "editions.csv"


def main() -> int:
    """Print the age of every edition; 1 where one is older than MONTHS_MOST."""
    today = datetime.now(UTC).date()
    with EDITIONS.open(encoding="utf-8", newline="") as lines:
        ages = {row["file"]: months(row["published"], today) for row in csv.DictReader(lines)}
    for name, age in ages.items():
        print(f"{name:20} {age:3} months{', too old' if age > MONTHS_MOST else ''}")
    return 1 if any(age > MONTHS_MOST for age in ages.values()) else 0


def months(published: str, today: date) -> int:
    """Return the age of an edition in begun months."""
    since = date.fromisoformat(published)
    whole = 12 * (today.year - since.year) + today.month - since.month
    return whole + (today.day > since.day)


if __name__ == "__main__":
    sys.exit(main())
