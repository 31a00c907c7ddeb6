"""The command `gramwatt job`: one job, how a figure came to be, and what moved between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gramwatt.sci.base.document import JobDoc


def job(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    explain: Annotated[
        str | None, typer.Option(help="Show how a figure came to be, such as energy_kwh.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="OTHER", help="Compare with the score of this job.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Compare in this unit [default: the first of OTHER].")
    ] = None,
) -> None:
    """Show one job, how one of its figures came to be, or what moved against another."""
    from gramwatt.service.cli import app
    from gramwatt.service.cli.explain import UnknownFieldError, known

    _check_usage(explain, against, unit)
    try:
        if explain is not None:
            known(explain)
        with app._open() as service:
            document = app._job_document(service, job_id)
            other = app._job_document(service, against) if against is not None else None
        found, lines = _shown(document, explain, other, unit)
    except UnknownFieldError as error:
        app._stop(2, str(error))
    app._print_json(found) if as_json else print("\n".join(lines))


def _check_usage(explain: str | None, against: str | None, unit: str | None) -> None:
    from gramwatt.service.cli import app

    if explain is not None and against is not None:
        app._stop(2, "give --explain or --against, not both")
    if unit is not None and against is None:
        app._stop(2, "--unit says in what to compare: give --against too")


def _shown(
    document: JobDoc, explain: str | None, other: JobDoc | None, unit: str | None
) -> tuple[object, list[str]]:
    """What to print: as JSON and as lines."""
    from gramwatt.service.cli.terminal import comparison_lines, job_lines

    if explain is not None:
        from gramwatt.service.cli.explain import explained

        figure = explained(document, explain)
        return figure, [figure["text"]]
    if other is None:
        return document, job_lines(document)
    from gramwatt.sci.analysis.compare import compare
    from gramwatt.sci.base.errors import ScoreError
    from gramwatt.service.cli import app

    try:
        found = compare(other, document, unit)
    except ScoreError as error:
        app._stop(1, error.message)
    return found, comparison_lines(found)
