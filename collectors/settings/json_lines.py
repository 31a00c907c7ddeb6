"""Messages between our processes as lines of JSON. Standard library only: the client sends them."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def encoded(message: Mapping[str, Any]) -> bytes:
    """Return the message as one line."""
    text = json.dumps(message, separators=(",", ":"), default=str)
    return text.encode("utf-8", "replace") + b"\n"


def decoded(line: bytes) -> dict[str, Any]:
    """Return the message of a line; empty for what is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
