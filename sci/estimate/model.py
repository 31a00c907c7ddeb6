"""The terms of an estimate and what they assume: device hours, power, host, embodied carbon.

Time is declared, or that of a training (6 x N x D), of serving so many tokens (`serving`), of the
energy at the power of the devices, or else one hour.

Each input that is used is kept in `inputs` with its range and source, and listed in the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct, field

from gramwatt.sci.catalog.catalog import Catalog, Hardware, Instance
from gramwatt.sci.embodied.forms import part_te
from gramwatt.sci.embodied.te import (
    Embodied,
    accelerator_te,
    host_fraction,
    host_share_te,
    instance_host_te,
)
from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.sci.estimate.serving import (
    SEQUENCES,
    TOKENS_PER_REQUEST,
    WEIGHT_BYTES,
    Model,
    serving_rate,
)
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.formatting import all_digits, number, plain
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, of_sources
from gramwatt.sci.figures.units import (
    HOURS_PER_YEAR,
    S_PER_HOUR,
    W_PER_KW,
    flop_per_s_from_tflops,
    g_from_kg,
    h_from_s,
)
from gramwatt.sci.grid.plausible import remark
from gramwatt.sci.score.allocation import embodied_share_g

DECLARED = "declared in the request"
USUAL_PRECISIONS = ("bf16", "fp16", "fp32")
"""Precisions in which a training is taken to run where none is given, the first that a part has."""
FLOP_PER_PARAMETER_TOKEN = 6.0
"""Forward and backward pass of dense training, per parameter and token (arXiv:2001.08361, 2.1)."""
RATED_SHARE = Quantity(
    0.70,
    0.40,
    0.93,
    "1",
    "derived",
    "share of rated power drawn: dense training 0.5 to 0.9, LLM serving 0.4 to 0.93 with median "
    "0.70 (ML.ENERGY leaderboard v3, Zeus trace, MLPerf)",
)
METERED_VENDORS = ("NVIDIA", "AMD", "Intel")
"""Vendors of whose devices power under load was published."""
HOST_SHARE = Quantity(
    0.45,
    0.28,
    0.82,
    "1",
    "estimated",
    "host power over accelerator power: an 8x H100 node draws 7.16 kW on the wall against 5.6 kW "
    "of GPU limits (MLPerf Training), or 76 % of 10.2 kW (arXiv:2506.14551)",
)
TRAINING_UTILISATION = Quantity(
    0.35, 0.22, 0.48, "1", "estimated", "model FLOP utilisation of 22 published training runs"
)
RATED_TIMES = 2.0
"""Times its rated power a device may draw before it is remarked: peaks reach 1.3."""
UTILISATION_ERROR = 0.35
"""Power modelled by utilisation: 27 to 37 % error of rated-power models (arXiv:2506.14551)."""


def training_device_hours(
    parameters: float, tokens: float, peak_flop_per_s: float, utilisation: float
) -> float:
    """Return 6 x N x D / (peak x utilisation) [h] of one device at its dense peak rate [FLOP/s]."""
    operations = FLOP_PER_PARAMETER_TOKEN * parameters * tokens
    return h_from_s(operations / (peak_flop_per_s * utilisation))


class Assumptions(Struct):
    """The terms of one estimate and their inputs; figures are None where not known."""

    request: EstimateRequest
    hardware: Hardware | None
    catalog: Catalog
    instance: Instance | None = None
    inputs: dict[str, Quantity] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    @property
    def with_host(self) -> bool:
        """Return whether a host is added; modules and whole systems include theirs."""
        part = self.hardware
        apart = part is None or part.device_class in ("gpu", "accelerator") and not part.is_system
        return self.request.host and apart

    @property
    def share(self) -> float:
        """The share of each device that the instance has, (0, 1]."""
        return self.instance.share if self.instance else 1.0

    def devices(self) -> float:
        """Return number of devices: of the instance, else `count`, those that hold the model, or 1.

        The last is of a model that is served, where its parameters are given.
        """
        if self.instance is None:
            return self.request.count or self._holding() or 1.0
        count = self.instance.devices(self.request.count)
        sources = (f"{self.instance.id}, {self.share:.4g} of each", *self.instance.own_sources)
        self.inputs["devices"] = Quantity.exact(count, "1", "catalog", *sources)
        return count

    @property
    def served(self) -> Model | None:
        """Return the model that is served; None where none is, or its size is not known."""
        request = self.request
        if request.work != "serving" or request.model_parameters is None:
            return None
        activated = request.activated_parameters or request.model_parameters
        size = WEIGHT_BYTES[request.precision or USUAL_PRECISIONS[0]]
        return Model(request.model_parameters, activated, size)

    @property
    def sequences(self) -> Quantity:
        """Return sequences that each copy of the model serves at a time."""
        if self.request.batch_size is None:
            return SEQUENCES
        return Quantity.exact(self.request.batch_size, "1", "declared", DECLARED)

    @property
    def tokens_served(self) -> Quantity | None:
        """Return the tokens that are served; None where neither they nor requests are given."""
        request = self.request
        if request.work != "serving":
            return None
        if request.tokens is not None:
            return Quantity.exact(request.tokens, "1", "declared", DECLARED)
        if request.requests is None:
            return None
        each = TOKENS_PER_REQUEST
        if request.tokens_per_request is not None:
            each = Quantity.exact(request.tokens_per_request, "1", "declared", DECLARED)
        self.inputs["tokens of a request"] = each
        return each.scaled(request.requests)

    def _holding(self) -> int | None:
        """Return how many devices hold the model that is served; None where that is not known."""
        model, part = self.served, self.hardware
        if model is None or part is None or not part.memory_gb:
            return None
        return model.devices(part.memory_gb * self.share, self.sequences.value)

    def misfit(self) -> str | None:
        """Return why the devices cannot hold the model that is served; None where they may."""
        model, holding = self.served, self._holding()
        count = self.instance.devices(self.request.count) if self.instance else self.request.count
        if model is None or holding is None or count is None or count >= holding:
            return None
        memory = model.memory_gib(self.sequences.value)
        return f"needs {_text(memory)} GiB: {holding} of them, not {all_digits(count)}"

    def device_hours(self) -> Quantity | None:
        """Return device hours [h]; None where energy is declared, and no power tells its time."""
        request = self.request
        if request.device_hours is not None:
            self._check_hours(request.device_hours)
            return Quantity.exact(request.device_hours, "h", "declared", DECLARED)
        if request.hours is not None:
            count = self.devices()
            source = f"{DECLARED}: {all_digits(request.hours)} h on {all_digits(count)} devices"
            return Quantity.exact(request.hours * count, "h", "declared", source)
        if request.energy_kwh is not None:
            return self._hours_of(request.energy_kwh)
        if request.work == "serving":
            return self._serving_hours()
        if request.work == "training":
            return self._training_hours()
        source = "one hour of each device: no time is given"
        return Quantity.exact(self.devices(), "h", "declared", source)

    def _hours_of(self, energy_kwh: float) -> Quantity | None:
        """Return the device hours [h] in which the devices and hosts draw that energy."""
        power = self._power()
        if power is None:
            return None
        drawn = power.scaled(1 / W_PER_KW, "kW")
        if self.with_host:
            drawn = drawn + drawn.times(self._host_share(), "kW")
        return Quantity.exact(energy_kwh, "kWh", "declared", DECLARED).over(drawn, "h")

    def _serving_hours(self) -> Quantity | None:
        """Return the device hours [h] of the tokens; None where a data sheet lacks a rate."""
        tokens, rate = self.tokens_served, self.rate()
        if tokens is None or rate is None:
            return None
        self.inputs["tokens per second of a device"] = rate
        return tokens.over(rate, "s").scaled(1 / S_PER_HOUR, "h")

    def rate(self) -> Quantity | None:
        """Return the tokens that each device serves in a second [1/s], kept as full as that."""
        model = self.served
        if model is None or self.hardware is None:
            return None
        if self.request.batch_size is None:
            self.inputs["sequences at a time"] = self.sequences
        holding = self._holding() or self.devices()
        return serving_rate(model, self.hardware, self.share, holding, self.sequences)

    def _training_hours(self) -> Quantity:
        """Return the device hours [h] of 6 x N x D operations."""
        request = self.request
        if request.model_parameters is None or request.tokens is None:
            text = "training needs model_parameters and tokens, or hours"
            raise ScoreError(text, code="missing-field")
        utilisation = TRAINING_UTILISATION
        if (declared := request.model_flop_utilisation) is not None:
            utilisation = Quantity.exact(declared, "1", "declared", DECLARED)
        peak = self._peak()
        self.inputs["model FLOP utilisation"] = utilisation
        self.inputs["peak dense rate of a device"] = peak
        # Less use takes more hours.
        hours = [
            training_device_hours(
                request.activated_parameters or request.model_parameters,
                request.tokens,
                flop_per_s_from_tflops(peak.value),
                share,
            )
            for share in (utilisation.value, utilisation.high, utilisation.low)
        ]
        counted = ", N the activated parameters" if request.activated_parameters else ""
        source = f"6 x N x D{counted}; {utilisation.source}; {peak.source}"
        time = Quantity(hours[0], hours[1], hours[2], "h", utilisation.kind, source)
        return time.as_input(utilisation.source)

    def _check_hours(self, device_hours: float) -> None:
        """Raise ScoreError where count x hours are given too and say something else."""
        hours, counted = self.request.hours, self.request.count is not None or self.instance
        if hours is None or not counted:
            return
        count = self.devices()
        if not math.isclose(count * hours, device_hours, rel_tol=0.01):
            text = (
                f"{all_digits(hours)} hours on {all_digits(count)} devices are "
                f"{all_digits(count * hours)} device_hours, "
                f"not {all_digits(device_hours)}: leave one of them out"
            )
            raise ScoreError(text, code="conflicting-fields")

    def energy_kwh(self, hours: Quantity | None) -> Quantity | None:
        """Return IT energy [kWh]: declared, else power x device hours, plus the host's."""
        if self.request.energy_kwh is not None:
            return Quantity.exact(self.request.energy_kwh, "kWh", "declared", DECLARED)
        power = self._power()
        if power is None or hours is None:
            name = self.hardware.id if self.hardware else "the hardware"
            text = f"The catalog has no power of {name}; give power_w or energy_kwh."
            self.notices.append(Notice("energy-unmeasured", text, "energy_kwh"))
            return None
        self.inputs["power of a device"] = power
        devices = power.scaled(1 / W_PER_KW, "kW").times(hours, "kWh")
        if not self.with_host:
            return devices
        host_share = self._host_share()
        self.inputs["host power over device power"] = host_share
        return devices + devices.times(host_share, "kWh")

    def _host_share(self) -> Quantity:
        """Return host power over device power [1].

        The devices of a full host have HOST_SHARE. An instance has of the host's power what it has
        of its threads and memory, as of its embodied carbon.
        """
        host = self.catalog.host_of(self.instance) if self.instance else None
        fraction = host_fraction(self.instance, host) if self.instance else None
        if fraction is None or host is None or host is self.instance or host.count is None:
            return HOST_SHARE
        whole = host.count * host.share / self.share
        return HOST_SHARE.times(fraction.scaled(whole), "1")

    def embodied_g(self, hours: Quantity | None) -> Quantity | None:
        """Return M [gCO2e] = TE x device hours / EL, with the host's share of TE included."""
        te = self._te()
        if te is None or hours is None:
            text = "Embodied carbon is not known; give embodied_kg_per_device and device_hours."
            self.notices.append(Notice("embodied-unknown", text, "embodied_g"))
            return None
        life = self.life()
        self.inputs["EL, expected lifetime"] = life
        an_hour = embodied_share_g(te, S_PER_HOUR, life, 1.0)
        return an_hour.times(hours.scaled(1.0, "1"), "gCO2e")

    def life(self) -> Quantity:
        """Return EL [years]: declared, else that of the catalog."""
        if self.request.lifetime_years is not None:
            return Quantity.exact(self.request.lifetime_years, "years", "declared", DECLARED)
        return self.catalog.lifetime(self.hardware.id if self.hardware else None)

    def times_peak(self, hours: Quantity) -> tuple[float, str] | None:
        """Return a training's operations over those at the peak rate in these device hours [1].

        With the precision of the rate. None where they are possible, in FP8 too if no precision is
        given, and without parameters and tokens or a known rate.
        """
        request = self.request
        if request.work != "training" or not (request.model_parameters and request.tokens):
            return None
        rates = self._rates() if self.hardware else {}
        names = (request.precision,) if request.precision else USUAL_PRECISIONS
        name = next((name for name in names if rates.get(name)), None)
        if name is None:
            return None
        usual = rates[name] or 0.0
        fastest = usual if request.precision else max(usual, rates["fp8"] or 0.0)
        parameters = request.activated_parameters or request.model_parameters
        peak = flop_per_s_from_tflops(usual * self.share)
        times = training_device_hours(parameters, request.tokens, peak, 1.0) / hours.value
        return (times, name) if times > fastest / usual else None

    def _rates(self) -> dict[str, float | None]:
        """Return the peak dense rates of the part by precision [TFLOPS]."""
        if self.hardware is None:
            raise ScoreError("training time needs hardware", code="missing-field")
        part = self.hardware
        return {
            "bf16": part.bf16_tensor_tflops,
            "fp16": part.fp16_tensor_tflops,
            "tf32": part.tf32_tflops,
            "fp32": part.fp32_tflops,
            "fp8": part.fp8_tflops,
            "int8": part.int8_tops,
        }

    def _peak(self) -> Quantity:
        """Return peak dense rate [TFLOPS] in the given precision, else in bf16, fp16 or fp32.

        The utilisation of published runs was measured over the rate in 16 bits: where none is
        declared, a higher rate does not count. Raises ScoreError without hardware, or where the
        catalog has no such rate.
        """
        rates = self._rates()
        precision = self.request.precision
        names = (precision,) if precision else USUAL_PRECISIONS
        usual = self.request.model_flop_utilisation is None
        base = rates["bf16"] or rates["fp16"] if usual else None
        for name in names:
            rate = rates.get(name)
            if rate and base and base < rate:
                sources = self._sources(
                    f"peak dense 16-bit rate of {self.named}, over which the utilisation was "
                    f"measured; no published run tells how much less {name} takes"
                )
                return Quantity.exact(base * self.share, "TFLOPS", "catalog", *sources)
            if rate:
                sources = self._sources(f"peak dense {name} of {self.named}")
                return Quantity.exact(rate * self.share, "TFLOPS", "catalog", *sources)
        what = f"no {' or '.join(names)} rate of {self.named}"
        raise ScoreError(f"the catalog has {what}; give hours or device_hours", code="rate-unknown")

    def _power(self) -> Quantity | None:
        """Return mean power of a device [W]: declared, else rated by utilisation or usual share."""
        if self.request.power_w is not None:
            value, low, high = self.request.power_range_w
            return Quantity(value, low, high, "W", "declared", DECLARED)
        if self.hardware is None or self.hardware.tdp_w is None:
            return None
        sources = self._sources(f"rated power of {self.named}")
        rated = Quantity.exact(self.hardware.tdp_w * self.share, "W", "catalog", *sources)
        used = self.request.utilisation
        if used is None:
            return rated.times(RATED_SHARE, "W")
        idle = self.hardware.idle.value * self.share if self.hardware.idle else 0.0
        mean = idle + (rated.value - idle) * used
        source = f"between idle and rated power of {self.named} by declared utilisation"
        spread = Quantity.around(mean, UTILISATION_ERROR, "W", "derived", source)
        ends = spread.low, min(spread.high, rated.value)
        return of_sources(mean, *ends, "W", "derived", self._sources(source))

    def _te(self) -> Quantity | None:
        """Return TE of a device with its share of a host [gCO2e]; None where no device is named."""
        part = self._device_te()
        te = part.te_g.scaled(self.share) if part else None
        if self.request.embodied_kg_per_device is not None:
            grams = g_from_kg(self.request.embodied_kg_per_device)
            te = Quantity.exact(grams, "gCO2e", "declared", DECLARED)
        if te is None:
            return None
        self.inputs["TE, embodied carbon of a device"] = te
        if not self.request.host or (part is not None and part.includes_host):
            return te
        if self.instance:
            host = instance_host_te(self.catalog, self.instance)
        else:
            host = host_share_te(self.hardware)
        if host is None:
            return te
        self.inputs["TE, host share of a device"] = host.te_g
        return te + host.te_g

    def _device_te(self) -> Embodied | None:
        """Return TE of a device, generic where the catalog has none; None without a device."""
        if self.hardware is None:
            return None
        published = accelerator_te(self.hardware)
        if published is not None or self.request.embodied_kg_per_device is not None:
            return published
        modelled = part_te(self.catalog, self.hardware)
        text = f"Embodied carbon of {self.hardware.id} is not published: {modelled.stages}."
        self.notices.append(Notice("embodied-modelled", text, "embodied_g"))
        return modelled

    @property
    def label(self) -> str:
        """Return the devices, the instance, or the energy, as people are shown it."""
        if self.instance is not None:
            return self.instance.id
        if self.hardware is None:
            return f"{all_digits(self.request.energy_kwh or 0.0)} kWh"
        count = self.devices()
        return self.hardware.name if count == 1 else f"{all_digits(count)} x {self.hardware.name}"

    @property
    def named(self) -> str:
        """Return the part as a source names it, with the share that the instance has."""
        name = self.hardware.id if self.hardware else "the hardware"
        return name if self.share == 1.0 else f"{self.share:.4g} of {name}"

    def _sources(self, source: str) -> tuple[str, ...]:
        """Return a source of the part's figures, with the overlay's where it has one."""
        return (source, *(self.hardware.own_sources if self.hardware else ()))


