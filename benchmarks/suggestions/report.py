"""The accuracy page and the package's tables, made of the published measurements."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from msgspec.structs import astuple

from benchmarks.suggestions.ask import Engine
from benchmarks.suggestions.effects import measured_effects, percentile
from benchmarks.suggestions.fit import Fitted, fits, numbers, points
from benchmarks.suggestions.groups import REFUSED, TUNED, Group, groups, measurements, pairs
from benchmarks.suggestions.score import (
    EIGHTEEN,
    Outcome,
    Said,
    Summary,
    baselines,
    bins,
    coverage,
    outcomes,
    said,
    summary,
)
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.estimate import ranking
from gramwatt.sci.estimate.ranking import REFERENCE, RankingRow, compare, number
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.suggest.documents import ADVISED
from gramwatt.sci.suggest.measured import ResultRow

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "sci" / "suggest" / "data"
PAGE = ROOT / "docs" / "reference" / "suggestions-accuracy.md"
ANSWERED, MEDIAN, P90, WORSE, STATED, HOLDS = 0.95, 0.05, 0.20, 0.05, 0.08, (0.70, 0.92)
"""Aims: least answered, most regret, most advised that is worse than staying, how far stated odds
may lie from true ones, and the fraction of the ranges of time that hold in a source."""
POINT = 0.01
FIGHTING = ("ml-energy-video", "ml-energy-video-chat")
"""Sources that want another rule for the present power."""
LEAST = 30
"""Fewest answers of a bin, or of a source and class, that are held to an aim."""
BY_SOURCE = (
    "source and class|questions|answered|regret, median and 90th|right order|worse|"
    "advised|advised, worse|ranges of time hold"
)
"""Columns of the tables by source."""
TEXT = """# Accuracy of the suggestions

Made by `python -m benchmarks.suggestions --write` from `benchmarks/suggestions/data`. Do not edit.

{groups} groups of the same work measured on two devices or more, from {sources} public sources.
Each device of a group is asked about in turn as the present one, with the others as candidates:
{questions} questions to the engine that answers users. **Regret** is by how much the first answer
needs more energy than the best device; what is not answered counts as staying. Energy is that of
the board or of the wall where it was metered, else time x rated power. Published results of the
source that is asked are left out. Every source and class weighs alike.

{totals}
"Advised" follows changes of 7 in 10 and more, and stays otherwise.

"Eighteen numbers" is a simple design: two exponents by kind of work, rated power, one spread and
one rule for the present power.

## By source

{by_source}
## With each source kept out

The same questions to the engine with the exponents, errors and rules for the present power of the
last table: those that were fitted without the source that is asked. Other numbers are as shipped.

{kept_out}
## Where goals fight

The present power tells whether a device waits for its host, and was measured on one pair of
devices (B200 and H100). Images and videos want another rule than language models that see videos.
The shipped rule is that of eighteen numbers, fitted to language models alone; the rule fitted to
all serves the second at the price of the first:

{fight}
What eighteen numbers do better by a point or more, of all that the table of sources has:

{behind}
## Odds

Odds of the likelier side, by the shipped numbers and with each source kept out. A bin of {least}
answers and more is held to 8 points.

{bins}
## What a published ratio is worth

A ratio of two devices asked of another source or round: the error that 8 of 10 stay within, beside
that of the ranking. Only results of the same model in tuned software are used, and shipped.

{published}
## The numbers of the ranking

Exponents of peak rate, bandwidth and rated power of each regime, or level and slope by the present
fraction of rated power, with the scale of the error; how often the 80 % range holds in the source
kept out. Of the {numbers} numbers of `sci/estimate/data/ranking.csv` {fitted} are fitted: rounded,
and among these fits. The others were chosen with results in sight, for the reasons named there.

{fits}
## Aims

Answered 95 %, regret 5 % in the median and 20 % at the 90th percentile, advised and worse than
staying 5 %, odds within 8 points, 70 to 92 % of the ranges of time in each source. Missed by the
shipped numbers:

{missed}

Missed with each source kept out:

