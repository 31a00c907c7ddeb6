"""The commands `gramwatt admin ...`: keys, sessions, audit log, tasks, database, erasure."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from gramwatt.collectors.cli.options import group, show
from gramwatt.collectors.settings.files import why
from gramwatt.collectors.settings.progress import busy
from gramwatt.service.cli.common import (
    AsJson,
    DatabaseUrl,
    author,
    confirm,
    log_act,
    open_service,
    print_json,
    stop,
    upgraded_service,
)
from gramwatt.service.scopes import SCOPES

if TYPE_CHECKING:
    from gramwatt.service.access.audit import AuditRow
    from gramwatt.service.container import Service
    from gramwatt.service.tasks.rescoring import ScorePreview
    from gramwatt.service.tasks.runs import RunAnswer, ScheduleAnswer, SchedulesAnswer

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

    works_for = _span(overlap, "--overlap", least=0) or timedelta()
    span = _span(expires)
    with admin_service(database_url) as service:
        key = rotate_key(service, name, works_for, expires=span)
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


RUNS_SHOWN = 20
"""Runs that the command lists."""


def tasks(as_json: AsJson = False, database_url: DatabaseUrl = None) -> None:
    """List the periodic tasks and their newest runs."""
    from gramwatt.service.tasks.runs import schedules

    with open_service(database_url) as service:
        _require_tables(service)
        answer = schedules(service, RUNS_SHOWN)
    if as_json:
        print_json(answer)
    else:
        _show_tasks(answer)


def _show_tasks(answer: SchedulesAnswer) -> None:
    from gramwatt.service.tasks.table import period

    for row in answer.schedules:
        every = period(row.every_s)
        show(f"{row.task:<17} every {every:<6} {_last_run(row)}", f"{'':<18}{row.what}")
    show("", "newest runs" if answer.runs else "no run yet")
    for run in answer.runs:
        show(f"{run.started_at[:19]}Z  {run.task:<17} {_outcome(run)}")


def _last_run(row: ScheduleAnswer) -> str:
    last = row.last_run
    if last is None:
        return "never ran"
    return f"{_outcome(last)}, last started {last.started_at[:19]}Z"


def _outcome(run: RunAnswer) -> str:
    return f"{run.outcome}: {run.error}" if run.error else run.outcome


PREVIEWED = 20
"""Scores that a preview names, those that change most."""


def upgrade(
    preview: Annotated[
        bool, typer.Option("--preview", help="Only say which scores would change; write nothing.")
    ] = False,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Create the tables, or bring them up to date.

    With --preview: which scores this release's engine and catalog and the settings of now would
    change, and by how much.
    """
    from gramwatt.service.store import migrate

    with open_service(database_url) as service:
        if preview:
            _preview(service, as_json)
            return
        changed = migrate.upgrade(service.store)
    show("upgraded" if changed else "up to date")


def _preview(service: Service, as_json: bool) -> None:
    from gramwatt.service.tasks.rescoring import preview_scores

    _require_tables(service, "no scores can be compared: there are no tables yet")
    with busy("scoring every job"):
        rows = list(preview_scores(service))
    changed = [row for row in rows if row.changed or row.error]
    changed.sort(key=lambda row: -abs(_delta_g(row) or 0.0))
    if as_json:
        print_json({"jobs": len(rows), "changed": changed})
        return
    for row in changed[:PREVIEWED]:
        show(f"{row.job_id}  {row.project}  {_change(row)}")
    if len(changed) > PREVIEWED:
        show(f"and {len(changed) - PREVIEWED} more; --json has all")
    changes = [change for row in changed if (change := _delta_g(row)) is not None]
    what = f"{len(changed)} of {len(rows)} scores would change"
    show(f"{what}, by {sum(changes):+.6g} g in all" if changes else what)


def _delta_g(row: ScorePreview) -> float | None:
    """Return the change of a total [gCO2e]; None where one of both is not known."""
    old, new = row.old_g, row.new_g
    return new.value - old.value if old and new else None


def _change(row: ScorePreview) -> str:
    if row.error:
        return f"cannot be scored any more: {row.error}"
    old, new = (f"{g.value:.6g} g" if g else "not known" for g in (row.old_g, row.new_g))
    change = _delta_g(row)
    if not change:
        return f"{new} as before; other {', '.join(row.changed)}"
    before = row.old_g.value if row.old_g else 0.0
    share = f", {change / before:+.2%}" if before else ""
    return f"{old} -> {new} ({change:+.6g} g{share})"


