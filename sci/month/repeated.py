"""Repeated runs of two versions of a job: whether the carbon per unit of work differs reliably.

Each side is sum(C) / sum(R) of its runs. Two ranges are combined, each holding eight times in ten:
that of the measurement, in which what both sides share cancels (`compare`), and that of repetition,
by a bootstrap of whole runs whose deviations are widened for few runs (Hesterberg 2015, "What
Teachers Should Know About the Bootstrap", The American Statistician 69(4)). The seed is fixed, so
the same runs give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import NormalDist

from msgspec import Struct

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.quantity import Quantity, of_sources
from gramwatt.sci.month.compare import (
    AT_EQUAL,
    CARBON_UNKNOWN,
    JOB,
    Compared,
    ComparedDoc,
    ScoreChangeDoc,
    Side,
    compared_as,
    effects_of,
    moved_most,
    ratios,
    require_comparable,
    side_of,
    together,
    verdict,
)

RUNS_MOST = 50
"""Runs of one side."""
DRAWS, SEED = 4000, 21031
LOW, HIGH = 0.1, 0.9
"""The ends of a range that holds eight times in ten."""
T_90 = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)
"""Student's t at 0.9 for 1 to 10 degrees of freedom; for more the normal distribution is near."""


class RunsDoc(Struct):
    """One side: its runs, sum(C) / sum(R), and how far single runs lie apart.

    `scatter` is the standard deviation of C/R over its mean; None for one run.
    """

    runs: list[ComparedDoc]
    count: float
    g_per_unit: Quantity
    scatter: float | None


class RunsComparisonDoc(ScoreChangeDoc):
    """The change from the runs of `before` to those of `after`.

    `ratio` is after over before with both ranges together, `measurement_ratio` with that of the
    measurement alone, `repetition_ratio` with that of the runs alone; None where nothing tells it.
    """

    before: RunsDoc
    after: RunsDoc
    measurement_ratio: Quantity
    repetition_ratio: Quantity | None
    text: str


def compare_runs(
    before: Sequence[JobDoc],
    after: Sequence[JobDoc],
    unit: str | None = None,
    history: Sequence[JobDoc] = (),
) -> RunsComparisonDoc:
    """Compare the runs of `after` with those of `before`, by default in the first unit of `before`.

    Of several runs a side, those that did not count the unit are left out. `history` are earlier
    runs of the same command. Of one run a side they say how far runs lie apart; without them the
    verdict is `unknown`, since a difference may be chance. Raises ScoreError (code
    `not-comparable`) for a job on both sides or twice on one, and as `compare` does for every pair
    with the first run.
    """
    _require_distinct(before, after)
    chosen = unit or _common_unit(before, after)
    before, after = (_counting(runs, chosen) for runs in (before, after))
    sides = [[side_of(document, chosen) for document in runs] for runs in (before, after)]
    for document in (*before[1:], *after):
        require_comparable(before[0], document)
    one, other = (together(runs) for runs in sides)
    measured, by_hour = ratios(one.g_per_unit, other.g_per_unit)
    repeated = repetition(measured, sides[0], sides[1], _earlier(before[0], history, chosen))
    compares, ratio, ratio_by_hour = compared_as(
        _both(measured, repeated), _both(by_hour, repeated)
    )
    effects = _without_rounding(effects_of(one, other), one.g_per_unit.value)
    moved, found = moved_most(effects), verdict(ratio) if repeated else "unknown"
    return RunsComparisonDoc(
        unit=chosen,
        compares=compares,
        ratio_by_hour=ratio_by_hour,
        before=_runs_doc(sides[0], one),
        after=_runs_doc(sides[1], other),
        change_g_per_unit=other.g_per_unit.value - one.g_per_unit.value,
        ratio=ratio.bare(),
        measurement_ratio=measured.bare(),
        repetition_ratio=repeated.bare() if repeated else None,
        verdict=found,
        effects_g_per_unit=effects,
        moved=moved,
        text=_sentence(ratio, found, moved, compares),
    )


def _common_unit(before: Sequence[JobDoc], after: Sequence[JobDoc]) -> str:
    """Return the first unit that runs of both sides counted; a whole job where one counted none."""
    counted = [
        dict.fromkeys(row.unit for document in runs for row in document.sci)
        for runs in (before, after)
    ]
    both = sorted((name for name in counted[0] if name in counted[1]), key=JOB.__eq__)
    uncounted = JOB if any(set(units) == {JOB} for units in counted) else None
    return next(iter(both), uncounted or before[0].sci[0].unit)


def _counting(runs: Sequence[JobDoc], unit: str) -> Sequence[JobDoc]:
    """Return the runs that counted a unit; all of them where none did, or of a whole job."""
    if unit == JOB:
        return runs
    return [run for run in runs if any(row.unit == unit for row in run.sci)] or runs


def _without_rounding(effects: dict[str, float], whole: float) -> dict[str, float]:
    """Return the effects with 0 for what is only the rounding of sums."""
    least = 1e-12 * max(abs(whole), *map(abs, effects.values()))
    return {term: effect if abs(effect) > least else 0.0 for term, effect in effects.items()}


