"""The commands `gramwatt admin erase project` and `person`."""

from __future__ import annotations

from typing import Annotated

import typer

from gramwatt.collectors.cli.options import show
from gramwatt.service.cli.common import DatabaseUrl, author, confirm
from gramwatt.service.cli.keys import admin_service

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
