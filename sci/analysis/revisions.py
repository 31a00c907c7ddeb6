"""Why a revision of a score differs from the one before: by how much, and which inputs changed."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, TypedDict

from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.formatting import count_text, number, plain, prefix
from gramwatt.sci.base.quantity import QuantityDoc

NAMED_MOST = 8
"""Changed inputs that the sentence names; the rest it counts."""
_SYMBOLS = ("TE, ", "RR/ToR, ", "EL, ", "TiR, ")
LEAST_SHARE = 0.01
"""Below this share of the energy a change of the intensity's quality is not named."""
_ALIKE = re.compile(r"(.+) \((\d+) alike\)")
_QUALITY = "quality of intensity, "
_GRID = "carbon intensity of the grid"


class ChangedInputDoc(TypedDict):
    """An input that differs between two revisions; None on the side that has no such input."""

    what: str
    before: QuantityDoc | str | None
    after: QuantityDoc | str | None


class RevisionChangeDoc(TypedDict):
    """The step from the revision before: the total's relative change, the inputs, and a sentence.

    `total_change` is after / before - 1; None where a total is not known, or was 0.
    """

    total_change: float | None
    inputs: list[ChangedInputDoc]
    text: str


def revision_change(before: JobDoc, after: JobDoc) -> RevisionChangeDoc:
    """What changed from one document of a job to a later one."""
    inputs = [
        *_declared(before, after),
        *_knowledge(before, after),
        *_versions(before, after),
        *_figures(before, after),
        *_different("status", _status(before), _status(after)),
    ]
    change = _total_change(before["total_g"], after["total_g"])
    head = _total_text(before["total_g"], after["total_g"], change)
    named = [_input_text(row) for row in inputs[:NAMED_MOST]]
    if len(inputs) > NAMED_MOST:
        named.append(f"{len(inputs) - NAMED_MOST} more inputs")
    return {
        "total_change": change,
        "inputs": inputs,
        "text": f"{head}: {'; '.join(named) or 'no input of the score changed'}",
    }


def _total_change(before: QuantityDoc | None, after: QuantityDoc | None) -> float | None:
    if before is None or after is None or before["value"] == 0:
        return None
    return after["value"] / before["value"] - 1


def _total_text(before: QuantityDoc | None, after: QuantityDoc | None, change: float | None) -> str:
    if change is not None:
        return "total unchanged" if abs(change) < 1e-9 else _percent(change)
    if before is None and after is None:
        return "total not known"
    if before is None:
        return "total now known"
    return "total no longer known" if after is None else "total was 0"


def _percent(change: float) -> str:
    percent = 100 * change
    if abs(percent) < 0.1:
        return f"{percent:+.2g} %"
    return f"{percent:+.0f} %" if abs(percent) >= 100 else f"{percent:+.1f} %"


def _declared(before: JobDoc, after: JobDoc) -> Iterator[ChangedInputDoc]:
    """What people declared since, and where the job ran."""
    rows = after["corrections"][len(before["corrections"]) :]
    for row in rows:
        yield _row(f"declared {row['field']}", _shown_value(row["old"]), _shown_value(row["value"]))
    yield from _different("state", before["state"], after["state"])
    if not any(row["field"] == "zone" for row in rows):
        yield from _different("zone", before["zone"], after["zone"])


def _status(document: JobDoc) -> str:
    return "provisional" if document["provisional"] else "final"


def _knowledge(before: JobDoc, after: JobDoc) -> Iterator[ChangedInputDoc]:
    """How well the grid's intensity is known: what most energy gained, and what it lost."""
    old, new = (side["data_quality"]["intensity"] for side in (before, after))
    gained = {name: new.get(name, 0.0) - old.get(name, 0.0) for name in (*old, *new)}
    if gained and max(gained.values()) > LEAST_SHARE and before["zone"] == after["zone"]:
        lost, won = min(gained, key=gained.__getitem__), max(gained, key=gained.__getitem__)
        zones = ", ".join(after["method"]["zones"])
        yield _row(f"{_QUALITY}{zones}", lost, won)


def _versions(before: JobDoc, after: JobDoc) -> Iterator[ChangedInputDoc]:
    for name in ("engine", "catalog"):
        one: Mapping[str, Any] = before["method"]
        other: Mapping[str, Any] = after["method"]
        yield from _different(name, one[f"{name}_version"], other[f"{name}_version"])
    zones = [side["method"].get("time_zone", "UTC") for side in (before, after)]
    yield from _different("days of", *zones)


