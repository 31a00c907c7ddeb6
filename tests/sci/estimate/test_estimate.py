"""Estimates, against arithmetic done by hand and against published training runs."""

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.embodied.te import accelerator_te
from gramwatt.sci.estimate.estimate import estimate
from gramwatt.sci.estimate.request import parse_estimate_request
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed, ScoreError

CATALOG = load_catalog()


def answer(**question):
    return estimate(parse_estimate_request(question), CATALOG)


def test_declared_power_by_hand():
    doc = answer(
        hardware="nvidia-a100-sxm4-80",
        count=512,
        hours=100,
        power_w=400,
        intensity_g_per_kwh=56,
        pue=1.2,
        zone="FR",
        host=False,
        units={"token": 1e9},
    )
    assert doc.device_hours.value == 51_200
    assert doc.energy_kwh.value == pytest.approx(51_200 * 0.4)
    assert doc.operational_g.value == pytest.approx(51_200 * 0.4 * 1.2 * 56)
    te = accelerator_te(CATALOG.hardware("nvidia-a100-sxm4-80")).te_g.value
    assert doc.embodied_g.value == pytest.approx(te * 51_200 / 35_040)
    total = doc.operational_g.value + doc.embodied_g.value
    assert doc.sci[0].g_per_unit.value == pytest.approx(total / 1e9)
    assert doc.conformance == "conforming-with-deviations"
    assert any("host" in text for text in doc.deviations)


def test_the_host_is_added_to_energy_and_embodied_unless_the_whole_was_given():
    question = {"hardware": "nvidia-h100-sxm5-80", "hours": 10, "zone": "DE", "pue": 1}
    alone, beside = answer(**question, host=False, power_w=500), answer(**question, power_w=500)
    assert alone.energy_kwh.value == pytest.approx(5)
    assert beside.energy_kwh.value == pytest.approx(5 * 1.45)
    extra = beside.embodied_g.value - alone.embodied_g.value
    assert extra == pytest.approx(5_700_000 / 8 * 10 / 35_040)
    assert answer(**question, energy_kwh=5).energy_kwh.value == 5


def test_llama_2_7b_with_its_own_inputs():
    # Model card: 184 320 A100-80GB hours at 400 W, 31.22 t; the factor 0.4235 is 1.1 x 0.385.
    doc = answer(
        hardware="A100 SXM4 80GB",
        device_hours=184_320,
        power_w=400,
        pue=1.1,
        intensity_g_per_kwh=385,
        host=False,
    )
    assert doc.operational_g.value / 1e6 == pytest.approx(31.22, abs=0.01)


def test_a_given_utilisation_of_the_peak_is_taken_as_declared():
    question = {"hardware": "nvidia-h100-sxm5-80", "model_parameters": 7e9, "tokens": 1e12}
    full = answer(**question, model_flop_utilisation=1.0)
    assert full.device_hours.low == full.device_hours.high
    half = answer(**question, model_flop_utilisation=0.5)
    assert half.device_hours.value == pytest.approx(2 * full.device_hours.value)


def test_power_without_a_word_is_a_share_of_the_rated_one():
    doc = answer(hardware="nvidia-h100-sxm5-80", hours=1, host=False, zone="DE")
    assert doc.energy_kwh.value == pytest.approx(0.7 * 0.7)
    assert doc.energy_kwh.low == pytest.approx(0.7 * 0.4)
    assert doc.energy_kwh.kind == "derived"


def test_the_usual_utilisation_stays_with_the_rate_that_it_was_measured_over():
    """DeepSeek-V3, trained in FP8: 2.788e6 hours of an H800 were published (arXiv:2412.19437)."""
    question = {
        "hardware": "nvidia-h800-sxm5-80",
        "model_parameters": 671e9,
        "activated_parameters": 37e9,
        "tokens": 14.8e12,
        "zone": "CN",
    }
    in_16_bits = answer(**question, precision="bf16").device_hours
    in_fp8 = answer(**question, precision="fp8").device_hours
    assert in_fp8.value == in_16_bits.value == pytest.approx(2.64e6, rel=0.01)
    assert in_fp8.low < 2.788e6 < in_fp8.high
    declared = answer(**question, precision="fp8", model_flop_utilisation=0.35)
    assert declared.device_hours.value == pytest.approx(in_fp8.value / 2, rel=0.01)
    slower = answer(**question, precision="tf32").device_hours.value
    assert slower == pytest.approx(2 * in_16_bits.value, rel=0.01)


