"""Slurm's accounting in JSON as its schema has it: what counts, what is unknown, and sums."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from gramwatt.service.clusters.sacct import (
    NotSacctError,
    expanded,
    import_sacct,
    number,
    read_attempts,
)
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.store.models import Job
from tests.journals import H100, Writer, lines
from tests.service.cli.command import gramwatt

START = datetime(2026, 5, 1, 8, tzinfo=UTC)
NO_VAL64, INFINITE64 = 2**64 - 2, 2**64 - 1


def wrapped(value: float | None) -> dict[str, Any]:
    """A number as data_parser 0.0.42 and later write optional ones."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def row(
    number_: int,
    nodes: str = "n1",
    *,
    energy: Any = 3_600_000,
    start_s: int = 0,
    length_s: int = 3600,
    state: str = "COMPLETED",
    **more: Any,
) -> dict[str, Any]:
    start = int(START.timestamp()) + start_s
    allocated = [{"type": "cpu", "name": "", "id": 1, "count": 64}]
    if energy is not None:
        allocated.append({"type": "energy", "name": "", "id": 3, "count": energy})
    return {
        "job_id": number_,
        "cluster": "c",
        "account": "bio",
        "name": "train",
        "partition": "gpu",
        "nodes": nodes,
        "array": {"job_id": 0, "task_id": wrapped(None)},
        "het": {"job_id": 0, "job_offset": wrapped(None)},
        "restart_cnt": 0,
        "state": {"current": [state], "reason": "None"},
        "exit_code": {"return_code": wrapped(3 if state == "FAILED" else 0)},
        "time": {"start": start, "end": start + length_s, "elapsed": length_s},
        "tres": {"allocated": allocated},
        "steps": [],
        **more,
    }


def step(name: str, consumed: Any) -> dict[str, Any]:
    return {
        "step": {"id": f"1.{name}", "name": name},
        "statistics": {"energy": {"consumed": consumed}},
    }


@pytest.fixture
def taken(light, tmp_path):
    """Import rows; return the answer and the documents by job."""

    def take(*rows: Any, nodes: str | None = None, **more: Any) -> tuple[Any, dict[str, Any]]:
        (tmp_path / "sacct.json").write_text(json.dumps({"jobs": rows, "meta": {}}))
        table = tmp_path / "nodes.csv"
        if nodes is not None:
            table.write_text(f"node,start_utc,end_utc,energy_j\n{nodes}")
            more["nodes"] = table
        answer = import_sacct(light, tmp_path / "sacct.json", **more)
        with light.store.read() as session:
            ids = session.scalars(sa.select(Job.job_id)).all()
        return answer, {name: job_document(light, name).document for name in ids}

    return take


def joules(document: Any) -> float | None:
    energy = document["energy_kwh"]
    return None if energy is None else energy["value"] * 3.6e6


def test_the_jobs_own_row_counts_and_steps_are_never_added(taken):
    steps = [step("batch", wrapped(3_500_000)), step("0", wrapped(3_400_000))]
    answer, jobs = taken(row(1, steps=steps))
    document = jobs["sacct-c-1"]
    assert answer["imported"] == ["sacct-c-1"]
    assert joules(document) == pytest.approx(3_600_000)
    assert document["energy_kwh"]["kind"] == "measured"
    assert (document["duration_s"], document["tags"]["slurm_account"]) == (3600, "bio")
    assert [window["name"] for window in document["windows"]] == ["attempt 0"]


@pytest.mark.parametrize("energy", [None, NO_VAL64, INFINITE64, 2**63, 0, wrapped(None)])
def test_what_is_unknown_stays_unknown(taken, energy):
    answer, jobs = taken(row(1, energy=energy, nodes="n[1-2]", steps=[step("batch", 5000)]))
    assert answer["energy_unknown"] == 1
    assert joules(jobs["sacct-c-1"]) is None
    assert "energy-unmeasured" in {n["code"] for n in jobs["sacct-c-1"]["notices"]}


@pytest.mark.parametrize("consumed", [900_000, wrapped(900_000)])
def test_the_batch_step_stands_in_on_one_node_only(taken, consumed):
    steps = [step("batch", consumed), step("0", 800_000)]
    _, jobs = taken(row(1, energy=NO_VAL64, steps=steps))
    assert joules(jobs["sacct-c-1"]) == pytest.approx(900_000)


def test_jobs_that_share_a_node_have_no_energy_of_their_own(taken):
    half = {"start_s": 1800, "length_s": 3600}
    answer, jobs = taken(row(1), row(2, **half), row(3, nodes="n2"), row(4, start_s=5400))
    assert answer["shared"] == 2
    known = {name: joules(document) for name, document in jobs.items()}
    assert known == {
        "sacct-c-1": None,
        "sacct-c-2": None,
        "sacct-c-3": pytest.approx(3_600_000),
        "sacct-c-4": pytest.approx(3_600_000),
    }


def test_jobs_and_rests_add_up_to_the_nodes(taken):
    """0.1 % is promised; it is exact but for the rounding of times."""
    nodes = "".join(
        f"n{n},2026-05-01T07:00:00Z,2026-05-01T11:00:00Z,{joules}\n"
        for n, joules in ((1, 9_000_000), (2, 5_000_000), (3, 1_000_000))
    )
    rows = (row(1, "n[1-2]", energy=6_000_000), row(2, "n1", start_s=4000), row(3, "n3", energy=0))
    answer, jobs = taken(*rows, nodes=nodes)
    # The third node's energy is that of a job of which Slurm knows none, so no job of ours.
    assert sum(filter(None, map(joules, jobs.values()))) == pytest.approx(14_000_000, rel=1e-3)
    assert [rest["unknown_jobs"] for rest in answer["rest"]] == [0, 0, 1]
    assert answer["rest"][2]["job_id"] is None
    assert all(
        rest["jobs_j"] + rest["rest_j"] == pytest.approx(rest["energy_j"])
        for rest in answer["rest"]
    )
    rests = {rest["node"]: rest["rest_j"] for rest in answer["rest"]}
    assert rests == pytest.approx({"n1": 2_400_000, "n2": 2_000_000, "n3": 1_000_000})
    [first] = [d for name, d in jobs.items() if name == answer["rest"][0]["job_id"]]
    assert joules(first) == pytest.approx(2_400_000)


