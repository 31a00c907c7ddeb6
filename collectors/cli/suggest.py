"""`gramwatt suggest`: what would emit less for the same work, how much less, and how surely.

The answer is one sentence, a table of five, and what would make it surer: at most 16 lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gramwatt.collectors.cli.options import FIRST, Local, flag_of, refuse, request_command
from gramwatt.collectors.cli.summary import (
    WIDTH,
    quantity_text,
    short_text,
    table,
    than_first,
    wrapped,
)
from gramwatt.collectors.settings.catalogs import user_catalog
from gramwatt.collectors.settings.config import resolve
from gramwatt.collectors.settings.identity import LAST
from gramwatt.collectors.settings.installation import install_command, local_store
from gramwatt.sci.figures.structs import convert
from gramwatt.sci.suggest.documents import (
    BASES,
    HARDWARE,
    AnswerDoc,
    LeftOutDoc,
    SuggestDoc,
    tenths,
)
from gramwatt.sci.suggest.request import SuggestRequest, parse_suggest_request
from gramwatt.sci.suggest.suggest import suggest

if TYPE_CHECKING:
    from gramwatt.collectors.settings.config import Config
    from gramwatt.sci.figures.quantity import Quantity

HELPS = {
    "hardware": "Present part: catalog id or name.",
    "instance": "Cloud instance: aws:p4d.24xlarge.",
    "count": "Devices, as the driver lists them.",
    "hours": "Wall time of the run (h).",
    "model_parameters": "Size of the model: 7B.",
    "activated_parameters": "Of a mixture of experts, for one token.",
    "tokens": "Tokens to train on: 2T.",
    "batch_size": "Batch, or sequences served.",
    "framework": "pytorch, jax, vllm, ...",
    "mean_power_w": "Of one device (W).",
    "peak_memory_gb": "Of one device (GiB).",
    "utilisation": "Busy share: 0.12, 12%.",
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
FIXED = "\u00a0"
"""A blank at which no line ends."""
ROWS, FEW, LINES = 5, 7, 16
"""Rows of a longer list, most rows of one that is shown whole, and lines, without --all."""
PRESSING = (
    "framework-misspelt",
    "hardware-ambiguous",
    "hardware-unstated",
    "input-implausible",
    "lifetime-exceeded",
    "place-taken",
    "provider-lacks-part",
)
"""Notices that say how to read the whole answer."""
WORDS = {
    "sure": "sure",
    "likely": "likely, {} in 10",
    "more likely than not": "maybe, {} in 10",
    "too close to call": "too close",
    "probably more": "likely more",
}
"""How sure a change is, in the table."""
Job = Annotated[
    str | None,
    typer.Argument(metavar="[JOB]", help="An id, a name, or last, if nothing is asked by options."),
]
All = Annotated[bool, typer.Option("--all", help="Every row, and what holds for all.")]
Why = Annotated[
    str | None, typer.Option("--why", metavar="[NAME]", help="Reasons for a row, or for the first.")
]


def answer(document: dict[str, Any], job: Job = None, local: Local = False) -> SuggestDoc:
    """Find what would emit less: hardware, settings, place or time, in one list with odds.

    Without options it answers for a job that ran, the last one if none is named. With options it
    answers for the work that they describe.

    Example: gramwatt suggest --hardware nvidia-v100-sxm2-16 --kind training --hours 100 --zone DE
    """
    config = resolve()
    if job is not None and document:
        refuse("name a job, or ask by options: not both")
    if not document:
        return _of_job(config, job or LAST, local=local)
    request = parse_suggest_request(document)
    if request.lifetime_years is None:
        request = msgspec.structs.replace(request, lifetime_years=config.lifetime_years)
    return suggest(request, user_catalog(config), now=datetime.now(UTC))


def _of_job(config: Config, job: str, *, local: bool) -> SuggestDoc:
    """Return the answer for a job of the server that is set, else of this machine's store."""
    if config.server is not None and not local:
        return convert(_of_server(job), SuggestDoc)
    store = local_store()
    if store is None:
        refuse(
            "jobs are in the store of the extra `service`, or on a server: to install it, "
            f"{install_command('service')}; or ask by options: gramwatt suggest --hardware NAME"
        )
    return convert(store.suggest(config.home, job), SuggestDoc)


