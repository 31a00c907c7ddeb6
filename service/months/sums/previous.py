"""What a month is compared with: sums of the month before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gramwatt.sci.analysis.documents import MonthTotals
from gramwatt.service.months.sums.decomposition import MonthByWork
from gramwatt.service.months.sums.totals import Sums


@dataclass(frozen=True, slots=True)
class PreviousMonth:
    """What a month's document needs of the month before, without its parts."""

    totals: MonthTotals | None
    terms: Mapping[str, Sums]
    by_work: MonthByWork
    projects: tuple[list[str], Sums]
