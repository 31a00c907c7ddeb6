"""The service's commands: `serve`, `jobs`, `job`, `report` and `db`, added to the one command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from gramwatt.service.config import ServiceConfig
    from gramwatt.service.container import Service

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Project = Annotated[str | None, typer.Option(help="Only this project.")]
Formats = Annotated[
    str, typer.Option("--format", help="Comma-separated: html, pdf, json; csv for a month.")
]
Folder = Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")]
DatabaseUrl = Annotated[
    str | None, typer.Option(help="sqlite:////path/file.db or postgresql://... [default: home]")
]


def add_commands(app: typer.Typer) -> None:
    """Add the service's commands to the product's command."""
    from gramwatt.service.cli.job import job

    app.command()(serve)
    app.command()(jobs)
    app.command()(job)
    report = typer.Typer(no_args_is_help=True, help="Write a report of a job or a month.")
    report.command("job")(report_job)
    report.command("month")(report_month)
    app.add_typer(report, name="report")
    database = typer.Typer(no_args_is_help=True, help="Look after the database.")
    database.command("upgrade")(db_upgrade)
    database.command("check")(db_check)
    app.add_typer(database, name="db")
    _add_demo(app)


def serve(
    host: Annotated[str, typer.Option(help="Loopback only, until keys exist.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8642,
    database_url: DatabaseUrl = None,
) -> None:
    """Serve the pages and the API, and do the periodic work."""
    from sqlalchemy.exc import SQLAlchemyError

    from gramwatt.sci.base.errors import StoreError
    from gramwatt.service.server import run
    from gramwatt.service.usecases.local_spool import unusable

    try:
        run(_config(database_url), host, port)
    except ValueError as error:
        _stop(2, str(error))
    except SQLAlchemyError as error:
        _stop(1, unusable(error))
    except StoreError as error:
        _stop(1, error.message)
    except OSError as error:
        _stop(1, f"cannot serve on {host}:{port}: {error.strerror or error}")


def jobs(
    as_json: AsJson = False,
    project: Project = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Only runs of this model, and their sums.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, at most.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
) -> None:
    """List jobs, newest first."""
    from gramwatt.service.api.problems import Problem
    from gramwatt.service.metrics import STATES
    from gramwatt.service.usecases.lists import jobs_page

    if state is not None and state not in STATES:
        _stop(2, f"no state {state!r}; known: {', '.join(STATES)}")
    with _open() as service:
        try:
            page = jobs_page(service, limit, cursor, project=project, state=state, model_id=model)
        except Problem as problem:
            _stop(2, problem.detail)
    if as_json:
        _print_json(page)
        return
    from gramwatt.service.cli.terminal import jobs_table, model_lines

    if not page["jobs"] and (project or state or model or cursor):
        print("no job matches")
    else:
        jobs_table(page["jobs"])
    if "model" in page:
        print("\n".join(["", *model_lines(page["model"])]))


def report_job(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    formats: Formats = "html,pdf",
    output: Folder = Path(),
) -> None:
    """Write the report of a job; prints the files' names."""
    from gramwatt.service.usecases import rendering
    from gramwatt.service.usecases.suggest import advice_beside

    chosen = _formats(formats, rendering.JOB_FORMATS)
    with _open() as service:
        document = _job_document(service, job_id)
        advice = advice_beside(service, document, chosen)
    for form in chosen:
        _write(output / f"{job_id}.{form}", rendering.job_report(document, form, advice))


