"""Make the tables of the suggestions and their accuracy report from the shipped measurements.

    python -m benchmarks.suggestions.tables          write the tables and the accuracy report
    python -m benchmarks.suggestions.tables --check  change nothing; exit 1 when a file is stale

Needs numpy. The report judges verdicts by the tables on the disk: run it again after it wrote any.
A file whose figures differ by rounding only is current and stays as it is.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path

import msgspec

from benchmarks.suggestions.accuracy import Replay, power_shares
from benchmarks.suggestions.evidence import measured_effects
from benchmarks.suggestions.quantiles import percentile
from benchmarks.suggestions.regression import fit
from benchmarks.suggestions.shipped import (
    SYSTEMS,
    against_aims,
    as_cells,
    held_out,
    right,
)
from gramwatt.sci.advice.actions.host_power import WALL_LEAST_W
from gramwatt.sci.advice.prediction.measurements import measurements
from gramwatt.sci.catalog.catalog import load_catalog

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "sci" / "advice" / "data"
REPORT = ROOT / "docs" / "suggestions-accuracy.md"
HEAD = """# Accuracy of the suggestions

Made by `python -m benchmarks.suggestions.tables` from `sci/advice/data/measurements.csv`.
Do not edit.

{rows} rows in {groups} groups of the same work are fitted. A pair is two rows of one group on
different parts, in both directions. Groups share source, round, workload, operating point and,
except in MLPerf, precision. A workload is a model family within all sources and precisions, so that
ResNet-50 of one source never helps to predict ResNet-50 of another. The error is
|predicted / measured throughput ratio - 1|. LLM serving is answered from direct rows only and is
not in this table; small jobs are predicted to take equally long everywhere.

"""
SHIPPED = """
## The shipped verdict `lower` on measured energy

Each pair is asked as a request of its own, both rows' workload kept out of the fit, hours and zone
the same for all. Board energy (Zeus, ML.ENERGY 2023) is judged by the board, and with the usual
power of the hosts on both sides for the range. MLPerf is wall energy of whole systems, the round
kept out of the range of wall energy, and pairs of systems of which one has at most twice the
devices. Precision is asked as the source states it; Zeus states none. `likely` is no promise.

Two sets are in no fit (`benchmarks/suggestions/data/held_out.csv`). `mlperf-systems`: of every
workload and round of MLPerf Inference v2.0 to v4.0 (closed, power, Offline) each part's system of
4 to 8 GPUs with the least energy; the same systems stand behind the power rows that the range of
wall energy is made of. 3D-UNet and DLRM at 99.9 % are the same runs as at 99 %.
`zeus-sentiment140`: the workload of the Zeus trace that the fit lacks, one model at five batch
sizes. Otherwise the trace is used without selection: every setting at each part's highest power
limit that ran on two parts or more.

"""
WALL = """
## Wall energy between server parts

Batch inference on parts of 250 W and more, MLPerf: time with the workload out of the fit, times the
ratio of rated powers, with the factor that holds four in five of the other pairs.

"""
AIMS = """
## Energy against the aims

Of wall energy on MLPerf systems and board energy on the Zeus workload that no fit uses, and of the
other rows with their workload kept out of the fit of time (their range of power was made with
them). Savings above 20 % are pairs whose measured energy is below 0.8. What is not met stays so
with the data at hand: one model at five batch sizes is no test of a range, decoding was metered on
three parts, so that its range holds 1 nearly everywhere, and precision is not stated by Zeus.

"""
BOARDS = """
What MLPerf inference systems draw from the wall a device, less its rated power [W]. One card alone
bears a whole host; eight share one, and their limits are often lowered, so that the difference is
below 0. Power of the devices alone was not published, and a job of one device does not say how many
boards share its host, so that the range of the host's power spans both.

"""
SHIPPED_HEAD = (
    "| source | class | pairs | answered | energy inside | true savings | right of claims | "
    "precision | recall | right of likely |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)


def main() -> int:
    """Write or check the files; 1 when a checked file is not current."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    made = files(Replay(measurements(), load_catalog()))
    stale = [path for path in made if not is_current(path.read_text("utf-8"), made[path])]
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(made[path], encoding="utf-8")
    return 1 if check and stale else 0


def files(replay: Replay) -> dict[Path, str]:
    """Every file by path."""
    terms = sorted(fit(replay.fitted).items())
    return {
        DATA / "fit.csv": table(
            ("term", "class", "within", "part", "value"),
            ((*term, value) for term, value in terms),
        ),
        DATA / "ranges.csv": table(
            ("class", "figure", "known", "factor", "pairs"), map(astuple, replay.ranges())
        ),
        DATA / "power.csv": table(
            ("class", "low", "value", "high", "rows"),
            map(astuple, power_shares(replay.rows, replay.specs)),
        ),
        DATA / "evidence.csv": table(
            ("key", "figure", "low", "value", "high", "pairs", "source"),
            (
                (*msgspec.structs.astuple(row)[:-1], ";".join(row.source))
                for row in measured_effects(replay.rows, replay.specs)
            ),
        ),
        REPORT: report(replay),
    }


