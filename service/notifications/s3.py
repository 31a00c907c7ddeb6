"""Put a file into an S3-compatible store, signed with AWS Signature Version 4.

The signature is that of Amazon S3's API reference, "Authenticating Requests: Using the
Authorization Header (AWS Signature Version 4)", in one chunk.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ssl
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit

from gramwatt.service.config import S3Access

ALGORITHM = "AWS4-HMAC-SHA256"
TIMEOUT_S = 30.0


class S3Error(Exception):
    """A file that the store did not take; the text says why."""


def put(access: S3Access, name: str, content: bytes, media: str, now: datetime) -> None:
    """Store `content` as `name` under the address's prefix; raises S3Error."""
    parts = urlsplit(access.url)
    path = quote(f"{parts.path.rstrip('/')}/{name}", safe="/-_.~")
    headers = {
        "host": parts.netloc,
        "content-type": media,
        "x-amz-content-sha256": hashlib.sha256(content).hexdigest(),
        "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
    }
    if access.token:
        headers["x-amz-security-token"] = access.token
    headers["authorization"] = authorization(access, "PUT", path, headers)
    connection = _connection(parts.scheme, parts.netloc)
    try:
        connection.request("PUT", path, content, headers)
        answer = connection.getresponse()
        said = answer.read(300).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise S3Error(
            f"{parts.netloc} did not take it: {str(error) or type(error).__name__}"
        ) from None
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise S3Error(f"{parts.netloc} answered {answer.status}: {said}")


def authorization(access: S3Access, method: str, path: str, headers: Mapping[str, str]) -> str:
    """Return the Authorization header of a request without a query; header names are in lower
    case.
    """
    signed = sorted(headers)
    canonical = "\n".join(
        [
            method,
            path,
            "",
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
