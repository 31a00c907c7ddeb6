"""Energy of a model's runs in the formats of software bills of materials.

CycloneDX 1.6, `environmentalConsiderations.energyConsumptions` of a model card, and SPDX 3.0.1,
`ai_energyConsumption` of an AI package. Both are a bill of the model alone; what else is known of
it, such as its licence or where it is to be had, is for its maker to add.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from gramwatt import __version__
from gramwatt.reports.exports.common import ExportError
from gramwatt.reports.exports.stages import (
    Stage,
    identifier,
    last_moment,
    range_text,
    stages,
)
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.units import G_PER_KG, KG_PER_T

ACTIVITIES = {
    "training": "training",
    "fine-tuning": "fine-tuning",
    "inference": "inference",
    "evaluation": "validation",
    "data-prep": "data-preparation",
}
"""Activity of CycloneDX by kind of job; any other kind is `other`."""
SPDX_FIELDS = {
    "training": "ai_trainingEnergyConsumption",
    "fine-tuning": "ai_finetuningEnergyConsumption",
    "inference": "ai_inferenceEnergyConsumption",
}
"""Property of SPDX by kind of job; it has none for other kinds."""
NOT_KNOWN = "not known"


def cyclonedx(name: str, documents: Sequence[JobDoc]) -> str:
    """Return a CycloneDX 1.6 document; raises ExportError where no energy is known."""
    model: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": name,
        "modelCard": {
            "considerations": {
                "environmentalConsiderations": {
                    "energyConsumptions": [_activity(stage) for stage in stages(documents)]
                }
            }
        },
    }
    version = _version(documents)
    if version is not None:
        model["version"] = version
    return _json(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{identifier(documents, 'CycloneDX')}",
            "version": 1,
            "metadata": {
                "timestamp": last_moment(documents),
                "tools": {
                    "components": [
                        {"type": "application", "name": "gramwatt", "version": __version__}
                    ]
                },
            },
            "components": [model],
        }
    )


def spdx(name: str, documents: Sequence[JobDoc]) -> str:
    """Return an SPDX 3.0.1 document; raises ExportError where no energy is known, or has no
    place.
    """
    found = stages(documents)
    placed = {SPDX_FIELDS[s.kind]: s for s in found if s.kind in SPDX_FIELDS}
    if not placed:
        kinds = ", ".join(stage.kind for stage in found)
        raise ExportError(f"SPDX 3.0.1 has no place for the energy of {kinds}")
    base = f"urn:uuid:{identifier(documents, 'SPDX')}"
    package: dict[str, Any] = {
        "type": "ai_AIPackage",
        "spdxId": f"{base}#model",
        "creationInfo": "_:creation",
        "name": name,
        "comment": _comment(found),
        "ai_energyConsumption": {
            "type": "ai_EnergyConsumption",
            **{field: [_description(stage)] for field, stage in placed.items()},
        },
    }
    version = _version(documents)
    if version is not None:
        package["software_packageVersion"] = version
    return _json(
        {
            "@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld",
            "@graph": [
                {
                    "type": "CreationInfo",
                    "@id": "_:creation",
                    "specVersion": "3.0.1",
                    "created": last_moment(documents),
                    "createdBy": [f"{base}#tool"],
                },
                {
                    "type": "SoftwareAgent",
                    "spdxId": f"{base}#tool",
                    "creationInfo": "_:creation",
                    "name": f"gramwatt {__version__}",
                },
                package,
                {
                    "type": "SpdxDocument",
                    "spdxId": f"{base}#document",
                    "creationInfo": "_:creation",
                    # Its profile of AI asks for a supplier and a place to download from.
                    "profileConformance": ["core"],
                    "rootElement": [f"{base}#model"],
                    "element": [f"{base}#model", f"{base}#tool"],
                },
            ],
        }
    )


def _activity(stage: Stage) -> dict[str, Any]:
    """Energy and operational carbon of a stage, with their ranges as properties."""
    energy, carbon = stage.energy_kwh, stage.operational_g
    tags = [run["tags"].get("energy_provider") for run in stage.runs]
    supplier = tags[0] if tags[0] and len(set(tags)) == 1 else NOT_KNOWN
    zones = ", ".join(stage.zones) or NOT_KNOWN
    properties = {"gramwatt:energy-range": range_text(energy)}
    activity: dict[str, Any] = {
        "activity": ACTIVITIES.get(stage.kind, "other"),
        "energyProviders": [
            {
                "description": f"grid zone: {zones}; supplier by the tag energy_provider",
                "organization": {"name": supplier},
                "energySource": "unknown",
                "energyProvided": {"value": energy.value, "unit": "kWh"},
            }
        ],
        "activityEnergyCost": {"value": energy.value, "unit": "kWh"},
    }
    if carbon is not None:
        tonnes = carbon.scaled(1 / (G_PER_KG * KG_PER_T), "tCO2eq")
        activity["co2CostEquivalent"] = {"value": tonnes.value, "unit": "tCO2eq"}
        properties["gramwatt:carbon-range"] = range_text(tonnes)
    if stage.unknown:
        properties["gramwatt:runs-without-energy"] = str(stage.unknown)
    rows = [{"name": name, "value": value} for name, value in properties.items()]
    return {**activity, "properties": rows}


def _description(stage: Stage) -> dict[str, str]:
    return {
        "type": "ai_EnergyConsumptionDescription",
        "ai_energyQuantity": f"{Decimal(repr(stage.energy_kwh.value)):f}",
        "ai_energyUnit": "kilowattHour",
    }


def _comment(found: Sequence[Stage]) -> str:
    """Return the ranges, and what has no place in SPDX."""
    texts = []
    for stage in found:
        place = "" if stage.kind in SPDX_FIELDS else ", which SPDX has no place for"
        texts.append(f"{stage.kind}: {range_text(stage.energy_kwh)}{place}")
        if stage.unknown:
            texts.append(f"{stage.kind}: {stage.unknown} runs without known energy are left out")
    return "Energy with PUE, ranges that hold the true value 8 times in 10. " + "; ".join(texts)


def _version(documents: Sequence[JobDoc]) -> str | None:
    """Return the version that all runs state in the tag software_version."""
    found = {document["tags"].get("software_version") for document in documents}
    return found.pop() if len(found) == 1 else None


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
