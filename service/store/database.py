"""The database behind one small object: engine, read and write sessions.

The same code runs on SQLite and PostgreSQL. A write on SQLite begins with BEGIN IMMEDIATE, so that
two writers wait for each other instead of failing when they upgrade a read lock.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.service.addresses import parse_url
from gramwatt.service.store.migrations import HEAD
from gramwatt.service.store.restriction import RestrictedSession

LOCAL_TYPES = frozenset(
    {
        *("apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs"),
        *("overlay", "ramfs", "reiserfs", "tmpfs", "ufs", "vfat", "xfs", "zfs"),
    }
)
"""File systems known to share memory between processes of one machine, which WAL needs
(SQLite documentation, "Write-Ahead Logging", section 1). Everything else counts as remote."""

MOUNTS = Path("/proc/self/mountinfo")


def is_local(path: Path, mounts: str | None = None) -> bool:
    """Return whether `path` lies on a file system known to be local; False when that is unknown.

    Links are followed.
    """
    if mounts is None:
        try:
            mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    return mounted_type(path.resolve(), mounts) in LOCAL_TYPES


def mounted_type(path: Path, mounts: str) -> str | None:
    """Return the file system type under `path`, out of the text of /proc/self/mountinfo (man 5
    proc).
    """
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(fields[4].replace("\\040", " "))
        # A later mount on the same point hides an earlier one, hence >=.
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), after.split()[0])
    return best[1] if best else None


if TYPE_CHECKING:
    import psycopg

Value = TypeVar("Value")

CONNECT_S = 3
"""How long connecting may take [s]."""
UNACKNOWLEDGED_S = 10
"""How long what was sent may stay unacknowledged by the server's machine [s]."""
STATEMENT_S = 30
"""How long a statement of a request may run [s]; the server ends it."""
ANSWER_S = STATEMENT_S + 5
"""How long an answer may take [s]: a frozen server ends no statement."""
LOCK_S = 10
"""How long a statement may wait for another transaction's lock [s]."""
IDLE_S = 300
"""How long a transaction may do nothing [s]."""


def connect_args(url: URL) -> dict[str, Any]:
    """Return the limits for the connections of a URL; what the URL itself sets stands."""
    limits = {
        "statement_timeout": STATEMENT_S,
        "lock_timeout": LOCK_S,
        "idle_in_transaction_session_timeout": IDLE_S,
    }
    options = " ".join(f"-c {name}={limit_s}s" for name, limit_s in limits.items())
    own = url.query.get("options", "")
    return {
        "connect_timeout": url.query.get("connect_timeout", CONNECT_S),
        "tcp_user_timeout": url.query.get("tcp_user_timeout", UNACKNOWLEDGED_S * 1000),
        "options": f"{options} {own}".strip(),
        # A database that was made without a locale is in SQL_ASCII, which psycopg gives as bytes.
        "client_encoding": "UTF8",
        # A pooler may give each transaction another connection, with statements of others prepared.
        "prepare_threshold": None,
    }


def connect(
    _dialect: object, _record: object, args: list[Any], named: dict[str, Any]
) -> psycopg.Connection[Any]:
    """Return a new connection whose answers may take `ANSWER_S`; raises OperationalError."""
    connection: psycopg.Connection[Any] = _limited_connection().connect(*args, **named)
    return connection


@contextmanager
def unlimited(connection: Connection) -> Iterator[None]:
    """Let the statements of a transaction take any time; a copy or migration is no request."""
    if connection.dialect.name != "postgresql":
        yield
        return
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {name} = 0")
    driver: Any = connection.connection.driver_connection
    driver.answer_s = None
    try:
        yield
    finally:
        driver.answer_s = ANSWER_S