def test_power_by_utilisation_lies_between_idle_and_rated():
    def watts(used):
        doc = answer(hardware="nvidia-h100-sxm5-80", hours=1, host=False, utilisation=used)
        return doc.energy_kwh.value * 1000

    idle = CATALOG.hardware("nvidia-h100-sxm5-80").idle.value
    assert watts(0) == pytest.approx(idle)
    assert watts(1) == pytest.approx(700)
    assert watts(0.5) == pytest.approx((idle + 700) / 2)


def test_a_part_without_published_power_is_unknown_not_zero():
    part = next(h for h in CATALOG.all_hardware() if h.tdp_w is None)
    doc = answer(hardware=part.id, hours=10, zone="DE")
    assert doc.energy_kwh is None
    assert doc.total_g is None
    assert doc.conformance == "not-sci"
    assert "energy-unmeasured" in {notice.code for notice in doc.notices}


def test_without_zone_or_intensity_it_is_no_sci():
    doc = answer(hardware="nvidia-l4", hours=10)
    assert doc.conformance == "not-sci"
    assert doc.intensity_g_per_kwh.value == CATALOG.world().intensity.value


def test_everything_declared_and_placed_conforms():
    doc = answer(hardware="nvidia-l4", hours=10, zone="SE", pue=1.1)
    assert (doc.conformance, doc.deviations) == ("conforming", [])


def test_embodied_and_lifetime_given_win():
    doc = answer(
        hardware="nvidia-l4",
        hours=8760,
        zone="SE",
        pue=1.1,
        host=False,
        embodied_kg_per_device=100,
        lifetime_years=5,
    )
    assert doc.embodied_g.value == pytest.approx(100_000 / 5)
    assert doc.embodied_g.low == doc.embodied_g.high


def test_every_input_is_shown_with_its_source():
    doc = answer(hardware="nvidia-l4", hours=10, zone="SE")
    shown = {row.what for row in doc.method.inputs}
    assert {
        "power of a device",
        "host power over device power",
        "TE, embodied carbon of a device",
        "TE, host share of a device",
        "EL, expected lifetime",
        "carbon intensity of the grid",
        "PUE",
    } == shown
    assert all(row.figure.source for row in doc.method.inputs)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"zone": "DE"}, "missing-field"),
        ({"hardware": "nvidia-l4", "kind": "inference", "tokens": 1e9}, "missing-field"),
        ({"hardware": "nvidia-l4", "kind": "inference"}, "missing-field"),
        ({"hardware": "nvidia-l4", "requests": 3, "tokens": 1e9}, "conflicting-fields"),
        ({"hours": 3}, "missing-field"),
        ({"hardware": "nvidia-l4", "hours": 3, "colour": "red"}, "unknown-field"),
        ({"hardware": "nvidia-l4", "hours": -3}, "bad-field"),
        ({"hardware": "nvidia-l4", "hours": True}, "bad-field"),
        ({"hardware": "nvidia-l4", "hours": 3, "pue": 0.5}, "bad-field"),
        ({"hardware": "nvidia-l4", "hours": 3, "units": {"token": 0}}, "bad-field"),
        ({"hardware": "nvidia-l4", "hours": 3, "precision": "fp2"}, "bad-field"),
        ({"hardware": "nvidia-l4", "instance": "aws:x", "hours": 3}, "conflicting-fields"),
        (
            {"hardware": "nvidia-l4", "zone": "DE", "region": "aws:x", "hours": 3},
            "conflicting-fields",
        ),
        ({"hardware": "nvidia-l4", "model_parameters": 7e9}, "missing-field"),
    ],
)
def test_a_question_without_a_meaning_is_refused(question, code):
    with pytest.raises(ScoreError) as caught:
        parse_estimate_request(question)
    assert caught.value.code == code


def test_unknown_and_ambiguous_names_are_refused_with_help():
    with pytest.raises(LookupFailed) as caught:
        answer(hardware="nvidia-h100-sxm5-8", hours=1)
    assert "nvidia-h100-sxm5-80" in caught.value.close
    with pytest.raises(AmbiguousName) as ambiguous:
        answer(hardware="A100", hours=1)
    assert "nvidia-a100-sxm4-80" in ambiguous.value.choices
    with pytest.raises(LookupFailed):
        answer(hardware="nvidia-l4", hours=1, zone="ATLANTIS")