{missed_kept_out}
"""


class Asked(NamedTuple):
    """First answers, what comes of advice, and every answer beside the truth."""

    first: list[Outcome]
    advised: list[Outcome]
    said: list[Said]


class Results:
    """Everything that is reported, computed once."""

    def __init__(self, catalog: Catalog) -> None:
        """Ask with this catalog."""
        self.catalog, every = catalog, groups(catalog)
        self.pairs = list(pairs(every, catalog))
        self.groups = [group for group in every if group.workload_class not in REFUSED]
        self.engine = Engine(catalog)

    @cached_property
    def shipped(self) -> Asked:
        """Return what comes of the engine's answers."""
        return _asked(self, self.groups, self.engine)

    @cached_property
    def simple(self) -> list[Outcome]:
        """Return the outcomes of the simple design."""
        return list(outcomes(self.groups, self.catalog, baselines(self.catalog)[EIGHTEEN]))

    @cached_property
    def fits(self) -> list[Fitted]:
        """Return the ranking's numbers as fitted to all sources, and with each kept out."""
        return list(fits(list(points(self.pairs, self.catalog))))

    @cached_property
    def kept_out(self) -> Asked:
        """Return what comes of answers by numbers that have not seen the source asked."""
        every = Asked([], [], [])
        for source in dict.fromkeys(group.source for group in self.groups):
            own = [group for group in self.groups if group.source == source]
            fitted = numbers(row for row in self.fits if row.out == source)
            of_source = _asked_with(self, own, fitted)
            every.first.extend(of_source.first)
            every.advised.extend(of_source.advised)
            every.said.extend(of_source.said)
        return every


def missed(asked: Asked) -> list[str]:
    """Return the aims that are missed."""
    first, worse = summary(asked.first), summary(asked.advised).worse
    checks = [
        (first.answered >= ANSWERED, f"{percent(first.answered)} answered"),
        (first.median <= MEDIAN, f"median regret {percent(first.median)}"),
        (first.p90 <= P90, f"90th percentile of regret {percent(first.p90)}"),
        (worse <= WORSE, f"{percent(worse)} advised and worse than staying"),
    ]
    for row in bins(asked.said):
        near = abs(row.stated - row.true) <= STATED or row.number < LEAST
        text = f"odds of {percent(row.stated)} are true in {percent(row.true)}"
        checks.append((near, text))
    for name, (answers, holds) in coverage(asked.said).items():
        text = f"{percent(holds)} of {answers} ranges of time hold: {name}"
        checks.append((HOLDS[0] <= round(holds, 2) <= HOLDS[1] or answers < LEAST, text))
    return [text for met, text in checks if not met]


def page(results: Results) -> str:
    """Return docs/reference/suggestions-accuracy.md."""
    return TEXT.format(
        groups=len(results.groups),
        sources=len({group.source for group in results.groups}),
        questions=len(results.shipped.first),
        numbers=len(rows(RankingRow)),
        fitted=sum(row.how == "fitted" for row in rows(RankingRow)),
        least=LEAST,
        totals=table(
            "|answered|median regret|90th percentile|right order|worse than staying",
            _totals(results),
        ),
        by_source=table(
            f"{BY_SOURCE}|eighteen numbers: regret|order|worse",
            _by_source(results, results.shipped, results.simple),
        ),
        kept_out=table(BY_SOURCE, _by_source(results, results.kept_out)),
        fight=table(
            "rule for the present power|source and class|right order|worse|advised, worse",
            _fight(results),
        ),
        behind=table("source and class|figure|engine|eighteen numbers", _behind(results)),
        bins=table(
            "odds|answers|stated|true|kept out: answers|stated|true",
            (
                (f"{row.low:.2f} to {row.high:.2f}", *row[2:], *kept[2:])
                for row, kept in zip(
                    bins(results.shipped.said), bins(results.kept_out.said), strict=True
                )
            ),
        ),
        published=table("asked of|ratios|published|ranking", _published(results)),
        fits=table(
            "regime|kept out|peak, level|bandwidth, slope|rated power|error|pairs|holds",
            (
                (*row[:2], *_three(row.coefficients), f"{row.scale:.2f}", *row[4:])
                for row in results.fits
            ),
        ),
        missed=_list(missed(results.shipped)),
        missed_kept_out=_list(missed(results.kept_out)),
    )


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {text}" for text in texts) or "None."


def _three(values: Sequence[float]) -> list[str]:
    return [f"{value:.2f}" for value in values] + ["-"] * (3 - len(values))


