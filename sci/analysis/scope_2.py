"""Purchased electricity of a month by both methods of GHG Protocol's Scope 2 Guidance (2015).

Location-based is what the scores have. Market-based, a zone's energy is at the factor of contracts
that jobs declare, then of the instruments in the ledger, then of its residual mix; where none is
known, at the grid average, which is named as a stand-in. Electricity of clouds is their provider's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

from gramwatt.sci.analysis.trail import FactorRow
from gramwatt.sci.base.document import doc
from gramwatt.sci.base.quantity import Kind, Quantity, QuantityDoc, weakest
from gramwatt.sci.score.method import CLOUD

YEAR, MONTH, HOUR = 4, 7, 13
"""Characters of a vintage: YYYY, YYYY-MM and YYYY-MM-DDTHH, in UTC."""
ENDS: tuple[Literal["value", "low", "high"], ...] = ("value", "low", "high")
G_PER_KWH = "gCO2e/kWh"
STAND_IN = "grid average as a stand-in: no contract, instrument or residual mix is known"
MARKET = "energy at contracts of jobs, instruments of the ledger, and the rest of each zone"


class InstrumentRow(TypedDict):
    """An instrument of the ledger in a month.

    `available_kwh` is what earlier months of its year left of `volume_kwh`, `used_kwh` what the
    month's energy in its zone and period takes of that.
    """

    id: int
    zone: str
    vintage: str
    issuer: str
    cancellation_id: str
    factor_g_per_kwh: float
    volume_kwh: float
    available_kwh: float
    used_kwh: float
    imported_at: str
    imported_by: str


class ResidualMix(TypedDict):
    """The published factor of what nobody claims in a zone, of a year, and who published it."""

    zone: str
    vintage: str
    issuer: str
    factor_g_per_kwh: float


class Scope2Zone(TypedDict):
    """A zone of own and leased sites: its energy with the building's overhead, by who supplies it.

    `energy_kwh` is `declared_kwh` (contracts of jobs), `covered_kwh` (instruments) and `rest_kwh`,
    which is at `rest_g_per_kwh`: of `residual-mix`, or of the `grid-average` as a stand-in.
    """

    zone: str
    energy_kwh: QuantityDoc
    declared_kwh: float
    covered_kwh: float
    rest_kwh: float
    rest_by: Literal["residual-mix", "grid-average"]
    rest_g_per_kwh: QuantityDoc | None
    location_g: QuantityDoc
    market_g: QuantityDoc


class Scope2Doc(TypedDict):
    """Purchased electricity of own and leased sites by both methods [gCO2e]; null for unknown.

    Market-based figures are those of the whole organisation: a project's report has none.
    `residual_mixes` are those that were used.
    """

    energy_kwh: QuantityDoc | None
    location_g: QuantityDoc | None
    market_g: QuantityDoc | None
    zones: list[Scope2Zone]
    instruments: list[InstrumentRow]
    residual_mixes: list[ResidualMix]


class Contracts(NamedTuple):
    """The ledger as far as it is for one month, in the order of import."""

    instruments: Sequence[InstrumentRow]
    residual_mixes: Sequence[ResidualMix]


EMPTY = Contracts((), ())


class Sites(NamedTuple):
    """What own and leased sites used: energy with overhead [kWh], O [gCO2e], and energy by hour.

    `hours` are the energies [kWh] without a contract of a job, by zone and hour (YYYY-MM-DDTHH).
    """

    energy_kwh: Quantity | None
    location_g: Quantity | None
    hours: Mapping[str, Mapping[str, float]]


def scope_2(
    factors: Sequence[FactorRow], sites: Sites, contracts: Contracts | None
) -> Scope2Doc | None:
    """Return the account of a month; None where no site of its own or leased used any energy.

    `contracts` is None for a project's report, whose market-based part nobody can tell.
    """
    if sites.location_g is None:
        return None
    found: Scope2Doc = {
        "energy_kwh": doc(sites.energy_kwh),
        "location_g": doc(sites.location_g),
        "market_g": None,
        "zones": [],
        "instruments": [],
        "residual_mixes": [],
    }
    by_zone: dict[str, list[FactorRow]] = defaultdict(list)
    for row in factors:
        if row["place"] != CLOUD:
            by_zone[row["zone"]].append(row)
    if contracts is None or not by_zone:
        return found
    zones = [_Zone(zone, rows, contracts.residual_mixes) for zone, rows in sorted(by_zone.items())]
    # The ledger covers energies, so it is asked at both ends of their ranges too.
    used = [
        matched({zone.name: zone.open_kwh[end] for zone in zones}, sites.hours, contracts)
        for end in range(3)
    ]
    rows = [zone.row(used, contracts.instruments) for zone in zones]
    mixes = [zone.mix for zone in zones if zone.mix is not None]
    instruments: list[InstrumentRow] = [
        {**row, "used_kwh": used[0][row["id"]]}
        for row in contracts.instruments
        if row["zone"] in by_zone
    ]
    declared = any(row["market_g"]["source"] != STAND_IN for row in rows)
    return {
        "energy_kwh": found["energy_kwh"],
        "location_g": found["location_g"],
        "market_g": doc(_sum(rows) if declared else sites.location_g.sourced(STAND_IN)),
        "zones": rows,
        "instruments": instruments,
        "residual_mixes": mixes,
    }


def matched(
    open_kwh: Mapping[str, float],
    hours: Mapping[str, Mapping[str, float]],
    contracts: Contracts,
) -> dict[int, float]:
    """Return what each instrument covers [kWh]: hours first, then months, then years.

    None covers more than it has, nor more than its zone used in its period and no other covers.
    """
    left, found = dict(open_kwh), {}
    left_of = {zone: dict(of_hour) for zone, of_hour in hours.items()}
    for row in sorted(contracts.instruments, key=lambda row: -len(row["vintage"])):
        zone, vintage = row["zone"], row["vintage"]
        most = min(row["available_kwh"], left.get(zone, 0.0))
        if len(vintage) == HOUR:
            of_zone = left_of.get(zone, {})
            most = min(most, of_zone.get(vintage, 0.0))
            of_zone[vintage] = of_zone.get(vintage, 0.0) - most
        found[row["id"]] = most
        left[zone] = left.get(zone, 0.0) - most
    return found


class _Zone:
    """A zone's rows of the factor table; figures are lists of the value, the low and the high."""

    def __init__(self, name: str, rows: Sequence[FactorRow], mixes: Sequence[ResidualMix]) -> None:
        self.name, self._rows = name, rows
        declared = [(_energy([r]), r["contract_g_per_kwh"]) for r in rows]
        by_contract = [(kwh, of["value"]) for kwh, of in declared if of is not None]
        self._declared_kwh = [sum(kwh[end] for kwh, _ in by_contract) for end in range(3)]
        self._declared_g = [sum(kwh[end] * g for kwh, g in by_contract) for end in range(3)]
        self._rest = [row for row in rows if row["contract_g_per_kwh"] is None]
        self.open_kwh = _energy(self._rest)
        known = [mix for mix in mixes if mix["zone"] == name and self._rest]
        self.mix = max(known, key=lambda mix: mix["vintage"], default=None)
        self._rest_factor = self._factor_of_rest()

    def _factor_of_rest(self) -> Quantity | None:
        if not self._rest:
            return None
        if self.mix is not None:
            source = f"residual mix of {self.mix['issuer']}, {self.mix['vintage']}, as imported"
            return Quantity.exact(self.mix["factor_g_per_kwh"], G_PER_KWH, "declared", source)
        grams = _ends([row["operational_g"] for row in self._rest])
        value, low, high = (of / self.open_kwh[0] for of in grams)
        kind = weakest(row["factor_g_per_kwh"]["kind"] for row in self._rest)
        source = f"grid average of {self.name} as a stand-in: its residual mix is not known"
        return Quantity(value, low, high, G_PER_KWH, kind, source)

    def row(
        self, used: Sequence[Mapping[int, float]], instruments: Sequence[InstrumentRow]
    ) -> Scope2Zone:
        """Return the zone's account; `used` is what instruments cover at value, low and high."""
        mine = [row for row in instruments if row["zone"] == self.name]
        covered = [sum(of[row["id"]] for row in mine) for of in used]
        rest = self._rest_factor
        factors = (rest.value, rest.low, rest.high) if rest else (0.0, 0.0, 0.0)
        grams = [
            self._declared_g[end]
            + sum(used[end][row["id"]] * row["factor_g_per_kwh"] for row in mine)
            + (self.open_kwh[end] - covered[end]) * factors[end]
            for end in range(3)
        ]
        declared = bool(covered[0] or self._declared_kwh[0] or self.mix)
        kind = weakest(row["operational_g"]["kind"] for row in self._rows)
        location = _ends([row["operational_g"] for row in self._rows])
        of_energy = weakest(r[of]["kind"] for r in self._rows for of in ("energy_kwh", "pue"))
        energy = _energy(self._rows)
        market = weakest((kind, "declared")) if declared else kind
        return {
            "zone": self.name,
            "energy_kwh": _ranged(energy, "kWh", of_energy, "energy x PUE"),
            "declared_kwh": self._declared_kwh[0],
            "covered_kwh": covered[0],
            "rest_kwh": self.open_kwh[0] - covered[0],
            "rest_by": "grid-average" if self.mix is None else "residual-mix",
            "rest_g_per_kwh": doc(rest),
            "location_g": _ranged(location, "gCO2e", kind, "sum over the factors of the zone"),
            "market_g": _ranged(grams, "gCO2e", market, MARKET if declared else STAND_IN),
        }


def _energy(rows: Sequence[FactorRow]) -> list[float]:
    """Return energy x PUE [kWh]."""
    return [sum(row["energy_kwh"][end] * row["pue"][end] for row in rows) for end in ENDS]


def _ends(figures: Sequence[QuantityDoc]) -> list[float]:
    return [sum(of[end] for of in figures) for end in ENDS]


def _ranged(ends: Sequence[float], unit: str, kind: Kind, source: str) -> QuantityDoc:
    return Quantity(ends[0], min(ends), max(ends), unit, kind, source).to_doc()


def _sum(rows: Sequence[Scope2Zone]) -> Quantity:
    """Return the market-based sum of zones; the ends of their ranges are added."""
    figures = [row["market_g"] for row in rows]
    value, low, high = _ends(figures)
    kind = weakest(figure["kind"] for figure in figures)
    return Quantity(value, low, high, "gCO2e", kind, MARKET)
