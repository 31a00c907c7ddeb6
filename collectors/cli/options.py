"""What commands take: one JSON document as a request, flags that win over it, and times."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gramwatt.collectors.common.files import why
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.printable import clean

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Source = Annotated[
    str | None, typer.Option("--input", help="The request as JSON: a file, or - for stdin.")
]
Units = Annotated[
    list[str] | None,
    typer.Option(metavar="UNIT=N", help="Such as token=1e9; may be repeated."),
]


_SPAN = re.compile(r"(\d+(?:\.\d*)?)([mhd])")
_SPAN_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def read_document(source: str | None) -> dict[str, Any]:
    """Return the JSON object in a file, or on standard input for "-"; {} without a source.

    Ends the command with exit 2 when it cannot be read or is no object.
    """
    if source is None:
        return {}
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        refuse(f"--input {source}: {why(error)}")
    if not isinstance(document, dict):
        refuse(f"--input {source}: a request is a JSON object")
    return document


def with_flags(document: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with every flag that was given; a flag wins over the document."""
    return {**document, **{name: value for name, value in flags.items() if value is not None}}


def counts(pairs: list[str] | None) -> dict[str, float] | None:
    """Return UNIT=COUNT pairs as a mapping; exit 2 for anything else."""
    if not pairs:
        return None
    found: dict[str, float] = {}
    for pair in pairs:
        unit, _, count = pair.partition("=")
        if unit in found:
            refuse(f"--unit {pair!r}: {unit} is given more than once")
        try:
            found[unit] = float(count)
        except ValueError:
            refuse(f"--unit {pair!r}: write UNIT=COUNT, such as token=1e9")
    return found


def ranged(name: str, text: str | None) -> float | dict[str, float] | None:
    """Return a number, or LOW,VALUE,HIGH as requests take it; exit 2 for anything else."""
    if text is None:
        return None
    try:
        figures = [float(part) for part in text.split(",")]
    except ValueError:
        figures = []
    if len(figures) == 3:
        return dict(zip(("low", "value", "high"), figures, strict=True))
    if len(figures) != 1:
        refuse(f"{name} {text!r}: write a number, or LOW,VALUE,HIGH such as 350,400,450")
    return figures[0]


def moment(text: str | None, now: str | None = None) -> str | None:
    """Return a time written as 90m, 12h or 2d after `now` (ISO 8601, default: the clock's) in
    ISO 8601. Any other text is returned as it is: the engine refuses what is not a time.
    """
    if text is None or not (span := _SPAN.fullmatch(text)):
        return text
    try:
        start = datetime.fromisoformat(now) if now else datetime.now(UTC)
        return (start + timedelta(**{_SPAN_UNITS[span[2]]: float(span[1])})).isoformat()
    except (ValueError, OverflowError):  # of another form, or of no century
        return text


def show(*lines: str, err: bool = False) -> None:
    """Print lines that may hold texts of others, such as names: none of them can begin a line of
    its own, or change what a terminal shows.
    """
    typer.echo("\n".join(map(clean, lines)), err=err)


def refuse(message: str) -> NoReturn:
    """Report on stderr what is wrong and end with exit 2."""
    show(f"gramwatt: {message}", err=True)
    raise typer.Exit(2)


def refuse_error(error: GramwattError, *, as_json: bool) -> NoReturn:
    """End with exit 2 for a request the engine refuses; as JSON with choices or close names."""
    if as_json:
        document = {"code": error.code, "detail": error.message, **error.names}
        typer.echo(json.dumps(document, indent=2))
    refuse(error.message)
