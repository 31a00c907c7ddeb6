"""What a score is made from and made of: its context, and the job with its computed terms."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import cached_property

from gramwatt.sci.base.quantity import Quantity, QuantityDoc
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.grid.intensity import Basis, IntensityLookup, Signal
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.journal.corrections import Correction
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.journal.records import SYNTHETIC_METERS
from gramwatt.sci.score.allocation import EmbodiedShares
from gramwatt.sci.score.functional_unit import Conversion
from gramwatt.sci.score.location import Place
from gramwatt.sci.score.operational import JobEnergy


@dataclass(frozen=True, slots=True)
class ScoreContext:
    """What a score needs beside the journal: catalog, intensity and the revision's number.

    `lifetime` is the declared EL of all hardware [years], None for the catalog's. `signal` and
    `basis` are those the score is asked for: intensity of another kind is refused, never mixed in.
    `zone` is the time zone whose days the job is divided into.
    `corrections` are those already applied to the job's records; the document lists them.
    """

    catalog: Catalog
    intensity: IntensityLookup
    lifetime: Quantity | None = None
    revision: int = 1
    signal: Signal = "average"
    basis: Basis = "lifecycle"
    zone: tzinfo = UTC
    corrections: tuple[Correction, ...] = ()


def annual_context(
    catalog: Catalog, lifetime_years: float | None, revision: int = 1
) -> ScoreContext:
    """The context with annual intensity and the configured EL [years], None for the catalog's."""
    lifetime = None
    if lifetime_years is not None:
        source = "hardware life declared in the configuration"
        lifetime = Quantity.exact(lifetime_years, "years", "declared", source)
    return ScoreContext(catalog, AnnualIntensity(catalog), lifetime, revision)


@dataclass(frozen=True)
class ScoredJob:
    """One job with its place, its energy joined with intensity, and its embodied shares.

    The terms `energy_kwh` [kWh], `operational_g` and `embodied_g` [gCO2e] are None where not known:
    one device without a reading makes the job's energy unknown.
    """

    job: MergedJob
    context: ScoreContext
    place: Place
    energy: JobEnergy
    embodied: EmbodiedShares
    conversions: tuple[Conversion, ...] = ()

    @cached_property
    def synthetic(self) -> bool:
        """Whether any reading comes from a meter that is no hardware."""
        noted = any(notice.code == "meter-synthetic" for notice in self.job.notices)
        return noted or any(d.record.meter in SYNTHETIC_METERS for d in self.job.devices)

    @cached_property
    def complete(self) -> bool:
        """Whether every device of the job was read at least once."""
        return all(device.intervals for device in self.job.devices)

    @cached_property
    def energy_kwh(self) -> Quantity | None:
        """E, the energy of the IT equipment [kWh]."""
        energy = self.energy.energy_j() if self.complete else None
        return energy.scaled(1 / J_PER_KWH, "kWh") if energy else None

    @cached_property
    def operational_g(self) -> Quantity | None:
        """O [gCO2e]."""
        return self.energy.operational_g(self.place.pue) if self.complete else None

    @cached_property
    def pue(self) -> Quantity:
        """PUE; the mean by energy where nodes differ."""
        return self.energy.pue(self.place.pue)

    @cached_property
    def embodied_g(self) -> Quantity | None:
        """M [gCO2e]."""
        return self.embodied.embodied_g

    @cached_property
    def total_g(self) -> Quantity | None:
        """C = O + M [gCO2e]."""
        operational, embodied = self.operational_g, self.embodied_g
        return operational + embodied if operational and embodied else None


def doc(figure: Quantity | None) -> QuantityDoc | None:
    """The figure as JSON, None for an unknown one."""
    return figure.to_doc() if figure else None
