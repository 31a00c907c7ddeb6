"""The figures of a form that another release wrote, compared with those of this one."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

READERS: Mapping[str, Callable[[str], Any]] = {
    "json": json.loads,
    "yml": yaml.safe_load,
    "csv": lambda text: list(csv.reader(io.StringIO(text))),
    "md": lambda text: next(yaml.safe_load_all(text)) if text.startswith("---") else None,
}
"""What reads a form as data, by the end of its name: of a model card, what precedes the text."""
SAME = 1e-9
"""Figures that differ by less, relative to them, are equal: libraries of mathematics differ in the
last digits, and so do sums in another order."""


def contradictions(name: str, stated: bytes, found: bytes) -> Iterator[tuple[str, Any, Any]]:
    """Yield the figures that a form and the same one made here both have, with other values.

    Texts, fields that one of them lacks, and lists of another length are a release's own; prose is
    not compared.
    """
    read = READERS.get(name.rpartition(".")[2])
    if read is None:
        return
    try:
        before = read(stated.decode())
    except (ValueError, RecursionError, yaml.YAMLError, csv.Error):
        before = "no readable data"
        yield "the form", before, "readable data"
    yield from _compared(before, read(found.decode()), "")


def _compared(stated: Any, found: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(stated, dict) and isinstance(found, dict):
        for name in [name for name in found if name in stated]:
            yield from _compared(stated[name], found[name], f"{path}.{name}" if path else str(name))
    elif isinstance(stated, list) and isinstance(found, list):
        if len(stated) == len(found):
            for number, pair in enumerate(zip(stated, found, strict=True)):
                yield from _compared(*pair, f"{path}.{number}" if path else str(number))
    else:
        one, other = _number(stated), _number(found)
        if one is not None and other is not None and not math.isclose(one, other, rel_tol=SAME):
            yield path, stated, found


def _number(value: Any) -> float | None:
    """Return the number that a value is or spells; None for any other."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
