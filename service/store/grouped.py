"""Several threads' writes in one transaction: one sync of the disk pays for all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

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

    def attempt(self, session: Session) -> None:
        """Do the work inside a savepoint, so that its failure takes back nothing of the others."""
        try:
            with session.begin_nested():
                self.result.append(self.work(session))
        except Exception as error:
            self.error = error
        session.expunge_all()  # rows as one saw them are not those of the next

    def fail(self, error: BaseException) -> None:
        """Take back what was done: the transaction was not committed."""
        self.result.clear()
        self.error = error


class GroupCommit:
    """Commits what threads want written together, in the order in which they came.

    The thread whose turn it is writes for all that wait; each returns after the commit.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._turn = Lock()
        self._mutex = Lock()
        self._waiting: list[_Ticket[object]] = []

    def run(self, work: Callable[[Session], Result]) -> Result:
        """The work's result, committed; raises what it or the commit raised, with it undone."""
        ticket = _Ticket(work)
        with self._mutex:
            self._waiting.append(ticket)  # type: ignore[arg-type]  # results differ by thread
        with self._turn:
            if not ticket.is_done:
                with self._mutex:
                    tickets, self._waiting = self._waiting, []
                self._commit(tickets)
        if ticket.error is not None:
            raise ticket.error
        return ticket.result[0]

    def run_alone(self, begin: Begin, work: Callable[[Session], Result]) -> Result:
        """The result of work that shares no transaction, in one that `begin` begins, in turn."""
        with self._turn, begin() as session:
            return work(session)

    def _commit(self, tickets: list[_Ticket[object]]) -> None:
        try:
            with self._begin() as session:
                if len(tickets) == 1:  # the transaction is its own: a savepoint would cost more
                    tickets[0].result.append(tickets[0].work(session))
                    return
                for ticket in tickets:
                    ticket.attempt(session)
                    if isinstance(ticket.error, OperationalError):
                        raise ticket.error
        except OperationalError as error:
            # A full disk makes SQLite end the whole transaction, not only the savepoint. So what
            # was done before is not there either, and each tries alone.
            self._fail_or_repeat(tickets, error)
        except BaseException as error:
            for ticket in tickets:
                ticket.fail(error)
            if not isinstance(error, Exception):
                raise

    def _fail_or_repeat(self, tickets: list[_Ticket[object]], error: OperationalError) -> None:
        for ticket in tickets:
            ticket.fail(error)
            if len(tickets) > 1:
                ticket.error = None
                self._commit([ticket])
