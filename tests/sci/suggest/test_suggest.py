"""The list of suggestions: odds, order, what is left out, and the sentence that answers first."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from gramwatt.sci.estimate.ranking import Log
from gramwatt.sci.suggest.change import Change
from gramwatt.sci.suggest.documents import HARDWARE, AnswerDoc, verdict_of
from gramwatt.sci.suggest.embodied import carbon_ratio, with_hosts
from gramwatt.sci.suggest.hardware import _same_silicon
from gramwatt.sci.suggest.request import parse_suggest_request
from gramwatt.sci.suggest.suggest import suggest
from gramwatt.sci.suggest.work import Device, resolve, saved_g
from tests.sci.suggest.requests import (
    A100,
    B200,
    CATALOG,
    H100,
    L4,
    L40S,
    T4,
    V100,
    action,
    ask,
    hardware,
    ratio,
    word,
)

OLD = {"hardware": V100, "kind": "training", "hours": 100, "zone": "DE"}
IDLE = {
    "hardware": A100,
    "kind": "inference",
    "utilisation": 0.12,
    "mean_power_w": 75,
    "peak_memory_gb": 10,
    "hours": 700,
    "zone": "DE",
}


@pytest.mark.parametrize(
    ("odds", "word"),
    [
        (0.95, "sure"),
        (0.9, "sure"),
        (0.7, "likely"),
        (0.65, "more likely than not"),
        (0.5, "too close to call"),
        (0.39, "probably more"),
    ],
)
def test_a_probability_has_a_word(odds: float, word: str) -> None:
    assert verdict_of(odds) == word


@pytest.mark.parametrize(
    ("basis", "most"),
    [("data-sheets", 0.95), ("measured", 0.99), ("rule-of-thumb", 0.89)],
)
def test_no_more_is_stated_than_the_basis_allows(basis: Any, most: float) -> None:
    for value, odds in ((-9.0, most), (9.0, 1 - most)):
        row = Change(
            action="power-cap", id="x", label="x", count=1, carbon=Log(value, 0.1), basis=basis
        )
        assert row.probability == pytest.approx(odds)


def test_rows_stand_by_expected_carbon_one_a_family_and_none_that_is_probably_worse() -> None:
    answer = ask(**OLD)
    rows = [row for row in answer.answers if row.carbon_ratio]
    assert [row.carbon_ratio.value for row in rows] == sorted(r.carbon_ratio.value for r in rows)
    parts = [CATALOG.hardware(row.target) for row in rows if row.target]
    assert sum("H100" in part.name for part in parts) == 1
    assert all(part.market in ("current", "out-of-production") for part in parts)
    assert all(part.availability == "sold" for part in parts)
    assert min(row.odds for row in rows) >= 0.4
    assert all(row.advised == (row.odds >= 0.7) for row in rows)


def test_the_first_sentence_is_the_answer() -> None:
    assert ask(**OLD).summary.startswith(
        "What would help most: change to 1 x NVIDIA H100 NVL 94GB: 7"
    )
    close = ask(hardware=A100, kind="training", precision="bf16", hours=100, candidates=[L40S])
    assert close.summary.startswith(
        "Keep 1 x NVIDIA A100 SXM4 80GB: no other hardware is likely to emit"
    )
    served = ask(model_parameters=8e9, kind="inference", batch_size=32, zone="DE")
    assert served.summary.startswith("Least carbon if kept full: 1 x NVIDIA ")
    tight = ask(hardware=T4, model_parameters=13e9, kind="inference", precision="fp16")
    assert "It does not fit: it needs 26.9 GiB, more than 1 x NVIDIA Tesla T4" in tight.summary
    assert "Cheapest change: 8-bit weights on what you have (13.5 GiB)." in tight.summary


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": "inference", "workload_class": "interactive"}, "within a time limit"),
        ({"precision": "fp64"}, "FP64 work"),
        ({"kind": "other"}, "work that could be anything"),
        ({"mean_power_w": 900}, "900 W is above the rated power"),
        ({"mean_power_w": 10}, "10 W is below the idle power"),
    ],
)
def test_what_nothing_tells_is_refused_with_what_to_do(change: dict[str, Any], text: str) -> None:
    answer = ask(**{"hardware": H100, "kind": "training", "hours": 10, "zone": "DE", **change})
    assert answer.refused is not None
    assert text in answer.refused
    assert answer.summary.startswith(answer.refused)
    assert not any(row.action in HARDWARE for row in answer.answers)


@pytest.mark.parametrize(
    ("change", "why", "surer"),
    [
        ({"candidates": ["google-tpu-v4"], "hours": 10}, "no published power of Google", False),
        ({"candidates": [A100], "ownership": "to-buy"}, "how long the work takes", True),
    ],
)
def test_hardware_without_odds_says_why(change: dict[str, Any], why: str, surer: bool) -> None:
    answer = ask(hardware=V100, kind="training", zone="DE", **change)
    row = answer.answers[0]
    assert (row.odds, row.carbon_ratio) == (None, None)
    assert row.unknown is not None
    assert row.unknown.startswith(why)
    assert f"emits less is not known: {row.unknown}." in answer.summary
    assert row.unknown in row.reasons
    assert (answer.surer[0] == "hours") == surer


def test_a_refused_question_still_has_places() -> None:
    answer = ask(hardware=H100, kind="training", precision="fp64", hours=10, region="gcp:us-east4")
    assert answer.refused
    assert "region" in {row.action for row in answer.answers}


def test_without_a_present_device_rows_are_over_the_first_with_absolute_figures() -> None:
    answer = ask(model_parameters=1e9, kind="training", tokens=20e9, zone="DE")
    assert answer.compared_with is None
    first, second = answer.answers[:2]
    assert first.carbon_ratio.value == 1
    assert first.odds == pytest.approx(1 - second.odds, abs=1e-3)
    figures = [row.carbon_g.value for row in answer.answers]
    assert figures == sorted(figures)
    assert second.carbon_ratio.value == pytest.approx(figures[1] / figures[0])
    assert first.time_h.value > 0
    assert first.energy_kwh.value > 0


def test_each_device_comes_in_the_fewest_that_hold_the_model() -> None:
    answer = ask(model_parameters=70e9, kind="inference", precision="bf16", zone="DE")
    counts = {row.target: row.count for row in answer.answers}
    assert counts[B200] == 1  # 144 GiB
    assert all(count in (1, 2, 4) or count % 8 == 0 for count in counts.values())


@pytest.mark.parametrize(
    ("target", "change", "reason"),
    [
        (L4, {"peak_memory_gb": 30}, "does not fit"),
        ("google-tpu-v5e", {"framework": "cuda"}, "other software"),
        (V100, {"precision": "bf16"}, "no BF16"),
        (T4, {"precision": "fp8"}, "no FP8"),
        ("nvidia-b300", {"provider": "azure"}, "not offered there"),
        ("google-tpu-v5e", {"constraint": "offline"}, "cloud only"),
        ("nvidia-a40", {"constraint": "edge"}, "not for the edge"),
        ("aws-inferentia2", {}, "other use"),
        (H100, {}, "as now"),
    ],
)
def test_what_cannot_do_the_work_is_left_out_in_a_word(
    target: str, change: dict[str, Any], reason: str
) -> None:
    present = A100 if target == V100 else H100
    assert word(target, hardware=present, kind="training", **change) == reason


def test_weights_of_four_bits_are_held_where_no_units_compute_them() -> None:
    row = hardware(A100, hardware=H100, kind="inference", model_parameters=8e9, precision="fp4")
    assert row is not None
    assert "it holds 4-bit weights and computes in wider units" in row.reasons


def test_fewer_devices_of_a_larger_one_stand_in_the_same_list() -> None:
    answer = ask(**{**OLD, "count": 8, "peak_memory_gb": 14, "precision": "fp16"})
    first = answer.answers[0]
    assert (first.action, first.count) == ("fewer-devices", 2)
    assert first.id.endswith("x2")
    several = ask(**{**OLD, "count": 8, "peak_memory_gb": 14}, candidates=[H100])
    assert [row.count for row in several.answers if row.target] == [2, 8]


def test_devices_that_wait_are_compared_at_the_same_rate() -> None:
    assert ratio(L4, "time", **IDLE) == 1.0
    assert ratio(L4, "energy", **IDLE) < 1 < ratio(B200, "energy", **IDLE)
    assert hardware(B200, **IDLE).verdict == "probably more"
    shown = {row.action for row in ask(**IDLE).answers}
    assert {"slice", "share", "release-idle"} <= shown
    busy = {**IDLE, "utilisation": 0.98, "mean_power_w": 380}
    assert not {"slice", "share", "release-idle"} & {row.action for row in ask(**busy).answers}
    paced = hardware(B200, **{**OLD, "pace": "input"})
    assert "because pace input declared" in paced.reasons[0]


def test_making_alone_advises_nothing() -> None:
    """At the same rate an A16 draws no less than a card of a desk; only its making is less."""
    small = {"kind": "inference", "mean_power_w": 25, "peak_memory_gb": 5, "hours": 720}
    row = hardware("nvidia-a16", hardware="nvidia-rtx-3070", zone="DE", **small)
    assert row.energy_ratio.value > 1 > row.carbon_ratio.value
    assert (row.odds, row.advised) == (0.65, False)
    rows = ask(hardware="nvidia-rtx-3070", zone="DE", **small).answers
    assert not any("Laptop" in row.label for row in rows)


def test_a_job_at_little_power_does_not_follow_data_sheets() -> None:
    """110 W of 400 W and busy 95 %: small steps, which a faster device hardly shortens."""
    small = {**OLD, "hardware": A100, "mean_power_w": 110, "utilisation": 0.95}
    for part in (H100, "nvidia-h200-sxm", B200):
        assert hardware(part, **small).odds < 0.7


def test_slower_links_between_devices_count() -> None:
    model = {"model_parameters": 7e9, "method": "full", "kind": "training", "precision": "bf16"}
    row = hardware("nvidia-rtx-4090", hardware=A100, count=8, hours=300, zone="DE", **model)
    assert row.verdict == "probably more"
    assert any("NVLink" in reason for reason in row.reasons)


def test_carbon_follows_how_the_hardware_is_had() -> None:
    """A V100 at 250 W with a host of 50 W at PUE 1; another one in half the time."""
    body = {**OLD, "mean_power_w": 250, "host_power_w": 50, "pue": 1.0, "hours": 1000}
    time, energy = Log(math.log(0.5), 0.0), Log(math.log(0.6), 0.0)

    def ratio_as(ownership: str) -> float:
        work = resolve(parse_suggest_request({**body, "ownership": ownership}), CATALOG)
        o, m = work.operational_g_h.value, work.embodied_g_h.value
        assert o == pytest.approx(0.3 * work.intensity.value)
        carbon = carbon_ratio(work, time, energy, target=work.now)
        bought = work.te_g(work.now).value / 1000
        by_hand = {
            "rented": (0.6 * o + 0.5 * m) / (o + m),
            "owned": (0.6 * o + m) / (o + m),
            "to-buy": (0.6 * o + m + bought) / (o + m),
        }
        assert math.exp(carbon.value) == pytest.approx(by_hand[ownership])
        return float(carbon.value)

    assert ratio_as("rented") < ratio_as("owned") < ratio_as("to-buy")


def test_hosts_keep_their_power() -> None:
    work = resolve(parse_suggest_request({**OLD, "mean_power_w": 250, "host_power_w": 50}), CATALOG)
    half = Log(math.log(0.5), 0.1)
    # (250 x 0.5 + 50 x 0.8) / 300
    both = with_hosts(work, Log(math.log(0.8), 0.0), half)
    assert math.exp(both.value) == pytest.approx(165 / 300)
    assert both.spread == pytest.approx(0.1 * 125 / 165)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "Do not buy one for this: a new NVIDIA H100 PCIe 80GB repays its making after "),
        ({"hours": 20_000}, "A new NVIDIA H100 PCIe 80GB repays its making after "),
        ({"ownership": "owned"}, None),
        ({"region": "aws:us-east-1", "zone": None}, None),
    ],
)
def test_buying_is_one_line(change: dict[str, Any], sentence: str | None) -> None:
    row = hardware("nvidia-h100-pcie-80", **{**OLD, "precision": "fp16", **change})
    if sentence is None:
        assert row is None or row.buy is None
    else:
        assert row.buy.startswith(sentence)
        assert row.break_even_h.low < row.break_even_h.value < row.break_even_h.high


def test_savings_never_exceed_what_was_emitted() -> None:
    total = ask(**OLD).estimate.total_g
    for row in ask(**OLD).answers:
        if row.saved_g:
            assert row.saved_g.high <= total.high
            assert row.carbon_g.value + row.saved_g.value == pytest.approx(total.value)
    ends = saved_g(total, ask(**OLD).answers[0].carbon_ratio)
    assert ends.low <= ends.value <= ends.high


def test_regions_that_offer_the_instance_are_rows_by_their_annual_intensity() -> None:
    here = {"kind": "training", "hours": 10.0, "region": "aws:us-east-1"}
    for instance, verdict, reason in (
        ("aws:p4d.24xlarge", "sure", "aws:p4d.24xlarge is offered there"),
        ("aws:g2.2xlarge", "likely", "does not know where aws:g2.2xlarge is offered"),
    ):
        rows = [row for row in ask(**here, instance=instance).answers if row.action == "region"]
        assert len(rows) == 3
        grids = [CATALOG.zone(CATALOG.region(row.target).zone).intensity.value for row in rows]
        assert grids == sorted(grids)
        assert all(row.verdict == verdict and reason in row.reasons[1] for row in rows)
        offers = CATALOG.instance(instance).regions
        assert all(not offers or row.target.removeprefix("aws:") in offers for row in rows)
    answer = ask(**{**OLD, "zone": None}, region="aws:us-east-1")
    instance = next(row for row in answer.answers if row.action == "instance")
    assert instance.label.startswith("p")
    assert action("region", **OLD) is None


def test_a_better_hour_is_a_row_where_the_usual_day_is_known() -> None:
    """In November a day of California is cleanest at 10 in the morning there, 18:00 UTC."""
    body = {"hardware": H100, "kind": "training", "hours": 4}
    now = datetime(2026, 11, 28, 0, 33, tzinfo=UTC)

    def later(**change: Any) -> list[AnswerDoc]:
        request = parse_suggest_request({**body, "zone": "US-CAL-CISO", **change})
        rows = suggest(request, CATALOG, now=now).answers
        return [row for row in rows if row.action == "time"]

    (row,) = later()
    assert row.label == "start at 18:00 UTC"
    assert 0.5 < row.carbon_ratio.low < row.carbon_ratio.value < 0.75
    assert row.advised
    assert later(zone="IS") == later(hours=100) == later(kind="inference", pace="requests") == []


def test_settings_have_measured_effects() -> None:
    trained = {"hardware": H100, "kind": "training", "mean_power_w": 620, "hours": 50, "zone": "DE"}
    cap = action("power-cap", **trained)
    assert (cap.label, cap.verdict, cap.basis) == ("cap power at 490 W", "sure", "measured")
    assert 0.8 < cap.energy_ratio.value < 0.9
    assert cap.time_ratio.value > 1
    assert action("power-cap", **{**trained, "mean_power_w": 300}).odds is None
    nodes = action("fewer-nodes", **trained, count=64, model_parameters=7e9)
    assert (nodes.count, nodes.verdict) == (8, "sure")
    none = ask(hardware=A100, framework="scikit-learn", kind="training", hours=10, zone="DE")
    assert [row.action for row in none.answers] == ["leave-device"]
    fed = action("input-pipeline", **{**OLD, "mean_power_w": 60, "utilisation": 0.3})
    assert fed.verdict == "likely"


def test_a_slice_is_a_part_of_its_board() -> None:
    asked = {**IDLE, "hardware": "A100-SXM4-80GB MIG 3g.40gb", "utilisation": 0.9}
    row = hardware(f"{A100} MIG 7g.80gb", **{**asked, "workload_class": "batch-inference"})
    assert row.time_ratio.value < 1 < row.energy_ratio.value * 7 / 3
    assert word(f"{A100} MIG 1g.10gb", hardware=A100, kind="inference", peak_memory_gb=20)


def test_a_slice_leads_only_where_others_are_known_to_use_the_rest() -> None:
    answer = ask(**IDLE)
    row = next(row for row in answer.answers if row.action == "slice")
    assert (row.odds, row.advised, "rest shared" in row.label) == (0.65, False, True)
    assert "only if other jobs use the rest" in " ".join(row.reasons)
    assert answer.answers[0].action != "slice"
    assert "MIG" not in answer.summary


def test_what_saves_by_an_estimated_host_is_never_sure() -> None:
    request = {"kind": "inference", "framework": "tensorrt", "workload_class": "batch-inference"}
    request |= {"hardware": L4, "hours": 300, "mean_power_w": 70, "precision": "fp8", "zone": "DE"}
    request |= {"peak_memory_gb": 15, "candidates": [H100]}
    answer = ask(**request)
    assert (answer.answers[0].verdict, answer.surer[0]) == ("likely", "host_power_w")
    assert answer.summary.endswith("It saves by its host, whose power is an estimate.")
    metered = ask(**request, host_power_w=5)
    assert "host" not in metered.summary
    assert metered.answers[0].odds < 0.7


def test_few_requests_at_a_time_are_not_sure_to_become_many() -> None:
    request = {"kind": "inference", "hardware": "nvidia-t4", "model_parameters": 7e9, "zone": "DE"}
    request |= {"precision": "int8", "workload_class": "decode", "hours": 300}
    rows = [action("batching", **request, batch_size=n) for n in (1, 4)]
    assert {(row.label, row.verdict) for row in rows} == {("batch 32 requests", "likely")}


def test_a_name_of_several_forms_takes_the_commonest_and_says_so() -> None:
    answer = ask(hardware="H100", kind="training", hours=10, zone="DE")
    assert "hardware-ambiguous" in {notice.code for notice in answer.notices}
    assert answer.compared_with == "1 x NVIDIA H100 SXM5 80GB"
    forms = ask(hardware=V100, kind="training", hours=10, candidates=["H100"]).answers
    assert len({row.target for row in forms if row.target}) == 3


@pytest.mark.parametrize(
    ("instance", "count", "taken", "compared"),
    [
        ("p5", None, "aws:p5.4xlarge", "1 x NVIDIA H100 SXM5 80GB"),
        ("p5", 8, "aws:p5.48xlarge", "8 x NVIDIA H100 SXM5 80GB"),
        ("aws:g6", None, "aws:g6.xlarge", "1 x NVIDIA L4"),
        ("P4", None, "aws:p4d.24xlarge", "8 x NVIDIA A100 SXM4 40GB"),
    ],
)
def test_a_family_of_instances_takes_one_and_says_so(instance, count, taken, compared) -> None:
    answer = ask(instance=instance, count=count, kind="training")
    [text] = [item.message for item in answer.notices if item.code == "hardware-ambiguous"]
    assert text.startswith(f"{instance!r} is taken as {taken}; it may also be aws:")
    assert ("more" in text, answer.compared_with) == ("g6" in instance, compared)


def test_what_would_make_it_surer_are_fields_of_the_request() -> None:
    assert ask(**OLD).surer[:2] == ["precision", "mean_power_w"]
    fields = parse_suggest_request(OLD).__struct_fields__
    assert set(ask(**OLD).surer) <= set(fields)


def test_an_answer_is_json_and_needs_no_arithmetic_package() -> None:
    import subprocess
    import sys

    code = (
        "import sys, json, msgspec\n"
        "from gramwatt.sci.catalog.catalog import load_catalog\n"
        "from gramwatt.sci.suggest.request import parse_suggest_request\n"
        "from gramwatt.sci.suggest.suggest import suggest\n"
        f"answer = suggest(parse_suggest_request({OLD!r}), load_catalog())\n"
        "print(msgspec.json.encode(answer).decode())\n"
        "assert not {'numpy', 'scipy', 'sqlalchemy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["answers"]) > 10


def test_one_die_under_a_lower_limit_takes_longer() -> None:
    """An H100 NVL at 400 W and an H100 SXM at 700 W: about the same rates on paper."""
    asked = {"hardware": H100, "kind": "training", "precision": "bf16", "mean_power_w": 620}
    row = hardware("nvidia-h100-nvl-94", hours=10, zone="DE", **asked)
    assert row.time_ratio.value > 1.1
    assert row.advised
    slow = ask(hours=10, zone="DE", **asked).answers
    assert all(row.time_ratio.value < 5 for row in slow if row.target)


@pytest.mark.parametrize(
    "request_",
    [
        {"hardware": "cerebras-wse3", "framework": "scikit-learn", "kind": "training"},
        {"kind": "training", "candidates": ["nvidia-rtx-5070-ti-laptop", "amd-rx-7600"]},
        {"kind": "inference", "candidates": ["google-tpu-v5e", "aws-inferentia2"]},
    ],
)
def test_what_a_data_sheet_lacks_is_no_failure(request_: dict[str, Any]) -> None:
    answer = ask(**request_)
    assert answer.summary.endswith(".")
    assert all(row.odds is None or 0 <= row.odds <= 1 for row in answer.answers)


def test_what_the_present_device_cannot_run_is_said_first_with_the_remedy() -> None:
    served = {"hardware": T4, "framework": "vllm", "kind": "inference", "model_parameters": 3e9}
    summary = ask(**served, precision="bf16").summary
    assert summary.startswith("It does not run: vllm refuses BF16 on 1 x NVIDIA Tesla T4.")
    assert "Cheapest change: FP16 runs there." in summary
    assert not ask(**served, precision="fp16").summary.startswith("It does not run")


def test_without_a_kind_there_is_a_guess_that_advises_nothing() -> None:
    rows = ask(hardware=V100, hours=100.0, zone="DE")
    assert rows.summary.startswith("If it keeps ")
    assert rows.summary.endswith("To be surer, say kind: training, fine-tuning or inference.")
    assert rows.answers[0].carbon_ratio.value < 0.5
    assert not any(row.advised for row in rows.answers if row.action in HARDWARE)


def test_work_that_stays_in_a_house_gets_cards_for_a_desk() -> None:
    tuned = {"kind": "fine-tuning", "method": "qlora", "model_parameters": 13e9}
    rows = ask(**tuned, constraint="offline", zone="DE").answers
    assert {CATALOG.hardware(row.target).host_class for row in rows} == {"workstation"}
    assert "nvidia-h100-nvl-94" in {row.target for row in ask(**tuned, zone="DE").answers}


def test_a_device_without_matrix_units_says_less_of_one_with_them() -> None:
    """ShuffleNet and ResNet-50 took more energy on the newer device (Zeus trace)."""
    row = hardware("nvidia-quadro-rtx-6000", hardware="nvidia-p100-pcie-16", kind="training")
    assert row is not None
    assert row.odds < 0.75
    assert row.carbon_ratio.high > 1.27


@pytest.mark.parametrize(
    ("now", "other", "same"),
    [
        ("nvidia-rtx-5090", "nvidia-rtx-pro-6000-max-q", True),
        ("nvidia-l40", "nvidia-l40s", True),
        ("nvidia-rtx-3090", "nvidia-a30", False),  # one bandwidth, another chip
        (A100, A100, False),
    ],
)
def test_a_chip_under_another_name_is_known_by_its_rates(now: str, other: str, same: bool) -> None:
    parts = (CATALOG.hardware(name) for name in (now, other))
    assert _same_silicon(next(parts), Device.of(next(parts))) is same


def test_a_host_counts_once_for_a_board_of_two_devices() -> None:
    """Eight MI250 as the driver lists them are four boards: 184 W beside each."""
    work = resolve(parse_suggest_request({"hardware": "amd-mi250", "count": 8}), CATALOG)
    board = 195.0 * (2 * work.now.part.tdp_w / 700) ** 0.25
    assert work.host_w(work.now) == pytest.approx(board / 2)
    alone = resolve(parse_suggest_request({"hardware": "amd-mi250", "count": 1}), CATALOG)
    assert alone.host_w(alone.now) == pytest.approx(195.0 * (work.now.part.tdp_w / 700) ** 0.25)


def test_a_training_that_waits_partly_gets_shorter_by_its_busy_time_alone() -> None:
    """Of 60 % busy on one device 40 % stay; below nine tenths only, and never for inference."""
    run = {"hardware": A100, "precision": "bf16", "mean_power_w": 200, "zone": "DE", "hours": 10}
    full = ratio(H100, "time", kind="training", **run)
    partly = ratio(H100, "time", kind="training", utilisation=0.6, **run)
    assert partly == pytest.approx(0.4 + 0.6 * full)
    assert ratio(H100, "energy", kind="training", utilisation=0.6, **run) > ratio(
        H100, "energy", kind="training", **run
    )
    assert ratio(H100, "time", kind="training", utilisation=0.95, **run) == pytest.approx(full)


def test_the_arm_host_of_a_superchip_is_a_reason() -> None:
    names = ["nvidia-gh200-96", "nvidia-h200-sxm"]
    rows = ask(hardware=H100, kind="training", candidates=names).answers
    arm = {row.target for row in rows if any("Arm processor" in text for text in row.reasons)}
    assert arm == {"nvidia-gh200-96"}
