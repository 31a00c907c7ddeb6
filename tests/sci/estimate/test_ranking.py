"""The ranking of devices by data sheets: its formulas by hand, its probabilities."""

import math

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.estimate.ranking import (
    QUANTILE_90,
    REFERENCE,
    Log,
    RankingRow,
    Work,
    combine,
    compare,
    cumulative,
    number,
    work_of,
)
from gramwatt.sci.figures.csv_data import rows

CATALOG = load_catalog()
H100, A100, B200 = REFERENCE, "nvidia-a100-sxm4-80", "nvidia-b200"


def ask(now: str, target: str, work: Work):
    parts = (CATALOG.hardware(name) for name in (now, target, REFERENCE))
    now_part, target_part, reference = parts
    return compare(now_part, target_part, work, reference)


def test_the_distribution_is_students_t_of_four_degrees():
    # Quantiles of Abramowitz and Stegun, table 26.10, four degrees of freedom.
    for fraction, quantile in ((0.9, 1.533), (0.95, 2.132), (0.975, 2.776), (0.995, 4.604)):
        assert cumulative(quantile) == pytest.approx(fraction, abs=5e-5)
        assert cumulative(-quantile) == pytest.approx(1 - fraction, abs=5e-5)
    assert cumulative(QUANTILE_90) == pytest.approx(0.9, abs=1e-12)
    assert cumulative(0.0) == 0.5


def test_a_logarithm_gives_odds_and_a_range():
    halved = Log(-math.log(2), 0.3)
    ratio = halved.quantity("estimated", "a test")
    assert ratio.value == pytest.approx(0.5)
    assert ratio.high / ratio.value == pytest.approx(math.exp(0.3 * QUANTILE_90))
    assert halved.odds == pytest.approx(1 - (-halved).odds)
    assert halved.odds == pytest.approx(cumulative(math.log(2) / 0.3))
    assert (Log(0.0, 0.0).odds, Log(-1.0, 0.0).odds, Log(1.0, 0.0).odds) == (0.5, 1.0, 0.0)


def test_witnesses_count_by_the_inverse_of_their_variances():
    agreed, apart = (combine(Log(0.0, 0.1), Log(value, 0.2)) for value in (0.0, 1.0))
    assert agreed == pytest.approx((0.0, math.sqrt(0.008)))
    assert apart == pytest.approx((0.2, math.hypot(math.sqrt(0.008), 0.2)))
    assert combine(Log(0.3, 0.1)) == pytest.approx((0.3, 0.1))


def test_a_tuned_training_by_hand():
    answer = ask(A100, H100, work_of("training", "bf16", "nemo"))
    gain = 0.4 * math.log(989 / 312) + 0.3 * math.log(3350 / 2039) + 0.25 * math.log(700 / 400)
    assert answer.time.value == pytest.approx(-gain, abs=1e-3)
    assert answer.time.spread == pytest.approx(math.hypot(0.13, 0.2 * gain), abs=1e-3)
    assert answer.power.value == pytest.approx(math.log(700 / 400))
    assert answer.energy.value == pytest.approx(math.log(700 / 400) - gain, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "infers", "fraction"), [("training", False, 0.7), ("batch-inference", True, 0.35)]
)
def test_general_software_gains_less_beyond_the_reference(name, infers, fraction):
    general, tuned = (
        ask(H100, B200, work_of(name, "bf16", framework, infers=infers)).time.value
        for framework in ("pytorch", "nemo")
    )
    assert general == pytest.approx(fraction * tuned)
    assert ask(A100, H100, work_of("training", "bf16", "pytorch")) == ask(
        A100, H100, work_of("training", "bf16", "nemo")
    )


def test_other_vendors_fall_short_of_their_data_sheets_in_tuned_software():
    tuned, general = (
        ask(H100, "amd-mi300x", work_of("training", "bf16", framework)).time.value
        for framework in ("nemo", "pytorch")
    )
    gain = 0.4 * math.log(1307.4 / 989) + 0.3 * math.log(5300 / 3350) + 0.25 * math.log(750 / 700)
    assert tuned == pytest.approx(number("other-vendor") - gain, abs=1e-3)
    assert general == pytest.approx(-0.7 * gain, abs=1e-3)


@pytest.mark.parametrize(
    ("fields", "regime", "narrowest", "tuned"),
    [
        (("llm-serving",), "full", True, True),
        (("llm-serving", "fp8", "vllm"), "full", True, True),
        (("llm-serving", "bf16", "vllm"), "full", False, True),
        (("decode", "fp16"), "sequence", False, False),
        (("recsys", "fp8"), "recommender", False, True),
        (("small",), "overhead", False, False),
        ((None,), "busy", False, False),
    ],
)
def test_the_class_and_its_software_name_the_regime(fields, regime, narrowest, tuned):
    work = work_of(*fields)
    assert (work.regime, work.narrowest, work.tuned) == (regime, narrowest, tuned)


