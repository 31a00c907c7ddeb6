"""Questions of users, asked through the command, with what the answer must and must not say.

`questions.toml` has one entry a question: `ask` is the command line, `says` and `never` are regular
expressions, which are sought line by line, `exit` is the exit status (0).
"""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gramwatt.collectors.cli.app import build_app

QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))[
    "question"
]


@pytest.fixture(scope="module")
def command():
    return build_app(lambda: None, ["catalog", "estimate", "suggest"])


@pytest.mark.parametrize("question", QUESTIONS, ids=[one["what"] for one in QUESTIONS])
def test_question(question, command, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    answer = CliRunner().invoke(command, shlex.split(question["ask"]))
    assert answer.exit_code == question.get("exit", 0), answer.output
    for wanted in question.get("says", []):
        assert re.search(wanted, answer.output, re.MULTILINE), (wanted, answer.output)
    for wrong in question.get("never", []):
        assert not re.search(wrong, answer.output, re.MULTILINE), (wrong, answer.output)
