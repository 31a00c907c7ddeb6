"""The standard's terms on plain numbers, by the functions that score jobs and answer estimates."""

from datetime import UTC, datetime, timedelta

from gramwatt.sci.figures.quantity import Quantity, per_unit
from gramwatt.sci.figures.units import j_from_kwh, s_from_years
from gramwatt.sci.grid.intensity import IntensityPoint, IntensityTrack
from gramwatt.sci.records.merge import MergedDevice
from gramwatt.sci.records.records import DeviceRecord, IntervalRecord
from gramwatt.sci.score.allocation import embodied_share_g
from gramwatt.sci.score.operational import join_sites

START = datetime(2026, 3, 2, tzinfo=UTC)
END = START + timedelta(hours=1)
WRITER = {"job_id": "j", "node": "n", "writer": "w", "seq": 1}


def exact(value, unit="1"):
    """A figure without a range."""
    return Quantity.exact(value, unit, "declared", "worked example")


def device(device_id, spans):
    """A measured device by the energy [kWh] of its (start, end) spans."""
    record = DeviceRecord(
        **WRITER, device_id=device_id, device_class="gpu", name="T", meter="test", kind="declared"
    )
    intervals = tuple(
        IntervalRecord(
            **WRITER,
            device_id=device_id,
            start=start,
            end=end,
            energy_j=j_from_kwh(energy_kwh),
            kind="declared",
        )
        for start, end, energy_kwh in spans
    )
    return MergedDevice(record, intervals)


def energy_kwh(power_w, hours, count=1):
    """Energy of devices that draw a mean power [W] for so many hours [kWh]."""
    return power_w * hours * count / 1000


def operational_g(energy_kwh, intensity_g_per_kwh, pue=1):
    """O = E x I x PUE [gCO2e] of a job of one device."""
    intensity = exact(intensity_g_per_kwh, "gCO2e/kWh")
    track = IntensityTrack.of([IntensityPoint("DE", START, END, intensity, "hourly")])
    energy = join_sites([device("d", [(START, END, energy_kwh)])], (track, exact(pue)))
    return energy.operational_g().value


def embodied_g(te_g, tir, el, rr=1, tor=1):
    """M = TE x TiR/EL x RR/ToR [gCO2e]; TiR and EL in one unit."""
    life = exact(el, "years")
    return embodied_share_g(exact(te_g, "gCO2e"), s_from_years(tir), life, rr / tor).value


def sci_score(operational_g, embodied_g, units):
    """SCI = (O + M) / R [gCO2e per unit]."""
    return per_unit(exact(operational_g + embodied_g, "gCO2e"), units, "unit").value
