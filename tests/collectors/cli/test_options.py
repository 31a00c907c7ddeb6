"""Commands that send a request: its struct makes their options."""

import inspect

import pytest

from gramwatt.collectors.cli import estimate, suggest
from gramwatt.sci.advice.suggest_request import SuggestRequest
from gramwatt.sci.estimate.request import EstimateRequest


@pytest.mark.parametrize(
    ("module", "request_"), [(estimate, EstimateRequest), (suggest, SuggestRequest)]
)
def test_every_option_says_what_it_is(module, request_):
    options = inspect.signature(module.command).parameters
    assert options.keys() - {"source", "as_json"} == set(request_.__struct_fields__)
    assert all(option.annotation.__metadata__[0].help for option in options.values())
    assert module.HELPS.keys() <= set(request_.__struct_fields__)
