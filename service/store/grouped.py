"""Several threads' writes in one transaction: one sync of the disk pays for all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

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
