"""Times as text: those of the command line, 90m, 12h or 2d from now, and those of requests."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_SPAN = re.compile(r"(\d+(?:\.\d*)?)([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def moment(text: str | None, now: str | None = None) -> str | None:
    """Return a time written as 90m, 12h or 2d after `now` (ISO 8601, default: the clock's) in
    ISO 8601; any other text as it is: the engine refuses what is no time.
    """
    if text is None or not (found := _SPAN.fullmatch(text)):
        return text
    try:
        start = datetime.fromisoformat(now) if now else datetime.now(UTC)
        return (start + timedelta(**{_UNITS[found[2]]: float(found[1])})).isoformat()
    except (ValueError, OverflowError):  # of another form, or of no century
        return text


def second_text(when: datetime) -> str:
    """Return a moment in whole seconds: 2026-05-01T08:00:00Z."""
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
