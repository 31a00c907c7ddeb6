"""Bodies of the estimate and suggestion routes follow the rules of the requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from gramwatt.sci.advice.suggest_request import SuggestRequest
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.request_fields import Request, parse, rules
from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.service.api.request_bodies import body_of

VALUES: tuple[Any, ...] = (
    *(-1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 6.0, 50.0, 51.0, 1e6, 2e6, 1e30, 1e31),
    *("", "fp16", "training", "lora", "none", "owned", "input", "x" * 200, "x" * 201),
    *(True, {}, {"token": 1.0}, {"token": "1"}, [], ["a"], ["a"] * 501),
)


BODIES = {kind: body_of(kind) for kind in (EstimateRequest, SuggestRequest)}


def takes(check: Callable[[dict[str, Any]], object], name: str, value: Any) -> bool:
    """Whether a check takes the value in that field."""
    try:
        check({name: value})
    except (ValidationError, ScoreError):
        return False
    return True


@pytest.mark.parametrize("kind", BODIES)
def test_body_and_engine_take_the_same_values(kind: type[Request]) -> None:
    for name in rules(kind):
        body = [value for value in VALUES if takes(BODIES[kind].model_validate, name, value)]
        engine = [value for value in VALUES if takes(partial(parse, kind), name, value)]
        if kind is SuggestRequest and name == "count":
            assert body == [0.5, *engine]  # pydantic knows no whole floats: the engine refuses
        else:
            assert body == engine, name
        assert 0 < len(body) < len(VALUES), name


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError):
        body_of(EstimateRequest).model_validate({"colour": "red"})
