"""The energy of a model's runs for the AI Act's form, CycloneDX 1.6 and SPDX 3.0.1."""

from __future__ import annotations

import json
import re
from importlib import import_module
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft7Validator
from referencing import Registry, Resource

from gramwatt.reports.exports.ai_act import energy_form, figures
from gramwatt.reports.exports.bill_of_materials import cyclonedx, spdx
from gramwatt.reports.exports.common import ExportError
from gramwatt.sci.base.document import JobDoc
from tests.documents import HOSTILE, scored, steady_job
from tests.journals import Writer

# 4 x 500 W + 200 W = 2.2 kW: 2 h are 4.4 kWh and, with PUE 1.1, 4.84 kWh.
TRAINED = steady_job("train-1")
FAILED = steady_job("train-2", hours=1)  # 2.42 kWh
TUNED = steady_job("tune-1", kind="fine-tuning", hours=1)
USED = steady_job("use-1", kind="inference", hours=1, tags={"energy_provider": "Example Energy"})
JUDGED = steady_job("judge-1", kind="evaluation", hours=1)
ALL = [TRAINED, FAILED, TUNED, USED, JUDGED]


def unmeasured() -> JobDoc:
    """A run whose GPU was never read."""
    writer = Writer(job="blind-1")
    return scored([writer.job(zone="DE"), writer.device(), writer.end(60)])


def consumptions(document: Any) -> dict[str, Any]:
    [model] = document["components"]
    considered = model["modelCard"]["considerations"]["environmentalConsiderations"]
    return {row["activity"]: row for row in considered["energyConsumptions"]}


def test_cyclonedx_states_energy_and_carbon_by_activity() -> None:
    rows = consumptions(json.loads(cyclonedx("example/net", ALL)))
    assert list(rows) == ["training", "fine-tuning", "inference", "validation"]
    training = rows["training"]
    assert training["activityEnergyCost"]["value"] == pytest.approx(4.84 + 2.42, rel=1e-12)
    grams = TRAINED["operational_g"]["value"] + FAILED["operational_g"]["value"]
    assert training["co2CostEquivalent"] == {
        "value": pytest.approx(grams / 1e6, rel=1e-12),
        "unit": "tCO2eq",
    }
    [provider] = training["energyProviders"]
    assert provider["organization"] == {"name": "not known"}  # nothing is invented
    assert provider["description"].startswith("grid zone: DE;")
    named = rows["inference"]["energyProviders"][0]["organization"]
    assert named == {"name": "Example Energy"}


def test_cyclonedx_fits_its_published_schema() -> None:
    folder = files("cyclonedx.schema._res")
    names = ("bom-1.6", "spdx", "jsf-0.82")
    schemas = {n: json.loads((folder / f"{n}.SNAPSHOT.schema.json").read_text()) for n in names}
    registry = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas.values()
    )
    validator = Draft7Validator(schemas["bom-1.6"], registry=registry)
    for runs in (ALL, [TRAINED], [TRAINED, unmeasured()]):
        document = json.loads(cyclonedx("example/net", runs))
        assert [error.message for error in validator.iter_errors(document)] == []
    # The schema does see what is wrong.
    consumptions(document)["training"]["activityEnergyCost"]["unit"] = "MWh"
    assert not validator.is_valid(document)


def test_spdx_states_the_stages_that_it_has_a_place_for() -> None:
    graph = json.loads(spdx("example/net", ALL))["@graph"]
    [package] = [node for node in graph if node["type"] == "ai_AIPackage"]
    energy = package["ai_energyConsumption"]
    assert list(energy) == [
        "type",
        "ai_trainingEnergyConsumption",
        "ai_finetuningEnergyConsumption",
        "ai_inferenceEnergyConsumption",
    ]
    [training] = energy["ai_trainingEnergyConsumption"]
    assert float(training["ai_energyQuantity"]) == pytest.approx(7.26, rel=1e-12)
    assert training["ai_energyUnit"] == "kilowattHour"
    assert "evaluation: " in package["comment"]
    assert "which SPDX has no place for" in package["comment"]


