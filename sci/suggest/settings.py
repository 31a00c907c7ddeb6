"""Other settings of a job on its devices: what they save was measured, or is arithmetic.

Every builder returns None where its setting does not apply; one without a figure says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import replace

from gramwatt.sci.embodied.te import host_share_te
from gramwatt.sci.estimate.ranking import Log
from gramwatt.sci.figures.formatting import percent
from gramwatt.sci.suggest.change import Change, priced
from gramwatt.sci.suggest.documents import Action
from gramwatt.sci.suggest.embodied import carbon_ratio
from gramwatt.sci.suggest.evidence import EffectRow, both, effect
from gramwatt.sci.suggest.facts import estimated_need
from gramwatt.sci.suggest.hardware import IN_TURN, waits_partly
from gramwatt.sci.suggest.work import NEAR_RATED, SMALL_POWER, Work

INFERENCE = ("decode", "prefill", "llm-serving", "interactive", "batch-inference", "small")
SERVING = ("llm-serving", "interactive")
LEVELS = (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Concurrent sequences at which serving was measured."""
BATCH_STEPS = 2
"""How many doublings of the batch are suggested at most."""
LARGE_QUANTISED = 5e9
"""Parameters from which on 4-bit weights of bitsandbytes were measured to save energy of the GPU:
6 B and more did, 3 B and fewer did not, 3.8 B hardly."""
OTHER_MODELS = 0.09
"""Further error for models that were not measured: ratios of batching differ by x/÷ 1.2 among
models at one concurrency (evidence.csv), and by less beyond several that were (an estimate)."""
HALVED_FROM = 32.0
"""Concurrent sequences from which on FP8 on half the devices took less energy in every pair."""
ACCURACY = "check the accuracy on your own task first: fewer bits can cost quality"
MEASURED_DEVICES = 72
"""Most devices of the runs whose energy is compared with that of one node."""
NODE_DEVICES = 8.0
LIMITS = {0.75: 0.7, 0.55: 0.6}
"""Power limit over rated power that is suggested, by least mean power over rated power now: those
of the measured runs (benchmarks/suggestions/evidence.py)."""
LIMITED = (
    "nvidia-a40",
    "nvidia-p100-pcie-16",
    "nvidia-quadro-rtx-6000",
    "nvidia-a100-sxm4-40",
    "nvidia-a100-sxm4-80",
)
"""Parts that were measured under a limit; the A100 of 80 GB by that of 40 GB."""
UNLIMITED = 0.035
"""Further error of a part that was not measured under a limit (an estimate)."""
ON_PROCESSORS = ("sklearn", "scikit-learn", "pandas", "numpy", "scipy", "statsmodels", "nltk")
"""Libraries that compute on processors."""
UNUSED_BUSY, RELEASED_BUSY, SHARED_BUSY = 0.05, 0.9, 0.5
"""Busy fractions up to which devices do hardly anything for a job, from which on there is nothing
to release, and up to which two such jobs fit a device by time."""
MIG_MOST = 7.0
RELEASE_ERROR = 0.15
"""Error of what idle devices draw and of how much of their idle time can be had (an estimate)."""
FED, MOST_FED = 0.5, 0.8
"""Fraction of the waiting that a better input pipeline takes away, and the busy fraction up to
which it is looked at (choices)."""
LONG_DEVICE_HOURS = 24.0
"""From here on a job is long (a choice)."""
UNCHANGED = Log(0.0, 0.0)


def settings(work: Work) -> list[Change]:
    """Return what else would change the present run; nothing where the devices do not hold it."""
    if work.device is None or work.misfit or work.impossible:
        return []
    # Settings of a device say nothing of a job that makes no use of it.
    builders = (leave_device,) if needs_no_device(work) else BUILDERS
    return [row for row in (build(work) for build in builders) if row is not None]


def text(work: Work, action: Action, label: str, *reasons: str) -> Change:
    """Return a change without a figure, with why it may help and why nothing is claimed."""
    return Change(action=action, id=action, label=label, count=work.count, reasons=reasons)


