"""Power limits, fewer devices, links, batches that fit, and parts that read from their host."""

from __future__ import annotations

from typing import get_args

import pytest

from gramwatt.sci.advice.actions.texts import EFFORTS
from gramwatt.sci.advice.documents import Action, EffortDoc
from gramwatt.sci.advice.prediction.measurements import evidence
from tests.sci.advice.requests import A100, CATALOG, H100, V100, action, ask, codes, judged

WELL_USED = {
    "hardware": A100,
    "kind": "training",
    "framework": "pytorch",
    "precision": "bf16",
    "mean_power_w": 350,
    "peak_memory_gb": 60,
    "count": 4,
    "hours": 30,
    "zone": "PL",
}


def test_a_power_limit_saves_what_was_measured_with_the_host_longer():
    said = action("power-cap", **WELL_USED)
    # 0.789 (0.777 to 0.817) of the board's energy in 1.107 (1.046 to 1.164) times the time.
    host_w = 195 * (400 / 700) ** 0.25
    energy = (350 * 0.78859 + host_w * 1.1072) / (350 + host_w)
    assert said.energy_ratio.value == pytest.approx(energy, rel=1e-3)
    assert (said.verdict, said.operating_point) == ("lower", "280 W a device")
    assert "nvidia-smi -pl 280" in said.reasons[0]
    newer = action("power-cap", **{**WELL_USED, "hardware": H100, "mean_power_w": 612})
    assert newer.time_ratio.high == pytest.approx(1.05 * said.time_ratio.high)
    assert any("was not measured" in reason for reason in newer.reasons)


@pytest.mark.parametrize("watts", [200, None])
def test_no_saving_is_claimed_of_a_limit_where_power_is_low_or_unknown(watts):
    said = action("power-cap", **{**WELL_USED, "mean_power_w": watts})
    assert (said.verdict, said.energy_ratio) == ("unknown", None)


def entries(target, **request):
    found = ask(candidates=[target], **request).suggestions
    return {one.count: one for one in found if one.action == "change-hardware"}


def test_fewer_larger_devices_are_an_entry_of_their_own():
    old = {"hardware": V100, "kind": "training", "framework": "pytorch", "precision": "fp16"}
    old |= {"mean_power_w": 255, "peak_memory_gb": 14, "count": 8, "hours": 90, "zone": "DE"}
    old |= {"ownership": "owned"}
    found = entries("nvidia-h100-pcie-80", **old)
    same, fewer = found[8], found[min(found)]
    assert len(found) == 2
    # Together they are as fast as their number, but for what scaling costs: 0.95 of it.
    expected = same.time_ratio.value * 8 / fewer.count * 0.95
    assert fewer.time_ratio.value == pytest.approx(expected)
    assert fewer.operating_point == f"{fewer.count} instead of 8 devices"


def test_layers_in_turn_need_one_device_that_holds_them():
    pair = {"hardware": "nvidia-rtx-4090", "kind": "inference", "framework": "llama.cpp"}
    pair |= {"batch_size": 1, "model_parameters": 34e9, "precision": "int8", "mean_power_w": 200}
    found = entries("nvidia-rtx-6000-ada", **pair, count=2, hours=9, ownership="owned")
    assert sorted(found) == [1, 2]
    assert found[1].time_ratio.value == pytest.approx(found[2].time_ratio.value)
    assert found[1].energy_ratio.value < found[2].energy_ratio.value


def test_slower_links_are_named_and_widen_the_range():
    linked = {**WELL_USED, "peak_memory_gb": 30}
    one, four = (judged("nvidia-l40s", **{**linked, "count": count}) for count in (1, 4))
    assert not any("NVLink" in reason for reason in one.reasons)
    assert any("600 GB/s (NVLink" in reason for reason in four.reasons)
    assert four.time_ratio.high == pytest.approx(1.3 * one.time_ratio.high)
    split = {**WELL_USED, "peak_memory_gb": None, "model_parameters": 13e9, "count": 8}
    wide = judged("nvidia-l40s", **split).time_ratio
    assert wide.high / wide.value > 3


