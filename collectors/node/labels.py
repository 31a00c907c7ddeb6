"""Labels of the node's pods that name a queue, a job or an owner, from the Kubernetes API server.

The kubelet gives names only. Asked in a thread, so that no reading waits, with the token of the
pod's service account, which needs `list` on pods; without it, namespace and name are all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gramwatt.collectors.common.background import in_background
from gramwatt.collectors.devices.port import Notify
from gramwatt.collectors.node.owners import Owner

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EVERY_S = 30.0
TIMEOUT_S = 5.0
DOMAINS = (
    *("kueue.x-k8s.io", "volcano.sh", "batch.kubernetes.io", "jobset.sigs.k8s.io", "ray.io"),
    *("trainer.kubeflow.org", "training.kubeflow.org", "leaderworkerset.sigs.k8s.io"),
    "app.kubernetes.io",
)
"""Whose labels become tags: Kueue, Volcano, Job, JobSet, KubeRay, Kubeflow, LeaderWorkerSet, and
the recommended ones."""
TAGS_MOST = 24
_UID_KEY = "kubernetes_pod_uid"


class PodLabels:
    """The labels of this node's pods by uid, renewed every 30 s."""

    def __init__(self, ask: Callable[[], Mapping[str, Any]], notify: Notify) -> None:
        """`ask` returns the API server's list of pods."""
        self._ask, self._notify = ask, notify
        self._tags: dict[str, dict[str, str]] = {}
        self.failure = ""
        """Why the last request failed; empty when it did not."""

    def start(self) -> None:
        """Ask once, and from then on in a thread."""
        self.refresh()
        in_background(self._run)

    def refresh(self) -> None:
        """Ask the API server; on a failure the labels of before stay."""
        try:
            items = self._ask()["items"]
            self._tags = {item["metadata"]["uid"]: _tags(item["metadata"]) for item in items}
            self.failure = ""
        except Exception as error:  # refused, absent, or not the API server
            self.failure = str(error)[:200] or type(error).__name__

    def described(self, owner: Owner) -> Owner:
        """Return a pod with its labels as tags, as far as they are known."""
        if self.failure:
            self._notify("pods-unknown", f"labels of pods: {self.failure}")
        tags = self._tags.get(owner.scheduler.get(_UID_KEY, ""))
        return replace(owner, tags={**owner.tags, **tags}) if tags else owner

    def _run(self) -> None:
        while True:
            time.sleep(EVERY_S)
            self.refresh()


def _tags(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return a pod's labels of DOMAINS, and what owns it."""
    labels: Mapping[str, str] = metadata.get("labels") or {}
    named = {key: text for key, text in sorted(labels.items()) if key.rpartition("/")[0] in DOMAINS}
    for owner in (metadata.get("ownerReferences") or ())[:1]:
        named["owner"] = f"{owner['kind']}/{owner['name']}"
    return {key[:512]: text[:512] for key, text in list(named.items())[-TAGS_MOST:]}


def api_server(node: str, account: Path = ACCOUNT) -> Callable[[], Mapping[str, Any]]:
    """Return what asks the API server of this cluster for the pods of a node."""
    import requests  # half a second, for who asks for labels

    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host

    def ask() -> Mapping[str, Any]:
        token = (account / "token").read_text("utf-8").strip()  # renewed every hour
        answer = requests.get(
            f"https://{host}:{port}/api/v1/pods",
            params={"fieldSelector": f"spec.nodeName={node}"},
            headers={"Authorization": f"Bearer {token}"},
            verify=str(account / "ca.crt"),
            timeout=TIMEOUT_S,
        )
        answer.raise_for_status()
        found: Mapping[str, Any] = answer.json()
        return found

    return ask
