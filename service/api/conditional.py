"""Conditional requests (RFC 9110, 13): If-None-Match on GET, If-Match on what changes a job."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from flask import Response, request

from gramwatt import __version__

IF_MATCH, IF_NONE_MATCH = "If-Match", "If-None-Match"


def tag_of(*parts: object) -> str:
    """Return a strong entity tag of what identifies an answer; another release renders
    otherwise.
    """
    text = "\n".join(map(str, (__version__, *parts)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def reader_has(tag: str) -> bool:
    """Return whether the reader says that it has the answer of this tag."""
    return request.if_none_match.contains_weak(tag)


def with_tag(response: Response, tag: str) -> Response:
    """Return the answer with its tag; without its body, as 304, where the reader has it."""
    if reader_has(tag):
        response = Response(status=304)
    response.set_etag(tag)
    response.headers["Cache-Control"] = "private, no-cache"
    return response


def tagged(response: Response) -> Response:
    """Return an answer to GET with a tag, that of its bytes where it has no other."""
    if response.status_code != 200 or "ETag" in response.headers:
        return response
    return with_tag(response, tag_of(response.mimetype, response.get_data()))


def if_match() -> Callable[[str], bool] | None:
    """Return whether a state of the job, given as its version, is the one the caller means; None
    for any.

    The version is that of a job's head, as the tag of `GET /v1/jobs/{job_id}` has it.
    """
    if IF_MATCH not in request.headers:
        return None
    # A tag is of a job's state, not of bytes: one that a proxy made weak, as nginx does where it
    # packs an answer, says as much.
    tags = request.if_match
    return lambda version: tags.contains_weak(tag_of(version))
