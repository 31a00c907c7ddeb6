"""The command `gramwatt export`: a stored job in other tools' formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from gramwatt.sci.base.document import JobDoc

JobId = Annotated[str, typer.Argument(help="The job's id, as `gramwatt jobs` lists it.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="File to write. [stdout]")]


def add_export(app: typer.Typer) -> None:
    """Add `export if|imp|modelcard|csv` to the product's command."""
    export = typer.Typer(no_args_is_help=True, help="Write a job in another tool's format.")
    export.command("if")(export_if)
    export.command("imp")(export_imp)
    export.command("modelcard")(export_modelcard)
    export.command("csv")(export_csv)
    app.add_typer(export, name="export")


def export_if(job_id: JobId, output: Output = None) -> None:
    """A manifest that Impact Framework (@grnsft/if 1.1.0) runs to the same total."""
    from gramwatt.reports.exports.impact_framework import manifest

    _write(job_id, manifest, output)


def export_imp(job_id: JobId, output: Output = None) -> None:
    """The form of GSF's SCI self-certification, with what is missing and a self-audit."""
    from gramwatt.reports.exports.imp import imp

    _write(job_id, imp, output)


def export_modelcard(job_id: JobId, output: Output = None) -> None:
    """The co2_eq_emissions block of a model card, in grams; put into the card if -o exists."""
    from gramwatt.reports.exports.modelcard import card, into_card

    if output is None or not output.exists():
        _write(job_id, card, output)
        return
    try:
        text = output.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        from gramwatt.service.cli import app as commands

        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        commands._stop(1, f"cannot read {output}: {reason}")
    _write(job_id, lambda document: into_card(text, document), output)


def export_csv(job_id: JobId, output: Output = None) -> None:
    """Every figure a row, with its range, kind and source, and energy by device and step."""
    from gramwatt.reports.exports.csv import scicsv

    _write(job_id, scicsv, output)


def _write(job_id: str, export: Callable[[JobDoc], str], output: Path | None) -> None:
    from gramwatt.reports.exports.common import ExportError
    from gramwatt.service.cli import app as commands

    try:
        content = export(_document(job_id))
    except ExportError as error:
        commands._stop(1, error.message)
    if output is None:
        print(content, end="")
        return
    try:
        output.write_bytes(content.encode())
    except OSError as error:
        commands._stop(1, f"cannot write {output}: {error.strerror or error}")
    print(output)


def _document(job_id: str) -> Any:
    from gramwatt.service.cli import app as commands

    with commands._open() as service:
        return commands._job_document(service, job_id)
