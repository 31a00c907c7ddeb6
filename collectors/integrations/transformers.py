"""Hugging Face Trainer, and those built on it (TRL, sentence-transformers).

    Trainer(..., callbacks=[GramwattCallback(project="nlp")])

Counts `step`, `sample` and, where the trainer knows them, `token`; a window for each epoch and one
for evaluations.
"""

from __future__ import annotations

import functools
import math
import sys
from types import FrameType
from typing import Any

from transformers.trainer_callback import TrainerCallback

from gramwatt.collectors.integrations.tracked_run import TrackedRun, harmless
from gramwatt.collectors.track.track import Job

DERIVED = "Samples are steps times the size of a batch; the last batch of an epoch may have fewer."


class GramwattCallback(TrainerCallback):  # type: ignore[misc]
    """Measures `trainer.train()` as one job; `options` are those of `track`.

    Every rank measures its node, and the first counts for all. Given to the constructor of the
    Trainer it also sees exceptions; added later, a run that ended by one is closed by the next
    `train()` or the end of the process.
    """

    def __init__(self, **options: Any) -> None:
        self._run = TrackedRun(**{"kind": "training", "unit": "sample", **options})
        self._steps = 0
        self._tokens: float = 0
        self._logs_tokens = False
        self._samples_left: float = 0
        self._epoch = ""

    @property
    def job(self) -> Job | None:
        """The job of the last training; None before the first."""
        return self._run.job

    @harmless
    def on_init_end(self, args: Any, state: Any, control: Any, **_parts: Any) -> None:
        """Watch `train()` for exceptions, after which the Trainer calls nobody."""
        trainer = _trainer_above()
        if trainer is None:
            return
        train = trainer.train

        @functools.wraps(train)
        def watched(*args: Any, **options: Any) -> Any:
            try:
                return train(*args, **options)
            except BaseException as error:
                self._run.end(error)
                raise

        trainer.train = watched

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **_parts: Any) -> None:
        """Begin the job; what a checkpoint has done already is not counted."""
        self._run.begin()
        self._steps = state.global_step
        self._tokens = state.num_input_tokens_seen
        self._logs_tokens = False

    @harmless
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Open the window of the epoch."""
        self._epoch = f"epoch-{int(state.epoch or 0)}"
        self._run.open_window(self._epoch)
        self._samples_left = _samples(parts.get("train_dataloader"))

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **_parts: Any) -> None:
        """Count the step, and its samples over all ranks."""
        steps, self._steps = state.global_step - self._steps, state.global_step
        per_step = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        samples = min(steps * per_step, self._samples_left)
        self._samples_left -= samples
        if math.isinf(self._samples_left):
            self._run.note("count-derived", DERIVED)
        if state.is_world_process_zero:
            self._run.count(step=steps, sample=samples)

    @harmless
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_parts: Any) -> None:
        """Close the window of the epoch."""
        self._run.close_window(self._epoch)

    @harmless
    def on_prediction_step(self, args: Any, state: Any, control: Any, **_parts: Any) -> None:
        """Open the window of the evaluation at its first batch."""
        self._run.open_window("evaluation")

    @harmless
    def on_evaluate(self, args: Any, state: Any, control: Any, **_parts: Any) -> None:
        """Close the window of the evaluation."""
        self._run.close_window("evaluation")

    @harmless
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_parts: Any) -> None:
        """Count the tokens since the last log: TRL's own number, else the Trainer's."""
        logged = (logs or {}).get("num_tokens")
        if logged is not None and not self._logs_tokens:
            self._logs_tokens, self._tokens = True, 0
        self._count_tokens(logged if self._logs_tokens else state.num_input_tokens_seen, state)

    @harmless
    def on_train_end(self, args: Any, state: Any, control: Any, **_parts: Any) -> None:
        """Count the last tokens and end the job."""
        if not self._logs_tokens:
            self._count_tokens(state.num_input_tokens_seen, state)
        self._run.end()

    def _count_tokens(self, seen: float | None, state: Any) -> None:
        if seen is None or seen <= self._tokens:
            return
        if state.is_world_process_zero:
            self._run.count(token=seen - self._tokens)
        self._tokens = seen


def _trainer_above() -> Any:
    """Return the Trainer whose constructor calls; callbacks get parts of it, never itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "callback_handler") and hasattr(owner, "train"):
            return owner
        frame = frame.f_back
    return None


def _samples(loader: Any) -> float:
    """Return the samples of an epoch, which bound what steps times batches give; else infinity."""
    try:
        return float(len(loader.dataset))
    except (AttributeError, TypeError):
        return float("inf")
