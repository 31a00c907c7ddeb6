"""Which processes are one job: real processes, with the environment that launchers give them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping

import pytest

from gramwatt.collectors.settings.identity import bound_id, is_bound_to, is_random, new_job_id
from gramwatt.collectors.settings.launches import job_id
from gramwatt.collectors.settings.orchestrators import scheduler_tags
from gramwatt.sci.records.records import ID_PATTERN

PRINT = """
import os, sys
from gramwatt.collectors.settings.launches import job_id
print(*job_id(*sys.argv[1:], project=lambda: os.environ.get("GRAMWATT_PROJECT", "default")))
"""
LAUNCHER = """
import os, subprocess, sys
ranks, code, *args = sys.argv[1:]
for rank in range(int(ranks)):
    numbers = {name: value.replace("RANK", str(rank)) for name, value in os.environ.items()}
    subprocess.run([sys.executable, "-c", code, *args], env=numbers, check=True)
"""
"""Starts ranks one after the other, with RANK in its environment replaced by their number."""
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "100",
    "LOCAL_RANK": "RANK",
    "RANK": "RANK",
    "GROUP_WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "2",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}
TWO_NODES = {"GROUP_WORLD_SIZE": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "node-1"}
STEP = {
    "SLURM_CLUSTER_NAME": "jean",
    "SLURM_JOB_ID": "4242",
    "SLURM_STEP_ID": "3",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "RANK",
}
BATCH = {"SLURM_JOB_ID": "4242", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}


def launch(environ: Mapping[str, str], ranks: int = 2, *args: str, code: str = PRINT) -> list[str]:
    """Return the job id of each rank that one launcher starts."""
    # The launcher itself has its ranks' variables later, as torchrun's agent does not.
    start = f"import os\nos.environ.update({dict(environ)!r})\n{LAUNCHER}"
    command = [sys.executable, "-c", start, str(ranks), code, *args]
    path = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    found = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(found) == ranks
    assert all(ID_PATTERN.fullmatch(name) for name in found)
    return found


@pytest.mark.parametrize(
    "environ",
    [
        TORCHRUN,
        TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"},
        TORCHRUN | TWO_NODES,
        {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_RANK": "RANK"},
        {"PMI_SIZE": "2", "PMI_RANK": "RANK"},
        {"WORLD_SIZE": "2", "LOCAL_RANK": "RANK"},
        STEP,
        STEP | TORCHRUN | TWO_NODES,
    ],
    ids=["torchrun", "none", "nodes", "openmpi", "mpich", "deepspeed", "srun", "srun-torchrun"],
)
def test_ranks_of_a_launch_are_one_job(environ):
    first, second = launch(environ)
    assert first == second


def test_each_place_of_the_code_in_a_launch_is_a_job():
    places = ["train.py:9 0", "train.py:9 1", "eval.py:9 0"]
    found = [launch(STEP, 2, place) for place in places]
    assert all(first == second for first, second in found)
    assert len({first for first, _ in found}) == len(places)


@pytest.mark.parametrize(
    ("environ", "change"),
    [
        (TORCHRUN, {}),  # the same run id and port, by another agent
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"}, {}),
        (TORCHRUN | TWO_NODES, {"MASTER_PORT": "41337"}),
        (TORCHRUN | TWO_NODES | STEP, {"SLURM_STEP_ID": "4"}),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_RANK": "RANK"}, {}),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "RANK"}, {}),
        (STEP, {"SLURM_STEP_ID": "4"}),
        (STEP, {"SLURM_RESTART_COUNT": "1"}),
        (STEP, {"SLURM_JOB_ID": "4243"}),
        (STEP, {"SLURM_CLUSTER_NAME": "anna"}),
        (STEP, {"SLURM_STEP_NUM_TASKS": "1"}),
        (BATCH, {}),
        ({}, {}),
    ],
)
def test_two_launches_are_two_jobs(environ, change):
    assert launch(environ)[-1] != launch(environ | change)[0]


def test_nodes_of_a_launch_are_one_job():
    """Each node has an agent of its own, which only the environment connects."""
    for environ in (TORCHRUN | TWO_NODES, TORCHRUN | TWO_NODES | STEP, STEP):
        assert launch(environ)[0] == launch(environ | {"TORCHELASTIC_RESTART_COUNT": "1"})[0]
    mpi = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    mpi |= {"OMPI_COMM_WORLD_RANK": "RANK", "PMIX_NAMESPACE": "prterun-7@1"}
    assert launch(mpi)[0] == launch(mpi)[1]


def test_the_first_rank_that_starts_the_others_is_one_job_with_them():
    """As Lightning does: rank 0 sets its own variables when it starts the script once more."""
    code = f"""
