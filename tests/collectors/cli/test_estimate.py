"""`gramwatt estimate`: flags, a document beside them, and refusals that help."""

import json

import pytest
from typer.testing import CliRunner

from gramwatt.collectors.cli.app import build_app

QUESTION = {"hardware": "nvidia-l4", "hours": 10, "zone": "SE", "pue": 1.2, "host": False}


@pytest.fixture(scope="module")
def ask():
    app = build_app(lambda: None, ["estimate"])
    return lambda *args, stdin=None: CliRunner().invoke(app, ["estimate", *args], input=stdin)


def first(answer):
    return json.loads(answer.stdout)["answers"][0]


def test_flags_and_document_give_the_same_answer(ask, tmp_path):
    (tmp_path / "q.json").write_text(json.dumps(QUESTION))
    flags = "--hardware nvidia-l4 --hours 10 --zone SE --pue 1.2 --no-host --json"
    by_flags = ask(*flags.split())
    by_file = ask("--input", str(tmp_path / "q.json"), "--json")
    by_stdin = ask("--input", "-", "--json", stdin=json.dumps(QUESTION))
    assert by_flags.stdout == by_file.stdout == by_stdin.stdout
    # 72 W for 10 h, at 0.70 of the rated power.
    assert first(by_file)["energy_kwh"]["value"] == pytest.approx(0.072 * 10 * 0.7)


def test_a_flag_wins_over_the_document(ask):
    answer = ask("--input", "-", "--hours", "20", "--json", stdin=json.dumps(QUESTION))
    assert first(answer)["device_hours"]["value"] == 20


def test_units_are_pairs(ask):
    answer = ask("--input", "-", "--unit", "token=1e9", "--json", stdin=json.dumps(QUESTION))
    [row] = first(answer)["sci"]
    assert (row["unit"], row["count"]) == ("token", 1e9)
    assert ask("--input", "-", "--unit", "token", stdin=json.dumps(QUESTION)).exit_code == 2


def test_people_get_lines(ask):
    shown = ask("--input", "-", stdin=json.dumps(QUESTION)).stdout
    assert shown.startswith("29 g CO2e (19 to 45) for 10 h on L4.\n")
    assert "Electricity" in shown
    assert "the host is left out" not in shown
    assert "the host is left out" in ask("--input", "-", "--why", stdin=json.dumps(QUESTION)).stdout


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"hardware": "nvidia", "hours": 1}, "unknown hardware"),
        ({"hardware": "nvidia-l44", "hours": 1}, "nvidia-l4"),
        ({"hardware": "nvidia-l4", "hours": 1, "zone": "ATLANTIS"}, "unknown zone"),
        ({"zone": "DE"}, "say what ran"),
        ([1], "JSON object"),
    ],
)
def test_a_question_that_cannot_be_answered_ends_with_2(ask, question, words):
    answer = ask("--input", "-", stdin=json.dumps(question))
    assert answer.exit_code == 2
    assert words in answer.stderr
    assert answer.stdout == ""


def test_close_names_travel_as_json(ask):
    answer = ask("--hardware", "nvidia-l44", "--hours", "1", "--json")
    assert answer.exit_code == 2
    assert "nvidia-l4" in json.loads(answer.stdout)["close"]


SERVING = (
    *("--hardware", "L4", "--hardware", "H100 SXM", "--hardware", "A100 80GB", "--hardware", "T4"),
    *("--hardware", "B200", "--hardware", "L40S", "--zone", "DE"),
    *("--model-parameters", "8e9", "--tokens", "1e9", "--kind", "inference"),
)


def test_several_are_a_table_of_five_the_least_carbon_first(ask):
    shown = ask(*SERVING).stdout.splitlines()
    assert shown[0].startswith("Least carbon: ") or shown[0].startswith("Too close to call: ")
    assert len(shown) <= 16
    assert max(map(len, shown)) <= 80
    assert sum(" least" in line for line in shown) == 1
    assert "All 7: --all." in shown[-1]
    assert len(ask(*SERVING, "--all").stdout.splitlines()) == len(shown) + 2
    answers = json.loads(ask(*SERVING, "--json").stdout)["answers"]
    grams = [row["total_g"]["value"] for row in answers]
    assert grams == sorted(grams)
    assert answers[0]["carbon_ratio"] is None
    assert all(row["odds"] < 0.5 for row in answers[1:])


def test_half_an_answer_is_an_answer(ask):
    shown = ask("--energy-kwh", "120", "--zone", "FR").stdout
    assert shown.startswith("3.7 kg CO2e (1.9 to 7.7) from electricity for 120 kWh.")
    assert "making the hardware is not counted" in " ".join(shown.split())


