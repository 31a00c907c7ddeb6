"""`gramwatt suggest`: flags, a document beside them, and refusals that help."""

import json

import pytest
from typer.testing import CliRunner

from gramwatt.collectors.cli.app import build_app
from gramwatt.collectors.cli.suggest import lines
from gramwatt.sci.figures.structs import decode
from gramwatt.sci.suggest.documents import SuggestDoc

QUESTION = {"hardware": "nvidia-v100-sxm2-16", "kind": "training", "zone": "DE", "hours": 10}


@pytest.fixture(scope="module")
def ask():
    app = build_app(lambda: None, ["suggest"])
    return lambda *args, stdin=None: CliRunner().invoke(app, ["suggest", *args], input=stdin)


def test_flags_and_document_give_the_same_answer(ask):
    flags = [part for name, value in QUESTION.items() for part in (f"--{name}", str(value))]
    by_flags = ask(*flags, "--candidate", "nvidia-l4", "--json")
    document = json.dumps({**QUESTION, "candidates": ["nvidia-l4"]})
    by_stdin = ask("--input", "-", "--json", stdin=document)
    assert by_flags.exit_code == 0
    flagged, piped = json.loads(by_flags.stdout), json.loads(by_stdin.stdout)
    for answer in (flagged, piped):  # the later hour counts from now, which has moved on
        answer["answers"] = [row for row in answer["answers"] if row["action"] != "time"]
    assert flagged == piped
    (row,) = [row for row in flagged["answers"] if row["target"]]
    assert row["id"] == "nvidia-l4"


def test_people_get_a_sentence_a_table_and_what_would_make_it_surer(ask):
    shown = ask("--input", "-", stdin=json.dumps(QUESTION)).stdout.splitlines()
    assert shown[0].startswith("What would help most: change to 1 x NVIDIA H100")
    assert len(shown) <= 16
    assert max(map(len, shown[1:7])) <= 80
    assert sum(line.endswith(" sure") for line in shown[2:]) >= 4
    assert any(line.startswith("Do not buy one for this: a new ") for line in shown)
    assert shown[-2].startswith("To be surer: --precision, --mean-power-w, --peak-memory-gb.")
    assert shown[-1] == "Reasons: --why nvidia-h100-nvl-94"


WORK = (
    {},
    {"hardware": "nvidia-a100-sxm4-80", "utilisation": 0.12, "mean_power_w": 75.0, "hours": 700},
    {"instance": "aws:p3.2xlarge", "region": "aws:us-east-1", "hardware": None, "zone": None},
    {"hardware": "nvidia-t4", "model_parameters": 70e9, "kind": "inference", "framework": "vllm"},
    {"hardware": None, "model_parameters": 70e9, "kind": "inference", "hours": None},
    {"hardware": None, "model_parameters": 7e9, "method": "lora", "tokens": 1e8, "hours": None},
    {"hardware": "nvidia-rtx-4090", "count": 2, "model_parameters": 70e9, "kind": "inference"},
    {"kind": None},
    {"precision": "fp64"},
)


@pytest.mark.parametrize("change", WORK)
def test_any_question_is_answered_in_a_screen(ask, change):
    question = {name: item for name, item in {**QUESTION, **change}.items() if item is not None}
    answer = ask("--input", "-", stdin=json.dumps(question))
    shown = answer.stdout.splitlines()
    assert answer.exit_code == 0, answer.stderr
    assert len(shown) <= 16
    assert max(map(len, shown)) <= 80
    summary = json.loads(ask("--input", "-", "--json", stdin=json.dumps(question)).stdout)[
        "summary"
    ]
    assert (
        "".join(shown).replace(" ", "").startswith("".join(summary.split()).replace("\u2212", "-"))
    )


def test_all_shows_every_row_and_why_the_reasons_of_one(ask):
    stdin = json.dumps(QUESTION)
    rows = json.loads(ask("--input", "-", "--json", stdin=stdin).stdout)["answers"]
    every = ask("--input", "-", "--all", stdin=stdin).stdout
    assert every.count(" % (") >= sum(row["odds"] is not None for row in rows) > 5
    why = ask("--input", "-", "--why", "h100-nvl", stdin=stdin).stdout.splitlines()
    row = next(row for row in rows if row["id"] == "nvidia-h100-nvl-94")
    assert (why[0], row["basis"]) == (row["label"], "data-sheets")
    assert any(line.endswith("; estimated from data sheets") for line in why)
    assert any(row["reasons"][0][:40] in line for line in why)
    assert any(line.startswith("  Source: ") for line in why)
    unknown = ask("--input", "-", "--why", "abacus", stdin=stdin)
    assert unknown.exit_code == 2
    assert "nvidia-h100-nvl-94" in unknown.stderr


def test_why_alone_is_of_the_row_that_the_sentence_names(ask):
    answer = decode(ask("--input", "-", "--json", stdin=json.dumps(QUESTION)).stdout, SuggestDoc)
    longer, named = answer.answers[:2]
    longer.id, answer.lead = f"{named.id} MIG 1g.10gb", named.id
    assert lines(answer, why="first")[0] == named.label


def test_devices_for_a_model_stand_side_by_side(ask):
    shown = ask("--model-parameters", "8e9", "--kind", "inference", "--batch-size", "32").stdout
    assert shown.startswith("Least carbon if kept full: ")
    assert "per 1M tokens" in shown
    assert shown.count(" least\n") == 1


def test_a_job_is_asked_by_name_or_by_options(ask, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    both = ask("last", "--hardware", "nvidia-l4")
    assert (both.exit_code, both.stderr.count("not both")) == (2, 1)
    none = ask()
    assert none.exit_code == 2
    assert "there is no job yet; run one: gramwatt run -- python train.py" in none.stderr
    assert "unknown job 'nothing'" in ask("nothing").stderr


def test_a_wrong_question_is_exit_2(ask):
    unknown = ask("--hardware", "nvidia-l44", "--json")
    assert unknown.exit_code == 2
    assert "nvidia-l4" in json.loads(unknown.stdout)["close"]
    assert ask("--input", "-", stdin='{"colour": "red", "hardware": "nvidia-l4"}').exit_code == 2
