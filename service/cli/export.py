"""The commands `gramwatt export ...`: a stored job in other tools' formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.options import show
from gramwatt.collectors.settings.files import why
from gramwatt.service.cli.common import (
    DatabaseUrl,
    JobId,
    author,
    current_service,
    job_document,
    open_service,
    require_month,
    stop,
    write_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gramwatt.sci.figures.document import JobDoc

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write (default: stdout).")
]


def export_if(job_id: JobId, output: Output = None) -> None:
    """A manifest that Impact Framework (@grnsft/if 1.1.0) runs to the same total."""
    from gramwatt.reports.exports.impact_framework import manifest

    _write(job_id, manifest, output)


def export_modelcard(job_id: JobId, output: Output = None) -> None:
    """The co2_eq_emissions block of a model card, in grams; put into the card if -o exists."""
    from gramwatt.reports.exports.modelcard import card, into_card

    if output is None or not output.exists():
        _write(job_id, card, output)
        return
    try:
        text = output.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        stop(1, f"cannot read {output}: {reason}")
    _write(job_id, lambda document: into_card(text, document), output)


def export_csv(job_id: JobId, output: Output = None) -> None:
    """Every figure a row, with its range, kind and source, and energy by device and step."""
    from gramwatt.reports.exports.csv import scicsv

    _write(job_id, scicsv, output)


def export_journals(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Gets a file ID.jsonl per job.")],
    user: Annotated[str | None, typer.Option(help="Only jobs with this tag `user`.")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write the journal of every job: all that was measured, for gramwatt import journals.

    With --user the jobs of one person, which is an entry of gramwatt key log.
    """
    from gramwatt.service.access import audit
    from gramwatt.service.container import Caller
    from gramwatt.service.jobs.journals import export_journals as export

    with open_service(database_url) as service:
        try:
            found = export(service, folder, user)
        except OSError as error:
            stop(1, f"cannot write to {folder}: {why(error)}")
        done = f"{len(found.written)} journals{f' of {user}' if user else ''}, to {folder}"
        audit.log(service.for_caller(Caller(author())), "exported", done)
    for name in found.left_out:
        show(f"gramwatt: {name} is left out: its intervals were deleted", err=True)
    number = len(found.written)
    show(f"{number} job{'' if number == 1 else 's'} written to {folder}")


def export_parquet(
    place: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="A folder, or s3://bucket/prefix.")
    ],
    month: Annotated[str | None, typer.Option(help="This month alone, YYYY-MM.")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write jobs, the rows of months and intervals as Parquet files, for DuckDB, Spark, pandas."""
    from gramwatt.service import lake
    from gramwatt.service.access import audit
    from gramwatt.service.container import Caller

    require_month(month)
    with open_service(database_url) as service:
        try:
            number = lake.write(service, place, month)
        except lake.LakeError as error:
            stop(1, error.message)
        done = f"Parquet of {month or 'all months'}, to {place}"
        audit.log(service.for_caller(Caller(author())), "exported", done)
    show(f"{number} month{'' if number == 1 else 's'} written to {place}")


def _write(job_id: str, export: Callable[[JobDoc], str], output: Path | None) -> None:
    """Write what `export` makes of a job's document."""
    from gramwatt.reports.exports.common import ExportError

    with current_service() as service:
        document = job_document(service, job_id)
    try:
        content = export(document)
    except ExportError as error:
        stop(1, error.message)
    if output is None:
        print(content, end="")
    else:
        write_file(output, content.encode())
