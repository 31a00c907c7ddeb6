"""Why a revision of a score differs from the one before: by how much, and which inputs changed."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from msgspec import Struct

from gramwatt.sci.figures.document import InputDoc, JobDoc
from gramwatt.sci.figures.formatting import count_text, number, plain, prefix
from gramwatt.sci.figures.quantity import Quantity

NAMED_MOST = 8
"""Changed inputs that the sentence names; the rest it counts."""
LEAST_SHARE = 0.01
"""Below this share of the energy a change of the intensity's quality is not named."""
NAMES = {
    "E": "energy",
    "I": "intensity",
    "PUE": "PUE",
    "TE": "embodied carbon",
    "RR/ToR": "share",
    "EL": "expected lifetime",
    "TiR": "time reserved",
}
"""How the sentence names inputs, by their symbol in the formula."""


class ChangedInputDoc(Struct):
    """An input that differs between two revisions; None on the side that has no such input."""

    what: str
    before: Quantity | str | None
    after: Quantity | str | None


class _Changed(NamedTuple):
    """An input that differs, and what the sentence says of it."""

    doc: ChangedInputDoc
    text: str


class RevisionChangeDoc(Struct):
    """The step from the revision before: the total's relative change, the inputs, and a sentence.

    `total_change` is after / before - 1; None where a total is not known, or was 0.
    """

    total_change: float | None
    inputs: list[ChangedInputDoc]
    text: str


def revision_change(before: JobDoc, after: JobDoc) -> RevisionChangeDoc:
    """Return what changed from one document of a job to a later one."""
    changed = [
        *_declared(before, after),
        *_quality(before, after),
        *_versions(before, after),
        *_figures(before, after),
        *_different("status", _status(before), _status(after)),
    ]
    change = _total_change(before.total_g, after.total_g)
    head = _total_text(before.total_g, after.total_g, change)
    named = [row.text for row in changed[:NAMED_MOST]]
    if len(changed) > NAMED_MOST:
        named.append(f"{len(changed) - NAMED_MOST} more inputs")
    return RevisionChangeDoc(
        total_change=change,
        inputs=[row.doc for row in changed],
        text=f"{head}: {'; '.join(named) or 'no input of the score changed'}",
    )


def _total_change(before: Quantity | None, after: Quantity | None) -> float | None:
    if before is None or after is None or before.value == 0:
        return None
    return after.value / before.value - 1


def _total_text(before: Quantity | None, after: Quantity | None, change: float | None) -> str:
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


def _declared(before: JobDoc, after: JobDoc) -> Iterator[_Changed]:
    """Yield what people declared since, and where the job ran."""
    rows = after.corrections[len(before.corrections) :]
    for row in rows:
        yield from _different(
            f"declared {row.field}", _shown_value(row.old), _shown_value(row.value)
        )
    yield from _different("state", before.state, after.state)
    if not any(row.field == "zone" for row in rows):
        yield from _different("zone", before.zone, after.zone)


def _status(document: JobDoc) -> str:
    return "provisional" if document.provisional else "final"


def _quality(before: JobDoc, after: JobDoc) -> Iterator[_Changed]:
    """Yield how well the grid's intensity is known: what most energy gained, and what it lost."""
    old, new = (side.data_quality.intensity for side in (before, after))
    gained = {name: new.get(name, 0.0) - old.get(name, 0.0) for name in (*old, *new)}
    if gained and max(gained.values()) > LEAST_SHARE and before.zone == after.zone:
        lost, won = min(gained, key=gained.__getitem__), max(gained, key=gained.__getitem__)
        zones = ", ".join(after.method.zones)
        doc = _row(f"quality of intensity, {zones}", lost, won)
        yield _Changed(doc, f"{zones} {won} instead of {lost}")


def _versions(before: JobDoc, after: JobDoc) -> Iterator[_Changed]:
    one, other = before.method, after.method
    yield from _different("engine", one.engine_version, other.engine_version)
    yield from _different("catalog", one.catalog_version, other.catalog_version)
    yield from _different("days of", one.time_zone, other.time_zone)


