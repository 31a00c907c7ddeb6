"""Stores of both kinds, an app over each, and a clock that tests turn."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from flask import Flask
from werkzeug.routing import Rule

from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from tests.service.keyed import KeyedClient, client_of
from tests.service.processes import start_postgres


class CompiledOnce(Rule):
    """A rule that takes over what an equal one of another app compiled, half of an app's cost."""

    built: ClassVar[dict[tuple[str, bool], Callable[..., tuple[str, str]]]] = {}

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        known = (self.rule, append_unknown)
        if known not in self.built:
            self.built[known] = super()._compile_builder(append_unknown)
        return self.built[known]


Flask.url_rule_class = CompiledOnce


class Clock:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.now = datetime(2026, 6, 2, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **by: float) -> None:
        """Let time pass, as `timedelta` takes it."""
        self.now += timedelta(**by)


@pytest.fixture(autouse=True)
def shows_a_key(monkeypatch):
    """Every test client shows an admin's key, unless a test gives it another."""
    monkeypatch.setattr(Flask, "test_client_class", KeyedClient)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def postgres_server():
    """The address of a real PostgreSQL, started from a wheel.

    Started by root it runs as a user of its own, who must reach its folder. pytest closes its
    temporary folders to others again and again, so the data lives in one that is not pytest's.
    """
    folder = Path(tempfile.mkdtemp(prefix="gramwatt-postgres-"))
    server = start_postgres(folder / "data")
    # Nothing here pulls the plug: processes are killed, and what they wrote the system still has.
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def create_database(server: str, template: str = "template1", options: str = "") -> str:
    """The address of a new database, a copy of another one of the server.

    `options` are further ones of CREATE DATABASE.
    """
    import sqlalchemy as sa

    from gramwatt.service.addresses import parse_url

    name = f"t{uuid.uuid4().hex}"
    url = parse_url(server)
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE {template} {options}"))
    # A machine that stands still for 3 s must not have the store think that its server is away.
    made = url.set(database=name).update_query_dict({"connect_timeout": "60"})
    return made.render_as_string(hide_password=False)


def upgraded(url: str) -> str:
    """The same address, with tables."""
    from gramwatt.service.store.database import Store
    from gramwatt.service.store.migrate import upgrade

    store = Store(url)
    upgrade(store)
    store.close()
    return url


@pytest.fixture(scope="session")
def sqlite_tables(tmp_path_factory):
    """A file with tables and no rows, to copy: migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("tables") / "gramwatt.db"
    upgraded(sqlite_url(path))
    return path


@pytest.fixture(scope="session")
def postgres_tables(postgres_server):
    """The name of a database with tables and no rows, to copy."""
    return upgraded(create_database(postgres_server)).rpartition("/")[2].partition("?")[0]


@pytest.fixture
def new_postgres(postgres_server):
    """Makes a new database on the server and gives its address."""
    return lambda: create_database(postgres_server)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "store" / "gramwatt.db")
    made: str = request.getfixturevalue("new_postgres")()
    return made


def service_over(request: pytest.FixtureRequest, home: Path, clock: Clock) -> Service:
    """A service with tables over a new database of the kind that the fixture asks for."""
    if request.param == "sqlite":
        url = sqlite_url(home / "store" / "gramwatt.db")
        copy_tables(request.getfixturevalue("sqlite_tables"), home / "store")
    else:
        tables = request.getfixturevalue("postgres_tables")
        url = create_database(request.getfixturevalue("postgres_server"), tables)
    return Service.open(ServiceConfig(home=home, database_url=url, clock=clock))


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request, clock, tmp_path):
    """A service with tables, over each kind of database."""
    made = service_over(request, tmp_path, clock)
    yield made
    made.store.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared(request, tmp_path_factory):
    """The same for all tests of a module that only read what is in it."""
    made = service_over(request, tmp_path_factory.mktemp("shared"), Clock())
    yield made
    made.store.close()


def copy_tables(tables: Path, folder: Path) -> None:
    """Put a store without rows into a folder."""
    folder.mkdir(exist_ok=True, mode=0o700)
    shutil.copy(tables, folder)


@pytest.fixture
def light(tmp_path, clock, sqlite_tables):
    """A service over SQLite only, for what does not depend on the database."""
    url = sqlite_url(tmp_path / "gramwatt.db")
    copy_tables(sqlite_tables, tmp_path)
    made = Service.open(
        ServiceConfig(home=tmp_path, database_url=url, clock=clock, max_body_b=2**20)
    )
    yield made
    made.store.close()


@pytest.fixture
def client(light):
    """A client of the app over SQLite."""
    return client_of(light)
