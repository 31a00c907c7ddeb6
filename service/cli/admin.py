"""The commands `gramwatt admin ...`: what one person does for all who use a server."""

from __future__ import annotations

import typer

from gramwatt.service.cli import database, erase, keys, tasks


def _group(text: str, **commands: object) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help=text)
    for name, command in commands.items():
        group.command(name)(command)  # type: ignore[type-var]  # functions of any options
    return group


app = typer.Typer(
    no_args_is_help=True, help="Keys, sessions, the audit log, tasks, the database, erasure."
)
app.command("log")(keys.log)
app.command("tasks")(tasks.tasks)
app.add_typer(
    _group(
        "Make, list, rotate and revoke the server's keys.",
        create=keys.key_create,
        list=keys.key_list,
        rotate=keys.key_rotate,
        revoke=keys.key_revoke,
    ),
    name="key",
)
app.add_typer(
    _group("List and end the sessions of browsers.", list=keys.session_list, end=keys.session_end),
    name="session",
)
app.add_typer(
    _group(
        "Upgrade, check, back up or restore the database.",
        upgrade=database.upgrade,
        check=database.check,
        backup=database.backup,
        restore=database.restore,
    ),
    name="db",
)
app.add_typer(
    _group(
        "Delete a project, or a person's name.",
        project=erase.erase_project,
        person=erase.erase_person,
    ),
    name="erase",
)
