"""Deliver what alerts and reports put into the outbox until it is taken, and show it.

A message is claimed before it is sent, so that of several processes one sends it. One that dies
between sending and saying so leaves it to be sent again: receivers know it by its delivery id.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from msgspec import Struct

from gramwatt.sci.figures.formatting import all_digits, grams, jobs_text, minute_text, plain, text
from gramwatt.sci.figures.printable import clean
from gramwatt.sci.figures.quantity import figure_of
from gramwatt.service.common.cursors import cut, decode_cursor
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.notifications import delivery as reports
from gramwatt.service.notifications.addresses import shown
from gramwatt.service.notifications.channels import SendError, send_mail, send_webhook
from gramwatt.service.notifications.s3 import S3Error, put
from gramwatt.service.store.budgets import OutboxMessage
from gramwatt.service.store.timestamps import span_us, text_from_us

ATTEMPTS = 12
FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=6)
"""The wait after the first failure, doubled after each further one: 12 attempts take 20.5 hours."""
CLAIM = timedelta(minutes=2)
"""How long a process may take to send one message; after that it is another's."""
AT_ONCE = 20
MessageState = Literal["waiting", "sent", "failed"]


class OutboxRow(Struct):
    """A message: where it goes, how often it was tried, and why it is not there yet.

    The path of a webhook's address is not shown, since it may be a secret.
    """

    id: int
    project: str
    month: str
    threshold: float | None
    channel: str
    target: str
    state: MessageState
    attempts: int
    made_at: str
    next_at: str | None
    sent_at: str | None
    error: str | None


class OutboxAnswer(Struct):
    """A page of messages, newest first; `next_cursor` is null at the end."""

    messages: list[OutboxRow]
    next_cursor: str | None


def deliver(service: Service) -> int:
    """Send the messages that are due, oldest first; how many were taken."""
    unsent = OutboxMessage.sent_us.is_(None)
    due = sa.select(OutboxMessage.id).where(unsent, _is_due(service.now_us()))
    with service.store.read() as session:
        ids = list(session.scalars(due.order_by(OutboxMessage.id).limit(AT_ONCE)))
    return sum(_deliver(service, key) for key in ids)


def _is_due(now_us: int) -> sa.ColumnElement[bool]:
    """Return whether a message is due.

    No wait is longer than LONGEST_WAIT: a later time was written while the clock was ahead.
    """
    next_us = OutboxMessage.next_us
    return sa.or_(next_us <= now_us, next_us > now_us + span_us(LONGEST_WAIT))


def outbox_page(service: Service, limit: int, cursor: str | None) -> OutboxAnswer:
    """Messages, newest first; raises CursorError."""
    wanted = sa.select(OutboxMessage).order_by(OutboxMessage.id.desc()).limit(limit + 1)
    if cursor:
        wanted = wanted.where(OutboxMessage.id < decode_cursor(cursor, int)[0])
    with service.store.read() as session:
        rows = session.scalars(wanted).all()
    page, following = cut(rows, limit, lambda row: (row.id,))
    return OutboxAnswer(messages=[_row(row) for row in page], next_cursor=following)


def _deliver(service: Service, key: int) -> bool:
    message = _claimed(service, key)
    if message is None:
        return False
    try:
        _send(service, message)
    except SendError as error:
        failed = message.attempts >= ATTEMPTS
        wait = min(FIRST_WAIT * 2 ** (message.attempts - 1), LONGEST_WAIT)
        next_us = None if failed else service.now_us() + span_us(wait)
        # What a receiver says may hold anything; PostgreSQL takes no text with a NUL in it.
        said = " ".join(clean(str(error)).split())[:500]
        _note(service, key, next_us=next_us, error=said)
        return False
    _note(service, key, next_us=None, sent_us=service.now_us(), error=None)
    return True


