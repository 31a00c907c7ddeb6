"""Make the advice tables and their accuracy report from the shipped measurements.

    python scripts/fit_throughput.py           write the tables and docs/suggestions-accuracy.md
    python scripts/fit_throughput.py --check   change nothing; exit 1 when a file is not current

Needs the standard library only and gives the same files on every run.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from gramwatt.sci.advice.prediction.accuracy import Replay, power_shares
from gramwatt.sci.advice.prediction.evidence import collected
from gramwatt.sci.advice.prediction.replay import coefficients
from gramwatt.sci.advice.prediction.rows import measurements
from gramwatt.sci.advice.prediction.specs import all_specs
from gramwatt.sci.catalog.catalog import load_catalog

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "sci" / "advice" / "data"
REPORT = ROOT / "docs" / "suggestions-accuracy.md"
DIGITS = 5


def main(arguments: Sequence[str]) -> int:
    """Write or check the files; the number of files that are not current decides the exit."""
    check = "--check" in arguments
    stale = [path for path, text in made().items() if _differs(path, text)]
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(made_once[path], encoding="utf-8")
    return 1 if check and stale else 0


made_once: dict[Path, str] = {}


def made() -> dict[Path, str]:
    """Every file by path, computed from the measurements."""
    if made_once:
        return made_once
    rows, specs = measurements(), all_specs(load_catalog())
    replay = Replay(rows, specs)
    made_once[DATA / "fit.csv"] = _fit_table(replay)
    made_once[DATA / "ranges.csv"] = _table(
        ("class", "figure", "known", "factor", "pairs"),
        ((r.workload_class, r.figure, r.known, _n(r.factor), r.pairs) for r in replay.ranges()),
    )
    made_once[DATA / "power.csv"] = _table(
        ("class", "low", "value", "high", "rows"),
        ((name, *map(_n, ends), count) for name, *ends, count in power_shares(rows, specs)),
    )
    made_once[DATA / "evidence.csv"] = _table(
        ("key", "figure", "low", "value", "high", "pairs", "source"),
        (
            (e.key, e.figure, _n(e.low), _n(e.value), _n(e.high), e.pairs, e.source)
            for e in collected(rows, specs)
        ),
    )
    made_once[REPORT] = _report(replay)
    return made_once


def _fit_table(replay: Replay) -> str:
    lines = []
    for term, value in sorted(coefficients(replay.seen).items()):
        kind, *rest = term
        name, within, part = {
            1: ("", "", rest[0]),
            2: (rest[0], "", rest[-1]),
            3: (rest[0], rest[1] if len(rest) == 3 else "", rest[-1]),
        }[len(rest)]
        if kind in ("peak", "bandwidth"):
            name, part = rest[0], ""
        lines.append((kind, name, within, part, _n(value)))
    return _table(("term", "class", "within", "part", "value"), lines)


def _report(replay: Replay) -> str:
    parts = [HEAD.format(rows=len(replay.seen), groups=len({o.row.group for o in replay.seen}))]
    parts.append("| method | class | pairs | median | p90 |\n|---|---|---:|---:|---:|\n")
    parts += [
        f"| {one.method} | {one.workload_class} | {one.pairs} "
        f"| {one.median:.0%} | {one.p90:.0%} |\n"
        for one in replay.lines()
    ]
    parts.append("\n## Coverage of the 80 % ranges\n\n")
    parts.append("| rows kept out | class | pairs | inside |\n|---|---|---:|---:|\n")
    for label, found in (
        ("one workload", replay.coverages()),
        ("every second workload, from fit and ranges", replay.halved()),
    ):
        parts += [f"| {label} | {name} | {n} | {share:.1%} |\n" for name, n, share in found]
    parts.append("\n## LLM serving from direct rows, model family kept out\n\n")
    parts.append("| figure | pairs | answered | inside |\n|---|---:|---:|---:|\n")
    parts += [f"| {f} | {n} | {a} | {share:.1%} |\n" for f, n, a, share in replay.serving()]
    parts.append("\n## The verdict `lower` on measured board energy\n\n")
    parts.append(
        "| class | pairs | true savings | claims | right | abstained |\n"
        "|---|---:|---:|---:|---:|---:|\n"
    )
    parts += [
        f"| {c.where} | {c.pairs} | {c.true_savings} | {c.claims} | {c.right} "
        f"| {c.abstention:.0%} |\n"
        for c in replay.claims()
    ]
    return "".join(parts)


HEAD = """# Accuracy of the suggestions

Made by `python scripts/fit_throughput.py` from `sci/advice/data/measurements.csv`; do not edit.

{rows} rows in {groups} groups of the same work are fitted. A pair is two rows of one group on
different parts, both ways round. Groups share source, round, workload, operating point and, except
in MLPerf, precision. A workload is a model family within all sources and precisions, so that
ResNet-50 of one source never helps to predict ResNet-50 of another. The error is
|predicted / measured throughput ratio - 1|. LLM serving is answered from direct rows only and is
not in this table; small jobs are predicted to take equally long everywhere.

"""


def _n(value: float) -> str:
    return f"{value:.{DIGITS}g}"


def _table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return out.getvalue()


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text(encoding="utf-8") != text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
