"""What use cases refuse. `code` is stable; a route or a command decides how to answer.

UseCaseError
├── UnknownJobError       no such job (carries near ids)
├── UnknownRevisionError  the job has no such score revision
├── StillRunsError        the job has not ended, so it has no revision to replace
├── NoDataError           nothing was measured in that month
├── CursorError           a text that is not a cursor of the list
└── NotReadyError         the database cannot be reached or is not up to date
"""

from __future__ import annotations


class UseCaseError(Exception):
    """Root of the refusals; the message is a sentence for people."""

    code: str


class UnknownJobError(UseCaseError):
    """No such job; `close` lists near ids, best first."""

    code = "unknown-job"

    def __init__(self, job_id: str, close: list[str]) -> None:
        self.close = close
        hint = f"; close ids: {', '.join(close)}" if close else ""
        super().__init__(f"unknown job {job_id!r}{hint}")


class UnknownRevisionError(UseCaseError):
    """The job has no such revision."""

    code = "unknown-revision"


class StillRunsError(UseCaseError):
    """The job has not ended, so it has no revision to replace."""

    code = "conflict"


class NoDataError(UseCaseError):
    """Nothing was measured in that month (of that project)."""

    code = "no-data"


class CursorError(UseCaseError):
    """A text that is not a cursor of the list it was given for."""

    code = "invalid"


class NotReadyError(UseCaseError):
    """The database cannot be reached, or its tables are not those of this release."""

    code = "not-ready"
