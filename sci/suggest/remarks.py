"""What a request and a run say of themselves, without prediction, and what no data can test."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.figures.formatting import percent
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.suggest.facts import FRAMEWORKS, lacks_units, left_out
from gramwatt.sci.suggest.hardware import IN_TURN, candidates
from gramwatt.sci.suggest.request import LIBRARIES
from gramwatt.sci.suggest.settings import LONG_DEVICE_HOURS, ON_PROCESSORS
from gramwatt.sci.suggest.work import (
    NEAR_RATED,
    REINFORCEMENT,
    SIMULATION,
    SMALL_BUSY,
    SMALL_POWER,
    TREES,
    Work,
)

FULL_MEMORY = 0.95
"""Fraction of memory above which a job is about to run out of it."""
MUCH_SMALLER = 0.5
"""Rated power of a device that counts as smaller, over that of the present one."""
KNOWN = {
    *FRAMEWORKS,
    *ON_PROCESSORS,
    *IN_TURN,
    *LIBRARIES,
    *REINFORCEMENT,
    *SIMULATION,
    *TREES,
    *("sglang", "megatron", "nemo"),
}


def _names(work: Work, fits: Callable[[Hardware], bool]) -> bool:
    """Tell whether the request names such a device."""
    named = work.request.candidates is not None
    devices = [*([work.device] if work.device else ()), *(candidates(work) if named else ())]
    return any(fits(device.board) for device in devices)


GUIDE, PATTERN, SLIDES, LESSON = (
    "best-practice guide",
    "Green Software pattern: right hardware for AI",
    "vendor slides on GPUs and TPUs",
    "cloud exam lesson",
)
POLICIES: tuple[tuple[str, Callable[[Work], object]], ...] = (
    (
        f"On-device inference suits neural units of phones ({GUIDE}). No meter reads them",
        lambda work: work.request.constraint == "edge",
    ),
    (
        f"The edge wants quantised models on CPUs and phones ({PATTERN}; {LESSON})",
        lambda work: work.request.constraint == "edge",
    ),
    (
        f"Trainium is up to 40 % cheaper for its performance ({PATTERN}). A price claim",
        lambda work: _names(
            work, lambda part: part.vendor == "AWS" and "training" in part.intended_use
        ),
    ),
    (
        f"Wafer-scale and dataflow systems suit research ({PATTERN})",
        lambda work: _names(work, lambda part: part.vendor in ("Cerebras", "SambaNova")),
    ),
    (
        f"Batches of 256 to 4096 are usual ({SLIDES}). Global and micro-batch differ",
        lambda work: work.request.batch_size and work.request.kind == "training",
    ),
    (
        f"Spot is 60 to 90 % cheaper, reserved 30 to 50 % ({GUIDE}; {PATTERN}). A price claim",
        lambda work: work.request.provider,
    ),
)
"""Rules of thumb that no data can test, with the condition under which they touch a request."""


def notices(work: Work) -> list[Notice]:
    """Return what the request and the run say of themselves, in the order of docs/suggestions.md.

    The flags of a device come from measured use: more than the job needs, too little memory, long
    or idle or outdated.
    """
    checks: list[Callable[[Work], Notice | None]] = [_misspelt, _provider]
    if work.device is not None:
        checks += [_over_provisioned, _under_provisioned, _long, _outdated, _idle]
        checks += [_power, _units, _pace]
    out = [notice for check in checks if (notice := check(work))]
    policies = (text for text, applies in POLICIES if applies(work))
    untested = (f"Not tested by any measurement: {text}." for text in policies)
    return [*out, *(Notice("advice-policy", text, "suggestions") for text in untested)]


def _misspelt(work: Work) -> Notice | None:
    """Return that a framework is unknown, where known ones are spelt nearly so."""
    name = work.request.library
    like = get_close_matches(name, KNOWN) if name and name not in KNOWN else []
    if not like:
        return None
    text = f"Nothing is known of the framework {work.request.framework!r}, so it leaves no device "
    return Notice("framework-misspelt", f"{text}out; like it: {', '.join(like)}.", "framework")


def _provider(work: Work) -> Notice | None:
    provider, device = work.request.cloud, work.device
    if provider is None:
        return None
    if work.offered is None:
        text = f"The catalog lists no instances of {provider}: what it offers is not checked."
        return Notice("provider-unlisted", text, "provider")
    if device is None or device.board.id in work.offered:
        return None
    text = f"The catalog lists no instance of {provider} with {device.board.id}: check both."
    return Notice("provider-lacks-part", text, "provider")


def _little_used(work: Work) -> str | None:
    """Return why the device does little; None where it works or nothing was measured."""
    share, busy = work.power_share, work.request.utilisation
    if share is not None and share < SMALL_POWER:
        return f"mean power is {percent(share)} of rated power"
    if share is not None and share >= NEAR_RATED:
        return None
    return (
        f"it is busy {percent(busy)} of the time"
        if busy is not None and busy < SMALL_BUSY
        else None
    )


def _over_provisioned(work: Work) -> Notice | None:
    peak, reason, part = work.request.peak_memory_gb, _little_used(work), work.now.board
    if peak is None or reason is None or not part.tdp_w or work.now.piece:
        return None
    smaller = [
        (other.tdp_w, other)
        for other in work.catalog.all_hardware()
        if other.tdp_w and other.tdp_w <= MUCH_SMALLER * part.tdp_w
        if (other.vendor, other.device_class) == (part.vendor, part.device_class)
        if other.market in ("current", "out-of-production") and other.availability == "sold"
        if part.host_class == "workstation" or other.host_class != "workstation"
        if left_out(work.request, other, work.count, work.need, work.offered) is None
    ]
    if not smaller:
        return None
    _, best = min(smaller, key=lambda item: item[0])
    text = f"{part.id} is more than this job uses: {reason}, and {peak:g} GiB would fit {best.id}."
    return Notice("flag-over-provisioned", text, "hardware")


def _under_provisioned(work: Work) -> Notice | None:
    peak, part = work.request.peak_memory_gb, work.now.part
    if peak is None or not part.memory_gb or peak <= FULL_MEMORY * part.memory_gb:
        return None
    text = f"The peak of {peak:g} GiB fills {part.id} ({part.memory_gb:g} GiB): swapping is near."
    return Notice("flag-under-provisioned", text, "hardware")


def _long(work: Work) -> Notice | None:
    reason, hours = _little_used(work), (work.hours or 0.0) * work.count
    if hours < LONG_DEVICE_HOURS or reason is None:
        return None
    text = f"{hours:.0f} device hours at little use: {reason}."
    return Notice("flag-long-inefficient", text, "energy_kwh")


def _outdated(work: Work) -> Notice | None:
    """Return that a device is old, but not for small or recommender jobs: there it can be better.

    Counterexample (Zeus trace, NCF, batch 1024): a V100 takes 733 J an epoch, a newer A40 1700 J.
    """
    part = work.now.board
    small = work.classified.name in ("small", "recsys", None)
    if part.market != "legacy" or small or part.device_class != "gpu":
        return None
    text = f"{part.id} is of {part.release_year}: newer GPUs often do more per joule."
    return Notice("flag-outdated", text, "hardware")


def _idle(work: Work) -> Notice | None:
    busy = work.request.utilisation
    if busy is None or busy >= SMALL_BUSY or (work.power_share or 0.0) >= NEAR_RATED:
        return None
    text = f"The devices were busy {percent(busy)} of the reserved time."
    return Notice("flag-idle", text, "utilisation")


def _power(work: Work) -> Notice | None:
    if not work.impossible:
        return None
    text = f"{work.impossible[0].upper()}{work.impossible[1:]}: nothing is compared with it."
    return Notice("power-impossible", text, "mean_power_w")


def _units(work: Work) -> Notice | None:
    """Return that the present device has no units of the stated precision."""
    lacks = None if work.misfit else lacks_units(work.request, work.now.board)
    if lacks is None:
        return None
    text = (
        f"{work.now.board.id} cannot run {work.request.precision} as such: {lacks[1]}; {lacks[2]}."
    )
    return Notice("input-implausible", text, "precision")


def _pace(work: Work) -> Notice | None:
    if not work.pace.waits or work.pace.declared or work.impossible:
        return None
    text = (
        f"Taken as paced by {work.pace.name}: {work.pace.reason}. Devices are compared at the same "
        "rate; give pace where that is wrong."
    )
    return Notice("pace-inferred", text, "pace")
