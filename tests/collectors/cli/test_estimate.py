"""`gramwatt estimate`: flags, a document beside them, and refusals that help."""

import json

import pytest
import typer
from typer.testing import CliRunner

from gramwatt.collectors.cli.estimate import add_estimate

QUESTION = {"hardware": "nvidia-l4", "hours": 10, "zone": "SE", "pue": 1.2, "host": False}


@pytest.fixture
def ask():
    app = typer.Typer()
    add_estimate(app)
    app.callback()(lambda: None)

    def call(*args, stdin=None):
        return CliRunner().invoke(app, ["estimate", *args], input=stdin)

    return call


def test_flags_and_document_give_the_same_answer(ask, tmp_path):
    (tmp_path / "q.json").write_text(json.dumps(QUESTION))
    by_flags = ask(
        "--hardware",
        "nvidia-l4",
        "--hours",
        "10",
        "--zone",
        "SE",
        "--pue",
        "1.2",
        "--no-host",
        "--json",
    )
    by_file = ask("--input", str(tmp_path / "q.json"), "--json")
    by_stdin = ask("--input", "-", "--json", stdin=json.dumps(QUESTION))
    assert by_flags.stdout == by_file.stdout == by_stdin.stdout
    # 72 W for 10 h, at 0.70 of the rated power.
    assert json.loads(by_file.stdout)["energy_kwh"]["value"] == pytest.approx(0.072 * 10 * 0.7)


def test_a_flag_wins_over_the_document(ask):
    answer = ask("--input", "-", "--hours", "20", "--json", stdin=json.dumps(QUESTION))
    assert json.loads(answer.stdout)["device_hours"]["value"] == 20


def test_units_are_pairs(ask):
    answer = ask("--input", "-", "--unit", "token=1e9", "--json", stdin=json.dumps(QUESTION))
    [row] = json.loads(answer.stdout)["sci"]
    assert (row["unit"], row["count"]) == ("token", 1e9)
    assert ask("--input", "-", "--unit", "token", stdin=json.dumps(QUESTION)).exit_code == 2


def test_people_get_lines(ask):
    shown = ask("--input", "-", stdin=json.dumps(QUESTION)).stdout
    assert "Device hours   10.0 h" in shown
    assert "conforming-with-deviations" in shown
    assert "the host is left out" in shown


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"hardware": "A100", "hours": 1}, "nvidia-a100-sxm4-80"),
        ({"hardware": "nvidia-l44", "hours": 1}, "nvidia-l4"),
        ({"hardware": "nvidia-l4", "hours": 1, "zone": "ATLANTIS"}, "unknown zone"),
        ({"hardware": "nvidia-l4"}, "hours"),
        ([1], "JSON object"),
    ],
)
def test_a_question_that_cannot_be_answered_ends_with_2(ask, question, words):
    answer = ask("--input", "-", stdin=json.dumps(question))
    assert answer.exit_code == 2
    assert words in answer.stderr
    assert answer.stdout == ""


def test_choices_travel_as_json(ask):
    answer = ask("--hardware", "A100", "--hours", "1", "--json")
    assert answer.exit_code == 2
    assert "nvidia-a100-sxm4-80" in json.loads(answer.stdout)["choices"]


def test_a_missing_file_is_said(ask):
    answer = ask("--input", "/no/such/file.json")
    assert answer.exit_code == 2
    assert "/no/such/file.json" in answer.stderr
