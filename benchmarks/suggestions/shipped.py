"""The verdict `lower` as users get it, on pairs whose energy was measured.

Each pair is asked as a request of its own, through the engine, with the workload of both rows kept
out of the fit of the time model. Board energy is compared with the hosts' usual power added to both
sides, wall energy of whole systems as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.suggestions.quantiles import percentile
from benchmarks.suggestions.regression import Observation, fit
from gramwatt.sci.advice.actions import host_power
from gramwatt.sci.advice.actions.host_power import HOST_RATED_W, HOST_SIZE, HOST_W
from gramwatt.sci.advice.documents import SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.prediction import predict
from gramwatt.sci.advice.prediction.measurements import (
    Measurement,
    Pair,
    pairs,
)
from gramwatt.sci.advice.prediction.time_model import TimeModel
from gramwatt.sci.advice.suggest_request import PRECISIONS, parse_suggest_request
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.figures.csv_data import read_rows

FRAMEWORKS = {"pytorch": "pytorch", "tuned": "tensorrt", "llama.cpp": "llama.cpp"}
BOARD = ("zeus", "ml-energy-2023", "zeus-sentiment140")
SYSTEMS = "mlperf-systems"
"""Wall energy of MLPerf systems of 4 to 8 GPUs: each part's best one of a round and workload."""
WALL = ("mlperf-inference-earlier", SYSTEMS)
WallFactor = Callable[[Pair], float | None]
"""The x/÷ factor of wall energy from pairs of other rounds; None where there are too few."""
CLASSES = ("training", "recsys", "decode", "batch-inference")
LARGE = 0.8
"""Ratio of energy below which a saving is above 20 %."""
AIMED = {
    "wall": {(SYSTEMS, "batch-inference"), (SYSTEMS, "recsys")},
    "board": {("zeus-sentiment140", "training")},
    "board, workload out": {("zeus", "training")},
    "decode, workload out": {("ml-energy-2023", "decode")},
}
"""Sets of pairs, by source and class, whose energy is held against the aims."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer: what was measured, of board or wall energy, and whether `lower` was said.

    `error` is that of the energy ratio, hosts included, over what was measured, None without one.
    """

    source: str
    workload_class: str
    measured: float
    error: float | None
    lower: bool
    likely: bool
    inside: bool | None


@dataclass(frozen=True, slots=True)
class Shipped:
    """Answers of one source and class: pairs, answered ones inside their range, claims."""

    source: str
    workload_class: str
    pairs: int
    answered: int
    inside: int
    savings: int
    claims: int
    right: int
    likely: int
    likely_right: int
    large: int
    large_claimed: int
    errors: tuple[float, ...]


@cache
def held_out() -> tuple[Measurement, ...]:
    """Rows that are in no fit: `data/held_out.csv`, with the columns of `measurements.csv`."""
    path = Path(__file__).parent / "data" / "held_out.csv"
    return tuple(read_rows(Measurement, path.read_text(encoding="utf-8"), path.name))


def shipped(
    rows: Sequence[Measurement],
    fitted: Sequence[Observation],
    catalog: Catalog,
    wall_factor: WallFactor,
) -> list[Shipped]:
    """The sums by source and class, in the order of their names."""
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts([*rows, *held_out()], fitted, catalog, wall_factor):
        groups.setdefault((verdict.source, verdict.workload_class), []).append(verdict)
    return [_sum(*key, group) for key, group in sorted(groups.items())]


def verdicts(
    rows: Sequence[Measurement],
    fitted: Sequence[Observation],
    catalog: Catalog,
    wall_factor: WallFactor,
) -> Iterator[Verdict]:
    """An answer for each pair of measured energy."""
    by_family: dict[str, list[Pair]] = {}
    for pair in filter(_share_hosts_alike, pairs(filter(_is_measured, rows))):
        by_family.setdefault(pair.now.family, []).append(pair)
    for family, found in by_family.items():
        rest = [one for one in fitted if one.row.family != family]
        model = TimeModel(fit(rest))
        for pair in found:
            with _without(model, wall_factor(pair)):
                yield _verdict(pair, catalog)


@contextmanager
def _without(model: TimeModel, wall: float | None) -> Iterator[None]:
    """Answers by this time model and this x/÷ factor of wall energy."""
    with (
        mock.patch.object(predict, "shipped_model", return_value=model),
        mock.patch.object(host_power, "wall_factor", return_value=wall),
    ):
        yield


def _is_measured(row: Measurement) -> bool:
    if row.power_w is None or row.workload_class not in CLASSES:
        return False
    return row.source in BOARD or (row.source in WALL and row.use == "power")


def _share_hosts_alike(pair: Pair) -> bool:
    """Return whether one machine has at most twice the other's devices.

    A target is judged at the present count, so that one card in a server says nothing of eight.
    """
    return max(pair.now.count, pair.target.count) <= 2 * min(pair.now.count, pair.target.count)


