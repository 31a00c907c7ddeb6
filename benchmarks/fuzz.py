"""Try inputs that nobody would write on the parsers of what comes from outside.

    python -m benchmarks.fuzz [--minutes 15] [--only journal] [--seed 1]

Hypothesis changes valid journals, uploads, evidence, intensity and emissions.csv; each parser must
answer, or refuse in its way. Prints inputs tried by parser. An input that breaks one is made small
and kept in `tests/data/fuzz/PARSER/`, where the tests try it ever after. Exit code 1 for any.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.inputs import changed
from tests.fuzz.targets import Target, bundle_of_a_job, targets

KEPT = Path(__file__).parents[1] / "tests" / "data" / "fuzz"
ROUND = 500
"""Inputs that hypothesis draws before it is started again with another seed."""


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--only", help="one parser")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        bundle = bundle_of_a_job(folder / "bundle")
        with targets(folder, bundle) as found:
            wanted = {n: found[n] for n in found if chosen.only in (None, n)}
            length_s = 60 * chosen.minutes / len(wanted)
            broken = [_fuzz(name, wanted[name], length_s, chosen.seed) for name in wanted]
    return 1 if any(broken) else 0


def _fuzz(name: str, target: Target, length_s: float, number: int) -> bool:
    """Try inputs on a parser for so long, or until one breaks it; whether one did."""
    until, tried, last = time.monotonic() + length_s, 0, b""

    def one(content: bytes) -> None:
        nonlocal tried, last
        tried += 1
        last = content
        target.run(content)

    while time.monotonic() < until:
        drawn = given(changed(target.seeds))(one)
        try:
            settings(
                max_examples=ROUND,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )(seed(number)(drawn))()
        except Exception:
            traceback.print_exc()
            kept = KEPT / name / hashlib.sha256(last).hexdigest()[:12]
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(last)
            print(f"{name}: {tried} inputs, one broke it: {kept}", flush=True)
            return True
        number += 1
    print(f"{name}: {tried} inputs, none broke it", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
