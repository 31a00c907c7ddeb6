"""The servers that are polled, by the options `--count-from URL[=PRESET]` and `--count-metric`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gramwatt.collectors.common.config import plain_address
from gramwatt.collectors.serving.presets import PRESETS, Key, Preset, Term, Way, names
from gramwatt.collectors.serving.samples import parse_series
from gramwatt.sci.journal.records import UNIT_PATTERN

SCHEMES = ("http://", "https://")
METRICS_PATH = "/metrics"


class Server(NamedTuple):
    """One address to poll, what it counts by a preset (None: whichever fits), and by own names."""

    url: str
    preset: str | None
    metrics: Preset

    @property
    def shown(self) -> str:
        """Return its address without a password or a query, for messages and the journal."""
        return plain_address(self.url).partition("?")[0]

    def candidates(self) -> dict[str, Preset]:
        """Return the presets that it may have, by name."""
        if self.preset:
            return {self.preset: PRESETS[self.preset]}
        return {} if self.metrics else dict(PRESETS)


def servers(addresses: Sequence[str], metrics: Sequence[str]) -> list[Server]:
    """Return the servers of the texts of both options; raises ValueError, which says what to write.

    The metrics of `--count-metric` are looked for at each server.
    """
    own: Preset = dict(_own(text) for text in metrics)
    if len(own) < len(metrics):
        raise ValueError("--count-metric: a unit is given more than once; name one counter for it")
    polled = [_server(text, own) for text in addresses]
    if own and not polled:
        raise ValueError("--count-metric: name the server too: --count-from http://HOST:PORT")
    if len({server.url for server in polled}) < len(polled):
        raise ValueError("--count-from: the same server is given more than once")
    return polled


def from_start(line: Any) -> list[Server]:
    """Return the servers of a client's start line; none for anything else."""
    try:
        return servers(line["addresses"], line["metrics"])
    except (KeyError, TypeError, ValueError):
        return []


def _server(text: str, own: Preset) -> Server:
    url, preset = text, None
    before, equals, after = text.rpartition("=")
    if equals and after in PRESETS:
        url, preset = before, after
    elif equals and "?" not in before and "/" not in after and "@" not in after:
        presets = ", ".join(PRESETS)
        shown = plain_address(text)
        raise ValueError(f"--count-from {shown!r}: {after!r} is no preset; they are {presets}")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"--count-from {plain_address(text)!r}: write http://HOST:PORT/metrics")
    if parts.path in ("", "/"):
        url = parts._replace(path=METRICS_PATH).geturl()
    if preset:
        _check_once(preset, own)
    return Server(url, preset, own)


def _check_once(preset: str, own: Preset) -> None:
    """Raise ValueError where a counter of one's own would add to a unit what the preset does.

    One for the same unit and phase takes the preset's place, so that it counts once.
    """
    for key, ways in own.items():
        unit, name = key[0], ways[0][0].name
        counted = {other: names([{other: way}]) for other, way in PRESETS[preset].items()}
        if any(
            name in others for other, others in counted.items() if other != key and other[0] == unit
        ):
            raise ValueError(
                f"--count-metric '{name}={unit}': the preset {preset} counts that already; "
                "leave out one of the two"
            )


def _own(text: str) -> tuple[Key, tuple[Way, ...]]:
    name, equals, unit = text.rpartition("=")
    example = "NAME=UNIT, such as my_images_total=image"
    try:
        series, end = parse_series(name)
    except ValueError:
        end = -1
    if not equals or end != len(name):
        raise ValueError(f"--count-metric {text!r}: write {example}")
    if not UNIT_PATTERN.fullmatch(unit):
        raise ValueError(f"--count-metric {text!r}: {unit!r} is not a unit name")
    return (unit, None), ((Term(*series),),)
