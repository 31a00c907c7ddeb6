"""Whose a process is, and what the kubelet and the API server say of pods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.node import pods
from gramwatt.collectors.node.labels import PodLabels
from gramwatt.collectors.node.owners import Owner, Owners, PodNames
from tests.collectors.node.kubelet import Kubelet, answer

UID = "0f8f5a52-7f3c-4ab1-9d0e-0c7b1ff1c5aa"
STATIC = "3a5f0e1d2c4b5a69788796a5b4c3d2e1"
POD_V2 = (
    f"0::/../../kubepods.slice/kubepods-burstable.slice/"
    f"kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-ab12.scope"
)
POD_V1 = f"9:cpu,cpuacct:/kubepods/burstable/pod{UID}/4c5d\n1:name=systemd:/kubepods/pod{UID}/4c5d"
SLURM_V2 = "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0"
SLURM_V1 = "4:memory:/slurm/uid_1000/job_4242/step_batch\n3:cpuacct:/slurm/uid_1000/job_4242"
ARRAY = (
    "SLURM_JOB_ID=4242\0SLURM_ARRAY_JOB_ID=4240\0SLURM_ARRAY_TASK_ID=2\0"
    "SLURM_CLUSTER_NAME=hpc\0SLURM_JOB_NAME=bert\0SLURM_JOB_ACCOUNT=team\0SLURM_NODEID=1\0"
)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "logs" / f"team-a_train-0_{UID}").mkdir(parents=True)
    return tmp_path


def owner(root: Path, cgroup: str, environ: str = "") -> Owner | None:
    folder = root / "7"
    folder.mkdir(exist_ok=True)
    (folder / "cgroup").write_text(cgroup + "\n")
    (folder / "environ").write_text(environ)
    return Owners(PodNames(root / "logs"), root).of(7)


@pytest.mark.parametrize("cgroup", [POD_V2, POD_V1])
def test_a_process_of_a_pod_is_the_pods(proc: Path, cgroup: str) -> None:
    found = owner(proc, cgroup, "SLURM_JOB_ID=1\0")
    assert found is not None
    assert (found.job_id, found.name) == (f"pod-{UID}", "train-0")
    assert found.tags == {"pod": UID, "namespace": "team-a"}
    assert found.group.endswith(("aa", "aa.slice"))


def test_a_static_pod_and_one_without_a_log_folder_have_an_id_too(proc: Path) -> None:
    found = owner(proc, f"0::/kubepods/besteffort/pod{STATIC}/11")
    assert found is not None
    assert (found.job_id, found.name) == (f"pod-{STATIC}", f"pod {STATIC}")


@pytest.mark.parametrize("cgroup", [SLURM_V2, SLURM_V1, "0::/"])
def test_a_process_of_slurm_is_its_jobs_by_cgroup_or_environment(proc: Path, cgroup: str) -> None:
    found = owner(proc, cgroup, ARRAY)
    assert found is not None
    assert (found.job_id, found.name) == ("slurm-hpc-4242", "bert")
    assert found.tags["slurm"] == "4240_2"
    assert (found.tags["slurm_cluster"], found.tags["slurm_account"]) == ("hpc", "team")
    assert found.scheduler["slurm_node"] == "1"
    assert found.group.endswith("/job_4242") or cgroup == "0::/"


def test_a_job_name_that_is_no_utf_8_can_be_journaled(proc: Path) -> None:
    owner(proc, SLURM_V2)
    (proc / "7" / "environ").write_bytes(b"SLURM_JOB_ID=4242\0SLURM_JOB_NAME=f\xfcr\0")
    found = Owners(PodNames(proc / "logs"), proc).of(7)
    assert getattr(found, "name", "no owner") == "f\ufffdr"


def test_the_cgroup_says_which_job_when_the_environment_says_another(proc: Path) -> None:
    found = owner(proc, SLURM_V2, "SLURM_JOB_ID=1\0SLURM_CLUSTER_NAME=hpc\0")
    assert found is not None
    assert (found.job_id, found.tags) == ("slurm-4242", {"slurm": "4242"})


def test_a_process_that_wrote_over_its_environment_has_its_parents_job(proc: Path) -> None:
    for pid, parent, environ in ((5, 1, ARRAY), (7, 5, "\0" * 40)):
        (proc / str(pid)).mkdir()
        (proc / str(pid) / "environ").write_text(environ)
        (proc / str(pid) / "stat").write_text(f"{pid} (VLLM::Engine) C) S {parent} {pid}\n")
    for cgroup in (SLURM_V2, "0::/"):
        found = owner(proc, cgroup, "\0" * 40)
        assert found is not None
        assert (found.job_id, found.tags["slurm"]) == ("slurm-hpc-4242", "4240_2")


def test_a_process_that_has_just_ended_stays_its_jobs(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners, folder = Owners(PodNames(proc / "logs"), proc), proc / "7"
    folder.mkdir()
    (folder / "cgroup").write_text("0::/user.slice\n")
    (folder / "environ").write_text("SLURM_JOB_ID=4\0")
    began_ns: list[int | None] = [1]
    monkeypatch.setattr("gramwatt.collectors.node.owners.process_start_ns", lambda _: began_ns[0])
    ids = [one.job_id for one in [owners.of(7)] if one]
    (folder / "environ").write_text("")  # as of a process that its parent has not collected yet
    began_ns[0] = None
    ids += [one.job_id for one in [owners.of(7)] if one]
    began_ns[0] = 2  # another process of the same number
    ids += [one.job_id.partition("-")[0] for one in [owners.of(7)] if one]
    assert ids == ["slurm-4", "slurm-4", "cgroup"]


def test_any_other_process_is_its_cgroups_and_one_that_is_not_seen_nobodys(proc: Path) -> None:
    service = "0::/system.slice/ollama.service"
    found = owner(proc, service)
    assert found is not None
    assert found == owner(proc, service)
    assert (found.name, found.group) == ("ollama.service", "/system.slice/ollama.service")
    other = owner(proc, "0::/user.slice/session-3.scope")
    assert other != found
    assert Owners(PodNames(proc / "logs"), proc).of(8) is None
    assert Owners(PodNames(proc / "logs")).of(os.getpid()) is not None


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    found = Kubelet(tmp_path / "k.sock")
    yield found
    found.stop()


class Reader:
    """Asks a socket as the agent does."""

    def __init__(self, root: Path, socket: str = "k.sock") -> None:
        self.said: list[tuple[str, str]] = []
        names = PodNames(root / "logs")
        notify = lambda *text: self.said.append(text)  # noqa: E731
        self.pods = pods.PodDevices(pods.caller(root / socket), names, notify)

    def read(self, at_s: float) -> dict[str, list[str]]:
        self.pods.settle(5)
        found: dict[str, list[str]] = {}
        for one in self.pods.reservations(round(at_s * NS_PER_S)):
            found.setdefault(one.owner.job_id, []).append(one.device_id)
        return found


def test_the_kubelets_list_gives_the_devices_of_each_pod(proc: Path, kubelet: Kubelet) -> None:
    kubelet.pods = [
        ("team-a", "train-0", [["GPU-1", "GPU-2"], ["GPU-2"]]),
        ("kube-system", "dns", [[], []]),
        ("team-b", "serve", [["GPU-3::1"]]),
    ]
    reader = Reader(proc)
    found = reader.read(10)
    assert found.pop(f"pod-{UID}") == ["GPU-1", "GPU-2"]
    ((name, ids),) = found.items()  # no log folder: an id of its name on this node
    assert name.startswith("pod-")
    assert ids == ["GPU-3::1"]
    assert reader.said == []
    kubelet.pods = []
    assert reader.read(20) == {}


@pytest.mark.parametrize("code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE])
def test_a_kubelet_that_refuses_is_one_notice_and_its_last_list_holds_a_while(
    proc: Path, kubelet: Kubelet, code: grpc.StatusCode
) -> None:
    kubelet.pods = [("team-a", "train-0", [["GPU-1"]])]
    reader = Reader(proc)
    assert reader.read(10) == {f"pod-{UID}": ["GPU-1"]}
    kubelet.failing = code
    assert reader.read(100) == reader.read(200) == {f"pod-{UID}": ["GPU-1"]}
    assert reader.read(400) == {}
    ((notice, text),) = reader.said
    assert notice == "pods-unknown"
    assert code.name.lower().replace("_", " ") in text


def test_a_socket_that_is_absent_or_not_the_kubelets_is_one_notice(proc: Path) -> None:
    reader = Reader(proc, "none.sock")
    assert reader.read(10) == reader.read(20) == {}
    assert [code for code, _ in reader.said] == ["pods-unknown"]


def test_what_is_no_list_is_refused_and_a_cut_one_too() -> None:
    whole = answer([("team-a", "train-0", [["GPU-1"]])]).SerializeToString()
    assert pods.decode(whole) == [pods.Held("team-a", "train-0", ("GPU-1",))]
    for wrong in (whole[:-1], b"\xff" * 20, b"\x0b", b"\x0a\x7f"):
        with pytest.raises(ValueError, match=r"cut off|wire type"):
            pods.decode(wrong)


def test_labels_of_queues_and_owners_become_tags_and_a_refusal_is_said() -> None:
    metadata: dict[str, Any] = {
        "uid": UID,
        "labels": {
            "kueue.x-k8s.io/queue-name": "gpu",
            "volcano.sh/job-name": "v",
            "ray.io/cluster": "r",
            "trainer.kubeflow.org/trainjob-ancestor-step": "trainer",
            "pod-template-hash": "5f",
        },
        "ownerReferences": [{"kind": "Job", "name": "bert-ft"}],
    }
    said: list[tuple[str, str]] = []
    answers: list[Any] = [{"items": [{"metadata": metadata}]}]
    labels = PodLabels(lambda: answers[-1], lambda *text: said.append(text))
    labels.refresh()
    mine = Owner("pod", tags={"pod": UID}, scheduler={"kubernetes_pod_uid": UID})
    assert labels.described(mine).tags == {
        "pod": UID,
        "kueue.x-k8s.io/queue-name": "gpu",
        "volcano.sh/job-name": "v",
        "ray.io/cluster": "r",
        "trainer.kubeflow.org/trainjob-ancestor-step": "trainer",
        "owner": "Job/bert-ft",
    }
    answers.append({"kind": "Status", "code": 403})
    labels.refresh()
    assert labels.described(mine).tags["owner"] == "Job/bert-ft"  # what is known stays
    assert said[0][0] == "pods-unknown"
