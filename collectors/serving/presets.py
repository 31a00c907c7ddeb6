"""Which counters of which server count what: the presets, the servers by the options `--count-from
URL[=PRESET]` and `--count-metric`, and the names of series.

The names are those of vLLM 0.33, SGLang 0.5.23, llama.cpp (2026-10), TGI 3.3.7 and Triton 2.71;
docs/serving.md says which were seen on a running server and which were only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gramwatt.collectors.settings.config import plain_address
from gramwatt.sci.records.records import (
    SERVICE_CACHED,
    SERVICE_DECODE_S,
    SERVICE_PREFILL_S,
    UNIT_PATTERN,
)

NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\\n]|\\.)*)"(?:,|(?=\}))')
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"n": "\n"}
SCHEMES = ("http://", "https://")
METRICS_PATH = "/metrics"
PREFILL, DECODE = "prefill", "decode"
Key = tuple[str, str | None]
"""Unit and phase."""


class Series(NamedTuple):
    """What identifies a sample: its name, and its labels in order of their names."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


class Term(NamedTuple):
    """One counter: all series of a name that have these labels, added up times `sign`."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    sign: int = 1

    def takes(self, series: Series) -> bool:
        """Return whether a series is one of this counter's."""
        return series.name == self.name and set(self.labels) <= set(series.labels)


Way = tuple[Term, ...]
"""Counters whose sum is an amount. Of several ways that counts whose first counter is there."""
Preset = Mapping[Key, tuple[Way, ...]]


def _one(name: str, **labels: str) -> Way:
    return (Term(name, tuple(labels.items())),)


def _less(name: str, *less: str) -> Way:
    return (*(Term(other, sign=-1) for other in less), Term(name))


_VLLM_HITS = "vllm:prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total"
"""Cached tokens of releases that do not tell sources apart; counted as a request is scheduled."""
_VLLM: Preset = {
    ("token", PREFILL): (
        _one("vllm:prompt_tokens_by_source_total", source="local_compute"),
        _less("vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total"),
        _less("vllm:prompt_tokens_total", *_VLLM_HITS),
        _one("vllm:prompt_tokens_total"),
    ),
    ("token", DECODE): (_one("vllm:generation_tokens_total"),),
    ("request", None): (_one("vllm:request_success_total"),),
    (SERVICE_CACHED, None): (
        _one("vllm:prompt_tokens_by_source_total", source="local_cache_hit")
        + _one("vllm:prompt_tokens_by_source_total", source="external_kv_transfer"),
        _one("vllm:prompt_tokens_cached_total"),
        _one(_VLLM_HITS[0]) + _one(_VLLM_HITS[1]),
    ),
    (SERVICE_PREFILL_S, None): (_one("vllm:request_prefill_time_seconds_sum"),),
    (SERVICE_DECODE_S, None): (_one("vllm:request_decode_time_seconds_sum"),),
}
_SGLANG: Preset = {
    ("token", PREFILL): (
        _one("sglang:realtime_tokens_total", mode="prefill_compute"),
        # SGLang shows no cached tokens before the first.
        _less("sglang:prompt_tokens_total", "sglang:cached_tokens_total")[::-1],
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


def parse_series(line: str) -> tuple[Series, int]:
    """Return the series that a line begins with, and where it ends; raises ValueError."""
    name = NAME.match(line)
    if name is None:
        raise ValueError(f"no name of a metric: {line[:80]!r}")
    position = name.end()
    if line[position : position + 1] != "{":
        return Series(name[0]), position
    position += 1
    labels: dict[str, str] = {}
    while line[position : position + 1] != "}":
        label = _LABEL.match(line, position)
        if label is None or label[1] in labels:
            raise ValueError(f"no labels: {line[:80]!r}")
        labels[label[1]] = _ESCAPED.sub(lambda m: _MEANT.get(m[1], m[1]), label[2])
        position = label.end()
    return Series(name[0], tuple(sorted(labels.items()))), position + 1


class Server(NamedTuple):
    """One address to poll, what it counts by a preset (None: whichever fits), and by own names."""

    url: str
    preset: str | None
    metrics: Preset

    @property
    def shown(self) -> str:
        """Return its address without a password or a query, for messages and the journal."""
        return plain_address(self.url).partition("?")[0]

    def candidates(self) -> dict[str, Preset]:
        """Return the presets that it may have, by name."""
        if self.preset:
            return {self.preset: PRESETS[self.preset]}
        return {} if self.metrics else dict(PRESETS)

    def counted(self, preset: str | None) -> Preset:
        """Return what it counts by that one of its presets, and by own names."""
        return {**self.candidates().get(preset or "", {}), **self.metrics}


def servers(addresses: Sequence[str], metrics: Sequence[str]) -> list[Server]:
    """Return the servers of the texts of both options; raises ValueError, which says what to write.

    The metrics of `--count-metric` are looked for at each server.
    """
    own: Preset = dict(_own(text) for text in metrics)
    if len(own) < len(metrics):
        raise ValueError("--count-metric: a unit is given more than once; name one counter for it")
    polled = [_server(text, own) for text in addresses]
    if own and not polled:
        raise ValueError("--count-metric: name the server too: --count-from http://HOST:PORT")
    if len({server.url for server in polled}) < len(polled):
        raise ValueError("--count-from: the same server is given more than once")
    return polled


def from_start(line: Any) -> list[Server]:
    """Return the servers of a client's start line; none for anything else."""
    try:
        return servers(line["addresses"], line["metrics"])
    except (KeyError, TypeError, ValueError):
        return []


def _server(text: str, own: Preset) -> Server:
    url, preset = text, None
    before, equals, after = text.rpartition("=")
    if equals and after in PRESETS:
        url, preset = before, after
    elif equals and "?" not in before and "/" not in after and "@" not in after:
        presets = ", ".join(PRESETS)
        shown = plain_address(text)
        raise ValueError(f"--count-from {shown!r}: {after!r} is not a preset; they are {presets}")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"--count-from {plain_address(text)!r}: write http://HOST:PORT/metrics")
    if parts.path in ("", "/"):
        url = parts._replace(path=METRICS_PATH).geturl()
    if preset:
        _check_once(preset, own)
    return Server(url, preset, own)


def _check_once(preset: str, own: Preset) -> None:
    """Raise ValueError where a counter of one's own would add to a unit what the preset does.

    One for the same unit and phase takes the preset's place, so that it counts once.
    """
    for key, ways in own.items():
        unit, name = key[0], ways[0][0].name
        others = {k: w for k, w in PRESETS[preset].items() if k != key and k[0] == unit}
        if name in names([others]):
            raise ValueError(
                f"--count-metric '{name}={unit}': the preset {preset} counts that already; "
                "leave out one of the two"
            )


def _own(text: str) -> tuple[Key, tuple[Way, ...]]:
    name, equals, unit = text.rpartition("=")
    example = "NAME=UNIT, such as my_images_total=image"
    try:
        series, end = parse_series(name)
    except ValueError:
        end = -1
    if not equals or end != len(name):
        raise ValueError(f"--count-metric {text!r}: write {example}")
    if not UNIT_PATTERN.fullmatch(unit):
        raise ValueError(f"--count-metric {text!r}: {unit!r} is not a unit name")
    return (unit, None), ((Term(*series),),)
