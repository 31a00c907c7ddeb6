"""The same work on other devices: as many, fewer of larger ones, slices, a provider's instances.

What the data sheets say (`ranking`) and what was measured (`evidence`) are weighted together. Where
something else than the devices sets the pace, or they draw little power, the question is another
one: which device does the same work at the same rate with less idle power.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.catalog.slices import find_part, slices_of
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.estimate.model import METERED_VENDORS
from gramwatt.sci.estimate.ranking import (
    NARROW,
    QUANTILE_90,
    REFERENCE,
    Log,
    combine,
    compare,
    work_of,
)
from gramwatt.sci.figures.errors import AmbiguousName, ScoreError
from gramwatt.sci.score.location import in_data_centre
from gramwatt.sci.suggest.change import Change, Condition
from gramwatt.sci.suggest.documents import (
    ADVISED,
    SURE,
    Action,
    Basis,
    EffortDoc,
    LeftOutDoc,
)
from gramwatt.sci.suggest.embodied import (
    break_even,
    carbon_ratio,
    paid_devices,
    site_change,
    with_hosts,
)
from gramwatt.sci.suggest.evidence import Witness, own_witness, title
from gramwatt.sci.suggest.facts import (
    devices_of,
    instances_of,
    left_out,
    porting,
    wider_units,
)
from gramwatt.sci.suggest.measured import published_time
from gramwatt.sci.suggest.request import WorkloadClass
from gramwatt.sci.suggest.work import FULL_POWER, NEAR_RATED, SMALL_POWER, Device, Work

METERED_CLASSES: Mapping[str, tuple[WorkloadClass, ...]] = {"Qualcomm": ("batch-inference",)}
"""Further vendors of whose devices power under load was published, for some classes of work (MLPerf
Inference v2.1 to v4.0 at the wall); of the others nothing was found."""
BUSY = 0.9
"""Busy fraction of a training from which on it is taken not to wait (a choice)."""
OTHER_VENDOR, OTHER_KIND = Log(0.0, 0.3), Log(0.3, 0.5)
"""Time on a device with another vendor's software, on one that is no GPU too: 8 MI300X took as long
at fine-tuning as data sheets say, 8 Gaudi2 1.7 times (MLPerf Training v4.0 to v5.0)."""
SPLIT, COPIED = Log(0.53, 0.36), Log(0.13, 0.09)
"""Time over links of less than half the rate: of a model that is split over the devices 1 to 3
times, of one that each device holds 1 to 1.3 times (estimates)."""
LONGEST = math.log(5.0)
"""Devices that take longer than so many times are listed only if named, or for the edge, where
small devices are what is asked for."""
PCIE_GBS, SLOWER, BRIDGED = 64.0, 2.0, 2
"""Link of a PCIe card [GB/s] whose own the catalog does not have, more than how many times slower
links count as slower, and how many PCIe cards a bridge joins."""
AT_HOME = 2
"""Most cards of a machine that stands on a desk."""
GUESSED = Log(0.0, 0.3)
GUESSED_MOST = 0.69
"""Further error of time where neither kind nor class is stated, and the highest probability there:
less than what is advised (choices)."""
FEWER_MOST = 0.8
"""Fewer devices are a row of their own up to this fraction of as many (a choice)."""
SCALING = Log(math.log(0.95), 0.06)
"""Time of fewer devices over their part of several: one waits for none (an estimate)."""
HELD_IDLE = {"P8": 2.4, "P0": 1.25}
"""Idle power with a process on the device over the catalog's, which is without one, by the state
in which that was read: T4 9 to 26 W, L4 15 to 28 W, L40S 30 to 96 W; A100 50 to 66 W, H100 70 to
120 W at most."""
HELD_UNKNOWN, HELD_ERROR = 1.6, 0.25
STEADY = 0.05
"""Error of the time of work whose pace something else sets."""
LOW_POWER_ERROR = 0.3
"""Error of the power of another device for work that draws little (an estimate)."""
FOLLOWS, GAINED = 0.3, math.log(1.125)
"""Fraction of what another device does to time that it does to such work beyond its overhead, and
the most that a faster one gains so (recommenders and small batches at 13 to 35 % of rating)."""
FEW_SEQUENCES = 32.0
"""Concurrent sequences of a server of which nothing says how full it is (a choice)."""
TOO_SLOW = math.log(1.05)
IN_TURN = ("llama.cpp", "mlx", "exllamav2")
"""Frameworks for one user, which put layers on several devices that work one after another."""
ONE_BUS, ONE_CHIP = 0.02, 0.25
"""How far bandwidth and FP32 rate of one silicon in two products differ at most (an A30 has the
bandwidth of an RTX 3090 and a third of its rate)."""
LAPTOP = "laptop"
SMALL = ("module", "computer", "edge")
"""Hosts of small devices, which are options only for the edge and for work that runs on one."""
DESKS = ("consumer", "workstation")
"""Intended uses of cards for a desk."""


class Compared(Struct, frozen=True):
    """Time and energy of as many devices alone, and what they rest on.

    `narrow` says that the other devices are taken to compute in 4 bits, and the present ones wider.
    """

    time: Log
    energy: Log | None
    basis: Basis
    reasons: tuple[str, ...]
    sources: tuple[str, ...] = ()
    narrow: bool = False


class Ranked(Struct, frozen=True):
    """Rows of hardware, what cannot do the work, and how many rows more are worse than now."""

    rows: list[Change]
    left_out: list[LeftOutDoc]
    worse: int = 0


def rank(work: Work) -> Ranked:
    """Return other hardware for a job, by expected carbon; over the first row without a present."""
    named = work.request.candidates is not None
    fitting, out = _fitting(work)
    if not named:
        fitting = _at_home(work, fitting)
    if work.device is None or work.misfit:
        rows, rest = _without_present(work, fitting)
    else:
        rows, rest = [], []
        for device, count in fitting:
            variants = _variants(work, device, count)
            rows += variants if named else variants[:1]
            rest += [] if variants else [_incomparable(device)]
    rows.sort(key=order)
    worse = 0
    if not named:
        rows = _one_a_family(rows, work)
        rows = sorted([*rows, *_consolidated(work)], key=order)
        likely = [row for row in rows if row.probability is None or row.probability >= 0.4]
        if work.device is not None and not work.misfit:
            worse, rows = len(rows) - len(likely), likely
        most = math.inf if work.request.constraint == "edge" else LONGEST
        rows = [row for row in rows if row.carbon and row.time and row.time.value < most]
    return Ranked(rows, [*out, *rest], worse)


def _at_home(work: Work, fitting: list[tuple[Device, float]]) -> list[tuple[Device, float]]:
    """Return cards for a desk alone, where the work must stay in a house and a few of them do."""
    if work.request.constraint != "offline" or (work.device and in_data_centre(work.now.board)):
        return fitting
    desks = [pair for pair in fitting if not in_data_centre(pair[0].board)]
    return [pair for pair in desks if pair[1] <= AT_HOME] or fitting


def order(row: Change) -> tuple[bool, bool, float]:
    """Order by expected carbon: what rests on others last, before what is not known."""
    return row.carbon is None, row.condition == "rest", row.carbon.value if row.carbon else 0.0


def _fitting(work: Work) -> tuple[list[tuple[Device, float]], list[LeftOutDoc]]:
    """Return the candidates that can do the work, each with its count, and those that cannot."""
    fitting, out = [], []
    present = work.device.part.id if work.device and not work.misfit else None
    for device in candidates(work):
        if device.part.id == present:
            if work.request.candidates is not None:
                text = "it is the present device, with which the others are compared"
                out.append(LeftOutDoc(present, device.part.label, "as now", text))
            continue
        count = _count(work, device)
        reason = left_out(work.request, device.part, count, work.need, _offered(work, device))
        if reason:
            out.append(reason)
        else:
            fitting.append((device, count))
    return fitting, out


def _offered(work: Work, device: Device) -> frozenset[str] | None:
    if work.offered is None or device.piece is None:
        return work.offered
    return work.offered | {device.part.id} if device.board.id in work.offered else work.offered


def candidates(work: Work) -> list[Device]:
    """Return the devices that are named; else those that can be had, for such work, and slices.

    Legacy devices, variants for export, those that nobody offers there, those metered for some work
    alone and GPUs of which no rate of matrix units is published only if named; cards for a desk
    where the present one stands there, or the job must not leave the house.
    """
    names = work.request.candidates
    if names is not None:
        devices = [device for name in names for device in _named(work, name)]
        return list({device.part.id: device for device in devices}.values())
    return [Device.of(part) for part in work.catalog.all_hardware() if _is_option(work, part)]


def _named(work: Work, name: str) -> list[Device]:
    """Return the devices of a name: all that it may mean."""
    try:
        return [Device.of(*find_part(work.catalog, name))]
    except AmbiguousName as error:
        return [Device.of(*find_part(work.catalog, choice)) for choice in error.choices]


def _is_option(work: Work, part: Hardware) -> bool:
    request, now = work.request, work.device.board if work.device else None
    if part.market in ("legacy", "other") or part.availability == "internal":
        return False
    if part.vendor in METERED_CLASSES:
        return False
    if part.availability != "sold" and (work.offered is None or part.id not in work.offered):
        return False
    if part.device_class == "gpu" and not (part.fp16_tensor_tflops or part.fp8_tflops):
        return False
    elsewhere = request.constraint != "edge" and (now is None or now.host_class not in SMALL)
    portable = part.form_factor == LAPTOP and (now is None or now.form_factor != LAPTOP)
    if portable or (part.host_class in SMALL and elsewhere):
        return False
    desk = any(use in DESKS for use in part.intended_use)
    if desk and request.constraint == "none" and (now is None or in_data_centre(now)):
        return False
    if now is None and part.device_class != "gpu" and request.constraint != "edge":
        return ("training" if request.trains else "inference") in part.intended_use
    return True


def _count(work: Work, device: Device) -> float:
    """Return how many of a device are compared: as many as now, else the fewest to hold the work.

    Chips for the edge have no link to split a model over.
    """
    part, need = device.part, work.need
    fixed = work.request.count is not None or (work.device is not None and not work.misfit)
    edge = "edge" in part.intended_use and part.device_class != "gpu"
    if fixed or edge or need is None or need.each_gib is not None or not part.memory_gb:
        return work.count
    return _servers(float(need.devices(part.memory_gb)))


def _servers(count: float) -> float:
    """Return a count that work is divided among in practice: 1, 2, 4 or eights."""
    return 8.0 * math.ceil(count / 8) if count > 8 else 2.0 ** math.ceil(math.log2(count))


def _without_present(
    work: Work, fitting: Sequence[tuple[Device, float]]
) -> tuple[list[Change], list[LeftOutDoc]]:
    """Return the rows over the best of them, with absolute figures where the work is known."""
    rest: list[LeftOutDoc] = []
    rows: list[Change] = []
    estimates = _estimates(work, fitting)
    by_carbon = sorted(fitting, key=lambda pair: _least(estimates.get(pair[0].part.id)))
    bases = ((pair, _row(work.on(*pair), *pair)) for pair in by_carbon)
    base = next((pair for pair, row in bases if row and row.carbon), None)
    if base is None:
        return [], [_incomparable(device) for device, _ in fitting]
    tried: list[Device] = []
    while base is not None:  # over any of them, then over the best
        at = work.on(*base)
        tried.append(base[0])
        rows, rest = [], []
        for device, count in fitting:
            row = _row(at, device, count)
            rows += [row] if row else []
            rest += [] if row else [_incomparable(device)]
        rows = _with_estimates(work, rows, estimates)
        best = min(rows, key=order)
        if best.device in tried:  # the best, or two of which each is the better over the other
            break
        base = next(pair for pair in fitting if pair[0] == best.device)
    if len(rows) > 1:
        rows.sort(key=order)
        second = rows[1].probability
        rows[0] = replace(rows[0], odds=None if second is None else round(1 - second, 3))
    return rows, rest


class Estimated(NamedTuple):
    """The estimate of a device, and its carbon, energy and time for the same work as others."""

    answer: EstimateDoc
    figures: tuple[float, float, float]


def _least(estimated: Estimated | None) -> float:
    return estimated.figures[0] if estimated else math.inf


def _estimates(work: Work, fitting: Sequence[tuple[Device, float]]) -> dict[str, Estimated]:
    """Return the training or the serving on each device by its id, as far as it is known."""
    estimates = {}
    for device, count in fitting:
        answer = _estimate(work, device, count)
        figures = _of_same_work(answer) if answer else None
        if answer and figures:
            estimates[device.part.id] = Estimated(answer, figures)
    return estimates


def _with_estimates(
    work: Work, rows: list[Change], estimates: Mapping[str, Estimated]
) -> list[Change]:
    """Return the rows with figures of `estimate` where all have them: then these are the order.

    Their spread against each other stays: an estimate errs alike on all.
    """
    estimated = [item for row in rows if (item := estimates.get(row.target or ""))]
    if not rows or len(estimated) < len(rows):
        return rows
    first = min(item.figures for item in estimated)
    timed = work.request.tokens is not None

    def over(log: Log | None, figure: float, least: float) -> Log | None:
        return log and Log(math.log(figure / least), log.spread)

    return [
        replace(
            row,
            carbon=over(row.carbon, figures[0], first[0]),
            energy=over(row.energy, figures[1], first[1]),
            time=over(row.time, figures[2], first[2]),
            total_g=answer.total_g if timed else None,
            energy_kwh=answer.energy_kwh if timed else None,
            time_h=answer.time_h if timed else None,
            g_per_million_tokens=answer.g_per_million_tokens,
        )
        for row, (answer, figures) in zip(rows, estimated, strict=True)
    ]


def _of_same_work(answer: EstimateDoc) -> tuple[float, float, float] | None:
    """Return carbon, energy and time of an estimate, each for the same work; None if one lacks."""
    figures = answer.total_g, answer.energy_kwh, answer.time_h
    values = [figure.value for figure in figures if figure and figure.value > 0]
    if len(values) < len(figures):
        return None
    served = answer.g_per_million_tokens  # without tokens the estimates are for the same hours
    share = served.value / values[0] if served else 1.0
    return values[0] * share, values[1] * share, values[2] * share


def _estimate(work: Work, device: Device, count: float) -> EstimateDoc | None:
    """Return the training or the serving on a device; None where the request does not say it."""
    request = work.request
    if request.model_parameters is None or device.piece is not None:
        return None
    if not (request.trains or request.answers_in_tokens):
        return None
    fields: dict[str, Any] = {"hardware": device.part.id, "count": count}
    if not request.trains:
        fields |= {
            "kind": "inference",
            "model_parameters": request.model_parameters,
            "activated_parameters": request.activated_parameters,
            "batch_size": request.batch_size,
            "tokens": request.tokens,
            "hours": None if request.tokens else request.hours or 1.0,
        }
    elif request.tokens is None:
        return None
    try:
        return estimate(request.estimate(**fields), work.catalog)
    except ScoreError:
        return None


def _incomparable(device: Device) -> LeftOutDoc:
    text = "its peak rate, memory bandwidth or rated power is not published"
    return LeftOutDoc(device.part.id, device.part.label, "no data sheet", text)


def _variants(work: Work, device: Device, count: float) -> list[Change]:
    """Return the rows of a device, the least carbon first: as many as now, or fewer."""
    same = _row(work, device, count)
    if same is None:
        return []
    fewer = _fewer(work, device, same)
    rows = [same, *([fewer] if fewer else [])]
    return sorted(rows, key=order)


def _fewer(work: Work, device: Device, same: Change) -> Change | None:
    """Return the device in the number that does the work in about the same time."""
    if work.count < 2 or same.time is None or device.piece is not None:
        return None
    turns = work.request.library in IN_TURN and work.classified.name == "decode"
    needed = 1.0 if turns else max(1.0, float(math.ceil(work.count * _fraction(work, same))))
    memory, need = device.part.memory_gb, work.need
    if need is not None and need.each_gib is None and memory:
        needed = max(needed, float(need.devices(memory)))
    if need is None or not memory:
        return None
    count = _servers(needed)
    if count > FEWER_MOST * work.count or not need.fits(memory, count):
        return None
    return _row(work, device, count, in_turn=turns)


def _consolidated(work: Work) -> list[Change]:
    """Return fewer of the present devices, where several wait."""
    if not work.pace.waits or work.count < 2:
        return []
    same = _row(work, work.now, work.count)
    fewer = _fewer(work, work.now, same) if same else None
    return [fewer] if fewer else []


def _fraction(work: Work, same: Change) -> float:
    """Return the fraction of as many devices that the work keeps busy."""
    assert same.time is not None
    assert same.device is not None
    if not work.pace.waits:
        return math.exp(same.time.value)
    full = _compared(work, same.device, _speed_class(work))
    return _use(work) * math.exp(full.time.value) if full else 1.0


def _row(work: Work, device: Device, count: float, *, in_turn: bool = False) -> Change | None:
    """Return the row of so many devices; None where nothing tells of them."""
    compared = _compared(work, device, work.classified.name)
    if compared is None:
        return None
    ratio = count / work.count
    time, board, reasons = compared.time, compared.energy, list(compared.reasons)
    waits = work.pace.waits and compared.basis != "own-runs"
    if waits:
        full = _compared(work, device, _speed_class(work)) or compared
        time, board = _same_rate(work, device, full, ratio)
        reasons = [_pace_reason(work, time)]
    elif _is_low(work) and compared.basis == "data-sheets":
        time, board = _at_low_power(work, device, compared)
        reasons.append("it draws little power now: how far time follows the device is in doubt")
    elif _fill_is_unknown(work) and compared.basis == "data-sheets":
        time, board = _half_filled(work, device, compared, ratio)
        reasons.append("how full it is kept is not known: give batch_size, mean_power_w or pace")
    elif waits_partly(work) and compared.basis == "data-sheets":
        time, board = _of_busy_time(work, device, compared)
        reasons.append("only the time in which the devices are busy gets shorter")
    elif in_turn:
        reasons.append("several devices work one after another here, and one does it alone")
    if not waits and ratio != 1 and not in_turn:
        time = time + Log(-math.log(ratio), 0.0)
        if ratio < 1 and work.device is not None:
            time, board = time + SCALING, board + SCALING if board else None
    if not waits:
        time, board = _linked(work, device, count, time, board, reasons)
    row = _priced(work, device, count, compared, time, board, reasons)
    if work.classified.name is None and row.probability is not None:
        row = replace(row, odds=min(row.probability, GUESSED_MOST))
    return row


def _priced(
    work: Work,
    device: Device,
    count: float,
    compared: Compared,
    time: Log,
    board: Log | None,
    reasons: list[str],
) -> Change:
    """Return the row with carbon, what buying means, and what the change takes."""
    part, ratio = device.part, count / work.count
    energy = carbon = hours = buy = unknown = None
    condition: Condition | None = None
    if board is not None:
        energy = with_hosts(work, time, board, devices=ratio, target=device)
        if place := site_change(work, device):
            energy = energy + place[0]
            reasons.append(place[1])
        paid = paid_devices(work, device, count)
        carbon = carbon_ratio(work, time, energy, devices=ratio, target=device, paid=paid)
        hours, buy = break_even(work, device, energy, ratio)
        if carbon is not None and work.request.host_power_w is None:
            condition = _by_host(board, carbon, reasons)
        if waits_partly(work) and compared.basis == "data-sheets":
            condition = "waits"
        if compared.narrow:
            condition = "four-bits"
            reasons.append("it is taken to compute in 4 bits: in 8 bits it gains less")
    if board is None:
        unknown = f"no published power of {part.label} under load was found"
    elif carbon is None and not work.hours:
        unknown = "how long the work takes is not known, over which what is bought is spread"
    reasons += [unknown] if unknown else []
    reasons += _notes(work, device, count)
    label, action, rented = f"{count:g} x {part.label}", _action(work, device, count), None
    if action == "instance":
        rented, note = _instance(work, device, count)
        label = f"{rented} ({label})" if rented else label
        reasons += [note] if note else []
    if device.piece and work.device and not work.now.piece:
        condition = "rest"
        label = f"MIG {device.piece.name}, rest shared" if device.board == work.now.board else label
        reasons.append("only if other jobs use the rest of the board: alone there it saves nothing")
    return Change(
        action=action,
        id=part.id if ratio == 1 or work.device is None else f"{part.id}x{count:g}",
        label=label,
        target=part.id,
        device=device,
        count=count,
        time=time,
        energy=energy,
        carbon=carbon,
        basis="rule-of-thumb" if device.piece else compared.basis,
        effort=_effort(work, device),
        break_even_h=hours,
        buy=buy,
        condition=condition,
        unknown=unknown,
        reasons=reasons,
        sources=(*compared.sources, f"catalog {device.board.id} ({', '.join(part.sources)})"),
    )


def _in_four_bits(work: Work, part: Hardware) -> bool:
    """Tell whether results of a part are in 4 bits, and the work and the present part are not."""
    wider = work.request.precision in ("fp8", "int8") and not work.request.trains
    return wider and "fp4" in part.peak_other and "fp4" not in work.now.part.peak_other


def _by_host(board: Log, carbon: Log, reasons: list[str]) -> Condition | None:
    """Return that a row saves, or is sure to, only by its host, whose power is an estimate."""
    if board.odds < ADVISED <= carbon.odds:
        reasons.append(
            "the devices alone are not clearly better: it saves by its host, an estimate"
        )
        return "host"
    if board.odds < SURE <= carbon.odds:
        reasons.append("the devices alone are not surely better: a part is saved by its host")
        return "partly-host"
    return None


def _action(work: Work, device: Device, count: float) -> Action:
    if device.piece is not None:
        return "slice"
    if work.request.cloud is not None:
        return "instance"
    return "fewer-devices" if count < work.count else "change-hardware"


def _compared(work: Work, device: Device, name: WorkloadClass | None) -> Compared | None:
    """Return as many devices at full speed, by data sheets and measurements; None without both."""
    request, now = work.request, work.now
    shared = work.power_share if not request.trains and not work.pace.waits else None
    described = work_of(
        name,
        request.precision,
        request.framework,
        infers=name is not None and not request.trains,
        batch_size=FEW_SEQUENCES if _fill_is_unknown(work) else request.batch_size,
        power_share=shared,
        model_parameters=request.model_parameters,
    )
    sheet = compare(now.part, device.part, described, work.catalog.hardware(REFERENCE))
    power = sheet.power if sheet else None
    witnesses, own = [], None
    if {now.part.id, device.part.id} <= work.own_parts:
        own = own_witness(work.own, now.part.id, device.part.id, name, work.workload)
        witnesses += [own] if own else []
    if published := published_time(
        now.part, device.part, name, described, request.model_parameters
    ):
        text = f"published results of {published.workload} on both"
        energy = published.time + power if power else None
        titles = tuple(map(title, published.sources))
        witnesses.append(Witness(published.time, energy, "measured", text, titles))
    if sheet is None and not witnesses:
        return None
    times = [witness.time for witness in witnesses]
    energies = [witness.energy for witness in witnesses if witness.energy]
    if sheet is not None:
        apart = _software_change(now.board, device.board, tuned=described.tuned)
        apart = apart if name else apart + GUESSED
        times.append(sheet.time + apart)
        energies += [sheet.energy + apart] if sheet.energy else []
    metered = own is not None or (is_metered(now.board, name) and is_metered(device.board, name))
    chosen = described.narrowest or published is not None
    narrow = own is None and chosen and _in_four_bits(work, device.part)
    by_sheet = "by peak rate, memory bandwidth and rated power: not measured on both"
    return Compared(
        combine(*times),
        combine(*energies) if energies and metered else None,
        witnesses[0].basis if witnesses else "data-sheets",
        tuple(witness.reason for witness in witnesses) or (by_sheet,),
        tuple(source for witness in witnesses for source in witness.sources),
        narrow,
    )


def is_metered(part: Hardware, name: WorkloadClass | None) -> bool:
    """Tell whether power of such devices under such work was published."""
    return part.vendor in METERED_VENDORS or name in METERED_CLASSES.get(part.vendor, ())


def _software_change(now: Hardware, target: Hardware, *, tuned: bool) -> Log:
    """Return what other software does to time; of tuned software the ranking has the middle."""
    if now.vendor == target.vendor:
        return Log(0.0, 0.0)
    if tuned or now.device_class == target.device_class:
        return OTHER_VENDOR
    return OTHER_KIND if now.device_class == "gpu" else -OTHER_KIND


def _speed_class(work: Work) -> WorkloadClass | None:
    """Return the class whose ratios say if a device keeps up with a job that waits."""
    name = work.classified.name
    if name == "small":
        return "training" if work.request.trains else "batch-inference"
    return "decode" if name == "llm-serving" else name


def _is_low(work: Work) -> bool:
    """Tell whether the devices draw so little that a device of other size changes little."""
    share = work.power_share
    return share is not None and share < SMALL_POWER and not work.pace.declared


def _at_low_power(work: Work, device: Device, compared: Compared) -> tuple[Log, Log | None]:
    """Return time and energy of work that keeps a device busy at little power.

    Small steps follow rate and rating little: time is mostly that of overhead, power is idle power
    and what comes on top of it.
    """
    small = (_compared(work, device, "small") or compared).time
    moved = max(-GAINED, FOLLOWS * (compared.time.value - small.value))
    time = Log(small.value + moved, small.spread)
    power, idle = work.power_w, _held_idle(device)
    if power is None or idle is None or not device.part.tdp_w or not work.now.part.tdp_w:
        return time, None
    above = max(0.0, power.value - (_held_idle(work.now) or 0.0))
    drawn = idle + above * math.sqrt(device.part.tdp_w / work.now.part.tdp_w)
    drawn = min(drawn, device.part.tdp_w)
    return time, time + Log(math.log(drawn / power.value), LOW_POWER_ERROR)


def waits_partly(work: Work) -> bool:
    """Tell whether the devices of a training are idle for a part of the time, not most of it."""
    busy, share = work.request.utilisation, work.power_share or 0.0
    partly = bool(busy and busy < BUSY and share < NEAR_RATED)
    return partly and work.request.trains and not work.pace.waits


def _of_busy_time(work: Work, device: Device, full: Compared) -> tuple[Log, Log | None]:
    """Return time and energy where the rest, in which the devices wait, takes as long."""
    busy = work.request.utilisation or 1.0
    rest, shorter = 1 - busy, busy * math.exp(full.time.value)
    error = math.hypot(shorter * full.time.spread, rest * LOW_POWER_ERROR) / (rest + shorter)
    time = Log(math.log(rest + shorter), error)
    power, idle, now_idle = work.power_w, _held_idle(device), _held_idle(work.now)
    if power is None or idle is None or now_idle is None or full.energy is None:
        return time, None
    working = power.value - min(rest * now_idle, rest * power.value)
    drawn, held = working * math.exp(full.energy.value), rest * idle
    error = math.hypot(drawn * full.energy.spread, held * HELD_ERROR) / (drawn + held)
    return time, Log(math.log((drawn + held) / power.value), math.hypot(error, rest * STEADY))


def _fill_is_unknown(work: Work) -> bool:
    """Tell whether nothing says if a server, a slice or inference of no named class waits.

    Software tuned to the device in eight bits and fewer is for throughput, and taken to be full.
    """
    request, device = work.request, work.device
    stated = (request.batch_size, request.mean_power_w, request.utilisation, request.pace)
    if device is None or any(stated) or request.precision in NARROW:
        return False
    name = work.classified.name
    served = name == "llm-serving" and work.hours is not None
    unnamed = name == "batch-inference" and request.workload_class is None
    return served or unnamed or (device.piece is not None and not request.trains)


def _half_filled(
    work: Work, device: Device, full: Compared, ratio: float
) -> tuple[Log, Log | None]:
    """Return the middle of a device that is kept full and one that keeps the present rate."""
    waiting = _same_rate(work, device, full, ratio, use=1.0)
    middles = []
    for busy, slack in ((full.time, waiting[0]), (full.energy, waiting[1])):
        if busy is None or slack is None:
            return waiting[0], None
        half = abs(busy.value - slack.value) / 2
        spread = math.hypot(max(busy.spread, slack.spread), half / QUANTILE_90)
        middles.append(Log((busy.value + slack.value) / 2, spread))
    return middles[0], middles[1]


def _held_idle(device: Device) -> float | None:
    """Return the idle power with a process on the device [W]; None where not known."""
    idle = device.idle
    if idle is None:
        return None
    return idle.value * HELD_IDLE.get(device.board.idle_pstate or "", HELD_UNKNOWN)


def _use(work: Work) -> float:
    """Return the fraction of the devices' time that the work takes at full speed."""
    power, busy, device = work.power_w, work.request.utilisation, work.now
    idle, rated = device.idle, device.part.tdp_w
    if power is None or idle is None or not rated:
        return busy or 1.0
    most = FULL_POWER * rated - idle.value
    by_power = min(1.0, max(0.02, (power.value - idle.value) / most)) if most > 0 else 1.0
    return min(busy, max(by_power, busy / 2)) if busy else by_power


