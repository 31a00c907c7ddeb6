"""The shipped time model, by property, and the measurements it rests on."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gramwatt.sci.advice.prediction import predict
from gramwatt.sci.advice.prediction.measurements import measurements, title
from gramwatt.sci.advice.prediction.time_model import (
    FITTED_CLASSES,
    Setting,
    Specs,
    shipped_model,
    specs_of,
)
from gramwatt.sci.advice.suggest_request import CLASSES
from tests.sci.advice.requests import CATALOG, H100, fits, judged

SPECS = {part.id: specs_of(part) for part in CATALOG.all_hardware()}
SETTINGS = st.builds(
    Setting,
    st.sampled_from(sorted(FITTED_CLASSES)),
    st.sampled_from((None, "pytorch", "tuned", "llama.cpp")),
    st.sampled_from((None, "fp16", "bf16", "tf32", "fp32", "int8", "q4")),
)
PARTS = st.sampled_from(sorted(SPECS)).map(SPECS.__getitem__)
MODEL = shipped_model()


@given(SETTINGS, PARTS, PARTS, PARTS)
def test_there_and_back_is_one_and_paths_agree(setting, a, b, c):
    there, back = MODEL.log_time_ratios(setting, a, b), MODEL.log_time_ratios(setting, b, a)
    assert there == pytest.approx([-log for log in back], abs=1e-12)
    assert set(MODEL.log_time_ratios(setting, a, a)) <= {0}
    onward = MODEL.log_time_ratios(setting, b, c)
    if len(there) == len(onward) == len(setting.rates):
        total = [sum(logs) for logs in zip(there, onward, strict=True)]
        assert total == pytest.approx(MODEL.log_time_ratios(setting, a, c), abs=1e-9)


@given(SETTINGS, st.floats(1, 2000), st.floats(50, 10_000), st.floats(1, 10), st.floats(1, 10))
def test_a_part_with_more_of_everything_is_never_predicted_slower(setting, tflops, gbs, x, y):
    lesser = Specs("new-a", tflops, 2 * tflops, tflops / 2, gbs, 300)
    greater = Specs("new-b", tflops * x, 2 * tflops * x, tflops * x / 2, gbs * y, 300)
    logs = MODEL.log_time_ratios(setting, lesser, greater)
    assert len(logs) == len(setting.rates)
    assert max(logs) <= 1e-12


# Milliseconds of a forward pass in FP32 without TF32 (NeuSight): BERT-large, 16 x 512 tokens.
FP32_MS = {
    "nvidia-v100-pcie-32": 518.3,
    "nvidia-a100-pcie-40": 396.5,
    "nvidia-h100-sxm5-80": 136.8,
    "nvidia-l4": 855.4,
    "nvidia-t4": 1485.2,
    "nvidia-p100-pcie-16": 904.7,
}


@pytest.mark.parametrize(("now", "target"), list(permutations(FP32_MS, 2)))
def test_fp32_holds_what_was_measured_without_tf32(now, target):
    asked = {"framework": "pytorch", "precision": "fp32", "workload_class": "batch-inference"}
    time = judged(target, hardware=now, hours=1, zone="DE", **asked).time_ratio
    assert time.low <= FP32_MS[target] / FP32_MS[now] <= time.high


@settings(max_examples=40)
@given(st.floats(1e8, 1e12), st.floats(1.01, 10), st.sampled_from(("inference", "training")))
def test_a_larger_model_never_fits_where_a_smaller_does_not(size, more, kind):
    if fits(H100, model_parameters=size * more, kind=kind):
        assert fits(H100, model_parameters=size, kind=kind)


def test_measurements_hold_what_their_columns_say():
    for row in measurements():
        assert row.workload_class in CLASSES
        assert row.hardware in SPECS
        assert title(row.source)
        assert row.units_per_s > 0
        assert row.use in ("time", "power", "none")
    ids = [row.id for row in measurements()]
    assert len(ids) == len(set(ids)) == 1056 + 265 + 98


def test_measurements_may_be_of_any_vendor_of_the_catalog(monkeypatch):
    """A measured part is told by the catalog, whose vendor then has a row of its own."""
    rows = measurements()
    first = next(one for one in rows if (one.use, one.workload_class) == ("time", "training"))
    own = [replace(first, hardware="apple-m1-max", family=name) for name in ("one", "two")]
    asked = {"hardware": H100, "kind": "training", "precision": "fp32", "framework": "pytorch"}
    assert judged("apple-m1-max", **asked).time_ratio is None
    setting = Setting("training", "pytorch", "fp32")
    logs = MODEL.log_time_ratios(setting, SPECS[H100], SPECS["apple-m1-max"])
    kept = (predict._families, predict._vendors)
    for one in kept:
        one.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(predict, "measurements", lambda: (*rows, *own))
        time = judged("apple-m1-max", **asked).time_ratio
        assert time.value == pytest.approx(math.exp(sum(logs) / len(logs)))
        assert time.low < time.value < time.high
    for one in kept:
        one.cache_clear()
