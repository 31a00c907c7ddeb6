"""Unit conversions, each against a figure worked out by hand and against its inverse."""

import pytest

from gramwatt.sci.figures import units


def test_known_figures():
    assert units.kwh_from_j(3_600_000) == 1  # 1 kW for 1 h
    assert units.j_from_kwh(0.5) == 1_800_000
    assert units.kg_from_g(164_000) == 164
    assert units.g_from_kg(0.25) == 250
    assert units.h_from_s(5400) == 1.5
    assert units.s_from_years(4) == 126_144_000  # 4 x 8760 h x 3600 s, the SCI guide's figure
    assert units.w_from_mw(300_000) == 300
    assert units.j_from_mj(1_500) == 1.5
    assert units.gib_from_bytes(80 * 2**30) == 80


@pytest.mark.parametrize("value", [0.0, 1e-9, 1.0, 12345.678, 1e12])
def test_there_and_back(value):
    assert units.j_from_kwh(units.kwh_from_j(value)) == pytest.approx(value)
    assert units.g_from_kg(units.kg_from_g(value)) == pytest.approx(value)
    assert units.s_from_h(units.h_from_s(value)) == pytest.approx(value)