def _same_rate(
    work: Work, device: Device, full: Compared, ratio: float, use: float | None = None
) -> tuple[Log, Log | None]:
    """Return time and energy of the same work at the same rate, on `ratio` times the devices.

    `use` is the fraction of the present devices' time that it takes. The target draws its idle
    power and, above it, what the work itself takes there.
    """
    power, idle, now_idle = work.power_w, _held_idle(device), _held_idle(work.now)
    needed = math.log((use or _use(work)) / ratio) + full.time.value
    late = max(0.0, needed)
    margin = -needed / full.time.spread
    time = Log(late, full.time.spread if late > TOO_SLOW else max(STEADY, 0.2 - 0.1 * margin))
    if power is None or idle is None or now_idle is None or full.energy is None:
        return time, None
    above = max(0.0, power.value - now_idle) * math.exp(full.energy.value)
    held = idle * math.exp(late) * ratio
    most = (device.part.tdp_w or math.inf) * math.exp(late) * ratio
    drawn = min(held + above, most)
    fraction = above / (held + above)
    spread = math.hypot(fraction * full.energy.spread, (1 - fraction) * HELD_ERROR)
    return time, Log(math.log(drawn / power.value), math.hypot(spread, time.spread))


def _pace_reason(work: Work, time: Log) -> str:
    slow = ", and it is too slow to keep up" if time.value > TOO_SLOW else ""
    return f"compared at the same rate, because {work.pace.reason}{slow}"


