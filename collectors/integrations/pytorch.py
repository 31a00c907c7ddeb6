"""Plain PyTorch loops: the loader counts what it hands out.

with track():
    for images, labels in count_batches(loader, unit="image"): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from gramwatt.collectors.integrations.tracked_run import batch_size
from gramwatt.collectors.track.messages import print_message
from gramwatt.collectors.track.track import Job, running_job

Batch = TypeVar("Batch")


class CountedLoader(Generic[Batch]):
    """A loader that counts the samples of each batch when the loop asks for the next one.

    Everything else is the loader's own: `len`, `dataset`, `sampler`, ...
    """

    def __init__(self, loader: Iterable[Batch], unit: str) -> None:
        self._loader = loader
        self._unit = unit

    def __iter__(self) -> Iterator[Batch]:
        job = _job()
        for batch in self._loader:
            try:
                yield batch
            finally:  # the loop may leave at this batch, which it has worked on
                _count(job, self._unit, batch)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # as the loader itself answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_loader"], name)


def count_batches(dataloader: Iterable[Batch], unit: str = "sample") -> CountedLoader[Batch]:
    """Return the loader, counting the samples of each batch in `unit` into the running job.

    That is the job of `track` in this process, or of `gramwatt run`. A batch counts once the loop
    has worked on it; its size is the length of its first array.
    """
    return CountedLoader(dataloader, unit)


def _job() -> Job | None:
    job = running_job()
    if job is None:
        print_message("count_batches counts nothing, as no job runs: use `with track():` around it")
    return job


def _count(job: Job | None, unit: str, batch: Any) -> None:
    if job is None:
        return
    try:
        size = batch_size(batch)
    except Exception:  # a batch of the user's own kind
        size = 0
    if size:
        job.count(**{unit: size})
    else:
        print_message(f"count_batches finds no size in a {type(batch).__name__}")
