"""The Transparency Platform of ENTSO-E: generation by fuel in Europe, 15 to 60 minutes, by key.

Intensity is derived with our factors: generation within the zone, imports left out. A step for
which a fuel of the zone is not published yet is left out, because the rest would mislead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from xml.etree import ElementTree  # entities are refused before it reads

from gramwatt.sci.grid.fuels import STORAGE
from gramwatt.service.providers.base import (
    DERIVED,
    AnswerError,
    Generation,
    Kind,
    Values,
    expect,
    in_steps,
    moment,
    readings,
)
from gramwatt.service.providers.http import Provider, StatusError

FUELS: Mapping[str, str] = {
    **dict.fromkeys(("B02", "B03", "B05", "B07", "B08"), "coal"),
    **dict.fromkeys(("B11", "B12"), "hydro"),
    **dict.fromkeys(("B15", "B17", "B20"), "other"),
    **dict.fromkeys(("B18", "B19"), "wind"),
    **dict.fromkeys(("B10", "B25"), STORAGE),
    "B01": "biomass",
    "B04": "gas",
    "B06": "oil",
    "B09": "geothermal",
    "B13": "ocean",
    "B14": "nuclear",
    "B16": "solar",
}
"""Fuel by code of the production type (psrType)."""
RESOLUTIONS = {"PT15M": 900, "PT30M": 1800, "PT60M": 3600, "PT1H": 3600}
REPEATING = "A03"
"""The curve type that leaves out what is equal to the value before."""
NO_DATA = b"No matching data found"
AREAS: Mapping[str, str] = {
    "AT": "10YAT-APG------L",
    "BA": "10YBA-JPCC-----D",
    "BE": "10YBE----------2",
    "BG": "10YCA-BULGARIA-R",
    "CH": "10YCH-SWISSGRIDZ",
    "CZ": "10YCZ-CEPS-----N",
    "DE": "10Y1001A1001A83F",
    "DK-DK1": "10YDK-1--------W",
    "DK-DK2": "10YDK-2--------M",
    "EE": "10Y1001A1001A39I",
    "ES": "10YES-REE------0",
    "FI": "10YFI-1--------U",
    "FR": "10YFR-RTE------C",
    "GR": "10YGR-HTSO-----Y",
    "HR": "10YHR-HEP------M",
    "HU": "10YHU-MAVIR----U",
    "IE": "10YIE-1001A00010",
    "IT": "10YIT-GRTN-----B",
    "IT-CNO": "10Y1001A1001A70O",
    "IT-CSO": "10Y1001A1001A71M",
    "IT-NO": "10Y1001A1001A73I",
    "IT-SAR": "10Y1001A1001A74G",
    "IT-SIC": "10Y1001A1001A75E",
    "IT-SO": "10Y1001A1001A788",
    "LT": "10YLT-1001A0008Q",
    "LV": "10YLV-1001A00074",
    "ME": "10YCS-CG-TSO---S",
    "MK": "10YMK-MEPSO----8",
    "NL": "10YNL----------L",
    "NO": "10YNO-0--------C",
    "NO-NO1": "10YNO-1--------2",
    "NO-NO2": "10YNO-2--------T",
    "NO-NO3": "10YNO-3--------J",
    "NO-NO4": "10YNO-4--------9",
    "NO-NO5": "10Y1001A1001A48H",
    "PL": "10YPL-AREA-----S",
    "PT": "10YPT-REN------W",
    "RO": "10YRO-TEL------P",
    "RS": "10YCS-SERBIATSOV",
    "SE": "10YSE-1--------K",
    "SE-SE1": "10Y1001A1001A44P",
    "SE-SE2": "10Y1001A1001A45N",
    "SE-SE3": "10Y1001A1001A46L",
    "SE-SE4": "10Y1001A1001A47J",
    "SI": "10YSI-ELES-----O",
    "SK": "10YSK-SEPS-----K",
}
"""Energy identification code of each zone."""


class Entsoe(Provider):
    """Zones of Europe, from 2015 on."""

    name = "entsoe"
    licence = "ENTSO-E's terms; CC-BY-4.0 for what its list of free re-use names"
    address = "https://web-api.tp.entsoe.eu"
    longest = timedelta(days=7)

    def kinds(self, zone: str) -> Sequence[Kind]:
        """Derived from generation."""
        return (DERIVED,) if zone in AREAS else ()

    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Steps of the finest resolution among the zone's fuels."""
        query = {
            "documentType": "A75",
            "processType": "A16",
            "in_Domain": AREAS[zone],
            "periodStart": f"{start:%Y%m%d%H00}",
            "periodEnd": f"{end + timedelta(minutes=59):%Y%m%d%H00}",
            "securityToken": self._key,
        }
        nothing = Values(start, 3600)
        try:
            return self._http.ask("api", lambda body: _values(body, zone, start, end), query)
        except StatusError as error:
            if error.status == 400 and NO_DATA in error.body:
                return nothing
            raise


def _values(body: bytes, zone: str, start: datetime, end: datetime) -> Values:
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise AnswerError("the answer declares entities")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314
    except ElementTree.ParseError as error:
        raise AnswerError(f"the answer is not valid XML: {error}") from None
    if _name(root) == "Acknowledgement_MarketDocument":
        if NO_DATA not in body:
            raise AnswerError("the question was not accepted")
        return Values(start, 3600)
    expect("document", _name(root), "GL_MarketDocument")
    series = [part for part in root if _name(part) == "TimeSeries"]
    generation = Generation()
    for part in series:
        area = _text(part, "inBiddingZone_Domain.mRID")
        if area is not None:  # without it, what storage and plants take up
            expect("zone", area, AREAS[zone])
            _add(generation, part)
    step_s = generation.step_s or 3600
    return in_steps(readings(generation, "lifecycle"), step_s, start, end)


def _add(generation: Generation, series: ElementTree.Element) -> None:
    code = _text(series, "psrType") or ""
    fuel, repeats = FUELS[code], _text(series, "curveType") == REPEATING
    for period in series:
        if _name(period) != "Period":
            continue
        resolution = _text(period, "resolution")
        if resolution not in RESOLUTIONS:
            raise AnswerError(f"resolution {resolution!r} is not known")
        step_s = RESOLUTIONS[resolution]
        begins, ends = (moment(_text(period, edge)) for edge in ("start", "end"))
        count = int((ends - begins).total_seconds()) // step_s
        for position, quantity in _points(period, count, repeats=repeats):
            at = begins + timedelta(seconds=step_s * (position - 1))
            generation.add(f"{code} {fuel}", fuel, at, step_s, quantity)


def _points(
    period: ElementTree.Element, count: int, *, repeats: bool
) -> Iterator[tuple[int, float]]:
    """Yield the positions of a period and their quantities; one left out may repeat the one
    before.
    """
    by_position: dict[int, float] = {}
    for point in period:
        if _name(point) == "Point":
            by_position[int(_text(point, "position") or "")] = float(_text(point, "quantity") or "")
    if by_position and not 1 <= min(by_position) <= max(by_position) <= count:
        raise AnswerError("a position lies outside of its period")
    last: float | None = None
    for position in range(1, count + 1):
        last = by_position.get(position, last if repeats else None)
        if last is not None:
            yield position, last


def _text(parent: ElementTree.Element, name: str) -> str | None:
    """Return the text of the first descendant of this name, in whatever namespace."""
    element = next((child for child in parent.iter() if _name(child) == name), None)
    return None if element is None else (element.text or "").strip()


def _name(element: ElementTree.Element) -> str:
    return re.sub(r"^\{.*\}", "", element.tag)