def _linked(
    work: Work,
    device: Device,
    count: float,
    time: Log,
    board: Log | None,
    reasons: list[str],
) -> tuple[Log, Log | None]:
    """Return the ratios of a training over slower links between devices, with the reason."""
    if not work.request.trains or count < 2:
        return time, board
    links = [_link(work.now.board, work.count), _link(device.board, count)]
    if links[0] <= SLOWER * links[1]:
        return time, board
    need, memory = work.need, device.part.memory_gb or math.inf
    split = need is not None and (need.total_gib or 0.0) > memory
    slower = SPLIT if split else COPIED
    reasons.append(
        f"its links are {links[0] / links[1]:.0f} times slower than the present ones (NVLink or "
        f"like it): {'the model is split over them' if split else 'gradients travel over them'}"
    )
    return time + slower, board + slower if board else None


def _link(part: Hardware, count: float) -> float:
    """Return the link of a device to the others of a job [GB/s]."""
    own = part.interconnect_gbs or PCIE_GBS
    bridged = part.form_factor.startswith("PCIe") and count > BRIDGED
    return min(own, PCIE_GBS) if bridged else own


def _notes(work: Work, device: Device, count: float) -> list[str]:
    """Return what is to be known before changing to a device."""
    part, notes, need = device.part, [], work.need
    moves = porting(work.request, part, work.device.part if work.device else None)
    if moves:
        notes.append(f"{work.request.framework or 'the program'}: {moves}")
    if need is not None and part.memory_gb:
        notes.append(f"memory: {need.arithmetic}, within {count:g} x {part.memory_gb:g} GiB")
    if need is not None and need.streams(part):
        notes[-1] = f"it reads weights beyond its {part.memory_gb:g} GiB from its host"
    if wider := wider_units(work.request, part):
        notes.append(wider)
    if not in_data_centre(part) and work.device and in_data_centre(work.now.board):
        notes.append("a card for a desk: it has no place in most servers")
    cpu = work.catalog.cpu(device.board.host_cpu) if device.board.host_cpu else None
    if cpu and cpu.isa == "arm64":
        notes.append("its host is an Arm processor: the software must be built for Arm")
    return notes