def _totals(results: Results) -> Iterator[Sequence[object]]:
    others = {
        name: list(outcomes(results.groups, results.catalog, rank))
        for name, rank in baselines(results.catalog).items()
    }
    rankers = {
        "first answer": results.shipped.first,
        "advised": results.shipped.advised,
        "first answer, source kept out": results.kept_out.first,
        "advised, source kept out": results.kept_out.advised,
        **others,
    }
    return ((name, *summary(items)[1:6]) for name, items in rankers.items())


def _by_source(
    results: Results, asked: Asked, *beside: list[Outcome]
) -> Iterator[Sequence[object]]:
    """Yield what comes of the answers by source and class, with other orders beside."""
    holds = coverage(asked.said)
    for name in _names(results.groups):
        first, advised = _of(name, asked.first), _of(name, asked.advised)
        figures = (first.right, first.worse, advised.moved, advised.worse, holds[name][1])
        others = [_of(name, items) for items in beside]
        cells = [cell for it in others for cell in (_regret(it), it.right, it.worse)]
        yield name, first.questions, first.answered, _regret(first), *figures, *cells


def _names(groups: Sequence[Group]) -> dict[str, Group]:
    """Return the names of sources and classes in order, each with a group of it."""
    return {group.name: group for group in sorted(groups, key=_by_class)}


def _of(name: str, items: Iterable[Outcome]) -> Summary:
    return summary([item for item in items if name in ("all", item.name)])


def _regret(figures: Summary) -> str:
    return f"{percent(figures.median)}, {percent(figures.p90)}"


def _asked(results: Results, questions: Sequence[Group], engine: Engine) -> Asked:
    """Return what comes of an engine's answers to some questions."""
    first = list(outcomes(questions, results.catalog, engine))
    advised = list(outcomes(questions, results.catalog, engine, ADVISED))
    return Asked(first, advised, said(questions, results.catalog, engine))


def _asked_with(
    results: Results, questions: Sequence[Group], figures: Mapping[tuple[str, str], float]
) -> Asked:
    """Return what comes of the answers where the ranking has other numbers."""

    def changed(figure: str, regime: str = "all") -> float:
        other = figures.get((figure, regime))
        return number(figure, regime) if other is None else other

    with mock.patch.object(ranking, "number", changed):
        return _asked(results, questions, Engine(results.catalog))


def _fight(results: Results) -> Iterator[Sequence[object]]:
    """Yield what another rule for the present power would do to the classes that it is for."""
    rules = [row for row in results.fits if row.regime.startswith("share") and row.out == "none"]
    fighting = [group for group in results.groups if group.source in FIGHTING]
    for words, figures in (("shipped", {}), ("fitted to all", numbers(rules))):
        asked = _asked_with(results, fighting, figures)
        for name in _names(fighting):
            first, advised = _of(name, asked.first), _of(name, asked.advised)
            yield words, name, first.right, first.worse, advised.worse


def _behind(results: Results) -> Iterator[Sequence[object]]:
    """Yield the figures of a source and class that the simple design has better by a point."""
    for name in _names(results.groups):
        first, plain = _of(name, results.shipped.first), _of(name, results.simple)
        for words, better, engine, simple in (
            ("median regret", -1, first.median, plain.median),
            ("90th percentile of regret", -1, first.p90, plain.p90),
            ("right order", 1, first.right, plain.right),
            ("worse than staying", -1, first.worse, plain.worse),
        ):
            if better * (simple - engine) >= POINT:
                yield name, words, engine, simple


def _by_class(group: Group) -> tuple[str, str]:
    return group.workload_class, group.source


