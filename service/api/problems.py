"""Errors as `application/problem+json` (RFC 9457) with a stable `code`."""

from __future__ import annotations

import json
import logging
import re
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from msgspec import to_builtins
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from gramwatt.sci.figures.checks import InputError
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.service.common.errors import (
    BusyError,
    CorrectionError,
    CursorError,
    DeletedJobError,
    ProjectNeededError,
    ServiceError,
    UnknownJobError,
)
from gramwatt.service.store.database import (
    UNAVAILABLE,
    OtherReleaseError,
    failure_text,
    is_refusal,
    is_wrong_statement,
)
from gramwatt.service.store.restriction import ForeignProjectError

MEDIA_TYPE = "application/problem+json"

CODES: dict[str, tuple[int, str]] = {
    "bad-request": (400, "The request cannot be understood."),
    "bad-json": (400, "The body is not JSON."),
    "unauthorised": (401, "A key is needed: Authorization: Bearer KEY."),
    "forbidden": (403, "The key's scope or projects do not allow this."),
    "untrusted-host": (403, "The Host header names another site than this one."),
    "not-found": (404, "There is no such page."),
    "unknown-job": (404, "There is no such job."),
    "unknown-revision": (404, "The job has no such revision."),
    "unknown-budget": (404, "The project has no budget of that month."),
    "unknown-project": (404, "There is no such project."),
    "unknown-person": (404, "Nothing names that person."),
    "deleted-job": (410, "The job was deleted; the answer says when and by whom."),
    "no-data": (404, "There is nothing of that month, year or project."),
    "unknown-key": (404, "There is no key of that name."),
    "unknown-session": (404, "There is no such session of a browser."),
    "unknown-name": (404, "The catalog has no row of that name."),
    "method-not-allowed": (405, "The route does not know this method; see the Allow header."),
    "conflict": (409, "The request does not fit the state of what it names."),
    "intervals-deleted": (409, "The job's intervals were deleted after the days they are kept."),
    "not-scorable": (409, "The job's records do not make a score yet."),
    "not-comparable": (409, "The jobs were scored in different ways, or not in the unit."),
    "changed": (412, "The job is not the one of the If-Match header; get it again."),
    "body-too-large": (413, "The body is above the limit; send it in parts."),
    "unsupported-media-type": (415, "The body's Content-Type or encoding is not accepted."),
    "invalid": (422, "A parameter or field is unknown or has a value it may not have."),
    "key-reused": (422, "The Idempotency-Key stands for another request."),
    "unanswerable": (422, "The question has no meaning, or names something unknown."),
    "too-many-requests": (429, "Too many requests; see the Retry-After header."),
    "internal": (500, "The service failed; its log says why."),
    "busy": (503, "The service has too much of this work; see the Retry-After header."),
    "not-ready": (503, "The service cannot answer yet."),
}
"""Every code with its status and its meaning; docs/reference/server.md lists them."""

_BY_STATUS = {
    400: "bad-request",
    401: "unauthorised",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    410: "deleted-job",
    413: "body-too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-many-requests",
}

ERRORS_MOST, WHERE_MOST = 20, 200
"""Errors that a problem lists, and characters of a place: an answer is smaller than its request."""

RETRY_AFTER_S = 5
"""When to ask again while the database is away [s]."""
_log = logging.getLogger("gramwatt.service")


