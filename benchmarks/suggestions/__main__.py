"""The accuracy of the suggestions on work that was measured, and the processor time of an answer.

    python -m benchmarks.suggestions            print the accuracy page and milliseconds an answer
    python -m benchmarks.suggestions --write    write the package's tables and the accuracy page
    python -m benchmarks.suggestions --check    exit 1 when one of these files is not current

The page judges answers by the tables on the disk: write again when a table was written. Exits 1
where an aim is missed; `benchmarks/suggestions/report.py` has the aims.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median

from benchmarks.suggestions.report import Results, files, is_current, missed, page
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.suggest.request import parse_suggest_request
from gramwatt.sci.suggest.suggest import suggest

AIM_MS = 50.0
ROUNDS = 20
QUESTIONS: dict[str, dict[str, object]] = {
    "training": {"hardware": "nvidia-h100-sxm5-80", "kind": "training", "precision": "bf16"},
    "serving": {"hardware": "nvidia-h100-sxm5-80", "workload_class": "llm-serving"},
    "no present device": {"kind": "inference", "model_parameters": 8e9},
}


def main() -> int:
    """Print, write or check; 1 where an aim is missed or a file is stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables and the page")
    parser.add_argument("--check", action="store_true", help="change nothing, print stale files")
    options = parser.parse_args()
    catalog = load_catalog()
    results = Results(catalog)
    if options.write or options.check:
        stale = [
            path
            for path, made in files(results).items()
            if not path.exists() or not is_current(path.read_text(encoding="utf-8"), made)
        ]
        for path in stale:
            print(f"{'written' if options.write else 'stale'}: {path.name}")
        if options.write:
            for path, made in files(results).items():
                if path in stale:
                    path.write_text(made, encoding="utf-8")
            return 0
        return 1 if stale else 0
    print(page(results))
    late = speed(catalog)
    lines = [*missed(results.shipped), *late]
    for line in lines:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if lines else 0


def speed(catalog: Catalog) -> list[str]:
    """Print milliseconds an answer in a warm process; return what is too slow."""
    late = []
    for name, fields in QUESTIONS.items():
        request = parse_suggest_request({**fields, "hours": 24, "zone": "DE"})
        spent = []
        for _ in range(ROUNDS):
            start = time.process_time()
            suggest(request, catalog)
            spent.append(1000 * (time.process_time() - start))
        print(f"{name:18} {median(spent):6.1f} ms an answer")
        late += [f"{name}: {median(spent):.0f} ms"] if median(spent) > AIM_MS else []
    return late


if __name__ == "__main__":
    sys.exit(main())
