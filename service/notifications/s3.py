"""Put, get, list and delete files of an S3-compatible store, signed with AWS Signature Version 4.

The signature is that of Amazon S3's API reference, "Authenticating Requests: Using the
Authorization Header (AWS Signature Version 4)", in one chunk.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import http.client
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from gramwatt.service.config import S3Access

ALGORITHM = "AWS4-HMAC-SHA256"
TIMEOUT_S = 30.0
_CHUNK_B = 2**20


class S3Error(Exception):
    """A request that the store did not answer as asked; the text says why."""


def put(access: S3Access, name: str, content: bytes | Path, media: str, now: datetime) -> None:
    """Store `content`, or that of a file, as `name` under the address's prefix; raises S3Error."""
    if isinstance(content, bytes):
        digest = hashlib.sha256(content).hexdigest()
        _answer(access, "PUT", name, now, content, digest, media)
        return
    with content.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        stream.seek(0)
        _answer(access, "PUT", name, now, stream, digest, media)


def get(access: S3Access, name: str, path: Path, now: datetime) -> bool:
    """Write what is stored as `name` to a file; False where there is nothing. Raises S3Error."""
    return _answer(access, "GET", name, now, into=path)


def delete(access: S3Access, name: str, now: datetime) -> None:
    """Delete what is stored as `name`, if anything is; raises S3Error."""
    _answer(access, "DELETE", name, now)


def names(access: S3Access, now: datetime, into: Path) -> Iterator[str]:
    """Yield every name under the address's prefix; `into` takes the answers. Raises S3Error."""
    _, bucket, *rest = urlsplit(access.url).path.rstrip("/").split("/", 2)
    prefix = f"{rest[0]}/" if rest else ""
    of_bucket = S3Access(
        access.url.removesuffix(f"/{prefix.rstrip('/')}") if prefix else access.url,
        *(access.key_id, access.secret, access.region, access.token),
    )
    query = {"list-type": "2", "prefix": prefix}
    while True:
        _answer(of_bucket, "GET", "", now, into=into, query=query)
        said = into.read_text()
        for key in re.findall("<Key>(.*?)</Key>", said, re.DOTALL):
            yield html.unescape(key).removeprefix(prefix)
        token = re.search("<NextContinuationToken>(.*?)</", said)
        if not token:
            return
        query = {**query, "continuation-token": html.unescape(token[1])}


def _answer(
    access: S3Access,
    method: str,
    name: str,
    now: datetime,
    content: object = b"",
    digest: str = hashlib.sha256(b"").hexdigest(),
    media: str = "",
    *,
    into: Path | None = None,
    query: Mapping[str, str] | None = None,
) -> bool:
    """Send a request and take its answer `into` a file; False for a name that is not there."""
    parts = urlsplit(access.url)
    path = quote(f"{parts.path.rstrip('/')}/{name}".rstrip("/"), safe="/-_.~")
    asked = urlencode(sorted((query or {}).items()), quote_via=quote, safe="-_.~")
    headers = {
        "host": parts.netloc,
        **({"content-type": media} if media else {}),
        "x-amz-content-sha256": digest,
        "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
    }
    if access.token:
        headers["x-amz-security-token"] = access.token
    headers["authorization"] = authorization(access, method, path, headers, asked)
    connection = _connection(parts.scheme, parts.netloc)
    try:
        if isinstance(content, bytes):
            headers["content-length"] = str(len(content))
        else:
            headers["content-length"] = str(content.seek(0, 2))  # type: ignore[attr-defined]
            content.seek(0)  # type: ignore[attr-defined]
        target = f"{path}?{asked}" if asked else path
        connection.request(method, target, content, headers)  # type: ignore[arg-type]
        answer = connection.getresponse()
        found = 200 <= answer.status < 300
        if found and into is not None:
            with into.open("wb") as stream:
                while chunk := answer.read(_CHUNK_B):
                    stream.write(chunk)
        said = answer.read(300).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise S3Error(
            f"{parts.netloc} did not {'take' if method == 'PUT' else 'give'} it: "
            f"{str(error) or type(error).__name__}"
        ) from None
    finally:
        connection.close()
    if not found and not (answer.status == 404 and method != "PUT" and query is None):
        raise S3Error(f"{parts.netloc} answered {answer.status}: {said}")
    return found


def authorization(
    access: S3Access, method: str, path: str, headers: Mapping[str, str], query: str = ""
) -> str:
    """Return the Authorization header of a request; header names are in lower case, and the query
    is encoded and sorted.
    """
    signed = sorted(headers)
    canonical = "\n".join(
        [
            method,
            path,
            query,
            *(f"{name}:{headers[name].strip()}" for name in signed),
            "",
            ";".join(signed),
            headers["x-amz-content-sha256"],
        ]
    )
    moment = headers["x-amz-date"]
    scope = f"{moment[:8]}/{access.region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{access.secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"{ALGORITHM}\n{moment}\n{scope}\n{digest}"
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"Credential={access.key_id}/{scope}"
    return f"{ALGORITHM} {credential},SignedHeaders={';'.join(signed)},Signature={signature}"


def _connection(scheme: str, netloc: str) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(netloc, timeout=TIMEOUT_S, context=context)
    return http.client.HTTPConnection(netloc, timeout=TIMEOUT_S)