def needs_no_device(work: Work) -> bool:
    """Tell whether the library of the job computes on processors, and devices do nothing."""
    request = work.request
    return request.library in ON_PROCESSORS and (request.utilisation or 0.0) <= UNUSED_BUSY


def leave_device(work: Work) -> Change | None:
    """Return the job without its devices, where they do no work for it.

    What the devices draw and their making goes; the host does the same work.
    """
    busy, alone, label = work.request.utilisation, needs_no_device(work), "run it on processors"
    if (busy or 0.0) > UNUSED_BUSY or not (alone or busy is not None) or work.power_w is None:
        return None
    if not alone:
        why = f"it is busy {percent(busy or 0.0)} of the time: try the job on processors alone"
        return text(work, "leave-device", label, why, "how long it takes there is not known")
    host = work.host_w(work.now)
    if not host:  # its figures are those of a whole system
        return None
    energy = Log(math.log(host / (host + work.power_w.value)), RELEASE_ERROR)
    why = (
        f"{work.request.framework} computes on processors: the job takes as long on a machine "
        "without accelerators; counted as if another job has them, or they are off"
    )
    row = priced(
        work, replace(text(work, "leave-device", label, why), time=UNCHANGED, energy=energy)
    )
    making = host_share_te(work.now.board)
    host = making.te_g.value * work.now.fraction / work.te_g(work.now).value if making else 0.0
    return replace(row, odds=0.95, carbon=carbon_ratio(work, UNCHANGED, energy, devices=host))


def mixed_precision(work: Work) -> Change | None:
    """Return half precision for a training that still runs in single."""
    name, part = work.classified.name, work.now.part
    if work.request.precision not in ("fp32", "tf32") or not part.fp16_tensor_tflops:
        return None
    if name not in ("training", "recsys"):
        return None
    row = effect(f"mixed-precision:{name}:{'tf32' if part.tf32_tflops else 'fp32'}", "time")
    if row is None:
        return None
    precision = "bf16" if part.bf16_tensor_tflops else "fp16"
    label = f"train in {precision}, not {work.request.precision}"
    share = work.power_share or 1.0
    if share < SMALL_POWER:
        why = f"at {percent(share)} of rated power arithmetic is not what it waits for"
        return text(work, "mixed-precision", label, f"{why}: the measured saving is not claimed")
    why = (
        f"took {row.span} of the time in {row.pairs} pairs of runs; how much depends on the kind "
        "of model, and power may rise to the rated power"
    )
    return _timed(work, text(work, "mixed-precision", label, why), row)


def _timed(work: Work, change: Change, row: EffectRow) -> Change:
    """Return a setting whose time was measured, and whose energy follows of it."""
    energy = _faster(work, row.log)
    timed = replace(change, time=row.log, energy=energy, basis="measured", sources=row.titles)
    return priced(work, timed)


def _faster(work: Work, time: Log) -> Log:
    """Return the energy of a run that gets faster: power rises towards the rated one, half way."""
    rated, power = work.now.part.tdp_w, work.power_w
    most = rated / power.value if rated and power else 1 / work.usual_share.value
    rise = max(0.0, most - 1) * max(0.0, 1 - math.exp(time.value))
    return time + Log(math.log1p(rise / 2), math.log1p(rise) / 3)


def _infers(work: Work) -> bool:
    """Tell whether the job is known to answer with a model."""
    request = work.request
    stated = request.kind or request.workload_class or request.model_parameters
    return bool(stated) and work.classified.name in INFERENCE and not request.trains


