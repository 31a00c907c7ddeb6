"""The commands that change a job: `gramwatt job ID --set FIELD=VALUE` and `gramwatt rm ID`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramwatt.service.cli.common import (
    JobId,
    author,
    current_service,
    job_errors,
    job_id,
    stop,
)

if TYPE_CHECKING:
    from gramwatt.service.container import Service

EXAMPLE = "--set zone=DE"
TAG = "tags."


def correct(service: Service, name: str, settings: Sequence[str]) -> None:
    """Declare the fields of `--set` for a job; exits with 2 for one without a meaning."""
    from gramwatt.service.common.errors import CorrectionError
    from gramwatt.service.jobs.corrections import correct_job

    changes = parse_settings(settings)
    reason = changes.pop("reason", None)
    try:
        with job_errors(name):
            correct_job(service, job_id(service, name), changes, by=author(), reason=reason)
    except CorrectionError as error:
        stop(2, f"--set {error}")


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return the changes in FIELD=VALUE texts; an empty value makes a field undeclared.

    Exits with 2 for a text of another form, or a field that is given twice.
    """
    changes: dict[str, Any] = {}
    tags: dict[str, str | None] = {}
    for text in settings:
        field, equals, value = text.partition("=")
        field = field.strip()
        if not field or not equals:
            stop(2, f"--set {text!r}: write FIELD=VALUE, such as {EXAMPLE}")
        if field.startswith(TAG):
            field, into, found = field.removeprefix(TAG), tags, value.strip() or None
        else:
            into, found = changes, _value(field, value.strip())
        if field in into:
            stop(2, f"--set {field} is given more than once")
        into[field] = found
    if tags:
        changes["tags"] = changes.get("tags", {}) | tags
    return changes


def _value(field: str, text: str) -> Any:
    from gramwatt.collectors.common.config import PARSERS, flag

    try:
        if field == "tags":
            return PARSERS["tags"](text)
        return flag(text) if field == "excluded" else text or None
    except ValueError as error:
        stop(2, f"--set {field}: {error}")


def rm(
    name: JobId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a job for good; that it was deleted, when and by whom stays on record.

    Its figures leave every list and month. Out of months only:
    gramwatt job ID --set excluded=true --set reason="broken meter"
    """
    from gramwatt.service.jobs.deletion import delete_job
    from gramwatt.service.jobs.documents import job_head

    with current_service() as service, job_errors(name):
        whole = job_id(service, name)
        if not yes:
            _confirm(job_head(service, whole))
        delete_job(service, whole, by=author())
    print(f"deleted {whole}")


def _confirm(head: Any) -> None:
    """Ask before a job goes; exits with 1 for anything but a yes."""
    from gramwatt.sci.base.formatting import minute_text, plain, value_text

    energy = plain(value_text(head["energy_kwh"]))
    started = minute_text(head["started_at"])
    about = f"{head['name']}, {head['state']}, {started} UTC, {energy}"
    question = f"Delete job {head['job_id']} ({about}) for good?"
    try:
        sure = typer.confirm(question, default=False, err=True)
    except typer.Abort:  # Ctrl-C, or nobody there to answer
        print(file=sys.stderr)
        stop(1, "nothing was deleted; --yes deletes without asking")
    if not sure:
        stop(1, "nothing was deleted")
