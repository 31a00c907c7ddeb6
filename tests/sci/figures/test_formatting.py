"""Figures as printed: digits, prefixes and ranges."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.figures.formatting import (
    NARROW_SPACE,
    UNKNOWN,
    all_digits,
    count_text,
    duration,
    number,
    percent,
    plain,
    shown,
    span_text,
    text,
    value_text,
)
from gramwatt.sci.figures.quantity import Quantity


def figure(value, low, high, unit="kWh"):
    return Quantity(value, low, high, unit, "measured", "y")


@pytest.mark.parametrize(
    ("doc", "printed"),
    [
        (figure(0.0133333, 0.0120833, 0.0145833), "13 Wh (12 to 15)"),
        (figure(1234.5, 1200, 1270), "1.23 MWh (1.20 to 1.27)"),
        (figure(5.4337, 3.126, 8.0961, "gCO2e"), "5.4 g CO2e (3.1 to 8.1)"),
        (figure(0.0054, 0.0031, 0.0081, "gCO2e/image"), "5.4 mg CO2e/image (3.1 to 8.1)"),
        (figure(2_300_000, 2e6, 3e6, "gCO2e"), "2.3 t CO2e (2.0 to 3.0)"),
        (figure(0.0, 0.0, 0.0, "gCO2e"), "0 g CO2e"),
        (figure(1.1, 1.1, 1.1, "1"), "1.1"),
        (figure(342.06, 222.3, 461.8, "gCO2e/kWh"), "340 gCO2e/kWh (220 to 460)"),
        (figure(42_000, 39_900, 44_100, "J"), "42.0 kJ (39.9 to 44.1)"),
        (figure(0, 0, 0.002, "kWh"), "0 Wh (0 to 2.0)"),
        (figure(8.1e-10, 4e-10, 2e-9), "0.81 µWh (0.40 to 2.0)"),
        (figure(4.2e-7, 2e-7, 8e-7), "420 µWh (200 to 800)"),
        (figure(5.7e-6, 4e-6, 8e-6), "0.0057 Wh (0.0040 to 0.0080)"),
        (figure(9.996e-7, 5e-7, 2e-6, "gCO2e"), "1.0 µg CO2e (0.50 to 2.0)"),
    ],
)
def test_printed_as(doc, printed):
    assert text(doc).replace(NARROW_SPACE, " ").replace("\u00a0", " ") == printed


def test_an_unknown_figure_says_so():
    assert text(None) == value_text(None) == UNKNOWN
    assert span_text(None) == ""


def test_value_and_range_share_a_unit():
    doc = figure(1.5, 0.9, 1200)
    assert value_text(doc).endswith("kWh")
    assert span_text(doc).replace(NARROW_SPACE, " ").endswith("kWh")


@given(st.floats(1e-9, 1e12), st.floats(0, 0.9), st.floats(0, 3))
def test_no_more_digits_than_the_range_supports(value, below, above):
    low, high = value * (1 - below), value * (1 + above)
    printed = shown(figure(value, low, high)).value
    digits = re.sub(r"e.*", "", printed).replace(".", "").replace(NARROW_SPACE, "").strip("0")
    spread = (high - low) / 2 / value
    assert len(digits) <= (4 if spread < 0.0051 else 3 if spread < 0.051 else 2)


@given(st.floats(1e-9, 1e11), st.integers(2, 4))
def test_the_printed_number_is_the_number(value, digits):
    printed = float(number(value, digits).replace(NARROW_SPACE, ""))
    assert printed == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


def test_small_shares_are_not_nothing():
    assert percent(0.004) == f"<1{NARROW_SPACE}%"
    assert percent(0) == f"0{NARROW_SPACE}%"
    assert percent(0.128) == f"13{NARROW_SPACE}%"
    # Not the nine tenths from which on a sum is measured, nor the whole.
    assert [plain(percent(share)) for share in (0.896, 0.9, 0.9999)] == ["89.6 %", "90 %", "99.9 %"]


def test_a_whole_count_keeps_every_digit():
    assert count_text(1_281_167) == f"1{NARROW_SPACE}281{NARROW_SPACE}167"
    assert count_text(0.5) == "0.5"
    assert count_text(1_234_567.25).replace(NARROW_SPACE, " ") == "1 234 567"
    assert count_text(99_999.25).replace(NARROW_SPACE, " ") == "99 999.2"
    assert count_text(9e14).replace(NARROW_SPACE, "") == "9" + 14 * "0"
    assert count_text(9e29) == "9e+29"
    assert [all_digits(value) for value in (1_234_567.0, 0.1 + 0.2, 1e20, 1_234_567.25)] == [
        *("1234567", "0.3", "1" + 20 * "0", "1234567.25")
    ]


def test_durations():
    assert duration(20.5) == f"20.5{NARROW_SPACE}s"
    assert duration(61) == "1 min 1 s"
    assert duration(7_260) == "2 h 1 min"
    assert duration(90 * 86_400 + 7200) == "90 d 2 h"
    assert duration(None) == UNKNOWN
