"""Commands that send a request: its struct makes their options."""

import inspect

import pytest

from gramwatt.collectors.cli import estimate, suggest
from gramwatt.collectors.cli.options import grouped
from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.sci.suggest.request import SuggestRequest
from gramwatt.service.common.requests import MonthQuery


@pytest.mark.parametrize(
    ("module", "request_"), [(estimate, EstimateRequest), (suggest, SuggestRequest)]
)
def test_every_option_says_what_it_is(module, request_):
    options = inspect.signature(module.command).parameters
    own = {"source", "as_json", "every", "why", "job", "local"}
    assert options.keys() - own == set(request_.__struct_fields__)
    assert all(option.annotation.__metadata__[0].help for option in options.values())
    assert module.HELPS.keys() <= set(request_.__struct_fields__)


def test_the_option_of_a_number_does_not_ask_for_a_text():
    @grouped
    def command(query: MonthQuery) -> None:
        """Ask for a month."""

    options = inspect.signature(command).parameters
    metavars = {name: row.annotation.__metadata__[0].metavar for name, row in options.items()}
    assert metavars == {"project": None, "revision": "<int>"}
