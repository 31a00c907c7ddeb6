"""Each of the 77 rules the advice started from, in the sense of its verdict in `rules.csv`.

A rule that is kept is asserted, one with a condition with it and without it, a wrong one is refused
and its correction asserted, a policy is shown as text with its source and changes no figure.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from gramwatt.sci.embodied.te import accelerator_te
from gramwatt.sci.suggest.evidence import effect
from gramwatt.sci.suggest.facts import memory_need
from gramwatt.sci.suggest.request import parse_suggest_request
from tests.sci.suggest.requests import (
    A100,
    B200,
    CATALOG,
    H100,
    L4,
    L40S,
    MI300X,
    T4,
    V100,
    action,
    ask,
    codes,
    fits,
    hardware,
    rate,
    ratio,
    word,
)

TRAINED = {"hardware": H100, "kind": "training", "zone": "DE"}
SERVED = {"hardware": H100, "kind": "inference", "zone": "DE"}
SMALL_JOB = {
    "hardware": H100,
    "kind": "training",
    "mean_power_w": 150,
    "utilisation": 0.2,
    "peak_memory_gb": 8,
    "zone": "DE",
    "hours": 48,
}
LAMBDA = {"point": "largest batch that fits", "precision": "fp16"}
with Path(__file__).with_name("rules.csv").open(encoding="utf-8", newline="") as lines:
    RULES = {int(row["rule"]): row for row in csv.DictReader(lines)}
CHECKS: dict[int, Callable[[], None]] = {}


def rule(number: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register the check of a rule."""

    def add(check: Callable[[], None]) -> Callable[[], None]:
        assert number not in CHECKS
        CHECKS[number] = check
        return check

    return add


def gib(parameters: float, **request: object) -> float:
    need = memory_need(parse_suggest_request({"model_parameters": parameters, **request}))
    assert need is not None
    return need.total_gib or 0.0


def watts(part: str) -> float:
    return CATALOG.hardware(part).tdp_w or 0.0


def per_watt(workload: str, part: str, **cells: str) -> float:
    return rate(workload, part, **cells) / watts(part)


def no_energy(part: str, **request: object) -> None:
    """No odds and no figure of energy: at most a time."""
    row = hardware(part, **{**TRAINED, **request})
    assert row is None or (row.odds, row.energy_ratio, row.carbon_ratio) == (None, None, None)


def policy(number: int, **request: object) -> None:
    texts = [n.message for n in ask(**request).notices if n.code == "advice-policy"]
    rule = RULES[number]
    assert any(f"{rule['statement']} ({rule['seed']})" in text for text in texts)
    assert not any("(rule" in text for text in texts)


@rule(1)
def _() -> None:
    full = {"model_parameters": 70e9, "kind": "training", "count": 8}
    assert [fits(part, **full) for part in (H100, B200)] == [False, True]  # 1147 GiB
    assert fits(H100, **{**full, "count": 16})
    assert fits(H100, **{**full, "kind": "fine-tuning", "method": "lora"})


@rule(2)
def _() -> None:
    no_energy("google-tpu-v5p", framework="jax")
    v5p = rate("stable_diffusion", "google-tpu-v5p", round="v4.1")
    assert v5p / rate("stable_diffusion", H100, round="v4.1") == pytest.approx(0.638, abs=0.01)
    assert word("google-tpu-v5p", **TRAINED, framework="cuda") == "other software"


@rule(3)
def _() -> None:
    asked = {**SERVED, "model_parameters": 8e9, "precision": "bf16"}
    assert "taken for llm-serving work" in str(ask(**asked, batch_size=32).reasons)
    assert "taken for decode work" in str(ask(**asked, batch_size=1).reasons)
    assert fits(L4, **asked)
    assert not fits(L4, **{**asked, "model_parameters": 70e9})


@rule(4)
def _() -> None:
    images = [rate("resnet50", part, **LAMBDA) for part in (H100, A100, "nvidia-rtx-4090", V100)]
    assert images == [2616, 1582, 1301, 833]


