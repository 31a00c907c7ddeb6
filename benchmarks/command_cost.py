"""Processor time of commands beside that of importing SQLAlchemy's ORM, which most of them need.

    python -m benchmarks.command_cost

Prints, for each command, the least processor time of several runs [s], its ratio to the import and
the ratio that it is held to. A store of its own has two jobs. Ends with 1 where a command is above.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

IMPORT = ("-c", "import sqlalchemy.orm")
PLACE = ("--zone", "DE")
PART = ("--hardware", "nvidia-l4", "--hours", "10", *PLACE)
RATIOS: Mapping[tuple[str, ...], float] = {
    ("--help",): 0.3,
    ("jobs",): 1.5,
    ("job", "last"): 1.5,
    ("compare", "first", "last"): 1.5,
    ("month",): 1.5,
    ("plan", "--hours", "4", *PLACE): 1.5,
    ("suggest", *PART): 0.8,
    ("estimate", *PART): 0.8,
    ("catalog", "hardware", "nvidia-l4"): 0.8,
}
"""Commands, and how many times the import they may take."""
RUN_S = 0.3
"""What `gramwatt run` may take beside its command [s]."""


def processor_s(arguments: Sequence[str], runs: int, environ: Mapping[str, str]) -> float:
    """Return the least processor time of a run of Python with these arguments, and of what it
    started and waited for [s].
    """
    least = float("inf")
    for _ in range(runs):
        before = os.times()
        subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, check=True)
        after = os.times()
        spent = after.children_user - before.children_user
        least = min(least, spent + after.children_system - before.children_system)
    return least


def main() -> int:
    """Print the table; 1 where a command is above what it is held to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="of each command")
    runs = parser.parse_args().runs
    gramwatt = ("-m", "gramwatt")
    with tempfile.TemporaryDirectory() as home:
        environ = {name: value for name, value in os.environ.items() if "GRAMWATT" not in name}
        environ |= {"GRAMWATT_HOME": home, "GRAMWATT_ZONE": "DE", "GRAMWATT_QUIET": "1"}
        for name in ("first", "second"):
            line = (*gramwatt, "run", "--name", name, "--", "sleep", "1")
            subprocess.run([sys.executable, *line], env=environ, check=True)
        subprocess.run([sys.executable, *gramwatt, "month"], env=environ, capture_output=True)
        base = processor_s(IMPORT, runs, environ)
        print(f"{'import sqlalchemy.orm':<24} {base:5.2f} s")
        above = 0
        for command, most in RATIOS.items():
            spent = processor_s((*gramwatt, *command), runs, environ)
            above += spent > most * base
            name = " ".join(command[:2] if command[0] in ("job", "catalog") else command[:1])
            print(f"{name:<24} {spent:5.2f} s, {spent / base:4.2f} times; held to {most:g}")
        run_s = processor_s((*gramwatt, "run", "--", "true"), runs, environ)
        above += run_s > RUN_S
        print(f"{'run -- true':<24} {run_s:5.2f} s; held to {RUN_S:g} s")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