def _verdict(pair: Pair, catalog: Catalog) -> Verdict:
    now, target = pair.now, pair.target
    board = now.source in BOARD
    asked: dict[str, Any] = {
        "hardware": now.hardware,
        "count": now.count,
        "workload_class": now.workload_class,
        "kind": "training" if now.workload_class == "training" else None,
        "framework": FRAMEWORKS[now.stack],
        "precision": now.precision if now.precision in PRECISIONS else None,
        "mean_power_w": now.power_w if board else None,
        "hours": 1000.0,
        "zone": "DE",
        "ownership": "owned",
        "pue": 1.2,
        "candidates": [target.hardware],
    }
    found = suggest(parse_suggest_request(asked), catalog).suggestions
    [answer] = [one for one in found if _is_of(one, target.hardware, now.count)]
    measured = math.exp(pair.log_energy or 0.0)
    whole = _with_hosts(pair, catalog) if board else measured
    ratio = answer.energy_ratio
    inside = ratio.low <= whole <= ratio.high if ratio else None
    lower = answer.verdict == "lower"
    error = abs(ratio.value / whole - 1) if ratio else None
    return Verdict(now.source, now.workload_class, measured, error, lower, answer.likely, inside)


def _is_of(one: SuggestionDoc, target: str, count: int) -> bool:
    return one.action == "change-hardware" and (one.target, one.count) == (target, count)


def _with_hosts(pair: Pair, catalog: Catalog) -> float:
    """Measured board energy with the usual power of each part's host on both sides."""
    powers = []
    for row in (pair.now, pair.target):
        rated = catalog.hardware(row.hardware).tdp_w or 0.0
        host = HOST_W.value * math.pow(rated / HOST_RATED_W, HOST_SIZE.value)
        powers.append((row.power_w or 0.0) + host)
    return math.exp(pair.log_time) * powers[1] / powers[0]


def _sum(source: str, name: str, found: Sequence[Verdict]) -> Shipped:
    answered = [one for one in found if one.inside is not None]
    claims = [one for one in found if one.lower]
    likely = [one for one in found if one.likely]
    return Shipped(
        source,
        name,
        len(found),
        len(answered),
        sum(one.inside is True for one in answered),
        sum(one.measured < 1 for one in found),
        len(claims),
        sum(one.measured < 1 for one in claims),
        len(likely),
        sum(one.measured < 1 for one in likely),
        sum(one.measured < LARGE for one in found),
        sum(one.measured < LARGE for one in claims),
        tuple(sorted(one.error for one in found if one.error is not None)),
    )


def against_aims(found: Iterable[Shipped]) -> list[tuple[object, ...]]:
    """Lines of the table of aims: energy on rows outside the fits, each figure beside its aim."""
    lines: list[tuple[object, ...]] = []
    for name, sources in AIMED.items():
        group = [one for one in found if (one.source, one.workload_class) in sources]
        pairs, answered, inside, claims, right, large, claimed = (
            sum(getattr(one, field) for one in group)
            for field in (
                *("pairs", "answered", "inside", "claims", "right"),
                *("large", "large_claimed"),
            )
        )
        errors = sorted(error for one in group for error in one.errors)
        wrong = (claims - right) / claims if claims else 0.0
        figures = (
            ("range holds", inside / answered, "76 to 88 %", 0.76 <= inside / answered <= 0.88),
            (
                f"savings above 20 % claimed, of {large}",
                claimed / large,
                "50 %",
                2 * claimed >= large,
            ),
            (f"claims that are wrong, of {claims}", wrong, "5 % at most", wrong <= 0.05),
            ("answered", answered / pairs, "80 %", answered / pairs >= 0.8),
            ("median error", percentile(errors, 0.5), "13 %", percentile(errors, 0.5) <= 0.13),
            ("90th percentile", percentile(errors, 0.9), "41 %", percentile(errors, 0.9) <= 0.41),
        )
        for figure, value, aim, met in figures:
            lines.append((name, figure, f"{value:.0%}", aim, "yes" if met else "no"))
    return lines


def as_cells(one: Shipped) -> tuple[object, ...]:
    """One line of the report's table."""
    inside = f"{one.inside / one.answered:.0%}" if one.answered else "-"
    recall = f"{one.right / one.savings:.0%}" if one.savings else "-"
    precision = f"{one.right / one.claims:.0%}" if one.claims else "-"
    return (
        one.source,
        one.workload_class,
        one.pairs,
        one.answered,
        inside,
        one.savings,
        f"{one.right} of {one.claims}",
        precision,
        recall,
        f"{one.likely_right} of {one.likely}",
    )


def right(found: Iterable[Shipped], source: str) -> str:
    """Claims and true savings of a source, all classes together, in words."""
    of_source = [one for one in found if one.source == source]
    sums = [sum(getattr(one, name) for one in of_source) for name in ("savings", "claims", "right")]
    return "{2} of {0} true savings are claimed, by {1} verdicts".format(*sums)
