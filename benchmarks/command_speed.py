"""Processor time of commands beside that of importing SQLAlchemy's ORM, which most of them need.

    python -m benchmarks.command_speed [--runs 7]

Each round runs the import and then every command once, in a store of two jobs; the least of all
rounds counts, so that a loaded machine adds little. Prints it [s], its ratio to the import, and
the ratio that the command may have. Ends with 1 where a command is above.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

IMPORT = ("-c", "import sqlalchemy.orm")
GRAMWATT = ("-m", "gramwatt")
PLACE = ("--zone", "DE")
DEVICE = ("--hardware", "nvidia-l4", "--hours", "10", *PLACE)
RATIOS: Mapping[tuple[str, ...], float] = {
    ("--help",): 0.3,
    ("jobs",): 1.5,
    ("job", "last"): 1.5,
    ("compare", "first", "last"): 1.5,
    ("month",): 1.5,
    ("plan", "--hours", "4", *PLACE): 1.5,
    ("suggest", *DEVICE): 0.8,
    ("estimate", *DEVICE): 0.8,
    ("catalog", "hardware", "nvidia-l4"): 0.8,
}
"""Commands, and how many times the import they may take."""
RUN = ("run", "--", "true")
RUN_S = 0.3
"""What `gramwatt run` may take beside its command [s]."""


def processor_s(arguments: Sequence[str], environ: Mapping[str, str]) -> float:
    """Return the processor time of Python with these arguments and of its children [s]."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, check=True)
    after = os.times()
    user_s = after.children_user - before.children_user
    return user_s + after.children_system - before.children_system


def least_s(
    lines: Sequence[Sequence[str]], rounds: int, environ: Mapping[str, str]
) -> dict[Sequence[str], float]:
    """Return the least processor time of each line over some rounds of all [s]."""
    spent: dict[Sequence[str], list[float]] = {line: [] for line in lines}
    for _ in range(rounds):
        for line in lines:
            spent[line].append(processor_s(line, environ))
    return {line: min(times) for line, times in spent.items()}


def main() -> int:
    """Print the table; 1 where a command is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="of each command")
    rounds = parser.parse_args().runs
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        environ = {name: value for name, value in os.environ.items() if "GRAMWATT" not in name}
        environ |= {"GRAMWATT_HOME": home, "GRAMWATT_ZONE": "DE", "GRAMWATT_QUIET": "1"}
        # Compiled once, as an installed package is, whatever this process was told.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        environ["PYTHONPYCACHEPREFIX"] = str(Path(home) / "compiled")
        for name in ("first", "second"):
            line = (*GRAMWATT, "run", "--name", name, "--", "sleep", "1")
            subprocess.run([sys.executable, *line], env=environ, check=True)
        processor_s((*GRAMWATT, "month"), environ)
        commands = [(*GRAMWATT, *command) for command in RATIOS]
        spent = least_s([IMPORT, *commands], rounds, environ)
        # Measured last, since its job makes `month` sum again.
        spent |= least_s([(*GRAMWATT, *RUN)], rounds, environ)
    base_s, run_s = spent[IMPORT], spent[*GRAMWATT, *RUN]
    print(f"{'import sqlalchemy.orm':<22} {base_s:5.2f} s, load {os.getloadavg()[0]:.1f}")
    above = run_s > RUN_S
    for command, most in RATIOS.items():
        ratio = spent[*GRAMWATT, *command] / base_s
        above |= ratio > most
        print(f"{command[0]:<22} {ratio * base_s:5.2f} s, {ratio:4.2f} times; limit {most:g}")
    print(f"{'run -- true':<22} {run_s:5.2f} s; limit {RUN_S:g} s")
    return int(above)


if __name__ == "__main__":
    sys.exit(main())
