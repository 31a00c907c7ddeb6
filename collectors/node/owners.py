"""Whose a process on a device is: a pod's, a Slurm job's, or its cgroup's.

Read from /proc: its cgroup, and of its environment what Slurm has put there. A process that cannot
be seen from here, as in a namespace of its own, is nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.common.identity import hashed, kernel_id, safe_id, scheduler_ids
from gramwatt.collectors.common.launches import scheduler_tags
from gramwatt.collectors.common.proc import environ_of, parent_of, process_start_ns

PROC = Path("/proc")
KNOWN_MOST = 4_096
"""Processes whose owner is remembered."""
ANCESTORS_MOST = 32
_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"^.*kubepods.*?pod({_UID})[^/]*")
_SLURM = re.compile(r"^.*slurm.*?/job_(\d+)(?=/|$)")
_NAMES = re.compile(r"([^_]+)_([^_]+)_(.+)")
_TAGS = {
    "slurm_cluster": "SLURM_CLUSTER_NAME",
    "slurm_account": "SLURM_JOB_ACCOUNT",
    "slurm_partition": "SLURM_JOB_PARTITION",
}


@dataclass(frozen=True, slots=True)
class Owner:
    """A job of the node: its id, and what is known of it. `group` is the cgroup that counts it."""

    job_id: str
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    scheduler: Mapping[str, str] = field(default_factory=dict)
    group: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owner) and other.job_id == self.job_id

    def __hash__(self) -> int:
        return hash(self.job_id)


class PodNames:
    """Namespaces, names and uids of the node's pods, from the names of the kubelet's log folders.

    The kubelet's list has no uid and a cgroup no name; `<namespace>_<name>_<uid>` has all three.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._by_uid: dict[str, tuple[str, str]] = {}
        self._by_name: dict[tuple[str, str], str] = {}

    def refresh(self) -> None:
        """Read the folder's names again; of two uids of one name the newest folder's holds."""
        try:
            entries = sorted(self._logs.iterdir(), key=lambda path: path.stat().st_mtime)
        except OSError:
            return
        found = (_NAMES.fullmatch(path.name) for path in entries)
        names = [match.groups() for match in found if match]
        self._by_uid = {uid: (space, name) for space, name, uid in names}
        self._by_name = {(space, name): uid for space, name, uid in names}

    def by_uid(self, uid: str) -> Owner:
        """Return the pod of a uid."""
        if uid not in self._by_uid:
            self.refresh()
        return pod(uid, *self._by_uid.get(uid, ("", "")))

    def by_name(self, namespace: str, name: str) -> Owner:
        """Return the pod of a name; without a known uid its id is that of its name on this node."""
        uid = self._by_name.get((namespace, name))
        return pod(uid or hashed("", f"{kernel_id()} {namespace} {name}"), namespace, name)


def pod(uid: str, namespace: str, name: str) -> Owner:
    """Return a pod as an owner."""
    ids = {
        "kubernetes_namespace": namespace,
        "kubernetes_pod": name,
        "kubernetes_pod_uid": uid,
    }
    tags = {"pod": uid, "namespace": namespace} if namespace else {"pod": uid}
    known = {key: text for key, text in ids.items() if text}
    return Owner(safe_id(f"pod-{uid}"), name or f"pod {uid}", tags, known)


class Owners:
    """Finds the owner of a process, once for each."""

    def __init__(self, names: PodNames, proc: Path = PROC) -> None:
        self._names, self._proc = names, proc
        self._known: dict[int, tuple[int | None, Owner | None]] = {}

    def of(self, pid: int) -> Owner | None:
        """Return whose the process is; None for one that cannot be seen here.

        NVML lists a process a moment longer than it lives, when its environment is gone already.
        """
        began_ns = process_start_ns(pid)
        if pid in self._known and began_ns in (None, self._known[pid][0]):
            return self._known[pid][1]
        if len(self._known) >= KNOWN_MOST:
            self._known.clear()
        found = self._found(pid)
        self._known[pid] = began_ns, found
        return found

    def _found(self, pid: int) -> Owner | None:
        folder = self._proc / str(pid)
        lines = (text_of(folder / "cgroup") or "").splitlines()
        paths = [path for _, _, path in (line.split(":", 2) for line in lines if "::" in line)]
        paths += [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]
        if not paths:
            return None
        for path in paths:
            if match := _POD.match(path):
                uid = match[1].replace("_", "-")
                return replace(self._names.by_uid(uid), group=match[0])
        return self._slurm(paths, self._slurm_environ(pid)) or _of_group(paths[0])

    def _slurm_environ(self, pid: int) -> dict[str, str]:
        """Return the environment of a process or its nearest ancestor that knows its Slurm job.

        A process that sets its title (setproctitle) overwrites its own.
        """
        for _ in range(ANCESTORS_MOST):
            variables = environ_of(pid, str(self._proc))
            cells = (text.partition("=") for text in variables)
            environ = {name: text for name, _, text in cells if name}
            pid = parent_of(pid, str(self._proc))
            if "SLURM_JOB_ID" in environ or not pid:
                return environ
        return {}

    def _slurm(self, paths: list[str], environ: Mapping[str, str]) -> Owner | None:
        """Return the Slurm job, by its cgroup, or where Slurm makes none by the environment."""
        match = next((found for path in paths if (found := _SLURM.match(path))), None)
        number = match[1] if match else environ.get("SLURM_JOB_ID", "")
        if not number.isdecimal():
            return None
        known = {"SLURM_JOB_ID": number}
        if environ.get("SLURM_JOB_ID") == number:
            known = {name: text for name, text in environ.items() if name.startswith("SLURM_")}
        tags = scheduler_tags(known)
        tags |= {key: text[:512] for key, name in _TAGS.items() if (text := known.get(name))}
        cluster = known.get("SLURM_CLUSTER_NAME", "")
        name = known.get("SLURM_JOB_NAME") or f"Slurm job {tags['slurm']}"
        group = match[0] if match else ""
        job_id = safe_id(f"slurm-{cluster}-{number}" if cluster else f"slurm-{number}")
        return Owner(job_id, name[:512], tags, scheduler_ids(known), group)


def _of_group(path: str) -> Owner:
    """Return a cgroup as an owner: a service keeps its id for the boot, a session has its own."""
    name = path.rstrip("/").rpartition("/")[2] or path
    return Owner(
        hashed("cgroup-", f"{kernel_id()} {path}"), name[:512], {"cgroup": path[:512]}, {}, path
    )