def check(database_url: DatabaseUrl = None) -> None:
    """Check that the tables are those of this release; exit code 1 when they are not."""
    from gramwatt.service.store.migrate import differences

    with open_service(database_url) as service:
        _require_tables(service)
        changes = differences(service.store)
    if changes:
        stop(1, f"the tables differ from this release: {'; '.join(changes)}")
    show("up to date")


def backup(
    file: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Write a SQLite store to one file, complete and consistent, also while it is served."""
    from gramwatt.service.store import transfer

    with open_service(database_url) as service:
        try:
            with busy("writing the backup"):
                transfer.backup(service.store, file)
        except OSError as error:
            stop(1, f"cannot write {file}: {why(error)}")
        log_act(service, "backup", str(file))
    print(file)


def restore(
    file: Annotated[Path, typer.Argument(help="What gramwatt admin db backup wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a store with jobs; a backup of it is kept.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Put a backup in the place of a SQLite store, while nothing uses it.

    What was erased since has to be erased again.
    """
    from gramwatt.service.store import migrate, transfer
    from gramwatt.service.tasks.leader import leader_of

    with open_service(database_url) as service:
        migrate.upgrade(service.store)
        beside = service.store.path or file
        old = beside.with_name(f"{beside.name}.before-restore-{service.now():%Y%m%dT%H%M%SZ}")
        leader = leader_of(service.store)
        if not leader.leads():
            stop(
                1, "the store is in use; stop gramwatt serve and gramwatt serve --only-tasks first"
            )
        try:
            with busy("restoring"):
                former = transfer.restore(service.store, file, old, replace=replace)
        except OSError as error:
            stop(1, f"cannot write: {why(error)}")
        finally:
            leader.resign()
        log_act(service, "restored", str(file))
    show(f"restored {file}" + (f"; what it replaced is in {old}" if former else ""))


def _require_tables(service: Service, why: str = "the database is not up to date") -> None:
    """Exit with 1 where the tables are not those of this release."""
    from gramwatt.service.store.migrate import is_current, require_known

    require_known(service.store)
    if not is_current(service.store):
        stop(1, f"{why}; run: gramwatt admin db upgrade")


KEPT = "nothing was erased; --yes erases without asking"
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def erase_project(
    name: Annotated[str, typer.Argument(metavar="PROJECT", help="The project's name.")],
    yes: Yes = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete a project for good: jobs, reports, budgets and its own keys."""
    from gramwatt.service import erasure

    with admin_service(database_url) as service:
        if not yes:
            confirm(f"Delete project {name} with all its jobs for good?", KEPT)
        erased = erasure.erase_project(service, name, by=author())
    show(f"deleted {name}: {erased.jobs_deleted} jobs")


def erase_person(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As tag user, or in admin log.")],
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Delete the jobs first whose tag user is the name.")
    ] = False,
    yes: Yes = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Put a random alias wherever a person is named.

    That is the tag user of jobs, and who made, corrected, deleted or set something.
    Their jobs first: gramwatt export journals DIR --user NAME
    """
    from gramwatt.service import erasure

    with admin_service(database_url) as service:
        if not yes:
            confirm(f"Erase {name}{' and delete their jobs' if jobs else ''} for good?", KEPT)
        erased = erasure.erase_person(service, name, by=author(), jobs=jobs)
    show(f"{erased.alias} stands for the name; {erased.jobs_deleted} jobs deleted")


app = group(
    "Keys, sessions, the audit log, tasks, the database, erasure.",
    log=log,
    tasks=tasks,
    key=group(
        "Make, list, rotate and revoke the server's keys.",
        create=key_create,
        list=key_list,
        rotate=key_rotate,
        revoke=key_revoke,
    ),
    session=group("List and end the sessions of browsers.", list=session_list, end=session_end),
    db=group(
        "Upgrade, check, back up or restore the database.",
        upgrade=upgrade,
        check=check,
        backup=backup,
        restore=restore,
    ),
    erase=group(
        "Delete a project, or a person's name.", project=erase_project, person=erase_person
    ),
)
