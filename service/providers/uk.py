"""The Carbon Intensity API of Great Britain's system operator (NESO), half hours, no key.

Its intensity is direct only, with imports. It also publishes the mix of fuels, of which lifecycle
intensity is derived with our factors: generation within Great Britain, imports left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from gramwatt.sci.grid.fuels import IMPORTS, OTHER
from gramwatt.service.providers.base import (
    DERIVED,
    Kind,
    Reading,
    Values,
    in_steps,
    moment,
    number,
    of_mix,
)
from gramwatt.service.providers.http import Provider

STEP_S = 1800
PUBLISHED = Kind("average", "direct", "consumption")
AHEAD = timedelta(hours=48)


class UkCarbonIntensity(Provider):
    """Great Britain, half-hourly since 2017; a forecast of 48 h of the direct intensity."""

    name = "uk"
    licence = "CC-BY-4.0"
    address = "https://api.carbonintensity.org.uk"
    longest = timedelta(days=13)

    def kinds(self, zone: str) -> Sequence[Kind]:
        """Derived and published, of GB only."""
        return (DERIVED, PUBLISHED) if zone == "GB" else ()

    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Half hours; one without an actual value is left out."""
        path, parse = ("generation", _mix) if kind == DERIVED else ("intensity", _actual)
        return self._http.ask(
            f"{path}/{_text(start)}/{_text(end)}",
            lambda body: in_steps(parse(json.loads(body)), STEP_S, start, end),
        )

    def forecast(self, zone: str, kind: Kind, now: datetime) -> Values | None:
        """48 h of direct intensity."""
        if kind != PUBLISHED:
            return None
        return self._http.ask(
            f"intensity/{_text(now)}/fw48h",
            lambda body: in_steps(_expected(json.loads(body)), STEP_S, now, now + AHEAD),
        )


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%MZ}"


def _actual(answer: Any) -> Iterator[Reading]:
    for row in answer["data"]:
        yield Reading(moment(row["from"]), number(row["intensity"]["actual"]), "measured")


def _expected(answer: Any) -> Iterator[Reading]:
    for row in answer["data"]:
        yield Reading(moment(row["from"]), number(row["intensity"]["forecast"]), "forecast")


def _mix(answer: Any) -> Iterator[Reading]:
    for row in answer["data"]:
        mix = {part["fuel"]: number(part["perc"]) or 0.0 for part in row["generationmix"]}
        mix = {IMPORTS if fuel == "imports" else fuel: share for fuel, share in mix.items()}
        mix.setdefault(OTHER, 0.0)
        yield of_mix(moment(row["from"]), mix, "lifecycle")
