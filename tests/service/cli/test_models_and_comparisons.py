"""All runs of a model, and two jobs side by side, as command and route show them."""

import json
import re
from datetime import UTC, datetime

import pytest

from gramwatt.service.app import create_app
from gramwatt.service.config import from_environment
from gramwatt.service.container import Service
from gramwatt.service.jobs.local_spool import open_store
from gramwatt.service.store.columns import read_job, split_job
from gramwatt.service.store.models import Job, Score
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, client_of, store_of

RUNS = {
    "job-a": {"model_id": "m-1", "pue": 1.2},
    "job-b": {"model_id": "m-1", "pue": 1.2, "end_state": "killed"},
    "job-c": {"model_id": "m-1", "pue": 1.2, "kind": "inference"},
    "job-d": {"pue": 1.2, "power_w": 100.0},
    "job-e": {"pue": 1.2, "tags": {"convert.image": "2 picture; by definition; 2026"}},
}


@pytest.fixture
def jobs(home):
    with store_of(home) as service:
        for name, about in RUNS.items():
            add(service, name, **about)
        add(service, "job-f", model_id="m-1", end_state=None)
    return home


def test_the_runs_of_a_model_and_their_sums(jobs):
    code, out, err = gramwatt("jobs", "--model-id", "m-1", "--json")
    page = json.loads(out)
    assert (code, err) == (0, "")
    assert {job["job_id"] for job in page["jobs"]} == {"job-a", "job-b", "job-c", "job-f"}
    made, used = page["model"]["parts"]
    one = json.loads(gramwatt("job", "job-a", "--json")[1])["total_g"]["value"]
    assert made["states"] == {"completed": 1, "killed": 1}
    assert made["total_g"]["value"] == pytest.approx(2 * one)
    # Each run counts 30 images: 2 C / 60.
    assert made["sci"][0]["g_per_unit"]["value"] == pytest.approx(one / 30)
    assert (used["persona"], used["jobs"]) == ("consumer", 1)
    assert page["model"]["missing"] == ["runs without a score yet, or not ended: 1"]
    text = gramwatt("jobs", "--model-id", "m-1")[1]
    assert "2 runs (1 completed, 1 killed)" in text
    assert "runs without a score yet, or not ended: 1" in text


def test_without_a_model_the_answer_has_its_two_fields_only(jobs):
    assert set(json.loads(gramwatt("jobs", "--json")[1])) == {"jobs", "next_cursor"}


def test_the_route_answers_the_same(jobs):
    asked = (
        create_app(Service.open(from_environment()))
        .test_client()
        .get("/v1/jobs?model_id=m-1&limit=1")
    )
    assert asked.status_code == 200
    assert len(asked.json["jobs"]) == 1
    out = gramwatt("jobs", "--model-id", "m-1", "--json")[1]
    assert asked.json["model"] == json.loads(out)["model"]
    nobody = (
        create_app(Service.open(from_environment())).test_client().get("/v1/jobs?model_id=m-2").json
    )
    assert (nobody["jobs"], nobody["model"]["parts"]) == ([], [])


