"""Names of runs, by the variables of the systems that start them."""

from __future__ import annotations

import pytest

from gramwatt.collectors.settings.launches import job_id
from gramwatt.collectors.settings.orchestrators import run_name, run_tags

AIRFLOW = {
    "AIRFLOW_CTX_DAG_ID": "nightly",
    "AIRFLOW_CTX_TASK_ID": "train",
    "AIRFLOW_CTX_DAG_RUN_ID": "scheduled__2026-05-01T00:00:00+00:00",
    "AIRFLOW_CTX_TRY_NUMBER": "2",
    "AIRFLOW_CTX_DAG_OWNER": "ana",
}
METAFLOW = {
    "METAFLOW_FLOW_NAME": "Fit",
    "METAFLOW_RUN_ID": "17",
    "METAFLOW_STEP_NAME": "train",
    "METAFLOW_RETRY_COUNT": "1",
    "METAFLOW_USER": "ana",
}
FLYTE = {
    "FLYTE_INTERNAL_EXECUTION_PROJECT": "p",
    "FLYTE_INTERNAL_EXECUTION_DOMAIN": "dev",
    "FLYTE_INTERNAL_EXECUTION_ID": "abc",
    "FLYTE_INTERNAL_TASK_NAME": "flow.train",
    "FLYTE_ATTEMPT_NUMBER": "0",
}
GITHUB = {
    "GITHUB_REPOSITORY": "org/repo",
    "GITHUB_WORKFLOW": "bench",
    "GITHUB_JOB": "gpu",
    "GITHUB_RUN_ID": "99",
    "GITHUB_RUN_ATTEMPT": "3",
    "GITHUB_ACTOR": "ana",
    "GITHUB_SERVER_URL": "https://github.com",
}
GITLAB = {
    "CI_PROJECT_PATH": "org/repo",
    "CI_PIPELINE_ID": "5",
    "CI_JOB_ID": "77",
    "CI_JOB_NAME": "gpu",
    "CI_JOB_URL": "https://gitlab.com/org/repo/-/jobs/77",
    "GITLAB_USER_LOGIN": "ana",
}


@pytest.mark.parametrize(
    ("environ", "name", "run", "attempt", "link", "owner"),
    [
        (
            AIRFLOW,
            "nightly.train",
            "airflow:nightly/scheduled__2026-05-01T00:00:00+00:00/train",
            "2",
            None,
            "ana",
        ),
        (METAFLOW, "Fit.train", "metaflow:Fit/17/train", "1", None, "ana"),
        (FLYTE, "flow.train", "flyte:p/dev/abc", "0", None, None),
        ({"PREFECT__FLOW_RUN_ID": "f-1"}, "", "prefect:f-1", None, None, None),
        ({"KFP_RUN_ID": "r-1", "KFP_RUN_NAME": "mine"}, "mine", "kubeflow:r-1", None, None, None),
        ({"SKYPILOT_TASK_ID": "sky-1_c_1"}, "", "skypilot:sky-1_c_1", None, None, None),
        ({"RAY_JOB_ID": "02000000"}, "", "ray:02000000", None, None, None),
        (
            GITHUB,
            "bench.gpu",
            "github:org/repo/99/gpu",
            "3",
            "https://github.com/org/repo/actions/runs/99",
            "ana",
        ),
        (
            GITLAB,
            "org/repo.gpu",
            "gitlab:org/repo/5/77",
            None,
            "https://gitlab.com/org/repo/-/jobs/77",
            "ana",
        ),
    ],
)
def test_a_run_gives_name_id_attempt_link_and_owner(environ, name, run, attempt, link, owner):
    assert run_name(environ) == name
    wanted = {"run": run, "attempt": attempt, "link": link, "user": owner}
    assert run_tags(environ, allow_names=True) == {k: v for k, v in wanted.items() if v}


def test_the_innermost_decides_and_a_half_set_one_is_none():
    assert run_tags({**GITHUB, **AIRFLOW})["run"].startswith("airflow:")
    del_one = {key: text for key, text in AIRFLOW.items() if key != "AIRFLOW_CTX_DAG_RUN_ID"}
    assert run_tags({**GITHUB, **del_one})["run"].startswith("github:")
    assert run_tags({}) == {}


@pytest.mark.parametrize("environ", [AIRFLOW, METAFLOW, FLYTE, GITHUB, GITLAB])
def test_two_tries_of_a_run_are_two_jobs(environ):
    """The id of most runs stays when they are tried again, so no job's id is made of it."""
    (first, origin), (second, _) = job_id(environ=environ), job_id(environ=environ)
    assert origin == "new"
    assert first != second
