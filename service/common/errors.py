"""What use cases refuse; the message is a sentence for people.

A route answers with `code`, which is stable, a command ends with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gramwatt.sci.base.formatting import minute_text

if TYPE_CHECKING:
    from gramwatt.service.common.answers import Rejected


class UseCaseError(Exception):
    """Root of the refusals."""

    code: str
    exit_code = 1


class UnknownJobError(UseCaseError):
    """No such job; `close` lists near ids, best first, `rejected` lines that might have made it."""

    code = "unknown-job"

    def __init__(self, job_id: str, close: list[str], rejected: Sequence[Rejected] = ()) -> None:
        self.close, self.rejected = close, list(rejected)
        hint = f"; close ids: {', '.join(close)}" if close else ""
        if rejected:
            hint += f"; line {rejected[0].line} was refused: {rejected[0].message}"
        super().__init__(f"unknown job {job_id!r}{hint}")


class AmbiguousIdError(UseCaseError):
    """A text that means several jobs; `choices` lists ids of some, newest first."""

    code = "ambiguous-id"
    exit_code = 2

    def __init__(self, text: str, number: int, choices: Sequence[str]) -> None:
        self.choices = list(choices)
        more = ", ..." if number > len(self.choices) else ""
        named = ", ".join(self.choices)
        super().__init__(f"{text!r} fits {number} jobs; say which: {named}{more}")


class DeletedJobError(UseCaseError):
    """The job was deleted; `deleted_at` (RFC 3339) and `deleted_by` say when and by whom."""

    code = "deleted-job"

    def __init__(self, job_id: str, deleted_at: str, deleted_by: str) -> None:
        self.deleted_at, self.deleted_by = deleted_at, deleted_by
        when = minute_text(deleted_at)
        super().__init__(f"job {job_id!r} was deleted on {when} UTC by {deleted_by}")


class CorrectionError(UseCaseError):
    """A field that cannot be corrected to this value; `close` lists names to use instead."""

    code = "invalid"
    exit_code = 2

    def __init__(self, field: str, message: str, close: Sequence[str] = ()) -> None:
        self.field, self.message, self.close = field, message, list(close)
        super().__init__(f"{field}: {message}")


class UnknownRevisionError(UseCaseError):
    """The job has no such revision."""

    code = "unknown-revision"


class StillRunsError(UseCaseError):
    """The job has not ended, so it has no revision to replace."""

    code = "conflict"


class IntervalsDeletedError(UseCaseError):
    """A request needs the intervals of a job, which retention has deleted."""

    code = "intervals-deleted"

    def __init__(self, job_id: str, deleted_at: str, what: str) -> None:
        when = minute_text(deleted_at)
        super().__init__(
            f"the intervals of job {job_id!r} were deleted on {when} UTC, after the days that they "
            f"are kept, so {what}; its scores stay"
        )


class ChangedError(UseCaseError):
    """The job is not as the caller has seen it."""

    code = "changed"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id!r} has changed since; get it again and decide anew")


class OpenedOtherwiseError(UseCaseError):
    """The job is there already, and declares something else."""

    code = "conflict"

    def __init__(self, job_id: str, what: str) -> None:
        super().__init__(f"job {job_id!r} is there already, {what}; change it with PATCH")


class KeyReusedError(UseCaseError):
    """An idempotency key that stands for another request."""

    code = "key-reused"

    def __init__(self, key: str) -> None:
        super().__init__(f"the idempotency key {key[:40]!r} was sent with another request before")


class BeingAnsweredError(UseCaseError):
    """The first request of an idempotency key is still being answered."""

    code = "conflict"

    def __init__(self, key: str) -> None:
        super().__init__(f"the first request of key {key[:40]!r} is being answered; ask again")


class UnknownProjectError(UseCaseError):
    """There is no such project."""

    code = "unknown-project"

    def __init__(self, project: str) -> None:
        super().__init__(f"there is no project {project[:80]!r}")


class UnknownPersonError(UseCaseError):
    """Nothing names this person."""

    code = "unknown-person"

    def __init__(self, name: str) -> None:
        super().__init__(f"neither a tag `user` of a job nor a record of who did it is {name!r}")


class UnknownBudgetError(UseCaseError):
    """The project has no budget of that month."""

    code = "unknown-budget"


class NoDataError(UseCaseError):
    """Nothing was measured in that month (of that project)."""

    code = "no-data"


class TooManyJobsError(UseCaseError):
    """More jobs than an evidence bundle holds."""

    code = "too-many-jobs"


class CursorError(UseCaseError):
    """A text that is not a cursor of the list it was given for."""

    code = "invalid"
    exit_code = 2


class LoginError(UseCaseError):
    """A sign-in by an OpenID Connect provider that does not hold."""

    code = "unauthorised"


class KeyNameError(UseCaseError):
    """A key's name that is taken, or that cannot be one."""

    code = "conflict"
    exit_code = 2


class UnknownKeyError(UseCaseError):
    """There is no key of that name."""

    code = "unknown-key"


class UnknownSessionError(UseCaseError):
    """There is no session of that id, or of that person."""

    code = "unknown-session"


class ProjectNeededError(UseCaseError):
    """The caller's key is bound to several projects, and a sum is over one."""

    code = "invalid"


class NotReadyError(UseCaseError):
    """The database cannot be reached, or its tables are not those of this release."""

    code = "not-ready"


class BusyError(UseCaseError):
    """A process has more work of one kind than it does at a time; asking again later helps."""

    code = "busy"