def test_a_missing_file_is_said(ask):
    answer = ask("--input", "/no/such/file.json")
    assert answer.exit_code == 2
    said = "gramwatt: --input /no/such/file.json: No such file or directory\n"
    assert answer.stderr == said


L4 = ("--hardware", "nvidia-l4", "--zone", "FR")


def notices(answer):
    assert answer.exit_code == 0, answer.stderr
    return {notice["code"]: notice["message"] for notice in first(answer)["notices"]}


def test_a_number_beyond_any_float_is_refused_in_one_line(ask):
    for number in ("1" + 400 * "0", "1" + 5000 * "0"):
        answer = ask("--input", "-", stdin=f'{{"hardware": "nvidia-l4", "hours": {number}}}')
        assert (answer.exit_code, answer.stdout) == (2, "")
        assert len(answer.stderr.splitlines()) == 1
        assert isinstance(answer.exception, SystemExit)


@pytest.mark.parametrize(
    ("odd", "usual", "words"),
    [
        (  # 700 000 W over the rated 72 W are 9720 times
            "--power-w 700000",
            "--power-w 72",
            ["700 000 W a device are 9 720 times the rated 72 W of nvidia-l4", "power_w is per"],
        ),
        (  # 72 W x (1 + 0.82) x 2 are 262 W: 1 kWh in an hour is 1000 W
            "--energy-kwh 1",
            "--energy-kwh 0.2",
            ["1 000 W a device", "energy_kwh is of all IT equipment, in kWh"],
        ),
        ("--intensity-g-per-kwh 4000", "--intensity-g-per-kwh 400", ["no grid has"]),
    ],
)
def test_a_figure_far_from_what_can_be_is_named(ask, odd, usual, words):
    notes = notices(ask(*L4, "--hours", "1", *odd.split(), "--json"))["input-implausible"]
    assert [text for text in words if text not in notes] == []
    assert "input-implausible" not in notices(ask(*L4, "--hours", "1", *usual.split(), "--json"))


@pytest.mark.parametrize(
    ("asked", "flagged"),
    [
        (("--hours", "1e6"), True),
        (("--device-hours", "1e6", "--count", "8"), True),
        (("--device-hours", "1e6", "--count", "512"), False),
        (("--device-hours", "1e6"), False),  # of how many devices is not said
        (("--hours", "35040"), False),
        (("--hours", "1e6", "--lifetime-years", "50"), True),  # 438 000 h
    ],
)
def test_hours_beyond_the_life_of_the_part_are_named(ask, asked, flagged):
    notes = notices(ask(*L4, *asked, "--json"))
    assert ("lifetime-exceeded" in notes) == flagged


def test_hours_that_contradict_device_hours_are_refused(ask):
    said = ("--hours", "100", "--count", "8", "--device-hours")
    refused = ask(*L4, *said, "500")
    assert refused.exit_code == 2
    assert "100 hours on 8 devices are 800 device_hours, not 500" in refused.stderr
    assert ask(*L4, *said, "800").exit_code == 0
    instance = ("--instance", "aws:p4d.24xlarge", "--zone", "FR", "--hours", "1")
    assert ask(*instance, "--device-hours", "1").exit_code == 2
    assert ask(*instance, "--device-hours", "8").exit_code == 0


def test_a_unit_given_twice_is_refused(ask):
    twice = ask(*L4, "--hours", "1", "--unit", "token=1", "--unit", "token=2")
    assert twice.exit_code == 2
    assert "token is given more than once" in twice.stderr


def test_power_may_have_a_range(ask):
    """10 h at 40 (30 to 60) W are 0.4 (0.3 to 0.6) kWh."""
    by_flag = ask(*L4, "--hours", "10", "--no-host", "--power-w", "30,40,60", "--json")
    power = {"low": 30, "value": 40, "high": 60}
    document = {"hardware": "nvidia-l4", "zone": "FR", "hours": 10, "host": False}
    by_file = ask("--input", "-", "--json", stdin=json.dumps({**document, "power_w": power}))
    assert by_flag.stdout == by_file.stdout
    energy = first(by_file)["energy_kwh"]
    assert [energy[end] for end in ("low", "value", "high")] == pytest.approx([0.3, 0.4, 0.6])
    for wrong in ({"low": 50, "value": 40, "high": 60}, {"low": 1, "value": 2}, {"value": 3}):
        text = json.dumps({**document, "power_w": wrong})
        assert ask("--input", "-", stdin=text).exit_code == 2
    assert ask(*L4, "--hours", "1", "--power-w", "30,40").exit_code == 2
