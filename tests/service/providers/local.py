"""A local server that answers as the providers document it, and how each is asked in the tests.

Written from the providers' documentation; every value is made up.
"""

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from gramwatt.service.config import Account, IntensitySettings
from gramwatt.service.providers import http
from gramwatt.service.providers.chain import providers_of
from tests.answering import answering, send

T0 = datetime(2026, 1, 5, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
ZONES = {
    "uk": "GB",
    "electricity-maps": "DE",
    "entsoe": "DE",
    "eia": "US-CAL-CISO",
    "energinet": "DK-DK1",
}
STEPS_S = {"uk": 1800, "energinet": 300}
GERMANY = "10Y1001A1001A83F"


class Local:
    """The server; `answer(path, query, headers)` gives status, headers and body."""

    def __init__(self):
        http.Http._hosts.clear()  # a server that is gone may have left its port, and its failures
        self.answer = lambda path, query, headers: (200, {}, b"{}")
        self.asked = []
        self._running = answering(self._act)
        self.url = self._running.__enter__()

    def _act(self, handler):
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append((parts.path, query, dict(handler.headers)))
        status, headers, body = self.answer(parts.path, query, handler.headers)
        send(handler, body, status, **headers)

    def close(self):
        self._running.__exit__(None, None, None)


def settings(url, *names, **more):
    accounts = {name: Account(url, "secret-key") for name in ZONES}
    chains = {"": names or tuple(ZONES)}
    return IntensitySettings(chains=chains, accounts=accounts, **more)


def provider(url, name):
    (found,) = providers_of(settings(url, name), ZONES[name])
    return found


def shaped(name, values, *, start=T0, zone=None, **more):
    """What the provider `name` answers for values [gCO2e/kWh] from `start` on; None: no value.

    Providers of fuel mixes answer with gas for lifecycle 490 and wind for 11 in such shares.
    """
    step = timedelta(seconds=STEPS_S.get(name, 3600))
    times = [start + number * step for number in range(len(values))]
    make = {"uk": _uk, "electricity-maps": _em, "entsoe": _entsoe, "eia": _eia}
    make["energinet"] = _energinet
    return make[name](list(zip(times, values, strict=True)), zone, **more)


def gas_share(value):
    """The share of gas among gas and wind that makes `value`: 490 x s + 11 x (1 - s)."""
    return (value - 11) / (490 - 11)


def _body(answer):
    return json.dumps(answer).encode()


def _uk(rows, zone):
    def mix(value):
        share = gas_share(value)
        return [{"fuel": "gas", "perc": 100 * share}, {"fuel": "wind", "perc": 100 * (1 - share)}]

    def end(time):
        return f"{time + timedelta(minutes=30):%Y-%m-%dT%H:%MZ}"

    return _body(
        {
            "data": [
                {"from": f"{t:%Y-%m-%dT%H:%MZ}", "to": end(t), "generationmix": mix(v)}
                for t, v in rows
                if v is not None
            ]
        }
    )


def _em(rows, zone, *, field="data", estimated=()):
    zone = zone or "DE"
    listed = [
        {
            "zone": zone,
            "carbonIntensity": value,
            "datetime": f"{time:%Y-%m-%dT%H:%M:%S.000Z}",
            "isEstimated": number in estimated,
            "emissionFactorType": "lifecycle",
        }
        for number, (time, value) in enumerate(rows)
    ]
    return _body({"zone": zone, field: listed, "updatedAt": "2026-01-05T09:02:00.000Z"})


def _entsoe(rows, zone, *, resolution="PT60M", curve="A01", series=None):
    area = zone or GERMANY
    start, minutes = rows[0][0], {"PT60M": 60, "PT15M": 15}[resolution]
    end = start + timedelta(minutes=minutes * len(rows))

    def one(code, quantities, place="in"):
        points = "".join(
            f"<Point><position>{n}</position><quantity>{q}</quantity></Point>"
            for n, q in enumerate(quantities, 1)
            if q is not None
        )
        return (
            f"<TimeSeries><{place}BiddingZone_Domain.mRID>{area}</{place}BiddingZone_Domain.mRID>"
            f"<curveType>{curve}</curveType><MktPSRType><psrType>{code}</psrType></MktPSRType>"
            f"<Period><timeInterval><start>{start:%Y-%m-%dT%H:%MZ}</start>"
            f"<end>{end:%Y-%m-%dT%H:%MZ}</end></timeInterval>"
            f"<resolution>{resolution}</resolution>{points}</Period></TimeSeries>"
        )

    gas = [None if v is None else 1000 * gas_share(v) for _, v in rows]
    wind = [None if v is None else 1000 * (1 - gas_share(v)) for _, v in rows]
    listed = "".join(one(*of) for of in (series or [("B04", gas), ("B19", wind)]))
    space = "urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0"
    return f'<GL_MarketDocument xmlns="{space}">{listed}</GL_MarketDocument>'.encode()


def _eia(rows, zone):
    listed = []
    for time, value in rows:
        for fuel, share in (("NG", gas_share(value or 11)), ("WND", 1 - gas_share(value or 11))):
            listed.append(
                {
                    "period": f"{time + HOUR:%Y-%m-%dT%H}",
                    "respondent": zone or "CISO",
                    "fueltype": fuel,
                    "value": None if value is None else str(9000 * share),
                    "value-units": "megawatthours",
                }
            )
    return _body({"response": {"total": str(len(listed)), "data": listed}})


def _energinet(rows, zone):
    return _body(
        {
            "total": len(rows),
            "records": [
                {
                    "Minutes5UTC": f"{t:%Y-%m-%dT%H:%M:%S}",
                    "Minutes5DK": "not read",
                    "PriceArea": zone or "DK1",
                    "CO2Emission": v,
                }
                for t, v in rows
            ],
        }
    )
