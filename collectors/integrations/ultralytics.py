"""Ultralytics YOLO: training as one job.

    model = YOLO("yolo11n.yaml")
    add_callbacks(model, project="vision")

Counts `image` and a window for each epoch. With several GPUs Ultralytics starts ranks with these
callbacks; the first counts for all.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from gramwatt.collectors.integrations.tracked_run import TrackedRun
from gramwatt.collectors.track.messages import print_message

_RUN = "_gramwatt_run"


def add_callbacks(model: Any, **options: Any) -> None:
    """Measure every `model.train()` as a job; `options` are those of `track`."""
    for event, callback in _CALLBACKS.items():
        model.add_callback(event, functools.partial(_call, callback.__name__, options))


def _call(name: str, options: dict[str, Any], trainer: Any) -> None:
    """Call one of the functions below; picklable, as ranks get it."""
    try:
        globals()[name](trainer, options)
    except Exception as error:
        text = f"gramwatt's callback {name.strip('_')} failed: {error!r}"
        run = getattr(trainer, _RUN, None)
        if run is None:
            print_message(text)
        else:
            run.note("integration-failed", text[:300])


def _train_start(trainer: Any, options: dict[str, Any]) -> None:
    run = TrackedRun(**{"kind": "training", "unit": "image", **options})
    setattr(trainer, _RUN, run)
    run.begin()


def _epoch_start(trainer: Any, _options: dict[str, Any]) -> None:
    getattr(trainer, _RUN).open_window(f"epoch-{trainer.epoch}")


def _epoch_end(trainer: Any, _options: dict[str, Any]) -> None:
    run = getattr(trainer, _RUN)
    if (
        int(os.environ.get("RANK", "-1")) <= 0
    ):  # an epoch that is repeated after an error has no end
        run.count(image=len(trainer.train_loader.dataset))
    run.close_window(f"epoch-{trainer.epoch}")


def _train_end(trainer: Any, _options: dict[str, Any]) -> None:
    getattr(trainer, _RUN).end()


def _teardown(trainer: Any, _options: dict[str, Any]) -> None:
    run = getattr(trainer, _RUN, None)
    if run is not None and run.runs:  # on_train_end was left out
        run.end(RuntimeError("the training did not reach its end"))


_CALLBACKS = {
    "on_train_start": _train_start,
    "on_train_epoch_start": _epoch_start,
    "on_train_epoch_end": _epoch_end,
    "on_train_end": _train_end,
    "teardown": _teardown,
}
