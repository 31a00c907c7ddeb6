"""Runs seeds: one by one on a stage, or many of them in several processes."""

from __future__ import annotations

import gc
import hashlib
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.invariants import check
from tests.simulation.story import Stage, Story

IN_MEMORY = Path("/dev/shm")
SEEDS_AT_ONCE = 250
"""Seeds of one stage, unless a quarter of a process's are more: to set it takes as long as three
stories."""


@dataclass(frozen=True)
class Outcome:
    """How a seed went: what was broken, the faults by kind, and everything that happened."""

    seed: int
    broken: list[str]
    faults: Counter[str]
    trace: list[str]

    @property
    def digest(self) -> str:
        """The same for the same story."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


@contextmanager
def stage() -> Iterator[Stage]:
    """A stage in a folder of its own, in memory where the machine has one."""
    usual = gc.get_threshold()
    folder = Path(
        tempfile.mkdtemp(prefix="gramwatt-sim-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
    )
    try:
        with Stage.set(folder) as made:
            gc.collect()
            gc.freeze()  # what is loaded stays; only the stories make garbage, and little of it
            gc.set_threshold(50_000, 20, 100)
            yield made
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
        shutil.rmtree(folder, ignore_errors=True)


def run(seed: int, on: Stage) -> Outcome:
    """Tell a seed's story and check what must hold."""
    story = Story(seed, on)
    try:
        story.tell()
        broken = check(story)
    except Exception:
        broken = [*story.ledger.broken, traceback.format_exc(limit=-4)]
    return Outcome(seed, broken, story.world.faults, story.world.trace)


def run_many(seeds: Iterable[int], processes: int) -> Iterator[list[Outcome]]:
    """Outcomes of seeds in lots, as they come; traces only of those that failed."""
    known = list(seeds)
    of_one = -(-len(known) // processes)
    size = max(min(SEEDS_AT_ONCE, of_one), -(-of_one // 4)) or 1
    lots = [known[at : at + size] for at in range(0, len(known), size)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_lot, lots)


def _lot(seeds: list[int]) -> list[Outcome]:
    with stage() as on:
        found = [run(seed, on) for seed in seeds]
    return [Outcome(o.seed, o.broken, o.faults, o.trace if o.broken else []) for o in found]
