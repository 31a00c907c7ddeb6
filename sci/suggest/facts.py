"""What can do the work at all: memory with its arithmetic, software, precision, offer, use.

A need of memory is a low estimate, so that a refusal is certain and an acceptance is not:
activations beyond the margin are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.instances import SLICED, Instance
from gramwatt.sci.estimate.serving import MARGIN, WEIGHT_BYTES, Model
from gramwatt.sci.figures.formatting import percent
from gramwatt.sci.figures.units import BYTES_PER_GIB
from gramwatt.sci.suggest.documents import MISFIT, LeftOutDoc
from gramwatt.sci.suggest.request import SuggestRequest

BYTES = {**WEIGHT_BYTES, "fp64": 8.0}
"""Bytes of one weight by precision."""
ASSUMED_PRECISION = "bf16"
TRAINING_BYTES = 16.0
"""Full training with Adam: weights, gradients, two moments and, in mixed precision, a 32-bit copy
(2 + 2 + 4 + 4 + 4, or 4 + 4 + 4 + 4 in single precision; arXiv:1910.02054 section 3.1)."""
ADAPTER_SHARE = 0.01
"""Trained fraction of weights in low-rank adaptation, an upper value (arXiv:2106.09685)."""
STREAMED_BELOW_GB, STREAMED_GIB = 0.1, 1.0
"""On-chip memory below which a part reads weights from its host while it runs (Coral Edge TPU), and
the largest model that is read so (a choice)."""
CONTEXT_TOKENS = 2048.0
"""Context taken for the attention cache where none is known."""
FEWER_BITS = (("fp8", "8"), ("int8", "8"), ("int4", "4"))
LARGE_PARAMETERS = 1e9
"""Models from this size on are not trained whole on a laptop's chip (a choice)."""
ROCM = ("ROCm", "ROCm (limited)", "ROCm (old releases)")
_ANY = ("CUDA", *ROCM)
FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "pytorch": (
        *(*_ANY, "Neuron", "PyTorch", "PyTorch (native)", "PyTorch (internal)"),
        *("PyTorch/XLA", "PyTorch HPU", "PyTorch MPS"),
    ),
    "jax": (*_ANY, "XLA/JAX"),
    "tensorflow": (*_ANY, "TensorFlow", "Neuron"),
    "vllm": (*_ANY, "Neuron", "PyTorch/XLA", "PyTorch HPU"),
    "llama.cpp": (*_ANY, "MLX"),
    "exllamav2": _ANY,
    **dict.fromkeys(("tensorrt", "tensorrt-llm", "cuda"), ("CUDA",)),
    "mlx": ("MLX",),
    "neuron": ("Neuron",),
    **dict.fromkeys(("tflite", "android", "ios"), ("TFLite",)),
}
"""Software stacks, as the catalog's column `software` names them, that run a framework (vendors'
documentation)."""
NATIVE: Mapping[str, tuple[str, ...]] = {
    "jax": ("XLA/JAX",),
    "tensorflow": ("TensorFlow",),
    "pytorch": ("PyTorch (native)",),
}
"""Stacks that run a framework as it is; the rest of FRAMEWORKS takes what PORTING says."""
PORTING: Mapping[str, str] = {
    **dict.fromkeys(
        ("XLA/JAX", "PyTorch/XLA"), "supported through PyTorch/XLA with porting effort"
    ),
    "Neuron": "needs the Neuron SDK and ahead-of-time compilation",
    **dict.fromkeys(ROCM, "runs on ROCm; check each custom CUDA kernel"),
    "PyTorch HPU": "needs the Gaudi software's PyTorch bridge",
}
"""What moving to a part with that software takes; the first that it has counts."""


class Need(Struct, frozen=True):
    """Memory needed [GiB]: of all devices together where weights can be split, else of each."""

    total_gib: float | None
    each_gib: float | None
    arithmetic: str

    @property
    def least_gib(self) -> float:
        """Return what is needed, of each device or of all together."""
        return self.each_gib or self.total_gib or 0.0

    def fits(self, memory_gb: float, count: float) -> bool:
        """Tell whether that many devices of that memory hold it; marketed GB are GiB."""
        if self.each_gib is not None:
            return self.each_gib <= memory_gb
        return self.devices(memory_gb) <= count

    def devices(self, memory_gb: float) -> int:
        """Return the least number of devices, where the need can be split among them."""
        return math.ceil((self.total_gib or 0.0) / memory_gb) or 1

    def streams(self, part: Hardware) -> bool:
        """Tell whether the part reads a model of this size from its host while it runs."""
        small = (self.each_gib or self.total_gib or 0.0) <= STREAMED_GIB
        return small and part.memory_gb is not None and part.memory_gb < STREAMED_BELOW_GB


