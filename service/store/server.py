"""Connections to a PostgreSQL server that may be away: none waits for it for ever.

A server that is stopped, frozen or cut off answers nothing, and TCP would wait for minutes. So a
statement without an answer for `PATIENCE_S` makes a new connection as a test. If that fails too,
the server is away: statements under way end with an error, and new ones fail at once, but for a
test every `RETRY_S`.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Generator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 3
"""How long connecting may take [s]."""
PATIENCE_S = 2.0
"""How long a statement runs before the server is tested, and between two tests [s]."""
RETRY_S = 2.0
"""How long a server that is away is left alone [s]."""
STATEMENT_S = 60
"""How long a statement may run [s]; the server ends it."""
LOCK_S = 10
"""How long a statement may wait for another transaction's lock [s]."""
UNTESTED_S = 1.0
"""How long after its last use a connection is taken to be good without a test [s]."""
IDLE_S = 300
"""How long a transaction may do nothing [s]."""

REMIND_S = 60.0
"""How often the log repeats one complaint of the database [s]."""
REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry"
    r"|(role|database) .* does not exist|is not permitted to log in|permission denied for database"
)
"""What PostgreSQL says to a service that it does not let in: waiting helps in no such case."""

Value = TypeVar("Value")
Waiting = Generator[Any, Any, Value]
_USED_S = "gramwatt_used_s"
_log = logging.getLogger("gramwatt.service.store")
_log.addHandler(logging.NullHandler())  # a command, which sets up no log, reports the error itself


class BinaryArray(bytes):
    """An array as PostgreSQL's binary format has it, which the driver is to send as it is."""


class Availability:
    """Whether a server answers; the log says when that changes, and once a minute why not."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._away_since: float | None = None
        self._reason = ""
        self._remind_at = 0.0
        self._found_at = 0.0
        self._next_test = 0.0

    @property
    def reason(self) -> str:
        """Why the server is away, as it said when it was last asked."""
        return self._reason

    @property
    def is_away(self) -> bool:
        """Whether the server did not answer when it was last asked."""
        return self._away_since is not None

    def may_ask(self) -> bool:
        """Whether to try the server: always while it answers, else one caller in `RETRY_S`."""
        with self._mutex:
            now = time.monotonic()
            if self._away_since is not None and now < self._next_test:
                return False
            self._next_test = now + RETRY_S
            return True

    def lost(self, reason: str, asked: float) -> None:
        """The server did not answer what it was asked at `asked` [s, monotonic].

        That is old news when it has answered somebody since.
        """
        with self._mutex:
            known, now = self._away_since, time.monotonic()
            if known is None and self._found_at > asked:
                return
            self._away_since, self._reason = known or now, reason
            self._next_test = now + RETRY_S
            if known is not None and now < self._remind_at:
                return
            self._remind_at = now + REMIND_S
        if REFUSED.search(reason):
            what, until = "refuses this service", "user, password and name are right"
        else:
            what, until = "is away", "it answers; check its server"
        _log.error(
            "the database %s: %s; requests get 503 until %s (GRAMWATT_DATABASE_URL)",
            *(what, reason, until),
        )

    def found(self, asked: float) -> None:
        """The server answered what it was asked at `asked` [s, monotonic].

        What it was asked before it was lost says nothing of now.
        """
        if not self.is_away:
            return
        with self._mutex:
            since = self._away_since
            if since is None or asked < since:
                return
            self._away_since, self._found_at = None, time.monotonic()
        _log.warning("the database answers again, after %.0f s", time.monotonic() - since)


def is_refusal(error: Exception) -> bool:
    """Whether an error of the store is that PostgreSQL does not let the service in."""
    return REFUSED.search(str(getattr(error, "orig", None))) is not None


def connect_args(url: URL) -> dict[str, Any]:
    """Limits for the connections of a URL; what the URL itself sets stands."""
    limits = {
        "statement_timeout": STATEMENT_S,
        "lock_timeout": LOCK_S,
        "idle_in_transaction_session_timeout": IDLE_S,
    }
    options = " ".join(f"-c {name}={limit_s}s" for name, limit_s in limits.items())
    own = url.query.get("options", "")
    timeout_s = url.query.get("connect_timeout", CONNECT_S)
    # A database that was made without a locale is in SQL_ASCII, which psycopg gives as bytes.
    options = f"{options} {own}".strip()
    return {"connect_timeout": timeout_s, "options": options, "client_encoding": "UTF8"}


def watch(engine: Engine) -> Availability:
    """Let the engine's connections be given up when the server is away."""
    import psycopg

    availability = Availability()
    watched, as_it_is = _watched(availability), _as_it_is()

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: object, _record: object, args: list[Any], named: dict[str, Any]
    ) -> psycopg.Connection[Any]:
        if not availability.may_ask() and availability.is_away:
            raise psycopg.OperationalError(f"a moment ago: {availability.reason}")
        asked = time.monotonic()
        try:
            connection: psycopg.Connection[Any] = watched.connect(*args, **named)
        except psycopg.OperationalError as error:
            availability.lost(_line(error), asked)
            raise
        availability.found(asked)
        connection.arguments = named  # type: ignore[attr-defined]  # of Watched
        connection.adapters.register_dumper(BinaryArray, as_it_is)
        return connection

    @event.listens_for(engine, "checkin")
    def note(_driver: object, record: ConnectionPoolEntry) -> None:
        record.info[_USED_S] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def test(driver: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
        # SQLAlchemy's own test would be a tenth of the time of a short request.
        if time.monotonic() - record.info.get(_USED_S, math.inf) > UNTESTED_S:
            try:
                engine.dialect.do_ping(driver)
            except psycopg.Error as error:
                raise InvalidatePoolError(_line(error)) from None

    return availability


def _as_it_is() -> Any:
    """Psycopg's class for what sends `BinaryArray`."""
    import psycopg

    class AsItIs(psycopg.adapt.Dumper):
        format = psycopg.pq.Format.BINARY

        def dump(self, obj: BinaryArray) -> BinaryArray:
            return obj

    return AsItIs


def _watched(availability: Availability) -> Any:
    """The class of connections that test the server when an answer does not come."""
    import psycopg

    class Watched(psycopg.Connection[Any]):
        arguments: Mapping[str, Any] | None = None

        def wait(self, gen: Waiting[Value], *args: Any, **more: Any) -> Value:
            return super().wait(self._impatient(gen) if self.arguments else gen, *args, **more)

        def _impatient(self, gen: Waiting[Value]) -> Waiting[Value]:
            # Whoever waits for the socket sends 0 ten times a second while nothing comes.
            next_test = time.monotonic() + PATIENCE_S
            try:
                state = next(gen)
                while True:
                    ready = yield state
                    if not ready and time.monotonic() > next_test:
                        _test(availability, self)
                        next_test = time.monotonic() + PATIENCE_S
                    state = gen.send(ready)
            except StopIteration as end:
                value: Value = end.value
                return value

    return Watched


def _test(availability: Availability, waiting: Any) -> None:
    """Close the connection and raise OperationalError if the server is away; one caller asks it."""
    import psycopg

    if availability.may_ask():
        asked = time.monotonic()
        try:
            psycopg.connect(**waiting.arguments).close()
        except psycopg.OperationalError as error:
            availability.lost(_line(error), asked)
        else:
            availability.found(asked)
    if availability.is_away:
        waiting.pgconn.finish()
        raise psycopg.OperationalError("the database does not answer")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
