"""`gramwatt job ID --set` and `gramwatt rm`, as people type them, and ids as they type them."""

import csv
import io
import json

import pytest

from gramwatt.collectors.settings.identity import user_id
from tests.journals import START
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, store_of

FIRST, SECOND, THIRD = (
    "20260510-080000-aaaaaaaaaaaa",
    "20260510-080000-abbbbbbbbbbb",
    "20260511-090000-cccccccccccc",
)


@pytest.fixture
def three(home):
    from datetime import timedelta

    with store_of(home) as service:
        for number, name in enumerate((FIRST, SECOND, THIRD)):
            about = {"zone": None, "units": (), "start": START + timedelta(hours=number)}
            add(service, name, **about)


def shown(name):
    return json.loads(gramwatt("job", name, "--json")[1])


def test_what_is_set_is_scored_at_once_and_shown_with_who(three):
    settings = ("zone=DE", "unit=image", "name=resnet 50", "pue=1.2", "tags.team=a=b")
    arguments = [part for text in settings for part in ("--set", text)]
    code, out, err = gramwatt("job", FIRST, *arguments)
    assert (code, err) == (0, "")
    assert "revision 2" in out
    assert f"zone DE, was not declared; {user_id()}, " in out
    found = shown(FIRST)
    assert (found["zone"], found["name"], found["conformance"]) == ("DE", "resnet 50", "conforming")
    assert found["tags"] == {"team": "a=b"}
    assert {row["by"] for row in found["corrections"]} == {user_id()}
    # 3 minutes at 600 W, 10 images a minute.
    assert [(row["unit"], row["count"]) for row in found["sci"]] == [("image", 30.0)]


