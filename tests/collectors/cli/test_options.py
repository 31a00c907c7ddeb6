"""Commands that send a request: every field of it has a flag."""

import inspect

import pytest

from gramwatt.collectors.cli import estimate, suggest
from gramwatt.sci.advice.suggest_request import SuggestRequest
from gramwatt.sci.estimate.request import EstimateRequest

FLAGS = {
    "units": "unit",
    "candidates": "candidate",
    "intensity_g_per_kwh": "intensity",
    "power_w": "power",
}
"""Parameters of commands that are named otherwise than their field."""


@pytest.mark.parametrize(
    ("command", "request_"), [(estimate, EstimateRequest), (suggest, SuggestRequest)]
)
def test_every_field_has_a_flag_and_every_flag_a_field(command, request_):
    parameters = set(inspect.signature(command.command).parameters) - {"source", "as_json"}
    names = {FLAGS.get(name, name) for name in request_.__struct_fields__}
    assert parameters - names == set(command.OTHER) - {"source", "as_json"} - set(FLAGS.values())
    assert names - parameters == set()
