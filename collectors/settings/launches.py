"""Which job this process belongs to: the evidence in the order in which it decides.

One `run` or outermost `track` is one job. The processes of one launch share it, and what begins
after it has ended is another:

1. `GRAMWATT_JOB_ID`: the job that the user names, or whose `run` or `track` has started this
   process, unless that has ended.
2. The first of the processes of torch.distributed that begins, by the store that they share.
3. Evidence that all processes of a launch have and those of another have not: the process that
   launched the ranks on one machine (torchrun, mpirun, Lightning, DeepSpeed); over several machines
   torchrun's run id and rendezvous, or Open MPI's name of the launch; Slurm's step of several tasks
   with its job and restart.
4. None of these: a job of its own.

What a person or a scheduler calls a job is not unique: with the project that is named for the job
it makes the id (`identity.bound_id`), alike in all processes of a launch.

`place` says which of the jobs of a launch it is, alike in all its processes: where in the code it
begins, and how often it has. docs/journal.md ("One job") says what this cannot know. Imported by
the training process, so standard library only.
"""

from __future__ import annotations

import os
import sys

from gramwatt.collectors.settings.identity import (
    bound_id,
    chosen_part,
    hashed,
    is_made,
    new_job_id,
    safe_id,
)
from gramwatt.collectors.settings.proc import (
    began_of,
    boot_id,
    environ_of,
    parent_of,
    pid_namespace,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

JOB_ID = "GRAMWATT_JOB_ID"
UNIT = "GRAMWATT_UNIT"
"""The declared unit, passed on with the job's id: a child process counts it when it names none."""
WITHIN = "GRAMWATT_WITHIN"
"""The job whose `track` or `gramwatt run` started this process, and the process that began it: a
command that is run in it is part of it, unlike one that only has the id of a job."""
REPORTER = "GRAMWATT_REPORTER"
"""Who measures, where that is not the job itself (gramwatt.sci.records.records.REPORTERS)."""
UNNAMED = "default"
"""The project of jobs for which nobody names one (gramwatt.sci.records.merge.UNDECLARED)."""
FIRST_SPECIAL_STEP = 0xFFFF_FFF0
"""Slurm numbers batch scripts, interactive shells and the like from here on (slurm.h): they are no
launch of tasks."""


def job_id(
    place: str = "",
    environ: Mapping[str, str] | None = None,
    project: Callable[[], str] = lambda: UNNAMED,
) -> tuple[str, str]:
    """Return the id of the job that begins here and its origin: environment, launch or new.

    `project` finds that of the job, and is asked only where the id is made with it.
    """
    env = os.environ if environ is None else environ
    named = env.get(JOB_ID, "").strip()
    if named and not _has_ended(env):
        handed_down = is_made(named) or env.get(WITHIN, "").partition(" ")[0] == named
        return (named if handed_down else _bound(named, project())), "environment"
    launch = _launch(env)
    name, origin = new_job_id(), "new"
    if launch:
        text, evidence = launch
        name, origin = _bound(f"{text}-{hashed('', f'{evidence} {place}')}", project()), "launch"
    agreed = _agreed(place, name)
    return (name, origin) if agreed is None else (agreed, "launch")


def enclosing_job() -> str | None:
    """Return the running job whose `run` or `track` started this process; None without one."""
    env = os.environ
    name = env.get(WITHIN, "").partition(" ")[0]
    return name if name and name == env.get(JOB_ID) and not _has_ended(env) else None


def declared_job(environ: Mapping[str, str]) -> bool:
    """Say whether the user has named the job, rather than a `run` or `track` around it."""
    return bool(environ.get(JOB_ID, "").strip()) and " " not in environ.get(WITHIN, "")


def launched_elsewhere(name: str, environ: Mapping[str, str]) -> bool:
    """Say whether this job is one of a launch over nodes of which this is not the first."""
    node = {"torchrun": "GROUP_RANK", "slurm": "SLURM_NODEID"}.get(name.partition("-")[0], "")
    return whole(environ.get(node)) > 0


def within(name: str) -> str:
    """Return the value of WITHIN for what is started in this job."""
    if enclosing_job() == name:
        return os.environ[WITHIN]
    named = os.environ.get(JOB_ID, "").strip()
    return name if named and names(named, name) else f"{name} {_mark(os.getpid())}"


def names(text: str, name: str) -> bool:
    """Say whether a value of JOB_ID is the id of this job, or what the user calls it."""
    return safe_id(text) in (name, chosen_part(name))


def has_id(environ: Iterable[str], name: str) -> bool:
    """Say whether this job is named by a process's environment, texts NAME=VALUE."""
    start = f"{JOB_ID}="
    return any(names(text.removeprefix(start), name) for text in environ if text.startswith(start))


def _has_ended(env: Mapping[str, str]) -> bool:
    """Say whether the `run` or `track` that handed the id down is a process that is gone."""
    name, _, mark = env.get(WITHIN, "").partition(" ")
    if name != env.get(JOB_ID, "").strip() or not mark:
        return False
    machine, _, process = mark.rpartition(" ")
    here, _, _ = _mark(os.getpid()).rpartition(" ")
    pid = process.partition(".")[0]
    return machine == here and pid.isdecimal() and _mark(int(pid)) != mark


def _bound(text: str, project: str) -> str:
    return safe_id(text) if project == UNNAMED else bound_id(text, project)


def _launch(env: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the readable beginning of a launch's ids, and what tells it from every other.

    None where this process is none of several that were launched together.
    """
    slurm = f"{env.get('SLURM_JOB_ID', '')} {env.get('SLURM_RESTART_COUNT', '0')}"
    step = _step(env)
    if run := env.get("TORCHELASTIC_RUN_ID"):
        # Not the restart count: each node has its own, and what is restarted is the same launch.
        name = f"torchrun-{run}" if run != "none" else "torchrun"
        if whole(env.get("GROUP_WORLD_SIZE")) > 1:
            meeting = f"{env.get('MASTER_ADDR')} {env.get('MASTER_PORT')}"
            return name, f"{run} {meeting} {slurm} {step}" if step else f"{run} {meeting}"
        launcher = _launcher("LOCAL_RANK", os.getppid())
        return name, f"{run} {env.get('MASTER_PORT')} {launcher or slurm}"
    if whole(env.get("OMPI_COMM_WORLD_SIZE", env.get("OMPI_COMM_WORLD_LOCAL_SIZE"))) > 1:
        if env.get("OMPI_COMM_WORLD_SIZE") != env.get("OMPI_COMM_WORLD_LOCAL_SIZE") and (
            space := env.get("PMIX_NAMESPACE")
        ):
            return "mpi", space
        return _launched("mpi", "OMPI_COMM_WORLD_RANK")
    if step:
        return f"slurm-{slurm_job(env)}.{step}", f"{env.get('SLURM_CLUSTER_NAME')} {slurm} {step}"
    if env.get("LOCAL_RANK") and max(whole(env.get(n)) for n in _SIZES) > 1:
        return _launched("ranks", "LOCAL_RANK")
    if env.get("PMI_RANK") and whole(env.get("PMI_SIZE")) > 1:
        return _launched("mpi", "PMI_RANK")
    return None


_SIZES = ("WORLD_SIZE", "LOCAL_WORLD_SIZE")


def _launched(name: str, variable: str) -> tuple[str, str] | None:
    launcher = _launcher(variable, os.getpid())
    return (name, launcher) if launcher else None


def _step(env: Mapping[str, str]) -> str:
    """Return the number of the Slurm step whose tasks these are; "" where there is one task."""
    step, tasks = env.get("SLURM_STEP_ID", ""), env.get("SLURM_STEP_NUM_TASKS")
    if not 0 <= whole(step) < FIRST_SPECIAL_STEP or not env.get("SLURM_JOB_ID"):
        return ""
    return "" if (tasks or env.get("SLURM_NTASKS")) == "1" else step


def slurm_job(env: Mapping[str, str]) -> str:
    """Return a Slurm job as `squeue` lists it: 4242, or 4242_7 for a task of an array."""
    if env.get("SLURM_ARRAY_JOB_ID") and env.get("SLURM_ARRAY_TASK_ID"):
        return f"{env['SLURM_ARRAY_JOB_ID']}_{env['SLURM_ARRAY_TASK_ID']}"
    return env["SLURM_JOB_ID"]


def _launcher(variable: str, pid: int) -> str | None:
    """Return the mark of the nearest process from `pid` upwards that began without this variable.

    A launcher gives it to the ranks that it starts. Lightning's first rank is the launcher of the
    others, and sets it for itself only later. None where every process has it, as in a container.
    """
    while pid > 0:
        if not any(text.startswith(f"{variable}=") for text in environ_of(pid)):
            return _mark(pid)
        pid = parent_of(pid)
    return None


def _mark(pid: int) -> str:
    """Return what tells a process from every other: its machine, number and start.

    The number alone where it has ended.
    """
    # A process id is unique only together with its namespace, its start time and the boot.
    return f"{boot_id()} {pid_namespace()} {pid}.{began_of(pid)}"


def _agreed(place: str, name: str) -> str | None:
    """Return the id on which the ranks of torch.distributed agree: that of whoever asks first.

    Asked is the store by which they found each other, not a collective, for which a rank that
    measures nothing would be waited for. None without such ranks. Nothing is imported.
    """
    try:
        distributed: Any = sys.modules.get("torch.distributed")
        if not distributed or not distributed.is_available() or not distributed.is_initialized():
            return None
        if distributed.get_world_size() < 2:
            return None
        store = distributed.distributed_c10d._get_default_store()
        return safe_id(store.compare_set(f"gramwatt/{place}", "", name).decode())
    except Exception:  # whatever this version of torch does, training goes on
        return None


def whole(text: str | None) -> int:
    """Return the number that a variable of a launcher holds, such as a rank; -1 for none."""
    return int(text) if text and text.isdecimal() else -1
