"""The commands `gramwatt report job`, `month`, `year`, `comparison` and `card`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gramwatt.collectors.cli.options import DefaultGroup, Local, checked_text, group, grouped, show
from gramwatt.collectors.settings.files import why
from gramwatt.collectors.settings.progress import busy
from gramwatt.service.cli.common import (
    JobId,
    current_service,
    own_store_alone,
    require_month,
    stop,
    write_file,
)
from gramwatt.service.cli.compare import After, Before, runs_of
from gramwatt.service.cli.month import month_lines
from gramwatt.service.cli.source import StoreJobs, jobs_of
from gramwatt.service.common.requests import MonthQuery, ProjectQuery, UnitQuery, Year

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import JobDoc

Format = TypeVar("Format", bound=str)
Formats = Annotated[
    str,
    typer.Option(
        "--format",
        help="Comma-separated: html, pdf, json; of a month xlsx, zip of CSV; of a job csv, if.",
    ),
]
STDOUT = Path("-")
Folder = Annotated[Path, typer.Option("-o", "--output", help="Folder to write to; - for stdout.")]


def report_job(
    job_id: JobId = "last",
    formats: Formats = "html,pdf",
    output: Folder = Path(),
    full: Annotated[
        bool, typer.Option("--full", help="With every figure behind the score.")
    ] = False,
    local: Local = False,
) -> None:
    """Write the report of a job, two pages or with --full all; prints the files' names.

    Where a server is set: of its job.

    csv has every figure as a row; if is a manifest that Impact Framework (@grnsft/if 1.1.0) runs
    to the same total.
    """
    from gramwatt.reports.exports.common import ExportError
    from gramwatt.reports.exports.csv import scicsv
    from gramwatt.reports.exports.impact_framework import manifest
    from gramwatt.service import rendering
    from gramwatt.service.config import from_environment

    exports: dict[str, Callable[[JobDoc], str]] = {"csv": scicsv, "if": manifest}
    reports: dict[str, rendering.JobFormat] = {form: form for form in rendering.JOB_FORMATS}
    chosen = _chosen(formats, (*reports, *exports))
    with jobs_of(local=local) as source:
        document = source.document(job_id)
        advice = source.suggestions(document) if {*chosen} - {"json", *exports} else None
    mark = from_environment().reports.decimal_mark
    for name in chosen:
        try:
            content = (
                rendering.render_job(document, reports[name], advice, full=full, mark=mark)
                if name in reports
                else exports[name](document).encode()
            )
        except ExportError as error:
            stop(1, error.message)
        _write(output, f"{document.job_id}.{'if.yaml' if name == 'if' else name}", content)


def report_card(
    job_id: JobId = "last",
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Put it into this card, such as README.md.")
    ] = None,
    push: Annotated[
        str | None, typer.Option(metavar="ORG/MODEL", help="Into a card on the hub, by your login.")
    ] = None,
    local: Local = False,
) -> None:
    """Print a job's emissions, in grams, as the metadata of a Hugging Face model card.

    Push after training, not in it: the Trainer writes its card anew when it pushes.
    """
    from gramwatt.reports.exports import modelcard
    from gramwatt.reports.exports.common import ExportError

    with jobs_of(local=local) as source:
        document = source.document(job_id)
    try:
        if push is not None:
            _push(push, {modelcard.KEY: modelcard.fields(document)})
        if into is not None:
            text = into.read_text(encoding="utf-8") if into.is_file() else ""
            content = modelcard.into_card(text, document) if text else modelcard.card(document)
            write_file(into, content.encode())
        if into is None and push is None:
            content = modelcard.card(document)  # YAML escapes control characters
            print(content, end="")
    except ExportError as error:
        stop(1, error.message)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        stop(1, f"cannot read {into}: {reason}")


def _push(repo: str, metadata: dict[str, object]) -> None:
    try:
        import huggingface_hub
    except ImportError:
        stop(2, "--push needs huggingface_hub: pip install huggingface_hub")
    try:
        show(str(huggingface_hub.metadata_update(repo, metadata, overwrite=True)))
    except Exception as error:  # whatever the hub or the network answers
        stop(1, f"the hub did not take it: {error}")


@grouped
def report_comparison(
    before: Before,
    query: UnitQuery,
    after: After = "last",
    formats: Formats = "html,pdf",
    output: Folder = Path(),
) -> None:
    """Write the report of runs against others; prints the files' names."""
    from gramwatt.service import rendering
    from gramwatt.service.config import from_environment

    chosen = _chosen(formats, rendering.JOB_FORMATS)
    own_store_alone()
    with current_service() as service:
        source = StoreJobs(service)
        sides = runs_of(source, before), runs_of(source, after)
        result, date = source.dated_comparison(*sides, query.unit)
    mark = from_environment().reports.decimal_mark
    for form in chosen:
        content = rendering.render_comparison(result, form, date, mark)
        _write(output, f"comparison.{form}", content)


