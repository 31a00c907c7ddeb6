"""Reads the counters of servers in threads of their own, so that nothing waits for a server."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Container, Sequence
from queue import Empty, SimpleQueue
from threading import Event
from typing import NamedTuple

from gramwatt.collectors.serving.presets import NAME, Series, Server, names, parse_series
from gramwatt.collectors.settings.background import SWITCH_S, in_background
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.http import Unanswered, exchange, new_session

_VALUE = re.compile(r"[ \t]+([^ \t]+)([ \t]+-?[\d.]+(?:[eE][-+]?\d+)?)?[ \t]*( # \{.*)?")
"""A value, its time (a float in OpenMetrics), and an exemplar of OpenMetrics."""
EVERY_NS = 5 * NS_PER_S
EARLY_NS = NS_PER_S // 4
"""A reading so long before each whole 5 s is of the hour and day that end there."""
LIMIT_S = 4.0
"""The longest that one answer may take [s]."""
LAST_LIMIT_S = 0.5
"""The same for the reading at the job's end, which its user waits for."""
LARGEST_B = 16 * 2**20
ADVICE = dict.fromkeys((401, 403), "; a key that it asks for is given as http://KEY@HOST:PORT")
ADVICE |= dict.fromkeys((404, 501), "; see that its metrics are switched on, and at this address")
"""What to do about a status."""
START_TIME = "process_start_time_seconds"
"""When the server's process began, as Prometheus' client libraries give it [Unix time, s]."""


class Reading(NamedTuple):
    """What a server answered at a moment of CLOCK_MONOTONIC; `samples` is None without an answer.

    `down`: nobody listens there, so that a server which comes up later begins at zero.
    """

    server: int
    mono_ns: int
    samples: dict[Series, float] | None
    down: bool = False
    problem: str = ""


class Poller:
    """One thread for each server, which ends with the process; tests give scripted readings."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._read: SimpleQueue[Reading] = SimpleQueue()
        self._ended = Event()
        sys.setswitchinterval(SWITCH_S)
        for number in range(len(servers)):
            in_background(lambda number=number: self._poll(number))  # type: ignore[misc]

    def take(self) -> list[Reading]:
        """Return what has been read since the last call."""
        readings = []
        while True:
            try:
                readings.append(self._read.get_nowait())
            except Empty:
                return sorted(readings, key=lambda reading: reading.mono_ns)

    def last(self) -> list[Reading]:
        """Return that, and one more reading of each server that answers at once."""
        self._ended.set()
        before = self.take()
        waits = [
            in_background(lambda number=number: self._put(number, LAST_LIMIT_S))  # type: ignore[misc]
            for number in range(len(self._servers))
        ]
        deadline = time.monotonic() + LAST_LIMIT_S
        for thread in waits:
            thread.join(max(0.0, deadline - time.monotonic()))
        return before + self.take()

    def _poll(self, number: int) -> None:
        while not self._ended.is_set():
            self._put(number, LIMIT_S)
            self._ended.wait((EVERY_NS - (time.time_ns() + EARLY_NS) % EVERY_NS) / NS_PER_S)

    def _put(self, number: int, limit_s: float) -> None:
        self._read.put(read(self._servers[number], number, limit_s))


def read(server: Server, number: int, limit_s: float) -> Reading:
    """Return what the server answers now, within `limit_s` [s]; never raises."""
    mono_ns = time.monotonic_ns()
    try:
        text = _text(server.url, limit_s)
        counted = names([*server.candidates().values(), server.metrics])
        return Reading(number, mono_ns, parse_samples(text, counted | {START_TIME}))
    except Unanswered as error:
        why = "it does not answer in time" if error.late else error.reason
        return Reading(number, mono_ns, None, error.refused, why)
    except ValueError as error:
        return Reading(number, mono_ns, None, problem=str(error)[:100])
    except Exception as error:  # whatever an answer holds, the next one is read
        return Reading(number, mono_ns, None, problem=repr(error)[:100])


def _text(url: str, limit_s: float) -> str:
    """Return the text at an address, asked by no proxy; raises Unanswered and ValueError."""
    headers = {"Accept": "text/plain;version=0.0.4", "Connection": "close"}
    content = {"headers": headers, "allow_redirects": True}
    with new_session(repeats=False, direct=True) as session:
        answer = exchange(
            session, "GET", url, limit_s, silence_s=limit_s, most_b=LARGEST_B, **content
        )
    if answer.status != 200:
        raise ValueError(f"it answers HTTP {answer.status}{ADVICE.get(answer.status, '')}")
    if answer.body.lstrip()[:1] == b"<":
        raise ValueError("it answers with a web page; name the whole address of its metrics")
    return answer.body.decode("utf-8")


def parse_samples(text: str, names: Container[str]) -> dict[Series, float]:
    """Return the values of the series with these names in a text of Prometheus' exposition format
    (0.0.4), or in OpenMetrics; times and exemplars are not used.

    Raises ValueError for a text without its last newline, which was cut off, and for a line of
    these series that cannot be read. A value that is NaN, infinite or below zero is not a count:
    its series is left out.
    """
    if text and not text.endswith("\n"):
        raise ValueError("the text ends within a line")
    values: dict[Series, float] = {}
    for line in text.split("\n"):
        match = NAME.match(line)
        if match is None or match[0] not in names:
            continue
        series, end = parse_series(line)
        value = _VALUE.fullmatch(line, end)
        number = float(value[1]) if value else math.nan
        if value is None:
            raise ValueError(f"no sample: {line[:80]!r}")
        if math.isfinite(number) and number >= 0:
            values[series] = number
    return values
