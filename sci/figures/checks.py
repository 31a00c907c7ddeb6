"""One check of what comes from outside: named types with their bounds, and one sentence of refusal.

A journal line, a request, a row of data and an entry of the overlay is a `msgspec.Struct` whose
fields are of these types, so each door has the same bounds. `checked` reads one value, `read` the
fields of one object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, UnsetType

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.structs import convert

TEXT_MOST = 200
"""Characters of the longest text of a request."""
FIRST_YEAR, LAST_YEAR = 2000, 2199
T = TypeVar("T", bound=msgspec.Struct)

Text = Annotated[
    str,
    Meta(
        title=f"a text of 1 to {TEXT_MOST} characters",
        min_length=1,
        max_length=TEXT_MOST,
        pattern=r"^[^\x00]*[^\x00\s][^\x00]*$",
    ),
]
Moment = Annotated[
    datetime,
    Meta(
        title="a time like 2026-05-01T08:00:00Z, with Z or an offset",
        tz=True,
        extra={"read": datetime.fromisoformat},
    ),
]
Amount = Annotated[float, Meta(title="a number above 0 and at most 1e30", gt=0, le=1e30)]
Fraction = Annotated[float, Meta(title="a fraction from 0 to 1 (write 40 % as 0.4)", ge=0, le=1)]
Share = Annotated[
    float, Meta(title="a share above 0 and at most 1 (write 40 % as 0.4)", gt=0, le=1)
]
Pue = Annotated[float, Meta(title="a PUE from 1 to 5 (write 20 % on top as 1.2)", ge=1, le=5)]
Whole = Annotated[float, Meta(title="a whole number from 1 to 1e6", gt=0, le=1e6, multiple_of=1)]
Intensity = Annotated[float, Meta(title="an intensity from 0 to 5000 gCO2e/kWh", ge=0, le=5000)]
Power = Annotated[float, Meta(title="a power from 0 to 1e9 W", ge=0, le=1e9)]
Counts = dict[Text, Amount]
Years = Annotated[float, Meta(title="a time in years above 0 and at most 50", gt=0, le=50)]


class Span(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure with the ends of its range, which rise."""

    low: Amount
    value: Amount
    high: Amount

    def __post_init__(self) -> None:
        """Raise ValueError for ends in another order."""
        if not self.low <= self.value <= self.high:
            raise ValueError("low, value and high must rise in that order")


_PLAIN: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    datetime: "a time",
}


_BOUNDS = {
    "ge": "at least",
    "gt": "above",
    "le": "at most",
    "lt": "below",
    "min_length": "length at least",
    "max_length": "length at most",
    "pattern": "of the form",
}
"""What a bound of `Meta` says of a value."""


class Problem(NamedTuple):
    """What is wrong with a field, whose place in the object has dots: a stable code and words."""

    field: str
    code: str
    text: str

    @property
    def sentence(self) -> str:
        """Return the words with the field before them."""
        return f"field {self.field!r} {self.text}"


class InputError(ScoreError):
    """An object that is not what it should be; `problems` has all that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems[0].sentence, code=problems[0].code)
        self.problems = tuple(problems)


_PLACE = re.compile(r"(.*?)(?: - at `\$\.value(.*)`)?", re.DOTALL)
"""A sentence of msgspec, which names places in no other way: what is wrong, and where."""


def checked(kind: Any, value: Any, *, strict: bool = True) -> Any:
    """Return a value as its type has it; raises ValueError with what it is not.

    What is not strict is text: out of an address, or a cell of a table.
    """
    problem = _checked(kind, value, "", strict=strict)
    if isinstance(problem, Problem):
        raise ValueError(problem.text)
    return problem


def _checked(kind: Any, value: Any, name: str, *, strict: bool) -> Any:
    """Return a value as its type has it, or a Problem."""
    original = value
    try:
        if isinstance(value, str) and (reader := _reader_of(kind)):
            value = reader(value)
        value = convert({"value": value}, _holder(kind), strict=strict).value
        return in_utc(value) if isinstance(value, datetime) else value
    except (msgspec.ValidationError, ValueError) as error:
        match = _PLACE.fullmatch(str(error))
        inner = (match[2] or "") if match else ""
        if (item := re.fullmatch(r"\[(\d+)\]", inner)) and (kind_of_items := items_of(kind)):
            n = int(item[1])
            return _checked(kind_of_items, original[n], f"{name}.{n}", strict=strict)
        if inner and match:
            place = ".".join([name, *re.findall(r"\w+", inner)])
            return Problem(place, "bad-field", f"is wrong: {match[1]}")
        hint = ""
        if isinstance(value, datetime) and value.tzinfo is None:
            hint = f"; write {value.isoformat(timespec='minutes')}Z"
        return Problem(name, "bad-field", f"is {shown(original)}, not {meaning(kind)}{hint}")


def items_of(kind: Any) -> Any:
    """Return the type of what a list holds; None for what is not a list."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (list, tuple):
        return parts[0]
    parts = parts if origin in (Union, UnionType) else parts[:1] if origin is Annotated else ()
    return next(filter(None, map(items_of, parts)), None)


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


