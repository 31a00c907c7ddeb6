"""How much longer the same work takes on another device, and at what power, from data sheets.

    ln rate = a x ln peak + b x ln bandwidth + c x ln rated power      by regime
    ln power = d x ln rated power                       d = 1, for one sequence less
    ln energy ratio = ln size x (e + f x ln share)      inference whose mean power is known

Rated power limits the clock at which a peak is reached, so that in busy work and prompts a card of
72 W holds less of its peak than one of 350 W, and one die at two limits runs at two rates.

The numbers stand in `data/ranking.csv` with what they were fitted to; `benchmarks/suggestions` fits
them and asks them work that they have not seen. The error of a logarithm is a Student t of four
degrees of freedom: most work is close, some is far off. All figures are of devices alone, as many
as now.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.figures.csv_data import Cell, Row, rows
from gramwatt.sci.figures.quantity import Kind, Quantity, of_sources

Regime = Literal["busy", "recommender", "prefill", "sequence", "full", "overhead"]
REGIMES: Mapping[str, Regime] = {
    "training": "busy",
    "batch-inference": "busy",
    "recsys": "recommender",
    "prefill": "prefill",
    "decode": "sequence",
    "small": "overhead",
}
"""The regime of each class but LLM serving, which `work_of` tells apart."""
TUNED = ("tensorrt", "tensorrt-llm", "nemo", "megatron", "transformer-engine", "maxtext", "modular")
"""Software that its vendor tunes to each device."""
NARROW = ("fp8", "int8", "fp4")
"""Precisions that need software tuned to the device."""
SMALL_MODEL = 2e9
"""Parameters below which one sequence waits for launches more than for memory: a model of 1.2 B is
read in 3 to 8 ms, and took as long on cards of half the bandwidth (LocalScore, not shipped)."""
FULL_FROM = 512.0
"""Concurrent sequences from which a language model is served full; fewer leave devices waiting."""
GENERAL: tuple[Regime, ...] = ("busy", "sequence", "prefill")
"""Regimes in which software that is not tuned fills no device beyond the reference."""
OTHER_VENDORS = ("AMD", "Intel")
"""Vendors whose devices fall short of their data sheets beside NVIDIA's in software tuned to each.
Of the others no such results were found."""
REFERENCE = "nvidia-h100-sxm5-80"
"""The fastest device that general software is known to fill."""


OF_RTX, OF_LATER_RTX = {"Turing": 8.0}, 4.0
"""Rate of matrix units in 16 bits over that of FP32: Quadro RTX 6000 and TITAN RTX 8; RTX A6000,
3090, 4090 and 5090 4."""
UNRATED_W = 300.0
"""Rated power taken for devices of which none is published [W]."""


class RankingRow(Row, frozen=True, kw_only=True):
    """A number of the ranking: its regime or "all", what it is, and what it rests on.

    A fitted one is within rounding of the fits of benchmarks/suggestions; a chosen one was set with
    the results in sight, for the reason in `basis`.
    """

    files = ("ranking.csv",)
    package = "gramwatt.sci.estimate"
    key = ("regime", "figure")

    regime: Cell
    figure: Cell
    value: float
    how: Literal["fitted", "chosen"]
    basis: Cell
    source: tuple[Cell, ...]


class Work(NamedTuple):
    """What the ranking needs of a job; `power_share` is mean over rated power of a device now.

    `narrowest` says that the work may choose its precision, `tuned` that its software is tuned to
    each device, `served` that a language model answers several requests, `trains` that a model is
    known to be trained; a `precision` or `power_share` of None is not known.
    """

    regime: Regime
    precision: str | None = None
    narrowest: bool = False
    tuned: bool = False
    infers: bool = False
    power_share: float | None = None
    served: bool = False
    trains: bool = False


class Log(NamedTuple):
    """The natural logarithm of a ratio, target over now, and the scale of its error."""

    value: float
    spread: float

    def __add__(self, other: Log) -> Log:  # type: ignore[override]
        return Log(self.value + other.value, math.hypot(self.spread, other.spread))

    def __neg__(self) -> Log:
        return Log(-self.value, self.spread)

    @property
    def odds(self) -> float:
        """Return the probability that the ratio is below 1."""
        if not self.spread:
            return 0.5 if not self.value else float(self.value < 0)
        return cumulative(-self.value / self.spread)

    def holds(self, value: float) -> bool:
        """Tell whether the range holds a logarithm."""
        return abs(value - self.value) <= QUANTILE_90 * self.spread

    def quantity(self, kind: Kind, *sources: str) -> Quantity:
        """Return the ratio with the range that holds it in 8 of 10 cases."""
        half = QUANTILE_90 * self.spread
        value, low, high = (math.exp(self.value + step) for step in (0.0, -half, half))
        return of_sources(value, low, high, "1", kind, sources)


class Comparison(NamedTuple):
    """Time, power and energy of the same work on the target over now; None where not known."""

    time: Log
    power: Log | None
    energy: Log | None


def cumulative(t: float) -> float:
    """Return the probability below `t` of Student's t of four degrees (Abramowitz 26.7.4)."""
    u = t * t / (4 + t * t)
    return 0.5 + 0.375 * math.copysign(math.sqrt(4 * u), t) * (1 - u / 3)