def quantise(work: Work) -> Change | None:
    """Return four- or eight-bit weights for inference in 16 or 32 bits."""
    name, request = work.classified.name, work.request
    if not _infers(work):
        return None
    if name == "decode" and request.in_llm_int8:
        return _sixteen_bits(work)
    if request.precision not in (None, "fp32", "tf32", "fp16", "bf16"):
        return None
    wide = request.precision in ("fp32", "tf32")
    size = (
        "weights become 4 times smaller in 8 bits"
        if wide
        else ("weights become 2 times smaller in 8 bits, 4 times in 4 bits")
    )
    framework, row = request.library, None
    if name in SERVING and framework in ("", "vllm"):
        row = _eight_bits(work, size)
    elif name == "decode" and framework == "pytorch" and not wide:
        row = _in_pytorch(work, size)
    elif framework == "llama.cpp" and not wide:
        time = effect(f"quantise:{name}:fp16", "time")
        if time is not None:
            why = f"took {time.span} of the time in {time.pairs} pairs of runs on one device"
            row = _timed(work, text(work, "quantise", "4-bit weights", ACCURACY, size, why), time)
    if row is not None:
        return row
    how = "4 bits took 0.4 of the time in llama.cpp and 1.7 times the time in PyTorch with "
    how += "bitsandbytes (one sequence): give framework"
    why = "no measured pair of this class shows what it saves" if framework else how
    return text(work, "quantise", "fewer bits", ACCURACY, size, why)


def _sixteen_bits(work: Work) -> Change | None:
    """Return 16 bits instead of the 8 of bitsandbytes, which take longer and more energy."""
    rows = both(f"quantise:decode:pytorch:8:{_size(work)}")
    need, memory = estimated_need(work.request, precision="fp16"), work.now.part.memory_gb
    if rows is None or need is None or not memory or not need.fits(memory, work.count):
        return None
    reasons = [
        f"LLM.int8 took {rows[0].span} times as long at {rows[1].span} of the device's energy on "
        f"{rows[1].pairs} models; 4 bits hold more in less",
        f"memory: {need.arithmetic}",
    ]
    change = text(work, "quantise", "16 bits, not LLM.int8", *reasons)
    return _measured(work, change, rows, OTHER_MODELS, exponent=-1.0)


def _size(work: Work) -> str:
    """Return whether a model is as large as those that 4 bits of bitsandbytes save energy for."""
    return "large" if (work.request.model_parameters or 0.0) >= LARGE_QUANTISED else "small"


def _in_pytorch(work: Work, size: str) -> Change | None:
    """Return four-bit weights of bitsandbytes, which take longer and draw less power."""
    rows, eight = (both(f"quantise:decode:pytorch:{bits}:{_size(work)}") for bits in (4, 8))
    if rows is None or work.request.model_parameters is None:
        return None
    reasons = [
        ACCURACY,
        size,
        f"bitsandbytes in 4 bits took {rows[0].span} times as long at {rows[1].span} of the "
        f"device's energy on {rows[0].pairs} models with one sequence; the host runs longer too",
    ]
    if eight is not None:
        reasons.append(f"in 8 bits (LLM.int8) it took {eight[1].span} of the device's energy")
    change = text(work, "quantise", "4 bits by bitsandbytes", *reasons)
    return _measured(work, change, rows, OTHER_MODELS)


def _eight_bits(work: Work, size: str) -> Change | None:
    """Return FP8 weights on half the devices where they hold it, else on the same ones."""
    part, batch = work.now.part, work.request.batch_size
    if not part.fp8_tflops or batch is None or work.request.precision is None:
        return None
    level = max((at for at in LEVELS if at <= batch), default=LEVELS[0])
    half = work.count / 2
    need = estimated_need(work.request, precision="fp8")
    fits = need is not None and half.is_integer() and need.fits(part.memory_gb or 0.0, half)
    name, count = ("half", half) if fits and level >= HALVED_FROM else ("same", work.count)
    rows = both(f"quantise:llm-serving:{name}:{level:g}")
    if rows is None:
        return None
    where = f"{count:g} instead of {work.count:g} devices" if name == "half" else "the same devices"
    reasons = [
        ACCURACY,
        size,
        f"FP8 instead of BF16 in vLLM on {where} at {level:g} sequences took {rows[1].span} of the "
        f"devices' energy in {rows[0].span} of the time ({rows[1].pairs} pairs of two large "
        "models; others were not measured)",
    ]
    label = f"FP8 weights on {count:g} devices" if name == "half" else "FP8 weights"
    further = OTHER_MODELS if name == "half" else 2 * OTHER_MODELS
    change = replace(text(work, "quantise", label, *reasons), count=count)
    return _measured(work, change, rows, further)


