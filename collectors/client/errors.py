"""What a server refuses, as exceptions with its problem document (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """An answer that is no success: `status`, and `code` and `problem` as docs/api.md has them.

    `retry_after_s` is what the server says of when to ask again [s]; None where it says nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = dict(problem or {})
        self.code = str(self.problem.get("code", ""))
        self.retry_after_s = retry_after_s


class NotAllowedError(ApiError):
    """The key is missing or unknown (401), or may not do this (403)."""


class NotFoundError(ApiError):
    """There is no such job, month or name (404), or it was deleted (410)."""


class ConflictError(ApiError):
    """The state of the job or month does not allow this (409, 412)."""


class InvalidError(ApiError):
    """The question is wrong (400, 413, 415, 422); `problem` names the field, and close matches."""


class UnavailableError(ApiError):
    """No answer, or one that says to ask later (429, 502, 503, 504)."""


KINDS: dict[int, type[ApiError]] = {
    **dict.fromkeys((401, 403), NotAllowedError),
    **dict.fromkeys((404, 410), NotFoundError),
    **dict.fromkeys((409, 412), ConflictError),
    **dict.fromkeys((400, 413, 415, 422), InvalidError),
    **dict.fromkeys((429, 502, 503, 504), UnavailableError),
}