@cache
def _limited_connection() -> Any:
    """Return the class of connections that give up an answer that does not come.

    A frozen server still acknowledges on TCP, so that no setting of libpq ends the wait.
    """
    import psycopg

    class Limited(psycopg.Connection[Any]):
        answer_s: float | None = ANSWER_S

        def wait(self, gen: Generator[Any, Any, Value], *args: Any, **more: Any) -> Value:
            return super().wait(self._limited(gen) if self.answer_s else gen, *args, **more)

        def _limited(self, gen: Generator[Any, Any, Value]) -> Generator[Any, Any, Value]:
            # Whoever waits for the socket sends 0 ten times a second while nothing comes.
            deadline = time.monotonic() + (self.answer_s or 0)
            try:
                state = next(gen)
                while True:
                    ready = yield state
                    if not ready and time.monotonic() > deadline:
                        self.pgconn.finish()
                        raise psycopg.OperationalError("the database does not answer")
                    state = gen.send(ready)
            except StopIteration as end:
                value: Value = end.value
                return value

    return Limited


Result = TypeVar("Result")
Begin = Callable[[], AbstractContextManager[Session]]


@dataclass(slots=True)
class _Ticket(Generic[Result]):
    """One thread's work, and how it went."""

    work: Callable[[Session], Result]
    result: list[Result] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return bool(self.result) or self.error is not None

    def fail(self, error: BaseException) -> None:
        """Take back what was done: the transaction was not committed."""
        self.result.clear()
        self.error = error


class GroupCommit:
    """Commits what threads want written together, in the order in which they came.

    The thread that may write does so for all that wait; each returns after the commit.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._writing = Lock()
        self._mutex = Lock()
        self._waiting: list[_Ticket[object]] = []

    def run(self, work: Callable[[Session], Result]) -> Result:
        """Return the work's result, committed; raises what it or the commit raised, with it
        undone.
        """
        ticket = _Ticket(work)
        with self._mutex:
            self._waiting.append(ticket)  # type: ignore[arg-type]  # results differ by thread
        with self._writing:
            if not ticket.is_done:
                with self._mutex:
                    tickets, self._waiting = self._waiting, []
                self._commit(tickets)
        if ticket.error is not None:
            raise ticket.error
        return ticket.result[0]

    def _commit(self, tickets: list[_Ticket[object]]) -> None:
        """Do the work of all in one transaction, or each in its own if any of it fails.

        Where no transaction can begin, as another process holds the lock, the lock is waited for
        once: all get the error, also those who came meanwhile.
        """
        has_begun = False
        try:
            with self._begin() as session:
                has_begun = True
                for ticket in tickets:
                    ticket.result.append(ticket.work(session))
                    session.flush()
                    session.expunge_all()  # rows as one saw them are not those of the next
        except BaseException as error:
            for ticket in tickets:
                ticket.fail(error)
            if not isinstance(error, Exception):
                raise
            if not has_begun:
                with self._mutex:
                    later, self._waiting = self._waiting, []
                for ticket in later:
                    ticket.fail(error)
            elif len(tickets) > 1:
                for ticket in tickets:
                    ticket.error = None
                    self._commit([ticket])


BUSY_TIMEOUT_S = 30.0
"""How long a statement waits for another writer before it fails [s]."""
_BUSY = f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT_S * 1000)}"

POOL_S = 5.0
"""How long a request waits for a connection to the server while all are in use [s]."""
UNAVAILABLE = (OperationalError, InterfaceError, sa.exc.TimeoutError)
"""Errors of a database that is away, too busy or full: the same may succeed later."""
CONFLICTS_MOST = 6
"""How often work is tried that meets other work in a conflict."""
CONFLICT_WAIT_S = 0.02
"""The wait before the second attempt [s]; it doubles, and is spread by half."""
_UNIQUE_VIOLATION = "23505"
_CONFLICTS = ("40001", "40P01", _UNIQUE_VIOLATION)
"""PostgreSQL's codes of serialization_failure, deadlock_detected and unique_violation: two that
insert the same row at once; the second finds it when it tries again."""
DUPLICATES_MOST = 2
"""How often a unique violation is tried again: a row that another inserts at once is found by the
next attempt, one that is a duplicate stays one."""
_INVALID_TRANSACTION = "25"
"""PostgreSQL's class of errors such as read_only_sql_transaction."""
_ABOUT_VALUES = ("22", "23")
"""Its classes of data exceptions and of broken constraints, whose details quote a row's values."""
_WRITE, _NOTE = "gramwatt_write", "gramwatt_note"
"""Options of a transaction: whether it writes, and whether that may as well be left."""
NOTE_S = 0.1
"""How long a note waits for another transaction's lock on a server [s]; on SQLite not at all."""
REMIND_S = 60.0
"""How often the log repeats one complaint of the database [s]."""
REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry"
    r"|(role|database) .* does not exist|is not permitted to log in|permission denied for database"
)
"""What PostgreSQL says to a service that it does not let in: waiting helps in no such case."""
_log = logging.getLogger("gramwatt.service.store")
# A command says itself why it ends; a server has handlers of its own.
_log.addHandler(logging.NullHandler())