def _measured(
    work: Work,
    change: Change,
    rows: tuple[EffectRow, EffectRow],
    further: float = 0.0,
    *,
    exponent: float = 1.0,
    of_devices: bool = True,
) -> Change:
    """Return a setting by measured ratios of time and energy, to a power of them."""
    time, energy = (
        Log(row.log.value * exponent, math.hypot(row.log.spread * exponent, further))
        for row in rows
    )
    sources = [title for row in rows for title in row.titles]
    measured = replace(change, time=time, energy=energy, basis="measured", sources=sources)
    return priced(work, measured, of_devices=of_devices)


def batching(work: Work) -> Change | None:
    """Return more concurrent sequences for language models, up to two measured steps."""
    name, batch, label = work.classified.name, work.request.batch_size, "answer requests together"
    if work.request.trains:
        return _larger_steps(work)
    if not _infers(work):
        return None
    weights = "requests answered together share each reading of the weights"
    if work.request.library in IN_TURN and (batch or 1.0) <= 1:
        why = "one user at a time has nothing to batch; several users would share each reading"
        return text(work, "batching", label, why)
    if name not in (*SERVING, "decode") or batch is None or work.pace.waits:
        hint = "for the measured saving give workload_class llm-serving and batch_size"
        return (
            None
            if batch is not None and batch > 1
            else text(work, "batching", label, weights, hint)
        )
    reached = [at for at, level in enumerate(LEVELS) if level <= batch]
    first = reached[-1] if reached else 0
    steps = range(min(first + BATCH_STEPS, len(LEVELS) - 1), first, -1)
    many = next((LEVELS[at] for at in steps if _has_room(work, LEVELS[at])), 0)
    rows = both(f"batching:llm-serving:{LEVELS[first]:g}:{many:g}")
    if rows is None:
        return None
    reasons = [
        f"{weights}, as far as latency allows: {many:g} instead of {batch:g} took {rows[1].span} "
        f"of the energy a token in {rows[1].pairs} pairs of model, task and part",
        "memory for the sequences must be free",
    ]
    if batch < LEVELS[first]:
        reasons.append(f"measured from {LEVELS[first]:g} sequences on; below it saves more")
    row = _measured(work, text(work, "batching", f"batch {many:g} requests", *reasons), rows)
    return replace(row, condition="requests")


def _larger_steps(work: Work) -> Change | None:
    """Return larger steps for a training that is busy at little power, without a figure."""
    share = work.power_share
    if work.steps_environments:
        why = "the device waits for its environments: more of them at once, or faster ones"
        return text(work, "batching", "more environments at once", why)
    if work.pace.waits or share is None or share >= SMALL_POWER or work.now.piece:
        return None
    why = f"busy at {percent(share)} of rated power: many small steps, which wait for their launch"
    how = "a larger batch, torch.compile or CUDA graphs make fewer and larger ones"
    return text(work, "batching", "larger steps", why, how)


def _has_room(work: Work, batch: float) -> bool:
    """Tell whether the larger batch fits by the low estimate of memory; unknown counts as yes."""
    need, memory = estimated_need(work.request, batch_size=batch), work.now.part.memory_gb
    return need is None or memory is None or need.fits(memory, work.count)


def fewer_nodes(work: Work) -> Change | None:
    """Return training on fewer nodes: slower, and less energy a run."""
    if work.classified.name in SERVING:
        return _fewer_to_serve(work)
    if work.classified.name != "training" or work.count < 2 * NODE_DEVICES:
        return None
    fewer, memory = max(NODE_DEVICES, work.count / 8), work.now.part.memory_gb
    if not work.need or not memory or not work.need.fits(memory, fewer):
        return None
    rows = both("fewer-nodes:8:64")
    if rows is None:
        return None
    label = f"{fewer:g} devices instead of {work.count:g}"
    if work.count > MEASURED_DEVICES:
        why = f"fewer nodes save energy at {MEASURED_DEVICES} devices; beyond, nothing was measured"
        return text(work, "fewer-nodes", label, why)
    reasons = [
        "links and waiting cost energy at scale, and the run takes longer",
        f"measured on {rows[1].pairs} runs on 8 against 64 or 72 H100; here for a factor of "
        f"{work.count / fewer:g}, on a scale of doublings",
        f"memory: {work.need.arithmetic}",
    ]
    exponent = math.log(work.count / fewer, 8)
    change = replace(text(work, "fewer-nodes", label, *reasons), count=fewer)
    return _measured(work, change, rows, exponent=exponent, of_devices=False)


