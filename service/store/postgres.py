"""Connections to a PostgreSQL server that may be away: none waits for it for ever."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.engine import URL, Connection

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
