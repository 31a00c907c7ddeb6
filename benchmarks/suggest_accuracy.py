"""Accuracy of the suggestions on the shipped measurements, against the rules of thumb.

    python benchmarks/suggest_accuracy.py

Refits the time model with every workload and every part kept out in turn (about a minute), prints
errors, coverage and the verdicts on measured energy, and exits 1 when an aim is missed. The same
figures are in docs/suggestions-accuracy.md.
"""

from __future__ import annotations

import sys

from gramwatt.sci.advice.accuracy import ALL, Replay
from gramwatt.sci.advice.rows import measurements
from gramwatt.sci.advice.specs import all_specs
from gramwatt.sci.catalog import load_catalog

MEDIAN_MOST, P90_MOST = 0.15, 0.45
COVERED = (0.76, 0.90)
PRECISION_LEAST = 0.90
OURS = "leave one workload out"
BEATEN = ("peak ratio", "bandwidth ratio")


def main() -> int:
    replay = Replay(measurements(), all_specs(load_catalog()))
    missed = _errors(replay) + _coverage(replay) + _claims(replay)
    for text in missed:
        print(f"missed: {text}", file=sys.stderr)
    return 1 if missed else 0


def _errors(replay: Replay) -> list[str]:
    found = {(line.method, line.workload_class): line for line in replay.lines()}
    for line in found.values():
        print(
            f"{line.method:32} {line.workload_class:16} {line.pairs:5} pairs "
            f"{line.median:6.1%} {line.p90:6.1%}"
        )
    whole = found[OURS, ALL]
    missed = [f"error {whole}"] if whole.median > MEDIAN_MOST or whole.p90 > P90_MOST else []
    for (method, name), line in found.items():
        if method in BEATEN and found[OURS, name].median >= line.median:
            missed.append(f"{name}: not better than the {method}")
    return missed


def _coverage(replay: Replay) -> list[str]:
    missed = []
    for label, found in (("one workload", replay.coverages()), ("half", replay.halved())):
        for name, pairs, share in found:
            print(f"80 % range, kept out: {label:12} {name:16} {pairs:5} pairs {share:6.1%} inside")
            if name == ALL and not COVERED[0] <= share <= COVERED[1]:
                missed.append(f"coverage {share:.1%} with {label} kept out")
    for figure, pairs, answered, share in replay.serving():
        print(f"LLM serving, {figure}: {answered} of {pairs} pairs answered, {share:.1%} inside")
    return missed


def _claims(replay: Replay) -> list[str]:
    said = right = 0
    for one in replay.claims():
        said, right = said + one.claims, right + one.right
        print(
            f"lower on board energy, {one.where:12} {one.pairs:4} pairs, {one.true_savings} true, "
            f"{one.claims} claimed, {one.right} right, {one.abstention:.0%} abstained"
        )
    return [] if right >= PRECISION_LEAST * said else [f"precision {right}/{said}"]


if __name__ == "__main__":
    sys.exit(main())
