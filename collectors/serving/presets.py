"""Which counters of which server count what: the presets, and `--count-metric`.

The names are those of vLLM 0.33, SGLang 0.5.23, llama.cpp (2026-10), TGI 3.3.7 and Triton 2.71;
docs/serving.md says which were seen on a running server and which were only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gramwatt.collectors.serving.samples import Series
from gramwatt.sci.journal.records import SERVICE_CACHED, SERVICE_DECODE_S, SERVICE_PREFILL_S

PREFILL, DECODE = "prefill", "decode"
Key = tuple[str, str | None]
"""Unit and phase."""


class Term(NamedTuple):
    """One counter: all series of a name that have these labels, added up times `sign`."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    sign: int = 1

    def takes(self, series: Series) -> bool:
        """Return whether a series is one of this counter's."""
        return series.name == self.name and set(self.labels) <= set(series.labels)


Way = tuple[Term, ...]
"""Counters whose sum is an amount. Of several ways the first that a server has is used."""
Preset = Mapping[Key, tuple[Way, ...]]


def _one(name: str, **labels: str) -> Way:
    return (Term(name, tuple(labels.items())),)


def _less(name: str, less: str) -> Way:
    return Term(name), Term(less, sign=-1)


_VLLM: Preset = {
    ("token", PREFILL): (
        _one("vllm:prompt_tokens_by_source_total", source="local_compute"),
        _less("vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total"),
    ),
    ("token", DECODE): (_one("vllm:generation_tokens_total"),),
    ("request", None): (_one("vllm:request_success_total"),),
    (SERVICE_CACHED, None): (
        _one("vllm:prompt_tokens_by_source_total", source="local_cache_hit")
        + _one("vllm:prompt_tokens_by_source_total", source="external_kv_transfer"),
        _one("vllm:prompt_tokens_cached_total"),
    ),
    (SERVICE_PREFILL_S, None): (_one("vllm:request_prefill_time_seconds_sum"),),
    (SERVICE_DECODE_S, None): (_one("vllm:request_decode_time_seconds_sum"),),
}
_SGLANG: Preset = {
    ("token", PREFILL): (
        _one("sglang:realtime_tokens_total", mode="prefill_compute"),
        _less("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
    ),
    ("token", DECODE): (
        _one("sglang:realtime_tokens_total", mode="decode"),
        _one("sglang:generation_tokens_total"),
    ),
    ("request", None): (_one("sglang:num_requests_total"),),
    (SERVICE_CACHED, None): (
        _one("sglang:realtime_tokens_total", mode="prefill_cache"),
        _one("sglang:cached_tokens_total"),
    ),
}
_LLAMACPP: Preset = {
    ("token", PREFILL): (_one("llamacpp:prompt_tokens_total"),),
    ("token", DECODE): (_one("llamacpp:tokens_predicted_total"),),
    (SERVICE_CACHED, None): (_one("llamacpp:prompt_tokens_cached_total"),),
    (SERVICE_PREFILL_S, None): (_one("llamacpp:prompt_seconds_total"),),
    (SERVICE_DECODE_S, None): (_one("llamacpp:tokens_predicted_seconds_total"),),
}
_TGI: Preset = {
    ("token", PREFILL): (_one("tgi_request_input_length_sum"),),
    ("token", DECODE): (_one("tgi_request_generated_tokens_sum"),),
    ("request", None): (_one("tgi_request_success"),),
    (SERVICE_PREFILL_S, None): (_one("tgi_batch_inference_duration_sum", method="prefill"),),
    (SERVICE_DECODE_S, None): (_one("tgi_batch_inference_duration_sum", method="decode"),),
}
_TRITON: Preset = {
    ("request", None): (_one("nv_inference_request_success"),),
    ("inference", None): (_one("nv_inference_count"),),
}
PRESETS: Mapping[str, Preset] = {
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "llamacpp": _LLAMACPP,
    "tgi": _TGI,
    "triton": _TRITON,
}
"""By name, in the order in which a server without a named one is compared with them: Triton last,
because its vLLM backend shows vLLM's counters beside its own."""


def names(presets: Iterable[Preset]) -> frozenset[str]:
    """Return the names of all metrics in these presets."""
    return frozenset(
        term.name for preset in presets for ways in preset.values() for way in ways for term in way
    )
