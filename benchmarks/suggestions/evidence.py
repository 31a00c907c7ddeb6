"""Measured effects of changes other than hardware: the ratios of `evidence.csv`, new over old.

Ranges are the 10th to 90th percentile of the pairs, or all of a handful.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.suggestions.quantiles import percentile
from gramwatt.sci.advice.actions.settings import HALVED_FROM, LARGE_QUANTISED, LIMITS
from gramwatt.sci.advice.prediction.measurements import Evidence, Measurement
from gramwatt.sci.advice.prediction.time_model import Specs

LIMIT_STEP = 0.04
"""How far a measured limit may lie from the suggested one, of rated power."""
HANDFUL = 10
"""With fewer pairs than this the range is all of them."""


class Sample(NamedTuple):
    """A ratio of one pair: the key and figure it speaks for, and its source key."""

    key: str
    figure: Literal["time", "energy"]
    ratio: float
    source: str


def measured_effects(rows: Sequence[Measurement], specs: Mapping[str, Specs]) -> list[Evidence]:
    """All evidence of the rows, by key and figure."""
    timed = [row for row in rows if row.use == "time"]
    groups: dict[tuple[str, str], list[Sample]] = {}
    for samples in (
        _half_precision(timed, specs),
        _quantised(timed),
        _in_pytorch(),
        _eight_bits(timed),
        _batched(timed),
        _fewer_nodes(rows),
        _power_capped(rows),
        limited(specs),
        _sliced(),
    ):
        for sample in samples:
            groups.setdefault((sample.key, sample.figure), []).append(sample)
    return [_evidence(group) for _, group in sorted(groups.items())]


def _evidence(samples: Sequence[Sample]) -> Evidence:
    ratios = sorted(sample.ratio for sample in samples)
    tail = 0.0 if len(ratios) < HANDFUL else 0.1
    low, middle, high = (percentile(ratios, share) for share in (tail, 0.5, 1 - tail))
    sources = tuple(sorted({sample.source for sample in samples}))
    first = samples[0]
    return Evidence(
        change=first.key,
        figure=first.figure,
        low=low,
        value=middle,
        high=high,
        pairs=len(ratios),
        source=sources,
    )


def _half_precision(rows: Sequence[Measurement], specs: Mapping[str, Specs]) -> Iterator[Sample]:
    """Half precision over single on the same part, separately for parts with and without TF32."""

    def same(row: Measurement) -> tuple[str, str, str]:
        return row.source, row.workload, row.hardware

    half = {same(row): row for row in rows if row.precision == "fp16"}
    for row in rows:
        other = half.get(same(row))
        if row.precision == "tf32" and other is not None:
            name = "tf32" if specs[row.hardware].has_tf32 else "fp32"
            key = f"mixed-precision:{row.workload_class}:{name}"
            yield Sample(key, "time", row.units_per_s / other.units_per_s, row.source)


def _quantised(rows: Sequence[Measurement]) -> Iterator[Sample]:
    """Four-bit weights over half precision, llama.cpp on the same part."""
    whole = {
        (row.hardware, row.workload): row
        for row in rows
        if row.source == "llama-cpp-table" and row.precision == "fp16"
    }
    for row in rows:
        other = whole.get((row.hardware, row.workload.replace("Q4_K_M", "F16")))
        if row.precision == "q4" and other is not None:
            key = f"quantise:{row.workload_class}:fp16"
            yield Sample(key, "time", other.units_per_s / row.units_per_s, row.source)


def _in_pytorch() -> Iterator[Sample]:
    """Four- and eight-bit weights of bitsandbytes over half precision, by size of the model.

    Energies as published and as power over rate, which differ by up to a quarter on one part.
    """
    rows = _rows("quantised.csv")
    whole = {(r["hardware"], r["model"]): r for r in rows if r["precision"] == "fp16"}
    for row in rows:
        bits = {"nf4": 4, "int8": 8}.get(row["precision"])
        if bits is None:
            continue
        other = whole[row["hardware"], row["model"]]
        size = "large" if float(row["model_parameters"]) >= LARGE_QUANTISED else "small"
        key = f"quantise:decode:pytorch:{bits}:{size}"
        time = float(other["tokens_per_s"]) / float(row["tokens_per_s"])
        yield Sample(key, "time", time, "ecocompute")
        energies = float(row["energy_j_per_1000"]) / float(other["energy_j_per_1000"])
        yield Sample(key, "energy", energies, "ecocompute")
        powers = float(row["power_w"]) / float(other["power_w"])
        yield Sample(key, "energy", time * powers, "ecocompute")


def _eight_bits(rows: Iterable[Measurement]) -> Iterator[Sample]:
    """FP8 over BF16 in serving: same model, task, part and concurrent sequences, on as many devices
    and on half of them.
    """
    whole: dict[tuple[str, str, float | None, int], Measurement] = {}
    for row in rows:
        if row.source == "ml-energy" and row.precision == "bf16":
            whole[row.workload, row.hardware, row.batch, row.count] = row
    for row in rows:
        if row.source != "ml-energy" or row.precision != "fp8" or row.batch is None:
            continue
        for name, count in (("same", row.count), ("half", 2 * row.count)):
            workload = row.workload.replace("-FP8", "")
            other = whole.get((workload, row.hardware, row.batch, count))
            if name == "half" and row.batch < HALVED_FROM:
                continue
            if other is None or not other.power_w or not row.power_w:
                continue
            key = f"quantise:llm-serving:{name}:{row.batch:g}"
            time = other.units_per_s * other.count / (row.units_per_s * row.count)
            yield Sample(key, "time", time, row.source)
            energy = row.power_w / row.units_per_s / (other.power_w / other.units_per_s)
            yield Sample(key, "energy", energy, row.source)


def _batched(rows: Sequence[Measurement]) -> Iterator[Sample]:
    """More concurrent sequences over fewer, same model, task, part and device count."""
    series: dict[tuple[str, str, int, str], dict[float, Measurement]] = {}
    for row in rows:
        if row.source == "ml-energy" and row.batch is not None:
            same = (row.workload, row.hardware, row.count, row.precision)
            series.setdefault(same, {})[row.batch] = row
    for batches in series.values():
        for few, one in batches.items():
            for many, other in batches.items():
                if few < many and one.power_w and other.power_w:
                    key = f"batching:llm-serving:{few:g}:{many:g}"
                    time = one.units_per_s / other.units_per_s
                    yield Sample(key, "time", time, one.source)
                    yield Sample(key, "energy", time * other.power_w / one.power_w, one.source)


def _fewer_nodes(rows: Iterable[Measurement]) -> Iterator[Sample]:
    """One node over eight or nine: whole-machine energy of a training run to target."""
    runs: dict[tuple[str, str, bool], list[Measurement]] = {}
    for row in rows:
        if row.use == "power" and row.source == "mlperf-training" and row.power_w:
            direct_current = "DC" in row.energy_scope
            runs.setdefault((row.workload, row.hardware, direct_current), []).append(row)
    for same in runs.values():
        for one in same:
            for many in same:
                if one.count == 8 and many.count >= 64 and one.power_w and many.power_w:
                    time = many.units_per_s * many.count / (one.units_per_s * one.count)
                    watts = one.power_w * one.count / (many.power_w * many.count)
                    yield Sample("fewer-nodes:8:64", "time", time, one.source)
                    yield Sample("fewer-nodes:8:64", "energy", time * watts, one.source)


def _power_capped(rows: Sequence[Measurement]) -> Iterator[Sample]:
    """The power-limited mode over the best published result of the same part, offline."""
    best = {
        (row.workload, row.hardware): row
        for row in rows
        if row.source == "mlperf-inference" and row.use == "time"
    }
    for row in rows:
        other = best.get((row.workload, row.hardware))
        if row.use == "power" and row.point.startswith("MaxQ") and other is not None:
            key = f"power-cap:{row.workload_class}"
            yield Sample(key, "time", other.units_per_s / row.units_per_s, row.source)


def limited(specs: Mapping[str, Specs]) -> Iterator[Sample]:
    """A power limit over the rated power, for training by its share of rated power before."""
    for one, limit_w in limited_runs(specs):
        rated = specs[one.hardware].tdp_w or math.inf
        share = one.before_w / rated
        least = next((least for least in LIMITS if share >= least), None)
        if least is not None and abs(limit_w / rated - LIMITS[least]) <= LIMIT_STEP:
            key = f"power-cap:training:{least:.0%}"
            yield Sample(key, "time", one.time, "zeus-limits")
            yield Sample(key, "energy", one.energy, "zeus-limits")


def _sliced() -> Iterator[Sample]:
    """One MIG slice over its whole board, MLPerf Offline on the same round's board."""
    for row in _rows("slices.csv"):
        ratio = float(row["board_per_s"]) / float(row["slice_per_s"])
        key = f"slice:{row['hardware']}:{row['slice']}"
        yield Sample(key, "time", ratio, "mlperf-inference-earlier")


