"""Corrected and added rows of the catalog, asked as users ask: by name, on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gramwatt.collectors.cli.app import build_app

APP = build_app(lambda: None, ["catalog", "estimate", "suggest"])


def call(*args: str) -> Result:
    return CliRunner().invoke(APP, [*args, "--json"])


def found(kind: str, name: str) -> dict[str, Any]:
    answer = call("catalog", kind, name)
    assert answer.exit_code == 0, answer.output
    [row] = json.loads(answer.stdout)["matches"]
    assert isinstance(row, dict)
    return row


def labels_of_estimate(name: str) -> set[str]:
    """The devices that an ambiguous name may be: an estimate answers for each."""
    answer = call("estimate", "--hardware", name, "--hours", "1", "--zone", "FR")
    assert answer.exit_code == 0, answer.output
    return {row["label"] for row in json.loads(answer.stdout)["answers"]}


def test_the_server_edition_has_its_own_figures():
    row = found("hardware", "RTX PRO 6000 Blackwell Server Edition")
    assert row["memory_bandwidth_gbs"] == 1597
    assert row["fp32_tflops"] == 120
    assert row["bf16_tensor_tflops"] == 4 * 120


def test_mi25_and_p4():
    assert found("hardware", "MI25")["memory_bandwidth_gbs"] == 484
    assert found("hardware", "Tesla P4")["fp32_tflops"] == 5.5


def test_the_range_of_the_h100_reaches_below_its_value():
    """A maker's 164 kg without a stated uncertainty: a quarter below, 273 kg above."""
    te = found("hardware", "nvidia-h100-sxm5-80")["embodied_g"]
    assert [te[end] for end in ("low", "value", "high")] == [131_000, 164_000, 273_000]


@pytest.mark.parametrize(
    ("region", "pue"), [("azure:northcentralus", 1.25), ("azure:polandcentral", 1.19)]
)
def test_azure_as_published(region, pue):
    row = found("regions", region)
    assert (row["pue"]["value"], row["pue_basis"]) == (pue, "annual")


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("A30", ["nvidia-a30"]),
        ("NVIDIA A2", ["nvidia-a2"]),
        ("L40", ["nvidia-l40"]),
        ("MI350X", ["amd-mi350x"]),
        ("H20", ["nvidia-h20"]),
        ("H800", ["nvidia-h800-pcie-80", "nvidia-h800-sxm5-80"]),
        ("A800", ["nvidia-a800-pcie-40", "nvidia-a800-pcie-80", "nvidia-a800-sxm4-80"]),
        ("Jetson AGX Orin", ["nvidia-jetson-agx-orin-32", "nvidia-jetson-agx-orin-64"]),
        ("Jetson Orin Nano", ["nvidia-jetson-orin-nano-8"]),
    ],
)
def test_parts_that_were_missing(name, ids):
    answer = call("catalog", "hardware", name)
    assert answer.exit_code == 0, answer.output
    assert sorted(row["id"] for row in json.loads(answer.stdout)["matches"]) == ids


def test_a2_is_a_card_and_a_family_of_instances():
    answer = json.loads(call("catalog", "hardware", "A2").stdout)
    ids = [row["id"] for row in answer["matches"]]
    assert ids == ["nvidia-a100-sxm4-40", "nvidia-a100-sxm4-80", "nvidia-a2"]
    assert "family of cloud instances" in answer["reason"]
    assert labels_of_estimate("A2") == {"A2 16GB", "A100 SXM4 40GB", "A100 SXM4 80GB"}


def test_jetson_orin_is_estimated_as_each_of_its_forms():
    rows = json.loads(call("catalog", "hardware", "Jetson Orin").stdout)["matches"]
    labels = labels_of_estimate("Jetson Orin")
    assert labels == {row["name"] for row in rows}
    assert {"Jetson Orin Nano 4GB", "Jetson AGX Orin 64GB"} < labels


@pytest.mark.parametrize(
    ("name", "part", "chips"),
    [
        ("v2-8", "google-tpu-v2", 4),
        ("v3-8", "google-tpu-v3", 4),
        ("v4-4096", "google-tpu-v4", 2048),
        ("tpu v4-8", "google-tpu-v4", 4),
        ("v6e-8", "google-tpu-v6e", 8),
    ],
)
def test_a_slice_of_tpus_is_an_instance_with_its_chips(name, part, chips):
    """Names of v2 to v4 count TensorCores, two a chip; those of v6e count chips."""
    row = found("instances", name)
    assert (row["hardware"], row["count"]) == (part, chips)
    answer = call("estimate", "--instance", name, "--hours", "1", "--zone", "FR")
    assert answer.exit_code == 0, answer.output
    [estimate] = json.loads(answer.stdout)["answers"]
    assert estimate["device_hours"]["value"] == chips


def test_a_slice_as_hardware_is_refused_with_the_reason():
    for command in (("estimate", "--hours", "1"), ("suggest",)):
        answer = call(*command, "--hardware", "v3-8", "--zone", "FR")
        assert answer.exit_code == 2
        detail = json.loads(answer.stdout)["detail"]
        assert (
            "v3-8 is a cloud instance with google-tpu-v3: name that part, or ask for it as instance"
            in detail
        )
    answer = call("catalog", "hardware", "v4-4096")
    assert [row["id"] for row in json.loads(answer.stdout)["matches"]] == ["google-tpu-v4"]


@pytest.mark.parametrize("name", ["v4-7", "v4-12", "v3-4096", "v9-8"])
def test_a_slice_that_does_not_exist_is_unknown(name):
    """12 TensorCores are 6 chips, which no slice has; a v3 pod has 2048."""
    answer = call("estimate", "--instance", name, "--hours", "1", "--zone", "FR")
    assert answer.exit_code == 2


def test_georgia_is_a_country_and_a_state():
    answer = call("estimate", "--hardware", "nvidia-l4", "--hours", "1", "--zone", "Georgia")
    assert answer.exit_code == 2
    assert json.loads(answer.stdout)["choices"] == ["GE", "US-SE-SOCO"]
