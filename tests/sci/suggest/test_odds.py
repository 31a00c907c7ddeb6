"""Stated odds beside true ones, on the published results that the package ships."""

import math
from collections import defaultdict

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.estimate.ranking import REFERENCE, Log, compare, work_of
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.suggest.measured import ResultRow

CATALOG = load_catalog()
SOFTWARE = {"training": "nemo"}


def answers():
    """Yield the ranking's answer on time and the measured logarithm, for each ordered pair."""
    groups = defaultdict(dict)
    for row in rows(ResultRow):
        key = (row.source, row.round, row.workload, row.point, row.workload_class)
        groups[key][row.hardware] = row
    reference = CATALOG.hardware(REFERENCE)
    for (*_, name), group in groups.items():
        work = work_of(name, "fp8", SOFTWARE.get(name, "tensorrt"), infers=name != "training")
        for now, row in group.items():
            for target, other in group.items():
                parts = CATALOG.hardware(now), CATALOG.hardware(target)
                if now != target and all(part.tdp_w for part in parts):
                    answer = compare(*parts, work, reference)
                    size = math.log(parts[1].tdp_w / parts[0].tdp_w)
                    time = math.log(row.units_per_s / other.units_per_s)
                    yield answer.time, time, size


def test_odds_that_are_stated_are_true():
    bins = defaultdict(list)
    for said, time, size in answers():
        odds = Log(said.value + size, said.spread).odds
        likelier = max(odds, 1 - odds)
        bins[min(int(10 * likelier), 9)].append((likelier, (time + size < 0) == (odds > 0.5)))
    assert min(len(items) for items in bins.values()) >= 30
    found = {
        low: [sum(column) / len(items) for column in zip(*items, strict=True)]
        for low, items in bins.items()
    }
    close = found.pop(5)
    # Tuned software alone is a little surer; tests/benchmarks holds 8 points on all work.
    assert {
        low: pair for low, pair in found.items() if not -0.08 <= pair[1] - pair[0] <= 0.15
    } == {}
    assert 0.35 <= close[1] <= 0.65  # too close to call: few pairs of like devices, asked both ways


def test_ranges_of_time_hold_eight_times_in_ten():
    holds = [said.holds(time) for said, time, _ in answers()]
    assert 0.7 <= sum(holds) / len(holds) <= 0.92