@rule(5)
def _() -> None:
    policy(5, model_parameters=1e8, constraint="edge")


@rule(6)
def _() -> None:
    assert fits("nvidia-rtx-4090", model_parameters=7e9, precision="fp16", kind="inference")
    assert not fits("nvidia-rtx-4090", model_parameters=13e9, precision="fp16", kind="inference")
    speed = rate("bert_large_squad", "nvidia-rtx-4090", **LAMBDA)
    assert speed / watts("nvidia-rtx-4090") < per_watt(
        "bert_large_squad", "nvidia-a100-pcie-80", **LAMBDA
    )
    row = hardware("nvidia-l4", **TRAINED, provider="gcp")
    assert row is not None
    assert any("list price" in reason for reason in row.reasons)


@rule(7)
def _() -> None:
    assert not fits(H100, model_parameters=70e9, kind="training", count=8)
    assert fits("nvidia-h200-sxm", model_parameters=70e9, kind="training", count=16)


@rule(8)
def _() -> None:
    for workload in ("bert-99", "stable-diffusion-xl", "llama2-70b-99", "gptj-99"):
        parts = (L40S, H100, "nvidia-h200-sxm", "nvidia-h100-pcie-80")
        score = {part: per_watt(workload, part, use="time") for part in parts}
        assert min(score, key=lambda part: score[part]) == L40S
    assert fits(L40S, model_parameters=13e9, precision="fp16", kind="inference")
    row = hardware(L40S, **SERVED, workload_class="batch-inference")
    assert row is not None
    assert row.verdict == "probably more"


@rule(9)
def _() -> None:
    for workload in ("resnet50", "3d-unet-99"):
        parts = (L4, L40S, H100, "nvidia-h100-pcie-80")
        cells = {"use": "time", "source": "mlperf-inference"}
        score = {part: per_watt(workload, part, **cells) for part in parts}
        assert max(score, key=lambda part: score[part]) == L4
    board = ratio(L4, "time", **TRAINED, mean_power_w=500) * 72 / 700
    # The host's part weighs on a small card.
    assert ratio(L4, "energy", **TRAINED, mean_power_w=500) > 1.2 * board


@rule(10)
def _() -> None:
    assert fits("nvidia-rtx-6000-ada", model_parameters=13e9, precision="fp16", kind="inference")


@rule(11)
def _() -> None:
    cells = {"use": "time"}
    mi300x = rate("llama2_70b_lora", MI300X, round="v5.0", **cells)
    h100 = rate("llama2_70b_lora", H100, round="v4.1", **cells)
    assert mi300x / h100 == pytest.approx(1.0, abs=0.1)


@rule(12)
def _() -> None:
    assert CATALOG.hardware(MI300X).architecture == "CDNA 3"
    assert CATALOG.hardware("amd-mi250").architecture == "CDNA 2"


@rule(13)
def _() -> None:
    assert CATALOG.hardware("intel-gaudi2").device_class == "accelerator"


@rule(14)
def _() -> None:
    for part in ("google-tpu-v5e", "google-tpu-v5p"):
        no_energy(part, kind="inference", workload_class="batch-inference")


@rule(15)
def _() -> None:
    policy(15, **TRAINED, candidates=["aws-trainium1"])
    no_energy("aws-trainium1")


@rule(16)
def _() -> None:
    no_energy("aws-inferentia2", **SERVED)


@rule(17)
def _() -> None:
    policy(17, **TRAINED, candidates=["cerebras-wse3"])
    no_energy("cerebras-wse3")


@rule(18)
def _() -> None:
    assert rate("bert_large_squad", H100, **LAMBDA) > rate("bert_large_squad", A100, **LAMBDA)


@rule(19)
def _() -> None:
    parts = (V100, "nvidia-a100-pcie-80", "nvidia-h100-pcie-80")
    score = [per_watt("bert_large_squad", part, **LAMBDA) for part in parts]
    assert [round(figure, 2) for figure in score] == [0.19, 0.47, 0.58]
    assert "flag-outdated" in codes(hardware=V100, kind="training")


