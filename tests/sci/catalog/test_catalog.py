"""No part lost, and the figures that are easily got wrong."""

import json
from pathlib import Path

import msgspec
import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.hardware import HardwareRow
from gramwatt.sci.embodied.te import accelerator_te, cpu_doc, hardware_doc
from gramwatt.sci.figures.csv_data import data_text, read_rows

HARDWARE_IDS = (Path(__file__).parent / "part_ids.txt").read_text(encoding="utf-8").split()


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def test_no_part_is_ever_lost(catalog):
    assert [part.id for part in catalog.all_hardware()] == HARDWARE_IDS
    assert len(HARDWARE_IDS) == len(set(HARDWARE_IDS))


@pytest.mark.parametrize(
    ("part", "tdp_w", "memory_gb", "bandwidth_gbs", "fp32"),
    [
        ("nvidia-k80", 150.0, 12.0, 240.0, 8.73 / 2),
        ("nvidia-m60", 150.0, 8.0, 160.5, 9.65 / 2),
        ("amd-mi250", 280.0, 64.0, 1638.5, 45.3 / 2),
        ("amd-mi250x", 280.0, 64.0, 1638.5, 47.9 / 2),
    ],
)
def test_boards_of_two_devices_are_halved(catalog, part, tdp_w, memory_gb, bandwidth_gbs, fp32):
    row = catalog.hardware(part)
    assert row.devices_per_board == 2
    assert (row.tdp_w, row.memory_gb) == (tdp_w, memory_gb)
    assert (row.memory_bandwidth_gbs, row.fp32_tflops) == (bandwidth_gbs, fp32)


def test_idle_and_embodied_of_half_a_board(catalog):
    """K80: 54 W (50 to 60) and 103 kg a board."""
    row = catalog.hardware("nvidia-k80")
    assert (row.idle.low, row.idle.value, row.idle.high) == (25.0, 27.0, 30.0)
    te = accelerator_te(row)
    assert round(2 * te.te_g.value / 1000) == 103


FIGURES = {
    # 242 is the figure with sparsity
    "nvidia-l4": {"fp16_tensor_tflops": 121.0, "fp32_tflops": 30.3},
    # 125 is FP16 tensor
    "nvidia-v100-sxm2-16": {"fp32_tflops": 15.7, "fp16_tensor_tflops": 125.0, "tdp_w": 300.0},
    "nvidia-v100-pcie-16": {"fp32_tflops": 14.0, "fp16_tensor_tflops": 112.0, "tdp_w": 250.0},
    # 67 is FP32
    "nvidia-h100-sxm5-80": {"fp16_tensor_tflops": 989.0, "fp32_tflops": 67.0},
    "nvidia-h200-sxm": {"fp16_tensor_tflops": 989.0},
    "nvidia-l40s": {"fp16_tensor_tflops": 362.0, "fp32_tflops": 91.6, "tdp_w": 350.0},
    "nvidia-a10": {"fp16_tensor_tflops": 125.0},
    "nvidia-a10g": {"fp16_tensor_tflops": 70.0, "tdp_w": 300.0},
    # FP32 accumulation; 330 is FP16
    "nvidia-rtx-4090": {"fp16_tensor_tflops": 165.2},
    "google-tpu-v2": {"bf16_tensor_tflops": 46.0, "memory_gb": 16.0},
    "google-tpu-v3": {"bf16_tensor_tflops": 123.0},
    "google-tpu-v4": {"bf16_tensor_tflops": 275.0},
    "google-tpu-v5e": {"bf16_tensor_tflops": 197.0, "int8_tops": 393.0},
    "google-tpu-v5p": {"bf16_tensor_tflops": 459.0, "memory_gb": 95.0},
    "google-tpu-v6e": {"bf16_tensor_tflops": 918.0, "int8_tops": 1836.0},
    "google-tpu-v7": {"bf16_tensor_tflops": 2307.0, "fp8_tflops": 4614.0},
    "nvidia-b300": {"tdp_w": 1100.0},
    "nvidia-b200": {"memory_gb": 180.0},
    "amd-mi300a": {"memory_gb": 128.0, "tdp_w": 550.0},
    "amd-mi325x": {"memory_gb": 256.0},
    "amd-mi300x": {"memory_gb": 192.0, "memory_bandwidth_gbs": 5300.0},
}
"""Figures that are often printed wrong, or on which sources disagree."""


