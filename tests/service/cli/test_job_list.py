"""The list of jobs: one line each at any width, whatever the names, and what is to be done."""

import json
import re
import unicodedata
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from gramwatt.sci.figures.document import JobHead
from gramwatt.service.cli.job_list import job_rows
from gramwatt.service.jobs.ingest import ingest
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, client_of, store_of

ID = "202605{day:02}-080000-{n:012x}"


@pytest.fixture
def every_sort(home):
    """A job without a zone, a failed one, a lost one of several units, and a running one."""
    about = [
        {"name": "train.py", "zone": None, "units": (), "minutes": 1},
        {"name": "模型" * 20, "end_state": "failed", "tags": {"team": "vision"}},
        {"name": "\x1b[31mred\nline", "end_state": "lost", "minutes": 90, "zone": "DE"},
        {"name": "at work", "end_state": None, "tags": {"run": "7"}},
    ]
    with store_of(home) as service:
        for n, more in enumerate(about):
            job_id = ID.format(day=10 + n, n=n)
            add(service, job_id, start=START + timedelta(days=n), **more)
    return home


def test_one_line_a_job_with_its_length_energy_and_score_at_80_columns(every_sort, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    title, running, lost, failed, placeless, *rest = gramwatt("jobs")[1].splitlines()
    assert title.split() == ["Job", "Name", "State", "Time", "Energy", "CO2e"]
    assert running.split()[:4] == ["20260513-080000", "at", "work", "run=7"]
    assert re.search(r" running +[0-9.]+ (d|h) +30\.0 Wh +-$", running)
    # 90 minutes at 600 W are 0.9 kWh.
    assert "lost" in lost
    assert "90 min" in lost
    assert "900 Wh" in lost
    assert "[31mred line" in lost
    assert re.search(r" failed +3 min +30\.0 Wh ", failed)
    assert "模型模型" in failed
    assert "…" in failed
    assert re.search(r"[0-9] m?g\*$", placeless)
    assert [cell_len(line) <= 80 for line in (title, running, lost, failed, placeless)] == [
        True
    ] * 5
    assert rest[0] == ""
    assert "its grid zone is not known" in rest[1]
    assert rest[2] == "  gramwatt job 20260510-080000 --set zone=DE"
    assert len(rest) == 3


def test_the_remedy_of_the_list_is_one(every_sort, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    remedy = gramwatt("jobs")[1].splitlines()[-1].split()
    assert gramwatt(*remedy[1:])[0] == 0
    assert "*" not in gramwatt("jobs")[1]


def test_a_wide_terminal_shows_every_column(every_sort, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    title = gramwatt("jobs")[1].splitlines()[0]
    assert title.split() == ["Job", "Name", "State", "Started", "Time", "Energy", "CO2e", "SCI"]
    assert "05-11 08:00" in gramwatt("jobs")[1]


def test_a_name_without_a_completed_run_means_its_newest(every_sort):
    assert gramwatt("job", "at work")[1].startswith("at work: ")


def test_a_narrow_terminal_keeps_id_name_and_carbon(every_sort, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    title, running, *_ = gramwatt("jobs")[1].splitlines()
    assert title.split() == ["Job", "Name", "CO2e"]
    assert running.startswith("20260513-080000  at work run")


def test_a_pipe_gets_whole_names_and_every_column(every_sort, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    title, *rows = gramwatt("jobs")[1].splitlines()
    assert title.split() == ["Job", "Name", "State", "Started", "Time", "Energy", "CO2e", "SCI"]
    assert "模型" * 20 in rows[2]


def test_more_jobs_than_asked_for_are_said_beside_the_list(every_sort):
    code, out, err = gramwatt("jobs", "--limit", "3")
    assert code == 0
    assert len([line for line in out.splitlines() if line.startswith("2026")]) == 3
    cursor = err.split()[-1]
    assert "20260510-080000" in gramwatt("jobs", "--cursor", cursor)[1]


def test_a_job_shows_its_windows_and_what_was_declared(home):
    from tests.service.jobs.intake.test_windows import with_window

    with store_of(home) as service:
        ingest(service, "job-1", lines(with_window(journal(zone=None))))
    out = gramwatt("job", "job-1")[1]
    # A minute of 600 W, and 12 images in it.
    assert re.search(r"^Window +epoch-1, (60 s|1 min 0 s)", out, re.MULTILINE)
    assert "10.0 Wh" in out
    assert "J/image" in out
    assert "gramwatt job job-1 --set zone=DE" in out
    gramwatt("job", "job-1", "--set", "zone=DE", "--set", "reason=forgotten")
    out = gramwatt("job", "job-1")[1]
    declared = r"^Declared +zone DE, was not declared; u-[^(]+\(forgotten\)$"
    assert re.search(declared, out, re.MULTILINE)
    assert "--set zone=DE" not in out


HEAD = json.loads(
    """{"job_id": "", "name": "", "project": "p", "kind": "training", "state": "completed",
    "exit_code": 0, "started_at": "2026-05-10T08:00:00.000000Z", "ended_at": null,
    "duration_s": null, "zone": "DE", "region": null, "revision": 1, "provisional": false,
    "energy_kwh": null, "operational_g": null, "embodied_g": null, "total_g": null, "sci": [],
    "conformance": "conforming", "deviations": [], "tags": {}, "excluded": null}"""
)


@settings(deadline=None, max_examples=200)
@given(
    names=st.lists(st.text(max_size=60), min_size=1, max_size=5),
    tags=st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=30), max_size=3),
    seconds=st.none() | st.floats(0, 1e9),
    width=st.integers(35, 160),
)
def test_no_name_breaks_or_widens_the_list(names, tags, seconds, width):
    heads = [
        {**HEAD, "job_id": f"{n:012}", "name": name, "tags": tags, "duration_s": seconds}
        for n, name in enumerate(names)
    ]
    heads = msgspec.convert(heads, list[JobHead])
    rows = job_rows(heads, {head.job_id: head.job_id for head in heads}, width)
    assert len(rows) == 1 + len(names)
    assert max(map(cell_len, rows)) <= width
    assert {"Cc", "Cs", "Zl", "Zp"}.isdisjoint(map(unicodedata.category, "".join(rows)))


def test_the_same_filters_and_orders_as_the_api(every_sort):
    def names(*options):
        code, out, _ = gramwatt("jobs", "--json", *options)
        assert code == 0
        return [job["name"][:7] for job in json.loads(out)["jobs"]]

    assert names("--tag", "team:vision") == ["模型模型模型模"]
    assert names("--tag", "team=vision") == ["模型模型模型模"]
    assert names("--tag", "team:vision", "--tag", "run:7") == []
    assert names("--zone", "DE", "--kind", "training") == ["\x1b[31mre"]
    assert names("--since", "2026-05-13") == ["at work"]
    assert names("--until", "2026-05-11") == ["train.p"]
    assert names("--hardware", "nvidia-h100-sxm5-80", "--sort", "duration", "--limit", "1") == [
        "train.p"
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sort", "colour"), "--sort is 'colour', not one of started_at, -started_at, ended_at"),
        (("--kind", "x"), "--kind is 'x', not one of training"),
        (("--since", "yesterday"), "--since is 'yesterday', not a time like 2026-05-01T08:00:00Z"),
        (("--tag", "team"), "--tag is 'team', not a tag; write key=value, such as team=vision"),
    ],
)
def test_a_filter_without_meaning_is_named(every_sort, options, said):
    code, out, err = gramwatt("jobs", *options)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "many"),
        ("since", "yesterday"),
        ("state", "asleep"),
        ("tag", "team"),
        ("name", ""),
        ("sort", "colour"),
    ],
)
def test_an_option_and_a_parameter_of_one_name_refuse_with_one_sentence(every_sort, name, value):
    with store_of(every_sort) as service:
        answer = client_of(service).get("/v1/jobs", query_string={name: value})
    (problem,) = answer.json["errors"]
    assert gramwatt("jobs", f"--{name}", value) == (
        2,
        "",
        f"gramwatt: --{name} {problem['message']}\n",
    )