@rule(20)
def _() -> None:
    cells = {"batch": "256", "precision": "fp16"}
    t4, v100 = (per_watt("resnet50 inference", part, **cells) for part in (T4, V100))
    assert (round(t4, 1), round(v100, 1)) == (17.1, 11.3)
    assert not fits(T4, model_parameters=13e9, precision="fp16", kind="inference")
    half = [CATALOG.hardware(part).fp16_tensor_tflops for part in (L4, T4)]
    assert half[0] / half[1] == pytest.approx(1.9, abs=0.05)
    asked = {"kind": "inference", "workload_class": "batch-inference", "zone": "DE"}
    assert ratio(L4, "energy", hardware=T4, **asked) < 1


@rule(21)
def _() -> None:
    assert CATALOG.hardware("nvidia-k80").status.startswith("legacy")
    shown = ask(hardware=V100, kind="training").answers
    assert "nvidia-k80" not in {row.target for row in shown}


@rule(22)
def _() -> None:
    row = hardware(A100, **TRAINED, framework="pytorch", precision="bf16")
    assert row is not None
    assert row.time_ratio.low > 1


@rule(23)
def _() -> None:
    speed = [rate("LLaMA3 8B F16 decode", p) for p in ("nvidia-rtx-3090", "nvidia-h100-pcie-80")]
    assert speed[0] / speed[1] == pytest.approx(0.69, abs=0.01)
    peaks = [
        CATALOG.hardware(p).fp16_tensor_tflops for p in ("nvidia-rtx-3090", "nvidia-h100-pcie-80")
    ]
    assert peaks[0] / peaks[1] == pytest.approx(0.09, abs=0.005)


@rule(24)
def _() -> None:
    cells = {"batch": "1", "precision": "fp16"}
    assert rate("resnet50 inference", T4, **cells) / rate(
        "resnet50 inference", V100, **cells
    ) == pytest.approx(1.0, abs=0.03)
    assert ratio(H100, "time", hardware=T4, workload_class="small", kind="inference") == 1.0


@rule(25)
def _() -> None:
    model = {"model_parameters": 7e9, "precision": "bf16"}
    assert fits(L4, **model, kind="inference")
    assert fits(L4, **model, kind="fine-tuning", method="lora")
    full = {**model, "kind": "fine-tuning", "method": "full", "count": 1}
    [out] = ask(candidates=[A100], **full).left_out
    # 7e9 x 16 B = 104.3 GiB, 1.1 of that is 114.7 GiB: adapters fit one.
    assert "114.7 GiB" in out.reason
    assert out.fix == "LoRA would (15.5 GiB)"


@rule(26)
def _() -> None:
    model = {"model_parameters": 30e9, "kind": "inference"}
    assert not fits(L40S, **model, precision="fp16")
    assert fits(L40S, **model, precision="int8")


@rule(27)
def _() -> None:
    need = memory_need(
        parse_suggest_request({"model_parameters": 70e9, "kind": "inference", "precision": "bf16"})
    )
    assert need.devices(CATALOG.hardware("google-tpu-v5e").memory_gb) == 10  # cache included
    assert need.devices(CATALOG.hardware(H100).memory_gb) == 2


@rule(28)
def _() -> None:
    serve = {"model_parameters": 70e9, "kind": "inference", "precision": "bf16"}
    assert fits(MI300X, **serve)
    assert fits(B200, **serve)
    assert fits(H100, model_parameters=70e9, kind="fine-tuning", method="lora", count=8)
    assert not fits(H100, model_parameters=70e9, kind="training", count=8)


@rule(29)
def _() -> None:
    for size in (1e9, 7e9, 30e9, 70e9):
        low, at, high = (gib(size * k, kind="inference") for k in (0.999999, 1, 1.000001))
        assert low < at < high  # no step at a class border, because there are no classes
        assert high / low < 1.0001