@pytest.mark.parametrize(("batch", "few", "many"), [(3, "8", 32), (8, "8", 32), (100, "64", 256)])
def test_batching_from_any_number_of_sequences(batch, few, many):
    served = {"hardware": H100, "workload_class": "llm-serving", "zone": "DE", "hours": 9}
    said = action("batching", **served, batch_size=batch)
    assert (said.verdict, said.operating_point) == ("lower", f"{many} sequences")
    assert f"({'batching:llm-serving:' + few}" in said.time_ratio.source


def test_an_edge_chip_streams_small_models_and_no_large_one():
    asked = {"hardware": "nvidia-t4", "kind": "inference", "framework": "tflite", "hours": 9}
    asked |= {"precision": "int8", "constraint": "edge", "zone": "DE"}
    assert judged("google-coral-edge-tpu", **asked, model_parameters=5e6).verdict == "unknown"
    large = judged("google-coral-edge-tpu", **asked, model_parameters=7e9)
    assert large.verdict == "not-feasible"


@pytest.mark.parametrize("framework", ["TFLite", "Android", "iOS"])
def test_what_runs_on_phones_is_moved_to_no_data_centre(framework):
    asked = {"hardware": "nvidia-l4", "kind": "inference", "framework": framework, "hours": 9}
    assert judged(H100, **asked, model_parameters=5e6).verdict == "not-feasible"


def test_fp8_on_a_part_without_it_is_no_present_run():
    asked = {"hardware": A100, "kind": "training", "precision": "fp8", "zone": "DE", "hours": 9}
    first = ask(**asked, candidates=[H100]).suggestions[0]
    assert (first.action, first.verdict) == ("keep", "not-feasible")
    assert any("no FP8 units" in reason for reason in first.reasons)


def test_fp32_may_run_on_either_rate_and_tf32_on_one():
    asked = {"hardware": V100, "kind": "training", "framework": "pytorch", "zone": "DE"}
    tf32, fp32, unknown = (
        judged(A100, **asked, precision=name).time_ratio for name in ("tf32", "fp32", None)
    )
    # V100 15.7, A100 19.5 or with TF32 156 TFLOPS: the middle of the two on a scale of factors.
    assert tf32.value < fp32.value < 1
    assert fp32.high > 0.75  # as measured without TF32
    assert unknown.high / unknown.low > tf32.high / tf32.low / 2


def test_whether_a_region_has_the_instance_is_said_to_be_unknown():
    moved = action(
        "shift-region",
        instance="aws:p4d.24xlarge",
        kind="training",
        hours=9,
        region="aws:us-east-1",
    )
    assert any("does not say whether aws:p4d.24xlarge is offered" in r for r in moved.reasons)


def test_own_notices_are_in_the_catalog_of_notices():
    assert "pace-inferred" in codes(hardware=A100, kind="training", utilisation=0.2, zone="DE")
    assert CATALOG.hardware(A100).interconnect_gbs == 600


SERVED_70B = {
    "hardware": H100,
    "kind": "inference",
    "framework": "vllm",
    "model_parameters": 70e9,
    "precision": "bf16",
    "zone": "DE",
    "hours": 100,
}


def test_eight_bits_in_serving_pay_on_half_the_devices_and_one_model_is_no_verdict_on_others():
    """ML.ENERGY: Llama-3.1-405B at 64 sequences 2.561 J a token on four B200 in FP8 against 4.082 J
    on eight in BF16; Qwen3-235B at 8 sequences 11.389 against 7.292 J on eight H100 each."""
    many = action("quantise", **SERVED_70B, count=4, batch_size=64)
    assert (many.verdict, many.count) == ("lower", 2)
    assert evidence("quantise:llm-serving:half:64", "energy").low == pytest.approx(
        2.561 / 4.082, rel=1e-3
    )
    few = action("quantise", **SERVED_70B, count=8, batch_size=8)
    assert (few.verdict, few.count) == ("unknown", 8)
    assert "1.54 to 1.61 of the devices' energy" in few.reasons[-1]
    assert evidence("quantise:llm-serving:same:8", "energy").value == pytest.approx(
        11.389 / 7.292, rel=1e-3
    )
    unstated = {**SERVED_70B, "precision": None}
    assert action("quantise", **unstated, count=4, batch_size=64).verdict == "unknown"
    no_fp8 = {**SERVED_70B, "hardware": A100}
    assert action("quantise", **no_fp8, count=4, batch_size=64).verdict == "unknown"
    one = action("quantise", **{**SERVED_70B, "model_parameters": 8e9}, count=1, batch_size=256)
    assert (one.count, one.verdict) == (1, "unknown")


