"""JSON and built-in values as structs, from any thread.

msgspec learns a class at its first use, and lets other threads see what it has learnt so far: two
first uses at once end the process with a segmentation fault (msgspec 0.22). So classes are learnt
here alone, one at a time.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_LEARNING = Lock()
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return what reads JSON as a type."""
    learnt = _DECODERS.get(kind)
    if learnt is None:
        with _LEARNING:
            learnt = _DECODERS.setdefault(kind, msgspec.json.Decoder(kind))
    return learnt


def decode(text: str | bytes, kind: type[T]) -> T:
    """Return JSON as a type; raises msgspec.DecodeError, and ValidationError for another type."""
    value: T = decoder(kind).decode(text)
    return value


def convert(data: Any, kind: type[T], *, strict: bool = True) -> T:
    """Return built-in values as a type; raises msgspec.ValidationError.

    What is not strict may be text: `"1"` is then a number.
    """
    decoder(kind)
    return msgspec.convert(data, kind, strict=strict)
