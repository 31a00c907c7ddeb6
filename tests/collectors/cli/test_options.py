"""Commands that send a request: its struct makes their options."""

import inspect
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from gramwatt.collectors.cli import estimate, suggest
from gramwatt.collectors.cli.options import OnceCommand
from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.sci.suggest.request import SuggestRequest


@pytest.mark.parametrize(
    ("module", "request_"), [(estimate, EstimateRequest), (suggest, SuggestRequest)]
)
def test_every_option_says_what_it_is(module, request_):
    options = inspect.signature(module.command).parameters
    own = {"source", "as_json", "every", "why", "job", "local"}
    assert options.keys() - own == set(request_.__struct_fields__)
    assert all(option.annotation.__metadata__[0].help for option in options.values())
    assert module.HELPS.keys() <= set(request_.__struct_fields__)


def test_an_option_names_its_value_and_may_have_one_without():
    """By its last word, and FILE for a path; `--why` alone is for the first row."""
    app = typer.Typer(rich_markup_mode=None)
    answers = []

    @app.command(cls=OnceCommand)
    def command(
        hours: Annotated[float, typer.Option("--expected-hours")] = 1.0,
        grams: Annotated[float, typer.Option("--embodied-kg-per-device")] = 1.0,
        path: Annotated[Path, typer.Option("--json-summary")] = Path(),
        why: Annotated[str | None, typer.Option("--why")] = None,
    ) -> None:
        answers.append(why)

    run = CliRunner().invoke
    shown = run(app, ["--help"]).output
    values = "--expected-hours HOURS", "--embodied-kg-per-device KG", "--json-summary FILE"
    assert [value for value in values if value not in shown] == []
    for line in (["--why"], ["--why", "--expected-hours", "2"], ["--why", "L4"], []):
        assert run(app, line).exit_code == 0
    assert answers == ["first", "first", "L4", None]