def _figures(before: JobDoc, after: JobDoc) -> Iterator[ChangedInputDoc]:
    """Input figures that differ, and counts of units; of one name, equal ones are left out first.

    So a device or node that was added is one row, and not a shift of all that stand behind it.
    """
    sides = [_by_name(before), _by_name(after)]
    for what in dict.fromkeys([*sides[0], *sides[1]]):
        old, new = (Counter(side[what]) for side in sides)
        pairs = Counter(zip_longest((old - new).elements(), (new - old).elements()))
        for (one, other), n in pairs.items():
            name = f"{what} ({n} alike)" if n > 1 else what
            yield _row(name, *(figure.doc if figure else None for figure in (one, other)))
    counts = [{row["unit"]: row["count"] for row in side["sci"]} for side in (before, after)]
    for unit in dict.fromkeys([*counts[0], *counts[1]]):
        texts = [count_text(found[unit]) if unit in found else None for found in counts]
        yield from _different(f"R in {unit}", *texts)


class _Figure:
    """A figure that equals another whose numbers are the same but for the rounding of sums."""

    def __init__(self, doc: QuantityDoc) -> None:
        numbers = (doc["value"], doc["low"], doc["high"])
        self.doc = doc
        self._key = (*map(_rounded, numbers), doc["unit"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Figure) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _by_name(document: JobDoc) -> dict[str, list[_Figure]]:
    found: dict[str, list[_Figure]] = defaultdict(list)
    for row in document["method"]["inputs"]:
        alike = _ALIKE.fullmatch(row["what"])
        what, n = (alike[1], int(alike[2])) if alike else (row["what"], 1)
        found[what] += n * [_Figure(row["figure"])]
    return found


def _different(what: str, before: str | None, after: str | None) -> Iterator[ChangedInputDoc]:
    if before != after:
        yield _row(what, before, after)


def _row(
    what: str, before: QuantityDoc | str | None, after: QuantityDoc | str | None
) -> ChangedInputDoc:
    return {"what": what, "before": before, "after": after}


def _shown_value(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _input_text(row: ChangedInputDoc) -> str:
    if row["what"].startswith(_QUALITY):
        return f"{row['what'].removeprefix(_QUALITY)} {row['after']} instead of {row['before']}"
    what = "intensity" if row["what"] == _GRID else row["what"]
    for symbol in _SYMBOLS:
        what = what.removeprefix(symbol)
    before, after = row["before"], row["after"]
    if isinstance(before, dict) and isinstance(after, dict) and before["unit"] == after["unit"]:
        if _rounded(before["value"]) == _rounded(after["value"]):
            old, new = (_range(side) for side in (before, after))
            return f"range of {what} {old} -> {new}"
        return f"{what} {_step(before['value'], after['value'], before['unit'])}"
    return f"{what} {_side(before)} -> {_side(after)}"


def _side(side: QuantityDoc | str | None) -> str:
    if side is None:
        return "none"
    return side if isinstance(side, str) else _value(side)


def _value(figure: QuantityDoc) -> str:
    size, name = prefix(abs(figure["value"]), figure["unit"])
    return f"{_digits(figure['value'] / size, 4)} {_short(name)}".rstrip()


def _range(figure: QuantityDoc) -> str:
    size, name = prefix(abs(figure["value"]), figure["unit"])
    low, high = (_digits(end / size, 4) for end in (figure["low"], figure["high"]))
    return f"{low} to {high} {_short(name)}".rstrip()


def _step(before: float, after: float, unit: str) -> str:
    """Both values in one unit, with as many digits as tell them apart."""
    size, name = prefix(max(abs(before), abs(after)), unit)
    for digits in (3, 4, 6, 9, 17):
        one, other = (_digits(value / size, digits) for value in (before, after))
        if one != other:
            break
    return f"{one} -> {other} {_short(name)}".rstrip()


def _digits(value: float, digits: int) -> str:
    text = plain(number(value, digits))
    return text.rstrip("0").rstrip(".") if "." in text else text


def _short(unit: str) -> str:
    return plain(unit).replace("gCO2e/", "g/").replace(" CO2e", "")
