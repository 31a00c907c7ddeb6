"""What use cases refuse; the message is a sentence for people.

A route answers with `code`, which is stable, a command ends with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gramwatt.sci.figures.formatting import minute_text

if TYPE_CHECKING:
    from gramwatt.service.common.answers import Rejected


class ServiceError(Exception):
    """A refusal: `code` is one of the table of codes (`api.problems.CODES`) where a route answers.

    It has a class of its own where something is done with it, or it carries more than a sentence.
    """

    code: str
    exit_code = 1

    def __init__(self, detail: str, code: str | None = None) -> None:
        super().__init__(detail)
        if code is not None:
            self.code = code


class UnknownJobError(ServiceError):
    """No such job; `close` lists near ids, best first, `rejected` lines that might have made it."""

    code = "unknown-job"

    def __init__(self, job_id: str, close: list[str], rejected: Sequence[Rejected] = ()) -> None:
        self.close, self.rejected = close, list(rejected)
        hint = f"; close ids: {', '.join(close)}" if close else ""
        if rejected:
            hint += f"; line {rejected[0].line} was refused: {rejected[0].message}"
        super().__init__(f"unknown job {job_id!r}{hint}")


class AmbiguousIdError(ServiceError):
    """A text that means several jobs; `choices` lists ids of some, newest first."""

    code = "ambiguous-id"
    exit_code = 2

    def __init__(self, text: str, number: int, choices: Sequence[str]) -> None:
        self.choices = list(choices)
        more = ", ..." if number > len(self.choices) else ""
        named = ", ".join(self.choices)
        super().__init__(f"{text!r} fits {number} jobs; say which: {named}{more}")


class DeletedJobError(ServiceError):
    """The job was deleted; `deleted_at` (RFC 3339) and `deleted_by` say when and by whom."""

    code = "deleted-job"

    def __init__(self, job_id: str, deleted_at: str, deleted_by: str) -> None:
        self.deleted_at, self.deleted_by = deleted_at, deleted_by
        when = minute_text(deleted_at)
        super().__init__(f"job {job_id!r} was deleted on {when} UTC by {deleted_by}")


class CorrectionError(ServiceError):
    """A field that cannot be corrected to this value; `close` lists names to use instead."""

    code = "invalid"
    exit_code = 2

    def __init__(self, field: str, message: str, close: Sequence[str] = ()) -> None:
        self.field, self.message, self.close = field, message, list(close)
        super().__init__(f"{field}: {message}")


class StillRunsError(ServiceError):
    """The job has not ended, so it has no revision to replace."""

    code = "conflict"


class IntervalsDeletedError(ServiceError):
    """A request needs the intervals of a job, which retention has deleted."""

    code = "intervals-deleted"

    def __init__(self, job_id: str, deleted_at: str, what: str) -> None:
        when = minute_text(deleted_at)
        super().__init__(
            f"the intervals of job {job_id!r} were deleted on {when} UTC, after the days that they "
            f"are kept, so {what}; its scores stay"
        )


class NoDataError(ServiceError):
    """Nothing was measured in that month (of that project)."""

    code = "no-data"


class CursorError(ServiceError):
    """A text that is not a cursor of the list it was given for."""

    code = "invalid"
    exit_code = 2


class LoginError(ServiceError):
    """A sign-in by an OpenID Connect provider that does not hold."""

    code = "unauthorised"


class KeyNameError(ServiceError):
    """A key's name that is taken, or that cannot be one."""

    code = "conflict"
    exit_code = 2


class UnknownKeyError(ServiceError):
    """There is no key of that name."""

    code = "unknown-key"


class ProjectNeededError(ServiceError):
    """The caller's key is bound to several projects, and a sum is over one."""

    code = "invalid"


class NotReadyError(ServiceError):
    """The database cannot be reached, or its tables are not those of this release."""

    code = "not-ready"


class BusyError(ServiceError):
    """A process has more work of one kind than it does at a time; asking again later helps."""

    code = "busy"