def _figures(before: JobDoc, after: JobDoc) -> Iterator[_Changed]:
    """Yield input figures that differ, and counts of units; of one input, equal ones cancel first.

    So a device or node that was added is one row, and not a shift of all that stand behind it.
    """
    sides = [_by_name(before), _by_name(after)]
    rows = (*before.method.inputs, *after.method.inputs)
    for name, short in {row.name: _short(row) for row in rows}.items():
        old, new = (Counter(side[name]) for side in sides)
        pairs = Counter(zip_longest((old - new).elements(), (new - old).elements()))
        for pair, n in pairs.items():
            one, other = (figure.doc if figure else None for figure in pair)
            alike = f" ({n} alike)" if n > 1 else ""
            doc = _row(f"{name}{alike}", one, other)
            yield _Changed(doc, _figure_text(f"{short}{alike}", one, other))
    counts = [{row.unit: row.count for row in side.sci} for side in (before, after)]
    for unit in dict.fromkeys([*counts[0], *counts[1]]):
        texts = [count_text(found[unit]) if unit in found else None for found in counts]
        yield from _different(f"R in {unit}", *texts)


def _short(row: InputDoc) -> str:
    """Return how the sentence names an input; former releases did not state its symbol."""
    name = NAMES.get(row.symbol)
    if name is None:
        return row.name
    return f"{name} of {row.of}" if row.of else name


class _Figure:
    """A figure that equals another whose numbers are the same but for the rounding of sums."""

    def __init__(self, doc: Quantity) -> None:
        numbers = (doc.value, doc.low, doc.high)
        self.doc = doc
        self._key = (*map(_rounded, numbers), doc.unit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Figure) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _by_name(document: JobDoc) -> dict[str, list[_Figure]]:
    figures: dict[str, list[_Figure]] = defaultdict(list)
    for row in document.method.inputs:
        figures[row.name] += row.count * [_Figure(row.figure)]
    return figures


def _different(what: str, before: str | None, after: str | None) -> Iterator[_Changed]:
    if before != after:
        yield _Changed(_row(what, before, after), f"{what} {before or 'none'} -> {after or 'none'}")


def _row(what: str, before: Quantity | str | None, after: Quantity | str | None) -> ChangedInputDoc:
    return ChangedInputDoc(what=what, before=before, after=after)


def _shown_value(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _figure_text(name: str, before: Quantity | None, after: Quantity | None) -> str:
    if before and after and before.unit == after.unit:
        if _rounded(before.value) == _rounded(after.value):
            return f"range of {name} {_range(before)} -> {_range(after)}"
        return f"{name} {_step(before.value, after.value, before.unit)}"
    old, new = (_value(side) if side else "none" for side in (before, after))
    return f"{name} {old} -> {new}"


def _value(figure: Quantity) -> str:
    size, name = prefix(abs(figure.value), figure.unit)
    return f"{_digits(figure.value / size, 4)} {_short_unit(name)}".rstrip()


def _range(figure: Quantity) -> str:
    size, name = prefix(abs(figure.value), figure.unit)
    low, high = (_digits(end / size, 4) for end in (figure.low, figure.high))
    return f"{low} to {high} {_short_unit(name)}".rstrip()


def _step(before: float, after: float, unit: str) -> str:
    """Return both values in one unit, with as many digits as tell them apart."""
    size, name = prefix(max(abs(before), abs(after)), unit)
    for digits in (3, 4, 6, 9, 17):
        one, other = (_digits(value / size, digits) for value in (before, after))
        if one != other:
            break
    return f"{one} -> {other} {_short_unit(name)}".rstrip()


def _digits(value: float, digits: int) -> str:
    text = plain(number(value, digits))
    return text.rstrip("0").rstrip(".") if "." in text else text


def _short_unit(unit: str) -> str:
    return plain(unit).replace("gCO2e/", "g/").replace(" CO2e", "")