def test_a_user_is_hashed_unless_names_are_allowed(three, monkeypatch):
    import pwd
    from os import getuid

    monkeypatch.setenv("GRAMWATT_ALLOW_HOST_NAMES", "1")
    gramwatt("job", FIRST, "--set", "zone=DE")
    (row,) = shown(FIRST)["corrections"]
    assert row["by"] == pwd.getpwuid(getuid()).pw_name
    assert pwd.getpwuid(getuid()).pw_name not in user_id()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("zone=Germny",), "--set zone: unknown zone 'Germny'; close matches: DE"),
        (("pue=0.5",), "--set pue: PUE 0.5 is outside 1 to 5"),
        (("pue=much",), "--set pue: "),
        (("unit=1x",), "--set unit: not a unit name"),
        (("colour=red",), "known: zone, region, unit, pue, name, project, tags, excluded"),
        (("zone",), "write FIELD=VALUE, such as --set zone=DE"),
        (("=DE",), "write FIELD=VALUE"),
        (("zone=DE", "zone=FR"), "--set zone is given more than once"),
        (("zone=DE", "region=aws:eu-west-1"), "give zone or region, not both"),
        (("excluded=true",), "give a reason"),
        (("excluded=perhaps",), "--set excluded: not true or false"),
        (("name=",), "--set name: a job always has one"),
    ],
)
def test_a_wrong_setting_is_wrong_usage_and_changes_nothing(three, settings, words):
    arguments = [part for text in settings for part in ("--set", text)]
    code, out, err = gramwatt("job", FIRST, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert shown(FIRST)["revision"] == 1


def test_an_empty_value_makes_a_field_undeclared(three):
    gramwatt("job", FIRST, "--set", "zone=DE", "--set", "tags.team=a")
    gramwatt("job", FIRST, "--set", "zone=", "--set", "tags.team=")
    found = shown(FIRST)
    assert (found["zone"], found["tags"], found["revision"]) == (None, {}, 3)


def test_a_job_is_left_out_of_months_with_a_reason_and_taken_back(three):
    reason = ("--set", "excluded=true", "--set", "reason=a broken meter")
    assert "Left out of months: a broken meter." in gramwatt("job", FIRST, *reason)[1]
    month = json.loads(report_month())
    assert [row["reason"] for row in month["excluded"]] == ["a broken meter"]
    assert month["totals"]["jobs"] == 2
    assert "left out" in gramwatt("jobs")[1]
    gramwatt("job", FIRST, "--set", "excluded=false")
    assert json.loads(report_month())["totals"]["jobs"] == 3


def report_month():
    from pathlib import Path

    assert gramwatt("report", "month", "2026-05", "--format", "json")[0] == 0
    return Path("2026-05.json").read_text()


@pytest.mark.parametrize("text", ["last", THIRD, THIRD[:9], "20260511-09"])
def test_a_job_is_named_by_last_or_the_beginning_of_its_id(three, text, tmp_path):
    assert shown(text)["job_id"] == THIRD
    code, out, _ = gramwatt("report", "job", text, "--format", "json", "-o", "out")
    assert (code, out) == (0, f"out/{THIRD}.json\n")
    assert gramwatt("report", "job", text, "--format", "csv")[0] == 0
    assert "Ratio" in gramwatt("compare", FIRST, text)[1]


def test_the_beginning_of_several_ids_names_them(three):
    code, out, err = gramwatt("job", "20260510")
    assert (code, out) == (2, "")
    assert err == f"gramwatt: '20260510' fits 2 jobs; say which: {SECOND}, {FIRST}\n"
    assert gramwatt("job", "20260510-080000-A")[0] == 1
    assert gramwatt("job", "20260510_")[0] == 1


def test_last_without_a_job_says_how_to_get_one(home):
    code, _, err = gramwatt("job", "last")
    assert (code, err.count("\n")) == (1, 1)
    assert "gramwatt run -- python train.py" in err


def test_the_listed_ids_are_accepted_and_no_longer_than_needed(three, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = [line.split()[0] for line in gramwatt("jobs")[1].splitlines()[1:4]]
    assert listed == ["20260511-090000", "20260510-080000-ab", "20260510-080000-aa"]
    assert [shown(name)["job_id"] for name in listed] == [THIRD, SECOND, FIRST]


def test_rm_asks_and_a_no_deletes_nothing(three):
    for answer in ("n\n", "\n", ""):
        code, out, err = gramwatt("rm", THIRD[:12], input=answer)
        assert (code, out.strip()) == (1, answer.strip())  # what was typed
        assert "nothing was deleted" in err
        assert THIRD in err
        assert "30.0 Wh" in err
    assert shown(THIRD)["job_id"] == THIRD


def test_rm_deletes_and_the_record_stays(three):
    code, out, _ = gramwatt("rm", THIRD[:12], input="y\n")
    assert (code, out) == (0, f" y\ndeleted {THIRD}\n")  # what was typed, and the answer
    assert gramwatt("rm", "last", "--yes")[:2] == (0, f"deleted {SECOND}\n")
    assert [job["job_id"] for job in json.loads(gramwatt("jobs", "--json")[1])["jobs"]] == [FIRST]
    for command in (("job",), ("report", "job"), ("report", "card"), ("rm", "--yes")):
        code, out, err = gramwatt(*command, THIRD)
        assert (code, out) == (1, "")
        assert err.startswith(f"gramwatt: job {THIRD!r} was deleted on 20")
        assert err.endswith(f" by {user_id()}\n")


def test_rm_of_an_unknown_job_is_exit_1(three):
    code, _, err = gramwatt("rm", "nothing", "--yes")
    assert code == 1
    assert "unknown job 'nothing'" in err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("count.token=0",), "--set count.token: R must be above zero"),
        (("count.token=-5",), "--set count.token: R must be above zero"),
        (("count.token=inf",), "--set count.token: R must be above zero"),
        (("count.token=many",), "--set count.token: not a number: 'many'"),
        (("count.1x=5",), "--set count.1x: not a unit name"),
        (("count.tokn=5",), "--set count.tokn: unknown unit 'tokn'; close matches: token"),
        (("count.Token=5",), "--set count.Token: unknown unit 'Token'; close matches: token"),
        (("count.Image=5",), "--set count.Image: unknown unit 'Image'; close matches: image"),
        (("unit=Token",), "--set unit: unknown unit 'Token'; close matches: token"),
        (("count.token=5", "count.token=6"), "--set token is given more than once"),
    ],
)
def test_a_count_without_a_meaning_is_refused_by_its_argument(three, settings, words):
    arguments = [part for text in settings for part in ("--set", text)]
    code, out, err = gramwatt("job", FIRST, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert shown(FIRST)["corrections"] == []


def test_a_declared_count_replaces_what_was_counted_with_who_and_when(three):
    """The job counted 30 images; 98 304 tokens and 15 images are declared, then taken back."""
    counted = shown(FIRST)
    total_g = counted["total_g"]["value"]
    code, out, _ = gramwatt("job", FIRST, "--set", "count.token=98304", "--set", "count.image=15")
    assert code == 0
    assert f"count.token 98304, was not declared; {user_id()}, " in " ".join(out.split())
    assert f"count.image 15, was 30; {user_id()}, " in out
    found = shown(FIRST)
    assert [(row["unit"], row["count"]) for row in found["sci"]] == [
        ("image", 15.0),
        ("token", 98304.0),
    ]
    assert found["sci"][1]["g_per_unit"]["value"] == pytest.approx(total_g / 98304)
    assert {row["kind"] for row in found["corrections"]} == {"declared"}
    gramwatt("job", FIRST, "--set", "count.token=", "--set", "count.image=")
    back = shown(FIRST)
    assert [(row["unit"], row["count"]) for row in back["sci"]] == [("image", 30.0)]


def test_a_declared_count_is_a_part_of_report_export_and_pack(three, tmp_path):
    gramwatt("job", FIRST, "--set", "count.image=15")
    assert gramwatt("report", "job", FIRST, "-o", str(tmp_path))[0] == 0
    [page] = tmp_path.glob("*.html")
    assert "count.image" in page.read_text("utf-8")
    code, table, _ = gramwatt("report", "job", FIRST, "--format", "csv", "-o", "-")
    [row] = [r for r in csv.DictReader(io.StringIO(table)) if r["figure"] == "count"]
    assert (code, row["unit"], float(row["value"])) == (0, "image", 15.0)
    bundle = str(tmp_path / "job.zip")
    assert gramwatt("evidence", "export", FIRST, "-o", bundle)[0] == 0
    assert gramwatt("evidence", "verify", bundle)[0] == 0
