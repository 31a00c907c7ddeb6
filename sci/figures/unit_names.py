"""Names of functional units that many jobs count, and what a misspelt one most likely means.

A unit may have any name, so a name that is like a known one is remarked on, and still counts.
"""

from __future__ import annotations

from collections.abc import Iterable

KNOWN = (
    *("token", "image", "request", "sample", "step", "epoch", "second", "page", "job"),
    *("workflow", "inference", "character", "FLOP", "training token", "billion parameters"),
)
"""What SCI for AI names, and what else jobs usually count."""
LIKE = 0.8
"""How like a known name is to be meant, as difflib measures: "tokn" and "token" have 0.89."""


def close_units(name: str, known: Iterable[str] = ()) -> list[str]:
    """Return known units that a name most likely means; none for a known unit or its plural.

    `known` are those of the job beside those that many jobs count.
    """
    from difflib import get_close_matches

    own = tuple(known)
    names = {unit.casefold(): unit for unit in (*KNOWN, *own)}
    right = {*names.values(), *(f"{unit}s" for unit in names.values()), "flop", "flops"}
    if name in right:
        return []
    singular = name.casefold().removesuffix("s")
    for written in (name.casefold(), singular):
        if written in names:
            return [names[written]]
    return [names[match] for match in get_close_matches(name.casefold(), names, n=2, cutoff=LIKE)]


def misspelt(name: str) -> str:
    """Return what to say of a unit that is like a known one; "" for any other."""
    close = ", ".join(close_units(name))
    return f"{name!r} counts as a unit of its own; close matches: {close}" if close else ""
