"""The commands `gramwatt admin ...`: what one person does for all who use a server."""

from __future__ import annotations

from gramwatt.collectors.cli.options import group
from gramwatt.service.cli import database, erase, keys, tasks

app = group(
    "Keys, sessions, the audit log, tasks, the database, erasure.",
    log=keys.log,
    tasks=tasks.tasks,
    key=group(
        "Make, list, rotate and revoke the server's keys.",
        create=keys.key_create,
        list=keys.key_list,
        rotate=keys.key_rotate,
        revoke=keys.key_revoke,
    ),
    session=group(
        "List and end the sessions of browsers.", list=keys.session_list, end=keys.session_end
    ),
    db=group(
        "Upgrade, check, back up or restore the database.",
        upgrade=database.upgrade,
        check=database.check,
        backup=database.backup,
        restore=database.restore,
    ),
    erase=group(
        "Delete a project, or a person's name.",
        project=erase.erase_project,
        person=erase.erase_person,
    ),
)
