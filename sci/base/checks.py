"""One check of what comes from outside: named types with their bounds, and one sentence of refusal.

A journal line, a request, a row of data and an entry of the overlay is a `msgspec.Struct` whose
fields are of these types, so each door has the same bounds. `checked` reads one value, `read` the
fields of one object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta

TEXT_MOST = 200
"""Characters of the longest text of a request."""
FIRST_YEAR, LAST_YEAR = 2000, 2199

Text = Annotated[
    str,
    Meta(
        description=f"a text of 1 to {TEXT_MOST} characters",
        min_length=1,
        max_length=TEXT_MOST,
        pattern=r"^[^\x00]*[^\x00\s][^\x00]*$",
    ),
]
Moment = Annotated[
    datetime, Meta(description="a time like 2026-05-01T08:00:00Z, with Z or an offset", tz=True)
]
Amount = Annotated[float, Meta(description="a number above 0 and at most 1e30", gt=0, le=1e30)]
Fraction = Annotated[
    float, Meta(description="a fraction from 0 to 1 (write 40 % as 0.4)", ge=0, le=1)
]
Share = Annotated[
    float, Meta(description="a share above 0 and at most 1 (write 40 % as 0.4)", gt=0, le=1)
]
Pue = Annotated[float, Meta(description="a PUE from 1 to 5 (write 20 % on top as 1.2)", ge=1, le=5)]
Years = Annotated[float, Meta(description="a time in years above 0 and at most 50", gt=0, le=50)]

_PLAIN: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    datetime: "a time",
}


class Problem(NamedTuple):
    """A field that cannot be taken, with its place in the object, and a sentence."""

    field: str
    text: str


def checked(kind: Any, value: Any) -> Any:
    """Return a value as its type has it; raises ValueError with what it is not."""
    try:
        value = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner = f" ({error})" if "$" in str(error) else ""
        raise ValueError(f"{shown(value)} is not {meaning(kind)}{inner}") from None
    return in_utc(value) if isinstance(value, datetime) else value


def in_utc(when: datetime) -> datetime:
    """Return a moment in UTC; raises ValueError outside the years 2000 to 2199."""
    if when.tzinfo is not UTC:
        try:
            when = when.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"{when.isoformat()} has no UTC year") from None
    if not FIRST_YEAR <= when.year <= LAST_YEAR:
        text = f"{when.isoformat()} is outside the years {FIRST_YEAR} to {LAST_YEAR}"
        raise ValueError(text)
    return when


def read(
    types: Mapping[str, Any], document: Mapping[str, Any], problems: list[Problem]
) -> dict[str, Any]:
    """Return the values of an object's fields; null means "not given".

    What cannot be taken is left out, and named in `problems`.
    """
    values = {}
    for name, value in document.items():
        if value is None or name not in types:
            continue
        try:
            values[name] = checked(types[name], value)
        except ValueError as error:
            problems.append(Problem(name, f"field {name!r}: {error}"))
    return values


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct by their name in JSON."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


@cache
def types_of(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Return the types of a struct's fields by their name in JSON."""
    return {name: field.type for name, field in fields_of(kind).items()}


def missing(kind: type[msgspec.Struct], values: Collection[str]) -> list[str]:
    """Return the required fields of a struct that are not among `values`."""
    return [
        name for name, field in fields_of(kind).items() if field.required and name not in values
    ]


def meaning(kind: Any) -> str:
    """Return what a value of a type is, as the end of "... is not"."""
    origin, items = get_origin(kind), get_args(kind)
    if origin is Annotated:
        descriptions = [meta.description for meta in items[1:] if meta.description]
        return descriptions[0] if descriptions else meaning(items[0])
    if origin in (Union, UnionType):
        return " or ".join(meaning(item) for item in items if item is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(map(str, items))}"
    if origin in (list, tuple):
        return f"a list, each {meaning(items[0])}"
    if origin is dict:
        return f"an object of names, each {meaning(items[1])}"
    return _PLAIN.get(kind, "an object")


def shown(value: Any) -> str:
    """Return a value as a message has it, cut short; some integers are too long to print."""
    try:
        return repr(value if isinstance(value, int | float) else str(value))[:42]
    except ValueError:
        return "a number of thousands of digits"
