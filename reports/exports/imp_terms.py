"""E, I, M and the score of a job in the form's words, each with its printed calculation."""

from __future__ import annotations

from gramwatt.reports.exports.common import scored_unit
from gramwatt.reports.exports.yaml import Data
from gramwatt.sci.base.document import EmbodiedTermDoc, JobDoc
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.base.units import HOURS_PER_YEAR, h_from_s, kwh_from_j

EMBODIED_METHOD = "M = TE x TiR/EL x RR/ToR for each device and host, use phase excluded from TE"
INTENSITY_METHOD = (
    "Each step's energy is multiplied by the intensity of that step and zone; the value here is "
    "their energy-weighted mean. Market-based instruments are not part of it."
)


def score(document: JobDoc) -> dict[str, Data]:
    """The score with its formula in numbers."""
    row = scored_unit(document)
    operational, embodied = document["operational_g"], document["embodied_g"]
    formula = "SCI = (O + M) / R"
    if operational and embodied:
        numbers = f"({operational['value']:.6g} + {embodied['value']:.6g}) / {row['count']:.6g}"
        formula = f"{formula} = {numbers}"
    return {
        **_ranged(row["g_per_unit"]),
        "unit": f"gCO2eq per {row['unit']}",
        "formula": formula,
    }


def energy(document: JobDoc) -> dict[str, Data]:
    """E: facility energy, as the form wants it, with IT energy by component and the PUE."""
    pue = document["method"]["pue"]
    components: list[Data] = [
        {
            "name": f"{device['name']} ({device['device_id']})",
            "energy_kwh": kwh_from_j(device["energy_j"]["value"]),
            "calculation": f"{device['energy_j']['value']:.6g} J / 3.6e6 J per kWh",
            "data_source": f"{device['meter']} ({device['energy_j']['kind']})",
        }
        for device in document["devices"]
        if device["energy_j"] is not None
    ]
    it_energy = document["energy_kwh"]
    meters = dict.fromkeys(d["meter"] for d in document["devices"] if d["energy_j"] is not None)
    return {
        "value": it_energy["value"] * pue["value"] if it_energy else None,
        "unit": "kWh",
        "methodology": "Meters read while the job ran; PUE is applied once, to the sum.",
        "it_energy_kwh": it_energy["value"] if it_energy else None,
        "pue": pue["value"],
        "pue_source": pue["source"],
        "components": components,
        "data_sources": [
            {"name": meter, "type": "measurement", "description": "energy of a device"}
            for meter in meters
        ],
    }


def carbon_intensity(document: JobDoc) -> dict[str, Data]:
    """I: location-based, with signal, basis, resolution and source."""
    method = document["method"]
    figure, place = method["intensity_g_per_kwh"], document["zone"] or "world average"
    qualities = document["data_quality"]["intensity"]
    resolution = ", ".join(f"{share:.0%} {name}" for name, share in qualities.items())
    return {
        **_ranged(figure),
        "unit": "gCO2eq/kWh",
        "location": document["zone"],
        "approach": "location-based",
        "methodology": INTENSITY_METHOD,
        "signal": method["intensity_signal"],
        "basis": method["intensity_basis"],
        "resolution_by_energy": resolution or None,
        "data_sources": [
            {"name": source, "type": "grid-data", "description": f"intensity of {place}"}
            for source in figure["source"].split("; ")
        ],
        "regional_breakdown": [
            {
                "region": place,
                "percentage": 100,
                "carbon_intensity": figure["value"],
                "source": figure["source"],
            }
        ],
    }


def embodied_emissions(document: JobDoc) -> dict[str, Data]:
    """M with TE, EL, TiR and the resource share of each device and host."""
    figure = document["embodied_g"]
    terms = document["embodied_terms"]
    sources = dict.fromkeys(
        source for term in terms for source in term["te_g"]["source"].split("; ")
    )
    return {
        **_ranged(figure),
        "unit": "gCO2eq",
        "methodology": EMBODIED_METHOD,
        "hardware_components": [_hardware(term) for term in terms],
        "data_sources": [
            {"name": name, "type": "database", "description": "embodied carbon of hardware"}
            for name in sources
        ],
    }


def shared_infrastructure(document: JobDoc) -> list[Data]:
    """Devices and hosts of which the job had a part."""
    return [
        {
            "component": term["label"],
            "allocation_method": "resources reserved over resources in total, for the job's time",
            "allocation_percentage": 100 * term["resources_reserved"] / term["resources_total"],
        }
        for term in document["embodied_terms"]
        if term["resources_reserved"] < term["resources_total"]
    ]


def _hardware(term: EmbodiedTermDoc) -> dict[str, Data]:
    life_h = term["lifetime_years"] * HOURS_PER_YEAR
    reserved_h = h_from_s(term["time_reserved_s"])
    share = term["resources_reserved"] / term["resources_total"]
    te = term["te_g"]
    return {
        "name": f"{term['label']} ({term['device_id']})",
        "type": term["stages"],
        "embodied_total": te["value"],
        "expected_lifespan_hours": life_h,
        "time_reserved_hours": reserved_h,
        "resource_share": share,
        "allocated_emissions": term["embodied_g"]["value"],
        "calculation": f"{te['value']:.6g} x ({reserved_h:.6g} / {life_h:.6g}) x {share:.6g}",
        "data_source": f"{te['source']} (tier {term['tier']})",
    }


def _ranged(figure: QuantityDoc | None) -> dict[str, Data]:
    if figure is None:
        return {"value": None}
    return {"value": figure["value"], "low": figure["low"], "high": figure["high"]}
