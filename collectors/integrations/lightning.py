"""Lightning 2: a callback, also by Lightning's entry point with GRAMWATT_LIGHTNING=1.

    Trainer(callbacks=[GramwattCallback(project="vision")])

Counts `step`, `sample` and, where a batch has `input_ids`, `token` on every rank; a window for each
epoch and for validations.
"""

from __future__ import annotations

import sys
from typing import Any

if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning.callbacks import Callback
else:
    from lightning.pytorch.callbacks import Callback

from gramwatt.collectors.integrations.tracked_run import TrackedRun, batch_size, harmless, tokens_of
from gramwatt.collectors.track.track import Job


class GramwattCallback(Callback):  # type: ignore[misc]
    """Measures `trainer.fit()` as one job; `options` are those of `track`."""

    def __init__(self, **options: Any) -> None:
        self._run = TrackedRun(**{"kind": "training", "unit": "sample", **options})
        self._epoch = ""

    @property
    def job(self) -> Job | None:
        """The job of the last fit; None before the first."""
        return self._run.job

    @harmless
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the job."""
        self._run.begin()

    @harmless
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the window of the epoch."""
        self._epoch = f"epoch-{trainer.current_epoch}"
        self._run.open_window(self._epoch)

    @harmless
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the batch of this rank; a step is one on all ranks."""
        steps = int(trainer.is_global_zero)
        self._run.count(step=steps, sample=batch_size(batch), token=tokens_of(batch))

    @harmless
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the window of the epoch."""
        self._run.close_window(self._epoch)

    @harmless
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the window of the validation, but for the check before the training."""
        if not trainer.sanity_checking:
            self._run.open_window("validation")

    @harmless
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the window of the validation."""
        self._run.close_window("validation")

    @harmless
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the job as failed."""
        self._run.end(exception)

    @harmless
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """End the job."""
        self._run.end()
