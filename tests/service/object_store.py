"""An S3-compatible store in memory: puts, gets, lists and deletes objects of one bucket."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

DAY = "2026-05-10T08:00:00.000Z"


@contextmanager
def object_store() -> Iterator[tuple[dict[str, bytes], str]]:
    """The objects by their paths without the bucket, and the address of the store."""
    objects: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def key(self) -> str:
            return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

        def body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def answer(self, status: int, content: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Sun, 10 May 2026 08:00:00 GMT")
            self.end_headers()
            self.wfile.write(content)

        def do_PUT(self) -> None:
            objects[self.key()] = self.body()
            self.answer(200)

        def do_POST(self) -> None:
            """Delete the objects that the body names."""
            keys = re.findall(rb"<Key>.*?</Key>", self.body())
            for key in keys:
                objects.pop(unquote(key.decode()[5:-6]), None)
            deleted = b"".join(b"<Deleted>" + key + b"</Deleted>" for key in keys)
            self.answer(200, b"<DeleteResult>" + deleted + b"</DeleteResult>")

        def do_DELETE(self) -> None:
            objects.pop(self.key(), None)
            self.answer(204)

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            if "list-type" not in query:
                found = objects.get(self.key())
                self.answer(404 if found is None else 200, found or b"")
                return
            prefix = query.get("prefix", [""])[0]
            rows = "".join(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                f'<LastModified>{DAY}</LastModified><ETag>"1"</ETag></Contents>'
                for key, content in sorted(objects.items())
                if key.startswith(prefix)
            )
            text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
            self.answer(200, text.encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield objects, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
