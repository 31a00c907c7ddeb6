"""The commands `gramwatt import ...`: what other tools have measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Meta, Struct

from gramwatt.collectors.cli.options import group, grouped, show
from gramwatt.collectors.settings.files import why
from gramwatt.collectors.settings.progress import bar
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.service.cli.common import (
    AsJson,
    DatabaseUrl,
    author,
    print_json,
    stop,
    upgraded_service,
)
from gramwatt.service.common.requests import Text

if TYPE_CHECKING:
    from datetime import tzinfo

    from gramwatt.service.imports.codecarbon import ImportAnswer

SHOWN_MOST = 20
"""Refused rows that are named on the terminal; `--json` has all."""


def import_codecarbon(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="An emissions.csv.")],
    timezone: Annotated[
        str | None,
        typer.Option(help="Of the file's times, as Europe/Paris (default: this machine's)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a job of every run in a codecarbon emissions.csv; importing again changes nothing.

    Rows that cannot be used are named by line and leave exit code 1; the others are imported.
    """
    from gramwatt.service.imports.codecarbon import NotCodecarbonError, import_csv

    zone = _zone(timezone)
    with upgraded_service() as service, bar("importing") as progress:
        try:
            answer = import_csv(service, file, zone, progress)
        except NotCodecarbonError as error:
            stop(2, str(error))
        except OSError as error:
            stop(2, f"cannot read {file}: {why(error)}")
    if as_json:
        print_json(answer)
    else:
        show(_summary(answer))
    for row in [] if as_json else answer.rejected[:SHOWN_MOST]:
        show(f"gramwatt: {file}, line {row.line}: {row.message}", err=True)
    if len(answer.rejected) > SHOWN_MOST and not as_json:
        more = len(answer.rejected) - SHOWN_MOST
        show(f"gramwatt: and {more} more rows; --json names all", err=True)
    if answer.rejected:
        raise typer.Exit(1)


