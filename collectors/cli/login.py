"""`gramwatt login URL`: a key for a server, which a node needs no service to store."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from typing import Annotated

import typer

from gramwatt.collectors.settings import config, http, keys
from gramwatt.collectors.settings.files import why
from gramwatt.collectors.track.messages import print_message


def login(url: Annotated[str, typer.Argument(metavar="URL", help="The server.")]) -> None:
    """Ask for a key of a server, typed or from stdin, and keep it for jobs of this user.

    A link that signs a browser in: gramwatt serve --link, on the server's machine.
    """
    try:
        server = config.PARSERS["server"](url)
    except ValueError as error:
        raise _stop(2, f"URL: {error}") from None
    plain = server.startswith("http://") and not keys.is_loopback(server)
    if plain and not config.resolve().allow_http:
        secure = "use https://, or set GRAMWATT_ALLOW_HTTP=1"
        raise _stop(2, f"URL: plain http, which everybody on the way can read; {secure}")
    typed = getpass(f"key for {config.plain_address(server)}: ") if sys.stdin.isatty() else None
    try:
        key = config.key_of_server(sys.stdin.readline() if typed is None else typed)
    except ValueError as error:
        raise _stop(2, f"{error}; there, with --scope ingest") from None
    _try(server, key)
    folder = config.user_file(os.environ).parent
    try:
        print(f"stored in {keys.store_key(folder, server, key)}")
    except OSError as error:
        raise _stop(1, f"cannot write to {folder}: {why(error)}") from None


def _try(server: str, key: str) -> None:
    """Ask the server with the key; raises typer.Exit where it, or what answers, is a wrong one."""
    shown = config.plain_address(server)
    try:
        with http.new_session(key) as session:
            answer = http.exchange(session, "GET", f"{server}/v1/jobs?limit=1", 15.0)
    except http.Unanswered:
        print_message("the server does not answer now: the key was not tried")
        return
    if answer.status >= 500:
        print_message(f"{shown} answers {answer.status} now: the key was not tried")
    elif answer.document() is None:
        raise _stop(1, f"{shown} {answer.strange}; nothing was stored")
    elif answer.status == 401:
        raise _stop(1, f"{shown} does not know this key; nothing was stored")


def _stop(code: int, text: str) -> typer.Exit:
    print_message(text)
    return typer.Exit(code)