def test_two_jobs_side_by_side(jobs):
    code, out, err = gramwatt("compare", "job-a", "job-d", "--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    effects = answer["effects_g_per_unit"]
    assert sum(effects.values()) == pytest.approx(answer["change_g_per_unit"])
    before, after = (answer[side]["g_per_unit"]["value"] for side in ("before", "after"))
    assert answer["change_g_per_unit"] == pytest.approx(after - before)
    # Same time, same place, a sixth of the power: all of it is energy.
    assert effects["energy"] == pytest.approx(answer["change_g_per_unit"])
    text = gramwatt("compare", "job-a", "job-d")[1]
    assert " ".join(text.split()).startswith(answer["text"])
    assert re.findall("by (energy|intensity|PUE|embodied)", text) == ["energy"]  # others: nothing
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "job job-a\n" in text


def test_annual_values_of_other_hours_compare_at_equal_intensity_and_say_so(home):
    """Noon and evening of June in California: 0.7 of the energy is not less carbon for certain.

    By the traces noon usually has 0.62 of the annual value and the evening 1.25.
    """
    service = open_store(home)
    for name, hour, power_w in (
        ("noon-1", 19, 600.0), ("noon-2", 19, 600.0), ("same", 19, 420.0), ("evening", 3, 420.0)
    ):  # fmt: skip
        start = datetime(2026, 6, 10, hour, tzinfo=UTC)
        about = {"zone": "US-CAL-CISO", "pue": 1.2, "power_w": power_w, "start": start}
        add(service, name, **about)
    client = client_of(service)
    unknown = "whether carbon differs is not known without hourly intensity"
    for after, equal in (("evening", True), ("same", False)):
        found = json.loads(gramwatt("compare", "noon-1,noon-2", after, "--json")[1])
        assert found["verdict"] == "lower"
        assert found["compares"] == ("equal-intensity" if equal else "carbon")
        page = client.get(f"/compare?before=noon-1+noon-2&after={after}").text
        assert ("Less carbon at equal grid intensity." in page) is equal
        assert ("have only the grid's annual mean" in page) is equal
        texts = [
            gramwatt("compare", "noon-1,noon-2", after)[1],
            gramwatt("compare", "noon-1,noon-2", after, "--fail-above", "0")[1],
        ]
        for text in texts:
            words = " ".join(text.split())
            assert ("at annual grid intensity" in words, unknown in words) == (equal, equal)
        assert ["  by hour" in text for text in texts[:1]] == [equal]
    service.store.close()


def test_repeated_runs_against_each_other_as_command_and_route(jobs):
    code, out, err = gramwatt("compare", "job-a,job-b", "job-d", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [run["job_id"] for run in found["before"]["runs"]] == ["job-a", "job-b"]
    # 2 x 30 images at 600 W for 3 minutes against 30 at 100 W; both halves have the same hardware.
    assert (found["before"]["count"], found["after"]["count"]) == (60, 30)
    assert sum(found["effects_g_per_unit"].values()) == pytest.approx(found["change_g_per_unit"])
    assert (found["verdict"], found["moved"]) == ("lower", "energy per unit")
    client = create_app(Service.open(from_environment())).test_client()
    route = "/v1/comparisons?before=job-a&before=job-b&after=job-d"
    assert client.get(route).json == found
    assert client.get(route.replace("comparisons", "comparisons.json")).json == found
    page = client.get(route.replace("comparisons", "comparisons.html"))
    assert (page.status_code, page.mimetype) == (200, "text/html")
    assert "job-b, revision 1" in page.text
    accepted = client.get(route, headers={"Accept": "application/pdf"})
    assert accepted.data.startswith(b"%PDF")
    tag = {"If-None-Match": accepted.headers["ETag"], "Accept": "application/pdf"}
    assert client.get(route, headers=tag).status_code == 304
    refused = client.get("/v1/comparisons?before=job-a&after=job-e")
    assert (refused.status_code, refused.json["code"]) == (409, "not-comparable")
    assert client.get("/v1/comparisons?before=job-a").status_code == 422
    assert client.get("/v1/comparisons?before=job-a&after=job-z").json["code"] == "unknown-job"
    text = gramwatt("compare", "job-a,job-b", "job-d")[1]
    assert "2 runs, 0.0% apart" in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("energy", [1.0, 1.5])
def test_a_score_that_todays_engine_makes_again_is_compared_with_newer_ones(jobs, energy):
    # As a release with another engine left it.
    with store_of(jobs) as service, service.store.write() as session:
        score = session.query(Score).join(Job).filter(Job.job_id == "job-a").one()
        document = read_job(score.doc, score.series)
        document.method.engine_version = score.engine_version = "0"
        document.energy_kwh = document.energy_kwh.scaled(energy)
        score.doc, score.series = split_job(document)
    for options in ((), ("--fail-above", "0%")):
        code, out, err = gramwatt("compare", "job-a", "job-d", *options)
        if energy == 1.0:
            assert (code, err) == (0, "")
        else:  # scored again it would be another revision
            assert (code, out) == (1, "")
            assert "the engine's version differs" in err
    assert json.loads(gramwatt("job", "job-a", "--json")[1])["method"]["engine_version"] == "0"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("job-a,job-b", "job-d", "--fail-above", "5%"), 0, "passed: Carbon per"),
        (("job-a,job-d", "job-b", "--fail-above", "0"), 0, "passed: No reliable difference"),
        (("job-d", "job-a,job-b", "--fail-above", "5%"), 1, "failed: Carbon per"),
        (("job-d", "job-a,job-b", "--fail-above", "1e5"), 0, "passed: Carbon per"),
        # One run a side, and nothing tells how far runs lie apart.
        (("job-d", "job-a", "--fail-above", "0"), 0, "unknown: Whether carbon per unit differs"),
        (("job-d", "job-a", "--fail-above", "0", "--strict"), 1, "failed: Whether carbon per unit"),
        (("job-a", "job-e"), 1, "has no 'image'; it has picture"),
        (("job-d", "job-a", "--unit", "token"), 1, "has no 'token'; it has image"),
        (("job-a", "job-z"), 1, "unknown job 'job-z'"),
        (("job-d", "job-a", "--strict"), 2, "--fail-above"),
        (("job-d", "job-a", "--fail-above", "much"), 2, "such as 5%"),
        (("job-d", "job-a", "--fail-above", "-1"), 2, "such as 5%"),
        ((",", "job-a"), 2, "names no job"),
    ],
)
def test_a_comparison_fails_only_where_the_increase_is_above_the_limit_for_certain(
    jobs, arguments, code, said
):
    done, out, err = gramwatt("compare", *arguments)
    assert done == code
    assert said in out + err


