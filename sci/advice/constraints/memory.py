"""Memory that a model needs, with its arithmetic: the hard filter of every hardware suggestion.

Needs are low estimates, so that a refusal is certain and an acceptance is not: attention cache and
activations beyond the margin are not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from gramwatt.sci.advice.suggest_request import SuggestRequest
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.figures.units import BYTES_PER_GIB

BYTES = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
}
"""Bytes of one weight by precision."""
TRAINING_BYTES = 16.0
"""Full training with Adam: weights, gradients, two moments and, in mixed precision, a 32-bit copy
(2 + 2 + 4 + 4 + 4, or 4 + 4 + 4 + 4 in single precision; arXiv:1910.02054 section 3.1)."""
ADAPTER_SHARE = 0.01
"""Trained share of weights in low-rank adaptation, an upper value (arXiv:2106.09685)."""
MARGIN = 1.1
"""On measured peaks and on sums: what the framework holds besides (an estimate)."""
STREAMED_BELOW_GB = 0.1
"""On-chip memory below which a part reads weights from its host while it runs (Coral Edge TPU)."""
STREAMED_GIB = 1.0
"""Largest model that is read so: its link takes seconds for more (a choice)."""
CONTEXT_TOKENS = 2048.0
"""Context taken for the attention cache where none is known."""
CACHE_BYTES_PER_LAYER_WIDTH = 4.0
"""Keys and values of two bytes each."""
WIDTH_PER_LAYER = 128.0
"""Width over depth of published dense models: LLaMA 7B 4096/32, 13B 5120/40, GPT-3 12288/96."""
GROUPED_QUERIES = 8.0
"""Sharing of keys and values among query heads in current models; the low end of the cache."""
ASSUMED_PRECISION = "bf16"


@dataclass(frozen=True, slots=True)
class Need:
    """Memory needed [GiB]: of all devices together where weights can be split, else of each."""

    total_gib: float | None
    each_gib: float | None
    arithmetic: str

    def fits(self, memory_gb: float, count: float) -> bool:
        """Tell whether that many devices of that memory hold it; marketed GB are GiB."""
        if self.each_gib is not None:
            return self.each_gib <= memory_gb
        return self.devices(memory_gb) <= count

    def devices(self, memory_gb: float) -> int:
        """Return the least number of devices, where the need can be split among them."""
        return math.ceil((self.total_gib or 0.0) / memory_gb) or 1


def memory_need(request: SuggestRequest) -> Need | None:
    """Return the need: the measured peak before arithmetic on parameters; None without both."""
    if request.peak_memory_gb is not None:
        need = request.peak_memory_gb * MARGIN
        text = f"measured peak {request.peak_memory_gb:g} GiB x {MARGIN} = {need:.1f} GiB a device"
        return Need(None, need, text)
    if request.model_parameters is None:
        return None
    if request.trains:
        return _training(request, request.model_parameters)
    return _inference(request, request.model_parameters)


def estimated_need(request: SuggestRequest) -> Need | None:
    """Return the need by arithmetic on parameters alone, whatever was measured."""
    return memory_need(msgspec.structs.replace(request, peak_memory_gb=None))


def shortfall(need: Need | None, target: Hardware, count: float) -> list[str]:
    """Return the arithmetic of a refusal, empty where the memory suffices or nothing is known."""
    if need is None or target.memory_gb is None or need.fits(target.memory_gb, count):
        return []
    if _streams(need, target):
        return []
    has = f"{count:g} x {target.memory_gb:g} GiB of {target.id}"
    text = f"memory: {need.arithmetic}, more than {has}"
    if need.each_gib is None:
        text += f"; {need.devices(target.memory_gb)} of them would hold it"
    return [text]


def fit_notes(need: Need | None, target: Hardware, count: float) -> list[str]:
    """Return the arithmetic where the memory suffices, or what is not known."""
    if need is None:
        return ["whether the job fits its memory is not known: give peak_memory_gb"]
    if target.memory_gb is None:
        return [f"the memory of {target.id} is not in the catalog"]
    if _streams(need, target):
        return [f"{target.id} reads weights beyond its {target.memory_gb:g} GiB from its host"]
    return [f"memory: {need.arithmetic}, within {count:g} x {target.memory_gb:g} GiB"]


def _streams(need: Need, target: Hardware) -> bool:
    """Tell whether the part reads a model of this size from its host while it runs."""
    small = (need.each_gib or need.total_gib or 0.0) <= STREAMED_GIB
    return small and target.memory_gb is not None and target.memory_gb < STREAMED_BELOW_GB


def _training(request: SuggestRequest, parameters: float) -> Need:
    if request.method in ("lora", "qlora"):
        weight = 0.5 if request.method == "qlora" else _weight(request)
        size = weight + ADAPTER_SHARE * TRAINING_BYTES
        how = f"{weight:g} B weights + {ADAPTER_SHARE:.0%} adapters at {TRAINING_BYTES:g} B"
    else:
        size = TRAINING_BYTES
        how = f"{TRAINING_BYTES:g} B of weights, gradients and optimizer states"
    total = parameters * size / BYTES_PER_GIB * MARGIN
    text = (
        f"{parameters:.3g} parameters x ({how}) x {MARGIN} = {total:.1f} GiB, activations beyond "
        "the margin not counted"
    )
    return Need(total, None, text)


def _inference(request: SuggestRequest, parameters: float) -> Need:
    weight = _weight(request)
    cache = _cache_gib(parameters) * (request.batch_size or 1.0)
    total = (parameters * weight / BYTES_PER_GIB + cache) * MARGIN
    text = (
        f"({parameters:.3g} parameters x {weight:g} B + attention cache {cache:.2g} GiB) "
        f"x {MARGIN} = {total:.1f} GiB"
    )
    return Need(total, None, text)


def _cache_gib(parameters: float) -> float:
    """Return the attention cache of one sequence [GiB]: parameters = 12 x layers x width^2."""
    layers = math.cbrt(parameters / (12 * WIDTH_PER_LAYER**2))
    width = WIDTH_PER_LAYER * layers
    each = CACHE_BYTES_PER_LAYER_WIDTH * layers * width / GROUPED_QUERIES
    return each * CONTEXT_TOKENS / BYTES_PER_GIB


def _weight(request: SuggestRequest) -> float:
    return BYTES[request.precision or ASSUMED_PRECISION]