QUANTILE_90 = 1.5332062740589438
"""Student's t of four degrees at 0.9."""


def combine(*logs: Log) -> Log:
    """Return several witnesses of one ratio as one, weighted by the inverse of their variances.

    Where they disagree the result is less certain than each alone would make it.
    """
    weights = [log.spread**-2 for log in logs]
    mean = sum(weight * log.value for weight, log in zip(weights, logs, strict=True)) / sum(weights)
    apart = max(log.value for log in logs) - min(log.value for log in logs)
    return Log(mean, math.hypot(sum(weights) ** -0.5, number("growth") * apart))


@cache
def _numbers() -> Mapping[tuple[str, str], float]:
    return {(row.regime, row.figure): row.value for row in rows(RankingRow)}


def number(figure: str, regime: str = "all") -> float:
    """Return a number of the ranking: of the regime, else of all."""
    numbers = _numbers()
    return numbers[(regime, figure) if (regime, figure) in numbers else ("all", figure)]


def work_of(
    workload_class: str | None,
    precision: str | None = None,
    framework: str | None = None,
    *,
    infers: bool = False,
    batch_size: float | None = None,
    power_share: float | None = None,
    model_parameters: float | None = None,
) -> Work:
    """Return the regime of a class of work, and what its software and precision say.

    LLM serving is full where neither its concurrent sequences nor its power say otherwise; a full
    server in eight bits or an unknown precision may choose the narrowest one of each device.
    """
    tuned = is_tuned((framework or "").lower(), precision)
    if workload_class == "llm-serving":
        full = (batch_size or FULL_FROM) >= FULL_FROM and power_share is None
        choose = full and (precision is None or precision in NARROW)
        regime: Regime = "full" if full else "busy"
        return Work(regime, precision, choose, full or tuned, True, power_share, True)
    regime = REGIMES.get(workload_class or "", "busy")
    if regime == "sequence" and (model_parameters or SMALL_MODEL) < SMALL_MODEL:
        regime = "overhead"
    trains = workload_class == "training"
    return Work(regime, precision, False, tuned, infers, power_share, trains=trains)


def is_tuned(library: str, precision: str | None) -> bool:
    """Tell whether the software is tuned to each device, by its name or its precision."""
    return library in TUNED or precision in NARROW


def compare(now: Hardware, target: Hardware, work: Work, reference: Hardware) -> Comparison | None:
    """Return what the ranking says of a target; None where a data sheet lacks what it needs.

    `reference` is the catalog's `REFERENCE`. Work of unknown precision is taken to run in FP32
    where one of the devices has no matrix units.
    """
    plain = work.precision is None and not (half_rate(now) and half_rate(target))
    if plain and not work.narrowest:
        work = work._replace(precision="fp32")
    levels = [level(part, work, reference) for part in (now, target)]
    if levels[0] is None or levels[1] is None:
        return None
    gain = levels[0] - levels[1]
    errors = "served" if work.served and work.regime == "busy" else work.regime
    spread = number("spread", errors)
    if work.precision == "fp32" or (work.precision is None and not work.narrowest):
        spread = math.hypot(spread, number("unknown-units" if plain else "unknown-precision"))
    if is_general(work) and work.trains:
        beyond = max(levels[0], 0.0) - max(levels[1], 0.0)
        spread = math.hypot(spread, number("beyond-spread") * beyond)
    time = _grown(gain, spread)
    if not now.tdp_w or not target.tdp_w:
        return Comparison(time, None, None)
    size = math.log(target.tdp_w / now.tdp_w)
    power = Log(number("power", work.regime) * size, number("power-spread"))
    energy = _grown(gain + power.value, math.hypot(spread, power.spread))
    share = work.power_share if work.infers and work.regime == "busy" else None
    if share and abs(size) >= math.log(number("share-size")):
        time = _with_share("share-time", errors, size, share, time)
        energy = _with_share("share-energy", errors, size, share, energy)
        energy = Log(energy.value, max(energy.spread, number("share-energy-least")))
        power = Log(energy.value - time.value, power.spread)
    return Comparison(time, power, energy)