def parse(kind: type[T], document: Mapping[str, Any], *, strict: bool = True) -> T:
    """Return a struct of an object's fields; null means "not given".

    Raises InputError with the codes `unknown-field`, `bad-field` and `missing-field`.
    """
    types = types_of(kind)
    problems = [
        Problem(name, "unknown-field", f"is not known; known: {', '.join(types)}")
        for name in document
        if name not in types
    ]
    values = read(types, document, problems, strict=strict)
    named = {problem.field for problem in problems}
    problems += [
        Problem(name, "missing-field", "is missing")
        for name in missing(kind, values)
        if name not in named
    ]
    if problems:
        raise InputError(problems)
    return kind(**{fields_of(kind)[name].name: value for name, value in values.items()})


def refuse_both(request: msgspec.Struct, one: str, other: str) -> None:
    """Raise ScoreError `conflicting-fields` where both of two fields are given."""
    if getattr(request, one) and getattr(request, other):
        raise ScoreError(f"give {one} or {other}, not both", code="conflicting-fields")


def read(
    types: Mapping[str, Any],
    document: Mapping[str, Any],
    problems: list[Problem],
    *,
    strict: bool = True,
) -> dict[str, Any]:
    """Return the values of an object's fields; null means "not given", but where a field tells the
    two apart by UNSET.

    What cannot be taken is left out, and named in `problems`.
    """
    values = {}
    for name, value in document.items():
        if name not in types or (value is None and UnsetType not in get_args(types[name])):
            continue
        result = _checked(types[name], value, name, strict=strict)
        if isinstance(result, Problem):
            problems.append(result)
        else:
            values[name] = result
    return values


_HOLDERS: dict[int, tuple[Any, Any]] = {}


def _holder(kind: Any) -> Any:
    """Return a struct of one value of a type: msgspec keeps what it knows of structs alone."""
    if id(kind) not in _HOLDERS:
        _HOLDERS[id(kind)] = kind, msgspec.defstruct("Holder", [("value", kind)])
    return _HOLDERS[id(kind)][1]


def _reader_of(kind: Any) -> Callable[[str], Any] | None:
    """Return what reads a text as a type, where it is not msgspec."""
    for meta in getattr(kind, "__metadata__", ()):
        if getattr(meta, "extra", None) and "read" in meta.extra:
            reader: Callable[[str], Any] = meta.extra["read"]
            return reader
    parts = get_args(kind) if get_origin(kind) in (Annotated, Union, UnionType) else ()
    return next(filter(None, map(_reader_of, parts)), None)


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
        titles = [meta.title for meta in items[1:] if meta.title]
        bounds = [
            f"{word} {getattr(meta, name)}"
            for meta in items[1:]
            for name, word in _BOUNDS.items()
            if getattr(meta, name) is not None
        ]
        untitled = meaning(items[0]) + (f" ({', '.join(bounds)})" if bounds else "")
        return titles[0] if titles else untitled
    if origin in (Union, UnionType):
        return " or ".join(meaning(item) for item in items if item not in (NoneType, UnsetType))
    if origin is Literal:
        return f"one of {', '.join(map(str, items))}"
    if origin in (list, tuple):
        return f"a list, each {meaning(items[0])}"
    if origin is dict:
        return f"an object of names, each {meaning(items[1])}"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return f"an object of {', '.join(kind.__struct_fields__)}"
    return _PLAIN.get(kind, "an object")


def shown(value: Any) -> str:
    """Return a value as a message has it, cut short; some integers are too long to print."""
    if value is None:
        return "null"
    try:
        return repr(value if isinstance(value, int | float) else str(value))[:42]
    except ValueError:
        return "a number of thousands of digits"