def test_a_node_with_less_than_its_jobs_is_said_and_makes_no_job(taken):
    nodes = "n1,2026-05-01T08:00:00Z,2026-05-01T09:00:00Z,3000000\n"
    answer, jobs = taken(row(1), nodes=nodes)
    assert answer["rest"][0]["rest_j"] == pytest.approx(-600_000)
    assert list(jobs) == ["sacct-c-1"]


def test_a_requeued_job_is_one_with_its_attempts(taken):
    again = row(1, nodes="n2", start_s=7200, energy=1_800_000, restart_cnt=1)
    _, jobs = taken(row(1, state="NODE_FAIL"), again)
    [document] = jobs.values()
    windows = {w["name"]: w["energy_j"]["value"] for w in document["windows"]}
    assert windows == pytest.approx({"attempt 0": 3_600_000, "attempt 1": 1_800_000})
    assert joules(document) == pytest.approx(5_400_000)


def test_an_array_task_and_a_component_keep_slurms_numbers(taken):
    array = {"job_id": 90, "task_id": wrapped(7)}
    _, jobs = taken(row(97, array=array), row(5, nodes="n2", het={"job_id": 4, "job_offset": 1}))
    assert jobs["sacct-c-97"]["tags"]["slurm"] == "90_7"
    assert jobs["sacct-c-5"]["tags"]["slurm_het"] == "4"


def test_importing_again_changes_nothing_and_accounts_have_projects(taken):
    project_of = {"bio": "genomics"}.get
    first, _ = taken(row(1), row(2, state="RUNNING", nodes="n2"), project_of=project_of)
    again, jobs = taken(row(1), project_of=project_of)
    assert (first["running"], again["imported"], again["duplicate"]) == (1, [], 1)
    assert (jobs["sacct-c-1"]["project"], jobs["sacct-c-1"]["revision"]) == ("genomics", 1)


def test_what_the_jobs_own_meter_has_of_a_node_is_left_out(taken, light):
    """Half an hour of the job was measured by gramwatt: the other half is Slurm's."""
    from gramwatt.service.jobs.intake.ingest import ingest

    w = Writer("w", "n-9", "own", t0=START)
    ids = {"slurm_cluster": "c", "slurm_job_id": "1", "slurm_node": "0"}
    own = [
        w.job(scheduler=ids, tags={"slurm": "1"}),
        w.device("GPU-1", name=H100["name"]),
        w.interval(0, 1800, 500_000, "GPU-1"),
        w.end(1800),
    ]
    ingest(light, "own", lines(own))
    _, jobs = taken(row(1), row(2, nodes="n2"))
    assert joules(jobs["sacct-c-1"]) == pytest.approx(1_800_000)
    assert joules(jobs["sacct-c-2"]) == pytest.approx(3_600_000)
    [text] = [
        n["message"] for n in jobs["sacct-c-1"]["notices"] if n["code"] == "counted-elsewhere"
    ]
    assert text.startswith("1800000 J (0.5 kWh) that sacct reported of 1 device")


def test_a_job_of_several_days_is_cut_at_days(taken):
    _, jobs = taken(row(1, length_s=200_000, energy=200_000_000))
    assert joules(jobs["sacct-c-1"]) == pytest.approx(200_000_000)
    assert jobs["sacct-c-1"]["ended_at"] == (
        START + timedelta(seconds=200_000)
    ).isoformat().replace("+00:00", ".000000Z")


@pytest.mark.parametrize(
    ("value", "found"),
    [(5, 5), (wrapped(5), 5), (wrapped(None), None), (NO_VAL64, None), (True, None), ("5", None),
     ({"set": True, "infinite": True, "number": 0}, None), (None, None)],
)  # fmt: skip
def test_numbers(value, found):
    assert number(value) == found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[01-03,7],gpu1", ["n01", "n02", "n03", "n7", "gpu1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_lists_of_nodes(text, names):
    assert expanded(text) == names


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"jobs": [{"time": 3}]}', '{"jobs": 3}'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    if text.startswith('{"jobs": [{'):
        assert read_attempts(tmp_path / "x.json") == ([], 1)
        return
    with pytest.raises(NotSacctError, match="no output of sacct --json"):
        read_attempts(tmp_path / "x.json")


def test_the_command_says_what_it_did(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRAMWATT_PROJECTS", "account:bio=genomics")
    monkeypatch.setenv("GRAMWATT_ZONE", "FR")
    (tmp_path / "a.json").write_text(json.dumps({"jobs": [row(1), row(2, "n2", energy=None)]}))
    code, out, err = gramwatt("import", "sacct", str(tmp_path / "a.json"))
    assert (code, err) == (0, "")
    assert out == "imported 2 jobs, 1 without energy in the accounting\n"
    code, out, _ = gramwatt("job", "sacct-c-1", "--json")
    assert code == 0
    assert (json.loads(out)["project"], json.loads(out)["zone"]) == ("genomics", "FR")