def memory_need(request: SuggestRequest) -> Need | None:
    """Return the need: the measured peak before arithmetic on parameters; None without both."""
    if request.peak_memory_gb is not None:
        need = request.peak_memory_gb * MARGIN
        text = f"measured peak {request.peak_memory_gb:g} GiB x {MARGIN} = {need:.1f} GiB a device"
        return Need(None, need, text)
    if request.model_parameters is None:
        return None
    return estimated_need(request)


def estimated_need(request: SuggestRequest, **changes: object) -> Need | None:
    """Return the need by arithmetic on parameters alone, with these fields of the request.

    Whole training takes 16 B a parameter, adaptation the weights and their adapters, inference the
    weights and the attention cache of each sequence (`serving.Model`).
    """
    request = msgspec.structs.replace(request, **changes)
    parameters = request.model_parameters
    if parameters is None:
        return None
    weight = BYTES[request.precision or ASSUMED_PRECISION]
    if not request.trains:
        model, sequences = Model(parameters, parameters, weight), request.batch_size or 1.0
        cache = sequences * model.cache_bytes(CONTEXT_TOKENS) / BYTES_PER_GIB
        total = model.memory_gib(sequences, CONTEXT_TOKENS)
        text = f"({parameters:.3g} parameters x {weight:g} B + attention cache {cache:.2g} GiB) "
        return Need(total, None, f"{text}x {MARGIN} = {total:.1f} GiB")
    size, how = TRAINING_BYTES, f"{TRAINING_BYTES:g} B of weights, gradients and optimizer states"
    if request.method in ("lora", "qlora"):
        weight = 0.5 if request.method == "qlora" else weight
        size = weight + ADAPTER_SHARE * TRAINING_BYTES
        how = f"{weight:g} B weights + {percent(ADAPTER_SHARE)} adapters at {TRAINING_BYTES:g} B"
    total = parameters * size / BYTES_PER_GIB * MARGIN
    text = f"{parameters:.3g} parameters x ({how}) x {MARGIN} = {total:.1f} GiB, activations apart"
    return Need(total, None, text)


def smaller_need(
    request: SuggestRequest, part: Hardware, count: float
) -> tuple[str, Mapping[str, str], Need] | None:
    """Return the least change of method or bits with which the model fits: words, fields, need."""
    if request.peak_memory_gb is not None or not part.memory_gb:
        return None
    changes: Iterable[tuple[str, dict[str, str]]]
    if request.trains:
        changes = ((name, {"method": name.lower()}) for name in ("LoRA", "QLoRA"))
    else:
        changes = (
            (f"{bits}-bit weights", {"precision": name})
            for name, bits in FEWER_BITS
            if name != "fp8" or part.fp8_tflops
        )
    now = estimated_need(request)
    for words, change in changes:
        need = estimated_need(request, **change)
        less = need and now and (need.total_gib or 0.0) < (now.total_gib or 0.0)
        if need and less and need.fits(part.memory_gb, count):
            return words, change, need
    return None


def left_out(
    request: SuggestRequest,
    part: Hardware,
    count: float,
    need: Need | None,
    offered: frozenset[str] | None,
) -> LeftOutDoc | None:
    """Return why so many of a part cannot run the job, in a word, and what mends it; None if can.

    `offered` are the parts that the provider rents out, None where that is not known.
    """
    where = request.cloud
    lacks = lacks_units(request, part)
    stacks = FRAMEWORKS.get(request.library)
    edge = "edge" in part.intended_use
    word = reason = fix = None
    if offered is not None and part.id not in offered:
        word = "not offered there"
        reason = f"no instance of {request.full_region or where} has it, by the catalog"
    elif part.availability == "internal":
        word, reason = "not for sale", f"it is neither sold nor rented out ({part.form_factor})"
    elif stacks is not None and not set(stacks) & set(part.software):
        word = "other software"
        reason = f"{request.framework} does not run on it (it has {'; '.join(part.software)})"
    elif lacks:
        word, reason, fix = lacks
    elif request.constraint == "edge" and not edge:
        word, reason = "not for the edge", "it is not made for the edge"
    elif request.constraint != "none" and part.availability != "sold" and not edge:
        word, reason = "cloud only", "it exists in its vendor's cloud only"
    elif use := _lacks_use(request, part):
        word, reason = "other use", use
    elif need and part.memory_gb and not need.fits(part.memory_gb, count):
        if need.streams(part):
            return None
        word = MISFIT
        has = f"{part.memory_gb:g} GiB" if need.each_gib else f"{count:g} x {part.memory_gb:g} GiB"
        reason = f"needs {need.least_gib:.1f} GiB, has {has} ({need.arithmetic})"
        fix = _fitting(request, part, count, need)
    if word is None or reason is None:
        return None
    return LeftOutDoc(part.id, part.label, word, reason, fix)