def _claimed(service: Service, key: int) -> OutboxMessage | None:
    """Return the message, for this process alone; None when another has it, or has sent it."""
    now_us = service.now_us()
    with service.store.write() as session:
        wanted = (
            sa.select(OutboxMessage)
            .where(OutboxMessage.id == key, OutboxMessage.sent_us.is_(None), _is_due(now_us))
            .with_for_update()
        )
        row = session.scalars(wanted).one_or_none()
        if row is None:
            return None
        row.attempts += 1
        row.next_us = now_us + span_us(CLAIM)
        return row


def _note(service: Service, key: int, **values: Any) -> None:
    change = sa.update(OutboxMessage).where(OutboxMessage.id == key).values(**values)
    with service.store.write() as session:
        session.execute(change)


def _send(service: Service, message: OutboxMessage) -> None:
    settings, doc = service.config.alerts, json.loads(message.doc)
    delivery = f"gramwatt-{message.made_us}-{message.id}"
    if message.channel == "webhook":
        body = {**doc, "id": delivery}
        send_webhook(settings, message.target, body, delivery, service.now_us() // 1_000_000)
    elif message.channel in reports.CHANNELS:
        _send_report(service, message, doc, delivery)
    else:
        subject, lines = _letter(doc)
        send_mail(settings, message.target, subject, lines, delivery, service.now())


def _send_report(
    service: Service, message: OutboxMessage, doc: dict[str, Any], delivery: str
) -> None:
    settings = service.config.reports
    try:
        document = reports.report_of(service, doc)
        if message.channel == reports.MAIL:
            made = reports.files(service, document, reports.MAILED)
            subject, lines = reports.letter(document)
            send_mail(
                service.config.alerts,
                message.target,
                subject,
                lines,
                delivery,
                service.now(),
                made,
            )
        elif message.channel == reports.FOLDER:
            reports.write_files(Path(message.target), reports.files(service, document))
        elif settings.s3 is None:
            raise SendError("GRAMWATT_REPORT_S3_URL is not set any more")
        else:
            access = replace(settings.s3, url=message.target)
            for one in reports.files(service, document):
                put(access, one.name, one.content, one.media)
    except (OSError, S3Error, NoDataError) as error:
        raise SendError(str(error)) from None


def _letter(doc: dict[str, Any]) -> tuple[str, str]:
    project = reports.project_text(str(doc["project"]))
    spent, ahead = figure_of(doc, "spent_kg"), figure_of(doc, "forecast_kg")
    subject = f"{project}: {doc['threshold_percent']:g} % of the budget of {doc['month']} is spent"
    rows = [
        f"Project   {project}",
        f"Month     {doc['month']}",
        f"Budget    {all_digits(doc['limit_kg'])} kg CO2e",
        f"Spent     {text(grams(spent))}, {doc['spent_share']:.0%} of the budget",
        f"Forecast  {text(grams(ahead)) if ahead else doc['forecast_reason']}",
        f"Noticed   {minute_text(doc['at'])} UTC",
    ]
    if doc["jobs_running"]:
        rows.append(f"Running   {jobs_text(doc['jobs_running'])}, with what they emitted so far")
    if doc["jobs_unknown"]:
        rows.append(f"Unknown   {jobs_text(doc['jobs_unknown'])}, whose whole sum is not known")
    return subject, plain("\n".join(rows)) + "\n"


def _row(row: OutboxMessage) -> OutboxRow:
    doc = json.loads(row.doc)
    state: MessageState = "waiting"
    if row.sent_us is not None:
        state = "sent"
    elif row.next_us is None:
        state = "failed"
    return OutboxRow(
        id=row.id,
        project=doc["project"],
        month=doc["month"],
        threshold=doc.get("threshold_percent"),
        channel=row.channel,
        target=shown(row.target) if row.channel == "webhook" else row.target,
        state=state,
        attempts=row.attempts,
        made_at=text_from_us(row.made_us),
        next_at=text_from_us(row.next_us) if row.next_us is not None else None,
        sent_at=text_from_us(row.sent_us) if row.sent_us is not None else None,
        error=row.error,
    )