def remarks(work: Assumptions, hours: Quantity | None) -> Iterator[Notice]:
    """Yield notices on power, energy, intensity and time, each with what to do."""
    yield from _power(work, hours)
    if hours is not None:
        yield from _rate(work, hours)
        yield from _load(work, hours)
    request = work.request
    if request.intensity_g_per_kwh is not None:
        yield from remark([request.intensity_g_per_kwh], "intensity_g_per_kwh")
    life_h = work.life().value * HOURS_PER_YEAR
    counted = request.count is not None or work.instance or request.hours is not None
    if hours is not None and counted and hours.value / work.devices() > life_h:
        text = (
            f"{_text(hours.value / work.devices())} h on each device are more than its life of "
            f"{work.life().value:g} years: M is above its TE. Check hours, or declare "
            "lifetime_years."
        )
        yield Notice("lifetime-exceeded", text, "embodied_g")


def _rate(work: Assumptions, hours: Quantity) -> Iterator[Notice]:
    """Yield that a training would need more than the peak rate of its devices."""
    if (needed := work.times_peak(hours)) is None:
        return
    times, precision = needed
    text = (
        f"6 x N x D in {_text(hours.value)} device hours takes {_text(times)} times the peak "
        f"{precision} rate of {work.named}: check hours, count, model_parameters and tokens; of a "
        "mixture of experts give activated_parameters."
    )
    yield Notice("input-implausible", text, "hours")


