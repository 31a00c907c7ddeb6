"""A request's body as lines, read as it comes and never held whole."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec
from flask import current_app, request

from gramwatt.sci.records.records import LINE_MAX_B
from gramwatt.service.api.problems import CODES, Problem

CHUNK_B = 2**16
COMMAS_MOST = 2_000_000
"""In an array: it is held whole, and each item takes memory of its own."""


def body_lines(media_type: str, array_type: str = "") -> Iterator[bytes]:
    """Return the lines of the request's body, of that type, plain or gzip, or items of an array.

    Raises Problem: at once for another type or encoding, and while it is read for a body above the
    limit, counted as it unpacks, or one that is no gzip or breaks off.
    """
    if request.mimetype not in (media_type, array_type):
        raise Problem("unsupported-media-type", f"send Content-Type: {media_type}")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "x-gzip":  # the same (RFC 9110, section 8.4.1.3)
        encoding = "gzip"
    if encoding not in ("identity", "gzip"):
        raise Problem("unsupported-media-type", "send the body plain, or with gzip")
    stream: BinaryIO = io.BufferedReader(request.stream, CHUNK_B)  # type: ignore[type-var]
    if encoding == "gzip":
        stream = gzip.GzipFile(fileobj=stream)  # type: ignore[assignment]
    limit_b = current_app.config["MAX_CONTENT_LENGTH"]
    if request.mimetype == media_type:
        return _lines(stream, limit_b)
    return _items(stream, limit_b)


def _items(stream: BinaryIO, limit_b: int) -> Iterator[bytes]:
    """Return the items of a JSON array as lines; raises Problem for anything else."""
    with _readable():
        body = stream.read(limit_b + 1)
    if len(body) > limit_b or body.count(b",") > COMMAS_MOST:
        raise Problem("body-too-large", CODES["body-too-large"][1])
    try:
        items = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        raise Problem("bad-json", "send a JSON array of records, or NDJSON") from None
    return (bytes(item)[: LINE_MAX_B + 1] for item in items)


def _lines(stream: BinaryIO, limit_b: int) -> Iterator[bytes]:
    with _readable():
        for size_b, line in lines_of(stream):
            limit_b -= size_b
            if limit_b < 0:
                raise Problem("body-too-large", CODES["body-too-large"][1])
            if line is not None:
                yield line


@contextmanager
def _readable() -> Iterator[None]:
    """Raise Problem for a body that is no gzip or breaks off."""
    try:
        yield
    except EOFError:
        raise Problem("bad-request", "the gzip body ends early; send it again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise Problem("bad-request", "the body is not valid gzip") from None


def lines_of(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Return the lines of a stream without their ends, each with the bytes that were read.

    Of a line that is too long there is only the beginning, and None for each part that follows.
    """
    is_begun = False
    while part := stream.readline(LINE_MAX_B + 1):
        yield len(part), None if is_begun else part.removesuffix(b"\n")
        is_begun = not part.endswith(b"\n")
