from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise

import pytest

from gramwatt.collectors.common.identity import (
    job_id,
    new_job_id,
    node_id,
    rank,
    safe_id,
    scheduler_ids,
)
from gramwatt.sci.journal.records import ID_PATTERN


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"GRAMWATT_JOB_ID": "mine", "SLURM_JOB_ID": "7"}, ("mine", "environment")),
        ({"SLURM_JOB_ID": "7", "TORCHELASTIC_RUN_ID": "r"}, ("slurm-7", "slurm")),
        ({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "jean"}, ("slurm-jean-7", "slurm")),
        (
            {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"},
            ("slurm-7_3", "slurm"),
        ),
        ({"TORCHELASTIC_RUN_ID": "abc"}, ("torchrun-abc", "torchrun")),
    ],
)
def test_the_job_id_comes_from_the_nearest_source(
    environ: dict[str, str], expected: tuple[str, str]
) -> None:
    assert job_id(environ) == expected


def test_without_a_source_every_id_is_new() -> None:
    first, second = job_id({"TORCHELASTIC_RUN_ID": "none"}), job_id({})
    assert first[1] == second[1] == "new"
    assert first[0] != second[0]
    assert ID_PATTERN.fullmatch(first[0])


def test_ids_made_in_order_sort_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 59.0, 60.0, 86400.0])
    import time

    real = time.gmtime
    monkeypatch.setattr(
        "gramwatt.collectors.common.identity.time.gmtime", lambda: real(next(seconds))
    )
    ids = [new_job_id() for _ in range(4)]
    assert all(a < b for a, b in pairwise(ids))
    assert ids[0].startswith("19700101-000000-")


def test_ranks_of_one_launcher_share_an_id_and_those_of_another_do_not() -> None:
    code = "from gramwatt.collectors.common.identity import job_id; print(job_id())"
    launcher = (
        "import subprocess, sys\n"
        "for rank in '01':\n"
        "    env = {'LOCAL_RANK': rank, 'LOCAL_WORLD_SIZE': '2', 'TORCHELASTIC_RUN_ID': 'none'}\n"
        f"    subprocess.run([sys.executable, '-c', {code!r}], env=env, check=True)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", launcher], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    ids = [run.stdout.splitlines() for run in runs]
    assert ids[0][0] == ids[0][1]
    assert ids[1][0] == ids[1][1]
    assert ids[0][0] != ids[1][0]
    assert "'parent'" in ids[0][0]


def test_an_identifier_is_always_one_and_changed_ones_stay_distinct() -> None:
    texts = ["a b", "a/b", "a-b", "-x", "é", "x" * 200, "x" * 201]
    made = [safe_id(text) for text in texts]
    assert all(ID_PATTERN.fullmatch(text) for text in made)
    assert len(set(made)) == len(texts)
    assert made[2] == "a-b"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RANK": "5", "LOCAL_RANK": "1"}, 5),
        ({"SLURM_PROCID": "3", "LOCAL_RANK": "1"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "2"}, 2),
        ({"LOCAL_RANK": "1"}, 1),
        ({"RANK": "x"}, None),
        ({}, None),
    ],
)
def test_rank(environ: dict[str, str], expected: int | None) -> None:
    assert rank(environ) == expected


def test_scheduler_ids_name_the_job_and_no_host() -> None:
    environ = {
        "SLURM_JOB_ID": "7",
        "SLURM_CLUSTER_NAME": "jean",
        "SLURMD_NODENAME": "secret-host",
        "TORCHELASTIC_RUN_ID": "abc",
        "WORLD_SIZE": "4",
    }
    assert scheduler_ids(environ) == {
        "slurm_job_id": "7",
        "slurm_cluster": "jean",
        "torchrun_run_id": "abc",
        "world_size": "4",
    }
    assert scheduler_ids({"POD_NAME": "p"}) == {}


def test_the_node_is_hashed_unless_names_are_allowed() -> None:
    hashed = node_id()
    assert hashed == node_id()
    assert hashed.startswith("n-")
    assert len(hashed) == 14
    assert os.uname().nodename not in hashed
    assert node_id(allow_host_names=True) == safe_id(os.uname().nodename)