def _load(work: Assumptions, hours: Quantity) -> Iterator[Notice]:
    """Yield that so many tokens can hardly be served in these hours."""
    tokens, rate = work.tokens_served, work.rate()
    if tokens is None or rate is None or work.request.hours is None:
        return
    most = rate.high * hours.value * S_PER_HOUR
    if tokens.value > most:
        text = (
            f"{_text(tokens.value)} tokens are more than the {_text(most)} that {work.named} may "
            f"serve in {_text(hours.value)} device hours: check hours, count and tokens."
        )
        yield Notice("input-implausible", text, "tokens")


def _text(value: float) -> str:
    return plain(number(value, 3))


def _power(work: Assumptions, hours: Quantity | None) -> Iterator[Notice]:
    """Yield that a device would draw far more than its rated power, or that nobody measured it."""
    part, declared = work.hardware, work.request.power_w or work.request.energy_kwh
    if part and part.tdp_w and not declared and part.vendor not in METERED_VENDORS:
        text = f"No published power of {part.label} under load was found: its rated power is taken."
        yield Notice("power-unpublished", text, "energy_kwh")
    rated = work.hardware.tdp_w * work.share if work.hardware and work.hardware.tdp_w else None
    request = work.request
    if rated is None:
        return
    field, drawn, most = "power_w", request.power_range_w[0] if request.power_w else 0.0, rated
    timed = request.hours is not None or request.device_hours is not None
    if request.energy_kwh is not None and hours is not None and timed:
        drawn = request.energy_kwh * W_PER_KW / hours.value
        field, most = "energy_kwh", rated * (1 + HOST_SHARE.high)
    if drawn > RATED_TIMES * most:
        hint = "per device, in W" if field == "power_w" else "of all IT equipment, in kWh"
        text = (
            f"{_text(drawn)} W a device are {_text(drawn / rated)} times the rated {rated:g} W of "
            f"{work.instance.id if work.instance else work.named}; {field} is {hint}."
        )
        yield Notice("input-implausible", text, field)
