"""Bodies of routes that take a request of the engine: its fields by their rules, as pydantic."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from gramwatt.sci.base import request_fields as rule
from gramwatt.service.api.routing import Strict


class RangeBody(Strict):
    """A figure with its range, low <= value <= high; the engine checks the ends."""

    low: float
    value: float
    high: float


def body_of(request: type[rule.Request]) -> type[Strict]:
    """Return a body with the fields of a request; a field that is not given is the same as null."""
    fields = {name: _field(found) for name, found in rule.rules(request).items()}
    return create_model(request.__name__, __base__=Strict, **fields)  # type: ignore[call-overload,no-any-return]


def _field(found: rule.Rule) -> tuple[Any, Any]:
    """Type and default of a field; what pydantic cannot say, the engine checks."""
    match found:
        case rule.Text() | rule.Moment():
            return str | None, Field(None, min_length=1, max_length=rule.TEXT_MOST)
        case rule.Number(low=low, high=high, low_included=True):
            return float | None, Field(None, ge=low, le=high)
        case rule.Number(low=low, high=high):
            return float | None, Field(None, gt=low, le=high)
        case rule.Ranged(number=number):
            plain = Annotated[float, Field(gt=number.low, le=number.high)]
            return plain | RangeBody | None, None
        case rule.Choice(choices=choices):
            return Literal[choices] | None, None
        case rule.Flag():
            return bool | None, None
        case rule.Numbers(number=number, most=most):
            part = Annotated[float, Field(ge=number.low, le=number.high)]
            return list[part] | None, Field(None, max_length=most)
        case rule.Counts():
            return dict[str, float] | None, None
        case rule.Names(most=most):
            return list[str] | None, Field(None, max_length=most)
    raise TypeError(f"no body for {found}")
