"""Answers with an ETag, and 304 for a reader who has them already."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from flask import Response, request

from gramwatt import __version__


def answer(text: str, media: str, render: Callable[[], str | bytes]) -> Response:
    """What `render` makes of the document `text`; not rendered when the reader has it.

    The tag depends on the document, the media type and the release that renders it.
    """
    digest = hashlib.sha256(f"{__version__}\n{media}\n{text}".encode()).hexdigest()[:32]
    if request.if_none_match.contains(digest):
        response = Response(status=304)
    else:
        charset = "" if media == "application/pdf" else "; charset=utf-8"
        response = Response(
            render(), content_type=media if media.endswith("json") else media + charset
        )
    response.set_etag(digest)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Accept"
    return response
