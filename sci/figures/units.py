"""All unit conversions. Figures are kept in J, g and s; kWh, kg and h are for input and output."""

from __future__ import annotations

J_PER_KWH = 3_600_000.0
G_PER_KG = 1_000.0
S_PER_HOUR = 3_600.0
HOURS_PER_YEAR = 8_760.0
"""One year of installed life, 365 days, as in the SCI guide (4 years = 35 040 h)."""
S_PER_YEAR = HOURS_PER_YEAR * S_PER_HOUR
BYTES_PER_GIB = float(2**30)
BYTES_PER_MIB = float(2**20)
MM2_PER_CM2 = 100.0
W_PER_KW = 1_000.0
MW_PER_W = 1_000.0
MJ_PER_J = 1_000.0
"""Millijoules (not megajoules) per joule: the unit of NVML's energy counter."""
UJ_PER_J = 1_000_000.0
"""International avoirdupois pound."""
FLOP_PER_TFLOP = 1e12


def kwh_from_j(energy_j: float) -> float:
    """Convert energy [J] to [kWh]."""
    return energy_j / J_PER_KWH


def j_from_kwh(energy_kwh: float) -> float:
    """Convert energy [kWh] to [J]."""
    return energy_kwh * J_PER_KWH


def g_from_kg(mass_kg: float) -> float:
    """Convert mass [kg] to [g]."""
    return mass_kg * G_PER_KG


def kg_from_g(mass_g: float) -> float:
    """Convert mass [g] to [kg]."""
    return mass_g / G_PER_KG


def s_from_h(hours: float) -> float:
    """Convert duration [h] to [s]."""
    return hours * S_PER_HOUR


def h_from_s(duration_s: float) -> float:
    """Convert duration [s] to [h]."""
    return duration_s / S_PER_HOUR


def s_from_years(years: float) -> float:
    """Convert duration [years of 8760 h] to [s]."""
    return years * S_PER_YEAR


def w_from_mw(power_mw: float) -> float:
    """Convert power [mW], as NVML reports it, to [W]."""
    return power_mw / MW_PER_W


def j_from_mj(energy_mj: float) -> float:
    """Convert energy [mJ], as NVML counts it, to [J]."""
    return energy_mj / MJ_PER_J


def j_from_uj(energy_uj: float) -> float:
    """Convert energy [uJ], as powercap counts it, to [J]."""
    return energy_uj / UJ_PER_J


def mj_from_uj(energy_uj: float) -> float:
    """Convert energy [uJ] to [mJ], the unit of `energy_mj` in collectors/devices/board.py."""
    return energy_uj * MJ_PER_J / UJ_PER_J


def mw_from_w(power_w: float) -> float:
    """Convert power [W] to [mW], the unit of `power_mw` in collectors/devices/board.py."""
    return power_w * MW_PER_W


def mw_from_uw(power_uw: float) -> float:
    """Convert power [uW], as hwmon and amdsmi's limits have it, to [mW]."""
    return power_uw * MW_PER_W / UJ_PER_J


def bytes_from_mib(size_mib: float) -> float:
    """Convert memory [MiB] to [B]."""
    return size_mib * BYTES_PER_MIB


def gib_from_bytes(size_b: float) -> float:
    """Convert memory [B] to [GiB]."""
    return size_b / BYTES_PER_GIB


def mib_from_bytes(size_b: float) -> float:
    """Convert memory [B] to [MiB]."""
    return size_b / BYTES_PER_MIB


def cm2_from_mm2(area_mm2: float) -> float:
    """Convert area of silicon [mm2] to [cm2]."""
    return area_mm2 / MM2_PER_CM2


def flop_per_s_from_tflops(rate_tflops: float) -> float:
    """Convert rate [TFLOPS] to [FLOP/s]."""
    return rate_tflops * FLOP_PER_TFLOP
