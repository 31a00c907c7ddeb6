"""Users' texts as blocks of a report, and in files' names."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import Any

from gramwatt.sci.figures.printable import ISOLATE, POP_ISOLATE, clean

FILE_NAME_MOST = 40
"""Characters of a text in a file's name; file systems take 255 bytes in all."""
ISOLATED = re.compile(f"{ISOLATE}([^{ISOLATE}{POP_ISOLATE}]*){POP_ISOLATE}")
"""A name that `isolated` keeps from moving what stands beside it."""


def file_name(text: str, *, distinct: bool = False) -> str:
    """Return the text as a part of a file's name: letters, digits and `-_.`, other signs as `_`.

    A long text is cut and marked by a digest; with `distinct` every text that is changed is, so
    that no two have the same name.
    """
    whole = "".join(c if c.isalnum() or c in "-_." else "_" for c in text)
    name = whole[:FILE_NAME_MOST].lstrip(".") or "_"
    if name == text or (name == whole and not distinct):
        return name
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def cleaned(value: Any) -> Any:
    """Return a block, or nested tuples, lists and dicts, with every text in them cleaned."""
    if isinstance(value, str):
        return "".join(
            part if n % 2 == 0 else f"{ISOLATE}{part}{POP_ISOLATE}"
            for n, part in enumerate(map(clean, ISOLATED.split(value)))
        )
    if isinstance(value, list | tuple):
        return type(value)(cleaned(item) for item in value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: cleaned(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value