def _fewer_to_serve(work: Work) -> Change | None:
    """Return a served model on the fewest devices that hold it, without a figure."""
    need, memory, waits = work.need, work.now.part.memory_gb, work.pace.waits
    if need is None or need.each_gib is not None or not memory or waits:
        return None
    fewer = 2.0 ** math.ceil(math.log2(need.devices(memory)))
    if fewer >= work.count:
        return None
    why = f"{fewer:g} of the {work.count:g} hold the model ({need.total_gib:.1f} GiB)"
    how = "try it where they are not full: what it saves follows how many requests come"
    return text(work, "fewer-nodes", f"serve it on {fewer:g} of them", why, how)


def power_cap(work: Work) -> Change | None:
    """Return a lower power limit: measured for training by mean power, else a slowdown at most."""
    name, part, share = work.classified.name, work.now.part, work.power_share
    if part.vendor != "NVIDIA" or name in ("small", None) or work.pace.waits or work.now.piece:
        return None
    if "edge" in part.intended_use and part.device_class != "gpu":
        return None  # nvidia-smi limits no Jetson
    least = next((least for least in LIMITS if share is not None and share >= least), None)
    rows = both(f"power-cap:{name}:{least:.0%}") if least and name == "training" else None
    if rows is not None and least and share and part.tdp_w:
        limit_w = LIMITS[least] * part.tdp_w
        reasons = [
            f"nvidia-smi -pl {limit_w:.0f} (administrator): {percent(LIMITS[least])} of the rated "
            f"{part.tdp_w:g} W, at a mean of {percent(share)} now",
            f"took {rows[1].span} of the device's energy in {rows[0].span} times the time in "
            f"{rows[1].pairs} trainings and stages; the host runs as much longer",
        ]
        measured = part.id in LIMITED
        reasons += [] if measured else [f"{part.id} was not measured: the range is wider"]
        label = f"cap power at {limit_w:.0f} W"
        change = text(work, "power-cap", label, *reasons)
        return _measured(work, change, rows, 0.0 if measured else UNLIMITED)
    how = "nvidia-smi -pl lowers the limit: try steps of 10 % and compare energy per unit"
    slowdown = effect(f"power-cap:{name}", "time")
    why = "no measured pair of this class and power shows what it saves"
    if slowdown is not None:
        why = (
            f"in MaxQ mode H200 systems took {slowdown.span} times as long; the energy of the "
            "unlimited runs was not published"
        )
    return text(work, "power-cap", "cap power", how, why)


def share(work: Work) -> Change | None:
    """Return a small job with another one on the same device, by MIG or by processes."""
    part, busy, need = work.now.part, work.request.utilisation, work.need
    if work.classified.name not in ("small", "recsys") or busy is None or work.now.piece:
        return None
    power, idle, each = work.power_w, work.now.idle, need.each_gib if need else None
    if not 0 < busy <= SHARED_BUSY or not work.request.mean_power_w or not each:
        return None
    jobs = min(MIG_MOST, math.floor(1 / busy), math.floor((part.memory_gb or 0.0) / each))
    if jobs < 2 or power is None or idle is None:
        return None
    floor = min(idle.value, power.value) / power.value
    energy = Log(math.log(1 - floor / 2), RELEASE_ERROR / 2)
    reasons = [
        f"it is busy {percent(busy)} of the time: {jobs:g} such jobs fit by time and memory",
        "counted with two jobs that both end as before; idle power and making are then shared by "
        "MIG slices, MPS or several processes",
    ]
    change = text(work, "share", "share with another job", *reasons)
    carbon = carbon_ratio(work, UNCHANGED, energy, devices=0.5)
    return replace(change, time=UNCHANGED, energy=energy, carbon=carbon)