@rule(30)
def _() -> None:
    assert gib(10e9, kind="training") == pytest.approx(10e9 * 16 / 2**30 * 1.1)
    assert fits(H100, model_parameters=10e9, kind="training", count=3)
    assert not fits(H100, model_parameters=10e9, kind="training", count=2)


@rule(31)
def _() -> None:
    asked = {**TRAINED, "provider": "aws"}
    assert word("google-tpu-v5p", **asked) == "not offered there"
    assert fits("aws-trainium1", **asked)
    assert word("aws-trainium1", **{**asked, "provider": "gcp"}) == "not offered there"


@rule(32)
def _() -> None:
    adapters = {"model_parameters": 7e9, "kind": "fine-tuning"}
    assert fits("nvidia-rtx-4090", **adapters, method="lora")
    assert fits(T4, **adapters, method="qlora")
    assert not fits(L4, model_parameters=70e9, kind="fine-tuning", method="qlora")


@rule(33)
def _() -> None:
    tuned = gib(7e9, kind="fine-tuning", method="full")
    assert tuned == gib(7e9, kind="training")


@rule(34)
def _() -> None:
    for workload in ("llama2-70b-99", "gptj-99"):
        big = per_watt(workload, "nvidia-h200-sxm", use="time")
        assert big > per_watt(workload, L40S, use="time")


@rule(35)
def _() -> None:
    speed = [rate("LLaMA3 8B F16 decode", part) for part in (L40S, "nvidia-h100-pcie-80")]
    assert [round(figure) for figure in speed] == [43, 68]
    asked = {"kind": "inference", "workload_class": "decode", "framework": "llama.cpp"}
    row = hardware(L40S, hardware="nvidia-h100-pcie-80", precision="fp16", **asked)
    assert row is not None
    assert row.time_ratio.low > 1


@rule(36)
def _() -> None:
    policy(36, model_parameters=1e8, constraint="edge")
    assert fits("google-coral-edge-tpu", model_parameters=1e6, precision="int8", constraint="edge")
    assert not fits(H100, model_parameters=1e6, constraint="edge")
    assert not fits("google-tpu-v5e", model_parameters=1e9, constraint="offline")


@rule(37)
def _() -> None:
    assert not fits("google-tpu-v5e", **{**TRAINED, "framework": "cuda"})
    assert fits("google-tpu-v5e", **{**TRAINED, "framework": "jax"})


@rule(40)
def _() -> None:
    [out] = ask(
        candidates=[L4], count=1, model_parameters=13e9, precision="fp16", kind="inference"
    ).left_out
    assert out.word == "does not fit"
    assert "1.3e+10 parameters x 2 B" in out.reason
    assert out.fix == "8-bit weights would (13.5 GiB)"


@rule(41)
def _() -> None:
    assert fits("nvidia-rtx-3070", model_parameters=3e9, precision="fp16", kind="inference")
    assert not fits(T4, model_parameters=8e9, precision="fp16", kind="inference")


@rule(42)
def _() -> None:
    assert gib(340e6, kind="inference", precision="fp32") < 2
    gpt3 = gib(175e9, kind="inference", precision="fp16")
    assert gpt3 / 1.1 == pytest.approx(350e9 / 2**30, rel=0.01)


@rule(43)
def _() -> None:
    cells = {"hardware": H100}
    few = per_token("8 sequences, 1 device", **cells)
    many = per_token("64 sequences, 1 device", **cells)
    assert few / many == pytest.approx(3.8, abs=0.05)
    row = action("batching", **SERVED, model_parameters=8e9, batch_size=16, hours=10)
    assert row is not None
    assert row.verdict == "likely"
    assert 1 / 10 < row.energy_ratio.low < row.energy_ratio.high < 1 / 1.5


def per_token(point: str, hardware: str) -> float:
    work = "Llama-3.1-8B-Instruct lm-arena-chat"
    return rate(work, hardware, "power_w", point=point) / rate(work, hardware, point=point)


