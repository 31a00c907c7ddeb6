"""Look-up of hardware by name: which names are the same, and which are ambiguous.

Two names are the same when they differ only in case, spaces, punctuation, trademark signs, a
leading vendor or product-line word, a last "GPU" or "Tensor Core GPU", or (CPUs) in the clock and
core count that Linux appends. No other name matches: a misspelt one raises with close matches, and
one that is a part of several longer names ("A100") raises with the choices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from gramwatt.sci.base.errors import AmbiguousName, LookupFailed

Row = TypeVar("Row")
CLOSE_MATCHES = 5
CUTOFF = 0.6
"""Least similarity of a close match, the default of difflib."""
VENDORS = frozenset(
    {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "intel", "habana"}
    | {"google", "aws", "amazon", "apple", "qualcomm", "microsoft", "meta"}
    | {"cerebras", "sambanova"}
)
"""Words that may precede a name without changing it."""
_TAILS = (("tensor", "core", "gpu"), ("tensor", "core"), ("gpu",), ("gpus",))
"""Words that may follow a name without changing it, longest first."""
_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]", re.IGNORECASE)
_CPU_TAIL = re.compile(r"@.*$|\b(?:cpu|processor|\d+-core)\b", re.IGNORECASE)
_LOOKALIKES = str.maketrans("oil", "011")
"""Letters typed for digits; applied to both sides of a comparison, so that no name is lost."""
_MODEL = re.compile(r"([a-z]+)(\d{1,6})[a-z]*")
"""A model's letters and number, as in "l40s"."""
_WORD = re.compile(r"[a-z0-9]+|\+")


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without marks, leading vendors and a last "GPU"."""
    found = all_words(name)
    while len(found) > 1 and found[0] in VENDORS:
        found = found[1:]
    for tail in _TAILS:
        if len(found) > len(tail) and found[-len(tail) :] == tail:
            return found[: -len(tail)]
    return found


def all_words(name: str) -> tuple[str, ...]:
    """Return every word of a name in lower case, without marks."""
    found = _WORD.findall(_MARKS.sub(" ", name).lower())
    return tuple("plus" if word == "+" else word for word in found)


def key(name: str) -> str:
    """Return the key of a name; names with the same key are the same name."""
    return "".join(words(name))


def cpu_name(name: str) -> str:
    """Return a CPU's name without the clock and core count that Linux appends to it."""
    return _CPU_TAIL.sub(" ", name)


class NameIndex:
    """Ids by all their names; `what` is the kind of thing in error messages."""

    def __init__(
        self,
        what: str,
        named: Iterable[tuple[str, str]],
        groups: Iterable[tuple[str, str]] = (),
        simplify: Callable[[str], str] = str,
        shared: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Index (name, id) pairs, each name simplified first.

        `groups` pairs ids with a name that several share, such as an architecture; `shared` with a
        name that is always ambiguous, such as "RTX 6000", the name of three generations. Raises
        ValueError when one name stands for two ids.
        """
        self._what = what
        self._simplify = simplify
        self._ids: dict[str, str] = {}
        self._words: dict[str, list[tuple[str, ...]]] = {}
        self._whole: dict[str, str] = {}
        self._shared: dict[str, list[str]] = {}
        for name, row_id in shared:
            self._shared.setdefault(key(name), []).append(row_id)
        for name, row_id in named:
            plain = simplify(name)
            self._whole.setdefault("".join(all_words(plain)), row_id)
            if self._ids.setdefault(key(plain), row_id) != row_id:
                raise ValueError(f"{what} name {name!r} stands for two ids")
            self._words.setdefault(row_id, []).append(words(plain))
        for name, row_id in groups:
            self._words.setdefault(row_id, []).append(words(name))

    def find(self, name: str) -> str:
        """Return the id of a name; raises AmbiguousName with the choices, or LookupFailed."""
        plain = self._simplify(name)
        found = self._whole.get("".join(all_words(plain)))
        if found is None and key(plain) in self._shared:
            raise AmbiguousName(self._what, name, self._shared[key(plain)])
        found = found or self._ids.get(key(plain))
        if found is not None:
            return found
        longer = self._longer(words(plain))
        if len(longer) > 1:
            raise AmbiguousName(self._what, name, longer)
        close = dict.fromkeys((*longer, *self._misread(plain), *self._close(plain)))
        raise LookupFailed(self._what, name, tuple(close)[:CLOSE_MATCHES])

    def _longer(self, part: Sequence[str]) -> list[str]:
        """Return ids with a name that has these words in this order, others between or not."""
        return [
            row_id
            for row_id, names in self._words.items()
            if part and any(_holds(full, part) for full in names)
        ]

    def _close(self, name: str) -> list[str]:
        # Imported here because a known name, the usual case, does not need it.
        from difflib import get_close_matches

        near = get_close_matches(key(name), self._ids, n=2 * CLOSE_MATCHES, cutoff=CUTOFF)
        found = [self._ids[found] for found in near]
        return list(dict.fromkeys((*found, *self._siblings(name))))[:CLOSE_MATCHES]

    def _misread(self, name: str) -> list[str]:
        """Return ids of the name with letters read as digits: "H1OO", "L4O"."""
        asked = [word.translate(_LOOKALIKES) for word in words(name)]
        folded = (
            (row_id, [word.translate(_LOOKALIKES) for word in full])
            for row_id, names in self._words.items()
            for full in names
        )
        return list(
            dict.fromkeys(row_id for row_id, full in folded if asked and _holds(full, asked))
        )

    def _siblings(self, name: str) -> list[str]:
        """Return ids with the same letters and another number, nearest first: "L4" for "L5"."""
        asked = next((found for word in words(name) if (found := _MODEL.fullmatch(word))), None)
        if asked is None:
            return []
        near = {
            (abs(int(model[2]) - int(asked[2])), word, row_id)
            for row_id, names in self._words.items()
            for full in names
            for word in full
            if (model := _MODEL.fullmatch(word)) and model[1] == asked[1]
        }
        return [row_id for _, _, row_id in sorted(near)]


def _holds(full: Sequence[str], part: Sequence[str]) -> bool:
    rest = iter(full)
    return all(word in rest for word in part)


def close_names(name: str, near: Mapping[str, str]) -> list[str]:
    """Return ids of the names most similar to a name, best first; `near` has the ids by name."""
    from difflib import get_close_matches

    found = get_close_matches(name, near, n=2 * CLOSE_MATCHES)
    return list(dict.fromkeys(near[key] for key in found))[:CLOSE_MATCHES]


def find_matches(find: Callable[[str], Row], name: str) -> tuple[list[Row], str | None]:
    """Return what a name means by the look-up `find`: one row, or all of an ambiguous name.

    For a name of another kind, such as a service, the rows it runs on and the reason. Raises
    LookupFailed for a name that means nothing.
    """
    try:
        return [find(name)], None
    except AmbiguousName as error:
        return [find(choice) for choice in error.choices], error.reason
    except LookupFailed as error:
        if error.reason is None or not error.close:
            raise
        return [find(one) for one in error.close], error.reason
