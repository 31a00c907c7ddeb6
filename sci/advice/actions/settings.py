"""Other settings of a job on the same parts: precision, weights, batch, nodes, power limit."""

from __future__ import annotations

import math

import msgspec

from gramwatt.sci.advice.actions.host_power import faster, with_host
from gramwatt.sci.advice.actions.ownership import kept
from gramwatt.sci.advice.actions.texts import IN_TURN, by_rule
from gramwatt.sci.advice.constraints.memory import estimated_need
from gramwatt.sci.advice.documents import Action, Suggestion
from gramwatt.sci.advice.prediction.measurements import Evidence, evidence, time_and_energy
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of, widened
from gramwatt.sci.advice.prediction.workload import mean_power_share, power_share
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.figures.quantity import Quantity

SERVING_LEVELS = (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Concurrent sequences at which serving was measured."""
BATCH_STEPS = 2
"""How many doublings of the batch are suggested at most."""
INFERENCE = ("decode", "prefill", "llm-serving", "batch-inference", "small")
TRAINING = ("training", "fine-tuning", "data-prep")
LARGE_QUANTISED = 5e9
"""Parameters from which on 4-bit weights of bitsandbytes were measured to save energy of the GPU:
6 B and more did, 3 B and fewer did not, 3.8 B hardly."""
OTHER_MODELS = 1.15
"""x/÷ factor for models that were not measured: batching's ratios differ by x/÷ 1.2 among models at
one concurrency (evidence.csv), and by less beyond several that were measured (an estimate)."""
EIGHT_BIT_MODELS = {
    "same": "Qwen3-235B, a mixture of experts; what other models take is not known",
    "half": "Qwen3-235B and Llama-3.1-405B; the range is wider for other models",
}
"""Models of which serving in FP8 was measured, by devices."""
HALVED_FROM = 32.0
"""Concurrent sequences from which on FP8 on half the devices took less energy in every pair."""
ACCURACY = "check the accuracy on your own task first: fewer bits can cost quality (rule 79)"
MEASURED_DEVICES = 72
"""Most devices of the runs whose energy is compared with that of one node."""
LIMITS = {0.75: 0.7, 0.55: 0.6}
"""Power limit over rated power that is suggested, by least mean power over rated power now: those
of the measured runs (benchmarks/suggestions/evidence.py)."""
LIMITED_PARTS = "A40, P100, Quadro RTX 6000 and A100"
LIMITED_IDS = (
    "nvidia-a40",
    "nvidia-p100-pcie-16",
    "nvidia-quadro-rtx-6000",
    "nvidia-a100-sxm4-40",
    "nvidia-a100-sxm4-80",
)
"""Parts that were measured under a limit, by name and id; the A100 of 80 GB by that of 40 GB."""
UNLIMITED = 1.05
"""Further x/÷ factor of a part that was not measured under a limit (an estimate)."""
NODE_DEVICES = 8.0
"""Devices of the usual node, as in the MLPerf runs."""


def mixed_precision(work: Work) -> Suggestion | None:
    """Return half precision for a job that still runs in single."""
    name, part = work.classified.name, work.present
    if work.request.precision not in ("fp32", "tf32"):
        return None
    if name not in ("training", "recsys") or not part.fp16_tensor_tflops:
        return None
    time = evidence(f"mixed-precision:{name}:{'tf32' if part.tf32_tflops else 'fp32'}", "time")
    if time is None:
        return None
    precision = "bf16" if part.bf16_tensor_tflops else "fp16"
    reasons = [
        f"mixed precision ({precision}) instead of {work.request.precision}",
        "power may rise to the rated power: the range holds that",
        "rule 62: how much faster depends on the kind of model",
    ]
    return _faster(work, "mixed-precision", time, reasons, f"same part, {precision}")


def quantise(work: Work) -> Suggestion | None:
    """Return four- or eight-bit weights for inference in 16 or 32 bits."""
    name, request = work.classified.name, work.request
    if name not in INFERENCE or request.kind in TRAINING:
        return None
    if request.precision not in (None, "fp32", "tf32", "fp16", "bf16"):
        return None
    wide = request.precision in ("fp32", "tf32")
    size = "4x smaller in 8 bits" if wide else "2x smaller in 8 bits, 4x in 4 bits"
    reasons = [ACCURACY, f"weights become {size} (rule 44)"]
    framework = (request.framework or "").lower()
    found: Suggestion | None = None
    if name == "llm-serving" and framework in ("", "vllm"):
        found = _eight_bits(work, reasons)
    elif name == "decode" and framework in ("pytorch", "torch") and not wide:
        found = _in_pytorch(work, reasons)
    elif framework == "llama.cpp" and not wide:
        time = evidence(f"quantise:{name}:fp16", "time")
        if time is not None:
            found = _faster(work, "quantise", time, reasons, "same part, 4-bit weights")
    if found:
        return found
    how = "what it saves follows from the software: 4 bits took 0.4 of the time in llama.cpp"
    how += " and 1.7 times the time in PyTorch with bitsandbytes (one sequence). Name framework"
    reasons.append("no measured pair of this class shows what it saves" if framework else how)
    return by_rule(work, "quantise", None, reasons)


def _in_pytorch(work: Work, reasons: list[str]) -> Suggestion | None:
    """Return four-bit weights of bitsandbytes, which take longer and draw less power."""
    parameters = work.request.model_parameters
    if parameters is None:
        return None
    size = "large" if parameters >= LARGE_QUANTISED else "small"
    four = time_and_energy(f"quantise:decode:pytorch:4:{size}")
    eight = time_and_energy(f"quantise:decode:pytorch:8:{size}")
    if four is None:
        return None
    reasons.append(
        f"bitsandbytes in 4 bits on {four[0].pairs} models, one sequence: {_span(four[0])} times "
        f"as long at {_span(four[1])} of the device's energy; the host runs as much longer"
    )
    if eight is not None:
        reasons.append(
            f"in 8 bits (LLM.int8) {_span(eight[0])} times as long and {_span(eight[1])} of the "
            "device's energy: that costs energy"
        )
    time, energy = (widened(one.ratio(), OTHER_MODELS) for one in four)
    point = "same part, 4-bit weights of bitsandbytes"
    return _with_ratios(
        work, "quantise", time=time, energy=energy, reasons=reasons, point=point, board=True
    )


def _eight_bits(work: Work, reasons: list[str]) -> Suggestion | None:
    """Return FP8 weights on half the devices where they hold it, else on the same ones."""
    part, batch = work.present, work.request.batch_size
    if not part.fp8_tflops or batch is None or work.request.precision is None:
        return None
    level = max((one for one in SERVING_LEVELS if one <= batch), default=SERVING_LEVELS[0])
    half = work.count / 2
    need = estimated_need(msgspec.structs.replace(work.request, precision="fp8"))
    fits = need is not None and half.is_integer() and need.fits(part.memory_gb or 0.0, half)
    name, count = ("half", half) if fits and level >= HALVED_FROM else ("same", work.count)
    found = time_and_energy(f"quantise:llm-serving:{name}:{level:g}")
    if found is None:
        return None
    time, energy = found
    reasons.append(
        f"FP8 instead of BF16 in vLLM on {_devices(work.count, count)}, at {level:g} sequences: "
        f"{_span(energy)} of the devices' energy in {_span(time)} of the time "
        f"({energy.pairs} pairs, {EIGHT_BIT_MODELS[name]})"
    )
    if name == "same":
        return by_rule(work, "quantise", None, reasons)
    return _with_ratios(
        work,
        "quantise",
        time=widened(time.ratio(), OTHER_MODELS),
        energy=widened(energy.ratio(), OTHER_MODELS),
        reasons=reasons,
        point=f"FP8 on {count:g} devices",
        count=count,
        board=True,
    )


def _devices(now: float, then: float) -> str:
    return "the same devices" if now == then else f"{then:g} instead of {now:g} devices"


def _span(one: Evidence) -> str:
    return f"{one.low:.2f} to {one.high:.2f}"


def batching(work: Work) -> Suggestion | None:
    """Return more concurrent sequences for language models."""
    name, batch = work.classified.name, work.request.batch_size
    if name not in INFERENCE or work.request.kind in TRAINING:
        return None
    if (work.request.framework or "").lower() in IN_TURN and (batch or 1.0) <= 1:
        text = "one user at a time has nothing to batch; several users would share each reading"
        return by_rule(work, "batching", None, [f"{text} of the weights (rule 43)"])
    if name in ("llm-serving", "decode") and batch is not None and not work.bottleneck.waits:
        return _more_sequences(work, batch)
    if batch is not None and batch > 1:
        return None
    text = "requests answered together share each reading of the weights (rule 43)"
    hint = "for the measured saving give workload_class llm-serving and batch_size from 8 on"
    return by_rule(work, "batching", None, [text, hint])


def _more_sequences(work: Work, batch: float) -> Suggestion | None:
    """Return the most further sequences, up to two steps, that the memory holds."""
    reached = [at for at, level in enumerate(SERVING_LEVELS) if level <= batch]
    first = reached[-1] if reached else 0
    steps = range(min(first + BATCH_STEPS, len(SERVING_LEVELS) - 1), first, -1)
    many = next((SERVING_LEVELS[at] for at in steps if _has_room(work, SERVING_LEVELS[at])), 0)
    few = SERVING_LEVELS[first]
    found = time_and_energy(f"batching:llm-serving:{few:g}:{many:g}")
    if found is None:
        return None
    time, energy = found
    reasons = [
        f"{many:g} concurrent sequences instead of {batch:g}, as far as latency allows (rule 43)",
        f"measured on {energy.pairs} pairs of model, task and part; memory for them must be free",
    ]
    if batch < few:
        reasons.append(f"measured from {few:g} sequences on; from {batch:g} it saves more")
    return _with_ratios(
        work,
        "batching",
        time=time.ratio(),
        energy=energy.ratio(),
        reasons=reasons,
        point=f"{many:g} sequences",
        board=True,
    )


def _faster(
    work: Work, action: Action, measured: Evidence, reasons: list[str], point: str
) -> Suggestion:
    """Return a measured time ratio; power rises, if at all, by as much as the job gets faster."""
    time = measured.ratio()
    energy = faster(work, time, _rated_over_mean(work))
    reasons.append(f"measured on {measured.pairs} pairs of runs on the same part")
    return _with_ratios(work, action, time=time, energy=energy, reasons=reasons, point=point)


def _rated_over_mean(work: Work) -> float:
    """Return rated over mean power of the device, at least 1."""
    rated, power = work.present.tdp_w, work.power_w
    if rated and power is not None:
        return max(1.0, rated / power.value)
    return 1 / power_share(work.classified.name).value


def _has_room(work: Work, batch: float) -> bool:
    """Tell whether the larger batch fits by the low estimate of memory; unknown counts as yes."""
    need, memory = (
        estimated_need(msgspec.structs.replace(work.request, batch_size=batch)),
        work.present.memory_gb,
    )
    return need is None or memory is None or need.fits(memory, work.count)


def fewer_nodes(work: Work) -> Suggestion | None:
    """Return training on fewer nodes: slower, and less energy a run."""
    if work.classified.name != "training" or work.count < 2 * NODE_DEVICES:
        return None
    fewer, memory = max(NODE_DEVICES, work.count / 8), work.present.memory_gb
    if not work.need or not memory or not work.need.fits(memory, fewer):
        return None
    found = time_and_energy("fewer-nodes:8:64")
    if found is None:
        return None
    time, energy = found
    if work.count > MEASURED_DEVICES:
        text = f"fewer nodes save energy at {MEASURED_DEVICES} devices; nothing was measured beyond"
        return by_rule(work, "fewer-nodes", None, [text], sources=(energy.titles,))
    exponent = math.log(work.count / fewer, 8)
    reasons = [
        f"{fewer:g} devices instead of {work.count:g}: links and waiting cost energy at scale",
        f"measured on {energy.pairs} runs on 8 against 64 or 72 H100; here for a factor of "
        f"{work.count / fewer:g}, on a scale of doublings",
        f"memory: {work.need.arithmetic}",
    ]
    return _with_ratios(
        work,
        "fewer-nodes",
        time=time.ratio(exponent),
        energy=energy.ratio(exponent),
        reasons=reasons,
        point=f"{fewer:g} devices",
        count=fewer,
    )


def power_cap(work: Work) -> Suggestion | None:
    """Return a lower power limit: measured for training by mean power, else a slowdown at most."""
    name, part = work.classified.name, work.present
    if part.vendor != "NVIDIA" or name in ("small", None) or work.bottleneck.waits:
        return None
    if "edge" in part.intended_use and part.device_class != "gpu":
        return None  # nvidia-smi limits no Jetson
    if name == "training" and part.tdp_w and not work.impossible:
        found = _limited(work, part, part.tdp_w)
        if found is not None:
            return found
    slowdown = evidence(f"power-cap:{name}", "time")
    hint = "nvidia-smi -pl lowers the limit; try 10 % steps and compare energy per unit"
    if slowdown is None:
        text = "no measured pair of this class and power shows what it saves"
        return by_rule(work, "power-cap", None, [hint, text])
    text = (
        f"in MaxQ mode H200 systems took {slowdown.low:.2f} to {slowdown.high:.2f} times as long; "
        "the energy of the unlimited runs was not published, so no saving is claimed"
    )
    return by_rule(work, "power-cap", None, [hint, text], sources=(slowdown.titles,))


def _limited(work: Work, part: Hardware, rated_w: float) -> Suggestion | None:
    """Return the limit for the job's mean power; None if that is unknown or too low to matter."""
    share = mean_power_share(work.request, part)
    least = next((least for least in LIMITS if share is not None and share >= least), None)
    if share is None or least is None:
        return None
    found = time_and_energy(f"power-cap:training:{least:.0%}")
    if found is None:
        return None
    time, energy = found
    limit_w = LIMITS[least] * rated_w
    ratios = [time.ratio(), energy.ratio()]
    reasons = [
        f"nvidia-smi -pl {limit_w:.0f} (administrator): {LIMITS[least]:.0%} of the rated "
        f"{rated_w:g} W, at a mean of {share:.0%} now. It can be taken back at any time",
        f"measured on {energy.pairs} trainings and stages on {LIMITED_PARTS}: "
        f"{energy.low:.2f} to {energy.high:.2f} of the device's energy in {time.low:.2f} to "
        f"{time.high:.2f} times the time; the host runs as much longer",
    ]
    if part.id not in LIMITED_IDS:
        ratios = [widened(one, UNLIMITED) for one in ratios]
        reasons.append(f"{part.id} was not measured: the range is wider")
    return _with_ratios(
        work,
        "power-cap",
        time=ratios[0],
        energy=ratios[1],
        reasons=reasons,
        point=f"{limit_w:.0f} W a device",
        board=True,
    )


def _with_ratios(
    work: Work,
    action: Action,
    *,
    time: Quantity,
    energy: Quantity,
    reasons: list[str],
    point: str,
    count: float | None = None,
    board: bool = False,
) -> Suggestion:
    """Return a suggestion on the present part with known time and energy ratios.

    `board` says that the energy is that of the devices alone, and the host's follows from the time.
    """
    devices = work.count if count is None else count
    if board:
        share = devices / work.count
        energy = with_host(work, work.present, time, energy, moves=False, devices=share)
    return by_rule(
        work,
        action,
        _carbon_ratio(work, time, energy, devices / work.count),
        reasons,
        count=devices,
        time_ratio=time,
        energy_ratio=energy,
        operating_point=point,
        sources=(time.source, energy.source),
    )


def _carbon_ratio(work: Work, time: Quantity, energy: Quantity, devices: float) -> Quantity | None:
    """Return (O e + M t n) / (O + M), n the ratio of device counts; M stays for owned devices."""
    operational, embodied = work.operational_g_h, work.embodied_g_h
    if operational is None or embodied is None:
        return None
    if work.ownership != "rented":
        return kept(work, energy)
    inputs = {"time": time, "energy": energy, "O": operational, "M": embodied}

    def formula(at: Values) -> float:
        new = at["O"] * at["energy"] + at["M"] * at["time"] * devices
        return new / (at["O"] + at["M"])

    return ratio_of(formula, inputs, f"{energy.source}; embodied {embodied.source}")
