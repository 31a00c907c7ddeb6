"""Users' texts made printable: control codes and unpaired surrogates are replaced."""

from __future__ import annotations

import unicodedata

_DIRECTION = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that set the direction of the following text; a name must not reorder the report."""


def clean(text: str) -> str:
    """Return the text with a space for each control code and U+FFFD for each unpaired surrogate."""
    if text.isprintable():
        return text
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character in _DIRECTION:
        return ""
    match unicodedata.category(character):
        case "Cs":  # surrogate
            return "\N{REPLACEMENT CHARACTER}"
        case "Cc":  # control code
            return " "
    return character