def test_serving_a_few_sequences_is_not_serving_full():
    assert work_of("llm-serving", "fp8", "vllm", batch_size=8).regime == "busy"
    assert work_of("llm-serving", "fp8", "vllm", power_share=0.5).regime == "busy"
    assert work_of("llm-serving", "fp8", "vllm", batch_size=1024).regime == "full"


def test_a_full_server_may_choose_the_narrowest_precision():
    time = ask(H100, B200, work_of("llm-serving", "fp8")).time.value
    gain = 0.8 * math.log(9000 / 1979) + 0.3 * math.log(8000 / 3350)
    assert time == pytest.approx(-gain)


def test_a_precision_that_is_not_stated_widens_the_range():
    known, unknown = (ask(A100, H100, work_of("training", name)) for name in ("bf16", None))
    assert unknown.time.spread > known.time.spread + 0.05
    mean = sum(math.log(a / b) for a, b in ((989, 312), (494.5, 156), (67, 19.5))) / 3
    gain = 0.4 * mean + 0.3 * math.log(3350 / 2039) + 0.25 * math.log(700 / 400)
    assert unknown.time.value == pytest.approx(-gain, abs=1e-3)


def test_work_that_runs_without_matrix_units_is_taken_to_run_in_single_precision():
    time = ask("nvidia-p100-pcie-16", "nvidia-quadro-rtx-6000", work_of("training")).time
    gain = 0.4 * math.log(16.3 / 9.3) + 0.3 * math.log(672 / 732) + 0.25 * math.log(260 / 250)
    assert time.value == pytest.approx(-gain)
    # Zeus: 0.58 to 0.99 of the time in vision and BERT, 0.2 to 0.33 in DeepSpeech 2.
    assert all(time.holds(math.log(ratio)) for ratio in (0.58, 0.99, 0.33))


@pytest.mark.parametrize(
    ("now", "target", "work", "measured"),
    [  # a prompt of 8 B in 4 bits in llama.cpp; YOLOv3 in TensorRT, 554 and 246 images/s
        ("nvidia-a100-pcie-80", "nvidia-rtx-4090", work_of("prefill", "int4"), 5800 / 6899),
        (
            "nvidia-rtx-2080-ti",
            "nvidia-t4",
            work_of("batch-inference", "fp16", "tensorrt"),
            554 / 246,
        ),
    ],
)
def test_geforce_cards_are_not_held_to_half_their_rate(now, target, work, measured):
    time = ask(now, target, work).time
    assert time.holds(math.log(measured))
    assert (time.value > 0) == (measured > 1)


def test_one_sequence_of_a_small_model_waits_for_launches():
    assert work_of("decode", "int4", model_parameters=1.2e9).regime == "overhead"
    assert work_of("decode", "int4", model_parameters=2e9).regime == "sequence"


def test_a_device_that_waits_is_served_by_a_smaller_one():
    waiting, full = (
        ask(B200, H100, work_of("llm-serving", "bf16", "vllm", infers=True, power_share=share))
        for share in (0.4, 0.95)
    )
    assert waiting.energy.odds > 0.8 > 0.5 > full.energy.odds
    assert waiting.energy.value == pytest.approx(waiting.time.value + waiting.power.value)


def test_the_present_power_tells_little_of_a_device_of_quite_another_size():
    with_power, plain = (
        ask("nvidia-l4", H100, work_of("batch-inference", "bf16", infers=True, power_share=share))
        for share in (0.9, None)
    )
    assert with_power.time.value == pytest.approx(plain.time.value, abs=0.05)
    assert with_power.energy.value == pytest.approx(plain.energy.value, abs=0.1)
    near, sheet = (
        ask(B200, H100, work_of("batch-inference", "bf16", infers=True, power_share=share)).energy
        for share in (0.4, None)
    )
    rule = math.log(700 / 1000) * (-0.65 - 1.5 * math.log(0.4))
    assert abs(near.value - rule) < 0.1 * abs(sheet.value - rule)
    assert near.spread >= 0.22


def test_power_of_one_sequence_follows_the_root_of_the_rating():
    decode = ask(A100, H100, work_of("decode", "fp16"))
    assert decode.power.value == pytest.approx(0.5 * math.log(700 / 400))


def test_what_a_data_sheet_lacks_is_not_known():
    assert ask(H100, "google-tpu-v5p", work_of("training", "bf16")).energy is None
    assert ask(H100, "google-coral-edge-tpu", work_of("training", "bf16")) is None


def test_every_number_says_what_it_was_fitted_to():
    assert all(row.basis and row.source for row in rows(RankingRow))
    assert {row.figure for row in rows(RankingRow) if row.regime == "recommender"} == {
        "peak",
        "bandwidth",
        "spread",
    }
    assert number("rated", "recommender") == number("rated") == 0 < number("rated", "busy")
