"""Fields of request documents: one rule a field, which command, route and engine share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from gramwatt.sci.base.errors import ScoreError

LARGEST = 1e30
"""Above every amount that means anything."""
TEXT_MOST = 200
"""Characters of the longest text."""


class Rule(Protocol):
    """What a field may hold."""

    def check(self, value: Any) -> Any:
        """Return the value as requests hold it; raises ValueError saying what is wrong with it."""


class Request(Protocol):
    """A frozen dataclass whose fields are made by `ruled`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


R = TypeVar("R", bound=Request)


@dataclass(frozen=True, slots=True)
class Text:
    """A text of 1 to 200 characters."""

    def check(self, value: Any) -> str:
        """Return the text."""
        if not isinstance(value, str) or not value.strip() or len(value) > TEXT_MOST:
            raise ValueError(f"not a text of 1 to {TEXT_MOST} characters")
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number above `low`, or from it on, to `high`."""

    low: float = 0
    high: float = LARGEST
    low_included: bool = False
    whole: bool = False

    def check(self, value: Any) -> float:
        """Return the number as a float."""
        if not _is_finite(value):
            raise ValueError(f"not a finite number: {_cut(value)}")
        if value < self.low or (value == self.low and not self.low_included):
            raise ValueError(
                f"{value:g} is {'below' if self.low_included else 'not above'} {self.low:g}"
            )
        if value > self.high:
            hint = ": a share from 0 to 1, not per cent" if self == SHARE else ""
            raise ValueError(f"{value:g} is above {self.high:g}{hint}")
        if self.whole and value != int(value):
            raise ValueError(f"{value:g} is not a whole number")
        return float(value)


class Span(NamedTuple):
    """A figure with the ends of its range."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float | None) -> Span | None:
        """Return a figure without a range; None for None."""
        return None if value is None else cls(value, value, value)


@dataclass(frozen=True, slots=True)
class Ranged:
    """A number, or an object of `low`, `value` and `high` in that order, each as `number` says."""

    number: Number

    def check(self, value: Any) -> Span:
        """Return the number with its range, which is the number itself where none is given."""
        if not isinstance(value, dict):
            return Span(*3 * (self.number.check(value),))
        if set(value) != set(Span._fields):
            raise ValueError("not a number or an object of low, value and high")
        span = Span(**{name: self.number.check(end) for name, end in value.items()})
        if not span.low <= span.value <= span.high:
            raise ValueError("low, value and high must rise in that order")
        return span


AMOUNT = Number()
SHARE = Number(high=1, low_included=True)
YEARS = Number(high=50)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words."""

    choices: tuple[str, ...]

    def check(self, value: Any) -> str:
        """Return the word."""
        if value not in self.choices:
            raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(self.choices)}")
        return str(value)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def check(self, value: Any) -> bool:
        """Return the value."""
        if not isinstance(value, bool):
            raise ValueError("not true or false")
        return value


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of functional units, each above 0."""

    def check(self, value: Any) -> dict[str, float]:
        """Return the counts by unit."""
        if not isinstance(value, dict):
            raise ValueError("not an object of unit: count")
        return {Text().check(unit): AMOUNT.check(count) for unit, count in value.items()}


@dataclass(frozen=True, slots=True)
class Names:
    """A list of at most `most` names."""

    most: int

    def check(self, value: Any) -> tuple[str, ...]:
        """Return the names."""
        if not isinstance(value, list | tuple):
            raise ValueError("not a list of names")
        if len(value) > self.most:
            raise ValueError(f"more than {self.most} names")
        return tuple(Text().check(name) for name in value)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A list of at most `most` numbers, each as `number` says."""

    number: Number
    most: int

    def check(self, value: Any) -> tuple[float, ...]:
        """Return the numbers."""
        if not isinstance(value, list | tuple):
            raise ValueError("not a list of numbers")
        if len(value) > self.most:
            raise ValueError(f"more than {self.most} numbers")
        return tuple(self.number.check(item) for item in value)


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment as ISO 8601 with its offset from UTC, such as 2026-05-01T08:00Z."""

    def check(self, value: Any) -> datetime:
        """Return the moment in UTC."""
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise ValueError(f"not a time like 2026-05-01T08:00Z: {_cut(value)}") from None
        if moment.tzinfo is None:
            written = moment.isoformat(timespec="minutes")
            raise ValueError(f"a time without its offset from UTC; write {written}Z")
        # As in a journal; years around it would leave what dates can say.
        if not 2000 <= moment.year <= 2199:
            raise ValueError(f"outside the years 2000 to 2199: {_cut(value)}")
        return moment.astimezone(UTC)


class RepeatedName(ValueError):
    """An object that names a field twice: it has no one meaning."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON's (name, value) pairs; raises RepeatedName for a name twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedName(f"the field {name[:40]!r} is given more than once")
        found[name] = value
    return found


def _is_finite(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


def _cut(value: Any) -> str:
    """Return a value as text for a message, cut short; some integers are too long to print."""
    try:
        return repr(str(value)[:40])
    except ValueError:
        return "a number of thousands of digits"


def ruled(rule: Rule, **default: Any) -> Any:
    """Return a dataclass field with its rule; its default is None unless given."""
    return dataclasses.field(metadata={"rule": rule}, **(default or {"default": None}))


def rules(kind: type[Request]) -> Mapping[str, Rule]:
    """Return the rule of each field of a request, by name."""
    return {field.name: field.metadata["rule"] for field in dataclasses.fields(kind)}


def parse(kind: type[R], document: Mapping[str, Any]) -> R:
    """Return the request in a JSON object, where null means "not given".

    Raises ScoreError with the code `unknown-field` or `bad-field` and what to change.
    """
    known = rules(kind)
    values = {}
    for name, value in document.items():
        if name not in known:
            text = f"unknown field {name!r}; known: {', '.join(known)}"
            raise ScoreError(text, code="unknown-field")
        if value is not None:
            try:
                values[name] = known[name].check(value)
            except ValueError as error:
                raise ScoreError(f"field {name!r}: {error}", code="bad-field") from None
    return kind(**values)


def refuse_both(request: Request, one: str, other: str) -> None:
    """Raise ScoreError `conflicting-fields` where both of two fields are given."""
    if getattr(request, one) and getattr(request, other):
        raise ScoreError(f"give {one} or {other}, not both", code="conflicting-fields")
