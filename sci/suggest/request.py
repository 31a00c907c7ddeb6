"""The request for suggestions: its fields, what they say together, and whose cloud it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from gramwatt.sci.estimate.request import PRECISIONS as ESTIMATED
from gramwatt.sci.estimate.request import EstimateRequest, Parameters, check_activated
from gramwatt.sci.figures.checks import (
    Amount,
    Counts,
    Fraction,
    Pue,
    Text,
    Whole,
    Years,
    parse,
    refuse_both,
)
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.records.records import JobKind

WorkloadClass = Literal[
    "training",
    "batch-inference",
    "decode",
    "prefill",
    "llm-serving",
    "interactive",
    "recsys",
    "small",
]
CLASSES: tuple[WorkloadClass, ...] = get_args(WorkloadClass)
ANSWERING = ("batch-inference", "decode", "prefill", "llm-serving", "interactive")
TRAINING = ("training", "fine-tuning")
"""Classes of work that answer with a model, and kinds of jobs that train one."""
Method = Literal["full", "lora", "qlora"]
METHODS: tuple[Method, ...] = get_args(Method)
Ownership = Literal["owned", "rented", "to-buy"]
PaceName = Literal["throughput", "requests", "input", "host"]
Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8", "int4"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Constraint = Literal["none", "offline", "edge"]
PROVIDERS: Mapping[str, str] = {"amazon": "aws", "google": "gcp", "microsoft": "azure"}
"""Other names of providers."""
LIBRARIES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("torch", "transformers", "huggingface", "bitsandbytes", "accelerate", "peft", "trl"),
            *("diffusers", "sentence-transformers", "timm", "ultralytics", "lightning"),
            *("pytorch-lightning", "deepspeed", "fsdp", "torchtune", "axolotl", "unsloth"),
            *("torchserve", "comfyui", "stable-diffusion-webui", "kohya", "whisper", "whisperx"),
        ),
        "pytorch",
    ),
    **dict.fromkeys(("faster-whisper", "ctranslate2", "tei", "text-embeddings-inference"), "cuda"),
    "whisper.cpp": "llama.cpp",
    **dict.fromkeys(
        (
            *("ollama", "llamacpp", "llama-cpp-python", "lm-studio", "gguf", "koboldcpp"),
            *("gpt4all", "llamafile", "text-generation-webui"),
        ),
        "llama.cpp",
    ),
    **dict.fromkeys(("exllama", "exllamav3", "tabbyapi"), "exllamav2"),
    **dict.fromkeys(("isaaclab", "isaac-gym", "isaacgym", "isaac-sim", "rsl-rl"), "isaac-lab"),
    **dict.fromkeys(("flax", "equinox"), "jax"),
    "keras": "tensorflow",
}
"""Libraries that run on a framework, and other names of frameworks."""
NO_LANGUAGE = (
    *("diffusers", "comfyui", "stable-diffusion-webui", "kohya", "whisper", "whisperx"),
    *("faster-whisper", "whisper.cpp", "sentence-transformers", "tei", "text-embeddings-inference"),
    *("timm", "ultralytics"),
)
"""Libraries whose models, large ones too, answer with pictures, transcripts or vectors: they are
not compared by the token."""
BITSANDBYTES = ("transformers", "bitsandbytes")
"""Libraries whose 8 bits are those of LLM.int8 unless told otherwise."""
_COMPANY: Mapping[str, str] = {"google-colab": "gcp"}
"""Providers whose instances run in the regions of another."""


class SuggestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job to find something better for; every figure is that of the present run.

    `count` counts devices as the driver lists them, `mean_power_w` [W] and `peak_memory_gb` [GiB]
    are per device, `hours` [h] is wall time, `utilisation` the busy share, 0 to 1. `host_power_w`
    [W] is the mean power of all hosts of the job together, without its devices. `ownership` says
    how the hardware is had, `pace` what sets the speed of the job, `runs_per_year` how often such a
    job runs. `activated_parameters` are the parameters that one token passes in a mixture of
    experts, a part of `model_parameters`.
    """

    hardware: Text | None = None
    instance: Text | None = None
    count: Whole | None = None
    hours: Amount | None = None
    kind: JobKind | None = None
    method: Method | None = None
    model_parameters: Parameters | None = None
    activated_parameters: Parameters | None = None
    tokens: Amount | None = None
    precision: Precision | None = None
    batch_size: Amount | None = None
    framework: Text | None = None
    workload_class: WorkloadClass | None = None
    mean_power_w: Amount | None = None
    peak_memory_gb: Amount | None = None
    utilisation: Fraction | None = None
    units: Counts = msgspec.field(default_factory=dict)
    provider: Text | None = None
    region: Text | None = None
    zone: Text | None = None
    candidates: Annotated[tuple[Text, ...], Meta(max_length=500)] | None = None
    constraint: Constraint = "none"
    lifetime_years: Years | None = None
    ownership: Ownership | None = None
    pace: PaceName | None = None
    pue: Pue | None = None
    host_power_w: Amount | None = None
    runs_per_year: (
        Annotated[float, Meta(title="a number above 0 and at most 1e7", gt=0, le=1e7)] | None
    ) = None

    @property
    def library(self) -> str:
        """Return the framework that the named library runs on; "" without one."""
        return LIBRARIES.get(self._named_library, self._named_library)

    @property
    def _named_library(self) -> str:
        return re.sub(r"[\s_]+", "-", (self.framework or "").strip().lower())

    @property
    def answers_in_tokens(self) -> bool:
        """Tell whether a large model may be a language model, by its library."""
        return self._named_library not in NO_LANGUAGE

    @property
    def contradiction(self) -> str | None:
        """Return what is said of training and of inference at once; None where nothing is."""
        name = self.workload_class
        if self.kind in TRAINING and name in ANSWERING:
            return (
                f"kind {self.kind} and workload_class {name} contradict each other: leave one out"
            )
        if self.kind not in ("inference", "evaluation"):
            return None
        if name == "training":
            return (
                f"kind {self.kind} and workload_class {name} contradict each other: leave one out"
            )
        if self.method:
            return f"method {self.method} is of fine-tuning, and kind is {self.kind}: leave one out"
        return None

    @property
    def in_llm_int8(self) -> bool:
        """Tell whether a model answers in the 8 bits of bitsandbytes."""
        return self.precision == "int8" and self._named_library in BITSANDBYTES

    @property
    def trains(self) -> bool:
        """Tell whether a model is trained, by its kind or method, else by its tokens."""
        if self.kind in ("inference", "evaluation"):
            return False
        return self.kind in TRAINING or bool(self.method or self.tokens)

    @property
    def providers(self) -> tuple[str, ...]:
        """Return the providers that are named, in the catalog's words, the most explicit first."""
        prefixed = (name for name in (self.region, self.instance) if name and ":" in name)
        named = [self.provider or "", *(name.split(":")[0] for name in prefixed)]
        lowered = (name.strip().lower() for name in named if name)
        return tuple(dict.fromkeys(PROVIDERS.get(name, name) for name in lowered))

    @property
    def cloud(self) -> str | None:
        """Return the cloud provider: given, or that of the region or instance."""
        return next(iter(self.providers), None)

    @property
    def full_region(self) -> str | None:
        """Return the region as PROVIDER:REGION where its provider is named."""
        if not self.region or ":" in self.region or self.cloud is None:
            return self.region
        return f"{self.cloud}:{self.region}"

    def estimate(self, **given: Any) -> EstimateRequest:
        """Return the estimate of this run, or of its training, with these fields more."""
        fields: dict[str, Any] = {
            "zone": self.zone,
            "region": self.full_region,
            "lifetime_years": self.lifetime_years,
            "precision": self.precision if self.precision in ESTIMATED else None,
            "pue": self.pue,
        }
        if self.model_parameters is not None and self.tokens is not None and self.trains:
            fields |= {
                "model_parameters": self.model_parameters,
                "activated_parameters": self.activated_parameters,
                "tokens": self.tokens,
            }
        return EstimateRequest(**(fields | given))

    def check_one_provider(self) -> None:
        """Raise ScoreError where provider, region and instance are not of one provider."""
        if len({_COMPANY.get(name, name) for name in self.providers}) > 1:
            named = " and ".join(self.providers)
            text = f"provider, region and instance name {named}: give those of one"
            raise ScoreError(text, code="conflicting-fields")


def parse_suggest_request(document: Mapping[str, Any]) -> SuggestRequest:
    """Return the request in a JSON object; raises ScoreError with a code and what to change."""
    return check_suggest_request(parse(SuggestRequest, document))


def check_suggest_request(request: SuggestRequest) -> SuggestRequest:
    """Return a request whose fields do not contradict; raises ScoreError with what to change."""
    work = request.model_parameters or request.workload_class or request.kind
    if not (request.hardware or request.instance or work):
        text = "say what runs: hardware, instance, model_parameters, workload_class or kind"
        raise ScoreError(text, code="missing-field")
    refuse_both(request, "hardware", "instance")
    refuse_both(request, "zone", "region")
    check_activated(request.model_parameters, request.activated_parameters)
    if request.contradiction:
        raise ScoreError(request.contradiction, code="conflicting-fields")
    return request
