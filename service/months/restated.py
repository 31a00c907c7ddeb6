"""The messages of a closed month whose report was restated by more than a limit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from gramwatt.sci.analysis.trail import ClosingDoc, RestatementDoc
from gramwatt.service.container import Service
from gramwatt.service.store.timestamps import text_from_us

RESTATED = "month-restated"
"""The event of a message."""


def restated_messages(
    service: Service, month: str, project: str | None, revision: int, text: str
) -> list[dict[str, Any]]:
    """Return the rows of the outbox for a new revision of a closed month, one for each target.

    None where its total differs from the one that the month was closed with by no more than
    `restatement_percent`.
    """
    document: dict[str, msgspec.Raw] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    closings: list[ClosingDoc] = msgspec.json.decode(document["closings"])
    found: RestatementDoc | None = msgspec.json.decode(document["restatement"])
    closed = closings and closings[-1]["reopened_at"] is None
    if found is None or not closed:
        return []
    share, limit = found["change_share"], service.config.reports.restatement_percent
    if share is not None and abs(share) * 100 <= limit:
        return []
    now_us = service.now_us()
    about = {
        "event": RESTATED,
        "at": text_from_us(now_us),
        "project": project or "",
        "month": month,
        "revision": revision,
        **found,
    }
    # The digest, since a name may be longer than a key.
    of = [hashlib.sha256(project.encode()).hexdigest()] if project else []
    return [
        {
            "project": project or "",
            "key": json.dumps([RESTATED, month, revision, channel, target, *of]),
            "channel": channel,
            "target": target,
            "doc": json.dumps(about),
            "made_us": now_us,
            "attempts": 0,
            "next_us": now_us,
        }
        for channel, target in _targets(service)
    ]


def _targets(service: Service) -> Iterator[tuple[str, str]]:
    settings = service.config.reports
    if settings.restatement_webhook is not None:
        yield "webhook", settings.restatement_webhook
    for address in settings.mail_to:
        yield "email", address
