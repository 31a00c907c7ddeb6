"""Time of one answer over the whole catalog in a warm process.

    python benchmarks/suggest_speed.py

Prints milliseconds by class of work and the ratio to the aim of 50 ms; exits 1 above it.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

from gramwatt.sci.advice import parse_suggestion, suggest
from gramwatt.sci.catalog import load_catalog

AIM_MS = 50.0
ROUNDS = 30
CASES: dict[str, dict[str, Any]] = {
    "training": {"kind": "training", "framework": "pytorch", "precision": "bf16", "hours": 24},
    "llm-serving": {"workload_class": "llm-serving", "batch_size": 64, "hours": 24},
    "small": {"kind": "training", "mean_power_w": 120, "utilisation": 0.2, "hours": 24},
    "class unknown": {"hours": 24},
}


def main() -> int:
    catalog = load_catalog()
    every = [part.id for part in catalog.all_hardware()]
    worst = 0.0
    print(f"{len(every)} parts, median and slowest of {ROUNDS} answers, aim {AIM_MS:.0f} ms")
    for name, fields in CASES.items():
        asked = {"hardware": "nvidia-h100-sxm5-80", "region": "gcp:europe-west3", **fields}
        question = parse_suggestion({**asked, "candidates": every})
        suggest(question, catalog)
        spent = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            suggest(question, catalog)
            spent.append(1000 * (time.perf_counter() - start))
        middle, slowest = median(spent), max(spent)
        worst = max(worst, middle)
        print(f"{name:14} {middle:6.1f} ms {slowest:6.1f} ms   ratio {middle / AIM_MS:.2f}")
    return 1 if worst > AIM_MS else 0


if __name__ == "__main__":
    sys.exit(main())
