"""Texts of users made fit to print: no control codes, no half characters, nothing else changed."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any

_UNFIT = ("Cc", "Cs")
"""Unicode categories of control codes and of surrogates, which no encoding can hold."""
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that turn the direction of what follows: a name must not reorder the report around it."""


def clean(text: str) -> str:
    """`text` with a space for each control code and a replacement mark for what is no character."""
    if text.isprintable():
        return text
    return "".join(map(_fit, text))


def cleaned(value: Any) -> Any:
    """A block, or any nest of tuples, lists and dicts, with every text in it cleaned."""
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


def _fit(character: str) -> str:
    if character in _TURNS:
        return ""
    category = unicodedata.category(character)
    if category == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    return " " if category in _UNFIT else character
