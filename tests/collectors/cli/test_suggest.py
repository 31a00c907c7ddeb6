"""`gramwatt suggest`: flags, a document beside them, and refusals that help."""

import json

import pytest
import typer
from typer.testing import CliRunner

from gramwatt.collectors.cli.suggest import command as suggest_command

QUESTION = {"hardware": "nvidia-v100-sxm2-16", "kind": "training", "zone": "DE", "hours": 10}


@pytest.fixture
def ask():
    app = typer.Typer()
    app.command(name="suggest")(suggest_command)
    app.callback()(lambda: None)

    def call(*args, stdin=None):
        return CliRunner().invoke(app, ["suggest", *args], input=stdin)

    return call


def test_flags_and_document_give_the_same_answer(ask):
    flags = [part for name, value in QUESTION.items() for part in (f"--{name}", str(value))]
    by_flags = ask(*flags, "--candidate", "nvidia-l4", "--json")
    document = json.dumps({**QUESTION, "candidates": ["nvidia-l4"]})
    by_stdin = ask("--input", "-", "--json", stdin=document)
    assert by_flags.exit_code == 0
    assert by_flags.stdout == by_stdin.stdout
    (row,) = [row for row in json.loads(by_flags.stdout)["answers"] if row["target"]]
    assert row["id"] == "nvidia-l4"


def test_people_get_a_sentence_a_table_and_what_would_make_it_surer(ask):
    shown = ask("--input", "-", stdin=json.dumps(QUESTION)).stdout.splitlines()
    assert shown[0].startswith("What would help most: change to 1 x NVIDIA H100")
    assert len(shown) <= 16
    assert max(map(len, shown[1:7])) <= 80
    assert sum(line.endswith(" sure") for line in shown[2:]) == 5
    assert any(line.startswith("Do not buy one for this: a new ") for line in shown)
    assert shown[-1] == "To be surer: --precision, --mean-power-w, --peak-memory-gb."


def test_a_wrong_question_is_exit_2(ask):
    unknown = ask("--hardware", "nvidia-l44", "--json")
    assert unknown.exit_code == 2
    assert "nvidia-l4" in json.loads(unknown.stdout)["close"]
    assert ask().exit_code == 2
    assert ask("--input", "-", stdin='{"colour": "red", "hardware": "nvidia-l4"}').exit_code == 2
