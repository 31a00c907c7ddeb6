"""What runs a command, by the variables that it sets: the run's name, id, owner, attempt and link.

One table, and no id of a job follows from it: a run that is tried again keeps its id in most of
these systems, and each try is a job of its own, with the run and the attempt as tags
(docs/orchestrators.md).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gramwatt.collectors.common.identity import hashed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Orchestrator(NamedTuple):
    """A system and its variables: templates of `{VARIABLE}`, empty where it says nothing.

    It is there where every variable of `run` is set.
    """

    system: str
    run: str
    name: str = ""
    owner: str = ""
    attempt: str = ""
    link: str = ""


_FLYTE = "FLYTE_INTERNAL_EXECUTION"
ORCHESTRATORS = (
    Orchestrator(
        "airflow",
        "{AIRFLOW_CTX_DAG_ID}/{AIRFLOW_CTX_DAG_RUN_ID}/{AIRFLOW_CTX_TASK_ID}",
        "{AIRFLOW_CTX_DAG_ID}.{AIRFLOW_CTX_TASK_ID}",
        "{AIRFLOW_CTX_DAG_OWNER}",
        "{AIRFLOW_CTX_TRY_NUMBER}",
    ),
    Orchestrator(
        "metaflow",
        "{METAFLOW_FLOW_NAME}/{METAFLOW_RUN_ID}/{METAFLOW_STEP_NAME}",
        "{METAFLOW_FLOW_NAME}.{METAFLOW_STEP_NAME}",
        "{METAFLOW_USER}",
        "{METAFLOW_RETRY_COUNT}",
    ),
    Orchestrator(
        "flyte",
        f"{{{_FLYTE}_PROJECT}}/{{{_FLYTE}_DOMAIN}}/{{{_FLYTE}_ID}}",
        "{FLYTE_INTERNAL_TASK_NAME}",
        attempt="{FLYTE_ATTEMPT_NUMBER}",
    ),
    Orchestrator("prefect", "{PREFECT__FLOW_RUN_ID}"),
    Orchestrator("kubeflow", "{KFP_RUN_ID}", "{KFP_RUN_NAME}"),
    Orchestrator("skypilot", "{SKYPILOT_TASK_ID}"),
    Orchestrator("ray", "{RAY_JOB_ID}"),
    Orchestrator(
        "github",
        "{GITHUB_REPOSITORY}/{GITHUB_RUN_ID}/{GITHUB_JOB}",
        "{GITHUB_WORKFLOW}.{GITHUB_JOB}",
        "{GITHUB_ACTOR}",
        "{GITHUB_RUN_ATTEMPT}",
        "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}",
    ),
    Orchestrator(
        "gitlab",
        "{CI_PROJECT_PATH}/{CI_PIPELINE_ID}/{CI_JOB_ID}",
        "{CI_PROJECT_PATH}.{CI_JOB_NAME}",
        "{GITLAB_USER_LOGIN}",
        link="{CI_JOB_URL}",
    ),
)
"""The innermost first: a CI job may run a flow, and not the other way round."""
_VARIABLE = re.compile(r"\{(\w+)\}")


def run_name(environ: Mapping[str, str]) -> str:
    """Return the name that what runs this command has for it; empty without."""
    system = _system_of(environ)
    return _filled(system.name, environ) if system else ""


def run_tags(environ: Mapping[str, str], *, allow_names: bool = False) -> dict[str, str]:
    """Return the tags of the run around a command: `run`, `attempt`, `link` and `user`.

    The owner is a person, so hashed unless names are allowed.
    """
    system = _system_of(environ)
    if system is None:
        return {}
    owner = _filled(system.owner, environ)
    tags = {
        "run": f"{system.system}:{_filled(system.run, environ)}",
        "attempt": _filled(system.attempt, environ),
        "link": _filled(system.link, environ),
        "user": owner if allow_names or not owner else hashed("u-", owner),
    }
    return {name: text[:512] for name, text in tags.items() if text}


def _system_of(environ: Mapping[str, str]) -> Orchestrator | None:
    return next((system for system in ORCHESTRATORS if _filled(system.run, environ)), None)


def _filled(template: str, environ: Mapping[str, str]) -> str:
    """Return a template with its variables; empty where one of them is not set."""
    names = _VARIABLE.findall(template)
    if not all(environ.get(name) for name in names):
        return ""
    return _VARIABLE.sub(lambda match: environ[match[1]], template)
