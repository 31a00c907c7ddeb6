"""The commands `gramwatt export ...`: all that a store has, as journals or Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramwatt.collectors.cli.options import group, show
from gramwatt.collectors.settings.files import why
from gramwatt.service.cli.common import DatabaseUrl, log_act, open_service, require_month, stop


def export_journals(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Gets a file ID.jsonl per job.")],
    user: Annotated[str | None, typer.Option(help="Only jobs with this tag `user`.")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write the journal of every job: all that was measured, for gramwatt import journals.

    With --user the jobs of one person, which is an entry of gramwatt admin log.
    """
    from gramwatt.service.jobs.ingest import export_journals as export

    with open_service(database_url) as service:
        try:
            exported = export(service, folder, user)
        except OSError as error:
            stop(1, f"cannot write to {folder}: {why(error)}")
        done = f"{len(exported.written)} journals{f' of {user}' if user else ''}, to {folder}"
        log_act(service, "exported", done)
    for name in exported.left_out:
        show(f"gramwatt: {name} is left out: its intervals were deleted", err=True)
    number = len(exported.written)
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

    require_month(month)
    with open_service(database_url) as service:
        try:
            number = lake.write(service, place, month)
        except lake.LakeError as error:
            stop(1, error.message)
        done = f"Parquet of {month or 'all months'}, to {place}"
        log_act(service, "exported", done)
    show(f"{number} month{'' if number == 1 else 's'} written to {place}")


app = group(
    "Write all journals, or Parquet files.", journals=export_journals, parquet=export_parquet
)
