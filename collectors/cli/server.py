"""The server that is set, for commands that show its jobs: one sentence for whatever it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gramwatt.collectors.cli.options import show, stop
from gramwatt.collectors.settings.config import plain_address, resolve

if TYPE_CHECKING:
    from gramwatt.collectors.client import Client
    from gramwatt.collectors.client.errors import ApiError
    from gramwatt.collectors.settings.config import Config

TIMEOUT_S = 30.0
STORE = "--local reads this machine's store"


def is_set() -> bool:
    """Tell whether the settings name a server."""
    return resolve().server is not None


class Refused(Exception):
    """What a server refuses, as a sentence for people; `code` is the exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def report_waiting() -> None:
    """Say on stderr which jobs of this machine neither a server nor the store shows yet."""
    from gramwatt.collectors.spool.spool import waiting
    from gramwatt.sci.figures.formatting import jobs_text

    folders = waiting(resolve().home)
    if jobs := {folder.job_id for folder in folders}:
        names = ", ".join(sorted({folder.server() or "" for folder in folders}))
        text = f"{jobs_text(len(jobs))} of this machine not sent to {names} yet"
        show(f"gramwatt: {text}; see `gramwatt sync`", err=True)


@contextmanager
def asked() -> Iterator[tuple[Client, str]]:
    """Yield a client of the server that is set, and its address for people; what it refuses ends
    the command: a wrong question with 2, all else with 1.
    """
    try:
        with client_of(resolve(), TIMEOUT_S, STORE) as client:
            yield client
    except Refused as error:
        stop(error.code, str(error))


@contextmanager
def client_of(config: Config, limit_s: float, instead: str) -> Iterator[tuple[Client, str]]:
    """Yield a client of the server of these settings, and its address for people; raises Refused.

    `limit_s` is that of a request [s], `instead` what else the command can show.
    """
    from msgspec import ValidationError

    from gramwatt.collectors.client import Client
    from gramwatt.collectors.client.errors import ApiError, InvalidError

    server = config.server or ""
    shown = plain_address(server)
    try:
        with Client(server, config.key_for(server) or "", limit_s) as client:
            yield client, shown
    except ApiError as error:
        code = 2 if isinstance(error, InvalidError) else 1
        raise Refused(code, f"{_sentence(error, shown)}; {instead}") from None
    except (ValidationError, LookupError, TypeError) as error:
        why = error if isinstance(error, ValidationError) else repr(error)
        text = f"{shown} answers in another form ({why}); is it of this release?"
        raise Refused(1, text) from None


def _sentence(error: ApiError, shown: str) -> str:
    """Return what the server refused, and what to do about it."""
    detail = str(error.problem.get("detail") or "").rstrip(".")
    if error.status is None and error.__cause__ is not None:
        return f"{shown} {error.__cause__}"
    if error.code == "unknown-job":
        return f"{shown}: {detail}; `gramwatt jobs` lists its jobs"
    if error.code == "no-data":
        return f"{shown}: {detail}; `gramwatt sync` sends what is spooled"
    if error.status == 401:
        why = detail or "a key is wanted"
        return f"{shown}: {why}; `gramwatt login {shown}` stores one of scope read"
    if error.status == 403 and detail:
        ask = "ask the server's administrator for a key of that scope, then"
        return f"{shown}: {detail}; {ask} `gramwatt login {shown}`"
    return f"{shown}: {detail}" if detail else str(error)