def _published(results: Results) -> Iterator[Sequence[object]]:
    """Yield how far a source's ratio of two devices is off in another source or round."""
    found: dict[str, list[tuple[float, float]]] = {}
    by_devices: dict[tuple[str, str, str], list[tuple[Group, float, float]]] = {}
    for pair in results.pairs:
        group, reference = pair.group, results.catalog.hardware(REFERENCE)
        if pair.now.id < pair.target.id and group.workload_class not in REFUSED:
            work = group.work_on(pair.now.id, results.catalog)
            if sheet := compare(pair.now, pair.target, work, reference):
                key = (group.workload_class, pair.now.id, pair.target.id)
                by_devices.setdefault(key, []).append((group, pair.time, sheet.time.value))
    for same in by_devices.values():
        for group, time, sheet_time in same:
            for other, published, _ in same:
                if name := _relation(group, other):
                    found.setdefault(name, []).append(
                        (abs(time - published), abs(time - sheet_time))
                    )
    for name, errors in sorted(found.items()):
        ends = (math.exp(percentile(sorted(side), 0.8)) for side in zip(*errors, strict=True))
        yield name, len(errors), *(f"x/÷ {end:.2f}" for end in ends)


def _relation(group: Group, other: Group) -> str | None:
    """Return how two groups of one pair of devices are related; None for one and the same."""
    rows = [next(iter(each.rows.values())) for each in (group, other)]
    if {row.stack for row in rows} == {TUNED}:
        same = "same" if rows[0].workload == rows[1].workload else "other"
        return None if rows[0].round == rows[1].round else f"tuned software, {same} model"
    alike = (rows[0].stack, rows[0].precision) == (rows[1].stack, rows[1].precision)
    return "another source, same precision" if alike and group.source != other.source else None


def files(results: Results) -> dict[Path, str]:
    """Return the text of every file that is made."""
    effects = measured_effects(measurements(), results.catalog)
    names = ("key", "figure", "low", "value", "high", "pairs", "source")
    return {
        DATA / "power.csv": text(("class", "low", "value", "high", "rows"), _power(results)),
        DATA / "evidence.csv": text(
            names, ((*astuple(row)[:-1], ";".join(row.source)) for row in effects)
        ),
        DATA / "measured.csv": text(ResultRow.__struct_encode_fields__, _results()),
        PAGE: page(results),
    }


def _results() -> Iterator[Sequence[object]]:
    """Yield the published results of models in tuned software."""
    fields = ResultRow.__struct_fields__
    for row in measurements():
        shipped = row.stack == TUNED and row.use == "time" and row.model_parameters
        if shipped and row.workload_class not in REFUSED:
            cells = (getattr(row, name) for name in fields)
            yield [
                str(c).removesuffix(", best published result") if isinstance(c, str) else c
                for c in cells
            ]


def _power(results: Results) -> Iterator[Sequence[object]]:
    """Yield mean over rated board power by class; "other" pools training and serving."""
    fractions: dict[str, list[float]] = {}
    for row in measurements():
        rated = results.catalog.hardware(row.hardware).tdp_w
        if row.energy_scope == "board" and row.power_w and rated:
            fractions.setdefault(row.workload_class, []).append(row.power_w / rated)
    fractions["other"] = [*fractions["training"], *fractions["llm-serving"]]
    for name, values in sorted(fractions.items()):
        values.sort()
        yield name, *(percentile(values, end) for end in (0.1, 0.5, 0.9)), len(values)


def text(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return CSV text with at most six significant digits a number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for line in lines:
        writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in line])
    return out.getvalue()


def table(header: str, lines: Iterable[Sequence[object]]) -> str:
    """Return a table of a page, its figures to the right and fractions in percent."""
    names = header.split("|")
    rows = [[percent(c) if isinstance(c, float) else str(c) for c in line] for line in lines]
    body = "".join(f"| {' | '.join(row)} |\n" for row in [names, *rows])
    first, rest = body.split("\n", 1)
    return f"{first}\n|---{'|---:' * (len(names) - 1)}|\n{rest}"


def percent(fraction: float) -> str:
    """Return a fraction in percent."""
    return "-" if math.isnan(fraction) else f"{100 * fraction:.0f} %"


def is_current(shipped: str, made: str) -> bool:
    """Tell whether two files agree in words and in numbers, but for what linear algebra rounds."""
    cells = [file.replace("|", ",").replace("\n", ",").split(",") for file in (shipped, made)]
    return len(cells[0]) == len(cells[1]) and all(map(_is_close, *cells))


def _is_close(cell: str, other: str) -> bool:
    try:
        values = [float(each.replace("%", "").replace("x/÷", "")) for each in (cell, other)]
    except ValueError:
        return cell == other
    return math.isclose(*values, rel_tol=1e-4, abs_tol=0.011 if "." in cell else 1.0)