def _of_server(job: str) -> dict[str, Any]:
    """Return the server's answer for a job; exits where it has none."""
    from gramwatt.collectors.cli.server import asked

    with asked() as (client, _):
        return client.suggest(*client.job_ids(job))


def lines(answer: SuggestDoc, every: All = False, why: Why = None) -> list[str]:
    """Return the answer for a terminal."""
    if why is not None:
        return list(_why(answer, why))
    ranked = [row for row in answer.answers if row.odds is not None]
    named = {answer.lead, *answer.named}
    shown = ranked if every or len(ranked) <= FEW else ranked[:ROWS]
    missing = [row for row in ranked if row.id in named and row not in shown]
    shown = [*shown[: len(shown) - len(missing)], *missing]
    texts = [row for row in answer.answers if row.odds is None and row.action not in HARDWARE]
    if shown and not every:
        texts = [row for row in texts if row.id not in named]
    begin = wrapped(answer.summary)
    for notice in answer.notices:
        begin += wrapped(notice.message) if notice.code in PRESSING else []
    begin += _table(answer, shown) if shown else []
    last = _last(answer, len(ranked) - len(shown))
    for block in (*_after(answer, shown, every=every), *_also(texts, every=every or not shown)):
        begin += block if every or len(begin) + len(block) + len(last) <= LINES else []
    return [*begin, *last]


def _table(answer: SuggestDoc, rows: list[AnswerDoc]) -> list[str]:
    """Return the rows as a table: changes of a run, or devices beside each other."""
    present = answer.compared_with is not None
    cells = list(_changes(rows) if present else _devices(rows))
    labels = ["", *(row.label.replace("NVIDIA ", "") for row in rows)]
    for begin in ("1 x ", "run it in "):  # said by the head, or by the name
        labels = [label.removeprefix(begin) for label in labels]
    lines = [(label, *row) for label, row in zip(labels, cells, strict=True)]
    return table(lines, (1, 3) if present else (1,), WIDTH)


def _changes(rows: list[AnswerDoc]) -> Iterator[tuple[str, ...]]:
    yield "time", "carbon", "saves", "how sure"
    for row in rows:
        word = WORDS[row.verdict or "too close to call"].format(tenths(row.odds or 0.0))
        saved = short_text(row.saved_g) if row.saved_g and row.saved_g.value > 0 else ""
        yield _percent(row.time_ratio), _change(row.carbon_ratio), saved, word


def _devices(rows: list[AnswerDoc]) -> Iterator[tuple[str, ...]]:
    yield "time", "carbon (CO2e)", "per 1M tokens", "than first"
    for row in rows:
        time = short_text(row.time_h) or _percent(row.time_ratio)
        carbon = quantity_text(row.carbon_g) if row.carbon_g else ""
        tokens = quantity_text(row.g_per_million_tokens) if row.g_per_million_tokens else ""
        ratio = None if row is rows[0] else row.carbon_ratio
        short = (text.replace(" CO2e", "") for text in (carbon, tokens))
        yield time, *short, than_first(ratio, row.odds)


def _percent(ratio: Quantity | None) -> str:
    return f"{100 * ratio.value:.0f} %" if ratio else ""


def _change(ratio: Quantity | None) -> str:
    """Return a change of carbon with its range: "-57 % (-72 to -26)"."""
    if ratio is None:
        return ""
    value, low, high = (round(100 * (end - 1)) for end in (ratio.value, ratio.low, ratio.high))
    return f"{value:+d} % ({low:+d} to {high:+d})"