@pytest.mark.parametrize(
    ("framework", "parameters", "verdict"),
    [
        ("llama.cpp", 7e9, "lower"),
        ("pytorch", 7e9, "no-reliable-difference"),
        ("pytorch", 1e9, "no-reliable-difference"),
        (None, 7e9, "unknown"),
        ("tensorrt-llm", 7e9, "unknown"),
    ],
)
def test_four_bits_save_by_software_not_by_bits(framework, parameters, verdict):
    """EcoCompute: an RTX 5090 takes 201.88 W / 41.40 tokens/s in 4 bits, 388.34 / 70.47 in 16."""
    decode = {"kind": "inference", "batch_size": 1, "precision": "fp16", "zone": "DE", "hours": 9}
    asked = {**decode, "hardware": "nvidia-rtx-4090", "model_parameters": parameters}
    said = action("quantise", **asked, framework=framework)
    assert said.verdict == verdict
    assert "check the accuracy" in said.reasons[0]
    table = evidence("quantise:decode:pytorch:4:large", "energy")
    assert table.high == pytest.approx(201.88 / 41.40 / (388.34 / 70.47), rel=1e-3)


def test_one_sequence_is_told_of_more_unless_its_device_waits():
    decode = {"hardware": A100, "kind": "inference", "model_parameters": 7e9, "batch_size": 1}
    place = {"zone": "DE", "hours": 9, "framework": "pytorch", "precision": "fp16"}
    said = action("batching", **decode, **place, mean_power_w=250)
    assert (said.verdict, said.operating_point) == ("lower", "32 sequences")
    assert "measured from 8 sequences on; from 1 it saves more" in said.reasons
    waiting = action("batching", **decode, **place, mean_power_w=250, pace="requests")
    assert waiting.verdict == "unknown"


def test_a_year_is_the_saving_times_the_runs_and_nothing_where_they_are_not_known():
    once = action("power-cap", **WELL_USED)
    often = action("power-cap", **WELL_USED, runs_per_year=50)
    assert once.yearly_kg is None
    assert often.yearly_kg.unit == "kgCO2e"
    for end in ("value", "low", "high"):
        yearly_kg = getattr(often.yearly_kg, end)
        assert yearly_kg == pytest.approx(getattr(often.saved_g, end) * 50 / 1000)


@pytest.mark.parametrize(
    ("request_fields", "target", "level"),
    [
        ({}, H100, "medium"),
        ({"ownership": "to-buy"}, H100, "high"),
        ({"provider": "aws"}, H100, "low"),
        ({}, "amd-mi300x", "high"),
        ({}, A100, "low"),
    ],
)
def test_the_effort_of_other_hardware_is_how_it_is_had(request_fields, target, level):
    said = entries(target, **WELL_USED, **request_fields)[4]
    assert said.effort.level == level


def test_every_action_has_its_effort():
    known = set(get_args(Action)) - {"change-hardware"}
    assert set(EFFORTS) == known
    assert action("power-cap", **WELL_USED).effort == EffortDoc(
        "low", "one command of an administrator, which can be taken back"
    )


def test_no_limit_of_nvidia_smi_for_a_jetson():
    asked = {"workload_class": "batch-inference", "hours": 100, "zone": "PL", "mean_power_w": 9}
    assert action("power-cap", hardware="nvidia-jetson-orin-nano-8", **asked) is None
    capped = action("power-cap", hardware=A100, **{**asked, "mean_power_w": 300})
    assert "one command" in capped.effort.reason
