"""`gramwatt suggest`: what would emit less for the same work, and whether that is certain."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer
from msgspec import to_builtins

from gramwatt.collectors.cli.options import (
    AsJson,
    Source,
    Units,
    counts,
    read_document,
    refuse_error,
    with_flags,
)
from gramwatt.collectors.cli.summary import quantity_text, significant
from gramwatt.collectors.common.catalogs import user_catalog
from gramwatt.collectors.common.config import resolve
from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.suggest_request import parse_suggest_request
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.quantity import Quantity, QuantityDoc
from gramwatt.sci.base.units import G_PER_KG

OTHER = ("source", "candidate", "unit", "as_json")
"""Parameters of the command that are no field of the request by that name."""


FIRST = ("hardware-unstated", "memory-disagrees", "input-implausible", "provider-lacks-part")
"""Notices that say how to read the whole answer."""


def command(
    source: Source = None,
    hardware: Annotated[str | None, typer.Option(help="Present part: catalog id or name.")] = None,
    instance: Annotated[str | None, typer.Option(help="Cloud instance: aws:p4d.24xlarge.")] = None,
    count: Annotated[float | None, typer.Option(help="Devices, as the driver lists them.")] = None,
    hours: Annotated[float | None, typer.Option(help="Wall time of the run (h).")] = None,
    kind: Annotated[str | None, typer.Option(help="training, fine-tuning, inference, ...")] = None,
    workload_class: Annotated[
        str | None,
        typer.Option(help="training, batch-inference, decode, prefill, llm-serving, recsys, small"),
    ] = None,
    method: Annotated[str | None, typer.Option(help="full, lora or qlora.")] = None,
    model_parameters: Annotated[float | None, typer.Option(help="Size of the model.")] = None,
    activated_parameters: Annotated[
        float | None, typer.Option(help="Of a mixture of experts, for one token.")
    ] = None,
    tokens: Annotated[float | None, typer.Option(help="Tokens to train on.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, tf32, fp16, bf16, fp8, ...")] = None,
    batch_size: Annotated[float | None, typer.Option(help="Batch, or sequences served.")] = None,
    framework: Annotated[str | None, typer.Option(help="pytorch, jax, vllm, ...")] = None,
    mean_power_w: Annotated[float | None, typer.Option(help="Of one device (W).")] = None,
    peak_memory_gb: Annotated[float | None, typer.Option(help="Of one device (GiB).")] = None,
    utilisation: Annotated[float | None, typer.Option(help="Busy share, 0 to 1.")] = None,
    memory_bandwidth_utilisation: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    provider: Annotated[str | None, typer.Option(help="Cloud provider: aws, gcp, azure.")] = None,
    region: Annotated[str | None, typer.Option(help="Cloud region: aws:eu-west-1.")] = None,
    zone: Annotated[str | None, typer.Option(help="Grid zone: FR, DE, US-CAL-CISO.")] = None,
    candidate: Annotated[
        list[str] | None, typer.Option(metavar="PART", help="One to judge; may be repeated.")
    ] = None,
    constraint: Annotated[str | None, typer.Option(help="none, offline or edge.")] = None,
    lifetime_years: Annotated[float | None, typer.Option(help="Hardware life (years).")] = None,
    ownership: Annotated[str | None, typer.Option(help="owned, rented or to-buy.")] = None,
    pace: Annotated[
        str | None, typer.Option(help="What sets the speed: throughput, requests, input, host.")
    ] = None,
    pue: Annotated[float | None, typer.Option(help="PUE of the facility.")] = None,
    host_power_w: Annotated[float | None, typer.Option(help="Of all hosts together (W).")] = None,
    runs_per_year: Annotated[float | None, typer.Option(help="How often such a job runs.")] = None,
    unit: Units = None,
    as_json: AsJson = False,
) -> None:
    """Find what would emit less: other hardware, or another way to run.

    Example: gramwatt suggest --hardware nvidia-v100-sxm2-16 --kind training --hours 100 --zone DE
    """
    flags = {name: value for name, value in locals().items() if name not in OTHER}
    flags |= {"candidates": candidate or None, "units": counts(unit)}
    document = with_flags(read_document(source), flags)
    answer = _answer(document, as_json=as_json)
    typer.echo(json.dumps(to_builtins(answer), indent=2) if as_json else "\n".join(lines(answer)))


def _answer(document: dict[str, Any], *, as_json: bool) -> AdviceDoc:
    try:
        config = resolve()
        request = parse_suggest_request(document)
        if request.lifetime_years is None:
            request = msgspec.structs.replace(request, lifetime_years=config.lifetime_years)
        return suggest(request, user_catalog(config))
    except GramwattError as error:
        refuse_error(error, as_json=as_json)


def lines(answer: AdviceDoc) -> list[str]:
    """Return the answer for people: verdict first, then the figures and the reasons."""
    first = [notice for notice in answer.notices if notice.code in FIRST]
    shown = [notice.message for notice in first]
    for suggestion in answer.suggestions:
        shown += _suggestion(suggestion)
    later = [notice for notice in answer.notices if notice not in first]
    shown += [f"Notice: {notice.message}" for notice in later]
    return shown or ["No suggestion."]


def _suggestion(suggestion: SuggestionDoc) -> list[str]:
    name = suggestion.action.replace("-", " ")
    target = f" to {suggestion.target}" if suggestion.target else ""
    devices = "device" if suggestion.count == 1 else "devices"
    shown = [f"{suggestion.verdict}: {name}{target}, {suggestion.count} {devices}"]
    figures = [
        f"{label} x {_ratio(getattr(suggestion, key))}"
        for label, key in (
            ("time", "time_ratio"),
            ("energy", "energy_ratio"),
            ("carbon", "carbon_ratio"),
        )
        if getattr(suggestion, key) is not None
    ]
    if suggestion.saved_g is not None and suggestion.verdict == "lower":
        figures.append(f"saves {quantity_text(suggestion.saved_g)}")
        if suggestion.yearly_kg is not None:
            yearly = Quantity.from_doc(suggestion.yearly_kg).scaled(G_PER_KG, "gCO2e")
            figures.append(f"{quantity_text(yearly.to_doc())} a year")
    if figures:
        shown.append(f"    {'; '.join(figures)} [{suggestion.basis}]")
    effort = suggestion.effort
    if effort is not None and suggestion.verdict == "lower":
        shown.append(f"    effort {effort.level}: {effort.reason}")
    by_ownership = suggestion.by_ownership
    if len(set(by_ownership.values())) > 1:
        shown.append("    " + "; ".join(f"{had}: {said}" for had, said in by_ownership.items()))
    if suggestion.likely and suggestion.verdict != "lower":
        shown.append("    likely lower (4 in 5), not certain")
    reasons = [reason for reason in suggestion.reasons if " times as long (" not in reason]
    return shown + [f"    - {reason}" for reason in reasons]


def _ratio(figure: QuantityDoc) -> str:
    low, high = (_end(figure[end]) for end in ("low", "high"))
    return f"{significant(figure['value'], 2)} ({low} to {high})"


def _end(ratio: float) -> str:
    """Return an end of a range, not rounded to 1 where it lies below or above."""
    text = significant(ratio, 2)
    return significant(ratio, 4) if float(text) == 1 and ratio != 1 else text
