"""Measured effects of changes other than hardware: the ratios of `evidence.csv`, new over old.

Ranges are the 10th to 90th percentile of the pairs, or all of a handful.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from benchmarks.suggestions.groups import DATA, Measurement
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.suggest.evidence import EffectRow
from gramwatt.sci.suggest.settings import HALVED_FROM, LARGE_QUANTISED, LIMITS

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


def measured_effects(rows: Sequence[Measurement], catalog: Catalog) -> list[EffectRow]:
    """Return all effects of the rows, by key and figure."""
    timed = [row for row in rows if row.use == "time"]
    groups: dict[tuple[str, str], list[Sample]] = {}
    for samples in (
        _half_precision(timed, catalog),
        _quantised(timed),
        _in_pytorch(),
        _eight_bits(timed),
        _batched(timed),
        _fewer_nodes(rows),
        _power_capped(rows),
        _limited(catalog),
    ):
        for sample in samples:
            groups.setdefault((sample.key, sample.figure), []).append(sample)
    return [_effect(group) for _, group in sorted(groups.items())]


def _effect(samples: Sequence[Sample]) -> EffectRow:
    ratios = sorted(sample.ratio for sample in samples)
    tail = 0.0 if len(ratios) < HANDFUL else 0.1
    low, value, high = (percentile(ratios, fraction) for fraction in (tail, 0.5, 1 - tail))
    sources = tuple(sorted({sample.source for sample in samples}))
    change, figure = samples[0].key, samples[0].figure
    pairs = len(ratios)
    return EffectRow(
        change=change, figure=figure, low=low, value=value, high=high, pairs=pairs, source=sources
    )


def _samples(
    key: str, now: Measurement, new: Measurement, devices: float = 1.0
) -> Iterator[Sample]:
    """Yield the ratios of two rows, on `devices` times as many devices now as then."""
    time = now.units_per_s / new.units_per_s * devices
    yield Sample(key, "time", time, new.source)
    if now.power_w and new.power_w:
        yield Sample(key, "energy", time * new.power_w / now.power_w / devices, new.source)


def _half_precision(rows: Sequence[Measurement], catalog: Catalog) -> Iterator[Sample]:
    """Half precision over single on the same device, with and without TF32 apart."""
    half = {(r.source, r.workload, r.hardware): r for r in rows if r.precision == "fp16"}
    for row in rows:
        new = half.get((row.source, row.workload, row.hardware))
        if row.precision == "tf32" and new:
            name = "tf32" if catalog.hardware(row.hardware).tf32_tflops else "fp32"
            yield from _samples(f"mixed-precision:{row.workload_class}:{name}", row, new)


def _quantised(rows: Iterable[Measurement]) -> Iterator[Sample]:
    """Four-bit weights over half precision, llama.cpp on the same device."""
    own = [row for row in rows if row.source == "llama-cpp-table"]
    whole = {(row.hardware, row.workload): row for row in own if row.precision == "fp16"}
    for row in own:
        now = whole.get((row.hardware, row.workload.replace("Q4_K_M", "F16")))
        if row.precision == "q4" and now:
            yield from _samples(f"quantise:{row.workload_class}:fp16", now, row)


def _in_pytorch() -> Iterator[Sample]:
    """Four- and eight-bit weights of bitsandbytes over half precision, by size of the model.

    Energies as published and as power over rate, which differ by up to a quarter on one device.
    """
    rows = _rows("quantised.csv")
    whole = {(r["hardware"], r["model"]): r for r in rows if r["precision"] == "fp16"}
    for row in rows:
        if bits := {"nf4": 4, "int8": 8}.get(row["precision"]):
            now = whole[row["hardware"], row["model"]]
            size = "large" if float(row["model_parameters"]) >= LARGE_QUANTISED else "small"
            key = f"quantise:decode:pytorch:{bits}:{size}"
            time, power, energy = (
                float(row[name]) / float(now[name])
                for name in ("tokens_per_s", "power_w", "energy_j_per_1000")
            )
            yield Sample(key, "time", 1 / time, "ecocompute")
            yield Sample(key, "energy", energy, "ecocompute")
            yield Sample(key, "energy", power / time, "ecocompute")


def _eight_bits(rows: Iterable[Measurement]) -> Iterator[Sample]:
    """FP8 over BF16 in serving: same model, task, device and concurrent sequences, on as many
    devices and on half of them.
    """
    own = [row for row in rows if row.source == "ml-energy" and row.batch is not None]
    whole = {(r.workload, r.hardware, r.batch, r.count): r for r in own if r.precision == "bf16"}
    for row in own:
        for name, devices in (("same", 1), ("half", 2)):
            workload = row.workload.replace("-FP8", "")
            now = whole.get((workload, row.hardware, row.batch, devices * row.count))
            few = name == "half" and (row.batch or 0.0) < HALVED_FROM
            if row.precision == "fp8" and now and not few:
                key = f"quantise:llm-serving:{name}:{row.batch:g}"
                yield from _samples(key, now, row, devices)


def _batched(rows: Iterable[Measurement]) -> Iterator[Sample]:
    """More concurrent sequences over fewer: same model, task, device and device count."""
    series: dict[tuple[object, ...], dict[float, Measurement]] = {}
    for row in rows:
        if row.source == "ml-energy" and row.batch is not None:
            same = (row.workload, row.hardware, row.count, row.precision)
            series.setdefault(same, {})[row.batch] = row
    for batches in series.values():
        for few, now in batches.items():
            for many, new in batches.items():
                if few < many:
                    yield from _samples(f"batching:llm-serving:{few:g}:{many:g}", now, new)


def _fewer_nodes(rows: Iterable[Measurement]) -> Iterator[Sample]:
    """One node over eight or nine: whole-machine energy of a training run to target."""
    own = [row for row in rows if row.use == "power" and row.source == "mlperf-training"]
    for new in own:
        for now in own:
            same = (now.workload, now.hardware) == (new.workload, new.hardware)
            metered = ("DC" in now.energy_scope) == ("DC" in new.energy_scope)
            if same and metered and new.count == 8 and now.count >= 64:
                yield from _samples("fewer-nodes:8:64", now, new, now.count / new.count)


def _power_capped(rows: Sequence[Measurement]) -> Iterator[Sample]:
    """The power-limited mode over the best published result of the same device, offline."""
    own = [row for row in rows if row.source == "mlperf-inference"]
    best = {(row.workload, row.hardware): row for row in own if row.use == "time"}
    for row in own:
        now = best.get((row.workload, row.hardware))
        if row.use == "power" and row.point.startswith("MaxQ") and now:
            yield from _samples(f"power-cap:{row.workload_class}", now, row)


class Limited(NamedTuple):
    """A run under a limit [W] over the same one without: mean power before [W], and ratios."""

    hardware: str
    limit_w: float
    before_w: float
    time: float
    energy: float


def _limited(catalog: Catalog) -> Iterator[Sample]:
    """A power limit over the rated power, for training by its share of rated power before."""
    rated = {name: catalog.hardware(name).tdp_w or math.inf for name in _named()}
    for run in (*_by_limit(rated), *_by_clock(rated)):
        full = rated[run.hardware]
        least = next((least for least in LIMITS if run.before_w / full >= least), None)
        if least is not None and abs(run.limit_w / full - LIMITS[least]) <= LIMIT_STEP:
            key = f"power-cap:training:{least:.0%}"
            yield Sample(key, "time", run.time, "zeus-limits")
            yield Sample(key, "energy", run.energy, "zeus-limits")


def _named() -> set[str]:
    files = ("power_limits.csv", "stage_frequencies.csv")
    return {row["hardware"] for name in files for row in _rows(name)}


def _by_limit(rated: Mapping[str, float]) -> Iterator[Limited]:
    """Yield trainings under each power limit."""
    series: dict[tuple[str, ...], dict[float, tuple[float, float]]] = {}
    for row in _rows("power_limits.csv"):
        same = (row["hardware"], row["workload"], row["batch"], row["optimizer"])
        run = float(row["time_s"]), float(row["power_w"])
        series.setdefault(same, {})[float(row["limit_w"])] = run
    for (hardware, *_), runs in series.items():
        if rated[hardware] in runs:
            time, power = runs[rated[hardware]]
            for limit, (longer, less) in runs.items():
                if limit < rated[hardware]:
                    ratio = longer / time
                    yield Limited(hardware, limit, power, ratio, ratio * less / power)


def _by_clock(rated: Mapping[str, float]) -> Iterator[Limited]:
    """Yield training stages at the clocks that draw shares of the power at the highest one.

    They draw more than rated power where nothing waits, so that the shares are of what they draw.
    """
    series: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for row in _rows("stage_frequencies.csv"):
        clock = (float(row["frequency_mhz"]), float(row["time_s"]), float(row["energy_j"]))
        series.setdefault((row["hardware"], row["workload"]), []).append(clock)
    for (hardware, _), clocks in series.items():
        full, (_, time, energy) = rated[hardware], max(clocks)
        for limit in set(LIMITS.values()):
            power = limit * energy / time
            _, longer, less = min(clocks, key=lambda run: abs(run[2] / run[1] - power))
            yield Limited(hardware, limit * full, full, longer / time, less / energy)


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Return the value below which a fraction (0 to 1) of ordered figures lies, interpolated."""
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
