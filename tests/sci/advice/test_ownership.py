"""Savings by how hardware is had, and never more than what the job emitted."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.sci.advice.jobs import for_job, request_of
from gramwatt.sci.advice.work import te_g
from gramwatt.sci.embodied.te import accelerator_te
from tests.documents import steady_job
from tests.sci.advice.requests import A100, CATALOG, H100, L4, T4, V100, action, ask, judged

V100_CARD, H100_CARD = "nvidia-v100-pcie-32", "nvidia-h100-pcie-80"
OLD = {
    "hardware": V100_CARD,
    "kind": "training",
    "framework": "pytorch",
    "precision": "fp16",
    "mean_power_w": 230,
    "zone": "DE",
}
REFUSALS = ("never", "do not buy")


def command(**request):
    """The answer of the command in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-m", "gramwatt", "suggest", "--input", "-", "--json"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    return json.loads(run.stdout)


def test_pue_host_and_life_of_the_request_count(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    (tmp_path / "overlay.toml").write_text(
        f'[lifetimes."{H100}"]\nyears = 8\nlow = 8\nhigh = 8\nsource = "our asset register"\n'
    )
    asked = {"hardware": H100, "kind": "inference", "mean_power_w": 200, "hours": 100}
    asked |= {"utilisation": 0.2, "zone": "DE", "pue": 2.0, "host_power_w": 100, "candidates": []}
    answer = command(**asked)
    grid = CATALOG.zone("DE").intensity.value
    assert answer["estimate"]["pue"]["value"] == 2.0
    # 200 W and 0.45 of it for the host, over 100 h; made for 8 years of 8760 h.
    assert answer["estimate"]["operational_g"]["value"] == pytest.approx(29 * grid * 2)
    made = accelerator_te(CATALOG.hardware(H100)).te_g.value + 5_700_000 / 8
    total = 29 * grid * 2 + made * 100 / (8 * 8760)
    assert answer["estimate"]["total_g"]["value"] == pytest.approx(total, rel=2e-3)
    [found] = [one for one in answer["suggestions"] if one["action"] == "stop-idle"]
    saved = answer["estimate"]["total_g"]["value"] * (1 - found["carbon_ratio"]["value"])
    assert found["saved_g"]["value"] == pytest.approx(saved)


def test_a_measured_job_saves_shares_of_what_its_score_says():
    job = steady_job(kind="inference", tags={"batch_size": "8", "model_parameters": "8e9"})
    asked = request_of(job)
    # A processor of 200 W beside four devices, PUE 1.1 as declared, life as the score took it.
    assert asked.host_power_w == pytest.approx(200)
    assert asked.pue == 1.1
    assert asked.lifetime_years == 4
    for one in for_job(job, CATALOG).suggestions:
        if one.saved_g is not None and one.carbon_ratio is not None:
            expected = job.total_g.value * (1 - one.carbon_ratio.value)
            assert one.saved_g.value == pytest.approx(expected)
            assert one.saved_g.high <= job.total_g.high


def test_what_is_there_saves_by_its_energy_alone():
    said = judged(H100_CARD, **OLD, hours=50, ownership="owned")
    energy, ratio = said.energy_ratio, said.carbon_ratio
    score = ask(**OLD, hours=50, candidates=[]).estimate
    o, m = (getattr(score, name).value for name in ("operational_g", "embodied_g"))
    assert ratio.value == pytest.approx((o * energy.value + m) / (o + m))
    assert (energy.high < 1, said.verdict) == (True, "lower")


def test_what_may_not_be_there_saves_only_with_its_making():
    """A desk's card for two hours would be bought; a board of a data centre may be rented."""
    old = {**OLD, "hardware": "nvidia-p100-pcie-16", "mean_power_w": 225, "hours": 2}
    card = judged("nvidia-rtx-3090", **old)
    assert card.by_ownership["owned"] == "lower"
    assert (card.verdict, card.carbon_ratio.value > 1) == ("higher", True)
    assert any("say ownership owned" in reason for reason in card.reasons)
    board = judged(H100_CARD, **OLD, hours=50)
    made_h = te_g(CATALOG.hardware(H100_CARD)).value / 35_040
    score = ask(**OLD, hours=50, candidates=[]).estimate
    o, m = (getattr(score, name).value / 50 for name in ("operational_g", "embodied_g"))
    time, energy = board.time_ratio.value, board.energy_ratio.value
    expected = (o * energy + m + made_h * time) / (o + m)  # what was made stays made
    assert board.carbon_ratio.value == pytest.approx(expected, rel=1e-3)
    assert board.verdict == board.by_ownership["rented"]


def test_a_desk_and_a_data_centre_have_different_pue():
    home = {"hardware": "nvidia-rtx-4090", "kind": "training", "framework": "pytorch"}
    home |= {"precision": "fp16", "mean_power_w": 400, "hours": 5, "zone": "DE"}
    one = judged(H100, **home, ownership="owned")
    same = judged(H100, **home, ownership="owned", pue=1.2)
    score = ask(**home, candidates=[]).estimate
    o, m = (getattr(score, name).value for name in ("operational_g", "embodied_g"))
    expected = (o * one.energy_ratio.value * 1.56 + m) / (o + m)
    assert one.carbon_ratio.value == pytest.approx(expected, rel=1e-3)
    assert any("stands in a data centre: PUE 1.56" in reason for reason in one.reasons)
    assert (one.verdict, same.verdict) == ("no-reliable-difference", "lower")


def test_a_rented_part_pays_for_its_unused_neighbours():
    rented = {**OLD, "ownership": "rented", "hours": 50, "zone": None, "region": "aws:eu-central-1"}
    # AWS rents H100 modules one (p5.4xlarge) or eight at a time, A100 of 80 GB by eight only.
    made_h = (accelerator_te(CATALOG.hardware(A100)).te_g.value + 5_700_000 / 8) / 35_040
    said = judged(A100, **rented)
    score = ask(**rented, candidates=[]).estimate
    o, m = (getattr(score, name).value / 50 for name in ("operational_g", "embodied_g"))
    grid = score.intensity_g_per_kwh.value * score.pue.value
    idle_g_h = 7 * CATALOG.hardware(A100).idle.value * grid / 1000
    time, energy = said.time_ratio.value, said.energy_ratio.value
    expected = (o * energy + (8 * made_h + idle_g_h) * time) / (o + m)
    assert said.carbon_ratio.value == pytest.approx(expected, rel=1e-3)


def test_a_purchase_counts_over_the_planned_hours():
    bought = {**OLD, "ownership": "to-buy"}
    short, long = (judged(H100_CARD, **bought, hours=hours) for hours in (50, 30_000))
    made = accelerator_te(CATALOG.hardware(H100_CARD)).te_g.value
    assert short.verdict == "higher"
    assert short.saved_g.value < 0
    assert long.verdict == "lower"
    score = ask(**bought, hours=30_000, candidates=[]).estimate
    saved = score.operational_g.value * (1 - long.energy_ratio.value) - made
    assert long.saved_g.value == pytest.approx(saved, rel=1e-6)
    assert long.break_even_hours.high <= 30_000


def test_a_list_of_things_to_buy_never_heads_a_short_job():
    for one in ask(**OLD, hours=5).suggestions:
        if one.action == "change-hardware" and one.verdict == "lower":
            assert one.by_ownership["rented"] == "lower"
            assert any(reason.startswith("counted as rented") for reason in one.reasons)
    bought = ask(**OLD, hours=5, ownership="to-buy").suggestions
    assert not [one for one in bought if (one.action, one.verdict) == ("change-hardware", "lower")]
    assert "keep" in [one.action for one in bought]


PARTS = st.sampled_from((V100, V100_CARD, A100, H100, H100_CARD, L4, T4, "nvidia-l40s"))
HOURS = st.floats(0.1, 1e5)
ASKED = st.fixed_dictionaries(
    {
        "hardware": PARTS,
        "kind": st.sampled_from(("training", "inference")),
        "hours": HOURS,
        "zone": st.sampled_from(("SE", "DE", "PL")),
    },
    optional={
        "mean_power_w": st.floats(10, 700),
        "utilisation": st.floats(0.01, 1),
        "precision": st.sampled_from(("fp16", "fp32")),
        "ownership": st.sampled_from(("owned", "rented", "to-buy")),
        "pace": st.sampled_from(("throughput", "requests", "input", "host")),
        "pue": st.floats(1, 2),
        "host_power_w": st.floats(1, 2000),
        "count": st.sampled_from((1, 4, 8)),
        "batch_size": st.sampled_from((1, 8, 64)),
        "lifetime_years": st.floats(1, 10),
    },
)


@settings(max_examples=100, deadline=None)
@given(ASKED)
def test_no_claim_beside_its_refusal_and_no_saving_above_what_is_emitted(request):
    answer = ask(**request)
    emitted = answer.estimate.total_g
    for one in answer.suggestions:
        text = " ".join(one.reasons).lower()
        if one.verdict == "lower":
            assert one.likely
            assert not any(word in text for word in REFUSALS)
        if one.saved_g is not None and emitted is not None:
            assert one.saved_g.high <= emitted.high * (1 + 1e-9)
        chosen = [request["ownership"]] if "ownership" in request else one.by_ownership
        assert one.verdict in [one.by_ownership[name] for name in chosen]
        energy, owned = one.energy_ratio, one.by_ownership["owned"]
        if one.action == "change-hardware" and energy is not None and owned == "lower":
            assert energy.high < 1


@settings(max_examples=60, deadline=None)
@given(ASKED, PARTS, HOURS)
def test_buying_gets_no_worse_with_more_hours(request, target, more):
    bought = {**request, "ownership": "to-buy"}
    short = judged(target, **bought)
    long = judged(target, **{**bought, "hours": request["hours"] + more})
    if short.verdict == "lower":
        assert long.verdict == "lower"


@settings(max_examples=60, deadline=None)
@given(PARTS, PARTS, st.sampled_from((None, "fp16", "fp32", "bf16", "int8")))
def test_there_and_back_is_one(one, other, precision):
    asked = {"workload_class": "batch-inference", "framework": "tensorrt", "zone": "DE"}
    asked |= {"precision": precision} if precision else {}
    there, back = judged(other, hardware=one, **asked), judged(one, hardware=other, **asked)
    for name in ("time_ratio", "energy_ratio"):
        if getattr(there, name) and getattr(back, name):
            assert getattr(there, name).value * getattr(back, name).value == pytest.approx(1)


def test_likely_is_a_probability_of_four_in_five():
    # Log-normal: 80 % of the range is +-1.2816 deviations, P(ratio < 1) = 0.8 at 0.8416.
    found = ask(**OLD, hours=50).suggestions
    for one in found:
        ratio = one.carbon_ratio
        if ratio is None or ratio.value >= 1:
            assert not one.likely
        elif ratio.high >= 1:
            import math

            wide = math.log(ratio.high / ratio.value)
            assert one.likely == (-math.log(ratio.value) >= 0.8416 / 1.2816 * wide)
    assert action("power-cap", **OLD, hours=50).by_ownership.keys() == {
        "owned",
        "rented",
        "to-buy",
    }
