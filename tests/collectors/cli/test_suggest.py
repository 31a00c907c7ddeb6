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
    judged = [s for s in json.loads(by_flags.stdout)["suggestions"] if s["target"] == "nvidia-l4"]
    assert len(judged) == 1


def test_an_end_below_1_is_not_printed_as_1(ask):
    """Half precision takes 0.24 to 0.9953 of the carbon here, which is lower."""
    asked = {**QUESTION, "framework": "pytorch", "precision": "fp32", "mean_power_w": 265}
    asked |= {"count": 8, "zone": "AU-NSW", "hours": 300}
    shown = ask("--input", "-", stdin=json.dumps({**asked, "candidates": []})).stdout
    assert shown.startswith("lower: mixed precision")
    assert " to 0.99" in shown.split("carbon x", 1)[1].split("\n", 1)[0]
    assert "1.00" not in shown.split("\n")[1]


def test_people_get_verdict_figures_and_reasons(ask):
    shown = ask("--input", "-", "--candidate", "nvidia-l4", stdin=json.dumps(QUESTION)).stdout
    assert ": change hardware to nvidia-l4, 1 device\n    time x " in shown
    assert "    - embodied carbon: " in shown
    old = {**QUESTION, "precision": "fp16", "mean_power_w": 280, "framework": "pytorch"}
    bought = ask("--input", "-", "--candidate", "nvidia-h100-pcie-80", stdin=json.dumps(old)).stdout
    assert "\n    owned: lower; rented: lower; to-buy: higher\n" in bought
    assert "Notice: Taken for class training" in shown


def test_a_wrong_question_is_exit_2(ask):
    ambiguous = ask("--hardware", "A100", "--json")
    assert ambiguous.exit_code == 2
    assert "nvidia-a100-sxm4-80" in json.loads(ambiguous.stdout)["choices"]
    assert ask().exit_code == 2
    assert ask("--input", "-", stdin='{"colour": "red", "hardware": "nvidia-l4"}').exit_code == 2
