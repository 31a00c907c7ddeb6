"""What may run where: framework and precision support, providers, offline and edge constraints."""

from __future__ import annotations

from collections.abc import Mapping

from gramwatt.sci.advice.constraints.availability import in_house, rented_only
from gramwatt.sci.advice.request import SuggestQuestion
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.catalog.catalog import Catalog, Hardware

_ANY = ("CUDA", "ROCm")
FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "pytorch": (*_ANY, "PyTorch", "Neuron"),
    "jax": (*_ANY, "JAX"),
    "tensorflow": (*_ANY, "TensorFlow", "Neuron", "JAX"),
    "vllm": (*_ANY, "Neuron", "PyTorch/XLA", "HPU"),
    "llama.cpp": (*_ANY, "MLX"),
    "tensorrt": ("CUDA",),
    "tensorrt-llm": ("CUDA",),
    "cuda": ("CUDA",),
    "mlx": ("MLX",),
    "neuron": ("Neuron",),
    "tflite": ("TFLite",),
}
"""Software stacks, as the catalog names them, that run a framework (vendors' documentation)."""

PORTING: Mapping[str, str] = {
    "XLA": "supported through PyTorch/XLA with porting effort",
    "Neuron": "needs the Neuron SDK and ahead-of-time compilation",
    "ROCm": "runs on ROCm; check each custom CUDA kernel",
    "HPU": "needs the Gaudi software's PyTorch bridge",
}
LARGE_PARAMETERS = 1e9
"""Models from this size on are not trained whole on a laptop's chip: a choice, not measured."""
PROVIDERS: Mapping[str, str] = {"amazon": "aws", "google": "gcp", "microsoft": "azure"}
"""What providers are called besides."""
_COMPANY: Mapping[str, str] = {"google-colab": "gcp"}
"""Providers whose instances run in the regions of another."""
STACKS: Mapping[str, str] = {
    "pytorch": "pytorch",
    "torch": "pytorch",
    "tensorrt": "tuned",
    "tensorrt-llm": "tuned",
    "llama.cpp": "llama.cpp",
    "vllm": "vllm",
}
"""Frameworks of the measurements; "tuned" are vendors' own entries of MLPerf."""


def refusals(
    question: SuggestQuestion, part: Hardware, offered: frozenset[str] | None
) -> list[str]:
    """Why the part cannot take the job, apart from memory; empty when nothing speaks against it."""
    found = [
        _framework(question, part),
        _precision(question, part),
        _provider(question, part, offered),
        _constraint(question, part),
        _in_house(part),
        _use(question, part),
    ]
    return [reason for reason in found if reason]


def remarks(question: SuggestQuestion, part: Hardware) -> list[str]:
    """What moving there takes, where it is possible."""
    name = (question.framework or "").lower()
    software = " ".join(part.software)
    if name not in FRAMEWORKS or "CUDA" in software:
        return []
    hints = [text for key, text in PORTING.items() if key in software]
    return [f"{question.framework} on {part.id}: {hint}" for hint in hints[:1]]


def offers(catalog: Catalog, provider: str | None) -> frozenset[str] | None:
    """Parts in the provider's instances of the catalog; None where it lists none of them."""
    found = frozenset(
        one.hardware for one in catalog.all_instances() if one.provider == (provider or "")
    )
    return found or None


def price_of(catalog: Catalog, provider: str, part: str) -> str | None:
    """The cheapest dated list price of a device of that part at that provider, as a sentence."""
    found = [
        (one.price.usd_per_hour / one.count, one)
        for one in catalog.all_instances()
        if one.provider == provider and one.hardware == part and one.price and one.count
        if one.share == 1
    ]
    if not found:
        return None
    dollars, best = min(found, key=lambda item: item[0])
    assert best.price is not None
    return (
        f"money, apart from carbon: {dollars:.2f} USD/h a device on demand ({best.id}, "
        f"{best.price.region}, {best.price.date})"
    )


def provider_of(question: SuggestQuestion) -> str | None:
    """The cloud provider: given, or that of the region or instance."""
    return next(iter(_providers(question)), None)


def one_provider(question: SuggestQuestion) -> None:
    """Raise ScoreError where provider, region and instance are not of one provider."""
    named = _providers(question)
    if len({_COMPANY.get(name, name) for name in named}) > 1:
        text = f"provider, region and instance name {' and '.join(named)}: give those of one"
        raise ScoreError(text, code="conflicting-fields")


def _providers(question: SuggestQuestion) -> list[str]:
    """The providers that the question names, in the catalog's words, the most explicit first."""
    prefixed = (name for name in (question.region, question.instance) if name and ":" in name)
    named = [question.provider or "", *(name.split(":")[0] for name in prefixed)]
    found = (name.strip().lower() for name in named if name)
    return list(dict.fromkeys(PROVIDERS.get(name, name) for name in found))


def _framework(question: SuggestQuestion, part: Hardware) -> str | None:
    wanted = FRAMEWORKS.get((question.framework or "").lower())
    software = " ".join(part.software)
    if wanted is None or any(stack in software for stack in wanted):
        return None
    return (
        f"{question.framework} does not run on {part.id} (its software: {'; '.join(part.software)})"
    )


def _precision(question: SuggestQuestion, part: Hardware) -> str | None:
    rates = part.peak
    if question.precision == "fp8" and rates.fp8 is None and rates.fp16_tensor is not None:
        return f"{part.id} has no FP8 units"
    if question.precision == "bf16" and rates.bf16_tensor is None and rates.fp16_tensor is not None:
        return f"{part.id} has no BF16 units; FP16 would need loss scaling"
    return None


def _provider(
    question: SuggestQuestion, part: Hardware, offered: frozenset[str] | None
) -> str | None:
    if offered is None or part.id in offered:
        return None
    return f"the catalog lists no instance of {provider_of(question)} with {part.id}"


def _constraint(question: SuggestQuestion, part: Hardware) -> str | None:
    if question.constraint == "none":
        return None
    edge = "edge" in part.intended_use
    if rented_only(part) and not edge:
        where = question.constraint
        return f"{part.id} exists in its vendor's cloud only, and the job must run {where}"
    if question.constraint == "edge" and not edge:
        return f"{part.id} is not made for the edge"
    return None


def _in_house(part: Hardware) -> str | None:
    if not in_house(part):
        return None
    return f"{part.id} is neither sold nor rented out ({part.form_factor})"


def _use(question: SuggestQuestion, part: Hardware) -> str | None:
    """Parts that cannot train, and chips of laptops where a large model is trained.

    GPUs are never refused for what they are sold for: an L4 trains too.
    """
    trains = question.kind in ("training", "fine-tuning") or question.method or question.tokens
    if not trains or part.device_class == "gpu" or "training" in part.intended_use:
        return None
    sold = " and ".join(part.intended_use)
    if part.device_class == "accelerator":
        return f"{part.id} is made for {sold}, not for training"
    if question.method in ("lora", "qlora") or not _large(question):
        return None
    return f"{part.id} is made for {sold}, not for training a model of this size"


def _large(question: SuggestQuestion) -> bool:
    whole = (question.model_parameters or 0.0) >= LARGE_PARAMETERS
    return whole or question.tokens is not None or (question.count or 1.0) > 1
