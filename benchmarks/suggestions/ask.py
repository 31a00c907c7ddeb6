"""The whole engine asked about work that was measured, each device in turn as the present one.

A question has what the group's source says of the work; the group's devices are the candidates. The
devices are owned, and where no host was metered a host draws next to nothing, so that the answer is
that of the devices. Published results of the group's own source are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from unittest import mock

from benchmarks.suggestions.groups import Group, framework_of, precision_of
from benchmarks.suggestions.score import Answer
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.suggest import hardware
from gramwatt.sci.suggest.documents import SuggestDoc
from gramwatt.sci.suggest.evidence import log_of
from gramwatt.sci.suggest.measured import published_time
from gramwatt.sci.suggest.request import parse_suggest_request
from gramwatt.sci.suggest.suggest import suggest

NO_HOST_W = 1e-3
SERVED = ("llm-serving", "batch-inference", "decode", "prefill", "interactive")


def request_of(group: Group, now: str) -> dict[str, Any]:
    """Return what a user of that hardware would ask."""
    row = group.rows[now]
    kind = "training" if row.unit in ("run", "epoch") or "train" in row.task else "inference"
    asked: dict[str, Any] = {
        "hardware": now,
        "candidates": sorted(group.rows),
        "count": row.count,
        "hours": 100,
        "zone": "DE",
        "ownership": "owned",
        "pue": 1.0,
        "kind": kind,
        "workload_class": group.workload_class,
        "framework": framework_of(row),
        "precision": precision_of(row),
        "batch_size": row.batch if group.workload_class in SERVED else None,
        "method": "lora" if "lora" in row.workload else None,
        "model_parameters": row.model_parameters,
        "mean_power_w": row.power_w if group.metric == "board" else None,
        "host_power_w": NO_HOST_W if group.metric != "wall" else None,
    }
    return {name: value for name, value in asked.items() if value is not None}


class Engine:
    """The product's answers to groups."""

    def __init__(self, catalog: Catalog) -> None:
        """Ask with this catalog."""
        self.catalog = catalog
        self.answers: dict[tuple[int, str], dict[str, Answer]] = {}

    def document(self, group: Group, now: str) -> SuggestDoc:
        """Return the product's answer, without published results of the group's source."""

        without = partial(published_time, without=group.source)
        with mock.patch.object(hardware, "published_time", without):
            return suggest(parse_suggest_request(request_of(group, now)), self.catalog)

    def __call__(self, group: Group, now: str) -> Mapping[str, Answer]:
        """Return energy and time of each device that the product ranks, as many as now."""
        key = (id(group), now)
        if key not in self.answers:
            self.answers[key] = self._answers(group, now)
        return self.answers[key]

    def _answers(self, group: Group, now: str) -> dict[str, Answer]:
        count, found = group.rows[now].count, {}
        for row in self.document(group, now).answers:
            if row.target in group.rows and row.count == count and row.carbon_ratio:
                time = log_of(row.time_ratio) if row.time_ratio else None
                if row.energy_ratio and row.odds is not None:
                    found[row.target] = Answer(row.odds, log_of(row.energy_ratio), time)
        return found
