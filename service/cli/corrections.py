"""The commands that change a job: `gramwatt job ID --set FIELD=VALUE` and `gramwatt rm ID`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gramwatt.collectors.cli.options import Local, show
from gramwatt.sci.figures.document import JobHead
from gramwatt.service.cli.common import JobId, confirm, stop
from gramwatt.service.cli.source import jobs_of

EXAMPLE = "--set zone=DE"
TAG, COUNT = "tags.", "count."


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return the changes in FIELD=VALUE texts; an empty value makes a field undeclared.

    Exits with 2 for a text of another form, or a field that is given twice.
    """
    changes: dict[str, Any] = {}
    tags: dict[str, str | None] = {}
    counts: dict[str, float | None] = {}
    for text in settings:
        field, equals, value = text.partition("=")
        field = field.strip()
        if not field or not equals:
            stop(2, f"--set {text!r}: write FIELD=VALUE, such as {EXAMPLE}")
        into: dict[str, Any]
        parsed: Any
        if field.startswith(TAG):
            field, into, parsed = field.removeprefix(TAG), tags, value.strip() or None
        elif field.startswith(COUNT):
            field, into, parsed = field.removeprefix(COUNT), counts, _amount(field, value.strip())
        else:
            into, parsed = changes, _value(field, value.strip())
        if field in into:
            stop(2, f"--set {field} is given more than once")
        into[field] = parsed
    if tags:
        changes["tags"] = changes.get("tags", {}) | tags
    if counts:
        changes["counts"] = counts
    return changes


def _amount(field: str, text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        stop(2, f"--set {field}: not a number: {text!r}")


def _value(field: str, text: str) -> Any:
    from gramwatt.collectors.settings.config import PARSERS, flag

    try:
        if field == "tags":
            return PARSERS["tags"](text)
        return flag(text) if field == "excluded" else text or None
    except ValueError as error:
        stop(2, f"--set {field}: {error}")


def rm(
    name: JobId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why; it stays on record.")] = None,
    local: Local = False,
) -> None:
    """Delete a job for good; that it was deleted, when, by whom and why stays on record.

    Its figures leave every list and month. Out of months only:
    gramwatt job ID --set excluded=true --reason "broken meter"
    """
    with jobs_of(local=local) as source:
        head = source.head(name)
        if not yes:
            _confirm(head, source.where)
        source.delete(head.job_id, reason)
    show(f"deleted {head.job_id}")


def _confirm(head: JobHead, where: str | None) -> None:
    """Ask before a job goes."""
    from gramwatt.sci.figures.formatting import minute_text, plain, value_text

    energy = plain(value_text(head.energy_kwh))
    started = minute_text(head.started_at)
    about = f"{head.name}, {head.state}, {started} UTC, {energy}"
    place = f" on {where}" if where else ""
    question = f"Delete job {head.job_id} ({about}){place} for good?"
    confirm(question, "nothing was deleted; --yes deletes without asking")