import os, subprocess, sys
if "LOCAL_RANK" not in os.environ:
    os.environ |= {{"MASTER_PORT": "4711", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}}
    child = [sys.executable, "-c", {PRINT!r}]
    subprocess.run(child, env={{**os.environ, "LOCAL_RANK": "1"}}, check=True)
{PRINT}
"""
    path = {"PATH": os.environ["PATH"]}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, check=True)
        for _ in range(2)
    ]
    first, second = ([line.split()[0] for line in run.stdout.splitlines()] for run in runs)
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first[0] != second[0]


def test_ranks_of_torch_distributed_agree_by_their_store(tmp_path):
    """A stand-in for torch 2.x with its names, and a store in a file."""
    package = tmp_path / "torch" / "distributed"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("""
from torch.distributed import distributed_c10d
is_available = is_initialized = lambda: True
get_world_size = lambda: 2
""")
    (package / "distributed_c10d.py").write_text("""
import os
class Store:
    def compare_set(self, key, expected, desired):
        path = os.environ["STORE"] + key.replace("/", "-")
        if not os.path.exists(path):
            open(path, "w").write(desired)
        return open(path, "rb").read()
def _get_default_store():
    return Store()
""")
    code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport torch.distributed\n{PRINT}"
    stores = [{"STORE": f"{tmp_path}/{number}-"} for number in range(2)]
    one, other = (launch(store, code=code) for store in stores)
    assert one[0] == one[1]
    assert other[0] == other[1]
    assert one[0] != other[0]


def test_a_job_that_is_handed_down_is_joined_until_it_has_ended():
    parent = textwrap.dedent("""
        import os, subprocess, sys
        from gramwatt.collectors.settings.launches import JOB_ID, WITHIN, within
        os.environ[WITHIN] = within("outer")
        os.environ[JOB_ID] = "outer"
        print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stdout.split()[0])
        print(os.environ[WITHIN])
    """)
    path = {"PATH": os.environ["PATH"]}
    child = [sys.executable, "-c", PRINT]
    done = subprocess.run(
        [sys.executable, "-c", parent, *child], env=path, capture_output=True, text=True, check=True
    )
    joined, mark = done.stdout.splitlines()
    assert joined == "outer"
    # The process that began it is gone: what it has left behind begins jobs of its own.
    assert job_id("", {"GRAMWATT_JOB_ID": "outer", "GRAMWATT_WITHIN": mark})[1] == "new"
    # On another machine nobody can know.
    elsewhere = "outer 0b5c x " + mark.rpartition(" ")[2]
    handed = {"GRAMWATT_JOB_ID": "outer", "GRAMWATT_WITHIN": elsewhere}
    assert job_id("", handed) == ("outer", "environment")
    broken = {"GRAMWATT_JOB_ID": "outer", "GRAMWATT_WITHIN": mark.rpartition(" ")[0] + " x.1"}
    assert job_id("", broken) == ("outer", "environment")
    # What the user has named holds, whoever else has run under it.
    assert job_id("", {"GRAMWATT_JOB_ID": "a b"})[0].startswith("a-b-")
    assert job_id("", {"GRAMWATT_JOB_ID": "mine", "SLURM_JOB_ID": "7"}) == ("mine", "environment")


CHOSEN = {"GRAMWATT_JOB_ID": "4711"}


def chosen(project: str, text: str = "4711") -> str:
    return job_id("", {"GRAMWATT_JOB_ID": text}, lambda: project)[0]


def test_an_id_that_somebody_chose_is_that_of_the_project():
    assert chosen("vision") == "4711~191e2c9f"
    assert chosen("speech") != chosen("vision")
    # Where nobody names a project, all have the one.
    assert job_id("", CHOSEN) == ("4711", "environment")
    # A whole id is handed on by hand, as to the workers of Ray.
    for whole in (chosen("vision"), "20260501-083000-3fa9c21b04d7"):
        assert chosen("speech", whole) == whole
    assert ID_PATTERN.fullmatch(chosen("a", "x" * 500))


def test_an_id_is_bound_to_one_project():
    name = bound_id("4711", "vision")
    assert is_bound_to(name, "vision")
    assert not is_bound_to(name, "speech")
    assert not is_bound_to("4711", "vision")
    assert is_random(new_job_id())
    assert not is_random("20260501-083000-run")


def test_schedulers_are_tags():
    array = {"SLURM_JOB_ID": "4250", "SLURM_ARRAY_JOB_ID": "4242", "SLURM_ARRAY_TASK_ID": "7"}
    assert scheduler_tags({"SLURM_JOB_ID": "4242"}) == {"slurm": "4242"}
    assert scheduler_tags(array) == {"slurm": "4242_7"}
    assert scheduler_tags(TORCHRUN) == {"torchrun": "100"}
    assert scheduler_tags({"TORCHELASTIC_RUN_ID": "none"}) == {}
