"""What runs a command, by the variables that it sets: the run's name, id, owner, attempt and link;
and what Slurm, Kubernetes and torchrun call it.

One table, and no id of a job follows from it: a run that is tried again keeps its id in most of
these systems, and each try is a job of its own, with the run and the attempt as tags
(docs/orchestrators.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gramwatt.collectors.settings.identity import chosen_part, hashed
from gramwatt.collectors.settings.launches import REPORTER, declared_job, slurm_job, whole
from gramwatt.collectors.settings.proc import system_text


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
ELSEWHERE = frozenset(
    {
        *("bsub", "condor_submit", "docker", "kubectl", "nerdctl", "oc", "podman", "qsub"),
        *("sbatch", "ssh", "systemd-run"),
    }
)
"""Programs that have the work done by processes without this one's environment, by which the meter
knows a job's own. `srun` and `mpirun` pass it on."""
_RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")
_SLURM = {
    "slurm_cluster": "SLURM_CLUSTER_NAME",
    "slurm_job_id": "SLURM_JOB_ID",
    "slurm_array_job_id": "SLURM_ARRAY_JOB_ID",
    "slurm_array_task_id": "SLURM_ARRAY_TASK_ID",
    "slurm_step_id": "SLURM_STEP_ID",
    "slurm_restart": "SLURM_RESTART_COUNT",
    "slurm_sluid": "SLURM_JOB_SLUID",
    "slurm_partition": "SLURM_JOB_PARTITION",
    "slurm_nodes": "SLURM_JOB_NUM_NODES",
    "slurm_node": "SLURM_NODEID",
}
_KUBERNETES = {
    "kubernetes_namespace": "POD_NAMESPACE",
    "kubernetes_pod": "POD_NAME",
    "kubernetes_pod_uid": "POD_UID",
    "kubernetes_completion_index": "JOB_COMPLETION_INDEX",
}
_TORCHRUN = {
    "torchrun_run_id": "TORCHELASTIC_RUN_ID",
    "torchrun_restart": "TORCHELASTIC_RESTART_COUNT",
    "world_size": "WORLD_SIZE",
    "local_rank": "LOCAL_RANK",
}
_VARIABLE = re.compile(r"\{(\w+)\}")


def run_name(environ: Mapping[str, str]) -> str:
    """Return the name that what runs this command has for it; empty without."""
    system = _system_of(environ)
    return _filled(system.name, environ) if system else ""


def scheduler_tags(
    env: Mapping[str, str], name: str = "", *, allow_names: bool = False
) -> dict[str, str]:
    """Return the tags by which jobs of one allocation, torchrun run or pod are found and summed.

    `job` is what the user calls the job `name`.

    None of a job that is measured from outside: an array's task is known to itself only.
    """
    if env.get(REPORTER):
        return {}
    tags = run_tags(env, allow_names=allow_names)
    if declared_job(env) and (chosen := chosen_part(name)):
        tags["job"] = chosen
    if env.get("SLURM_JOB_ID"):
        tags["slurm"] = slurm_job(env)
    if env.get("TORCHELASTIC_RUN_ID", "none") not in ("", "none"):
        tags["torchrun"] = env["TORCHELASTIC_RUN_ID"]
    if pod := pod_uid(env):
        tags["pod"] = pod
    return tags


def scheduler_ids(env: Mapping[str, str]) -> dict[str, str]:
    """Return what Slurm, Kubernetes and torchrun call this job, as texts for the journal.

    Node names are left out: host names are stored only when the user allows it.
    """
    names: dict[str, str] = {}
    if env.get("SLURM_JOB_ID"):
        names.update(_SLURM)
    if env.get("KUBERNETES_SERVICE_HOST") or env.get("POD_UID"):
        names.update(_KUBERNETES)
    if env.get("TORCHELASTIC_RUN_ID") or env.get("WORLD_SIZE"):
        names.update(_TORCHRUN)
    ids = {key: env[name][:512] for key, name in names.items() if env.get(name)}
    if pod := pod_uid(env):
        ids["kubernetes_pod_uid"] = pod
    return ids


def rank(env: Mapping[str, str]) -> int | None:
    """Return this process's rank in the whole job, None when nothing says so."""
    numbers = (whole(env.get(name)) for name in _RANK_NAMES)
    return next((value for value in numbers if value >= 0), None)


def pod_uid(environ: Mapping[str, str], mounts: str = "/proc/self/mountinfo") -> str:
    """Return the UID of the Kubernetes pod that this process is in; empty where there is none.

    `POD_UID` where the pod's template sets it, else the folder of the kubelet from which
    `/etc/hosts` is mounted (proc(5), mountinfo).
    """
    if environ.get("POD_UID") or not environ.get("KUBERNETES_SERVICE_HOST"):
        return environ.get("POD_UID", "")[:512]
    mounted = (line.split()[3:5] for line in system_text(mounts).splitlines())
    roots = [fields[0] for fields in mounted if fields[1:] == ["/etc/hosts"]]
    return next((r.split("/")[-2] for r in roots if r.endswith("/etc-hosts") and "/pods/" in r), "")


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