@rule(44)
def _() -> None:
    sizes = [gib(8e9, kind="inference", precision=p) for p in ("fp32", "fp16", "int8", "int4")]
    cache = 1.1 * 0.04
    weights = [size - cache for size in sizes]
    assert weights[1] / weights[2] == pytest.approx(2, abs=0.03)
    assert weights[1] / weights[3] == pytest.approx(4, abs=0.1)
    assert weights[0] / weights[2] == pytest.approx(4, abs=0.05)
    faster = effect("quantise:decode:fp16", "time")
    assert faster is not None
    assert 2.1 < 1 / faster.high < 1 / faster.low < 2.9  # not 4


@rule(45)
def _() -> None:
    policy(45, **TRAINED, batch_size=512)


@rule(46)
def _() -> None:
    assert fits(L4, model_parameters=1e9, kind="training")
    assert fits(L4, model_parameters=7e9, kind="fine-tuning", method="lora")


@rule(47)
def _() -> None:
    assert "anthropic" not in str([rule["statement"] for rule in RULES.values()]).lower()
    assert RULES[47]["verdict"] == "NOT SUPPORTED"


@rule(48)
def _() -> None:
    answer = ask(hardware=H100, kind="training", model_parameters=7e9, tokens=1e9)
    hours = answer.estimate.device_hours
    peak = CATALOG.hardware(H100).bf16_tensor_tflops * 1e12 * 3600
    expected = [6 * 7e18 / (peak * share) for share in (0.35, 0.48, 0.22)]
    assert [hours.value, hours.low, hours.high] == pytest.approx(expected)


@rule(49)
def _() -> None:
    answer = ask(hardware=H100, kind="training", model_parameters=7e9, tokens=1e12)
    hours = answer.estimate.device_hours
    assert 23_000 < hours.value < 40_000
    assert hours.low > 20 * 1000


@rule(50)
def _() -> None:
    weeks = ask(hardware=H100, kind="training", model_parameters=7e9, tokens=0.1e12, count=4)
    assert 2 < weeks.estimate.device_hours.value / 4 / 168 < 6
    row = hardware(L40S, **TRAINED, framework="pytorch", precision="bf16")
    assert row is not None
    assert row.time_ratio.low > 1.5  # an L40S is no half H100


@rule(51)
def _() -> None:
    answer = ask(hardware=H100, kind="training", model_parameters=70e9, tokens=1.4e12, count=64)
    days = answer.estimate.device_hours.value / 64 / 24
    assert 200 < days < 400
    assert ask(hardware=H100, kind="training", model_parameters=70e9).estimate is None


@rule(52)
def _() -> None:
    for part in (L4, A100):
        assert fits(part, model_parameters=7e9, kind="fine-tuning", method="lora")


@rule(53)
def _() -> None:
    assert action("batching", **TRAINED, batch_size=8) is None


@rule(54)
def _() -> None:
    assert "flag-over-provisioned" in codes(**SMALL_JOB)
    busy = {**SMALL_JOB, "mean_power_w": 600, "utilisation": 0.95}
    assert "flag-over-provisioned" not in codes(**busy)
    assert "flag-over-provisioned" not in codes(**{**SMALL_JOB, "peak_memory_gb": 75})


@rule(55)
def _() -> None:
    assert "flag-under-provisioned" in codes(**TRAINED, peak_memory_gb=77)
    assert "flag-under-provisioned" not in codes(**TRAINED, peak_memory_gb=75)


@rule(56)
def _() -> None:
    assert "flag-long-inefficient" in codes(**SMALL_JOB)
    assert "flag-long-inefficient" not in codes(**{**SMALL_JOB, "hours": 23})
    assert "flag-long-inefficient" in codes(**{**SMALL_JOB, "hours": 12, "count": 2})


@rule(57)
def _() -> None:
    row = action("spot", **TRAINED, provider="gcp", hours=100)
    assert row is not None
    assert (row.odds, row.carbon_ratio, row.saved_g) == (None, None, None)
    assert "no less carbon; none is credited" in row.reasons[0]


