"""What the commands share: the open service, its job documents, output and exit."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from gramwatt.collectors.cli import server
from gramwatt.collectors.cli.options import AsJson as AsJson
from gramwatt.collectors.cli.options import checked_text, show
from gramwatt.collectors.cli.options import stop as stop
from gramwatt.collectors.settings.files import folder, whole_file, why

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import JobDoc
    from gramwatt.service.config import ServiceConfig
    from gramwatt.service.container import Service

JobId = Annotated[
    str, typer.Argument(metavar="ID", help="An id, the beginning of one, last, or a name.")
]
DatabaseUrl = Annotated[
    str | None, typer.Option(help="sqlite:////path/file.db or postgresql://... (default: home)")
]


def print_json(document: object) -> None:
    """Print a document on stdout; NaN and infinity have no place in it."""
    print(json.dumps(to_builtins(document), indent=2, allow_nan=False))


def write_file(path: Path, content: bytes) -> None:
    """Write a file and print its name; exits with 1, and changes nothing, when it cannot be."""
    try:
        with whole_file(path) as stream:
            stream.write(content)
    except OSError as error:
        stop(1, f"cannot write {path}: {why(error)}")
    print(path)


def service_config(database_url: str | None = None) -> ServiceConfig:
    """Return the settings; exits with 2 for one that cannot be used, with 1 where the store is to
    be in a home that cannot be written. With a store elsewhere, journals may be in another home.
    """
    from dataclasses import replace

    from gramwatt.collectors.spool.spool import usable_home
    from gramwatt.service.config import ConfigError, from_environment, sqlite_url

    try:
        config = from_environment()
    except ConfigError as error:
        stop(2, str(error))
    url = database_url or config.database_url
    try:
        if url != sqlite_url(config.home / "gramwatt.db"):
            return replace(config, home=usable_home(config.home), database_url=url)
        folder(config.home)
        if not os.access(config.home, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        stop(1, f"the home {config.home} cannot be written: {why(error)}; see GRAMWATT_HOME")
    return config


@contextmanager
def refusals() -> Iterator[None]:
    """Exit with one line where a use case refuses, or the database cannot be used."""
    from sqlalchemy.exc import SQLAlchemyError

    from gramwatt.sci.figures.errors import StoreError
    from gramwatt.service.common.errors import ServiceError, UnknownJobError
    from gramwatt.service.store.database import failure_text

    try:
        yield
    except UnknownJobError as error:
        next_step = "" if error.close or error.rejected else "; `gramwatt jobs` lists all"
        stop(error.exit_code, f"{error}{next_step}")
    except ServiceError as error:
        stop(error.exit_code, str(error))
    except SQLAlchemyError as error:
        stop(1, failure_text(error))
    except StoreError as error:
        stop(1, error.message)


@contextmanager
def open_service(database_url: str | None = None) -> Iterator[Service]:
    """Yield the service over the database as it is; exits with 2 for settings that cannot be
    used.
    """
    from gramwatt.service.container import Service

    try:
        with refusals():
            service = Service.open(service_config(database_url))
    except ValueError as error:
        stop(2, str(error))
    try:
        with refusals():
            yield service
    finally:
        service.store.close()


@contextmanager
def upgraded_service(database_url: str | None = None) -> Iterator[Service]:
    """Yield the service with up-to-date tables."""
    from gramwatt.service.store.migrate import upgrade

    with open_service(database_url) as service:
        upgrade(service.store)
        yield service


@contextmanager
def current_service() -> Iterator[Service]:
    """Yield the service with up-to-date tables, and this machine's journals as far as they go."""
    from gramwatt.service.jobs.local_spool import ingest_local_spool

    with upgraded_service() as service:
        ingest_local_spool(service, fresh=True)
        yield service


def own_store_alone() -> None:
    """Say on stderr, where a server is set, that a command reads this machine's store."""
    if server.is_set():
        show("gramwatt: read from this machine's own store, not from the server", err=True)


def require_month(text: str | None) -> None:
    """Exit with 2 for a text that is not a month."""
    from gramwatt.service.common.requests import Month

    if text is not None:
        checked_text("month", Month, text)


def job_document(service: Service, text: str) -> JobDoc:
    """Return the newest document of the job that a text means; exits with 1 for no score."""
    from gramwatt.service.jobs import documents as jobs

    with job_errors(text):
        return jobs.job_document(service, job_id(service, text)).document


def job_id(service: Service, text: str) -> str:
    """Return the whole id of a job as typed, of a name its newest completed run; exits with 1 for
    `last` without any job.
    """
    return run_ids(service, text, 1)[0]


def run_ids(service: Service, text: str, most: int | None = None) -> list[str]:
    """Return the ids of the jobs that a text means, of a name its newest completed runs; exits with
    1 for `last` without any job.
    """
    from gramwatt.service.jobs import documents

    ids = documents.run_ids(service, text, most or documents.RUNS)
    if ids == [text] == [documents.LAST]:
        stop(1, "there is no job yet; run one: gramwatt run -- python train.py")
    return ids


@contextmanager
def job_errors(text: str) -> Iterator[None]:
    """Exit with 1 for a job that makes no score."""
    from gramwatt.sci.figures.errors import ScoreError

    try:
        yield
    except ScoreError as error:
        stop(1, f"job {text!r} cannot be scored: {error.message}")


def confirm(question: str, otherwise: str) -> None:
    """Ask before something goes for good; anything but a yes exits with 1 and `otherwise`."""
    try:
        sure = typer.confirm(question, default=False, err=True)
    except typer.Abort:  # Ctrl-C, or nobody there to answer
        show("", err=True)
        sure = False
    if not sure:
        stop(1, otherwise)


def author() -> str:
    """Return who gives this command: this user, hashed unless names are allowed."""
    from gramwatt.collectors.settings.config import resolve
    from gramwatt.collectors.settings.identity import user_id

    return user_id(resolve().allow_host_names)


def log_act(service: Service, action: str, subject: str) -> None:
    """Add an entry to the audit log, by this user."""
    from gramwatt.service.access import audit
    from gramwatt.service.container import Caller

    audit.log(service.for_caller(Caller(author())), action, subject)
