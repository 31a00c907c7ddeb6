"""The setting `metrics`: where a meter serves the figures of its running job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

WORDS = frozenset({"names", "wandb"})
WANDB = "WANDB_X_STATS_OPEN_METRICS_ENDPOINTS"
"""W&B's variable: a JSON object of names and addresses that a run polls (wandb 0.31, settings)."""


class Metrics(NamedTuple):
    """`text` as given; host and port of the address; the words beside it.

    `names`: project and name of the job too; `wandb`: have runs of W&B poll the address.
    """

    text: str
    host: str
    port: int
    words: frozenset[str]

    @property
    def url(self) -> str:
        """Return the address that is polled."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"


def parse_metrics(value: Any) -> Metrics:
    """Return the setting of a text such as `127.0.0.1:9464,names`; raises ValueError."""
    parts = [part.strip() for part in str(value).split(",")]
    addresses = [part for part in parts if part not in WORDS]
    words = frozenset(parts) & WORDS
    if len(addresses) != 1:
        raise ValueError(f"not HOST:PORT, and {', '.join(sorted(WORDS))}: {str(value)[:40]!r}")
    host, _, port = addresses[0].rpartition(":")
    host = host.strip("[]").replace("localhost", "127.0.0.1")
    try:
        if not 0 < int(port) < 65536 or not ip_address(host).is_loopback:
            raise ValueError
    except ValueError:
        text = f"not a port of this machine alone, such as 127.0.0.1:9464: {addresses[0][:40]!r}"
        raise ValueError(text) from None
    return Metrics(str(value), host, int(port), words)


def wandb_environment(metrics: Metrics | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what has runs of W&B poll the meter, beside what its user has them poll already."""
    if metrics is None or "wandb" not in metrics.words:
        return {}
    try:
        polled = dict(json.loads(environ.get(WANDB) or "{}"))
    except (TypeError, ValueError):  # the user's, whatever it is
        return {}
    return {WANDB: json.dumps({"gramwatt": metrics.url, **polled})}
