"""What the measurements say of other changes than hardware: ranges of ratios, new over old.

`collected` computes them from the rows (used by scripts/fit_throughput.py); answers read the result
from `evidence.csv`. Ranges are the 10th to 90th percentile of the pairs, or all of a handful.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.advice.prediction.rows import Measurement, table
from gramwatt.sci.advice.prediction.specs import Specs
from gramwatt.sci.base.uncertainty import percentile

HANDFUL = 10
"""With fewer pairs than this the range is all of them."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A ratio, new over old: of time or of energy per unit, from that many measured pairs."""

    key: str
    figure: str
    low: float
    value: float
    high: float
    pairs: int
    source: str


def evidence(key: str, figure: str) -> Evidence | None:
    """The evidence under that key for "time" or "energy"; None where nothing was measured."""
    return _shipped().get((key, figure))


def collected(rows: Sequence[Measurement], specs: Mapping[str, Specs]) -> list[Evidence]:
    """All evidence of the rows, in a fixed order."""
    timed = [row for row in rows if row.use == "time"]
    found = [
        *_gathered(_precision(timed, specs)),
        *_gathered(_quantised(timed)),
        *_gathered(_batched(timed)),
        *_gathered(_fewer(row for row in rows if row.use == "power")),
        *_gathered(_capped(rows)),
    ]
    return sorted(found, key=lambda item: (item.key, item.figure))


@cache
def _shipped() -> Mapping[tuple[str, str], Evidence]:
    found = {}
    for row in table("evidence.csv"):
        key, figure = row.text("key"), row.text("figure")
        ends = (row.known("low"), row.known("value"), row.known("high"))
        found[key, figure] = Evidence(
            key, figure, *ends, int(row.known("pairs")), row.text("source")
        )
    return found


Sample = tuple[str, str, float, str]
"""Key, figure, ratio and source key."""


def _gathered(samples: Iterable[Sample]) -> list[Evidence]:
    found: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for key, figure, ratio, source in samples:
        found.setdefault((key, figure), []).append((ratio, source))
    out = []
    for (key, figure), pairs in found.items():
        ratios = sorted(ratio for ratio, _ in pairs)
        edge = 0.0 if len(ratios) < HANDFUL else 0.1
        low, middle, high = (percentile(ratios, share) for share in (edge, 0.5, 1 - edge))
        sources = ";".join(sorted({source for _, source in pairs}))
        out.append(Evidence(key, figure, low, middle, high, len(ratios), sources))
    return out


def _precision(rows: Sequence[Measurement], specs: Mapping[str, Specs]) -> Iterator[Sample]:
    """Half precision over single on the same part, apart for parts with and without TF32."""
    half = {_same(row): row for row in rows if row.precision == "fp16"}
    for row in rows:
        other = half.get(_same(row))
        if row.precision != "tf32" or other is None:
            continue
        name = "tf32" if specs[row.hardware].has_tf32 else "fp32"
        key = f"mixed-precision:{row.workload_class}:{name}"
        yield key, "time", row.units_per_s / other.units_per_s, row.source


def _quantised(rows: Sequence[Measurement]) -> Iterator[Sample]:
    """Four-bit weights over half precision, llama.cpp on the same part."""
    whole = {
        (row.hardware, row.workload): row
        for row in rows
        if row.source == "llama-cpp-table" and row.precision == "fp16"
    }
    for row in rows:
        name = row.workload.replace("Q4_K_M", "F16")
        other = whole.get((row.hardware, name))
        if row.precision == "q4" and other is not None:
            key = f"quantise:{row.workload_class}:fp16"
            yield key, "time", other.units_per_s / row.units_per_s, row.source


def _batched(rows: Sequence[Measurement]) -> Iterator[Sample]:
    """More concurrent sequences over fewer, same model, task, part and device count."""
    series: dict[tuple[str, str, int, str], dict[float, Measurement]] = {}
    for row in rows:
        if row.source == "ml-energy" and row.batch is not None:
            key = (row.workload, row.hardware, row.count, row.precision)
            series.setdefault(key, {})[row.batch] = row
    for batches in series.values():
        for few, one in batches.items():
            for many, other in batches.items():
                if few < many and one.power_w and other.power_w:
                    name = f"batching:llm-serving:{few:g}:{many:g}"
                    time = one.units_per_s / other.units_per_s
                    yield name, "time", time, one.source
                    yield name, "energy", time * other.power_w / one.power_w, one.source


def _fewer(rows: Iterable[Measurement]) -> Iterator[Sample]:
    """One node over eight or nine: whole-machine energy of a training run to target."""
    runs: dict[tuple[str, str], list[Measurement]] = {}
    for row in rows:
        if row.source == "mlperf-training" and row.power_w:
            runs.setdefault((row.workload, row.hardware), []).append(row)
    for found in runs.values():
        for one in found:
            for many in found:
                if one.count == 8 and many.count >= 64 and _scope(one) == _scope(many):
                    time = many.units_per_s * many.count / (one.units_per_s * one.count)
                    watts = (one.power_w or 0) * one.count / ((many.power_w or 1) * many.count)
                    yield "fewer-nodes:8:64", "time", time, one.source
                    yield "fewer-nodes:8:64", "energy", time * watts, one.source


def _scope(row: Measurement) -> str:
    return "DC" if "DC" in row.energy_scope else "AC"


def _capped(rows: Sequence[Measurement]) -> Iterator[Sample]:
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
            yield key, "time", other.units_per_s / row.units_per_s, row.source


def _same(row: Measurement) -> tuple[str, str, str]:
    return (row.source, row.workload, row.hardware)
