from __future__ import annotations

import os
from itertools import pairwise

import pytest

from gramwatt.collectors.settings.identity import new_job_id, node_id, safe_id
from gramwatt.collectors.settings.orchestrators import pod_uid, rank, scheduler_ids
from gramwatt.sci.records.records import ID_PATTERN


def test_ids_made_in_order_sort_in_order(monkeypatch):
    seconds = iter([0.0, 59.0, 60.0, 86400.0])
    import time

    real = time.gmtime
    monkeypatch.setattr(
        "gramwatt.collectors.settings.identity.time.gmtime", lambda: real(next(seconds))
    )
    ids = [new_job_id() for _ in range(4)]
    assert all(a < b for a, b in pairwise(ids))
    assert ids[0].startswith("19700101-000000-")


def test_an_identifier_is_always_one_and_changed_ones_stay_distinct():
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
def test_rank(environ, expected):
    assert rank(environ) == expected


def test_scheduler_ids_name_the_job_and_no_host():
    environ = {
        "SLURM_JOB_ID": "7",
        "SLURM_CLUSTER_NAME": "jean",
        "SLURMD_NODENAME": "secret-host",
        "SLURM_NODEID": "3",
        "TORCHELASTIC_RUN_ID": "abc",
        "WORLD_SIZE": "4",
    }
    assert scheduler_ids(environ) == {
        "slurm_job_id": "7",
        "slurm_cluster": "jean",
        "slurm_node": "3",
        "torchrun_run_id": "abc",
        "world_size": "4",
    }
    assert scheduler_ids({"POD_NAME": "p"}) == {}


UID = "0f5d6e0e-9d6c-4b5e-8a5d-2f6a1c3b7e11"


@pytest.mark.parametrize(
    ("mounted", "found"),
    [
        (f"/var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts", UID),
        (f"/kubelet/pods/{UID}/etc-hosts /etc/hosts", UID),
        ("/var/lib/docker/containers/abc/hosts /etc/hosts", ""),
        (f"/var/lib/kubelet/pods/{UID}/volumes/a /data", ""),
    ],
)
def test_a_pod_is_known_by_where_its_hosts_file_is_mounted_from(tmp_path, mounted, found):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"9 8 0:5 / /proc rw - proc proc rw\n10 9 8:1 {mounted} rw - ext4 /dev/a rw\n"
    )
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert pod_uid(inside, str(mounts)) == found
    assert pod_uid({**inside, "POD_UID": "given"}, str(mounts)) == "given"
    assert pod_uid({}, str(mounts)) == pod_uid(inside, str(tmp_path / "none")) == ""


def test_the_node_is_hashed_unless_names_are_allowed():
    hashed = node_id()
    assert hashed == node_id()
    assert hashed.startswith("n-")
    assert len(hashed) == 14
    assert os.uname().nodename not in hashed
    assert node_id(allow_host_names=True) == safe_id(os.uname().nodename)