def _require_distinct(before: Sequence[JobDoc], after: Sequence[JobDoc]) -> None:
    for runs in (before, after):
        if not 1 <= len(runs) <= RUNS_MOST:
            text = f"not comparable: a side has 1 to {RUNS_MOST} runs, not {len(runs)}"
            raise ScoreError(text, code="not-comparable")
    seen: set[str] = set()
    for document in (*before, *after):
        if document.job_id in seen:
            text = f"not comparable: job {document.job_id!r} is named twice; name another one"
            raise ScoreError(text, code="not-comparable")
        seen.add(document.job_id)


def _earlier(like: JobDoc, history: Sequence[JobDoc], unit: str) -> list[Side]:
    """Return the earlier runs that can be compared with a run, in its unit."""
    earlier = []
    for document in history:
        try:
            require_comparable(like, document)
            earlier.append(side_of(document, unit))
        except ScoreError:
            continue
    return earlier


def repetition(
    measured: Quantity, before: Sequence[Side], after: Sequence[Side], history: Sequence[Side] = ()
) -> Quantity | None:
    """Return the ratio with the range of repetition; None where nothing tells how runs scatter.

    A side of one run is taken to scatter as the other does, or where that is one too, as the
    earlier runs do.
    """
    scores = [run.g_per_unit.value for run in (*before, *after, *history)]
    several = max(len(before), len(after)) > 1
    if not (several or len(history) > 1) or min(scores) <= 0:
        return None
    seeded = Random(SEED)
    deviations = [
        _deviations(runs, other if several else history, seeded)
        for runs, other in ((before, after), (after, before))
    ]
    logs = sorted(b - a for a, b in zip(*deviations, strict=True))
    low, high = (math.exp(logs[min(DRAWS - 1, int(end * DRAWS))]) for end in (LOW, HIGH))
    return measured.ranged(low, high)


def _deviations(runs: Sequence[Side], other: Sequence[Side], seeded: Random) -> list[float]:
    """Return draws of ln(C/R) of a side less its value, widened for few runs."""
    sample = list(runs) if len(runs) > 1 else list(other)
    value, n = math.log(_mean(sample)), len(sample)
    z = NormalDist().inv_cdf(HIGH)
    t = T_90[n - 2] if n - 2 < len(T_90) else z * (1 + (1 + z * z) / (4 * (n - 1)))
    wider = math.sqrt(n / (n - 1)) * t / z
    size = len(runs)  # one run, where the other side says how far single ones lie apart
    return [(math.log(_mean(seeded.choices(sample, k=size))) - value) * wider for _ in range(DRAWS)]


def _mean(runs: Sequence[Side]) -> float:
    """Return sum(C) / sum(R) [gCO2e/unit]."""
    return sum(run.g_per_unit.value * run.count for run in runs) / sum(run.count for run in runs)


def _both(measured: Quantity, repeated: Quantity | None) -> Quantity:
    """Return the ratio with both ranges, which are independent: repetition is a further factor."""
    if repeated is None:
        return measured
    low, high = repeated.low / repeated.value, repeated.high / repeated.value
    scatter = of_sources(1.0, low, high, "1", measured.kind, measured.sources)
    return measured.times(scatter.as_input("repetition"), "1")


def _sentence(ratio: Quantity, found: str, moved: str | None, compares: Compared) -> str:
    """Return the verdict in words, with what it rests on."""
    equal = AT_EQUAL if compares == "equal-intensity" else ""
    hours = f"; {CARBON_UNKNOWN}" if equal else ""
    value, low, high = (_change(end) for end in (ratio.value, ratio.low, ratio.high))
    ends = f"({low} to {high})"
    span = f"{value} {ends}"
    if found == "unknown":
        return (
            f"Whether carbon per unit{equal} differs is not known: {span} by the meters alone. How "
            "far repeated runs lie apart is not known: run each side again."
        )
    if found == "no-reliable-difference":
        return f"No reliable difference: {span} carbon per unit{equal}."
    size = f"{abs(ratio.value - 1):.0%}"
    why = f"; what moved most is {moved}" if moved else ""
    what = f"Carbon per unit{equal} is {size} {found}"
    return f"{what} {ends}{why}{hours}."


def _runs_doc(runs: Sequence[Side], whole: Side) -> RunsDoc:
    scores = [run.g_per_unit.value for run in runs]
    mean = sum(scores) / len(scores)
    scatter = None
    if len(scores) > 1 and mean:
        spread = sum((score - mean) ** 2 for score in scores) / (len(scores) - 1)
        scatter = math.sqrt(spread) / mean
    return RunsDoc(
        runs=[run.to_doc() for run in runs],
        count=whole.count,
        g_per_unit=whole.g_per_unit.bare(),
        scatter=scatter,
    )


def _change(ratio: float) -> str:
    """Return a ratio as a change: +12%, -3%; 0% where it rounds to that."""
    text = f"{ratio - 1:+.0%}"
    return "0%" if text in ("-0%", "+0%") else text
