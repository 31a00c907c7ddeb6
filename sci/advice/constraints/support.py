"""What may run where: framework and precision support, providers, offline and edge constraints."""

from __future__ import annotations

from collections.abc import Mapping

from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.suggest_request import SuggestRequest
from gramwatt.sci.catalog.catalog import Hardware

_ROCM = ("ROCm", "ROCm (limited)", "ROCm (old releases)")
_ANY = ("CUDA", *_ROCM)
_PYTORCH = (
    "PyTorch",
    "PyTorch (native)",
    "PyTorch (internal)",
    "PyTorch/XLA",
    "PyTorch HPU",
    "PyTorch MPS",
)
FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "pytorch": (*_ANY, *_PYTORCH, "Neuron"),
    "jax": (*_ANY, "XLA/JAX"),
    "tensorflow": (*_ANY, "TensorFlow", "Neuron"),
    "vllm": (*_ANY, "Neuron", "PyTorch/XLA", "PyTorch HPU"),
    "llama.cpp": (*_ANY, "MLX"),
    "tensorrt": ("CUDA",),
    "tensorrt-llm": ("CUDA",),
    "cuda": ("CUDA",),
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
    **dict.fromkeys(_ROCM, "runs on ROCm; check each custom CUDA kernel"),
    "PyTorch HPU": "needs the Gaudi software's PyTorch bridge",
}
"""What moving to a part with that software takes; the first that it has counts."""
LARGE_PARAMETERS = 1e9
"""Models from this size on are not trained whole on a laptop's chip: a choice, not measured."""


def refusals(request: SuggestRequest, part: Hardware, offered: frozenset[str] | None) -> list[str]:
    """Return why the part cannot run the job, memory excepted; empty where it can.

    `offered` are the parts that the provider rents out, None where that is not known.
    """
    reasons = [
        _framework(request, part),
        _precision(request, part),
        _provider(request, part, offered),
        _constraint(request, part),
        _in_house(part),
        _use(request, part),
    ]
    return [reason for reason in reasons if reason]


def porting_notes(
    request: SuggestRequest, part: Hardware, now: Hardware | None = None
) -> list[str]:
    """Return what moving the job's framework there takes, where it is possible.

    Nothing where the framework is native there, or `now`, the present part, has the same software.
    """
    name = (request.framework or "").lower()
    if name not in FRAMEWORKS or set(part.software) & {"CUDA", *NATIVE.get(name, ())}:
        return []
    if now is not None and set(now.software) & set(part.software) & set(FRAMEWORKS[name]):
        return []
    hints = [text for stack, text in PORTING.items() if stack in part.software]
    return [f"{request.framework} on {part.id}: {hint}" for hint in hints[:1]]


def _framework(request: SuggestRequest, part: Hardware) -> str | None:
    wanted = FRAMEWORKS.get((request.framework or "").lower())
    if wanted is None or set(wanted) & set(part.software):
        return None
    return (
        f"{request.framework} does not run on {part.id} (its software: {'; '.join(part.software)})"
    )


def lacks_units(request: SuggestRequest, part: Hardware) -> str | None:
    """Return why the part cannot run the job's FP8, or its BF16 in vLLM; None where it can.

    PyTorch computes BF16 without units for it, only slower; vLLM refuses to (its documents).
    """
    if part.fp16_tensor_tflops is None:
        return None
    if request.precision == "bf16" and part.bf16_tensor_tflops is None and _serves_in_vllm(request):
        return f"{part.id} has no BF16 units, which vLLM requires: fp16 runs there"
    if request.precision != "fp8" or part.fp8_tflops or holds_fp8_weights(request, part):
        return None
    return f"{part.id} has no FP8 units"


def precision_notes(request: SuggestRequest, part: Hardware) -> list[str]:
    """Return how a part without FP8 units runs the job's FP8 weights; empty for all others."""
    if not holds_fp8_weights(request, part):
        return []
    return [
        f"vLLM holds FP8 weights on {part.id} and computes in 16 bits (W8A16, weight-only): memory "
        "is saved, and the rates of FP8 units are not there"
    ]


def holds_fp8_weights(request: SuggestRequest, part: Hardware) -> bool:
    """Tell whether vLLM runs FP8 weights on a part without FP8 units, with activations in 16 bits.

    Its documents say so of Turing and Ampere (compute capability 7.5 to 8.6, W8A16 by Marlin).
    """
    fits = part.architecture.startswith(("Turing", "Ampere")) and "CUDA" in part.software
    fp8 = request.precision == "fp8" and _serves_in_vllm(request)
    return fp8 and fits and part.fp8_tflops is None


def _serves_in_vllm(request: SuggestRequest) -> bool:
    return (request.framework or "").lower() == "vllm" and not request.trains


def _precision(request: SuggestRequest, part: Hardware) -> str | None:
    lacks, half = lacks_units(request, part), part.fp16_tensor_tflops
    if lacks:
        return lacks
    if request.precision == "bf16" and part.bf16_tensor_tflops is None and half is not None:
        return f"{part.id} has no BF16 units; FP16 would need loss scaling"
    return None


def _provider(
    request: SuggestRequest, part: Hardware, offered: frozenset[str] | None
) -> str | None:
    if offered is None or part.id in offered:
        return None
    return f"the catalog lists no instance of {request.cloud} with {part.id}"


def _constraint(request: SuggestRequest, part: Hardware) -> str | None:
    if request.constraint == "none":
        return None
    edge = "edge" in part.intended_use
    if rented_only(part) and not edge:
        where = request.constraint
        return f"{part.id} exists in its vendor's cloud only, and the job must run {where}"
    if request.constraint == "edge" and not edge:
        return f"{part.id} is not made for the edge"
    return None


def _in_house(part: Hardware) -> str | None:
    if part.availability != "internal":
        return None
    return f"{part.id} is neither sold nor rented out ({part.form_factor})"


def _use(request: SuggestRequest, part: Hardware) -> str | None:
    """Return the parts that cannot train, and chips of laptops where a large model is trained.

    GPUs are never refused for what they are sold for: an L4 trains too.
    """
    made_for_it = part.device_class == "gpu" or "training" in part.intended_use
    if not request.trains or made_for_it:
        return None
    sold = " and ".join(part.intended_use)
    if part.device_class == "accelerator":
        return f"{part.id} is made for {sold}, not for training"
    if request.method in ("lora", "qlora") or not _large(request):
        return None
    return f"{part.id} is made for {sold}, not for training a model of this size"


def _large(request: SuggestRequest) -> bool:
    whole = (request.model_parameters or 0.0) >= LARGE_PARAMETERS
    return whole or request.tokens is not None or (request.count or 1.0) > 1
