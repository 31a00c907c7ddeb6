"""The client library: `client.Client` for programs that ask a server (docs/client.md).

Users import it as gramwatt.client; `errors` are what it raises.
"""

from gramwatt.collectors.remote.client import Client
from gramwatt.collectors.remote.errors import (
    ApiError,
    ConflictError,
    InvalidError,
    NotAllowedError,
    NotFoundError,
    UnavailableError,
)

__all__ = [
    "ApiError",
    "Client",
    "ConflictError",
    "InvalidError",
    "NotAllowedError",
    "NotFoundError",
    "UnavailableError",
]
