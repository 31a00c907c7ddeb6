"""`gramwatt key` and `gramwatt login`: who may ask the server."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.service.cli.common import (
    AsJson,
    DatabaseUrl,
    author,
    print_json,
    stop,
    upgraded_service,
)

if TYPE_CHECKING:
    from gramwatt.service.container import Service

_SPAN = re.compile(r"(\d{1,5})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "y": 24 * 365}

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="What the key is for, such as ci.")]


def key_create(
    name: KeyName,
    scope: Annotated[
        str,
        typer.Option(
            metavar="ingest|read|admin", help="ingest: send records; read: read; admin: everything."
        ),
    ],
    project: Annotated[
        list[str] | None, typer.Option(help="Only this project; may be given again.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="90d, 12h, 8w or 1y (default: never).")
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a key and print it; it is shown only this once."""
    from gramwatt.service.access.keys import create_key
    from gramwatt.service.common.errors import KeyNameError
    from gramwatt.service.container import SCOPES

    if scope not in SCOPES:
        stop(2, f"--scope: {scope!r} is not one of ingest, read and admin")
    span = _span(expires)
    with _admin(database_url) as service:
        try:
            made = create_key(service, name, scope, project or (), expires=span)
        except KeyNameError as error:
            stop(2, str(error))
    only = f" of {', '.join(made['projects'])}" if made["projects"] else ""
    until = f" until {made['expires_at'][:16]}Z" if made["expires_at"] else ""
    print(f"key {name} ({scope}{only}{until}); it is not shown again:", file=sys.stderr, flush=True)
    print(made["key"])


def key_list(as_json: AsJson = False, database_url: DatabaseUrl = None) -> None:
    """List the keys: name, visible part, scope, projects, last use and end."""
    from gramwatt.service.access.keys import list_keys

    with _admin(database_url) as service:
        found = list_keys(service)
    if as_json:
        print_json(found)
        return
    if not found["keys"]:
        print("no key; make one: gramwatt key create NAME --scope ingest")
    for row in found["keys"]:
        ends = "expired" if row["expired"] else f"until {(row['expires_at'] or 'revoked')[:10]}"
        used = f"last used {row['last_used_at'][:16]}Z" if row["last_used_at"] else "never used"
        projects = ", ".join(row["projects"]) or "all projects"
        print(f"{row['name']}  {row['prefix']}  {row['scope']}  {projects}  {used}  {ends}")


def key_revoke(name: KeyName, database_url: DatabaseUrl = None) -> None:
    """Revoke a key: from now on it is refused."""
    from gramwatt.service.access.keys import revoke_key
    from gramwatt.service.common.errors import UnknownKeyError

    with _admin(database_url) as service:
        try:
            revoke_key(service, name)
        except UnknownKeyError as error:
            stop(1, str(error))
    print(f"revoked {name}")


def key_log(
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many entries.")] = 50,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show the audit log, newest first: keys, refusals, deletions, corrections, exports."""
    from gramwatt.service.access.audit import audit_page

    with _admin(database_url) as service:
        found = audit_page(service, limit, None)
    if as_json:
        print_json(found)
        return
    for row in found["entries"]:
        who = f"{row['actor']} from {row['address']}"
        print(f"{row['at'][:19]}Z  {row['action']}  {row['subject']}  by {who}")


def login(
    url: Annotated[
        str, typer.Option(help="Where the browser reaches the server.")
    ] = "http://127.0.0.1:8642",
    database_url: DatabaseUrl = None,
) -> None:
    """Print a link that signs one browser in, once, within 15 minutes."""
    from gramwatt.collectors.common.config import PARSERS
    from gramwatt.service.access.sessions import new_link

    try:
        address = PARSERS["server"](url)
    except ValueError as error:
        stop(2, f"--url: {error}")
    with _admin(database_url) as service:
        token = new_link(service, author())
    print(f"{address}/login?token={token}")


@contextmanager
def _admin(database_url: str | None) -> Iterator[Service]:
    """Yield the service with up-to-date tables; this user is its caller, whom the database lets
    in.
    """
    from gramwatt.service.container import Caller

    with upgraded_service(database_url) as service:
        yield service.for_caller(Caller(author()))


def _span(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found is None or not int(found[1]):
        stop(2, f"--expires {text!r}: write a number and h, d, w or y, such as 90d")
    return timedelta(hours=int(found[1]) * _HOURS[found[2]])
