"""The commands `gramwatt jobs`, `gramwatt job` with what it declares, and `gramwatt rm`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramwatt.collectors.cli.options import Local, grouped, show
from gramwatt.collectors.settings.identity import LAST
from gramwatt.service.cli.common import AsJson, JobId, confirm, print_json, stop
from gramwatt.service.cli.source import jobs_of
from gramwatt.service.common.requests import JobList

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import JobDoc, JobHead
    from gramwatt.service.cli.source import ServerJobs, StoreJobs

EXAMPLE = "--set zone=DE"
TAG, COUNT = "tags.", "count."


@grouped
def jobs(query: JobList, local: Local = False, as_json: AsJson = False) -> None:
    """List jobs, filtered and sorted; the newest first.

    Where a server is set: its jobs, as far as the key may read them.
    """
    with jobs_of(local=local) as source:
        page, short = source.page(query)
        if source.where and not (page.jobs or query.cursor or query.is_filtered or as_json):
            source.ids(LAST)  # which says what to do where there is none
    if as_json:
        print_json(page)
        return
    from gramwatt.service.cli.job_list import NO_JOB, job_rows

    if page.jobs:
        if source.where:
            show(f"Jobs on {source.where}:", err=True)
        show(*job_rows(page.jobs, short, _width()))
    else:
        show("no job matches" if query.cursor or query.is_filtered else NO_JOB)
    if page.next_cursor:
        show(f"more jobs: --cursor {page.next_cursor}", err=True)
    if page.model:
        from gramwatt.service.cli.terminal import model_lines

        show("", *model_lines(page.model))


def _width() -> int:
    """Return how wide the list may be: in a pipe nothing is cut."""
    is_cut = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if is_cut else sys.maxsize


def job(
    job_id: JobId,
    as_json: AsJson = False,
    explain: Annotated[
        str | None,
        typer.Option(metavar="[FIELD]", help="How a figure came to be: total_g, energy_kwh, ..."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Declare it now; may be repeated."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="With --set: why; it stays on record.")] = None,
    local: Local = False,
) -> None:
    """Show one job, or how one of its figures came to be.

    --set declares what was not known, or not right, when the job ran:
    zone, region, unit, count.UNIT (R), pue, name, project, tags.KEY, or
    excluded=true with --reason WHY. The score is made again.

    Example: gramwatt job last --set zone=DE --set pue=1.2
    """
    from gramwatt.service.cli.explain import UnknownFieldError, check_field

    if settings and explain is not None:
        stop(2, "give --set alone; what it changed is shown")
    if reason is not None and not settings:
        stop(2, "--reason says why something is declared: give --set too")
    try:
        if explain is not None:
            check_field(explain)
        changes = parse_settings(settings or [])
        why = changes.pop("reason", None) or reason
        with jobs_of(local=local) as source:
            if settings:
                source.correct(job_id, changes, why)
            document = source.document(job_id)
            answer, lines = _output(document, explain)
            lines += _suggestion(source, document) if answer is document and not as_json else []
    except UnknownFieldError as error:
        stop(2, str(error))
    if as_json:
        print_json(answer)
    else:
        show(*lines)


def _suggestion(source: StoreJobs | ServerJobs, document: JobDoc) -> list[str]:
    """Return what would help most; nothing where nothing is known to help."""
    from gramwatt.collectors.cli.summary import wrapped
    from gramwatt.sci.suggest.jobs import advised

    answer = source.suggestions(document)
    if answer is None or not advised(answer):
        return []
    more = f" More: gramwatt suggest {document.job_id}"
    return ["", *wrapped(answer.summary + more)]


def _output(document: JobDoc, field: str | None) -> tuple[object, list[str]]:
    """Return what to print: as JSON and as lines."""
    if field is not None:
        from gramwatt.service.cli.explain import INPUTS_SHOWN, explain, lines
        from gramwatt.service.cli.terminal import indented

        explanation = explain(document, field)
        return explanation, indented("\n".join(lines(document, explanation, INPUTS_SHOWN)))
    from gramwatt.service.cli.terminal import job_lines

    return document, job_lines(document)


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