def _instance(work: Work, device: Device, count: float) -> tuple[str | None, str | None]:
    """Return the provider's instance with so many devices, and its list price as a sentence."""
    region = work.place.region.name if work.place.region else None
    rows = instances_of(work.catalog, work.request.cloud, device.board, region)
    whole = [row for row in rows if row.share == 1]
    if not whole:
        return None, None
    size = next((row for row in whole if devices_of(row) >= count), whole[-1])
    prices = [
        (row.price_usd_per_hour / devices_of(row), row) for row in whole if row.price_usd_per_hour
    ]
    note = None
    if prices:
        dollars, row = min(prices, key=lambda price: price[0])
        where = f"{row.id}, {row.price_region}, {row.price_date}"
        note = f"list price: {dollars:.2f} USD/h a device on demand ({where})"
    if devices_of(size) > count:
        more = f"it comes {devices_of(size):g} at a time: the unused ones count too"
        note = f"{more}; {note}" if note else more
    return size.name, note


def _effort(work: Work, device: Device) -> EffortDoc:
    if porting(work.request, device.part, work.device.part if work.device else None):
        return EffortDoc("high", "the program has to run on other software")
    if work.request.ownership == "to-buy":
        return EffortDoc("high", "hardware is bought and installed")
    if device.piece is not None:
        return EffortDoc("medium", "an administrator divides the board")
    if work.request.cloud is not None or work.request.ownership == "rented":
        return EffortDoc("low", "another instance is started")
    return EffortDoc("medium", "the job moves to another machine")


