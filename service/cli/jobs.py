"""The commands `gramwatt jobs` and `gramwatt job`."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.options import grouped, show
from gramwatt.service.cli.common import (
    AsJson,
    JobId,
    current_service,
    job_document,
    print_json,
    stop,
)
from gramwatt.service.cli.corrections import correct
from gramwatt.service.common.requests import JobList

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import JobDoc
    from gramwatt.service.container import Service


@grouped
def jobs(query: JobList, as_json: AsJson = False) -> None:
    """List jobs, filtered and sorted; the newest first."""
    from gramwatt.service.common.errors import CursorError
    from gramwatt.service.common.identifiers import short_ids
    from gramwatt.service.jobs.lists import jobs_page

    with current_service() as service:
        try:
            page = jobs_page(service, query)
        except CursorError as error:
            stop(2, f"--cursor: {error}")
        short = short_ids(service, [head.job_id for head in page.jobs])
    if as_json:
        print_json(page)
        return
    from gramwatt.service.cli.job_list import NO_JOB, job_rows

    if page.jobs:
        show(*job_rows(page.jobs, short, shutil.get_terminal_size().columns))
    else:
        show("no job matches" if query.cursor or query.is_filtered else NO_JOB)
    if page.next_cursor:
        show(f"more jobs: --cursor {page.next_cursor}", err=True)
    if page.model:
        from gramwatt.service.cli.terminal import model_lines

        show("", *model_lines(page.model))


def job(
    job_id: JobId,
    as_json: AsJson = False,
    explain: Annotated[
        str | None, typer.Option(help="Show how a figure came to be, such as energy_kwh.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Declare it now; may be repeated."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="With --set: why; it stays on record.")] = None,
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
        with current_service() as service:
            if settings:
                correct(service, job_id, settings, reason)
            document = job_document(service, job_id)
            answer, lines = _output(document, explain)
            lines += _suggestion(service, document) if answer is document and not as_json else []
    except UnknownFieldError as error:
        stop(2, str(error))
    if as_json:
        print_json(answer)
    else:
        show(*lines)


def _suggestion(service: Service, document: JobDoc) -> list[str]:
    """Return what would help most; nothing where nothing is known to help."""
    from gramwatt.collectors.cli.summary import wrapped
    from gramwatt.sci.suggest.jobs import advised
    from gramwatt.service.suggest import answer_for_document

    answer = answer_for_document(service, document)
    more = f" More: gramwatt suggest {document.job_id}"
    return ["", *wrapped(answer.summary + more)] if advised(answer) else []


def _output(document: JobDoc, field: str | None) -> tuple[object, list[str]]:
    """Return what to print: as JSON and as lines."""
    if field is not None:
        from gramwatt.service.cli.explain import explain

        explanation = explain(document, field)
        return explanation, [explanation.text]
    from gramwatt.service.cli.terminal import job_lines

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return document, job_lines(document, width)
