"""The server that is set, for commands that show its jobs: one sentence for whatever it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gramwatt.collectors.cli.options import stop
from gramwatt.collectors.settings.config import plain_address, resolve

if TYPE_CHECKING:
    from gramwatt.collectors.client import Client
    from gramwatt.collectors.client.errors import ApiError

TIMEOUT_S = 30.0
STORE = "--local reads this machine's store"


def is_set() -> bool:
    """Tell whether the settings name a server."""
    return resolve().server is not None


@contextmanager
def asked() -> Iterator[tuple[Client, str]]:
    """Yield a client of the server that is set, and its address for people; what it refuses ends
    the command: a wrong question with 2, all else with 1.
    """
    from msgspec import ValidationError

    from gramwatt.collectors.client import Client
    from gramwatt.collectors.client.errors import ApiError, InvalidError

    config = resolve()
    server = config.server or ""
    shown = plain_address(server)
    try:
        with Client(server, config.key_for(server) or "", TIMEOUT_S) as client:
            yield client, shown
    except ApiError as error:
        stop(2 if isinstance(error, InvalidError) else 1, _sentence(error, shown))
    except ValidationError as error:
        stop(1, f"{shown} answers in another form ({error}); is it of this release?")


def _sentence(error: ApiError, shown: str) -> str:
    """Return what the server refused, and what to do about it."""
    detail = str(error.problem.get("detail") or error).rstrip(".")
    if error.status is None and error.__cause__ is not None:
        return f"{shown} {error.__cause__}; {STORE}"
    if error.status == 401:
        return f"{shown} wants a key of scope read: gramwatt login {shown} stores one; {STORE}"
    if error.status == 403:
        ask = "ask the server's administrator for a key of that scope, then"
        return f"{shown}: {detail}; {ask} `gramwatt login {shown}`; {STORE}"
    if error.code == "unknown-job":
        return f"{shown}: {detail}; `gramwatt jobs` lists its jobs; {STORE}"
    if error.code == "no-data":
        return f"{shown}: {detail}; `gramwatt sync` sends what is spooled; {STORE}"
    return f"{shown}: {detail}"