class Problem(Exception):
    """An error to answer with: a code of `CODES`, what to do next, and further members."""

    def __init__(self, code: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.members = members

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return CODES[self.code][0]


def invalid(where: str, message: str, kind: str = "invalid", **members: Any) -> Problem:
    """Return the problem of one parameter or field with a value that is not allowed."""
    error = {"where": where, "code": kind, "message": message}
    return Problem("invalid", f"{where}: {message}", errors=[error], **members)


def of_input(error: InputError, where: str) -> Problem:
    """Return the problem of an input that its struct refuses."""
    errors = [
        {"where": f"{where}.{item.field}"[:WHERE_MOST], "code": item.code, "message": item.text}
        for item in error.problems[:ERRORS_MOST]
    ]
    return Problem("invalid", f"{errors[0]['where']} {errors[0]['message']}", errors=errors)


def to_response(problem: Problem) -> Response:
    """Return the problem as an answer."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        **problem.members,
    }
    response = Response(json.dumps(to_builtins(document)), problem.status, content_type=MEDIA_TYPE)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="gramwatt"'
    if problem.members.get("retry_after_s") is not None:
        response.headers["Retry-After"] = str(problem.members["retry_after_s"])
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def install(app: Flask) -> None:
    """Answer every error of the app with a problem document."""
    app.register_error_handler(Problem, to_response)
    app.register_error_handler(ServiceError, _from_use_case)
    app.register_error_handler(ForeignProjectError, _from_foreign_project)
    app.register_error_handler(GramwattError, _from_engine)
    app.register_error_handler(HTTPException, _from_http)
    for unavailable in (*UNAVAILABLE, OtherReleaseError):
        app.register_error_handler(unavailable, _from_database)
    app.register_error_handler(Exception, _from_bug)


def _from_use_case(error: ServiceError) -> Response:
    if isinstance(error, CursorError):
        return to_response(invalid("query.cursor", str(error), "cursor"))
    if isinstance(error, ProjectNeededError):
        return to_response(invalid("query.project", str(error), "missing"))
    if isinstance(error, CorrectionError):
        close: dict[str, Any] = {"close": error.close} if error.close else {}
        where = re.sub(r"^count\.", "counts.", error.field)  # as a correction is listed, and sent
        return to_response(invalid(f"body.{where}", error.message, **close))
    if isinstance(error, BusyError):
        response = to_response(Problem(error.code, str(error)))
        response.headers["Retry-After"] = "10"
        return response
    names = {UnknownJobError: ("close", "rejected"), DeletedJobError: ("deleted_at", "deleted_by")}
    members = {name: getattr(error, name) for name in names.get(type(error), ())}
    if not members.get("rejected"):
        members.pop("rejected", None)
    return to_response(Problem(error.code, str(error), **members))


def _from_foreign_project(error: ForeignProjectError) -> Response:
    return to_response(Problem("forbidden", str(error)))


def _from_engine(error: GramwattError) -> Response:
    return to_response(Problem("not-scorable", error.message, reason=error.code))


def _from_http(error: HTTPException) -> Response:
    status = error.code or 500
    code = _BY_STATUS.get(status, "bad-request" if status < 500 else "internal")
    response = to_response(Problem(code, _text(error) or CODES[code][1]))
    for name, value in error.get_headers():
        if name in ("Allow", "Retry-After", "Location"):
            response.headers[name] = value
    return response


def _text(error: HTTPException) -> str | None:
    """Return what is wrong with the request and what to do, where werkzeug speaks of typing
    errors.
    """
    if isinstance(error, NotFound):
        return f"there is no {request.path} here; /docs lists the routes"
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(error.valid_methods or ()))
        return f"{request.method} does nothing here; this route knows {allowed}"
    return error.description


def _from_database(error: SQLAlchemyError) -> Response:
    """503 for a database that is away, busy or full; the store logs that it is away."""
    if is_wrong_statement(error):
        return _from_bug(error)
    _log.debug("request failed", exc_info=error)
    text = "the database is away, full or too busy; nothing is lost if the request is sent again"
    if is_refusal(error):
        text = "the database does not let this service in; the service's log says why"
    if isinstance(error, OtherReleaseError):
        text = failure_text(error)
    return to_response(Problem("not-ready", text))


def from_torn_body(_error: Exception) -> Response:
    """400 for a body whose chunks a server could not read."""
    return to_response(Problem("bad-request", "the body's chunks are torn; send it again"))


def _from_bug(error: Exception) -> Response:
    _log.error("request failed", exc_info=error)
    return to_response(Problem("internal", CODES["internal"][1]))
