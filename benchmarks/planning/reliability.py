"""Plans as they are followed: reliable ones wait, the others start at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gramwatt.sci.planning.forecast import HORIZON_H, Forecaster
from gramwatt.sci.planning.hours import DAY_H, WEEK_H, Hours
from gramwatt.sci.planning.plan import LEAST_SAVING, slacks
from gramwatt.sci.planning.replay import EVERY_H, Outcome, judge, replay

Kind = tuple[int, int, bool]
KINDS: Sequence[Kind] = (
    *((length, slack, False) for length in (1, 4, 8, 24, 48) for slack in (24, 72)),
    (24, 72, True),
)
EVERY_WEEKS = 8
"""Between two moments at which the record is asked."""
FOLLOWED_WEEKS = 4
"""For which plans are followed after each."""


@dataclass(frozen=True)
class Followed:
    """Plans of a zone and kind in some weeks: what came, which were followed, and which ranges of
    their savings held it. Sums are of intensities [gCO2e/kWh].
    """

    zone: str
    kind: Kind
    at_once: float
    followed: float
    best_hours: float
    foresight: float
    stated: int
    held: int
    weeks: int
    saved_weeks: int


def follow(histories: Mapping[str, tuple[Hours, int]]) -> Iterator[Followed]:
    """Yield what plans came to in the weeks after several moments, by zone and kind.

    The record and the forecast are computed each time from what lies before.
    """
    for zone, (hours, cut) in histories.items():
        for at in range(cut, len(hours.values) - HORIZON_H - WEEK_H, EVERY_WEEKS * WEEK_H):
            past = hours.until(hours.first + at)
            forecaster = Forecaster.fit(past)
            assert forecaster is not None
            last = min(at + FOLLOWED_WEEKS * WEEK_H, len(hours.values) - HORIZON_H)
            issues = np.arange(at, last, EVERY_H)
            for kind in KINDS:
                length, slack, interruptible = kind
                plans = []
                for most in map(int, slacks(slack)):
                    record = replay(past, length, most, interruptible=interruptible)
                    came = judge(
                        forecaster, hours, issues, length, most, interruptible=interruptible
                    )
                    plans.append((record, came))
                yield _followed(zone, kind, plans)


def _followed(zone: str, kind: Kind, plans: Sequence[tuple[Outcome | None, Outcome]]) -> Followed:
    """Return what came of the first reliable of the plans with less and less slack."""
    record, came = plans[0]
    waits = np.zeros(len(came.hours), dtype=bool)
    chosen, held = came.at_once, 0
    for past, tried in plans:
        if past is None or not past.reliable:
            continue
        lowest, _, highest = past.missed(kind[0])
        low, high = tried.foreseen + lowest, tried.foreseen + highest
        now = ~waits & (low > LEAST_SAVING)
        held += int(((low <= tried.savings) & (tried.savings <= high))[now].sum())
        chosen = np.where(now, tried.planned, chosen)
        waits |= now
    weekly = came.weekly() if record is not None and record.reliable else np.zeros(0)
    return Followed(
        zone,
        kind,
        float(came.at_once.sum()),
        float(chosen.sum()),
        float(came.planned.sum()),
        float(came.best.sum()),
        int(waits.sum()),
        held,
        len(weekly),
        int((weekly > 0).sum()),
    )


def savings(rows: Sequence[Followed], kind: Kind) -> dict[str, tuple[float, float, float]]:
    """By zone the share saved by plans as followed, in the best hours of each forecast, and with
    perfect foresight.
    """
    found = {}
    for zone in dict.fromkeys(row.zone for row in rows):
        own = [row for row in rows if (row.zone, row.kind) == (zone, kind)]
        at_once = sum(row.at_once for row in own)
        sums = (sum(r.followed for r in own), sum(r.best_hours for r in own))
        saved = [1 - part / at_once for part in (*sums, sum(r.foresight for r in own))]
        found[zone] = (saved[0], saved[1], saved[2])
    return found


def report(rows: Sequence[Followed]) -> dict[str, float]:
    """Print what plans saved by kind, with the worst zone, and return the figures with an aim."""
    print(f"\n{'as followed':22}{'saves':>8}{'best hours':>12}{'foresight':>11}{'worst zone':>22}")
    least, shares, best = 1.0, [], []
    for kind in KINDS:
        by_zone = savings(rows, kind)
        followed, hours, foresight = np.mean(list(by_zone.values()), axis=0)
        worst = min(by_zone, key=lambda zone: by_zone[zone][0])
        least = min(least, by_zone[worst][0])
        label = f"{kind[0]} h in {kind[0] + kind[1]} h{', in parts' if kind[2] else ''}"
        print(
            f"{label:22}{followed:>8.1%}{hours:>12.1%}{foresight:>11.1%}"
            f"{worst:>14}{by_zone[worst][0]:>8.1%}"
        )
        if kind[0] < DAY_H and kind[1] == 72:
            shares.append(followed / foresight)
            best.append(hours / foresight)
    print(f"of foresight, 1 to 8 h in 72 h: the best hours of each forecast {np.mean(best):.1%}")
    held = {
        f"stated savings that held, {name}": _share_held(rows, lengths)
        for name, lengths in (("1 h", (1,)), ("4 h", (4,)), ("8 h", (8,)), ("a day", (24, 48)))
    }
    weeks = sum(row.weeks for row in rows)
    return {
        "least saving in any zone, as followed": least,
        "of foresight, 1 to 8 h in 72 h, as followed": float(np.mean(shares)),
        **held,
        "weeks with a saving where `reliable`": sum(r.saved_weeks for r in rows) / weeks,
    }


def _share_held(rows: Sequence[Followed], lengths: Sequence[int]) -> float:
    own = [row for row in rows if row.kind[0] in lengths and not row.kind[2]]
    return sum(row.held for row in own) / sum(row.stated for row in own)
