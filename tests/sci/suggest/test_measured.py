"""Published results of the same model beside the ranking of data sheets."""

import math

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.estimate.ranking import number, work_of
from gramwatt.sci.suggest.measured import published_time

CATALOG = load_catalog()
H100, H200, B200 = "nvidia-h100-sxm5-80", "nvidia-h200-sxm", "nvidia-b200"
FULL = work_of("llm-serving", "fp8")


def ask(now, target, name="llm-serving", work=FULL, parameters=70e9, **options):
    parts = CATALOG.hardware(now), CATALOG.hardware(target)
    return published_time(*parts, name, work, parameters, **options)


def test_the_ratio_is_the_mean_of_the_rounds_and_scenarios():
    # Llama 2 70B, MLPerf Inference v4.1 and v5.1, tokens/s a device on H200 and on B200.
    answer = ask(H200, B200)
    ratios = [4015.54 / 11264.4, 4414.59 / 12863.6, 4274.23 / 12701.4]
    assert answer.time.value == pytest.approx(sum(map(math.log, ratios)) / 3)
    assert answer.time.spread == number("measured")
    assert set(answer.sources) == {"mlperf-inference", "mlperf-inference-5.1"}
    assert ask(B200, H200).time.value == pytest.approx(-answer.time.value)


def test_a_source_can_be_kept_out():
    assert ask(H200, B200, without="mlperf-inference").sources == ("mlperf-inference-5.1",)


@pytest.mark.parametrize(
    "fields",
    [
        {"parameters": 30e9},
        {"parameters": None},
        {"target": "nvidia-v100-sxm2-16"},
        {"name": None},
        {"work": work_of("llm-serving", "bf16")},
        {
            "work": work_of("llm-serving", "fp8", "vllm", batch_size=8, power_share=0.4)._replace(
                tuned=False
            )
        },
    ],
)
def test_other_models_devices_and_software_have_no_published_ratio(fields):
    assert ask(**{"now": H100, "target": B200, **fields}) is None
