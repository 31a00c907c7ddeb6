"""Put a file into an S3-compatible store, by the extra `s3`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gramwatt.service.config import S3Access

if TYPE_CHECKING:
    from obstore.store import S3Config

TIMEOUT = timedelta(seconds=30)


class S3Error(Exception):
    """A file that the store did not take; the text says why."""


def put(access: S3Access, name: str, content: bytes, media: str) -> None:
    """Store `content` as `name` under the address's bucket and prefix; raises S3Error."""
    try:
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError:
        raise S3Error("an S3 store needs one more package: pip install 'gramwatt[s3]'") from None
    parts = urlsplit(access.url)
    bucket, _, prefix = parts.path.strip("/").partition("/")
    config: S3Config = {
        "endpoint": f"{parts.scheme}://{parts.netloc}",
        "region": access.region,
        "access_key_id": access.key_id,
        "secret_access_key": access.secret,
    }
    if access.token:
        config["session_token"] = access.token
    try:
        store = S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={"timeout": TIMEOUT, "allow_http": parts.scheme == "http"},
            retry_config={"max_retries": 0},  # the outbox tries again
        )
        obstore.put(store, name, content, attributes={"Content-Type": media}, use_multipart=False)
    except BaseError as error:
        raise S3Error(f"{parts.netloc}: {str(error).partition(chr(10))[0]}") from None
