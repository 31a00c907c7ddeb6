"""An S3-compatible store in memory: puts, gets, lists and deletes objects of one bucket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.answering import answering, send

DAY = "2026-05-10T08:00:00.000Z"
HEADERS = {"ETag": '"1"', "Last-Modified": "Sun, 10 May 2026 08:00:00 GMT"}


@contextmanager
def object_store() -> Iterator[tuple[dict[str, bytes], str]]:
    """The objects by their paths without the bucket, and the address of the store."""
    objects: dict[str, bytes] = {}

    def act(handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        key, query = unquote(parts.path).lstrip("/").partition("/")[2], parse_qs(parts.query)
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        status, content = 200, b""
        if handler.command == "PUT":
            objects[key] = body
        elif handler.command == "DELETE":
            objects.pop(key, None)
            status = 204
        elif handler.command == "POST":  # delete the objects that the body names
            keys = re.findall(rb"<Key>.*?</Key>", body)
            for name in keys:
                objects.pop(unquote(name.decode()[5:-6]), None)
            deleted = b"".join(b"<Deleted>" + name + b"</Deleted>" for name in keys)
            content = b"<DeleteResult>" + deleted + b"</DeleteResult>"
        elif "list-type" in query:
            content = _listing(objects, query.get("prefix", [""])[0])
        else:
            status, content = (200, objects[key]) if key in objects else (404, b"")
        send(handler, content, status, **HEADERS)

    with answering(act) as url:
        yield objects, url


def _listing(objects: dict[str, bytes], prefix: str) -> bytes:
    rows = "".join(
        f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
        f'<LastModified>{DAY}</LastModified><ETag>"1"</ETag></Contents>'
        for key, content in sorted(objects.items())
        if key.startswith(prefix)
    )
    text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
    return text.encode()