def test_a_comparison_is_of_the_newest_job_unless_another_is_named(jobs):
    named = gramwatt("compare", "job-a", "last", "--json")
    assert gramwatt("compare", "job-a", "--json") == named


def test_a_name_stands_for_its_newest_five_completed_runs(home):
    with store_of(home) as service:
        for number in range(8):
            start = datetime(2026, 5, 1 + number, tzinfo=UTC)
            state = "failed" if number == 7 else "completed"
            about = {"name": "resnet", "start": start, "end_state": state}
            add(service, f"run-{number}", **about)
            add(service, f"amp-{number}", name="amp", power_w=100.0)
    answer = json.loads(gramwatt("compare", "resnet", "amp", "--json")[1])
    runs = [run["job_id"] for run in answer["before"]["runs"]]
    assert runs == ["run-6", "run-5", "run-4", "run-3", "run-2"]
    assert (len(answer["after"]["runs"]), answer["verdict"]) == (5, "lower")
    assert json.loads(gramwatt("job", "resnet", "--json")[1])["job_id"] == "run-6"
    assert json.loads(gramwatt("job", "run-7", "--json")[1])["state"] == "failed"


def test_the_report_of_a_comparison_has_every_run_and_the_effects(jobs, tmp_path):
    done = gramwatt("report", "comparison", "job-a,job-b", "job-d", "-o", "out")
    assert done == (0, "out/comparison.html\nout/comparison.pdf\n", "")
    page = (tmp_path / "out/comparison.html").read_text()
    for text in ("job-a, revision 1", "job-b, revision 1", "job-d, revision 1", "Energy per unit"):
        assert text in page
    found = json.loads(gramwatt("compare", "job-a,job-b", "job-d", "--json")[1])
    assert found["text"] in page
    assert (tmp_path / "out/comparison.pdf").read_bytes().startswith(b"%PDF-")