_SCHEMA = sa.text("SELECT version_num FROM alembic_version")


class Store:
    """A database of jobs. Opening it connects lazily; `migrate.upgrade` brings the tables.

    `projects` are those that its sessions see, None for all; with projects it is read only.
    """

    projects: frozenset[str] | None = None

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        self.engine = _engine(self.url)
        # One statement sees what was committed before the first, as on SQLite.
        level = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        self._reading = self.engine.execution_options(**level)
        self._writing = self.engine.execution_options(**{_WRITE: True})
        self._noting = self.engine.execution_options(**{_WRITE: True, _NOTE: True})
        self._group = GroupCommit(self.write)

    def of_projects(self, projects: frozenset[str] | None) -> Store:
        """Return the same database, as far as the projects go."""
        view = copy(self)
        view.projects = projects
        return view

    def require_file(self) -> None:
        """Raise StoreFileError for an SQLite store whose file cannot be opened, or made."""
        if self.path is None:
            return
        path = self.path.absolute()
        place = next(parent for parent in path.parents if os.path.lexists(parent))
        code = 0
        if not place.is_dir():
            code = errno.ENOTDIR
        elif path.is_dir():
            code = errno.EISDIR
        elif not os.access(place, os.W_OK | os.X_OK) or (
            path.exists() and not os.access(path, os.R_OK | os.W_OK)
        ):
            code = errno.EACCES
        if code:
            raise StoreFileError(f"{path}: {os.strerror(code)}")

    @property
    def is_sqlite(self) -> bool:
        """Return whether this is an SQLite file (one machine) rather than a server."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def path(self) -> Path | None:
        """The file of an SQLite store; None for a server."""
        return Path(self.url.database) if self.is_sqlite and self.url.database else None

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Yield a session that sees one consistent state and writes nothing."""
        # A session that restricts prepares each statement twice.
        make = Session if self.projects is None else partial(RestrictedSession, self.projects)
        with make(self._reading, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self, *, large: bool = False) -> Iterator[Session]:
        """Yield a session in one transaction: committed at the end, rolled back on an exception.

        A `large` one may take longer than a request may. Raises OtherReleaseError where another
        release has changed the tables since.
        """
        self._require_whole()
        with Session(self._writing, expire_on_commit=False) as session, session.begin():
            _require_own_schema(session)
            if not large or self.is_sqlite:
                yield session
                return
            with unlimited(session.connection()):
                yield session

    def transact(self, work: Callable[[Session], Result], *, large: bool = False) -> Result:
        """Return the result of `work` in one transaction, on disk when this returns.

        On SQLite the work of several threads shares a transaction, and so one sync of the disk; a
        server does that itself. There, work that met another's in a conflict is done again.
        `large` work, which may change any number of rows, may take longer than a request may.
        """
        self._require_whole()
        if self.is_sqlite:
            return self._group.run(work)
        duplicates = 0
        for attempt in range(CONFLICTS_MOST):
            try:
                with self.write(large=large) as session:
                    return work(session)
            except DBAPIError as error:
                code = getattr(error.orig, "sqlstate", None)
                duplicates += code == _UNIQUE_VIOLATION
                if code not in _CONFLICTS or duplicates > DUPLICATES_MOST:
                    raise
                if attempt == CONFLICTS_MOST - 1:
                    raise
                time.sleep(random.uniform(0.5, 1.5) * CONFLICT_WAIT_S * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def note(self, work: Callable[[Session], object]) -> bool:
        """Write what a read leaves behind, such as a key's last use; whether it was written.

        A read waits for no other's write: while another writes, or the database is away, the note
        is left. Whoever reads next leaves it again.
        """
        self._require_whole()
        try:
            with Session(self._noting, expire_on_commit=False) as session, session.begin():
                if not self.is_sqlite:
                    wait = sa.text(f"SET LOCAL lock_timeout = '{NOTE_S}s'")
                    session.connection().execute(wait)
                _require_own_schema(session)
                work(session)
        except (*UNAVAILABLE, OtherReleaseError) as error:
            if is_wrong_statement(error):
                raise
            return False
        return True

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """Yield a plain connection in one write transaction, with SQLite's foreign keys not
        enforced.

        SQLite changes a table by copying it and dropping the old one, and dropping an enforced
        parent would delete its children.
        """
        with self._writing.connect() as connection:
            if self.is_sqlite:
                _enforce_keys(connection, on=False)
            try:
                with connection.begin(), unlimited(connection):
                    yield connection
            finally:
                if self.is_sqlite:
                    _enforce_keys(connection, on=True)

    def takes_writes(self) -> bool:
        """Return whether a transaction may write: False for a standby, and one set read-only.

        The connection is dropped then: the next may lead to another server.
        """
        if self.is_sqlite:
            return True
        with self.engine.connect() as connection:
            if connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "off":
                return True
            connection.invalidate()
            return False

    def compact(self) -> None:
        """Write the file of an SQLite store anew, without what was deleted; it takes as long as a
        copy. A server's database does so by itself.
        """
        if self.is_sqlite:
            with self.engine.connect() as connection:
                driver: Any = connection.connection.driver_connection
                driver.execute("VACUUM")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Give every connection back."""
        self.engine.dispose()

    def _require_whole(self) -> None:
        # What is written may change sums over every project.
        if self.projects is not None:
            raise TypeError("check what the caller sees, then write with for_every_project()")


class StoreFileError(SQLAlchemyError):
    """The file of an SQLite store cannot be opened, which waiting does not cure."""


class OtherReleaseError(SQLAlchemyError):
    """Another release has changed the tables since this process began, so it writes nothing."""


def _require_own_schema(session: Session) -> None:
    """Raise OtherReleaseError where the tables are of another release, which may mean other things.

    Asked in every transaction, so that no upgrade comes between the question and a write.
    """
    schema = session.connection().execute(_SCHEMA).scalar()
    if schema != HEAD:
        raise OtherReleaseError(
            f"its tables have revision {schema}, and this release needs revision {HEAD}; nothing "
            "is written: stop this process and start the release that upgraded them"
        )


def is_wrong_statement(error: SQLAlchemyError) -> bool:
    """Return whether SQLite refused the statement itself: our fault, though of an UNAVAILABLE type.

    PostgreSQL's driver raises ProgrammingError for that.
    """
    cause = getattr(error, "orig", None)
    return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def is_refusal(error: SQLAlchemyError) -> bool:
    """Return whether an error is that PostgreSQL does not let the service in."""
    return REFUSED.search(str(getattr(error, "orig", None))) is not None


def failure_text(error: SQLAlchemyError) -> str:
    """Return a database's error in one line for people."""
    cause = getattr(error, "orig", None) or error
    line = next(iter(str(cause).splitlines()), type(cause).__name__)
    return f"the database cannot be used: {line}"


def _engine(url: URL) -> Engine:
    # The connection used last comes first: it has the pages and statements that are used again.
    # Parameters may be secrets, such as a webhook, and names that were erased: no error has them.
    pool: dict[str, Any] = {"pool_size": 16, "pool_use_lifo": True, "hide_parameters": True}
    reporter = _Reporter()
    if url.get_backend_name() == "postgresql":
        limits = connect_args(url)
        engine = sa.create_engine(
            url, connect_args=limits, pool_timeout=POOL_S, pool_pre_ping=True, **pool
        )
        event.listen(engine, "do_connect", connect)
        event.listen(engine, "connect", reporter.answers)
        event.listen(engine, "handle_error", _understand)
    else:
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S}, **pool)
        # SQLite follows links too, and keeps its log beside the file itself.
        wal = is_local(Path(url.database or "").resolve().parent)
        event.listen(engine, "connect", lambda connection, _record: _prepare(connection, wal=wal))
        event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", reporter.failed)
    return engine


