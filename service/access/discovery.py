"""What a provider of sign-in says of itself: asked for in a thread, kept, and renewed.

A provider that is slow holds one request for a moment, and the others not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread
from typing import Any

from gramwatt.service.common.errors import BusyError, LoginError

WAIT_S = 3.0
"""How long the request that asks first waits for the answer [s]."""
FRESH_S, AGAIN_S, GIVEN_UP_S = 3600.0, 5.0, 60.0
"""After what time an answer is renewed, asked for again after a failure, or without an end [s]."""
Fetch = Callable[[], Mapping[str, Any]]


class Discovery:
    """The newest answer of one provider."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._lock = Lock()
        self._asked_s = float("-inf")
        self._kept: Mapping[str, Any] | None = None
        self._error: LoginError | None = None
        self._done = Event()
        self._done.set()

    def get(self) -> Mapping[str, Any]:
        """Return the answer; raises LoginError, or BusyError while another request waits for it."""
        with self._lock:
            age_s = time.monotonic() - self._asked_s
            least_s = FRESH_S if self._kept else AGAIN_S
            mine = age_s > (least_s if self._done.is_set() else GIVEN_UP_S)
            if mine:
                self._asked_s, self._done = time.monotonic(), Event()
                Thread(target=self._renew, args=(self._done,), daemon=True).start()
            done = self._done
        if mine and self._kept is None:
            done.wait(WAIT_S)
        if self._kept is not None:
            return self._kept
        if done.is_set() and self._error is not None:
            raise self._error
        raise BusyError("the provider of sign-in is slow to answer; try again")

    def _renew(self, done: Event) -> None:
        try:
            self._kept = self._fetch()
        except LoginError as error:
            self._error = error
        finally:
            done.set()