@rule(58)
def _() -> None:
    p100 = {"hardware": "nvidia-p100-pcie-16", "kind": "training", "zone": "DE"}
    assert "flag-outdated" in codes(**p100)
    row = hardware(A100, **p100, hours=100, framework="pytorch", precision="fp32")
    assert row is not None
    assert row.verdict == "sure"
    assert row.break_even_h.low > 100  # new embodied carbon is told
    assert row.buy.startswith("Do not buy one for this: a used NVIDIA A100")
    for name in ("recsys", "small"):
        assert "flag-outdated" not in codes(hardware=V100, kind="training", workload_class=name)
    joules = [
        joules_an_epoch(part)
        for part in (V100, "nvidia-p100-pcie-16", "nvidia-a40", "nvidia-quadro-rtx-6000")
    ]
    assert [round(figure, -1) for figure in joules] == [730, 1340, 1700, 2840]
    row = hardware("nvidia-a40", hardware=V100, kind="training", workload_class="recsys")
    assert row is not None
    assert row.verdict != "sure"


def joules_an_epoch(part: str) -> float:
    work = "movielens-1m/ncf"
    return rate(work, part, "power_w", batch="1024") / rate(work, part, batch="1024")


@rule(59)
def _() -> None:
    policy(59, **TRAINED, provider="aws")


@rule(60)
def _() -> None:
    asked = {**TRAINED, "framework": "pytorch"}
    for part, told in ((MI300X, "ROCm"), ("google-tpu-v5p", "porting effort")):
        assert told in str(hardware(part, **asked))
    assert "Neuron SDK" in str(hardware("aws-trainium1", **asked))
    assert not fits("apple-m4-max", **{**asked, "framework": "cuda"})


@rule(61)
def _() -> None:
    assert not any(code.startswith("flag") for code in codes(**TRAINED))


@rule(62)
def _() -> None:
    for name, most in (("tf32", 2.1), ("fp32", 4.8)):
        found = effect(f"mixed-precision:training:{name}", "time")
        assert found is not None
        assert 1.0 < 1 / found.high < 1 / found.value < 1 / found.low < most
    row = action("mixed-precision", **TRAINED, precision="fp32", hours=10)
    assert row is not None
    assert row.advised
    assert action("mixed-precision", **TRAINED, precision="bf16") is None


@rule(63)
def _() -> None:
    row = action("release-idle", **{**SMALL_JOB, "kind": "inference"})
    assert action("release-idle", **{**SMALL_JOB, "kind": "training"}) is None  # between its steps
    assert row is not None
    assert row.odds == 0.6  # until it is said whether the endpoint must answer
    assert row.reasons[0] == "only if it may sleep in between"
    ended = action("release-idle", **{**SMALL_JOB, "kind": "evaluation"})
    assert ended is not None
    assert ended.advised
    idle = CATALOG.hardware(H100).idle
    assert row.saved_g.value > 0.8 * 48 * idle.value / 1000 * 300  # at 342 g/kWh, with M
    assert "flag-idle" in codes(**SMALL_JOB)


@rule(64)
def _() -> None:
    row = action("checkpoint", **TRAINED, hours=30)
    assert row is not None
    assert (row.odds, row.saved_g) == (None, None)
    assert action("checkpoint", **TRAINED, hours=20) is None


@rule(65)
def _() -> None:
    every = str(ask(**TRAINED, provider="gcp", batch_size=8))
    assert "(rule" not in every
    assert RULES[65]["statement"] not in every


@rule(66)
def _() -> None:
    jax = {**TRAINED, "framework": "jax", "provider": "gcp"}
    assert fits("google-tpu-v5e", **jax)
    assert not fits("google-tpu-v5e", **{**jax, "provider": "azure"})


@rule(67)
def _() -> None:
    asked = {"hardware": "nvidia-p100-pcie-16", "kind": "training", "zone": "FR", "hours": 100}
    figures = [ask(**asked, lifetime_years=years).estimate.embodied_g for years in (2, 6)]
    assert figures[0].value == pytest.approx(3 * figures[1].value)


