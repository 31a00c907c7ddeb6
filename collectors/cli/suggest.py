"""`gramwatt suggest`: what would emit less for the same work, how much less, and how surely."""

from __future__ import annotations

from typing import Any

import msgspec

from gramwatt.collectors.cli.options import request_command
from gramwatt.collectors.settings.catalogs import user_catalog
from gramwatt.collectors.settings.config import resolve
from gramwatt.sci.figures.formatting import plain, value_text
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.suggest.documents import AnswerDoc, SuggestDoc
from gramwatt.sci.suggest.request import SuggestRequest, parse_suggest_request
from gramwatt.sci.suggest.suggest import suggest

HELPS = {
    "hardware": "Present part: catalog id or name.",
    "instance": "Cloud instance: aws:p4d.24xlarge.",
    "count": "Devices, as the driver lists them.",
    "hours": "Wall time of the run (h).",
    "model_parameters": "Size of the model.",
    "activated_parameters": "Of a mixture of experts, for one token.",
    "tokens": "Tokens to train on.",
    "batch_size": "Batch, or sequences served.",
    "framework": "pytorch, jax, vllm, ...",
    "mean_power_w": "Of one device (W).",
    "peak_memory_gb": "Of one device (GiB).",
    "utilisation": "Busy share, 0 to 1.",
    "memory_bandwidth_utilisation": "0 to 1.",
    "units": "Such as token=1e9; may be repeated.",
    "provider": "Cloud provider: aws, gcp, azure.",
    "region": "Cloud region: aws:eu-west-1.",
    "zone": "Grid zone: FR, DE, US-CAL-CISO.",
    "candidates": "A part to judge; may be repeated.",
    "lifetime_years": "Hardware life (years).",
    "pue": "PUE of the facility.",
    "host_power_w": "Of all hosts together (W).",
    "runs_per_year": "How often such a job runs.",
}
SHOWN = 5
"""Rows of the table."""


def answer(document: dict[str, Any]) -> SuggestDoc:
    """Find what would emit less: hardware, settings or place, in one list with odds.

    Example: gramwatt suggest --hardware nvidia-v100-sxm2-16 --kind training --hours 100 --zone DE
    """
    config = resolve()
    request = parse_suggest_request(document)
    if request.lifetime_years is None:
        request = msgspec.structs.replace(request, lifetime_years=config.lifetime_years)
    return suggest(request, user_catalog(config))


def lines(answer: SuggestDoc) -> list[str]:
    """Return the answer for people: one sentence, a table of five, what would make it surer."""
    rows = [row for row in answer.answers if row.odds is not None][:SHOWN]
    texts = [row for row in answer.answers if row.odds is None]
    shown = [answer.summary]
    if rows:
        shown.append(f"  {'':28} {'time':>6}  {'carbon':18} {'saves':>11}  how sure")
        shown += [_row(row) for row in rows]
    else:
        shown += [f"  {row.label}: {row.reasons[0]}" for row in texts[:SHOWN] if row.reasons]
    shown += [row.buy for row in rows if row.buy][:1]
    shown += [f"  {row.label}: {row.word}; {row.fix or row.reason}" for row in answer.left_out[:3]]
    if answer.surer:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in answer.surer[:3])
        shown.append(f"To be surer: {options}.")
    return shown


def _row(row: AnswerDoc) -> str:
    time = f"{100 * row.time_ratio.value:.0f} %" if row.time_ratio else ""
    saved = plain(value_text(row.saved_g)) if row.saved_g else ""
    if row.saved_g is None and row.carbon_g is not None:
        saved = plain(value_text(row.carbon_g))
    carbon = _carbon(row.carbon_ratio)
    return f"  {row.label[:28]:28} {time:>6}  {carbon:18} {saved:>11}  {row.verdict}"


def _carbon(ratio: Quantity | None) -> str:
    if ratio is None:
        return ""
    value, low, high = (100 * end for end in (ratio.value, ratio.low, ratio.high))
    return f"{value:.0f} % ({low:.0f} to {high:.0f})"


command = request_command(SuggestRequest, HELPS, answer, lines)