def import_journals(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="With files ID.jsonl.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Store the journals that gramwatt export journals wrote; importing again changes nothing.

    Lines that are refused are named and leave exit code 1; the others are imported.
    """
    from gramwatt.service.jobs.ingest import import_journals as read

    if not folder.is_dir():
        stop(2, f"there is no folder {folder}")
    jobs = new = known = refused = 0
    with upgraded_service(database_url) as service:
        try:
            for name, answer in read(service, folder):
                jobs += 1
                if isinstance(answer, str):
                    refused += 1
                    show(f"gramwatt: {name}: {answer}", err=True)
                    continue
                new, known = new + answer.accepted, known + answer.duplicate
                refused += answer.rejected_count
                for row in answer.rejected[:SHOWN_MOST]:
                    show(f"gramwatt: {name}, line {row.line}: {row.message}", err=True)
        except OSError as error:
            stop(2, f"cannot read {folder}: {why(error)}")
    show(f"{jobs} jobs read: {new} lines new, {known} known, {refused} refused")
    if refused:
        raise typer.Exit(1)


class IntensityFile(Struct, frozen=True, kw_only=True):
    """Which intensity a file has, and where it is from."""

    zone: Annotated[Text, Meta(description="Grid zone: DE, US-CAL-CISO, ...")]
    basis: Annotated[Basis, Meta(description="Direct is from the stack only.")]
    signal: Annotated[Signal, Meta(description="Average is what scores use.")]
    publisher: Annotated[Text | None, Meta(description="Who published it; for reports.")] = None
    licence: Annotated[Text | None, Meta(description="Its licence; for reports.")] = None
    link: Annotated[Text | None, Meta(description="Where it is published; for reports.")] = None


@grouped
def import_intensity(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Yours or a publisher's.")],
    options: IntensityFile,
    as_json: AsJson = False,
) -> None:
    """Import a zone's grid intensity over time, for scores and plans.

    Of a file of yours, start_utc,g_per_kwh: one row a step of 5 to 60 minutes, in order. Files of
    Electricity Maps, NESO, ENTSO-E, EIA and AEMO are taken as they are.

    Importing again changes nothing; other values count from then on. Scores and plans use average
    lifecycle values; others are stored beside them (gramwatt intensity ZONE --basis direct).
    """
    from gramwatt.sci.figures.errors import LookupFailed
    from gramwatt.service.access import audit
    from gramwatt.service.container import Caller
    from gramwatt.service.intensity.csv_import import Origin, import_csv
    from gramwatt.service.intensity.plans import unused_text
    from gramwatt.service.intensity.publishers import IntensityFileError

    series = f"{options.signal} {options.basis}"
    with upgraded_service() as service, bar("importing") as progress:
        try:
            size = file.stat().st_size
            answer = import_csv(
                service.for_caller(Caller(author())),
                file,
                options.zone,
                options.basis,
                options.signal,
                lambda done: progress(done, size),
                Origin(options.publisher, options.licence, options.link),
            )
            subject = f"{answer.zone} {series}: {file.name}, sha256 {answer.sha256}"
            with service.store.write() as session:
                audit.record(session, service, "intensity-imported", subject, author())
        except IntensityFileError as error:
            stop(2, f"{file}: {error}; nothing was imported")
        except LookupFailed as error:
            stop(2, error.message)
        except OSError as error:
            stop(2, f"cannot read {file}: {why(error)}")
    for notice in answer.notices:
        show(f"gramwatt: {notice.message}", err=True)
    if not answer.used:
        show(f"gramwatt: {unused_text(answer.zone, series)}", err=True)
    steps = " then ".join(map(str, answer.steps_minutes))
    of = f", read as a file of {answer.format}" if answer.format else ""
    values = (
        "no value is known"
        if answer.mean_g_per_kwh is None
        else f"{answer.mean_g_per_kwh:.4g} gCO2e/kWh on average "
        f"({answer.low_g_per_kwh:.4g} to {answer.high_g_per_kwh:.4g}){of}"
    )
    if as_json:
        print_json(answer)
    else:
        show(
            f"{answer.zone}: {answer.points} points of {steps} minutes, "
            f"{answer.unknown} unknown; {answer.days_new} of {answer.days} days are new",
            values,
            f"from {answer.start} to {answer.end}",
        )


def import_prometheus(
    url: Annotated[str, typer.Option(help="The server, as http://prometheus:9090.")],
    start: Annotated[str, typer.Option("--from", help="A time (UTC where it names no zone).")],
    end: Annotated[str, typer.Option("--to", help="A time, as 2026-11-01T00:00.")],
    mapping: Annotated[
        Path, typer.Option("--map", metavar="FILE.toml", help="Whose samples are which job's.")
    ],
    token_file: Annotated[
        Path | None, typer.Option(help="With a token that the server asks for (Bearer).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make jobs of what dcgm-exporter and Kepler have in a Prometheus, for nodes without a meter.

    Importing again changes nothing, and a longer span makes the jobs longer. What a meter
    measured of a board at the same time counts there.
    """
    from gramwatt.service.imports.prometheus import (
        MappingError,
        Prometheus,
        PrometheusError,
        import_range,
        read_mapping,
    )

    span = _unix_s("--from", start), _unix_s("--to", end)
    if span[0] >= span[1]:
        stop(2, f"--from {start} is not before --to {end}")
    if not url.startswith(("http://", "https://")):
        stop(2, f"--url {url!r} is not an HTTP address; write it as http://prometheus:9090")
    try:
        rules = read_mapping(mapping)
        token = token_file.read_text("utf-8").strip() if token_file else None
    except MappingError as error:
        stop(2, f"{mapping}: {error}")
    except OSError as error:
        stop(2, f"cannot read {error.filename}: {why(error)}")
    with upgraded_service() as service:
        try:
            answer = import_range(service, Prometheus(url, token), span, rules)
        except PrometheusError as error:
            stop(1, f"{error}; nothing was imported")
    if as_json:
        print_json(answer)
    else:
        jobs = len(answer.imported)
        known = f", {answer.duplicate} already there" if answer.duplicate else ""
        show(
            f"imported {jobs} job{'' if jobs == 1 else 's'}{known}: "
            f"{answer.energy_j / 3.6e6:.4g} kWh of {answer.boards} boards and their hosts; "
            f"{answer.nobody_j / 3.6e6:.4g} kWh of the boards is nobody's"
        )
        for uuid in answer.unread:
            show(f"gramwatt: {uuid} shows only zeros: its energy is not known, in no job", err=True)
    for row in [] if as_json else answer.rejected[:SHOWN_MOST]:
        show(f"gramwatt: line {row.line}: {row.message}", err=True)
    if answer.rejected:
        raise typer.Exit(1)


def _unix_s(option: str, text: str) -> int:
    from datetime import UTC, datetime

    try:
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return int(when.timestamp())
    except (ValueError, OverflowError):
        stop(2, f"{option} {text!r} is not a time; write one as 2026-11-01T00:00 or 2026-11-01")


def _zone(name: str | None) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    try:
        return None if name is None else ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        stop(2, f"--timezone {name!r} is not known; write one such as Europe/Paris or UTC")


def _summary(answer: ImportAnswer) -> str:
    jobs = len(answer.imported)
    rest = {
        "replaced by a longer row": len(answer.updated),
        "already there": answer.duplicate,
        "earlier rows of a run": answer.superseded,
        "refused": len(answer.rejected),
    }
    parts = [f"{number} {what}" for what, number in rest.items() if number]
    return ", ".join([f"imported {jobs} job{'' if jobs == 1 else 's'}", *parts])


app = group(
    "Import other tools' runs, journals, or grid intensity.",
    codecarbon=import_codecarbon,
    journals=import_journals,
    prometheus=import_prometheus,
    intensity=import_intensity,
)
