"""R of a command that counts nothing itself: `--count UNIT=N`, `--count-from UNIT=FILE:KEY` or URL.

What is counted so adds to what the command counts. A file is read when the command has ended: what
is wrong with it is a notice, and never changes the exit code. The counters of a server are read by
the meter while the command runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct

from gramwatt.collectors.cli.exit_codes import UsageError
from gramwatt.collectors.serving.presets import SCHEMES, servers
from gramwatt.collectors.settings.config import plain_address
from gramwatt.collectors.settings.files import why
from gramwatt.collectors.track.messages import print_message
from gramwatt.sci.figures.unit_names import misspelt
from gramwatt.sci.records.records import AMOUNT_MOST, UNIT_PATTERN

LARGEST_B = 64 * 2**20
"""Size of the largest file that is read."""
_ADDRESS = re.compile(r"[^=/]+:(\d+(/|=|$)|.*@)|.*://")
"""A server without its scheme, or not at the begin: a unit has no colon."""
_Stamp = tuple[int, int, int] | None


class _Source(Struct, frozen=True):
    """One `--count-from`: the file and its key, and what the file was when the command started."""

    text: str
    unit: str
    path: Path
    key: str
    stamp: _Stamp


class RunCounts:
    """What to count for a command, by its options."""

    def __init__(
        self,
        count: Sequence[str] | None,
        count_from: Sequence[str] | None,
        count_metric: Sequence[str] | None = None,
    ) -> None:
        """Raises UsageError for an option without a meaning."""
        addresses = [text for text in count_from or () if text.startswith(SCHEMES)]
        self.servers: dict[str, Sequence[str]] = {}
        """Servers that the meter polls: `addresses` and `metrics`; empty for none."""
        self.serving = _serving(addresses, count_metric or ())
        """The preset of the servers, `other` without a named one; empty without a server."""
        if addresses:
            self.servers = {"addresses": addresses, "metrics": list(count_metric or ())}
        self._declared: dict[str, float] = {}
        for text in count or ():
            unit, number = _parted("--count", text, "UNIT=N, such as token=98304")
            self._once("--count", unit, self._declared)
            try:
                self._declared[unit] = _amount(float(number))
            except ValueError:
                raise UsageError(f"--count {text}: R is a number above zero") from None
        self._sources: dict[str, _Source] = {}
        for text in count_from or ():
            if text in addresses:
                continue
            source = _source(text)
            self._once("--count-from", source.unit, {**self._declared, **self._sources})
            self._sources[source.unit] = source
        for unit in (*self._declared, *self._sources):
            if text := misspelt(unit):
                print_message(f"the unit {text} [unit-misspelt]")

    @staticmethod
    def _once(option: str, unit: str, others: Mapping[str, object]) -> None:
        if unit in others:
            raise UsageError(f"{option} {unit} is given more than once")

    def read(self, *, failed: bool) -> Iterator[tuple[str, float]]:
        """Yield units and amounts when the command has ended; print what is not counted.

        A command that failed has not done what was declared before it began.
        """
        if not failed:
            yield from self._declared.items()
        elif self._declared:
            declared = ", ".join(f"{unit}={n:g}" for unit, n in self._declared.items())
            first = next(iter(self._declared))
            how = f"`gramwatt job ID --set count.{first}=N` declares what it did"
            print_message(f"the command failed, so --count {declared} is not counted; {how}")
        for source in self._sources.values():
            try:
                amount = _read(source)
            except (OSError, ValueError, RecursionError) as error:
                print_message(f"--count-from {source.text}: {why(error)}; it is not counted")
                continue
            if _stamp(source.path) == source.stamp:
                text = f"the command did not write {source.path}; what it holds is counted"
                print_message(f"--count-from {source.text}: {text}")
            yield source.unit, amount


def _parted(option: str, text: str, example: str) -> tuple[str, str]:
    """Return the unit and what follows its equals sign; raises UsageError."""
    unit, equals, text_behind = text.partition("=")
    if not equals or not text_behind:
        raise UsageError(f"{option} {text!r}: write {example}")
    if not UNIT_PATTERN.fullmatch(unit):
        raise UsageError(f"{option} {text!r}: {unit!r} is not a unit name")
    return unit, text_behind


def _serving(addresses: Sequence[str], metrics: Sequence[str]) -> str:
    try:
        polled = servers(addresses, metrics)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return next((server.preset for server in polled if server.preset), "other" if polled else "")


def _source(text: str) -> _Source:
    example = "UNIT=FILE:KEY, such as token=metrics.json:train.tokens"
    if _ADDRESS.match(text):
        shown = plain_address(text)
        raise UsageError(f"--count-from {shown!r}: write a server as http://HOST:PORT[=PRESET]")
    unit, place = _parted("--count-from", text, example)
    file, colon, key = place.rpartition(":")
    if not (colon and file and key):
        raise UsageError(f"--count-from {text!r}: write {example}")
    path = Path(file).absolute()
    return _Source(text, unit, path, key, _stamp(path))


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read(source: _Source) -> float:
    """Return the number at the key; raises OSError, or ValueError for anything else."""
    if source.path.stat().st_size > LARGEST_B:
        raise ValueError(f"the file is larger than {LARGEST_B // 2**20} MiB")
    document = json.loads(source.path.read_text("utf-8"))
    return _amount(_at(document, source.key))


def _at(document: Any, key: str) -> Any:
    """Return what a dotted path names; a key that has dots itself is found too."""
    if not isinstance(document, dict):
        raise ValueError(f"there is no object with the key {key!r}")
    if key in document:
        return document[key]
    for first, following in _splits(key):
        if first in document:
            return _at(document[first], following)
    keys = ", ".join(list(map(str, document))[:8])
    raise ValueError(f"it has no key {key!r}; it has {keys or 'none'}")


def _splits(key: str) -> Iterable[tuple[str, str]]:
    parts = key.split(".")
    return ((".".join(parts[:n]), ".".join(parts[n:])) for n in range(1, len(parts)))


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"not a number: {str(value)[:40]!r}")
    if not isfinite(value) or not 0 < value <= AMOUNT_MOST:
        raise ValueError(f"R is a number above zero, not {value}")
    return float(value)
