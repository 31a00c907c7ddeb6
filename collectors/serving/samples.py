"""The samples in a text of Prometheus' exposition format (0.0.4), or in OpenMetrics.

Strict, and only those wanted; times and exemplars are not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from typing import NamedTuple

NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\\n]|\\.)*)"(?:,|(?=\}))')
_VALUE = re.compile(r"[ \t]+([^ \t]+)([ \t]+-?[\d.]+(?:[eE][-+]?\d+)?)?[ \t]*( # \{.*)?")
"""A value, its time (a float in OpenMetrics), and an exemplar of OpenMetrics."""
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"n": "\n"}


class Series(NamedTuple):
    """What identifies a sample: its name, and its labels in order of their names."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


def parse_samples(text: str, names: Container[str]) -> dict[Series, float]:
    """Return the values of the series with these names.

    Raises ValueError for a text without its last newline, which was cut off, and for a line of
    these that cannot be read. A value that is NaN, infinite or below zero is no count: such series
    are left out.
    """
    if text and not text.endswith("\n"):
        raise ValueError("the text ends within a line")
    values: dict[Series, float] = {}
    for line in text.split("\n"):
        match = NAME.match(line)
        if match is None or match[0] not in names:
            continue
        series, end = parse_series(line)
        value = _VALUE.fullmatch(line, end)
        number = float(value[1]) if value else math.nan
        if value is None:
            raise ValueError(f"no sample: {line[:80]!r}")
        if math.isfinite(number) and number >= 0:
            values[series] = number
    return values


def parse_series(line: str) -> tuple[Series, int]:
    """Return the series that a line begins with, and where it ends; raises ValueError."""
    name = NAME.match(line)
    if name is None:
        raise ValueError(f"no name of a metric: {line[:80]!r}")
    position = name.end()
    if line[position : position + 1] != "{":
        return Series(name[0]), position
    position += 1
    labels: dict[str, str] = {}
    while line[position : position + 1] != "}":
        label = _LABEL.match(line, position)
        if label is None or label[1] in labels:
            raise ValueError(f"no labels: {line[:80]!r}")
        labels[label[1]] = _ESCAPED.sub(lambda m: _MEANT.get(m[1], m[1]), label[2])
        position = label.end()
    return Series(name[0], tuple(sorted(labels.items()))), position + 1
