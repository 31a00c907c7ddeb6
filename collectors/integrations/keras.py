"""Keras 3, on any backend.

    model.fit(x, y, batch_size=32, callbacks=[GramwattCallback(batch_size=32)])

Counts `step` and `sample` at the end of each epoch, which is a window. Keras tells a callback no
batch size, and says nothing of an exception: the job then ends with the next fit or the process.
"""

from __future__ import annotations

from typing import Any

import keras

from gramwatt.collectors.integrations.tracked_run import TrackedRun, harmless
from gramwatt.collectors.track.track import Job


class GramwattCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Measures `model.fit()` as one job; `options` are those of `track`.

    `batch_size` is that of `fit`; `samples` are those of an epoch where it is not a multiple of
    it. With neither only steps are counted.
    """

    async_safe = True  # no hook of a batch: Keras need not wait for the device

    def __init__(
        self, *, batch_size: int | None = None, samples: int | None = None, **options: Any
    ) -> None:
        super().__init__()
        self._run = TrackedRun(**{"kind": "training", **options})
        self._batch_size = batch_size
        self._samples = samples

    @property
    def job(self) -> Job | None:
        """The job of the last fit; None before the first."""
        return self._run.job

    @harmless
    def on_train_begin(self, logs: Any = None) -> None:
        """Begin the job."""
        self._run.begin()

    @harmless
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Open the window of the epoch."""
        self._run.open_window(f"epoch-{epoch}")

    @harmless
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count the epoch and close its window."""
        steps = self.params.get("steps") or 0
        samples = self._samples or steps * (self._batch_size or 0)
        if samples and not self._samples:
            text = "Samples are steps times the size of a batch; the last batch may have fewer."
            self._run.note("count-derived", text)
        self._run.count(step=steps, sample=samples)
        self._run.close_window(f"epoch-{epoch}")

    @harmless
    def on_train_end(self, logs: Any = None) -> None:
        """End the job."""
        self._run.end()
