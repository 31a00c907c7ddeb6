"""The client library: `api.Client` for programs that ask a server (docs/client.md).

Users import it as gramwatt.client; `errors` are what it raises.
"""

from gramwatt.collectors.client.api import Client
from gramwatt.collectors.client.errors import (
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
