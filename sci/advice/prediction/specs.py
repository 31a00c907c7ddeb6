"""What the time model needs of a part: peak rates, memory bandwidth and rated power.

Every figure is the catalog's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.catalog.hardware import Hardware, Peak

RATES: Mapping[str, str] = {
    **dict.fromkeys(("fp16", "bf16", "mixed", "q4", "int4"), "half"),
    **dict.fromkeys(("fp8", "int8", "fp4"), "eighth"),
    **dict.fromkeys(("tf32", "fp32", "unstated"), "single"),
}
"""Which peak rate a precision runs at. Four-bit weights compute in half precision; FP4 results are
few and count with the 8-bit rate. FP32 counts with TF32 where the part has it, as frameworks do;
so do rows whose source does not state the precision (the Zeus trace)."""
TENSOR_ONLY = 4.0
"""Half over single peak rate above which the single rate is that of plain cores: TF32 is half."""


@dataclass(frozen=True, slots=True)
class Specs:
    """Peak dense rates [TFLOPS], bandwidth [GB/s] and rated power [W]; None where not known."""

    id: str
    half: float | None
    eighth: float | None
    single: float | None
    bandwidth_gbs: float | None
    tdp_w: float | None

    @property
    def has_tf32(self) -> bool:
        """Whether single precision runs on the matrix engine: at half the rate of 16 bits."""
        return bool(self.half and self.single and self.half / self.single < TENSOR_ONLY)

    def peak(self, precision: str) -> float | None:
        """The peak rate [TFLOPS] at which a precision runs, the next wider one where it lacks."""
        order = {
            "half": (self.half, self.single),
            "eighth": (self.eighth, self.half, self.single),
            "single": (self.single, self.half),
        }
        return next((rate for rate in order[RATES[precision]] if rate), None)


def specs_of(part: Hardware) -> Specs:
    """The figures of a catalog part."""
    rates = part.peak
    return Specs(
        part.id,
        rates.fp16_tensor or rates.bf16_tensor,
        _eighth(rates),
        rates.tf32 or rates.fp32,
        part.memory_bandwidth_gbs,
        part.tdp_w,
    )


def all_specs(catalog: Catalog) -> Mapping[str, Specs]:
    """The figures of every part by id."""
    return {part.id: specs_of(part) for part in catalog.all_hardware()}


def _eighth(rates: Peak) -> float | None:
    known = [rate for rate in (rates.fp8, rates.int8_tops) if rate]
    return max(known) if known else None
