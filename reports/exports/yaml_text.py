"""Plain data as YAML that readers of 1.1 and 1.2 take alike: quoted text, dotted floats."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

Data = Mapping[str, "Data"] | Sequence["Data"] | str | float | int | bool | None

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_/-]*")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def to_yaml(data: Mapping[str, Data]) -> str:
    """The mapping as a YAML document; raises ValueError for NaN and infinity."""
    return "".join(f"{line}\n" for line in _mapping(data, ""))


def _mapping(data: Mapping[str, Data], indent: str) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{indent}{_key(key)}:", value, indent)


def _entry(head: str, value: Data, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value and not _is_flat_row(value):
        yield head
        yield from _mapping(value, indent + "  ")
    elif isinstance(value, Sequence) and not isinstance(value, str) and _is_block(value):
        yield head
        for item in value:
            yield from _item(item, indent + "  ")
    else:
        yield f"{head} {_flow(value)}"


def _item(value: Data, indent: str) -> Iterator[str]:
    if not isinstance(value, Mapping) or _is_row(value):
        yield f"{indent}- {_flow(value)}"
        return
    lines = list(_mapping(value, indent + "  "))
    yield f"{indent}- {lines[0].lstrip()}"
    yield from lines[1:]


def _is_block(value: Sequence[Data]) -> bool:
    """Lists of mappings and of sentences get a line an item; short lists of words stay on one."""
    return any(
        isinstance(item, Mapping) or (isinstance(item, str) and " " in item) for item in value
    )


def _is_row(value: Mapping[str, Data]) -> bool:
    """One line for a row of numbers, such as the inputs of a manifest."""
    scalars = all(not isinstance(v, Mapping | list | tuple) for v in value.values())
    return scalars and sum(isinstance(v, str) for v in value.values()) <= 1


def _is_flat_row(value: Mapping[str, Data]) -> bool:
    return set(value) == {"time", "component"}


def _flow(value: Data) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):
        return _float(value)
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """A text as JSON writes it, which YAML shares; what YAML does not print is escaped as well."""
    escaped = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", escaped)


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"not a finite number: {value}")
    mantissa, e, exponent = repr(value).partition("e")
    # YAML 1.1 reads 1e-05 as text and 1.0e-05 as a number.
    dotted = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{dotted}{e}{exponent}"


def _key(key: str) -> str:
    plain = _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS
    return key if plain else _quoted(key)