def _understand(context: ExceptionContext) -> OperationalError | None:
    """Drop the connection and call the database unavailable where the transaction is one that it
    takes no write in (class 25), as after a failover: another connection may lead to another
    server. Of an error about a row's values only the first line stays: the next has the values.
    """
    error = context.original_exception
    code = getattr(error, "sqlstate", None) or ""
    if code[:2] in _ABOUT_VALUES:
        first = str(error).partition("\n")[0]
        error.args = (first,)
        if shown := context.sqlalchemy_exception:
            shown.args = (f"({type(error).__module__}.{type(error).__name__}) {first}",)
    if code[:2] != _INVALID_TRANSACTION:
        return None
    context.is_disconnect = True
    return OperationalError(context.statement, None, error, hide_parameters=True)


class _Reporter:
    """Logs that a database is away, full or too busy, once a minute, and that it is back."""

    def __init__(self) -> None:
        self._reported, self._until = "", 0.0

    def failed(self, context: ExceptionContext) -> None:
        """Report an error for which the database is the reason."""
        error = context.sqlalchemy_exception
        connection = context.connection
        is_note = connection is not None and connection.get_execution_options().get(_NOTE)
        if is_note or not isinstance(error, UNAVAILABLE):
            return
        complaint = text = failure_text(error)
        if getattr(error.orig, "sqlstate", "") is None:  # of the connection
            complaint = "refuses this service" if is_refusal(error) else "is away"
            text = f"the database {complaint}: {text.partition(': ')[2]}; requests get 503 until "
            text += "it answers (GRAMWATT_DATABASE_URL)"
        now = time.monotonic()
        if complaint != self._reported or now > self._until:
            self._reported, self._until = complaint, now + REMIND_S
            _log.error("%s", text)

    def answers(self, *_connected: object) -> None:
        """Report that the database answers again."""
        if self._reported:
            self._reported = ""
            _log.warning("the database answers again")


def _prepare(connection: sqlite3.Connection, *, wal: bool) -> None:
    connection.isolation_level = None
    connection.execute(_BUSY)
    connection.execute("PRAGMA foreign_keys = ON")
    _set_journal(connection, "wal" if wal else "delete")
    # FULL: a commit returns when it is on disk. NORMAL would lose the last ones in a power cut.
    connection.execute("PRAGMA synchronous = FULL")


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    # SQLite itself does not wait for other connections when it changes the journal mode.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != mode:
                connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError as error:
            # The low byte is the code without its details. A file that may only be read stays so.
            is_busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get(_WRITE):
        connection.exec_driver_sql("BEGIN")
    elif not options.get(_NOTE):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        finally:
            connection.exec_driver_sql(_BUSY)


def _enforce_keys(connection: Connection, *, on: bool) -> None:
    # Through the driver: the setting has no effect inside a transaction.
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        driver.execute(f"PRAGMA foreign_keys = {'ON' if on else 'OFF'}")
