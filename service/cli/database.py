"""The commands `gramwatt admin db upgrade`, `check`, `backup` and `restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.options import show
from gramwatt.collectors.settings.files import why
from gramwatt.collectors.settings.progress import busy
from gramwatt.service.cli.common import AsJson, DatabaseUrl, author, open_service, print_json, stop

if TYPE_CHECKING:
    from gramwatt.service.container import Service
    from gramwatt.service.tasks.rescoring import ScorePreview

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
    from gramwatt.service.store.migrate import is_current, require_known
    from gramwatt.service.tasks.rescoring import preview_scores

    require_known(service.store)
    if not is_current(service.store):
        stop(
            1, "no scores can be compared: there are no tables yet; run: gramwatt admin db upgrade"
        )
    with busy("scoring every job"):
        rows = list(preview_scores(service))
    changed = [row for row in rows if row.changed or row.error]
    changed.sort(key=lambda row: -abs(_change_g(row) or 0.0))
    if as_json:
        print_json({"jobs": len(rows), "changed": changed})
        return
    for row in changed[:PREVIEWED]:
        show(f"{row.job_id}  {row.project}  {_change(row)}")
    if len(changed) > PREVIEWED:
        show(f"and {len(changed) - PREVIEWED} more; --json has all")
    changes = [change for row in changed if (change := _change_g(row)) is not None]
    what = f"{len(changed)} of {len(rows)} scores would change"
    show(f"{what}, by {sum(changes):+.6g} g in all" if changes else what)


def _change_g(row: ScorePreview) -> float | None:
    """Return the change of a total [gCO2e]; None where one of both is not known."""
    old, new = row.old_g, row.new_g
    return new.value - old.value if old and new else None


def _change(row: ScorePreview) -> str:
    if row.error:
        return f"cannot be scored any more: {row.error}"
    old, new = (f"{g.value:.6g} g" if g else "not known" for g in (row.old_g, row.new_g))
    change = _change_g(row)
    if not change:
        return f"{new} as before; other {', '.join(row.changed)}"
    before = row.old_g.value if row.old_g else 0.0
    share = f", {change / before:+.2%}" if before else ""
    return f"{old} -> {new} ({change:+.6g} g{share})"


def check(database_url: DatabaseUrl = None) -> None:
    """Check that the tables are those of this release; exit code 1 when they are not."""
    from gramwatt.service.store.migrate import differences, is_current, require_known

    with open_service(database_url) as service:
        require_known(service.store)
        if not is_current(service.store):
            stop(1, "the database is not up to date; run: gramwatt admin db upgrade")
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
        _record(service, "backup", file)
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
        _record(service, "restored", file)
    show(f"restored {file}" + (f"; what it replaced is in {old}" if former else ""))


def _record(service: Service, action: str, subject: Path | str) -> None:
    """Add an entry to the audit log, by this user."""
    from gramwatt.service.access import audit
    from gramwatt.service.container import Caller

    audit.log(service.for_caller(Caller(author())), action, str(subject))
