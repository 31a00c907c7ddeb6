"""A request's body as lines, read as it comes and never held whole."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from flask import current_app, request

from gramwatt.sci.journal.records import LINE_MAX_B
from gramwatt.service.api.problems import CODES, Problem

CHUNK_B = 2**16
GZIP = 16 + zlib.MAX_WBITS
"""zlib's window for a gzip header."""


def body_lines(media_type: str) -> Iterator[bytes]:
    """The lines of the request's body, of that type, plain or gzip.

    Raises Problem: at once for another type or encoding, and while it is read for a body above the
    limit, counted as it unpacks, or one that is no gzip or breaks off.
    """
    if request.mimetype != media_type:
        raise Problem("unsupported-media-type", f"send Content-Type: {media_type}")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem("unsupported-media-type", "send the body plain, or with gzip")
    chunks = iter(lambda: request.stream.read(CHUNK_B), b"")
    return lines_of(_limited(unpacked(chunks) if encoding == "gzip" else chunks))


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines in chunks, those that a chunk completes together, without the last one's end; of
    a line that is too long only its beginning.
    """
    rest = b""
    for chunk in chunks:
        if len(rest) > LINE_MAX_B:  # refused as it is: what else belongs to it is dropped
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                continue
            yield rest
            rest = b""
        whole, end, begun = chunk.rpartition(b"\n")
        if end:
            yield rest + whole
            rest = begun
        else:
            rest += chunk
    if rest:
        yield rest


def unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """What gzip chunks hold, at most CHUNK_B at once however small they are.

    Raises Problem for what is no gzip, and where it ends early.
    """
    unpacker = zlib.decompressobj(GZIP)
    fresh = True
    for packed in chunks:
        while packed:
            if unpacker.eof:  # gzip files may follow each other
                unpacker = zlib.decompressobj(GZIP)
            fresh = False
            try:
                yield unpacker.decompress(packed, CHUNK_B)
            except zlib.error:
                raise Problem("bad-request", "the body is no gzip") from None
            packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    if not (fresh or unpacker.eof):
        raise Problem("bad-request", "the gzip body ends early; send it again")


def _limited(chunks: Iterable[bytes]) -> Iterator[bytes]:
    limit_b: int = current_app.config["MAX_CONTENT_LENGTH"]
    for chunk in chunks:
        limit_b -= len(chunk)
        if limit_b < 0:
            raise Problem("body-too-large", CODES["body-too-large"][1])
        yield chunk
