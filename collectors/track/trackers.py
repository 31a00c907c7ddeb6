"""The figures of an ended job, sent to experiment trackers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from gramwatt.collectors.track.messages import print_message

JOB_TAG = "gramwatt.job_id"
PAGE_TAG = "gramwatt.report"
PARENT_TAG = "mlflow.parentRunId"
BATCH = 1_000
"""Metrics that one request to MLflow may hold (MLflow 3.18, REST API, log-batch)."""


def log_to_mlflow(
    job_id: str, url: str | None, figures: Mapping[str, float], run_id: str | None
) -> None:
    """Log figures of a job, its id and page to a run of MLflow: that one, or the active one.

    Without an active run it is that of MLFLOW_RUN_ID, the last one with the job's id as a tag that
    is in no other such run, or the last that was active in this process. What cannot be logged is
    one line on stderr.
    """
    try:
        from mlflow.entities import Metric, RunTag
        from mlflow.tracking import MlflowClient

        client = MlflowClient()
        mlflow_run = run_id or _mlflow_run(client, job_id)
        if mlflow_run is None:
            print_message(
                f"no run of MLflow belongs to {job_id}: name it by run_id or MLFLOW_RUN_ID"
            )
            return
        now_ms = time.time_ns() // 1_000_000
        metrics = [Metric(name, value, now_ms, 0) for name, value in figures.items()]
        tags = [RunTag(key, value) for key, value in _identity(job_id, url).items()]
        for start in range(0, max(len(metrics), 1), BATCH):
            client.log_batch(mlflow_run, metrics=metrics[start : start + BATCH], tags=tags)
    except Exception as error:
        print_message(f"the figures of {job_id} did not reach MLflow: {error!r}"[:300])


def _mlflow_run(client: Any, job_id: str) -> str | None:
    import mlflow

    if (active := mlflow.active_run()) is not None:
        return str(active.info.run_id)
    if named := os.environ.get("MLFLOW_RUN_ID"):
        return named
    experiments = [item.experiment_id for item in client.search_experiments()]
    query = f"tags.`{JOB_TAG}` = '{job_id}'"
    tagged = client.search_runs(experiments, query, order_by=["attributes.start_time ASC"])
    ids = {run.info.run_id for run in tagged}
    outer = [run for run in tagged if run.data.tags.get(PARENT_TAG) not in ids]
    if len(outer) > 1:
        many = f"{len(outer)} runs of MLflow belong to {job_id}"
        print_message(f"{many}: the last has the figures of all; a job for each tells them apart")
    run = (outer or [mlflow.last_active_run()])[-1]
    return str(run.info.run_id) if run is not None else None


def log_to_wandb(
    job_id: str, url: str | None, figures: Mapping[str, float], run: Any = None
) -> None:
    """Write figures of a job, its id and page into the summary of a run of W&B.

    `run` is that of `wandb.init`; None for the one that is active. What cannot be written is one
    line on stderr.
    """
    try:
        wandb_run = run if run is not None else getattr(sys.modules.get("wandb"), "run", None)
        if wandb_run is None:
            print_message(f"no run of W&B is active for the figures of {job_id}")
            return
        wandb_run.summary.update({**figures, **_identity(job_id, url)})
    except Exception as error:
        print_message(f"the figures of {job_id} did not reach W&B: {error!r}"[:300])


def _identity(job_id: str, url: str | None) -> dict[str, str]:
    return {JOB_TAG: job_id, PAGE_TAG: url} if url else {JOB_TAG: job_id}
