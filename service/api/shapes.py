"""JSON Schema of the typed dictionaries that answers are made of.

The documents' shapes are written once, as TypedDict. Pydantic reads the standard library's
TypedDict only from Python 3.12 on, so models are built from the annotations here.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, ConfigDict, Field, create_model


@cache
def model_of(shape: type) -> type[BaseModel]:
    """Return a model with the fields of a TypedDict, nested ones included, and no others."""
    if issubclass(shape, BaseModel):
        return shape
    optional: frozenset[str] = getattr(shape, "__optional_keys__", frozenset())
    fields: dict[str, Any] = {
        name: (_resolved(hint), _may_be_absent() if name in optional else ...)
        for name, hint in get_type_hints(shape).items()
    }
    return create_model(
        shape.__name__,
        __config__=ConfigDict(extra="forbid", protected_namespaces=()),
        __doc__=shape.__doc__,
        **fields,
    )


def _may_be_absent() -> Any:
    """Return a field that is absent, not null, where there is nothing to say."""

    def without_default(schema: dict[str, Any]) -> None:
        schema.pop("default")

    return Field(None, json_schema_extra=without_default)


def _resolved(hint: Any) -> Any:
    if is_typeddict(hint):
        return model_of(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_resolved(arg) for arg in args)]  # noqa: UP007  # made at run time
    if origin in (list, dict):
        return origin[tuple(_resolved(arg) for arg in args)]
    return hint
