"""Jobs whose speed is set by requests, input or the host; and powers that cannot be."""

from __future__ import annotations

import pytest

from gramwatt.sci.advice.prediction.bottleneck import find_bottleneck
from gramwatt.sci.advice.suggest_request import parse_suggest_request
from gramwatt.sci.figures.errors import LookupFailed
from tests.sci.advice.requests import (
    A100,
    B200,
    CATALOG,
    H100,
    L4,
    T4,
    V100,
    action,
    ask,
    codes,
    judged,
)

ENDPOINT = {
    "hardware": T4,
    "kind": "inference",
    "framework": "pytorch",
    "precision": "fp16",
    "mean_power_w": 32,
    "utilisation": 0.12,
    "peak_memory_gb": 4,
    "hours": 700,
    "zone": "PL",
}
LOADER = {
    "hardware": A100,
    "kind": "training",
    "framework": "pytorch",
    "precision": "bf16",
    "mean_power_w": 95,
    "utilisation": 0.22,
    "peak_memory_gb": 11,
    "hours": 60,
    "zone": "PL",
}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"mean_power_w": 330, "utilisation": 0.97}, "throughput"),
        ({"mean_power_w": 60}, "input"),  # below 1.3 times the idle 50 W
        ({"mean_power_w": 200, "utilisation": 0.3}, "input"),
        ({"mean_power_w": 200, "utilisation": 0.3, "kind": "inference"}, "requests"),
        ({"mean_power_w": 200, "utilisation": 0.3, "kind": "other"}, "host"),
        ({"mean_power_w": 100, "memory_bandwidth_utilisation": 0.05}, "input"),
        (
            {"mean_power_w": 200, "utilisation": 0.3, "memory_bandwidth_utilisation": 0.7},
            "throughput",
        ),
        ({"mean_power_w": 60, "pace": "throughput"}, "throughput"),
    ],
)
def test_the_pace_is_declared_or_found(fields, name):
    request = parse_suggest_request({"hardware": A100, "kind": "training", **fields})
    assert find_bottleneck(request, CATALOG.hardware(A100)).name == name


def test_a_faster_part_does_not_hurry_requests():
    for part in (H100, B200):
        said = judged(part, **ENDPOINT)
        assert said.time_ratio.value == 1
        assert said.verdict in ("higher", "no-reliable-difference")
        # It cannot draw less than its idle power for the same hours.
        idle = CATALOG.hardware(part).idle.low
        host = 195 * (70 / 700) ** 0.25
        assert said.energy_ratio.value >= (idle + host) / (32 + host)


def test_a_waiting_training_may_run_on_a_smaller_part():
    said = judged(L4, **LOADER, ownership="owned")
    assert said.verdict == "lower"
    # At most its rated power, beside the same host: (72 t + H) / (95 + H).
    host = 195 * (400 / 700) ** 0.25
    worst = said.time_ratio.value * (72 + host) / (95 + host)
    assert said.energy_ratio.value <= worst
    assert "pace-inferred" in codes(**LOADER)
    assert judged(H100, **LOADER).verdict != "lower"


def test_a_part_that_cannot_keep_up_takes_longer():
    busy = {**LOADER, "mean_power_w": 140, "utilisation": 0.48, "peak_memory_gb": 6}
    for part in ("nvidia-p100-pcie-16", "nvidia-k80"):
        said = judged(part, **busy)
        assert said.time_ratio.value > 1.5
        assert said.verdict != "lower"


def test_nothing_is_promised_to_a_part_that_idles_higher():
    low = {"hardware": V100, "workload_class": "recsys", "mean_power_w": 55, "zone": "DE"}
    for part in (H100, B200, "nvidia-h200-sxm"):
        assert judged(part, **low, framework="pytorch", hours=9).verdict != "lower"


def test_time_is_in_doubt_at_little_power():
    low = {"hardware": A100, "kind": "training", "precision": "bf16", "zone": "DE", "hours": 9}
    low |= {"mean_power_w": 120, "utilisation": 0.96}
    doubted = judged(H100, **low).time_ratio
    assert doubted.low < doubted.value < 1 < doubted.high
    assert judged(H100, **low, pace="throughput").time_ratio.high < 1


@pytest.mark.parametrize(("part", "watts"), [(T4, 200), (B200, 70), (A100, 20)])
def test_a_power_that_cannot_be_gets_no_verdict(part, watts):
    asked = {"hardware": part, "kind": "training", "mean_power_w": watts, "hours": 9, "zone": "DE"}
    answer = ask(**asked, candidates=[L4, H100])
    assert {one.verdict for one in answer.suggestions if one.target} <= {"unknown"}
    assert "power-impossible" in {notice.code for notice in answer.notices}


@pytest.mark.parametrize("fields", [{"precision": "fp64"}, {"kind": "other"}])
def test_work_that_no_model_speaks_for_gets_no_ratio(fields):
    asked = {"hardware": V100, "kind": "training", "mean_power_w": 240, "zone": "DE", "hours": 9}
    said = judged(L4, **{**asked, **fields})
    assert (said.verdict, said.time_ratio) == ("unknown", None)


def test_reinforcement_learning_is_paced_by_its_host_unless_the_device_is_busy():
    asked = {"hardware": A100, "kind": "training", "zone": "DE", "hours": 72}
    asked |= {"framework": "stable-baselines3", "mean_power_w": 150, "peak_memory_gb": 6}
    assert "pace-inferred" in codes(**asked)
    smaller, larger = judged(L4, **asked), judged("nvidia-b200", **asked)
    assert "do not set the pace" in smaller.reasons[1]
    assert larger.verdict != "lower"
    assert "pace-inferred" not in codes(**{**asked, "mean_power_w": 320})
    assert "pace-inferred" not in codes(**{**asked, "framework": "pytorch"})


def test_a_mig_slice_is_understood_and_not_compared():
    slice_of = {"hardware": "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "kind": "inference"}
    said = judged(L4, **slice_of, peak_memory_gb=5, zone="DE", hours=9, mean_power_w=40)
    assert said.verdict == "unknown"
    assert "1g.10gb is a slice of nvidia-a100-sxm4-80" in said.reasons[0]
    with pytest.raises(LookupFailed) as refused:
        ask(hardware="A100 1g.10gb", zone="DE")
    assert "nvidia-a100-sxm4-80 MIG 1g.10gb" in refused.value.names["choices"]


def test_sharing_names_the_slice_that_holds_the_job():
    """An eighth of 80 GiB is 10: 5 x 1.1 fit it, and 12 % busy is less than a seventh."""
    small = {"hardware": A100, "kind": "inference", "workload_class": "small", "zone": "DE"}
    small |= {"hours": 720, "mean_power_w": 80, "peak_memory_gb": 5, "utilisation": 0.12}
    assert "the MIG slice 1g.10gb holds" in " ".join(action("share", **small).reasons)
    busier = " ".join(action("share", **{**small, "utilisation": 0.3}).reasons)
    assert "the MIG slice 3g.40gb holds" in busier
