"""The command `gramwatt month`: a month in the terminal, of the store or out of a lake."""

from __future__ import annotations

import re
import shutil
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gramwatt.collectors.cli.options import Local, grouped, show
from gramwatt.collectors.settings.progress import busy
from gramwatt.service.cli.common import AsJson, print_json, refusals, require_month, stop
from gramwatt.service.cli.source import jobs_of
from gramwatt.service.common.requests import MonthQuery

if TYPE_CHECKING:
    from gramwatt.sci.month.documents import MonthDoc

INDENT = " " * 10
"""Under the values, where a line goes on."""


@grouped
def month(
    query: MonthQuery,
    month: Annotated[
        str | None,
        typer.Argument(metavar="[YYYY-MM]", help="The month (default: the newest with a job)."),
    ] = None,
    against: Annotated[
        int | None, typer.Option(min=1, help="What differs from this kept revision, and why.")
    ] = None,
    place: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="What gramwatt export parquet wrote there."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="duckdb, or spark by Spark Connect (SPARK_REMOTE); with --from.")
    ] = "duckdb",
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """A month in ten lines: total, causes, budgets, what to do; or what a revision changed."""
    project, revision = query.project, query.revision
    if month and re.fullmatch(r"\d{4}", month):
        stop(2, f"{month} is a year: gramwatt report year {month}")
    require_month(month)
    if engine not in ("duckdb", "spark"):
        stop(2, f"no engine {engine!r}; known: duckdb, spark")
    if place is not None:
        from gramwatt.service import lake

        chosen: Literal["duckdb", "spark"] = "spark" if engine == "spark" else "duckdb"
        if revision is not None or against is not None:
            stop(2, "a lake has no revisions; leave out --revision and --against")
        if month is None:
            stop(2, "say which month of the lake, such as 2026-05")
        try:
            with refusals(), busy("summing the month"):
                document = lake.month_from(place, month, project, chosen)
        except lake.LakeError as error:
            stop(1, error.message)
        _show(document, as_json)
        return
    with jobs_of(local=local) as source:
        month = month or source.newest_month()
        if against is None:
            with busy("summing the month"):
                document = source.month(month, query)
            _show(document, as_json, source.where)
            return
        difference = source.month_changes(month, query, against)
    if as_json:
        print_json(difference)
        return
    from gramwatt.sci.month.revised import change_lines

    name = f"revision {revision}" if revision else "now"
    show(f"{month}, {name} against revision {against}:", *change_lines(difference.changes))


def month_lines(document: MonthDoc) -> list[str]:
    """Return a month in about ten lines, as wide as the terminal."""
    from gramwatt.reports.month import summary_lines
    from gramwatt.sci.figures.formatting import plain
    from gramwatt.sci.figures.printable import clean

    width = shutil.get_terminal_size().columns
    lines = (clean(plain(line)) for line in summary_lines(document))
    return [part for line in lines for part in wrap(line, width, subsequent_indent=INDENT)]


def _show(document: MonthDoc, as_json: bool, where: str | None = None) -> None:
    if as_json:
        print_json(document)
        return
    if where:
        show(f"Jobs on {where}:", err=True)
    more = f"{where}/months/" if where else "gramwatt report month "
    show(*month_lines(document), f"More: {more}{document.month}")