def is_current(shipped: str, made: str) -> bool:
    """Whether two files agree in words and in numbers, but for what linear algebra rounds away."""
    cells = [text.replace("\n", ",").split(",") for text in (shipped, made)]
    if len(cells[0]) != len(cells[1]):
        return False
    return all(one == other or is_close(one, other) for one, other in zip(*cells, strict=True))


def is_close(one: str, other: str) -> bool:
    """Return whether two cells are numbers that agree to 1e-4 of them, or to 1e-5."""
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-4, abs_tol=1e-5)
    except ValueError:
        return False


def table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """CSV text with five significant digits a number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for line in lines:
        writer.writerow([f"{cell:.5g}" if isinstance(cell, float) else cell for cell in line])
    return out.getvalue()


def report(replay: Replay) -> str:
    """docs/suggestions-accuracy.md."""
    groups = {row.row.group for row in replay.fitted}
    served = replay.claims()
    coverage = [
        (kept_out, one.workload_class, one.pairs, f"{one.inside:.1%}")
        for kept_out, found in (
            ("one workload", replay.coverages()),
            ("every second workload, from fit and ranges", replay.halved()),
        )
        for one in found
    ]
    return "".join(
        (
            HEAD.format(rows=len(replay.fitted), groups=len(groups)),
            markdown(
                "| method | class | pairs | median | p90 |\n|---|---|---:|---:|---:|\n",
                (
                    (
                        one.method,
                        one.workload_class,
                        one.pairs,
                        f"{one.median:.0%}",
                        f"{one.p90:.0%}",
                    )
                    for one in replay.accuracies()
                ),
            ),
            "\n## Coverage of the 80 % ranges\n\n",
            markdown("| rows kept out | class | pairs | inside |\n|---|---|---:|---:|\n", coverage),
            "\n## LLM serving from direct rows, model family kept out\n\n",
            markdown(
                "| figure | pairs | answered | inside |\n|---|---:|---:|---:|\n",
                (
                    (one.figure, one.pairs, one.answered, f"{one.inside:.1%}")
                    for one in replay.serving()
                ),
            ),
            WALL,
            markdown(
                "| kept out | pairs | inside |\n|---|---:|---:|\n",
                (
                    (one.workload_class, one.pairs, f"{one.inside:.1%}")
                    for one in replay.wall_coverages()
                ),
            ),
            SHIPPED,
            markdown(SHIPPED_HEAD, (as_cells(one) for one in replay.shipped)),
            f"\nBetween MLPerf systems {right(replay.shipped, SYSTEMS)}.\n"
            f"\nDirect answers to LLM serving claimed {served.claims} of {served.true_savings} "
            f"true savings in {served.pairs} pairs.\n",
            AIMS,
            markdown(
                "| energy | figure | reached | aim | met |\n|---|---|---:|---:|---|\n",
                against_aims(replay.shipped),
            ),
            BOARDS,
            markdown(
                "| devices | systems | 10th | median | 90th percentile |\n"
                "|---:|---:|---:|---:|---:|\n",
                by_boards(replay),
            ),
        )
    )


def by_boards(replay: Replay) -> list[tuple[object, ...]]:
    """Wall power of MLPerf systems a device less its rated power [W], by number of devices."""
    groups: dict[str, dict[tuple[object, ...], float]] = {}
    for row in (*replay.rows, *held_out()):
        rated = replay.specs[row.hardware].tdp_w
        if row.energy_scope != "system AC" or row.use != "power" or not row.power_w or not rated:
            continue
        inference = row.source != "mlperf-training"
        if inference and load_catalog().hardware(row.hardware).vendor == "NVIDIA":
            size = "below 250 W" if rated < WALL_LEAST_W else "250 W and more"
            same = (row.hardware, row.workload, row.round, row.count)
            groups.setdefault(f"{row.count} of {size}", {})[same] = row.power_w - rated
    lines: list[tuple[object, ...]] = []
    for name, found in sorted(groups.items()):
        watts = sorted(found.values())
        ends = (f"{percentile(watts, share):.0f}" for share in (0.1, 0.5, 0.9))
        lines.append((name, len(watts), *ends))
    return lines


def markdown(head: str, lines: Iterable[Sequence[object]]) -> str:
    """A table under its head."""
    return head + "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
