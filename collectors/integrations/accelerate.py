"""Accelerate: a tracker that measures instead of logging.

accelerator = Accelerator(log_with=GramwattTracker(project="nlp"))
accelerator.init_trackers("run")
job = accelerator.get_tracker("gramwatt", unwrap=True)  # job.count(sample=64)
"""

from __future__ import annotations

from typing import Any

from accelerate.tracking import GeneralTracker

from gramwatt.collectors.track.track import Job, track


class GramwattTracker(GeneralTracker):  # type: ignore[misc]
    """Measures from `init_trackers` to `end_training`; `options` are those of `track`.

    Accelerate tells a tracker nothing of batches, so the loop counts by the job, which
    `get_tracker("gramwatt", unwrap=True)` returns.
    """

    name = "gramwatt"
    requires_logging_directory = False
    main_process_only = False  # every rank measures its node

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._tracker = track(**{"kind": "training", **options})
        self._job: Job | None = None

    @property
    def tracker(self) -> Job | None:
        """The job; None before `init_trackers`."""
        return self._job

    def start(self) -> None:
        """Begin the job."""
        self._job = self._tracker.__enter__()

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Do nothing: hyperparameters belong to other trackers."""

    def log(self, values: dict[str, Any], step: int | None = None, **_options: Any) -> None:
        """Do nothing: metrics belong to other trackers."""

    def finish(self) -> None:
        """End the job."""
        self._tracker.__exit__(None, None, None)