def report_month(
    month: Annotated[str, typer.Argument(metavar="YYYY-MM", help="The month, UTC.")],
    project: Project = None,
    formats: Formats = "html,pdf",
    output: Folder = Path(),
) -> None:
    """Write the report of a month; prints the files' names."""
    import re

    from gramwatt.service.usecases import rendering
    from gramwatt.service.usecases.month import NoDataError, month_report

    if not re.fullmatch(r"(19|20|21)\d\d-(0[1-9]|1[0-2])", month):
        _stop(2, f"{month!r} is not a month; write YYYY-MM, such as 2026-05")
    chosen = _formats(formats, rendering.MONTH_FORMATS)
    with _open() as service:
        try:
            document = month_report(service, month, project)
        except NoDataError as error:
            _stop(1, str(error))
    stem = f"{month}-{_file_name(project)}" if project else month
    for form in chosen:
        _write(output / f"{stem}.{form}", rendering.month_report(document, form))


def db_upgrade(database_url: DatabaseUrl = None) -> None:
    """Create the tables, or bring them up to date."""
    from gramwatt.service.store.migrate import upgrade

    with _store(database_url) as service:
        changed = upgrade(service.store)
    print("upgraded" if changed else "up to date")


def db_check(database_url: DatabaseUrl = None) -> None:
    """Say whether the tables are those of this release; exit code 1 when they are not."""
    from gramwatt.service.store.migrate import differences, is_current, require_known

    with _store(database_url) as service:
        require_known(service.store)
        if not is_current(service.store):
            _stop(1, "the database is not up to date; run: gramwatt db upgrade")
        changes = differences(service.store)
    if changes:
        _stop(1, "the tables differ from this release:\n" + "\n".join(changes))
    print("up to date")


def _add_demo(app: typer.Typer) -> None:
    from importlib.util import find_spec

    if find_spec("gramwatt.service.demo") is not None:
        from gramwatt.service.demo import add_demo

        add_demo(app)


def _config(database_url: str | None) -> ServiceConfig:
    from dataclasses import replace

    from gramwatt.collectors.journal.spool import usable_home
    from gramwatt.service.config import ConfigError, from_environment, sqlite_url

    try:
        config = from_environment()
    except ConfigError as error:
        _stop(2, str(error))
    if config.home is None:
        return config
    home = usable_home(config.home)
    url = database_url or config.database_url
    if url == sqlite_url(config.home / "gramwatt.db"):
        url = sqlite_url(home / "gramwatt.db")
    return replace(config, home=home, database_url=url)


@contextmanager
def _store(database_url: str | None = None) -> Iterator[Service]:
    from sqlalchemy.exc import SQLAlchemyError

    from gramwatt.sci.base.errors import StoreError
    from gramwatt.service.container import Service
    from gramwatt.service.usecases.local_spool import unusable

    try:
        service = Service.open(_config(database_url))
    except ValueError as error:
        _stop(2, str(error))
    try:
        yield service
    except SQLAlchemyError as error:
        _stop(1, unusable(error))
    except StoreError as error:
        _stop(1, error.message)
    finally:
        service.store.close()


@contextmanager
def _open() -> Iterator[Service]:
    """The store with its tables, after taking in what closed jobs left on this machine."""
    from gramwatt.service.store.migrate import upgrade
    from gramwatt.service.usecases.local_spool import take_in_with

    with _store() as service:
        upgrade(service.store)
        take_in_with(service)
        yield service


def _job_document(service: Service, job_id: str) -> Any:
    from gramwatt.sci.base.errors import ScoreError
    from gramwatt.service.usecases.read import UnknownJobError, job_document

    try:
        return job_document(service, job_id).document
    except UnknownJobError as error:
        _stop(1, str(error))
    except ScoreError as error:
        _stop(1, f"job {job_id!r} cannot be scored: {error.message}")


def _formats(text: str, known: tuple[str, ...]) -> list[str]:
    chosen = [form.strip().lower() for form in text.split(",") if form.strip()]
    for form in chosen:
        if form not in known:
            _stop(2, f"no format {form!r}; known: {', '.join(known)}")
    return chosen or [known[0]]


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        _stop(1, f"cannot write {path}: {error.strerror or error}")
    print(path)


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))


def _stop(code: int, message: str) -> NoReturn:
    print(f"gramwatt: {message}", file=sys.stderr)
    raise typer.Exit(code)
