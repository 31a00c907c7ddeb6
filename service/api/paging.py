"""Lists page by `limit` and `cursor`; a `next_cursor` of null is the only sign of the end."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field

from gramwatt.service.api.problems import Problem, invalid
from gramwatt.service.api.routing import Strict

Row = TypeVar("Row")
_LARGEST = 2**63 - 1


class Page(Strict):
    """Which part of a list is wanted."""

    limit: int = Field(50, ge=1, le=500, description="How many entries, at most.")
    cursor: str | None = Field(
        None, min_length=1, max_length=1024, description="`next_cursor` of the page before."
    )


def encode_cursor(*position: int | str) -> str:
    """The position after which the next page starts, as an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode_cursor(text: str, *kinds: type) -> tuple[int | str, ...]:
    """The position in a cursor; raises Problem when it is not one of this list's."""
    try:
        padded = text + "=" * (-len(text) % 4)
        position = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _unusable() from None
    if not isinstance(position, list) or [type(part) for part in position] != list(kinds):
        raise _unusable()
    if any(isinstance(part, int) and abs(part) > _LARGEST for part in position):
        raise _unusable()
    return tuple(position)


def cut(
    rows: Sequence[Row], limit: int, position: Callable[[Row], tuple[int | str, ...]]
) -> tuple[Sequence[Row], str | None]:
    """The first `limit` of rows queried with one more, and the cursor of what follows."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], encode_cursor(*position(rows[limit - 1]))


def _unusable() -> Problem:
    return invalid("query.cursor", "not a cursor of this list; leave it out to start", "cursor")
