"""Checks of the fields of journal lines: each returns the value, or raises ValueError."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

_GREATEST = sys.float_info.max


def number(
    least: float = -_GREATEST, most: float = _GREATEST, *, above: bool = False
) -> Callable[[Any], float]:
    """Return the check of a number from `least` to `most`; `above` zero leaves out zero itself."""

    def check(value: Any) -> float:
        if type(value) is float and least < value <= most:  # what meters send, without a call
            return value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise ValueError(f"not a finite number: {str(value)[:40]!r}")
        if above and value <= 0:
            raise ValueError(f"must be above zero: {float(value)}")
        if least == 0 and value < 0:
            raise ValueError(f"cannot be negative: {float(value)}")
        if abs(value) > most:
            raise ValueError(f"must be at most {most:g}: {value:g}")
        return float(value)

    return check


def whole(value: Any) -> int:
    """Return a whole number that a float holds too."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**53:
        raise ValueError(f"not a whole number: {str(value)[:40]!r}")
    return value


def sequence(value: Any) -> int:
    """Return a whole number from 1 on."""
    found = value if type(value) is int and value < 2**53 else whole(value)
    if found < 1:
        raise ValueError(f"a sequence number starts at 1: {found}")
    return found


def one_of(*allowed: str) -> Callable[[Any], str]:
    """Return the check of a text that is one of `allowed`."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(allowed)}")
        return str(value)

    return check


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError("not true or false")
    return value