@grouped
def report_month(
    query: MonthQuery,
    month: Annotated[
        str | None,
        typer.Argument(metavar="[YYYY-MM]", help="The month (default: the newest with a job)."),
    ] = None,
    formats: Formats = "html,pdf",
    output: Folder = Path(),
) -> None:
    """Write the report of a month, kept if it is complete; prints ten lines and the files."""
    from gramwatt.reports.month_sections import incomplete
    from gramwatt.reports.printable import file_name
    from gramwatt.service import rendering
    from gramwatt.service.months.report import keep_month, month_text
    from gramwatt.service.months.revisions import job_table
    from gramwatt.service.store.columns import read_month

    require_month(month)
    chosen = _chosen(formats, rendering.MONTH_FORMATS)
    own_store_alone()
    with current_service() as service, busy("summing the month"):
        month = month or StoreJobs(service).newest_month()
        if query.revision is None:
            text = keep_month(service, month, query.project)
        else:
            text = month_text(service, month, query.project, revision=query.revision)
        document = read_month(text)
        mark = service.config.reports.decimal_mark
        frozen = document.project, document.revision
        jobs = job_table(service, month, *frozen).jobs if {"xlsx", "zip"} & {*chosen} else []
    for sentence in incomplete(document):
        show(f"gramwatt: {month} is not complete. {sentence}", err=True)
    stem = f"{month}-{file_name(query.project)}" if query.project else month
    for form in chosen:
        with busy(f"writing {form}"):
            content = rendering.render_month(document, form, lambda: jobs, mark=mark)
        _write(output, f"{stem}.{form}", content)
    show(*month_lines(document), err=True)


@grouped
def report_year(
    year: Annotated[str, typer.Argument(metavar="YYYY", help="The year.")],
    query: ProjectQuery,
    formats: Formats = "html,pdf",
    output: Folder = Path(),
) -> None:
    """Write the report of a year, out of those of its months; prints the files' names."""
    from gramwatt.reports.printable import file_name
    from gramwatt.service import rendering
    from gramwatt.service.months.report import year_report

    checked_text("year", Year, year)
    own_store_alone()
    chosen = _chosen(formats, rendering.JOB_FORMATS)
    with current_service() as service, busy("summing the year"):
        document = year_report(service, year, query.project)
        mark = service.config.reports.decimal_mark
    if not document.complete:
        show(f"gramwatt: {year} is not complete: its figures may change", err=True)
    stem = f"{year}-{file_name(query.project)}" if query.project else year
    for form in chosen:
        with busy(f"writing {form}"):
            content = rendering.render_year(document, form, mark)
        _write(output, f"{stem}.{form}", content)


def _chosen(text: str, known: Sequence[Format]) -> list[Format]:
    """Return the formats in a comma-separated text; exits with 2 for an unknown one."""
    by_name = {str(form): form for form in known}
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in by_name:
            stop(2, f"no format {name!r}; known: {', '.join(known)}")
    return [by_name[name] for name in names]


def _write(folder: Path, name: str, content: bytes) -> None:
    if folder == STDOUT:
        sys.stdout.buffer.write(content)
        return
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        stop(1, f"cannot write {path}: {why(error)}")
    write_file(path, content)


app = group(
    "Write a report of a job, a month or a year.",
    job=report_job,
    month=report_month,
    year=report_year,
    comparison=report_comparison,
    card=report_card,
    cls=DefaultGroup,
)
