"""The job of a training run that callbacks of a framework drive."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gramwatt.collectors.track.track import Job, Tracker, Window, track

Method = TypeVar("Method", bound=Callable[..., Any])


class TrackedRun:
    """A job, its open windows and its counts; inside a running job it is part of that one.

    `options` are those of `track`. `job` is the last job that was begun, None before the first.
    """

    def __init__(self, **options: Any) -> None:
        self.job: Job | None = None
        self._options = options
        self._tracker: Tracker | None = None
        self._windows: dict[str, Window] = {}
        self._noted: set[str] = set()
        self._is_copy = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in a worker process needs: it counts, and ends nothing."""
        return {**self.__dict__, "_tracker": None, "_windows": {}, "_is_copy": True}

    @property
    def runs(self) -> bool:
        """Return whether the job was begun and not ended."""
        return self._tracker is not None

    def begin(self) -> None:
        """Begin the job; one that an exception left open is ended as failed first."""
        if self.runs:
            self.end(RuntimeError("the run before did not reach its end"))
        self._tracker = track(**self._options)
        self.job = self._tracker.__enter__()

    def open_window(self, name: str) -> None:
        """Open a window, inside those that are open; one of that name may be open already."""
        if self.runs and self.job is not None and name not in self._windows:
            window = self._windows[name] = self.job.window(name)
            window.__enter__()

    def close_window(self, name: str) -> None:
        """Close a window, if it is open."""
        window = self._windows.pop(name, None)
        if window is not None:
            window.__exit__(None, None, None)

    def count(self, **units: float) -> None:
        """Add functional units [R] to the job; amounts of 0 say nothing."""
        if self.job is not None and (self.runs or self._is_copy):
            self.job.count(**{unit: amount for unit, amount in units.items() if amount > 0})

    def note(self, code: str, text: str) -> None:
        """Leave a notice in the report of the job, once of each code."""
        if self.job is not None and code not in self._noted:
            self._noted.add(code)
            self.job.send_notice(code, text)

    def end(self, error: BaseException | None = None) -> None:
        """End the job, as failed after an exception."""
        for name in reversed(list(self._windows)):
            self.close_window(name)
        tracker, self._tracker = self._tracker, None
        self._noted.clear()
        if tracker is not None:
            tracker.__exit__(type(error) if error else None, error, None)


def harmless(method: Method) -> Method:
    """Decorate a callback of an object with a TrackedRun `_run`: its exceptions become a notice."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            text = f"{type(self).__name__}.{method.__name__} of gramwatt failed: {error!r}"
            self._run.note("integration-failed", text[:300])

    return call  # type: ignore[return-value]  # the same signature


def batch_size(batch: Any) -> int:
    """Return how many samples a batch has: the length of its first array or list; 0 unknown."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 1
    if isinstance(batch, dict) or hasattr(batch, "values"):
        return _first_size(batch.values())
    if isinstance(batch, list | tuple):
        if (
            batch
            and not hasattr(batch[0], "shape")
            and not isinstance(batch[0], dict | list | tuple)
        ):
            return len(batch)  # texts, numbers
        return _first_size(batch)
    return 0


def _first_size(parts: Iterable[Any]) -> int:
    return next((size for size in map(batch_size, parts) if size), 0)


def tokens_of(batch: Any) -> int:
    """Return how many token ids a batch of a language model has, padding too; 0 for others."""
    try:
        return int(batch["input_ids"].numel())
    except (AttributeError, IndexError, KeyError, TypeError):
        return 0
