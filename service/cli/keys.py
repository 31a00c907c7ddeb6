"""`gramwatt admin key`, `session` and `log`: who may ask the server, and who has."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from gramwatt.collectors.cli.options import show
from gramwatt.service.cli.common import (
    AsJson,
    DatabaseUrl,
    author,
    print_json,
    stop,
    upgraded_service,
)
from gramwatt.service.scopes import SCOPES

if TYPE_CHECKING:
    from gramwatt.service.access.audit import AuditRow
    from gramwatt.service.container import Service

_SPAN = re.compile(r"(\d{1,5})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "y": 24 * 365}
FOLLOW_EVERY_S = 1.0
"""How often new entries of the audit log are asked for [s]."""

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="What the key is for, such as ci.")]


def key_create(
    name: KeyName,
    scope: Annotated[
        str,
        typer.Option(
            metavar="|".join(SCOPES),
            help="; ".join(f"{scope}: {may}" for scope, may in SCOPES.items()) + ".",
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

    if scope not in SCOPES:
        stop(2, f"--scope: {scope!r} is not one of {', '.join(SCOPES)}")
    span = _span(expires)
    with admin_service(database_url) as service:
        key = create_key(service, name, scope, project or (), expires=span)
    only = f" of {', '.join(key.projects)}" if key.projects else ""
    until = f" until {key.expires_at[:16]}Z" if key.expires_at else ""
    show(f"key {name} ({scope}{only}{until}); it is not shown again:", err=True)
    print(key.key)


def key_list(as_json: AsJson = False, database_url: DatabaseUrl = None) -> None:
    """List the keys: name, visible part, scope, projects, last use and end."""
    from gramwatt.service.access.keys import list_keys

    with admin_service(database_url) as service:
        keys = list_keys(service)
    if as_json:
        print_json(keys)
        return
    if not keys.keys:
        show("no key; make one: gramwatt admin key create NAME --scope ingest")
    for row in keys.keys:
        ends = "expired" if row.expired else f"until {(row.expires_at or 'revoked')[:10]}"
        used = f"last used {row.last_used_at[:16]}Z" if row.last_used_at else "never used"
        projects = ", ".join(row.projects) or "all projects"
        show(f"{row.name}  {row.prefix}  {row.scope}  {projects}  {used}  {ends}")


def key_rotate(
    name: KeyName,
    overlap: Annotated[
        str, typer.Option(metavar="SPAN", help="How long the key before still works; 0h: no more.")
    ] = "24h",
    expires: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="90d, 12h, 8w or 1y (default: as the key before)."),
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make another key of this name, scope and projects; the one before works a while longer."""
    from gramwatt.service.access.keys import rotate_key

    left = _span(overlap, "--overlap", least=0) or timedelta()
    span = _span(expires)
    with admin_service(database_url) as service:
        key = rotate_key(service, name, left, expires=span)
    text = f"key {name}; the one before works for {overlap} more; this is not shown again:"
    show(text, err=True)
    print(key.key)


def key_revoke(
    name: KeyName,
    prefix: Annotated[
        str | None, typer.Option(help="Only the key of this visible part, such as gw_1a2b3c4d.")
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Revoke a key: from now on it is refused."""
    from gramwatt.service.access.keys import revoke_key

    with admin_service(database_url) as service:
        revoke_key(service, name, prefix)
    show(f"revoked {name}")


def log(
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many entries.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", help="Oldest first; go on with new ones as they come.")
    ] = False,
    after: Annotated[
        int | None, typer.Option(min=0, help="With --follow: begin after the entry of this number.")
    ] = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show the audit log, newest first: sign-ins, keys, refusals, deletions, exports and others.

    With --follow --json each entry is a line, to be kept elsewhere.
    """
    from gramwatt.service.access.audit import audit_page

    with admin_service(database_url) as service:
        page = audit_page(service, limit, None)
        if follow or after is not None:
            with suppress(KeyboardInterrupt):
                _follow(service, page.entries if after is None else [], after or 0, as_json)
            return
    if as_json:
        print_json(page)
        return
    for row in page.entries:
        show(_entry(row))


def _follow(service: Service, newest: list[AuditRow], after: int, as_json: bool) -> None:
    """Print these entries in their order and all that come, for ever."""
    from gramwatt.service.access.audit import entries_after

    rows = newest[::-1]
    while True:
        for row in rows:
            show(json.dumps(to_builtins(row)) if as_json else _entry(row))
            after = row.number
        rows = entries_after(service, after)
        if not rows:
            time.sleep(FOLLOW_EVERY_S)


def _entry(row: AuditRow) -> str:
    credential = f" ({row.credential})" if row.credential else ""
    who = f"{row.actor}{credential} from {row.address}"
    return f"{row.at[:19]}Z  {row.action}  {row.subject}  by {who}"


def session_list(as_json: AsJson = False, database_url: DatabaseUrl = None) -> None:
    """List the browsers that are signed in: id, who, what they may do and see, from where."""
    from gramwatt.service.access.sessions import list_sessions

    with admin_service(database_url) as service:
        sessions = list_sessions(service)
    if as_json:
        print_json(sessions)
        return
    if not sessions.sessions:
        show("nobody is signed in")
    for row in sessions.sessions:
        projects = ", ".join(row.projects) or "all projects"
        times = f"since {row.started_at[:16]}Z until {row.expires_at[:16]}Z"
        who = f"{row.id}  {row.person}  {row.scope}  {projects}"
        show(f"{who}  from {row.address}  {times}")


def session_end(
    session: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The session's id, of admin session list.")
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="Every session of this person instead.")
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """End a session, or all of a person: from now on that browser is refused."""
    from gramwatt.service.access.sessions import end_session, end_sessions_of

    if (session is None) == (person is None) or session == "" or person == "":
        stop(2, "give the id of a session, or --person NAME; see: gramwatt admin session list")
    with admin_service(database_url) as service:
        if person is not None:
            ended = end_sessions_of(service, person)
        else:
            ended = end_session(service, session or "")
    show(f"ended {ended.ended} session{'s' if ended.ended > 1 else ''}")


@contextmanager
def admin_service(database_url: str | None) -> Iterator[Service]:
    """Yield the service with up-to-date tables; this user is its caller, whom the database lets
    in.
    """
    from gramwatt.service.container import Caller

    with upgraded_service(database_url) as service:
        yield service.for_caller(Caller(author()))


def _span(text: str | None, option: str = "--expires", least: int = 1) -> timedelta | None:
    if text is None:
        return None
    match = _SPAN.fullmatch(text)
    if match is None or int(match[1]) < least:
        stop(2, f"{option} {text!r}: write a number and h, d, w or y, such as 90d")
    return timedelta(hours=int(match[1]) * _HOURS[match[2]])
