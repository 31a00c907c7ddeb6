"""Cursors: where the next page of a list starts, as an opaque text.

A page ends at `limit` entries. Its cursor is the position of the last one; a cursor of None is the
only sign of the end.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, TypeVar

from gramwatt.service.common.errors import CursorError

Row = TypeVar("Row")
Position = int | float | str | None
MAYBE_INT, MAYBE_FLOAT = (int, NoneType), (float, NoneType)
"""Kinds of a position in a column that may be unknown."""
_LARGEST = 2**63 - 1
"""The largest number that a column of either database holds."""


def encode_cursor(*position: Position) -> str:
    """Return the position after which the next page starts, as an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode_cursor(text: str, *kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Return the position in a cursor; raises CursorError when it is not one of this list's."""
    try:
        padded = text + "=" * (-len(text) % 4)
        position = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        position = None
    if (
        not isinstance(position, list)
        or len(position) != len(kinds)
        or not all(_is_of(part, kind) for part, kind in zip(position, kinds, strict=True))
    ):
        raise CursorError("not a cursor of this list; leave it out to start")
    return tuple(position)


def cut(
    rows: Sequence[Row], limit: int, position: Callable[[Row], tuple[Position, ...]]
) -> tuple[Sequence[Row], str | None]:
    """Return the first `limit` of rows queried with one more, and the cursor of what follows."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], encode_cursor(*position(rows[limit - 1]))


def _is_of(part: object, kind: type | tuple[type, ...]) -> bool:
    """Return whether a part of a position has exactly the type, and a column can hold it."""
    if type(part) not in (kind if isinstance(kind, tuple) else (kind,)):
        return False
    if isinstance(part, float):
        return math.isfinite(part)
    return not isinstance(part, int) or abs(part) <= _LARGEST