def test_spdx_fits_its_published_model() -> None:
    model = import_module("spdx_python_model")
    for runs in (ALL, [TRAINED]):
        document = json.loads(spdx("example/net", runs))
        bindings, objects = model.load_data(document)
        [package] = objects.foreach_type(bindings.ai_AIPackage)
        [stage] = package.ai_energyConsumption.ai_trainingEnergyConsumption
        assert stage.ai_energyUnit.endswith("EnergyUnitType/kilowattHour")
        # Written again it is checked against the cardinalities of the specification.
        bindings.JSONLDSerializer().serialize_data(objects)
    document["@graph"][2]["ai_energyConsumption"]["ai_trainingEnergyConsumption"][0].update(
        ai_energyUnit="therm"
    )
    with pytest.raises(ValueError, match="'therm' is not a valid value"):
        model.load_data(document)


def test_runs_without_known_energy_are_counted_and_in_no_figure() -> None:
    rows = consumptions(json.loads(cyclonedx("example/net", [TRAINED, unmeasured()])))
    assert rows["training"]["activityEnergyCost"]["value"] == pytest.approx(4.84, rel=1e-12)
    assert {"name": "gramwatt:runs-without-energy", "value": "1"} in rows["training"]["properties"]
    for make in (cyclonedx, spdx, energy_form):
        with pytest.raises(ExportError, match="the energy of no run is known"):
            make("example/net", [unmeasured()])


def field(text: str, name: str) -> str:
    [row] = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return row.split(" | ")[1].removesuffix(" |")


def test_the_form_of_the_ai_act_states_training_in_megawatt_hours() -> None:
    text = energy_form("example/net", ALL)
    # 4.84 + 2.42 + 2.42 (fine-tuning) + 2.42 (evaluation) kWh = 0.0121 MWh, without its use.
    assert field(text, "energy used for training").startswith("0.012 MWh")
    span = field(text, "range that holds the true value 8 times in 10").split()
    assert float(span[0]) < 0.0121 < float(span[2])  # with two digits its ends may be equal
    # 2 + 1 + 1 + 1 h = 5 h = 0.208 days, on four boards: 0.833 days.
    assert field(text, "duration of training, wall-clock").startswith("0.208 days")
    hardware = field(text, "duration of training, hardware")
    assert hardware == "0.833 days of NVIDIA H100 80GB HBM3"
    assert field(text, "computation used for training").startswith("not known: 4 of 4 runs")
    method = text.split("## Method")[1]
    assert 80 <= len(re.findall(r"\w+", method)) <= 140
    assert "not legal advice" in text.lower()


def test_computation_is_the_sum_of_what_every_run_counted() -> None:
    writer = Writer(job="flop-1")
    counted = scored(
        [
            writer.job(zone="DE", units=("flop",)),
            writer.device(),
            writer.interval(0, 60, 36_000),
            writer.count(2.5e18, "flop"),
            writer.end(60),
        ]
    )
    text = energy_form("example/net", [counted])
    assert field(text, "computation used for training") == "2.5e+18 FLOP, counted by the runs"
    both = energy_form("example/net", [counted, TRAINED])
    assert field(both, "computation used for training") == "not known: 1 of 2 runs counted no flop"


def test_a_model_that_is_only_used_has_no_form_of_training() -> None:
    with pytest.raises(ExportError, match="only use one"):
        energy_form("example/net", [USED])
    other = steady_job("other-1", kind="other")
    with pytest.raises(ExportError, match="SPDX 3.0.1 has no place for the energy of other"):
        spdx("example/net", [other])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0121, "0.012"), (9.96, "10"), (1234.5, "1200"), (0.000987, "0.00099"), (0.0, "0")],
)
def test_two_significant_figures(value: float, text: str) -> None:
    assert figures(value, 2) == text


def test_identifiers_are_those_of_the_runs_and_their_revisions() -> None:
    one = json.loads(cyclonedx("net", [TRAINED, FAILED]))["serialNumber"]
    assert json.loads(cyclonedx("net", [FAILED, TRAINED]))["serialNumber"] == one
    again: JobDoc = {**FAILED, "revision": 2}
    assert json.loads(cyclonedx("net", [TRAINED, again]))["serialNumber"] != one


def test_hostile_names_stay_texts() -> None:
    for name in HOSTILE:
        assert json.loads(cyclonedx(name, [TRAINED]))["components"][0]["name"] == name
        text = energy_form(name, [TRAINED])
        assert text.count("\n# ") == 0
        assert "<script" not in text.replace("\\<script", "")