@pytest.mark.parametrize("part", FIGURES)
def test_figures_that_are_easily_got_wrong(catalog, part):
    row = catalog.hardware(part)
    assert {name: getattr(row, name) for name in FIGURES[part]} == FIGURES[part]


def test_dense_fp16_per_watt_of_tdp(catalog):
    """L4 1.68, MI300X 1.74, H100 1.41, B200 2.25, A100 0.78, T4 0.93, V100 0.42 TFLOPS/W."""
    expected = {
        "nvidia-l4": 1.68,
        "amd-mi300x": 1.74,
        "nvidia-h100-sxm5-80": 1.41,
        "nvidia-b200": 2.25,
        "nvidia-a100-sxm4-80": 0.78,
        "nvidia-t4": 0.93,
        "nvidia-v100-sxm2-16": 0.42,
    }
    for part, rate in expected.items():
        row = catalog.hardware(part)
        assert row.fp16_tensor_tflops is not None
        assert row.tdp_w is not None
        assert round(row.fp16_tensor_tflops / row.tdp_w, 2) == rate, part


def test_unknown_stays_unknown(catalog):
    assert catalog.hardware("google-tpu-v5e").tdp_w is None
    assert catalog.hardware("google-tpu-v2").int8_tops is None
    assert catalog.hardware("cerebras-wse3").fp16_tensor_tflops is None
    assert catalog.hardware("nvidia-gb200").idle is None


def test_rows_cannot_be_changed(catalog):
    with pytest.raises(AttributeError):
        catalog.hardware("t4").tdp_w = 1.0  # type: ignore[misc]


def test_documents_are_json_with_the_class_under_its_own_name(catalog):
    doc = json.loads(msgspec.json.encode(hardware_doc(catalog.hardware("t4"))))
    assert (doc["class"], doc["tdp_w"], doc["fp16_tensor_tflops"]) == ("gpu", 70, 65)
    assert doc["fp8_tflops"] is None
    assert doc["idle_w"]["unit"] == "W"
    assert doc["idle_sources"] == ["smi"]
    docs = [cpu_doc(row) for row in catalog.all_cpus()]
    docs += [row.to_doc() for row in catalog.all_regions()]
    docs += [row.to_doc() for row in catalog.all_zones()]
    assert len(json.loads(msgspec.json.encode(docs))) == len(docs)


def test_a_cell_that_does_not_fit_is_refused_with_file_line_and_column():
    text = data_text("hardware.csv").replace(",current,rented,", ",current,leased,", 1)
    said = r"hardware.csv line \d+: field 'availability' is 'leased', not one of sold, rented"
    with pytest.raises(ValueError, match=said):
        list(read_rows(HardwareRow, text, "hardware.csv"))


def test_a_range_that_does_not_hold_its_value_is_refused_with_file_and_line():
    text = data_text("hardware.csv").replace(",54,50,60,", ",54,55,60,", 1)
    said = "hardware.csv line 2: idle_low_w, idle_w and idle_high_w must rise in that order"
    with pytest.raises(ValueError, match=said):
        list(read_rows(HardwareRow, text, "hardware.csv"))


def test_a_row_says_how_many_devices_frameworks_list_for_one(catalog):
    """devices_per_chip of tpu-info 0.14.2; cores of a chip by the Neuron documentation."""
    listed = {part.id: part.framework_devices for part in catalog.all_hardware()}
    assert {part: count for part, count in listed.items() if count} == {
        "google-tpu-v2": 2,
        "google-tpu-v3": 2,
        "google-tpu-v7": 2,
        "aws-trainium1": 2,
        "aws-inferentia1": 4,
        "aws-inferentia2": 2,
    }
