"""How much hardware a job takes, shared with whom, and where: counts, idle time, regions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from gramwatt.sci.advice.actions.host_power import with_host
from gramwatt.sci.advice.actions.ownership import judge, kept
from gramwatt.sci.advice.actions.texts import IN_TURN, ON_PROCESSORS, by_rule
from gramwatt.sci.advice.constraints.memory import fit_notes
from gramwatt.sci.advice.documents import Suggestion, Verdict
from gramwatt.sci.advice.prediction.bottleneck import NEAR_RATED
from gramwatt.sci.advice.prediction.predict import families_measured
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of, unchanged
from gramwatt.sci.advice.prediction.workload import mean_power_share
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog.catalog import Hardware, Region
from gramwatt.sci.catalog.slices import fitting_slice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.location import DATA_CENTRE_PUE, in_data_centre, locate

COUNTS_SHOWN = 3
"""Entries for other counts."""
LISTED: tuple[Verdict, ...] = ("lower", "no-reliable-difference")
"""Verdicts that are worth an entry of their own."""
SCALING = Quantity(
    0.95,
    0.8,
    1.0,
    "1",
    "estimated",
    "share of the speed of single devices that several reach together; one waits for none",
)
MIG_MOST = 7.0
"""Slices of one device (NVIDIA MIG)."""
SHARED_BUSY = 0.5
"""Busy share up to which two such jobs fit one device by time."""
LEAST_LEFT = 1e-3
"""Least carbon ratio, where nothing at all ran."""
RELEASED_BUSY = 0.9
"""Busy share from which on there is nothing to release."""
UNUSED_BUSY = 0.05
"""Busy share up to which devices do hardly anything for a job."""
MUST_ANSWER = (
    "must the endpoint answer at any time? If it may sleep between requests, this is what that "
    "saves; if not, nothing can be released, and a smaller part or a shared one is what is left"
)
REGIONS_SHOWN = 3
LIMITS = "check latency, data residency and transfer; which regions are permitted is yours to say"


def other_counts(
    work: Work, shown: Iterable[Suggestion], compared: Iterable[Suggestion]
) -> list[Suggestion]:
    """Return the parts of which fewer do the same work, best first; each with its count.

    For serving, of which no time follows for another count, those that hold the model.
    """
    if work.count < 2 or work.misfit:
        return []
    if work.classified.name == "llm-serving":
        return _held_by_fewer(work, compared)
    if work.bottleneck.waits or work.classified.name == "small":
        return []
    found = [_fewer(work, one) for one in shown]
    known = [one for one in found if one is not None and one.verdict in LISTED]
    known.sort(key=lambda one: one.carbon_ratio.value if one.carbon_ratio else 1.0)
    return known[:COUNTS_SHOWN]


def _held_by_fewer(work: Work, compared: Iterable[Suggestion]) -> list[Suggestion]:
    """Return parts for servers of which fewer hold the model, without a figure.

    Those that were measured come first, then the newest. Where the devices wait, it is the present
    part alone.
    """
    found, measured = [], families_measured("llm-serving")
    for one in compared:
        part = one.on
        if one.verdict == "not-feasible" or not isinstance(part, Hardware) or work.need is None:
            continue
        if not part.memory_gb or work.need.each_gib is not None:
            continue
        # Servers split a model, its heads of attention, over 1, 2, 4 or 8 devices.
        count = 2.0 ** math.ceil(math.log2(work.need.devices(part.memory_gb)))
        here = part.id == work.present_id
        other = part.market == "current" and in_data_centre(part)
        if count < work.count and (here if work.bottleneck.waits else other):
            how = (
                f"{count:g} instead of {work.count:g} would hold the model; what that does to time "
                "and energy was not measured"
            )
            notes = fit_notes(work.need, part, count)
            entry = Suggestion(
                action=one.action,
                target=one.target,
                on=part,
                count=count,
                verdict="unknown",
                basis="rule",
                reasons=[how, *notes],
                sources=one.sources,
            )
            rank = (part.id in measured, part.release_year or 0, part.memory_gb)
            found.append((rank, entry))
    found.sort(key=lambda item: item[0], reverse=True)
    return [entry for _, entry in found[:COUNTS_SHOWN]]


def _fewer(work: Work, one: Suggestion) -> Suggestion | None:
    """Return the same part in the number that does the work in about the same time."""
    part, time, board = one.on, one.time_ratio, one.board_energy
    if not isinstance(part, Hardware) or time is None or board is None:
        return None
    if not part.memory_gb or work.need is None:
        return None
    turns = (work.request.framework or "").lower() in IN_TURN and work.classified.name == "decode"
    count = 1.0 if turns else max(1.0, float(math.ceil(work.count * time.value)))
    if work.need.each_gib is None:
        count = max(count, float(work.need.devices(part.memory_gb)))
    if count >= work.count or not work.need.fits(part.memory_gb, count):
        return None
    share = count / work.count
    speed = 1.0 if turns else 1 / share
    scaling = unchanged("one device alone") if turns else SCALING
    longer = ratio_of(
        lambda at: at["time"] * speed * at["scaling"], {"time": time, "scaling": scaling}
    )
    boards = ratio_of(
        lambda at: at["board"] * speed * share * at["scaling"], {"board": board, "scaling": scaling}
    )
    energy = with_host(work, part, longer, boards, devices=share)
    judgement = judge(work, part, longer, energy, count)
    how = (
        "several devices work one after another here, and one does it alone"
        if turns
        else f"{count:g} do the work of {work.count:g}, with more accumulated steps or batches"
    )
    return replace(
        one,
        count=count,
        verdict=judgement.verdict,
        by_ownership=judgement.by_ownership,
        time_ratio=longer,
        energy_ratio=energy,
        carbon_ratio=judgement.carbon,
        saved_g=work.saved_g(judgement.carbon),
        break_even_hours=judgement.break_even.hours,
        operating_point=f"{count:g} instead of {work.count:g} devices",
        reasons=[how, *fit_notes(work.need, part, count), *judgement.reasons],
    )


def needs_no_device(work: Work) -> bool:
    """Tell whether the library of the job computes on processors, and devices do nothing."""
    library = (work.request.framework or "").strip().lower()
    return library in ON_PROCESSORS and (work.request.utilisation or 0.0) <= UNUSED_BUSY


def leave_device(work: Work) -> Suggestion | None:
    """Return the job without its devices, where they do no work for it; None elsewhere.

    What the devices draw and their share of embodied carbon goes; the host does the same work.
    """
    busy = work.request.utilisation
    alone = needs_no_device(work)
    if (busy or 0.0) > UNUSED_BUSY or not (alone or busy is not None):
        return None
    if not alone:
        text = (
            f"the devices are busy {busy:.0%} of the time: try the job on processors alone. How "
            "long it takes there is not known, so that no saving is claimed"
        )
        return by_rule(work, "leave-device", None, [text])
    same = unchanged(f"{work.request.framework} computes on processors")
    energy = work.host_share.over(work.host_share + same, "1")
    text = (
        f"{work.request.framework} computes on processors: the job takes as long on a machine "
        "without accelerators; counted as if another job then has them, or they are off"
    )
    return by_rule(
        work,
        "leave-device",
        kept(work, energy),
        [text],
        time_ratio=same,
        energy_ratio=energy,
        operating_point="no accelerator",
    )


def share(work: Work) -> Suggestion | None:
    """Return a small job with another one on the same device, by MIG or by processes."""
    part, busy = work.present, work.request.utilisation
    if work.classified.name not in ("small", "recsys") or busy is None:
        return None
    if not 0 < busy <= SHARED_BUSY or work.request.mean_power_w is None:
        return None
    jobs = min(MIG_MOST, math.floor(1 / busy), _jobs_by_memory(work, part))
    return _shared(work, part, jobs, busy) if jobs >= 2 else None


def _shared(work: Work, part: Hardware, jobs: float, busy: float) -> Suggestion | None:
    power, idle = work.power_w, part.idle
    operational, embodied = work.operational_g_h, work.embodied_g_h
    if power is None or idle is None or operational is None or embodied is None:
        return None
    text = f"{idle.source}; shared by 2 to {jobs:g} such jobs"
    others = Quantity(2.0, 2.0, jobs, "1", "derived", text)
    inputs = {"idle": idle, "jobs": others, "operational": operational, "embodied": embodied}

    def energy(at: Values) -> float:
        floor = min(at["idle"], power.value)
        return 1 - floor / power.value * (1 - 1 / at["jobs"])

    def carbon(at: Values) -> float:
        whole = at["operational"] + at["embodied"]
        new = at["operational"] * energy(at) + at["embodied"] / at["jobs"]
        return new / whole

    reasons = [
        f"the device is busy {busy:.0%} of the time: {jobs:g} such jobs fit by time and memory",
        "counted with two jobs that both finish as before; measure what sharing costs each",
        "MIG slices, MPS or several processes; idle power and embodied carbon are then shared",
    ]
    each = work.need.each_gib if work.need else None
    piece = fitting_slice(part, each, busy) if each else None
    if piece:
        reasons.append(
            f"the MIG slice {piece} holds such a job by memory and busy share; power is the "
            "board's, so that a slice saves only with others on the board"
        )
    return by_rule(
        work,
        "consolidate" if work.count > 1 else "share",
        ratio_of(carbon, inputs, f"idle power and embodied carbon shared; {text}"),
        reasons,
        energy_ratio=ratio_of(energy, {"idle": idle, "jobs": others}, text),
        operating_point="two such jobs on one device",
        sources=(text, "rule 54"),
    )


def _jobs_by_memory(work: Work, part: Hardware) -> float:
    need = work.need
    if need is None or need.each_gib is None or part.memory_gb is None:
        return 1.0
    return float(math.floor(part.memory_gb / need.each_gib))


def stop_idle(work: Work) -> Suggestion | None:
    """Return the devices released while nothing runs on them; None where nothing is to release.

    What is released draws idle power and its share of embodied carbon; the host's power is not
    counted. No device idles at more than its mean power, so at most the idle share of the time can
    be saved: the ratio is never below the busy share.
    """
    if work.request.trains or work.bottleneck.name in ("input", "host"):
        return None  # the gaps lie between the steps of one run, which nobody can release
    part, busy = work.present, work.request.utilisation
    power, embodied = work.power_w, work.embodied_g_h
    if part.idle is None or busy is None or busy >= RELEASED_BUSY:
        return None
    if power is None or embodied is None:
        return None
    if (mean_power_share(work.request, part) or 0.0) >= NEAR_RATED:
        return None  # so much power leaves no idle time to release
    inputs = {
        "idle": part.idle,
        "power": power,
        "host": work.host_share,
        "g per W": work.grid_g_per_wh,
        "embodied": embodied,
    }

    def left(at: Values) -> float:
        now = at["power"] * (1 + at["host"]) * at["g per W"] + at["embodied"]
        idle = min(at["idle"], at["power"]) * at["g per W"] + at["embodied"]
        return max(LEAST_LEFT, 1 - (1 - busy) * idle / now)

    ratio = ratio_of(left, inputs, f"{part.idle.source}; embodied {embodied.source}")
    reasons = [
        f"the devices were busy {busy:.0%} of the reserved time; the rest costs idle power and "
        "embodied carbon (rule 63)",
        "the figures hold if all of that time is released; gaps between kernels cannot be",
    ]
    found = by_rule(
        work,
        "stop-idle",
        ratio.between(min(ratio.value, max(busy, ratio.low)), ratio.high),
        reasons,
        operating_point="devices released while idle",
        sources=(part.idle.source, "rule 63"),
    )
    if work.request.kind != "inference" and work.request.pace != "requests":
        return found
    asked = replace(found, reasons=[MUST_ANSWER, *reasons])
    # A job that was measured has ended: nothing of it has to answer any more.
    return asked if work.measured else replace(asked, verdict="unknown")


def other_regions(work: Work) -> list[Suggestion]:
    """Return the provider's regions of least annual intensity, best first; none without provider.

    Annual intensity says nothing of hours.
    """
    provider = work.request.cloud
    if provider is None or work.request.constraint != "none" or work.place.zone is None:
        return []
    grids = [
        (region, _intensity(work, region))
        for region in work.catalog.all_regions()
        if region.provider == provider and region is not work.place.region
    ]
    cleaner = [
        (region, grid)
        for region, grid in grids
        if grid is not None and grid.value < work.intensity.value
    ]
    cleaner.sort(key=lambda item: (item[1].value, item[0].id))
    return [_moved(work, region, grid) for region, grid in cleaner[:REGIONS_SHOWN]]


def _intensity(work: Work, region: Region) -> Quantity | None:
    zone = locate(None, region.id, None, work.catalog).zone
    return work.catalog.zone(zone).intensity if zone else None


def _moved(work: Work, region: Region, grid: Quantity) -> Suggestion:
    same = unchanged("the same hardware does the same work")
    operational, embodied = work.operational_g_h, work.embodied_g_h
    ratio = None
    if operational is not None and embodied is not None:
        inputs = {
            "here": work.intensity.times(work.place.pue, "gCO2e/kWh"),
            "there": grid.times(region.pue or DATA_CENTRE_PUE, "gCO2e/kWh"),
            "M/O": embodied.scaled(1 / operational.value, "1"),
        }
        ratio = ratio_of(
            lambda at: (at["there"] / at["here"] + at["M/O"]) / (1 + at["M/O"]),
            inputs,
            f"{work.intensity.source}; {grid.source}",
        )
    reasons = [
        f"{region.id}: {grid.value:.0f} instead of {work.intensity.value:.0f} gCO2e/kWh, annual "
        "means of the grid zones",
        f"the catalog does not say whether {work.request.instance or 'the hardware'} is offered "
        "there: check that first",
        LIMITS,
    ]
    return by_rule(
        work,
        "shift-region",
        ratio,
        reasons,
        target=region.id,
        time_ratio=same,
        energy_ratio=same,
        operating_point="same hardware, other region",
        sources=(grid.source, work.intensity.source, "rule 68"),
    )