def _without_waiting(work: Work, freed: float, *, host: bool) -> Log | None:
    """Return the energy left where a fraction of the time, at idle power, goes."""
    power, idle = work.power_w, work.now.idle
    if power is None or idle is None:
        return None
    beside = work.host_w(work.now)
    rest = freed * (min(idle.value, power.value) + (beside if host else 0.0))
    return Log(math.log(1 - rest / (power.value + beside)), RELEASE_ERROR * freed)


def release_idle(work: Work) -> Change | None:
    """Return the devices released while nothing runs on them; the host's power is not counted.

    Gaps between the steps of one run cannot be released.
    """
    busy, request = work.request.utilisation, work.request
    if request.trains or (work.pace.name in ("input", "host") and request.kind) or busy is None:
        return None
    if busy >= RELEASED_BUSY or (work.power_share or 0.0) >= NEAR_RATED:
        return None
    energy = _without_waiting(work, 1 - busy, host=False)
    if energy is None:
        return None
    reasons = [
        f"the devices were busy {percent(busy)} of the reserved time; the rest costs idle power "
        "and making. The figures hold if all of it is released"
    ]
    endpoint = request.kind in (None, "inference") or request.pace == "requests"
    sleeps = endpoint and not work.measured
    if sleeps:
        reasons.insert(0, "only if it may sleep in between")
    change = text(work, "release-idle", "release idle devices", *reasons)
    held = Log(math.log(busy), 0.0) if busy else Log(-7.0, 0.0)
    carbon = carbon_ratio(work, held, energy)
    if carbon is not None:
        carbon = Log(carbon.value, math.hypot(carbon.spread, RELEASE_ERROR))
    odds = 0.6 if sleeps else None
    return replace(change, time=UNCHANGED, energy=energy, carbon=carbon, odds=odds)


def input_pipeline(work: Work) -> Change | None:
    """Return a faster input pipeline, where devices wait for it: the whole run gets shorter."""
    busy = work.request.utilisation
    waits = work.pace.name == "input" or waits_partly(work)
    if not waits or busy is None or busy > MOST_FED or not work.request.trains:
        return None
    if work.classified.name is None:  # trees and simulation, which read their input once
        return None
    freed = (1 - busy) * FED
    energy = _without_waiting(work, freed, host=True)
    if energy is None:
        return None
    reasons = [
        f"the devices are busy {percent(busy)} of the time and wait for their input the rest, so "
        "it comes before other hardware",
        "counted as if half of the waiting goes: more workers, a faster format, a cache",
    ]
    change = text(work, "input-pipeline", "feed the devices faster", *reasons)
    time = Log(math.log(1 - freed), RELEASE_ERROR)
    return priced(work, replace(change, time=time, energy=Log(energy.value, RELEASE_ERROR)))


def checkpoint(work: Work) -> Change | None:
    """Return checkpoints for long trainings, without a figure."""
    if work.classified.name != "training" or (work.hours or 0.0) * work.count < LONG_DEVICE_HOURS:
        return None
    why = "work that is lost is emitted twice: save checkpoints and resume from them"
    unknown = "how often such jobs are interrupted is not known, so no saving is claimed"
    return text(work, "checkpoint", "save checkpoints", why, unknown)


def spot(work: Work) -> Change | None:
    """Return spot capacity for trainings in a cloud: money, and no carbon."""
    if work.classified.name != "training" or work.request.cloud is None:
        return None
    why = "spot capacity costs less money and no less carbon; none is credited"
    lost = "work lost at an interruption adds carbon: use it with checkpoints only"
    return text(work, "spot", "spot capacity", why, lost)


BUILDERS: tuple[Callable[[Work], Change | None], ...] = (
    leave_device,
    release_idle,
    input_pipeline,
    batching,
    mixed_precision,
    quantise,
    share,
    fewer_nodes,
    power_cap,
    checkpoint,
    spot,
)
