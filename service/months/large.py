"""Sums of large months, made in a process of their own: Python runs one thread of a process at a
time, so that uploads to a server that summed a month itself would wait for it.

Small months are summed where they are asked for, which is faster than starting a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from threading import Lock

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.structs import decode
from gramwatt.service.common.errors import BusyError
from gramwatt.service.container import Service
from gramwatt.service.months.rows import changes_of, from_session
from gramwatt.service.months.statements import JOBS, selecting
from gramwatt.service.store.columns import to_text
from gramwatt.service.store.database import UNAVAILABLE, Store, failure_text

JOBS_SMALL = 4_000
"""Sums over at most so many jobs are small: half a second, as long as a process takes to start."""
NICE = 5
"""How much less of the processor the process gets than the server, while both want it."""
MEMORY = "64MB"
"""What PostgreSQL may use for a statement; by its 4 MB it would sort effects on disk."""
_LARGE = sa.text(f"SELECT set_config('work_mem', '{MEMORY}', true), set_config('jit', 'off', true)")
"""For the rest of the transaction: sums are made in memory, and nothing is compiled for them."""
_turn = Lock()
"""Large months are summed one at a time."""


class MonthScope(msgspec.Struct, frozen=True):
    """A condition on rows of a month, with its parameters (`statements.month_scope`)."""

    month: str
    project: str | None
    condition: str
    values: Mapping[str, str]


class _Request(msgspec.Struct):
    """What the process is asked; the address of the store may have a password."""

    url: str
    scope: MonthScope


def scope_sums(service: Service, scope: MonthScope) -> tuple[int, str]:
    """Return how often the rows of a month had changed, and sums of them then, as JSON.

    Raises BusyError where the process that sums a large month is ended, or has no database.
    """
    store = service.for_every_project().store
    with store.read() as session:
        select = selecting(from_session(session), scope.condition, scope.values)
        ((jobs,),) = select(JOBS)
        if jobs <= JOBS_SMALL:
            return sums_of(session, scope)
    with _turn:
        return _summed_apart(store, scope)


def take_memory(session: Session) -> None:
    """Let the statements of this transaction have the memory of PostgreSQL that large sums need."""
    if session.connection().dialect.name == "postgresql":
        session.execute(_LARGE)


def sums_of(session: Session, scope: MonthScope) -> tuple[int, str]:
    """Return what `scope_sums` does, summed in this process."""
    from gramwatt.service.months.sums import sum_scope  # numpy is loaded where sums are made

    month, project = scope.month, scope.project
    changes = changes_of(session, month, project)
    sums = sum_scope(from_session(session), month, project, scope.condition, scope.values)
    return changes, to_text(sums)


def _summed_apart(store: Store, scope: MonthScope) -> tuple[int, str]:
    request = _Request(store.url.render_as_string(hide_password=False), scope)
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=msgspec.json.encode(request),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode < 0 or done.returncode == os.EX_TEMPFAIL:
        raise BusyError(f"the sums of {scope.month} could not be made now; ask again")
    done.check_returncode()
    changes, _, text = done.stdout.decode().partition("\n")
    return int(changes), text


def main() -> int:
    """Read a request from standard input and write its answer, after what answers others."""
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which waits for this
    request = decode(sys.stdin.buffer.read(), _Request)
    store = Store(request.url)
    try:
        with store.read() as session:
            take_memory(session)
            changes, text = sums_of(session, request.scope)
    except UNAVAILABLE as error:
        print(f"the sums of {request.scope.month}: {failure_text(error)}", file=sys.stderr)
        return os.EX_TEMPFAIL
    sys.stdout.buffer.write(f"{changes}\n{text}".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
