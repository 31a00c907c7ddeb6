"""How often a caller may ask: token buckets in this process, by key and by address."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

BUCKETS_MOST = 10_000
"""Buckets that are kept; of more, the one that was asked least lately is forgotten."""


class Buckets:
    """For each name a bucket of `burst` tokens that gains `per_s` tokens a second."""

    def __init__(
        self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_s, self.burst, self._clock = per_s, burst, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, name: str) -> float:
        """Take a token; 0.0, or how long until there is one [s]."""
        with self._lock:
            now = self._clock()
            level, since = self._levels.pop(name, (self.burst, now))
            level = min(self.burst, level + (now - since) * self.per_s)
            wait_s = 0.0 if level >= 1 else (1 - level) / self.per_s
            self._levels[name] = (level if wait_s else level - 1, now)
            if len(self._levels) > BUCKETS_MOST:
                self._levels.popitem(last=False)
            return wait_s
