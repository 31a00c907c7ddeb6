"""Users' texts made printable: without control codes, and inert beside figures in a sentence."""

from __future__ import annotations

import re
import unicodedata

_DIRECTION = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that set the direction of the following text; a name must not reorder the report."""
ISOLATE, POP_ISOLATE = "\u2068", "\u2069"
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
"""Classes of characters that are written from right to left, and order the digits after them."""


_LETTER = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
_WORDS = re.compile(f"{_LETTER}+(?:[ _.-]{_LETTER}+)*")
"""Letters of the blocks that are written from right to left, in one or several words."""


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


def on_terminal(line: str) -> str:
    """Return a line as a terminal may show it, whoever wrote what stands in it.

    No text can begin a line of its own, send a code to the terminal, or move what stands beside it:
    words that are written from right to left are isolated.
    """
    line = clean(line)
    return line if line.isascii() else _WORDS.sub(f"{ISOLATE}\\g<0>{POP_ISOLATE}", line)


def isolated(name: str) -> str:
    """Return a name as it stands in a sentence: clean, and isolated where it has letters that are
    written from right to left, so that they do not move the figures beside it (Unicode annex 9).
    """
    name = clean(name)
    if name.isascii() or _RIGHT_TO_LEFT.isdisjoint(map(unicodedata.bidirectional, name)):
        return name
    return f"{ISOLATE}{name}{POP_ISOLATE}"