def _fitting(request: SuggestRequest, part: Hardware, count: float, need: Need) -> str | None:
    """Return the cheapest way to fit: fewer bits, or more devices."""
    smaller = smaller_need(request, part, count)
    if smaller:
        return f"{smaller[0]} would ({smaller[2].total_gib:.1f} GiB)"
    if need.each_gib is None and part.memory_gb:
        return f"{need.devices(part.memory_gb)} of them hold it"
    return None


def lacks_units(request: SuggestRequest, part: Hardware) -> tuple[str, str, str | None] | None:
    """Return the word, reason and remedy of units that a part lacks for the precision.

    PyTorch computes BF16 without units for it, only slower; vLLM refuses to (its documents).
    """
    if part.fp16_tensor_tflops is None:
        return None
    if request.precision == "bf16" and part.bf16_tensor_tflops is None:
        scaled = ", with loss scaling" if request.trains else ""
        return "no BF16", "it has no BF16 units", f"FP16 runs there{scaled}"
    if request.precision == "fp4" and request.trains and "fp4" not in part.peak_other:
        return "no FP4", "it has no FP4 units", "FP8 or 16 bits run there"
    if request.precision == "fp8" and not (part.fp8_tflops or holds_fp8_weights(request, part)):
        return "no FP8", "it has no FP8 units", "INT8 or 16 bits run there"
    return None


def wider_units(request: SuggestRequest, part: Hardware) -> str | None:
    """Return that a part holds the weights and computes in wider units; None where it has them."""
    if request.precision == "fp4" and "fp4" not in part.peak_other:
        return "it holds 4-bit weights and computes in wider units"
    if holds_fp8_weights(request, part):
        return "vLLM holds FP8 weights there and computes in 16 bits: memory is saved alone"
    return None


def holds_fp8_weights(request: SuggestRequest, part: Hardware) -> bool:
    """Tell whether vLLM runs FP8 weights on a part without FP8 units, with activations in 16 bits.

    Its documents say so of Turing and Ampere (compute capability 7.5 to 8.6, W8A16 by Marlin).
    """
    fits = part.architecture.startswith(("Turing", "Ampere")) and "CUDA" in part.software
    serves = request.library == "vllm" and not request.trains
    return request.precision == "fp8" and serves and fits and part.fp8_tflops is None


def _lacks_use(request: SuggestRequest, part: Hardware) -> str | None:
    """Return why a part cannot train; None where it can. GPUs are never refused for their use."""
    if not request.trains or part.device_class == "gpu" or "training" in part.intended_use:
        return None
    sold = f"it is made for {' and '.join(part.intended_use)}"
    if part.device_class == "accelerator":
        return f"{sold}, not for training"
    whole = (request.model_parameters or 0.0) >= LARGE_PARAMETERS
    large = whole or request.tokens is not None or (request.count or 1.0) > 1
    if large and request.method not in ("lora", "qlora"):
        return f"{sold}, not for training a model of this size"
    return None


def porting(request: SuggestRequest, part: Hardware, now: Hardware | None) -> str | None:
    """Return what moving the job's framework to a part takes; None where it runs as it is.

    That is so where the framework is native there, or the present part has the same software.
    """
    name = request.library
    if now is not None and set(now.software) & set(part.software) & set(FRAMEWORKS.get(name, _ANY)):
        return None
    if set(part.software) & {"CUDA", *NATIVE.get(name, ())} or (not name and now is None):
        return None
    hints = (text for stack, text in PORTING.items() if stack in part.software)
    return next(hints, None)


def offered_parts(
    catalog: Catalog, provider: str | None, region: str | None = None
) -> frozenset[str] | None:
    """Return the parts in the provider's instances of the catalog; None where it lists none.

    Instances of which the catalog knows that a `region` lacks them do not count there.
    """
    if provider is None:
        return None
    rented = frozenset(row.hardware for row in instances_of(catalog, provider, region=region))
    return rented | SLICED if provider == "gcp" else rented or None


def instances_of(
    catalog: Catalog,
    provider: str | None = None,
    part: Hardware | None = None,
    region: str | None = None,
) -> list[Instance]:
    """Return the instances of a provider, with a part, in a region, the smallest first."""
    rows = (
        row
        for row in catalog.all_instances()
        if (provider is None or row.provider == provider)
        and (part is None or row.hardware == part.id)
        and (region is None or not row.regions or region in row.regions)
    )
    return sorted(rows, key=devices_of)


def devices_of(instance: Instance) -> float:
    """Return the fewest devices that an instance comes with."""
    return float(instance.count or instance.count_low or 1)
