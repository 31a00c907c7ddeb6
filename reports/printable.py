"""Users' texts made printable: control codes and unpaired surrogates are replaced."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any

_DIRECTION = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that set the direction of the following text; a name must not reorder the report."""


def clean(text: str) -> str:
    """The text with a space for each control code and U+FFFD for each unpaired surrogate."""
    if text.isprintable():
        return text
    return "".join(map(_printable, text))


def cleaned(value: Any) -> Any:
    """A block, or nested tuples, lists and dicts, with every text in them cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return type(value)(cleaned(item) for item in value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: cleaned(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


def _printable(character: str) -> str:
    if character in _DIRECTION:
        return ""
    match unicodedata.category(character):
        case "Cs":  # surrogate
            return "\N{REPLACEMENT CHARACTER}"
        case "Cc":  # control code
            return " "
    return character