class Limited(NamedTuple):
    """A run under a limit over the same one without: mean power before [W], ratios."""

    hardware: str
    before_w: float
    time: float
    energy: float


def limited_runs(specs: Mapping[str, Specs]) -> Iterator[tuple[Limited, float]]:
    """Runs under a limit [W]: by power limit, and by the clock at which that power is drawn."""
    series: dict[tuple[str, ...], dict[float, tuple[float, float]]] = {}
    for row in _rows("power_limits.csv"):
        same = (row["hardware"], row["workload"], row["batch"], row["optimizer"])
        run = (float(row["time_s"]), float(row["power_w"]))
        series.setdefault(same, {})[float(row["limit_w"])] = run
    for same, runs in series.items():
        rated = specs[same[0]].tdp_w
        if rated in runs:
            time, power = runs[rated]
            for limit, (longer, less) in runs.items():
                if limit < rated:
                    ratio = longer / time
                    yield Limited(same[0], power, ratio, ratio * less / power), limit
    yield from _clocked(specs)


def _clocked(specs: Mapping[str, Specs]) -> Iterator[tuple[Limited, float]]:
    """Training stages at the clocks that draw shares of the power at the highest one.

    They draw more than rated power where nothing waits, so that the shares are of what they draw.
    """
    series: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for row in _rows("stage_frequencies.csv"):
        clock = (float(row["frequency_mhz"]), float(row["time_s"]), float(row["energy_j"]))
        series.setdefault((row["hardware"], row["workload"]), []).append(clock)
    for (hardware, _), clocks in series.items():
        rated = specs[hardware].tdp_w or 0.0
        _, time, energy = max(clocks)
        for limit in set(LIMITS.values()):
            power = limit * energy / time
            _, longer, less = min(clocks, key=lambda one: abs(one[2] / one[1] - power))
            yield Limited(hardware, rated, longer / time, less / energy), limit * rated


def _rows(name: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / "data" / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