def _after(answer: SuggestDoc, shown: list[AnswerDoc], *, every: bool) -> Iterator[list[str]]:
    """Yield what belongs to the table, a sentence each: whether to buy, what does not fit."""
    first = [row for row in shown if row.id in (answer.lead, *answer.named)]
    hardware = [row for row in (*first, *shown) if row.advised and row.buy]
    yield from ([wrapped(hardware[0].buy or "")] if hardware else [])
    for row in answer.left_out if every else answer.left_out[:2]:
        yield wrapped(f"{row.label}: {row.word}; {row.fix or row.reason}", "  ")
    unranked = [row for row in answer.answers if row.odds is None and row.action in HARDWARE]
    for change in unranked if every else unranked[:2]:
        yield wrapped(f"{change.label}: not ranked; {'; '.join(change.reasons[1:3])}", "  ")
    yield from (wrapped(f"- {reason}") for reason in answer.reasons if every)


def _also(texts: list[AnswerDoc], *, every: bool) -> Iterator[list[str]]:
    """Yield changes without figures: their names, or each with its reason."""
    if not every:
        yield from [wrapped(f"Also: {'; '.join(row.label for row in texts)}.")] if texts else []
        return
    for row in texts:
        yield wrapped(": ".join((row.label, *row.reasons[:1])), "  ")


def _last(answer: SuggestDoc, hidden: int) -> list[str]:
    """Return what to ask next."""
    surer = ", ".join(map(flag_of, answer.surer[:3]))
    parts = [f"To be surer: {surer}."] if surer else []
    parts += [f"{hidden} more: --all."] if hidden > 0 else []
    if answer.answers:
        name = shlex.quote(_first(answer)).replace(" ", FIXED)
        parts.append(f"Reasons: --why{FIXED}{name}")
    return wrapped(" ".join(parts))


def _first(answer: SuggestDoc) -> str:
    """Return the id of the row that the sentence names; where it names none, of the first row."""
    listed: list[AnswerDoc | LeftOutDoc] = [*answer.answers, *answer.left_out]
    return answer.lead or listed[0].id


def _why(answer: SuggestDoc, name: str) -> Iterator[str]:
    """Yield the reasons for the row that a name means: its id, or words of its label."""
    listed: list[AnswerDoc | LeftOutDoc] = [*answer.answers, *answer.left_out]
    if not listed:
        yield from wrapped(answer.summary)
        return
    rows = {row.id: row for row in listed}
    name = _first(answer) if name == FIRST else name
    text = name.lower()
    row = rows.get(name) or next(
        (row for row in rows.values() if text and (text in row.id or text in row.label.lower())),
        None,
    )
    if row is None:
        refuse(f"--why {name!r} is not a row of this answer; it has {', '.join(rows)}")
    yield row.label
    if not isinstance(row, AnswerDoc):
        yield from wrapped(f"{row.word}: {row.reason}", "  ")
        yield from wrapped(row.fix, "  ") if row.fix else []
        return
    figures = {
        "Time": row.time_h, "Energy": row.energy_kwh, "Carbon": row.carbon_g,
        "Saved": row.saved_g, "Carbon ratio": row.carbon_ratio, "Time ratio": row.time_ratio,
    }  # fmt: skip
    yield from table([(label, quantity_text(item)) for label, item in figures.items() if item])
    odds = f", {100 * row.odds:.0f} %" if row.odds is not None else ""
    yield from wrapped(f"{row.verdict or 'not known how much'}{odds}; {BASES[row.basis]}", "  ")
    if row.effort:
        yield from wrapped(f"Effort {row.effort.level}: {row.effort.reason}", "  ")
    for text in (*row.reasons, *([row.buy] if row.buy else []), *answer.reasons):
        yield from wrapped(f"- {text}", "  ")
    for source in row.sources:
        yield from wrapped(f"Source: {source}", "  ")


command = request_command(SuggestRequest, HELPS, answer, lines)