@rule(68)
def _() -> None:
    row = action("region", **{**TRAINED, "zone": None}, region="gcp:europe-west3", hours=10)
    assert row is not None
    assert row.verdict == "sure"


@rule(69)
def _() -> None:
    # By peak rates alone an RTX 4090 would take 6 times as long as an H100.
    part = "nvidia-rtx-4090"
    peaks = [CATALOG.hardware(one).fp16_tensor_tflops for one in (H100, part)]
    by_peak = peaks[0] / peaks[1]
    sustained = rate("bert_large_squad", H100, **LAMBDA) / rate("bert_large_squad", part, **LAMBDA)
    told = ratio(part, "time", **TRAINED, framework="pytorch", precision="fp16")
    assert 2 * abs(told - sustained) < abs(by_peak - sustained)


@rule(70)
def _() -> None:
    made = [accelerator_te(CATALOG.hardware(part)).te_g.value for part in (H100, B200)]
    assert made[1] > made[0]
    answer = ask(candidates=[B200], **TRAINED, hours=10)
    assert "making counts by hours of use" in str(answer.reasons)
    assert answer.answers[0].buy is None or "making" in answer.answers[0].buy


@rule(71)
def _() -> None:
    assert CATALOG.hardware(L4).fp32_tflops / watts(L4) == pytest.approx(0.42, abs=0.01)


@rule(72)
def _() -> None:
    score = {p: CATALOG.hardware(p).fp16_tensor_tflops / watts(p) for p in (L4, H100, L40S)}
    assert [round(figure, 2) for figure in score.values()] == [1.68, 1.41, 1.03]


@rule(73)
def _() -> None:
    answer = ask(hardware=H100, hours=1, region="gcp:europe-west1")
    assert 1.05 < answer.estimate.pue.value < 1.2
    undeclared = ask(hardware=H100, hours=1, zone="DE").estimate.pue
    assert (undeclared.low, undeclared.value, undeclared.high) == (1.1, 1.56, 2.19)


@rule(74)
def _() -> None:
    part = CATALOG.hardware(V100)
    assert (part.fp32_tflops, part.fp16_tensor_tflops) == (15.7, 125)


@rule(75)
def _() -> None:
    part = CATALOG.hardware("google-tpu-v5p")
    assert (part.bf16_tensor_tflops, part.int8_tops) == (459, 918)


@rule(76)
def _() -> None:
    sizes = [
        CATALOG.hardware(part).memory_gb
        for part in ("nvidia-h200-sxm", MI300X, "google-tpu-v5p", "google-tpu-v6e")
    ]
    assert sizes == [141, 192, 95, 32]


@rule(77)
def _() -> None:
    assert not any("TensorStream" in part.architecture for part in CATALOG.all_hardware())
    assert RULES[77]["verdict"] == "NOT SUPPORTED"


@rule(78)
def _() -> None:
    known = {one.id: (one.hardware, one.count) for one in CATALOG.all_instances()}
    assert known["aws:p4d.24xlarge"] == ("nvidia-a100-sxm4-40", 8)
    assert known["gcp:g2-standard-4"][0] == L4
    assert known["azure:Standard_NC4as_T4_v3"][0] == T4
    assert known["azure:Standard_NG8ads_V620_v1"][0] == "amd-v620"


@rule(79)
def _() -> None:
    for precision in ("fp16", "fp32"):
        row = action("quantise", **SERVED, model_parameters=8e9, batch_size=1, precision=precision)
        assert row is not None
        assert "check the accuracy" in row.reasons[0]


@pytest.mark.parametrize("number", sorted(CHECKS), ids=lambda number: f"rule-{number}")
def test_rule(number: int) -> None:
    CHECKS[number]()


def test_every_rule_has_its_check_and_is_in_the_book() -> None:
    assert sorted(CHECKS) == sorted(RULES) == [*range(1, 38), *range(40, 80)]
    assert len(CHECKS) == 77
