"""Micro-benchmarks of own devices (`gramwatt calibrate`), and the ratios of two that they give.

A row has the measured rates of matrix products and of copies, and the power that they draw. Rates
take the place of the catalog's peak and bandwidth in the fitted model, power at work that of rated
power. Their ranges are those of parts outside the public table, because a micro-benchmark is no
workload: nothing shows that it predicts one better than data sheets do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gramwatt.sci.advice.prediction.time_model import Setting, Term, TimeModel
from gramwatt.sci.base.document import to_json
from gramwatt.sci.base.errors import GramwattError, QuantityError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Catalog

VERSION = 1
"""Of the rows' format; rows of a later one are not read."""
COPY, MATMUL = "copy", "matmul"
PRECISIONS_OF_RATE: Mapping[str, tuple[str, ...]] = {
    "half": ("bf16", "fp16"),
    "single": ("tf32", "fp32"),
    "plain": ("fp32",),
}
"""Matrix products whose rate is that of a peak rate of the model, the preferred first."""
BOUND_BY_MEMORY = ("decode", "llm-serving", "recsys")
"""Classes whose power follows that of copies rather than that of matrix products."""


class DeviceRowError(GramwattError):
    """A line is no row of a micro-benchmark that can be used."""

    code = "device-row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One kind of work: its rate [Tflop/s, or GB/s for copies] and the board's power at it [W]."""

    work: str
    precision: str | None
    rate: Quantity
    power: Quantity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One micro-benchmark: which device, when, by which meter and software, and what it reached.

    `idle_power` [W] was read before any process used the device, `held_power` [W] with one that
    did nothing. `measured_at` is the time in UTC, ISO 8601.
    """

    measured_at: str
    hardware: str
    device: str
    device_id: str
    meter: str
    driver: str
    software: str
    seconds: float
    power_limit_w: float | None
    idle_power: Quantity | None
    held_power: Quantity | None
    loads: tuple[Load, ...]

    @property
    def source(self) -> str:
        """Return where the figures come from, in words."""
        by = "" if self.meter == "nvml" else f" by {self.meter}, which is not this hardware"
        return f"micro-benchmark of {self.hardware} measured here on {self.measured_at[:10]}{by}"

    def load(self, work: str, precision: str | None = None) -> Load | None:
        """Return what was measured of this work; None where it was not."""
        found = (one for one in self.loads if (one.work, one.precision) == (work, precision))
        return next(found, None)

    def to_doc(self) -> dict[str, Any]:
        """Return this row as JSON-ready data."""
        return {"version": VERSION, **to_json(self), "loads": [to_json(one) for one in self.loads]}


def parse_device_row(document: object, catalog: Catalog) -> DeviceRow:
    """Return the row in a document of `DeviceRow.to_doc`; raises DeviceRowError or LookupFailed."""
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise DeviceRowError(f"no row of version {VERSION} of `gramwatt calibrate`")
    fields = {name: value for name, value in document.items() if name != "version"}
    try:
        fields["hardware"] = catalog.hardware(fields["hardware"]).id
        for name in ("idle_power", "held_power"):
            fields[name] = _figure(fields[name])
        fields["loads"] = tuple(
            Load(**{**one, "rate": _figure(one["rate"]), "power": _figure(one["power"])})
            for one in fields["loads"]
        )
        return DeviceRow(**fields)
    except (KeyError, TypeError, AttributeError, QuantityError) as error:
        raise DeviceRowError(f"not a row of `gramwatt calibrate`: {error!r}") from None


class DeviceRatios(NamedTuple):
    """Logarithms of a ratio of times at each possible rate, and the ratio of powers at work."""

    log_times: Sequence[float]
    power: Quantity | None
    sources: tuple[str, ...]


def newest(rows: Iterable[DeviceRow], part: str) -> DeviceRow | None:
    """Return the newest row of a part; None without one."""
    found = [row for row in rows if row.hardware == part]
    return max(found, key=lambda row: row.measured_at, default=None)


def device_ratios(
    rows: Sequence[DeviceRow], setting: Setting, model: TimeModel, now: str, target: str
) -> DeviceRatios | None:
    """Return ratios of two parts, target over now, by their own rows; None without both.

    The weights of matrix products and copies are those that the model has for the class.
    """
    first, second = newest(rows, now), newest(rows, target)
    if first is None or second is None:
        return None
    copies = _pair(first.load(COPY), second.load(COPY))
    by_rate = [_products(rate, first, second) for rate in setting.rates]
    products = [pair for pair in by_rate if pair is not None]
    slope = model.terms.get(Term("peak", setting.workload_class))
    if copies is None or not products or slope is None:
        return None
    share = model.terms[Term("bandwidth", setting.workload_class)]
    by_copies = share * math.log(_faster(copies))
    logs = [slope * math.log(_faster(pair)) + by_copies for pair in products]
    drawn = copies if setting.workload_class in BOUND_BY_MEMORY else products[0]
    return DeviceRatios([-log for log in logs], _power(*drawn), (first.source, second.source))


Pair = tuple[Load, Load]


def _pair(now: Load | None, target: Load | None) -> Pair | None:
    return None if now is None or target is None else (now, target)


def _products(rate: str, now: DeviceRow, target: DeviceRow) -> Pair | None:
    """Return the matrix products that both parts ran at a rate of the model."""
    found = []
    for row in (now, target):
        loads = (row.load(MATMUL, name) for name in PRECISIONS_OF_RATE.get(rate, ()))
        found.append(next((load for load in loads if load is not None), None))
    return _pair(*found)


def _faster(pair: Pair) -> float:
    """Return the rate of the target over that of the present part."""
    now, target = pair
    return target.rate.value / now.rate.value


def _power(now: Load, target: Load) -> Quantity | None:
    """Return the power of the target over that of the present part; None where one was not read."""
    if now.power is None or target.power is None:
        return None
    return target.power.over(now.power, "1")


def _figure(document: Any) -> Quantity | None:
    return None if document is None else Quantity.from_doc(document)