def slices(work: Work) -> list[Change]:
    """Return the smallest slice of the present board that holds the job by memory and busy time."""
    busy, need, now = work.request.utilisation, work.need, work.device
    if now is None or now.piece or busy is None or not need or not need.each_gib or work.misfit:
        return []
    for piece in slices_of(now.board):
        if need.each_gib <= piece.memory_gib and busy <= piece.share < 1:
            row = _row(work, Device.of(now.board, piece), work.count)
            return [row] if row else []
    return []


def _one_a_family(rows: Sequence[Change], work: Work) -> list[Change]:
    """Return the first row of each family: its memory and board do not count.

    The family of the present device and its silicon under another name are left out: what these
    save at a lower rated power a power limit saves too.
    """
    families: dict[str, Change] = {}
    for row in rows:
        assert row.device is not None
        if work.device is None or work.misfit or not _same_silicon(work.now.board, row.device):
            families.setdefault(_family(row.device.board), row)
    if work.device is not None and not work.misfit:
        families.pop(_family(work.now.board), None)
    return list(families.values())


def _same_silicon(now: Hardware, device: Device) -> bool:
    """Tell whether a whole device has the chip and the memory bus of another, by their rates."""
    board = device.board
    if device.piece is not None or now.id == board.id or now.architecture != board.architecture:
        return False
    pairs = (
        (now.memory_bandwidth_gbs, board.memory_bandwidth_gbs, ONE_BUS),
        (now.fp32_tflops, board.fp32_tflops, ONE_CHIP),
    )
    return all(one and other and abs(one / other - 1) < most for one, other, most in pairs)


def _family(part: Hardware) -> str:
    match = re.match(r"\D*\d\w*", part.name)
    return f"{part.vendor} {match[0] if match else part.name}"