def _with_share(figure: str, errors: str, size: float, share: float, plain: Log) -> Log:
    """Return a logarithm by the present share of rated power, beside what data sheets say of it.

    A device far below its rating waits for its host, and a smaller one waits less. It was measured
    on one pair of devices: it counts the less the further the sizes are apart.
    """
    value = size * (number(f"{figure}-level") + number(f"{figure}-slope") * math.log(share))
    spread = number(f"{figure}-spread", errors)
    apart = max(1.0, abs(size) / math.log(number("share-pair")))
    both = combine(Log(value, spread * apart**2), plain)
    return Log(both.value, max(both.spread, spread))


def _grown(value: float, spread: float) -> Log:
    return Log(value, math.hypot(spread, number("growth") * value))


def level(part: Hardware, work: Work, reference: Hardware) -> float | None:
    """Return ln(rate) of a device over that of the reference; None where not known.

    What goes beyond the reference counts in part only in software that is not tuned to the device.
    """
    rates = peak(part, work), peak(reference, work)
    if rates[0] is None or rates[1] is None or not part.memory_bandwidth_gbs:
        return None
    widths = math.log(part.memory_bandwidth_gbs / (reference.memory_bandwidth_gbs or 1.0))
    limits = math.log((part.tdp_w or UNRATED_W) / (reference.tdp_w or UNRATED_W))
    value = number("peak", work.regime) * (rates[0] - rates[1])
    value += number("bandwidth", work.regime) * widths + number("rated", work.regime) * limits
    if work.tuned and part.vendor in OTHER_VENDORS:
        value -= number("other-vendor")
    if is_general(work) and value > 0:
        return value * number("beyond", "training" if work.trains else "all")
    return value


def is_general(work: Work) -> bool:
    """Tell whether the software of the work fills no device beyond the reference."""
    return work.regime in GENERAL and not work.tuned


def half_rate(part: Hardware) -> float | None:
    """Return the peak dense rate of matrix units in 16 bits [TFLOPS]; None without such units.

    GeForce cards add up in 32 bits at half of it, and lose little by that. A card whose rate is not
    published has that of its generation.
    """
    published = part.fp16_tensor_tflops or part.bf16_tensor_tflops
    if published:
        return max(published, (part.int8_tops or 0.0) / 2)
    if "RTX" in part.name and part.fp32_tflops:
        return part.fp32_tflops * OF_RTX.get(part.architecture, OF_LATER_RTX)
    return None


def peak(part: Hardware, work: Work) -> float | None:
    """Return ln(peak dense rate [TFLOPS]) at which the work may run on a device."""
    half = half_rate(part) or part.fp32_tflops
    eighth = max(part.fp8_tflops or 0.0, part.int8_tops or 0.0) or half
    quarter = max(part.peak_other.get("fp4", 0.0), eighth or 0.0)
    single = part.tf32_tflops or part.fp32_tflops or half
    plain = part.fp32_tflops or half
    if not (half and eighth and single and plain):
        return math.log(eighth) if eighth else None
    if work.narrowest:
        return math.log(quarter)
    rates: Mapping[str | None, tuple[float, ...]] = {
        None: (half, single, plain),
        "fp32": (single, plain),
        "tf32": (single,),
        "fp8": (eighth,),
        "int8": (eighth,),
        "fp4": (quarter,),
    }
    chosen = rates.get(work.precision, (half,))
    return sum(map(math.log, chosen)) / len(chosen)
